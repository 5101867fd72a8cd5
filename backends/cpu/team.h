/* SPDX-License-Identifier: Apache-2.0 */
/* A small team of threads that shares out the parts of calls. */
#ifndef CG_TEAM_H
#define CG_TEAM_H

#include <stdint.h>

#include "runtime/device/backend.h"

struct cg_team;

/* A team of that many threads, the caller's among them.  One of 1 is NULL, and everything below takes it. */
int  cg_team_open(int threads, struct cg_team **);
/* A team that runs in a pool of somebody else's threads and has none of its own. */
int  cg_team_pool(const struct cg_pool *, struct cg_team **);
/* No call is running. */
void cg_team_close(struct cg_team *);
int  cg_team_threads(const struct cg_team *);
/* Calls part(context, k, thread) once for each k < parts, in any order and on any of the threads; returns when all have.  thread
 * numbers those that take part, from 0 to less than parts and threads.  Several threads may call at once: each has the helpers that
 * were idle when its call began. */
void cg_team_run(struct cg_team *, int64_t parts, void (*part)(void *context, int64_t k, int thread), void *context);

/* Calls part(context, phase, share, thread) once for each share of each phase; a phase begins when all shares of the one before it are
 * done.  A share is the same thread's in every phase, unless that thread is late: then another takes it.  The caller lends shares + 1
 * counts. */
struct cg_team_count { _Alignas(64) _Atomic int64_t n; };
void cg_team_run_phases(struct cg_team *, int shares, int64_t phases, struct cg_team_count *counts,
                        void (*part)(void *context, int64_t phase, int share, int thread), void *context);

#endif
