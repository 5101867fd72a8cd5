/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator that counts the host memory that the library holds. It poisons a block before it frees it, and moves every block that
 * grows, so that code that still reads the old block reads nonsense. A test may inspect each block before it is freed.
 */
#ifndef COUNTED_H
#define COUNTED_H

#include <stddef.h>

/* To be called before anything else of the library; it ends the program where that is refused. */
void counted_begin(void);
/* Fails the test unless the library holds nothing but its built-in cells, which it keeps to the end of the process. */
void counted_nothing_left(void);
/* The same as the last test of a program; what closes the others' objects is its setup. */
void test_nothing_left(void **state);
/* look is called with each block before it is given back or moved; NULL: nobody. */
void counted_watch(void (*look)(const void *block, size_t bytes));

#endif
