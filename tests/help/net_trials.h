/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials of networks, which are the same on every backend: with threads, with plans in turn, with a stream that is closed while it is busy,
 * in host memory and in device memory, and with calls of the driver that fail.
 */
#ifndef NET_TRIALS_H
#define NET_TRIALS_H

#include "runtime/cellgrad.h"

/* In all trials `route` is the networks' route, NULL for the best one. */

/* Runs one plan in two threads, each with a stream of its own: the bits are the same as in one thread. */
void try_streams(struct cg_context *context, const char *route);
/* Opens and runs eight networks, which differ in cell, dtype, sizes or memory, on one context at the same time, one in each thread: the
   bits are those that each has alone, on a context of its own. where: the name by which contexts are opened. */
void try_problems(const char *where, const char *route);
/* Runs four plans, which differ in layout and directions, on one stream, each after every other and after itself, with the same sizes and
   lengths: the bits are those that each has on a stream of its own. */
void try_turns(struct cg_context *context, const char *route);
/* Closes a stream on which a network's calls are enqueued behind a call of a larger network: the answers have the bits of calls on a
   stream that stays open. A program that runs this trial should use counted.h, which poisons memory that the library frees. */
void try_closing(struct cg_context *context, const char *route);
/* Runs a network whose arguments are in host memory, in device memory, or in eight mixtures of both: the bits are the same. */
void try_memory_spaces(struct cg_context *context, const char *route);
/* Makes the n-th call of the driver fail, for every n of a forward and a backward pass: the message names the call, and both passes over
   the same memory then give the bits of passes without a failure. faults: how to make a call of the driver fail, and which one did. */
struct faults {
	long *fatal;
	const char **failed_call;
	void (*forget_calls)(void);
};
void try_faults(struct cg_context *context, const char *route, const struct faults *faults);

#endif
