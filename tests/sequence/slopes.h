/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of networks against central differences of what forward answers, in f64.
 */
#ifndef SLOPES_H
#define SLOPES_H

#include "tests/sequence/guarded_network.h"

/* How far differences may be off; and the largest so far. */
struct slopes { long checked; double worst; };

/*
 * All gradients of an opened network, whose inputs stand: along a direction drawn for each array, and of `each` elements of it, or
 * of all when each is 0.  The state is for what is drawn.
 */
void slopes_check(struct network *, unsigned long long *state, int64_t each, struct slopes *);

#endif
