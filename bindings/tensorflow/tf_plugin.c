/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers the kernels when the plugin is loaded: TensorFlow defines the ops, and of these ops it has kernels on the cpu for the block
 * ops alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/tensorflow/tf_op.h"
#include "bindings/tensorflow/tf_plugin.h"

/* ---- kernels: TensorFlow calls create without the op, so each row has a create of its own ---- */

static const struct cg_tf_op *const lists[] = { cg_tf_network_ops, cg_tf_params_ops, cg_tf_block_ops };
enum { LISTS = sizeof lists / sizeof *lists, ROWS = 19 };

/* The k-th row of all lists; NULL past the last. */
static const struct cg_tf_op *find_row(int k)
{
	for (int list = 0; list < LISTS; list++)
		for (const struct cg_tf_op *op = lists[list]; op->name; op++)
			if (!k--)
				return op;
	return NULL;
}

#define CREATE(k) static void *create_##k(TF_OpKernelConstruction *c) { return cg_tf_kernel_create(c, find_row(k)); }
CREATE(0) CREATE(1) CREATE(2) CREATE(3) CREATE(4) CREATE(5) CREATE(6) CREATE(7) CREATE(8) CREATE(9)
CREATE(10) CREATE(11) CREATE(12) CREATE(13) CREATE(14) CREATE(15) CREATE(16) CREATE(17) CREATE(18)
static void *(*const creates[ROWS])(TF_OpKernelConstruction *) = {
	create_0, create_1, create_2, create_3, create_4, create_5, create_6, create_7, create_8, create_9,
	create_10, create_11, create_12, create_13, create_14, create_15, create_16, create_17, create_18
};

/* ---- may the kernels be registered? ---- */

static int registered;
static char state[512] = "the plugin's initialisation has not run";

/* Is a kernel of an op registered for a device?  TensorFlow returns a list of KernelDef messages, whose field 2 is the device's name. */
static int is_registered(const char *op, const char device[3], TF_Status *s)
{
	const char field[] = { 2 << 3 | 2, 3, device[0], device[1], device[2] };
	TF_Buffer *list = cg_tf.GetRegisteredKernelsForOp(op, s);
	int is_there = 0;

	/* TensorFlow returns no list if no kernel is registered. */
	if (!list)
		return 0;
	for (size_t k = 0; !is_there && k + sizeof field <= list->length; k++)
		is_there = !memcmp((const char *)list->data + k, field, sizeof field);
	cg_tf.DeleteBuffer(list);
	return is_there;
}

static int number_of(const char *version)
{
	int major = 0, minor = 0;

	return version && sscanf(version, "%d.%d", &major, &minor) == 2 && minor < 1000 ? major * 1000 + minor : 0;
}

/* May the plugin register its kernels? If the plugin may not register kernels, the function writes the reason to `state` and returns 0. */
static int may_register(void)
{
	int is_forced = cg_tf_is_set("CELLGRAD_TF_FORCE");
	const char *missing = cg_tf_look_up(), *version;
	TF_Status *s;

	if (missing) {
		snprintf(state, sizeof state, "there is no TensorFlow in this process that has %s: import TensorFlow first", missing);
		return 0;
	}
	version = cg_tf.Version();
	if (number_of(cg_version()) < CG_VERSION_MAJOR * 1000 + CG_VERSION_MINOR)
		snprintf(state, sizeof state, "the plugin was built for cellgrad %d.%d, but the library is the older %s", CG_VERSION_MAJOR,
		         CG_VERSION_MINOR, cg_version());
	else if (!is_forced && (number_of(version) < CG_TF_OLDEST || number_of(version) > CG_TF_NEWEST))
		snprintf(state, sizeof state, "the plugin was tested with TensorFlow %d.%d to %d.%d, and this is %s: CELLGRAD_TF_FORCE=1 "
		         "tries this one",
		         CG_TF_OLDEST / 1000, CG_TF_OLDEST % 1000, CG_TF_NEWEST / 1000, CG_TF_NEWEST % 1000, version);
	else
		*state = '\0';
	if (*state)
		return 0;
	s = cg_tf.NewStatus();
	if (is_registered("CudnnRNNV3", "CPU", s)) {
		registered = -1;
		snprintf(state, sizeof state, "this process has kernels of CudnnRNNV3 for the cpu: the plugin was loaded before");
	} else if (!is_forced && is_registered("CudnnRNNV3", "GPU", s))
		snprintf(state, sizeof state, "this TensorFlow has kernels of CudnnRNNV3 for GPUs: CELLGRAD_TF_FORCE=1 adds those for the cpu");
	cg_tf.DeleteStatus(s);
	return !*state;
}

/* ---- registration ---- */

static int register_row(int k, TF_Status *s)
{
	const struct cg_tf_op *op = find_row(k);
	TF_KernelBuilder *builder = cg_tf.NewKernelBuilder(op->name, "CPU", creates[k], cg_tf_compute, cg_tf_kernel_destroy);
	char name[64];

	/* TensorFlow's own kernels have priority 0, so that a kernel with a higher priority replaces them. */
	if (op->replaces)
		cg_tf.KernelBuilder_Priority(builder, 1);
	snprintf(name, sizeof name, "Cellgrad%s", op->name);
	cg_tf.RegisterKernelBuilder(name, builder, s);
	if (cg_tf.GetCode(s) == TF_OK)
		return 1;
	snprintf(state, sizeof state, "TensorFlow refuses a kernel of %s: %s", op->name, cg_tf.Message(s));
	return 0;
}

static void register_all(void)
{
	int is_block = cg_tf_is_set("CELLGRAD_TF_BLOCK");
	TF_Status *s;

	if (!may_register())
		return;
	s = cg_tf.NewStatus();
	for (int k = 0; find_row(k) && !*state; k++)
		if (is_block || !find_row(k)->replaces)
			registered += register_row(k, s);
	cg_tf.DeleteStatus(s);
	if (*state)
		return;
	cg_tf_watch_forks();
	snprintf(state, sizeof state, "kernels of %d ops are registered with TensorFlow %s", registered, cg_tf.Version());
}

static void initialise(void)
{
	static int is_done;
	const char *verbose = getenv("CELLGRAD_VERBOSE");

	if (is_done)
		return;
	is_done = 1;
	register_all();
	if (verbose && (!strcmp(verbose, "1") || !strcmp(verbose, "calls")))
		fprintf(stderr, "cellgrad: TensorFlow: %s\n", state);
}

/* TensorFlow calls this function in the libraries of its folder tensorflow-plugins; in a library that tf.load_library loads TensorFlow
 * calls no function. */
CG_API void TF_InitKernel(void)
{
	initialise();
}

__attribute__((constructor)) static void loaded(void)
{
	initialise();
}

int cellgrad_tensorflow_state(const char **text)
{
	*text = state;
	return registered;
}
