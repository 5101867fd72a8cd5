/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In a process without TensorFlow the plugin loads, says that it registered no kernel and why, and has TF_InitKernel.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void test_absent(void **unused)
{
	static const char path[] = ".libs/cellgrad_tensorflow.so";
	void *plugin;
	int (*ask)(const char **) = NULL;
	const char *state;

	(void)unused;
	if (access(path, R_OK))
		skip();
	plugin = dlopen(path, RTLD_NOW);
	assert_non_null(plugin);
	*(void **)&ask = dlsym(plugin, "cellgrad_tensorflow_state");
	assert_non_null(ask);
	assert_int_equal(ask(&state), 0);
	assert_string_equal(state, "there is no TensorFlow in this process that has TF_Version: import TensorFlow first");
	*(void **)&ask = dlsym(plugin, "TF_InitKernel");
	assert_non_null(ask);
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(test_absent) };

	return cmocka_run_group_tests_name("tf_absent", tests, NULL, NULL);
}
