/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend whose work runs late: it stores what is enqueued, and the cpu backend computes it when the host waits for it, or a slow
 * thread does. Until then the host's side of a copy is neither read nor written. Device memory is a handle and no address; it is
 * poisoned when it is allocated, and again when it was freed and no enqueued work uses it any more.
 */
#ifndef CG_LATE_H
#define CG_LATE_H

#include <stddef.h>

enum late_when { LATE_WAITED_FOR, LATE_BY_THREAD };
/* When the work of queues runs that are made from now on. */
void late_runs(enum late_when);
/* What was done wrong first since the last call, in words; NULL: nothing. */
const char *late_mistake(void);
/* Copies that are enqueued from this memory of the host, or to it. */
int  late_uses(const void *host, size_t bytes);
/* For counted_watch(): giving back memory that a copy uses is a mistake. */
void late_look(const void *host, size_t bytes);
/* Commands that are enqueued on all queues. */
long late_enqueued(void);
/* How long a build takes at least: so that two at a time meet. */
void late_builds_take(unsigned microseconds);
/* Functions built since the last call. */
long late_builds(void);
/* Devices, queues, blocks of device memory and built functions that are out. */
long late_held(void);

#endif
