/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the context in which the kernels of a process compute, and reads environment variables.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/tensorflow/tf_op.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cg_context *context;

int cg_tf_is_set(const char *variable)
{
	const char *value = getenv(variable);

	return value && !strcmp(value, "1");
}

/* Does the list of backends `where` have an entry for OpenCL? */
static int has_opencl(const char *where)
{
	for (; *where; where += strcspn(where, ","), where += *where == ',')
		if (!strncmp(where + strspn(where, " "), "opencl", 6))
			return 1;
	return 0;
}

int cg_tf_get_context(struct cg_tf_call *call, struct cg_context **found)
{
	const char *where = getenv("CELLGRAD_BACKEND");
	int status = CG_OK;

	if (!where || !*where)
		where = "cpu";
	/* TensorFlow's library makes LLVM's symbols global; an OpenCL driver with an LLVM of its own, such as PoCL, binds to these symbols
	 * and ends the process. */
	if (has_opencl(where) && !cg_tf_is_set("CELLGRAD_TF_FORCE"))
		return cg_tf_fail(call, CG_UNSUPPORTED, "CELLGRAD_BACKEND: expected backends other than opencl inside TensorFlow, got %s: an "
		                  "OpenCL driver that has LLVM in it, such as PoCL, crashes beside TensorFlow's LLVM; CELLGRAD_TF_FORCE=1 "
		                  "allows opencl", where);
	pthread_mutex_lock(&lock);
	if (!context)
		status = cg_open(where, &context);
	*found = context;
	pthread_mutex_unlock(&lock);
	return cg_tf_pass(call, status);
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* Runs in a forked child, where the parent's context cannot be used.  The context is not closed, since that would touch the parent's
 * device. */
static void in_child(void)
{
	context = NULL;
	pthread_mutex_unlock(&lock);
}

void cg_tf_watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}
