/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of environment variables: every row is complete, allowed values are accepted, and others are rejected whatever is opened;
 * an unknown name is reported, with the nearest known one if there is one; with CELLGRAD_VERBOSE=1 a process warns of it once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "backends/cpu/isa.h"
#include "runtime/core/environment.h"
#include "runtime/core/core.h"

#define OURS "CELLGRAD_"

/* Removes all variables of the library from the environment. */
static int clear(void **state)
{
	const char *entry;
	char name[256];

	(void)state;
	while ((entry = cg_environment_entry(OURS, 0))) {
		snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, "="), entry);
		unsetenv(name);
	}
	return 0;
}

static void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("expected \"%s\" in \"%s\"", part, text);
}

/* The k-th allowed word of a variable's row in the table; NULL past the last. */
static const char *word(const struct cg_variable *v, int k)
{
	static char choices[128];
	char *rest = choices, *at = NULL;

	snprintf(choices, sizeof choices, "%s", v->choices ? v->choices : "");
	for (int n = 0; n <= k; n++)
		at = strtok_r(n ? NULL : choices, " ", &rest);
	return at;
}

static void test_rows(void **state)
{
	(void)state;
	for (int which = 0; which < CG_ENV_VARIABLES; which++) {
		const struct cg_variable *v = &cg_variables[which];
		char text[256];

		assert_true(v->name && *v->name && v->reader && *v->reader && v->what && *v->what);
		assert_true(v->kind != CG_ENV_WORD || (v->choices && v->fallback));
		assert_true(v->kind == CG_ENV_WORD || v->allowed);
		assert_true(*cg_variable_allowed(which, text, sizeof text));
		assert_int_equal(cg_variable_find(v->name), which);
		if (v->kind == CG_ENV_WORD && which != CG_ENV_CPU_ISA)
			assert_true(cg_variable_judge(which, v->fallback, NULL, text, sizeof text));
	}
	/* Every instruction set of this build is an allowed value. */
	for (const struct cg_isa *isa = cg_isas; isa->name; isa++) {
		char why[256];

		if (!cg_variable_judge(CG_ENV_CPU_ISA, isa->name, NULL, why, sizeof why))
			fail_msg("%s", why);
	}
}

static void test_choices(void **state)
{
	char why[640];

	(void)state;
	for (int which = 0; which < CG_ENV_VARIABLES; which++)
		for (int k = 0; word(&cg_variables[which], k); k++) {
			uint64_t result = 77;

			assert_true(cg_variable_judge(which, word(&cg_variables[which], k), &result, why, sizeof why));
			assert_int_equal(result, cg_variables[which].kind == CG_ENV_WORD ? k : 77);
		}
	assert_false(cg_variable_judge(CG_ENV_CACHE, "of", NULL, why, sizeof why));
	has(why, "CELLGRAD_CACHE: ");
	has(why, "off, ro or rw");
	has(why, "'of'");
	has(why, "did you mean off?");
	for (int k = 0; k < 4; k++) {
		static const char *const wrong[] = { "o", "offoff", "off ro", " off" };

		assert_false(cg_variable_judge(CG_ENV_CACHE, wrong[k], NULL, why, sizeof why));
	}
}

static void test_numbers(void **state)
{
	static const char *const wrong[] = { "0x5", "1e3", "-1", "+1", " 1", "1 ", "99999999999999999999", "1.0", "no" };
	uint64_t n = 5;
	char why[640];

	(void)state;
	for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
		assert_false(cg_variable_judge(CG_ENV_CACHE_MAXSIZE, wrong[k], &n, why, sizeof why));
		has(why, wrong[k]);
	}
	assert_true(cg_variable_judge(CG_ENV_CACHE_MAXSIZE, NULL, &n, why, sizeof why));
	assert_int_equal(n, 5);
	assert_true(cg_variable_judge(CG_ENV_CACHE_MAXSIZE, "18446744073709551615", &n, why, sizeof why));
	assert_true(n == UINT64_MAX);
	assert_true(cg_variable_judge(CG_ENV_CACHE_MAXSIZE, "0", &n, why, sizeof why));
	assert_int_equal(n, 0);
	assert_false(cg_variable_judge(CG_ENV_CPU_THREADS, "0", &n, why, sizeof why));
}

/* Values that are rejected by their form, whatever is opened. */
static const struct { const char *name, *value; } refused[] = {
	{ "CELLGRAD_CACHE", "yes" }, { "CELLGRAD_CACHE_DIR", "kernels" }, { "CELLGRAD_CACHE_MAXSIZE", "1G" },
	{ "CELLGRAD_CHECK", "maybe" }, { "CELLGRAD_CPU_ISA", "avx9" }, { "CELLGRAD_CPU_THREADS", "two" },
	{ "CELLGRAD_CUBLAS_LIB", "libcublas.so" }, { "CELLGRAD_CUDA_LIB", "none" }, { "CELLGRAD_CUDNN_LIB", "./libcudnn.so" },
	{ "CELLGRAD_NVRTC_LIB", "none" }, { "CELLGRAD_OPENCL_LIB", "libOpenCL.so" }, { "CELLGRAD_VERBOSE", "2" },
};

