/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A caller's thread pool that records each request; its parts run one after the other, on any machine, unless a test runs them
 * itself.
 */
#ifndef ASKED_POOL_H
#define ASKED_POOL_H

#include "runtime/cellgrad.h"

typedef void pool_part(void *arg, int k);
typedef void pool_run(void *asked, int parts, pool_part *part, void *arg);

/* The requests to a pool of so many threads. */
struct asked { int threads, calls, too_many; };

/* To be called by a run: counts a call of so many parts. */
void note_parts(struct asked *asked, int parts);
/* Runs the parts one after the other. */
pool_run run_in_order;
/* The pool with these threads, whose `user` is `asked`. */
struct cg_pool make_pool(pool_run *run, struct asked *asked);

#endif
