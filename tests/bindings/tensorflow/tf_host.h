/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays TensorFlow for the plugin: the functions of its C API that the plugin looks up, over tensors that are counted and guarded.
 */
#ifndef TF_HOST_H
#define TF_HOST_H

#include "bindings/tensorflow/tf_api.h"

/* What is asked for by name must be visible in the process. */
#define TF_HOST_DECLARE(result, name, arguments) __attribute__((visibility("default"))) result TF_##name arguments;
CG_TF_FUNCTIONS(TF_HOST_DECLARE)

enum { HOST_TENSORS = 40 };

/* A call of a kernel. */
struct host_call {
	TF_Tensor *inputs[HOST_TENSORS], *outputs[HOST_TENSORS];
	int n_inputs, n_outputs;
	TF_Code code;                            /* of its status, with the words */
	char words[1024];
};

/* The version that the host says it has, and the devices that it says every op has kernels for, "", "CPU" or "GPU". */
extern const char *host_version, *host_devices;
/* The n-th output from now on is not allocated; 0: all are. */
extern int host_failing_output;

/* Loads a plugin; 0: it cannot be loaded.  What earlier ones registered is forgotten.  *state: what it says of itself. */
int host_load(const char *path, int *registered, const char **state);
/* Forgets what was registered. */
void host_forget(void);
/* The k-th op that was registered, NULL past the last, and its priority. */
const char *host_op(int k, int *priority);

/* A kernel of an op with attributes "T=double rnn_mode=gru"; NULL: it was refused, for these words. */
void *host_kernel(const char *op, const char *attributes, const char **words);
/* Runs it: code and words in the call, with all outputs that were allocated. */
void host_run(const char *op, void *kernel, struct host_call *call);
void host_destroy(const char *op, void *kernel);

TF_Tensor *host_tensor(TF_DataType type, int rank, const int64_t *dims);
size_t host_element(TF_DataType type);
/* Frees all tensors of a call. */
void host_free(struct host_call *call);
/* Tensors and statuses that are not freed. */
int host_living(void);

#endif
