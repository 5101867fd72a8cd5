/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator that counts what the library holds of the host's memory.  A block that is given back is poisoned first, and one that
 * grows moves, so that who still reads it reads nonsense; a test may look at each before.
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