static void test_refused(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
		struct cg_context *context = (void *)&context;
		char value[64];

		setenv(refused[k].name, refused[k].value, 1);
		snprintf(value, sizeof value, "'%s'", refused[k].value);
		for (int call = 0; call < 3; call++) {
			int code = call == 2 ? cg_adopt("opencl", &context, NULL, &context) : cg_open(call ? NULL : "cpu", &context);

			assert_int_equal(code, CG_BAD_ARGUMENT);
			assert_null(context);
			assert_ptr_equal(strstr(cg_message(), refused[k].name), cg_message());
			has(cg_message(), value);
			context = (void *)&context;
		}
		/* An empty variable counts as unset. */
		setenv(refused[k].name, "", 1);
		assert_int_equal(cg_open("cpu", &context), CG_OK);
		cg_close(context);
		unsetenv(refused[k].name);
	}
}

/* The name of an instruction set that this processor, or this build, lacks. */
static const char *absent_isa(void)
{
	const struct cg_isa *isa = cg_isas;

	while (isa->name && isa->runs_here())
		isa++;
	return isa->name ? isa->name : !strcmp(cg_isas->name, "neon") ? "avx2" : "neon";
}

/* The error of a variable is reported alone, without the reasons of the backends that were tried before the one that reads it. */
static void test_alone(void **state)
{
	static const char *const lists[] = { "cpu", "cpu:1,cpu", NULL };
	struct cg_context *context;

	(void)state;
	setenv("CELLGRAD_CPU_ISA", absent_isa(), 1);
	for (int k = 0; k < 3; k++) {
		int code = cg_open(lists[k], &context);

		/* If no backend is named a GPU may open, whose backend does not read the variable. */
		if (!code && !lists[k]) {
			cg_close(context);
			continue;
		}
		assert_int_equal(code, CG_BAD_ARGUMENT);
		has(cg_message(), "CELLGRAD_CPU_ISA");
		has(cg_message(), absent_isa());
		has(cg_message(), "baseline");
		assert_null(strstr(cg_message(), "cpu:1"));
		assert_null(strstr(cg_message(), "passed over"));
		assert_null(strstr(cg_message(), "driver"));
	}
}

static void test_names(void **state)
{
	char message[320], longest[400] = OURS;

	(void)state;
	assert_int_equal(cg_variable_find("CELLGRAD_TEST_ANYTHING"), CG_ENV_TEST);
	assert_int_equal(cg_variable_find("CELLGRAD_BACKEN"), -1);
	assert_int_equal(cg_variable_find("CELLGRAD_CHECKS"), -1);
	assert_int_equal(cg_environment_unknown("CELLGRAD_BACKEND=cuda", message, sizeof message), 0);
	assert_int_equal(cg_environment_unknown("CELLGRAD_FAKE_CUDA=11", message, sizeof message), 0);
	assert_int_equal(cg_environment_unknown("CELLGRAD_BACKEDN=cuda", message, sizeof message), 1);
	has(message, "CELLGRAD_BACKEDN ");
	has(message, "CELLGRAD_BACKEND?");
	assert_null(strstr(message, "cuda"));
	assert_int_equal(cg_environment_unknown("CELLGRAD_THREADS=2", message, sizeof message), 1);
	has(message, "CELLGRAD_CPU_THREADS?");
	assert_int_equal(cg_environment_unknown("CELLGRAD_QWERTYUIOP=", message, sizeof message), 1);
	assert_null(strstr(message, "did you mean"));
	assert_int_equal(cg_environment_unknown("CELLGRAD_TESTSEED=1", message, sizeof message), 1);
	assert_null(strstr(message, "CELLGRAD_TEST_?"));
	/* The message does not have the control characters of the variable's name. */
	assert_int_equal(cg_environment_unknown("CELLGRAD_\033[31m\n=", message, sizeof message), 1);
	assert_null(strpbrk(message, "\033\n"));
	memset(longest + strlen(OURS), 'A', sizeof longest - strlen(OURS) - 1);
	assert_int_equal(cg_environment_unknown(longest, message, sizeof message), 1);
	has(message, "cellgrad(1)");
}

/* Records what a child process writes to standard error when it opens a context twice. */
static void listen(const char *verbose, char *output, size_t capacity)
{
	struct cg_context *context;
	size_t n = 0;
	ssize_t more;
	int ends[2], status;

	assert_int_equal(pipe(ends), 0);
	if (!fork()) {
		dup2(ends[1], STDERR_FILENO);
		setenv("CELLGRAD_VERBOSE", verbose, 1);
		setenv("CELLGRAD_BACKEDN", "cuda", 1);
		_exit(cg_open("cpu", &context) || cg_open("cpu", &context));
	}
	close(ends[1]);
	while ((more = read(ends[0], output + n, capacity - 1 - n)) > 0)
		n += (size_t)more;
	output[n] = '\0';
	close(ends[0]);
	wait(&status);
	assert_int_equal(status, 0);
}

static void test_warning(void **state)
{
	char output[1024];

	(void)state;
	listen("0", output, sizeof output);
	assert_string_equal(output, "");
	listen("1", output, sizeof output);
	has(output, "cellgrad: CELLGRAD_BACKEDN is not a variable of cellgrad; did you mean CELLGRAD_BACKEND?\n");
	assert_null(strchr(strchr(output, '\n') + 1, '\n'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows), cmocka_unit_test(test_choices), cmocka_unit_test(test_numbers),
		cmocka_unit_test_setup(test_refused, clear), cmocka_unit_test_setup_teardown(test_alone, clear, clear),
		cmocka_unit_test(test_names), cmocka_unit_test_setup_teardown(test_warning, clear, clear),
	};

	return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
