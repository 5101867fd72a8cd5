/* SPDX-License-Identifier: Apache-2.0 */
/* Declares how processors are counted, and how a thread moves to another processor. */
#ifndef CG_PROCESSORS_H
#define CG_PROCESSORS_H

/* The number of processors that the calling thread may run on; where the system does not tell, that of the processors that are online. */
int cg_count_processors(void);
/* The number of processors, at most n and at least 1, whose time the quotas of the process's control groups (Linux's cgroups, version 2 or
 * 1) cover; a part of a processor counts as one; n without quotas.  root: a prefix of system paths, "" except in tests. */
int cg_limit_by_quota(const char *root, int n);
/* The processor on which the calling thread runs; -1: unknown. */
int cg_get_processor(void);

/* The change that a thread has made to its affinity mask by cg_avoid_processor(): zeros before the thread's first call of that function. */
struct cg_avoided {
	int any, processor;                      /* any 1: a processor is left out of the mask; processor: which one */
	unsigned char mask[2048];                /* the affinity mask without that processor, which the thread has set */
};
/* If the calling thread runs on processor number `processor` and may run on others, moves the thread to another processor and keeps the
 * thread off number `processor` until the thread has to avoid a different one.  If other code has set another affinity mask meanwhile,
 * the processor that was avoided before is not put back into the mask.  Without cpu_set_t nothing happens. */
void cg_avoid_processor(struct cg_avoided *, int processor);

#endif
