/* SPDX-License-Identifier: Apache-2.0 */
/* The processors that threads run on. */
#ifndef CG_PROCESSORS_H
#define CG_PROCESSORS_H

/* Processors that this process may run on. */
int cg_count_processors(void);
/* Of n processors as many as the quotas of the process's control groups (Linux's cgroups, version 2 or 1) pay for, at least 1; all where
 * there are none.  root: of the system's files, "" but in tests. */
int cg_limit_by_quota(const char *root, int n);
/* The one that the calling thread runs on; -1: not known. */
int cg_get_processor(void);

/* What a thread has done with its own processors: zeros before the first call. */
struct cg_avoided {
	int any, processor;                      /* is one left out, and which */
	unsigned char mask[2048];                /* what was set then */
};
/* Moves the calling thread to another of its processors, if it runs on this one and may run on others, and keeps it away from there until
 * it has to avoid another one.  What somebody else set meanwhile stays. */
void cg_avoid_processor(struct cg_avoided *, int processor);

#endif
