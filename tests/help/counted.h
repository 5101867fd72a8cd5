/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator that counts the host memory that the library holds. The allocator poisons a block before it frees the block, and moves a
 * block whose size changes, so that code that still reads the old block reads nonsense. A test may inspect each block before it is freed.
 */
#ifndef COUNTED_H
#define COUNTED_H

#include <stddef.h>

/* To be called before any other call of the library; ends the program if the library refuses the allocator. */
void counted_begin(void);
/* Fails the test unless the library holds no memory but that of its built-in cells, which it keeps until the process ends. */
void counted_nothing_left(void);
/* test_nothing_left() is a test function that calls counted_nothing_left(); it must be the last test of a program.  A program may give
 * this test a setup function, which closes objects that the other tests have left open or checks other memory. */
void test_nothing_left(void **state);
/* Sets a function `look` that is called with each block before it is freed or moved; NULL: none is called. */
void counted_watch(void (*look)(const void *block, size_t bytes));

#endif
