/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context has one thread if its process may run on one processor alone. A thread that must avoid a processor leaves this processor, and
 * may run on this processor again once the thread must avoid another one; the thread keeps to an affinity mask that other code sets.
 * Quotas of control groups are read from folders that the test makes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backends/cpu/processors.h"
#include "runtime/cellgrad.h"

static void test_count(void **state)
{
	(void)state;
	assert_true(cg_count_processors() >= 1);
}

#ifdef CPU_COUNT
static cpu_set_t all;

static int may_run_on(int processor)
{
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
	return CPU_ISSET(processor, &set) != 0;
}

static void need_two(void)
{
	if (cg_count_processors() < 2) {
		print_message("one processor, from which no thread can go\n");
		skip();
	}
}

/* A process whose affinity mask allows one processor counts one processor, and the process's context has one thread. */
static void test_mask(void **state)
{
	struct cg_context *context;
	cpu_set_t one;

	(void)state;
	CPU_ZERO(&one);
	CPU_SET(cg_get_processor(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	assert_int_equal(cg_count_processors(), 1);
	unsetenv("CELLGRAD_CPU_THREADS");
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_non_null(strstr(cg_describe(context), "; 1 thread"));
	assert_null(strstr(cg_describe(context), "; 1 threads"));
	cg_close(context);
}

static void test_leaves(void **state)
{
	struct cg_avoided avoided = { .any = 0 };
	int first = cg_get_processor(), second;

	(void)state;
	need_two();
	cg_avoid_processor(&avoided, first);
	second = cg_get_processor();
	assert_int_not_equal(second, first);
	assert_false(may_run_on(first));
	/* A thread that does not run on the processor to avoid stays on its own processor. */
	cg_avoid_processor(&avoided, first);
	assert_int_equal(avoided.processor, first);
	assert_true(may_run_on(second));
	cg_avoid_processor(&avoided, second);
	assert_true(may_run_on(first) && !may_run_on(second));
}

/* A thread changes nothing if the processor to avoid is unknown (-1), and stays where an affinity mask that other code set allows no
   other processor. */
static void test_stays(void **state)
{
	struct cg_avoided avoided = { .any = 0 };
	int first = cg_get_processor();
	cpu_set_t one;

	(void)state;
	need_two();
	cg_avoid_processor(&avoided, -1);
	assert_int_equal(avoided.any, 0);
	cg_avoid_processor(&avoided, first);
	assert_int_not_equal(cg_get_processor(), first);
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	cg_avoid_processor(&avoided, first);
	assert_int_equal(cg_get_processor(), first);
	assert_true(may_run_on(first));
}

static int keep_all(void **state)
{
	(void)state;
	return sched_getaffinity(0, sizeof all, &all);
}

static int restore_all(void **state)
{
	(void)state;
	return sched_setaffinity(0, sizeof all, &all);
}
#endif

/* ---- quotas ---- */

static char root[] = "/tmp/processors.XXXXXX";

/* Writes a file at `path` below the test's folder `root`, and makes the folders that `path` names. */
static void put(const char *path, const char *text)
{
	char command[512];
	FILE *file;

	snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s/%s')\"", root, path);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof command, "%s/%s", root, path);
	file = fopen(command, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int clear(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof command, "rm -rf '%s'", root);
	return system(command);
}

static void test_no_quota(void **state)
{
	(void)state;
	assert_int_equal(cg_limit_by_quota(root, 8), 8);
	put("proc/self/cgroup", "");
	assert_int_equal(cg_limit_by_quota(root, 8), 8);
	put("proc/self/cgroup", "0::/a\n");
	assert_int_equal(cg_limit_by_quota(root, 8), 8);
	put("proc/self/cgroup", "\n:\n::\n0\n0:\n0:cpu\n0::abc\nno line");
	assert_int_equal(cg_limit_by_quota(root, 8), 8);
}

static void test_quota(void **state)
{
	static const struct { const char *text; int n; } limits[] = {
		{ "max 100000\n", 8 }, { "100000 100000\n", 1 }, { "100001 100000\n", 2 }, { "350000 100000\n", 4 }, { "1000 100000\n", 1 },
		{ "900000 100000\n", 8 }, { "1e300 1e-300", 8 }, { "", 8 }, { "0 100000", 8 }, { "-1 100000", 8 }, { "200000", 8 }, { "200000 x", 8 },
		{ "200000 0", 8 }, { "nan nan", 8 },
	};

	(void)state;
	put("proc/self/cgroup", "3:memory:/b\n0::/a/b\n");
	for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
		put("sys/fs/cgroup/a/b/cpu.max", limits[k].text);
		assert_int_equal(cg_limit_by_quota(root, 8), limits[k].n);
	}
	/* Of the quotas of a control group and of the groups that contain this group the smallest counts. */
	put("sys/fs/cgroup/a/b/cpu.max", "500000 100000\n");
	put("sys/fs/cgroup/a/cpu.max", "300000 100000\n");
	put("sys/fs/cgroup/cpu.max", "400000 100000\n");
	assert_int_equal(cg_limit_by_quota(root, 8), 3);
	assert_int_equal(cg_limit_by_quota(root, 2), 2);
	put("proc/self/cgroup", "0::/\n");
	assert_int_equal(cg_limit_by_quota(root, 8), 4);
}

static void test_first_version(void **state)
{
	(void)state;
	put("proc/self/cgroup", "5:cpu,cpuacct:/c\n4:cpuset:/d\n");
	put("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "250000\n");
	put("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
	put("sys/fs/cgroup/cpu/d/cpu.cfs_quota_us", "100000\n");
	put("sys/fs/cgroup/cpu/d/cpu.cfs_period_us", "100000\n");
	assert_int_equal(cg_limit_by_quota(root, 8), 3);
	put("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
	assert_int_equal(cg_limit_by_quota(root, 8), 8);
}

static int make_root(void **state)
{
	(void)state;
	strcpy(strrchr(root, '.'), ".XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),
		cmocka_unit_test_setup_teardown(test_no_quota, make_root, clear), cmocka_unit_test_setup_teardown(test_quota, make_root, clear),
		cmocka_unit_test_setup_teardown(test_first_version, make_root, clear),
#ifdef CPU_COUNT
		cmocka_unit_test_setup_teardown(test_mask, keep_all, restore_all),
		cmocka_unit_test_setup_teardown(test_leaves, keep_all, restore_all),
		cmocka_unit_test_setup_teardown(test_stays, keep_all, restore_all),
#endif
	};

	return cmocka_run_group_tests_name("processors", tests, NULL, NULL);
}
