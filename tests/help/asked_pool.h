/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A caller's thread pool that counts its calls, and notes whether one had a wrong number of parts. The parts run one after the other, on
 * any machine, unless a test runs them itself.
 */
#ifndef ASKED_POOL_H
#define ASKED_POOL_H

#include "runtime/cellgrad.h"

typedef void pool_part(void *arg, int k);
typedef void pool_run(void *asked, int parts, pool_part *part, void *arg);

/* The number of threads of a pool, and of the calls that it has got; too_many: set if a call had more parts than threads, or none. */
struct asked { int threads, calls, too_many; };

/* Counts a call of so many parts; a test's own pool_run calls it. */
void note_parts(struct asked *asked, int parts);
/* Runs the parts one after the other. */
pool_run run_in_order;
/* Makes a pool with as many threads as `asked` has; `asked` becomes the pool's `user`. */
struct cg_pool make_pool(pool_run *run, struct asked *asked);

#endif
