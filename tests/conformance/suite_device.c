/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/conformance/suite_device.h"

struct side side = { .name = "the device" };
unsigned long long seed_of_run = 20260101;

static int opens(void)
{
	struct cg_context *context;

	if (cg_open(NULL, &context))
		return puts(cg_message()), 1;
	puts(cg_describe(context));
	cg_close(context);
	return 0;
}

int device_arguments(int argc, char **argv, int *status)
{
	const char *seed = getenv("CELLGRAD_TEST_SEED");

	if (argc > 1 && !strcmp(argv[1], "--opens")) {
		*status = opens();
		return 0;
	}
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	if (seed)
		seed_of_run = strtoull(seed, NULL, 10);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return 1;
}

int device_open(void **unused)
{
	const char *route = getenv("CELLGRAD_TEST_ROUTE");

	(void)unused;
	/* Of the routes only `composed` can be requested for every network. */
	side.route = route && !strcmp(route, "composed") ? route : NULL;
	if (cg_open(NULL, &side.context) || cg_stream_open(side.context, NULL, &side.stream)) {
		print_message("# %s\n", cg_message());
		return -1;
	}
	print_message("# %s; CELLGRAD_TEST_SEED=%llu\n", cg_describe(side.context), seed_of_run);
	return 0;
}

int device_close(void **unused)
{
	(void)unused;
	cg_stream_close(side.stream);
	cg_close(side.context);
	side.stream = NULL;
	side.context = NULL;
	return 0;
}
