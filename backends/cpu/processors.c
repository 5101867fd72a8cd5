/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the processors that threads may run on, by the affinity mask and by the quotas of control groups, and moves a thread to another
 * processor.  Linux may wake a thread on the processor of the thread that wakes it, although others are idle: on virtual machines Linux
 * takes a sleeping processor for one that the host has taken away.  The waking and the woken thread then share one processor until Linux
 * balances the load, some fifty milliseconds later.  So the woken thread moves itself to another processor.
 */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/cpu/processors.h"
#include "backends/cpu/team.h"

#ifdef CPU_COUNT_S
typedef cpu_set_t processor_set[2048 / sizeof(cpu_set_t)];       /* 16384 processors */
_Static_assert(sizeof(processor_set) == sizeof ((struct cg_avoided *)0)->mask,
               "an affinity mask in struct cg_avoided has as many bytes as a processor_set");
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

/* ---- quotas of control groups ---- */

enum { PATH = 4352 };                    /* bytes of a control group's path; groups with longer paths are ignored */

/* Reads two numbers from the file `first`, or, if `second` is not NULL, one number from each of the two files.  Returns 1 if
 * read_two() has read two numbers and both are above zero. */
static int read_two(const char *folder, const char *first, const char *second, double numbers[2])
{
	const char *const names[] = { first, second };
	int n = 0;

	for (int k = 0; k < 2 && names[k]; k++) {
		char path[PATH + 32];
		FILE *file;

		snprintf(path, sizeof path, "%s/%s", folder, names[k]);
		file = fopen(path, "re");
		if (!file)
			return 0;
		n += fscanf(file, "%lf", &numbers[n]) == 1;
		if (!second)
			n += fscanf(file, "%lf", &numbers[1]) == 1;
		fclose(file);
	}
	return n == 2 && numbers[0] > 0 && numbers[1] > 0;
}

/* The number of processors, at most n, whose time the quota of one control group covers; a part of a processor counts as one.  "max" and -1
 * mean no quota. */
static int limit_by_group(const char *folder, int n)
{
	double quota[2] = { 0, 0 };

	if (!read_two(folder, "cpu.max", NULL, quota) && !read_two(folder, "cpu.cfs_quota_us", "cpu.cfs_period_us", quota))
		return n;
	return quota[0] / quota[1] < n ? (int)ceil(quota[0] / quota[1]) : n;
}

/* Limits n by the quotas of the control group that a line "ID:CONTROLLERS:PATH" names, and of the groups that contain that group.  A line
 * of other controllers than cpu limits nothing. */
static int limit_by_line(const char *root, char *line, int n)
{
	char *controllers = strchr(line, ':'), *path = controllers ? strchr(++controllers, ':') : NULL, folder[PATH];
	size_t base;

	if (!path)
		return n;
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	if (*controllers && strncmp(controllers, "cpu,", 4) && strcmp(controllers, "cpu"))
		return n;
	base = (size_t)snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s", root, *controllers ? "/cpu" : "");
	if (base + strlen(path) >= sizeof folder)
		return n;
	for (strcpy(folder + base, path); ; *strrchr(folder, '/') = '\0') {
		n = limit_by_group(folder, n);
		if (strlen(folder) <= base)
			return n;
	}
}

int cg_limit_by_quota(const char *root, int n)
{
	char line[PATH];
	FILE *file;

	snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
	file = fopen(line, "re");
	while (file && fgets(line, sizeof line, file))
		n = limit_by_line(root, line, n);
	if (file)
		fclose(file);
	return n;
}

/* ---- moving ---- */

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
