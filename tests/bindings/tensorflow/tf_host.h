/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays TensorFlow for the plugin: the functions of its C API that the plugin looks up, over tensors that are counted and guarded.
 */
#ifndef TF_HOST_H
#define TF_HOST_H

#include "bindings/tensorflow/tf_api.h"

/* The plugin looks these functions up by name, so they must be visible in the process. */
#define TF_HOST_DECLARE(result, name, arguments) __attribute__((visibility("default"))) result TF_##name arguments;
CG_TF_FUNCTIONS(TF_HOST_DECLARE)

enum { HOST_TENSORS = 40 };

/* A call of a kernel. */
struct host_call {
	TF_Tensor *inputs[HOST_TENSORS], *outputs[HOST_TENSORS];
	int n_inputs, n_outputs;
	TF_Code code;                            /* the code of the call's status; words: the status's message */
	char words[1024];
};

/* The version that the host reports, and the device, "CPU" or "GPU", for which the host reports a kernel of each op; "": of no op. */
extern const char *host_version, *host_devices;
/* The number, counted from now, of the output whose allocation fails; 0: none fails. */
extern int host_failing_output;

/* Forgets what earlier plugins registered and loads a plugin; returns 0 if it cannot be loaded.  *registered and *state: the result
   and the text of cellgrad_tensorflow_state(), which says how many ops have kernels of the plugin, or why none has. */
int host_load(const char *path, int *registered, const char **state);
/* Forgets what was registered. */
void host_forget(void);
/* Returns the name of the k-th registered op, and in *priority its priority; NULL past the last op. */
const char *host_op(int k, int *priority);

/* Makes a kernel of an op, with attributes such as "T=double rnn_mode=gru"; returns NULL, with the plugin's message in *words,
   if the plugin refuses it. */
void *host_kernel(const char *op, const char *attributes, const char **words);
/* Runs a kernel; the call gets the code and the message of its status, and all outputs that were allocated. */
void host_run(const char *op, void *kernel, struct host_call *call);
void host_destroy(const char *op, void *kernel);

TF_Tensor *host_tensor(TF_DataType type, int rank, const int64_t *dims);
size_t host_element(TF_DataType type);
/* Releases each tensor of a call, which frees it unless another holder is left. */
void host_free(struct host_call *call);
/* Returns the number of tensors and statuses that are not freed. */
int host_living(void);

#endif
