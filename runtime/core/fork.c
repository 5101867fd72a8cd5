/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts forks, in the child process: contexts that were opened before a fork must not be used in the child.
 */
#include <pthread.h>

#include "runtime/core/core.h"

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int forks;

static void forked(void)
{
	forks++;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

int cg_fork_count(void)
{
	pthread_once(&fork_once, watch_forks);
	return forks;
}
