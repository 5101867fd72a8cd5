/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend whose work runs late: it stores what is enqueued, and the cpu backend computes the stored work when the host waits for the
 * work, or in a slow thread. Until a copy runs, late neither reads nor writes the host memory of the copy. Device memory is a handle and no
 * address; it is poisoned when it is allocated, and again when it was freed and no enqueued work uses it any more.
 */
#ifndef CG_LATE_H
#define CG_LATE_H

#include <stddef.h>

enum late_when { LATE_WAITED_FOR, LATE_BY_THREAD };
/* Sets when the work runs, for queues that are opened from now on. */
void late_runs(enum late_when);
/* The first breach of a rule since late_mistake() was called last, as a text; NULL: late found none. */
const char *late_mistake(void);
/* The number of enqueued copies from this host memory, or to it. */
int  late_uses(const void *host, size_t bytes);
/* A function for counted_watch(): freeing host memory that an enqueued copy uses is a mistake. */
void late_look(const void *host, size_t bytes);
/* The number of commands that are enqueued on all queues. */
long late_enqueued(void);
/* Sets the least time of a build, so that two builds that are not kept apart overlap. */
void late_builds_take(unsigned microseconds);
/* The number of builds that began since late_builds() was called last. */
long late_builds(void);
/* The number of devices, queues, blocks of device memory and built modules that were not released. */
long late_held(void);

#endif
