/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of networks against central differences of the forward pass, in f64.
 */
#ifndef SLOPES_H
#define SLOPES_H

#include "tests/sequence/guarded_network.h"

/* The number of comparisons, and the largest quotient so far of an error and its tolerance. */
struct slopes { long checked; double worst; };

/*
 * Checks the gradients of an opened network by each of four arrays, its input, initial h, initial c and params: along a random direction,
 * and by `each` random elements of the array, or by all of them if `each` is 0 or not below their number. Absent arrays and padding are
 * left out. state: the state of the random numbers.
 */
void slopes_check(struct network *, unsigned long long *state, int64_t each, struct slopes *);

#endif
