/* SPDX-License-Identifier: Apache-2.0 */
/*
 * starts ROUNDS COMMAND...: runs the command ROUNDS times with no backend named and, in turn, with CELLGRAD_BACKEND=cpu. Prints four
 * numbers of microseconds: the least elapsed time with no backend named, and that with cpu; then the least processor times of both, which
 * other processes affect less.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long microseconds(const struct timeval *t)
{
	return (long)t->tv_sec * 1000000 + (long)t->tv_usec;
}

static int run(char **command, long *took, long *computed)
{
	struct timespec before, after;
	struct rusage usage;
	int status;
	pid_t child;
	long n;

	clock_gettime(CLOCK_MONOTONIC, &before);
	child = fork();
	if (!child) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(127);
		execv(command[0], command);
		_exit(127);
	}
	if (wait4(child, &status, 0, &usage) != child || status)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &after);
	n = (after.tv_sec - before.tv_sec) * 1000000L + (after.tv_nsec - before.tv_nsec) / 1000;
	if (!*took || n < *took)
		*took = n;
	n = microseconds(&usage.ru_utime) + microseconds(&usage.ru_stime);
	if (!*computed || n < *computed)
		*computed = n;
	return 0;
}

int main(int argc, char **argv)
{
	long took[2] = { 0, 0 }, computed[2] = { 0, 0 };

	if (argc < 3)
		return 2;
	for (int k = 0; k < 2 * atoi(argv[1]); k++) {
		if (k % 2)
			setenv("CELLGRAD_BACKEND", "cpu", 1);
		else
			unsetenv("CELLGRAD_BACKEND");
		if (run(argv + 2, &took[k % 2], &computed[k % 2]))
			return 1;
	}
	printf("%ld %ld %ld %ld\n", took[0], took[1], computed[0], computed[1]);
	return 0;
}
