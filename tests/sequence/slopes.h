/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of networks against central differences of the forward pass, in f64.
 */
#ifndef SLOPES_H
#define SLOPES_H

#include "tests/sequence/guarded_network.h"

/* The number of comparisons, and the largest error so far over its tolerance. */
struct slopes { long checked; double worst; };

/*
 * Checks all gradients of an opened network with its current inputs: along a random direction for each array, and for `each`
 * elements of it, or all where that is 0. The state is for what is drawn.
 */
void slopes_check(struct network *, unsigned long long *state, int64_t each, struct slopes *);

#endif
