/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the block ops, rnn and rnn_backprop against the independent reference on the backend that CELLGRAD_BACKEND names: sizes, dtypes,
 * options, absent arguments, and the same bits in a second call where they are promised. verify/trial.c and network_trial.c run a trial,
 * verify/cases.c has the cases. CELLGRAD_TEST_SEED sets the seed; a failure prints the line that reproduces it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/conformance/suite_device.h"
#include "verify/network_trial.h"
#include "verify/trial.h"
#include "tests/help/counted.h"

struct plan { const struct cg_op *op; int dtype; };

static unsigned long long next_seed(void)
{
	static unsigned long long count;

	return seed_of_run + 7919 * ++count;
}

/* Fails with the line that reproduces the case. */
static void report(const struct finding *f, const struct fields *fields)
{
	char line[FIELD_LINE];

	field_line(fields, line);
	print_message("# %s\n# cellgrad check %s\n# CELLGRAD_TEST_SEED=%llu repeats the run\n", f->text, line, seed_of_run);
	fail();
}

/* Runs a trial and returns its largest error, divided by the tolerance. */
static long double run(struct trial *t)
{
	struct fields fields;
	struct finding f;

	t->seed = next_seed();
	if (trial_run(t, &side, 1, &f))
		fail_msg("%s", cg_message());
	if (f.kind) {
		trial_fields(t, &fields);
		report(&f, &fields);
	}
	return f.worst;
}

static long double run_network(struct network_trial *t)
{
	struct fields fields;
	struct finding f;

	t->seed = next_seed();
	if (network_trial_run(t, &side, 1, &f))
		fail_msg("%s", cg_message());
	if (f.kind) {
		network_fields(t, &fields);
		report(&f, &fields);
	}
	return f.worst;
}

/* Skips the tests of a dtype that the device lacks, unless CELLGRAD_TEST_REQUIRE has the backend. */
static void skip_lacking(const struct plan *p)
{
	const char *required = getenv("CELLGRAD_TEST_REQUIRE"), *backend = getenv("CELLGRAD_BACKEND");

	if (cg_supports(side.context, p->op->name, p->dtype) != CG_UNSUPPORTED || (required && backend && strstr(required, backend)))
		return;
	print_message("# %s\n", cg_message());
	skip();
}

static void test_networks(void **given)
{
	const struct plan *p = *given;
	long double worst = 0;
	struct network_trial t;

	skip_lacking(p);
	for (int n = 0; network_case(p->op, p->dtype, n, &t); n++) {
		long double error = run_network(&t);

		worst = error > worst ? error : worst;
	}
	print_message("# %s %s: largest error over its tolerance %.3Lf\n", p->op->name, cg_dtype_name(p->dtype), worst);
	assert_true(worst > 0.01L);
}

/* Tests networks with each optional argument absent alone, with each present alone, and with all absent. */
static void test_networks_absent(void **given)
{
	const struct plan *p = *given;
	int grad = !strcmp(p->op->name, "rnn_backprop"), n = network_optionals(grad);
	struct network_trial t;

	skip_lacking(p);
	for (int k = 0; k < 2 * n + 1; k++) {
		network_small(p->op, p->dtype, &t);
		t.mode = k % 4;
		t.direction = k % 3 == 0;
		t.lengths = k % 2;
		t.absent = k < n ? 1ull << k : k < 2 * n ? ((1ull << n) - 1) ^ 1ull << (k - n) : (1ull << n) - 1;
		run_network(&t);
	}
}

static void test_sizes(void **given)
{
	const struct plan *p = *given;
	struct trial_cursor at = { 0, 0 };
	long double worst = 0;
	struct trial t;

	skip_lacking(p);
	while (trial_next(&at, p->op, p->dtype, &t)) {
		long double error = run(&t);

		worst = error > worst ? error : worst;
	}
	print_message("# %s %s: largest error over its tolerance %.3Lf\n", p->op->name, cg_dtype_name(p->dtype), worst);
	assert_true(worst > 0.01L);
}

static void test_absent(void **given)
{
	const struct plan *p = *given;

	skip_lacking(p);
	for (unsigned absent = 0; absent < 1u << trial_optionals(p->op); absent++) {
		struct trial t;

		trial_small(p->op, p->dtype, &t);
		t.absent = absent;
		if (p->op->gates_at)
			t.is.lstm.use_peephole = (absent ^ absent >> 3) & 1;
		*(int *)(void *)((char *)&t.is + p->op->accumulate_at) = absent >> 1 & 1;
		run(&t);
	}
}

static int known(void)
{
	int n = 0;

	for (const struct cg_op *op = NULL; (op = cg_op_next(op));)
		n += trial_has_reference(op) || network_has_reference(op);
	return n;
}

int main(int argc, char **argv)
{
	enum { DTYPES = CG_DTYPE_COUNT, TESTS_MAX = 256 };
	static struct plan plans[TESTS_MAX];
	static const CMUnitTestFunction bodies[2][2] = { { test_sizes, test_absent }, { test_networks, test_networks_absent } };
	static char names[TESTS_MAX][80];
	struct CMUnitTest tests[known() * DTYPES * 2 + 1];
	int n = 0, status;

	if (!device_arguments(argc, argv, &status))
		return status;
	counted_begin();
	for (const struct cg_op *op = NULL; (op = cg_op_next(op));)
		for (int dtype = 0; (trial_has_reference(op) || network_has_reference(op)) && dtype < DTYPES; dtype++)
			for (int absent = 0; absent < 2; absent++) {
				plans[n] = (struct plan){ op, dtype };
				snprintf(names[n], sizeof names[n], "%s %s: %s", op->name, cg_dtype_name(dtype),
				         !absent ? "sizes and options" : network_has_reference(op) ? "what may be absent"
				                                                                   : "every subset of what may be absent");
				tests[n] = (struct CMUnitTest){ names[n], bodies[network_has_reference(op)][absent], NULL, NULL, &plans[n] };
				n++;
			}
	tests[n] = (struct CMUnitTest)cmocka_unit_test_setup(test_nothing_left, device_close);
	return cmocka_run_group_tests_name("conformance", tests, device_open, device_close);
}
