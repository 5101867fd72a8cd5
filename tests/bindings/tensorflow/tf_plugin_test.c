/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the plugin in a host that plays TensorFlow: what it registers, and when it registers nothing; the device, threads and a forked
 * child.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/bindings/tensorflow/tf_trial.h"

static void test_registers(void **unused)
{
	static const char *const theirs[] = { "LSTMBlockCell", "LSTMBlockCellGrad", "BlockLSTM", "BlockLSTMGrad", "BlockLSTMV2", "BlockLSTMGradV2",
		"GRUBlockCell", "GRUBlockCellGrad" };
	const char *state;
	int priority;

	(void)unused;
	assert_int_equal(load_plugin("2.21.0", "", &state), 11);
	assert_string_equal(state, "kernels of 11 ops are registered with TensorFlow 2.21.0");
	for (int k = 0; k < 11; k++) {
		assert_memory_equal(host_op(k, &priority), "CudnnRNN", 8);
		assert_int_equal(priority, 0);
	}
	assert_null(host_op(11, &priority));
	setenv("CELLGRAD_TF_BLOCK", "1", 1);
	assert_int_equal(load_plugin("2.16.0-rc1", "", &state), 19);
	unsetenv("CELLGRAD_TF_BLOCK");
	for (int k = 0; k < 8; k++) {
		assert_string_equal(host_op(11 + k, &priority), theirs[k]);
		assert_int_equal(priority, 1);
	}
}

/* The plugin registers nothing in a host that it declines; with CELLGRAD_TF_FORCE=1 the plugin registers its 11 CudnnRNN ops, unless the
   host has a kernel for the CPU, as after an earlier plugin. */
static void test_registers_nothing(void **unused)
{
	static const struct { const char *version, *devices, *words; int forced; } rows[] = {
		{ "2.15.1", "", "tested with TensorFlow 2.16 to 2.21, and this is 2.15.1: CELLGRAD_TF_FORCE=1", 11 },
		{ "2.22.0", "", "this is 2.22.0", 11 },
		{ "1.15.0", "", "this is 1.15.0", 11 },
		{ "new", "", "this is new", 11 },
		{ "2.21.0", "GPU", "kernels of CudnnRNNV3 for GPUs", 11 },
		{ "2.21.0", "CPU", "the plugin was loaded before", -1 },
	};
	const char *state;
	int priority;

	(void)unused;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		assert_int_equal(load_plugin(rows[k].version, rows[k].devices, &state), rows[k].forced < 0 ? -1 : 0);
		assert_null(host_op(0, &priority));
		if (!strstr(state, rows[k].words))
			fail_msg("expected \"%s\", got \"%s\"", rows[k].words, state);
		setenv("CELLGRAD_TF_FORCE", "1", 1);
		assert_int_equal(load_plugin(rows[k].version, rows[k].devices, &state), rows[k].forced);
		unsetenv("CELLGRAD_TF_FORCE");
	}
	load_usual(NULL);
}

/* ---- the device ---- */

/* With each value of CELLGRAD_BACKEND in `rows` a call fails, if the plugin has not opened a device yet. */
static void test_backends(void **unused)
{
	static const struct { const char *backend, *words; TF_Code code; } rows[] = {
		{ "opencl", "CELLGRAD_BACKEND: expected backends other than opencl inside TensorFlow, got opencl: an OpenCL driver",
		  TF_UNIMPLEMENTED },
		{ "cuda, opencl:0", "got cuda, opencl:0", TF_UNIMPLEMENTED },
		{ "cpo", "cpo", TF_INVALID_ARGUMENT },
	};
	const char *state;

	(void)unused;
	load_plugin("2.21.0", "", &state);
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		void *kernel = kernel_of("CudnnRNN", "float", "rnn_mode=lstm");
		struct host_call f;

		setenv("CELLGRAD_BACKEND", rows[k].backend, 1);
		give_inputs(&nets[0], TF_FLOAT, CG_F32, 1, &f);
		host_run("CudnnRNN", kernel, &f);
		assert_refused(&f, rows[k].code, rows[k].words);
		host_free(&f);
		host_destroy("CudnnRNN", kernel);
	}
	/* Without CELLGRAD_BACKEND the plugin's answers have the bits of the backend cpu. */
	unsetenv("CELLGRAD_BACKEND");
	void *forward = kernel_of("CudnnRNN", "double", "rnn_mode=lstm"), *backward = kernel_of("CudnnRNNBackprop", "double", "rnn_mode=lstm");
	check_net(&nets[0], 0, 1, forward, backward, 0);
	host_destroy("CudnnRNN", forward);
	host_destroy("CudnnRNNBackprop", backward);
	load_usual(NULL);
}

static int run_quietly(void *forward, struct host_call *f)
{
	give_inputs(&nets[0], TF_DOUBLE, CG_F64, 1, f);
	host_run("CudnnRNN", forward, f);
	return f->code == TF_OK;
}

/* After a call in the parent, a call of the same kernel succeeds in a forked child, and then in the parent again. */
static void test_fork(void **unused)
{
	void *forward = kernel_of("CudnnRNN", "double", "rnn_mode=lstm");
	struct host_call f;
	int status;
	pid_t child;

	(void)unused;
	/* Under ThreadSanitizer and under qemu-user a forked child of a process with threads cannot start threads. */
#ifdef __SANITIZE_THREAD__
	skip();
#endif
	if (getenv("EMULATED"))
		skip();
	assert_true(run_quietly(forward, &f));
	host_free(&f);
	fflush(NULL);
	child = fork();
	if (!child)
		_exit(!run_quietly(forward, &f));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_true(run_quietly(forward, &f));
	host_free(&f);
	host_destroy("CudnnRNN", forward);
}

struct worker { pthread_t thread; void *kernel; TF_Tensor *wanted; const struct host_call *inputs; int wrong; };

static void *work(void *given)
{
	struct worker *w = given;

	for (int k = 0; k < 20; k++) {
		struct host_call f = *w->inputs;

		host_run("CudnnRNN", w->kernel, &f);
		w->wrong += f.code != TF_OK || memcmp(TF_TensorData(f.outputs[0]), TF_TensorData(w->wanted), TF_TensorByteSize(w->wanted)) != 0;
		memset(f.inputs, 0, sizeof f.inputs);
		host_free(&f);
	}
	return NULL;
}

/* Six threads run one kernel at the same time; each gets the same output as a call before the threads began. */
static void test_threads(void **unused)
{
	enum { WORKERS = 6 };
	void *kernel = kernel_of("CudnnRNN", "double", "rnn_mode=lstm");
	struct worker workers[WORKERS];
	struct host_call f;

	(void)unused;
	give_inputs(&nets[0], TF_DOUBLE, CG_F64, 1, &f);
	host_run("CudnnRNN", kernel, &f);
	assert_done(&f);
	for (int k = 0; k < WORKERS; k++) {
		workers[k] = (struct worker){ .kernel = kernel, .wanted = f.outputs[0], .inputs = &f };
		assert_int_equal(pthread_create(&workers[k].thread, NULL, work, &workers[k]), 0);
	}
	for (int k = 0; k < WORKERS; k++) {
		pthread_join(workers[k].thread, NULL);
		assert_int_equal(workers[k].wrong, 0);
	}
	host_free(&f);
	host_destroy("CudnnRNN", kernel);
	assert_int_equal(host_living(), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers), cmocka_unit_test(test_registers_nothing), cmocka_unit_test(test_backends),
		cmocka_unit_test(test_fork), cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests_name("tf_plugin", tests, open_context, close_context);
}
