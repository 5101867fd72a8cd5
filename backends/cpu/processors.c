/*
 * The processors that threads run on.  A kernel may wake a thread on the processor of the one that wakes it although others are idle: on
 * virtual machines it takes a processor that sleeps for one that the host has taken away.  Both then share one processor until the load
 * is balanced, some fifty milliseconds later; so the thread that was woken goes elsewhere by itself.
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "backends/cpu/processors.h"
#include "backends/cpu/team.h"

#ifdef CPU_COUNT_S
typedef cpu_set_t processor_set[2048 / sizeof(cpu_set_t)];       /* 16384 processors */
_Static_assert(sizeof(processor_set) == sizeof ((struct cg_avoided *)0)->mask, "a mask is a set");
#endif

int cg_count_processors(void)
{
#ifdef CPU_COUNT_S
	processor_set set;

	if (!sched_getaffinity(0, sizeof set, set))
		return CPU_COUNT_S(sizeof set, set);
#endif
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > CG_THREADS_MAX ? CG_THREADS_MAX : (int)n;
}

#ifdef CPU_COUNT_S
int cg_get_processor(void)
{
	return sched_getcpu();
}

void cg_avoid_processor(struct cg_avoided *avoided, int processor)
{
	processor_set set;

	if (processor < 0 || sched_getcpu() != processor || sched_getaffinity(0, sizeof set, set))
		return;
	if (avoided->any && !memcmp(set, avoided->mask, sizeof set))
		CPU_SET_S((size_t)avoided->processor, sizeof set, set);
	CPU_CLR_S((size_t)processor, sizeof set, set);
	if (!CPU_COUNT_S(sizeof set, set) || sched_setaffinity(0, sizeof set, set))
		return;
	avoided->any = 1;
	avoided->processor = processor;
	memcpy(avoided->mask, set, sizeof set);
}
#else
int cg_get_processor(void)
{
	return -1;
}

void cg_avoid_processor(struct cg_avoided *avoided, int processor)
{
	(void)avoided;
	(void)processor;
}
#endif
