/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials of networks that are the same on any backend: streams in threads, memory of the host and of the device, calls that fail.
 */
#ifndef NET_TRIALS_H
#define NET_TRIALS_H

#include "runtime/cellgrad.h"

/* All trials use this route of the networks, NULL for the best. */

/* One plan in two threads, each with a stream of its own: the same bits as in one. */
void try_streams(struct cg_context *context, const char *route);
/* Networks of all kinds, one in each thread, which open them on one context at the same time: the bits are those that each has alone,
   on a context of its own.  where: opens both contexts. */
void try_problems(const char *where, const char *route);
/* One stream for plans that differ in layout and directions, every one after every other, with the same sizes and lengths: the bits
   are those that each has on a stream of its own. */
void try_turns(struct cg_context *context, const char *route);
/* A stream that is closed while it is busy, with a network's call enqueued: the bits are the same.  Memory that the library has freed
   should be poisoned by then: see counted.h. */
void try_closing(struct cg_context *context, const char *route);
/* Each argument in host memory or in device memory: the bits are the same. */
void try_memory_spaces(struct cg_context *context, const char *route);
/* A driver whose n-th call fails, for every n of a forward and a backward: the message names the call, and the same passes over the
   same memory then give the same bits.  faults: those of the driver's watch. */
struct faults {
	long *fatal;
	const char **failed_call;
	void (*forget_calls)(void);
};
void try_faults(struct cg_context *context, const char *route, const struct faults *faults);

#endif
