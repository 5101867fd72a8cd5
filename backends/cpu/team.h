/* SPDX-License-Identifier: Apache-2.0 */
/* Declares a team of threads, which share the parts of a call. */
#ifndef CG_TEAM_H
#define CG_TEAM_H

#include <stdint.h>

#include "runtime/device/backend.h"

struct cg_team;

/* Opens a team of `threads` threads, the caller's included.  For one thread the team is NULL, which all functions of teams take as a team
 * of one thread. */
int  cg_team_open(int threads, struct cg_team **);
/* Makes a team that runs in a caller's thread pool and has no threads of its own. */
int  cg_team_pool(const struct cg_pool *, struct cg_team **);
/* Closes a team.  No call of cg_team_run() or cg_team_run_phases() may be running in the team. */
void cg_team_close(struct cg_team *);
int  cg_team_threads(const struct cg_team *);
/* Calls part(context, k, thread) once for each k < parts, in any order and on any of the threads, and returns when all calls have.
 * `thread` numbers the threads that take part, from 0 up; the number is less than `parts` and less than the number of threads.  Several
 * threads may call cg_team_run() at the same time; in a team with threads of its own, each call gets only threads that were idle when the
 * call began. */
void cg_team_run(struct cg_team *, int64_t parts, void (*part)(void *context, int64_t k, int thread), void *context);

/* Calls part(context, phase, share, thread) once for each share of each phase.  A phase begins when all shares of the phase before are
 * done.  In a team with threads of its own each thread takes the same share first in every phase, then shares that no thread has taken, as
 * those of a late thread.  In a caller's thread pool any thread may take a share.  Argument `counts`: memory for shares + 1 structs. */
struct cg_team_count { _Alignas(64) _Atomic int64_t n; };
void cg_team_run_phases(struct cg_team *, int shares, int64_t phases, struct cg_team_count *counts,
                        void (*part)(void *context, int64_t phase, int share, int thread), void *context);

#endif
