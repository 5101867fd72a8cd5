/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads numbers, such as the size of a cache, from files of the system, and finds the size of the machine's free memory.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/bench/bench.h"
#include "command/file.h"

double machine_number(const char *path, const char *key, double unit)
{
	char *text, *at;
	double n = -1;

	if (access(path, R_OK) || file_text(path, 0, 1 << 16, &text))
		return -1;
	at = strstr(text, key);
	if (at && (at[strlen(key)] == ' ' || !*key))
		n = strtod(at + strlen(key), &at) * unit;
	cg_memory(text, 0);
	return n > 0 ? n : -1;
}

double machine_memory(void)
{
	double most = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	double free = machine_number("/proc/meminfo", "MemAvailable:", 1024);
	double limit = machine_number("/sys/fs/cgroup/memory.max", "", 1);

	if (free > 0 && free < most)
		most = free;
	return limit > 0 && limit < most ? limit : most;
}
