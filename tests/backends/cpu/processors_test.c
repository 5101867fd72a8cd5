/*
 * A thread leaves the processor of another, stays away from it, comes back when it has to leave the next, and keeps to what others set.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sched.h>
#include <string.h>
#include <cmocka.h>

#include "backends/cpu/processors.h"

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
	/* Where it is not, there is nothing to leave. */
	cg_avoid_processor(&avoided, first);
	assert_int_equal(avoided.processor, first);
	assert_true(may_run_on(second));
	cg_avoid_processor(&avoided, second);
	assert_true(may_run_on(first) && !may_run_on(second));
}

/* One that is not known is not left, nor the only one that somebody else allows. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),
#ifdef CPU_COUNT
		cmocka_unit_test_setup_teardown(test_leaves, keep_all, restore_all),
		cmocka_unit_test_setup_teardown(test_stays, keep_all, restore_all),
#endif
	};

	return cmocka_run_group_tests_name("processors", tests, NULL, NULL);
}
