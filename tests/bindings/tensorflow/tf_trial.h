/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the tests of the plugin's parts share: the plugin in the host, tensors for calls of its kernels, and networks beside the
 * library. Where the plugin was not built, as without shared libraries, a test that asks for a kernel is skipped.
 */
#ifndef TF_TRIAL_H
#define TF_TRIAL_H

#include "tests/bindings/tensorflow/tf_host.h"
#include "runtime/cellgrad.h"

extern const char built_plugin[];

/* Loads a copy of the plugin into a host of this version, whose ops have a kernel for the device "CPU" or "GPU", or for none if `devices`
   is ""; returns for how many ops the plugin says that it registered kernels, or -1 if it found an earlier plugin. */
int load_plugin(const char *version, const char *devices, const char **state);
/* Loads the plugin with all its ops, and sets CELLGRAD_BACKEND to cpu:threads=2; loads nothing if the plugin was not built. */
int load_usual(void **unused);
/* For cmocka: open_context opens a context and a stream of the library and loads the plugin by load_usual; close_context closes
   the context and the stream. */
int open_context(void **unused);
int close_context(void **unused);
extern struct cg_stream *the_stream;

/* Makes a kernel with attribute T = `type` and attributes such as "rnn_mode=gru seed=7"; fails the test if the plugin refuses
   it. */
void *kernel_of(const char *op, const char *type, const char *attributes);

/* ---- tensors ---- */

/* Make a tensor of random numbers of magnitude 1/4 to 1, of either sign: of a given shape, or of the shape of another tensor. */
TF_Tensor *numbers(TF_DataType type, int rank, const int64_t *dims);
TF_Tensor *numbers_like(TF_DataType type, const TF_Tensor *t);
/* Makes a scalar of type int32 or int64 with the value; for any other type the value must be 0. */
TF_Tensor *scalar(TF_DataType type, int64_t value);
/* mem_of: a tensor's memory as the library takes it; make_mem: new memory of zeros, whose `data` the caller frees. */
struct cg_mem mem_of(const TF_Tensor *t);
struct cg_mem make_mem(size_t bytes);

/* assert_done fails the test unless the call succeeded; assert_refused, unless it failed with this code and with these words in its
   message; assert_output, unless its k-th output has these bytes. */
void assert_done(const struct host_call *call);
void assert_refused(const struct host_call *call, TF_Code code, const char *words);
void assert_output(const struct host_call *call, int k, struct cg_mem wanted);

/* ---- networks ---- */

struct net {
	const char *attributes;                  /* the attributes of the op besides T */
	const char *cell;
	int64_t T, B, I, U, P;
	int layers, directions, is_batch_major, input_mode;
	double dropout;
	const int32_t *lengths;
};

enum { NETS = 7 };
extern const struct net nets[NETS];
struct net_type { TF_DataType type; int dtype; const char *name; };
extern const struct net_type net_types[4];
/* The names of the CudnnRNN ops and of their Backprops, by version, 1 to 3. */
extern const char *const forwards[4], *const backwards[4];

/* Gives the call the inputs of a network's forward op of a version, with random numbers. */
void give_inputs(const struct net *n, TF_DataType type, int dtype, int version, struct host_call *call);
/* Gives a Backprop call its inputs, among them the inputs and outputs of the call `forward`; `forward` still owns its tensors, and
   free_backprop does not free them. */
void give_backprop(const struct host_call *forward, TF_DataType type, struct host_call *call);
void free_backprop(const struct host_call *forward, struct host_call *call);
/* Runs the library's own forward on the host's inputs, with this counter; its outputs are in the memory of *args. */
void answer_forward(const struct net *n, int dtype, const struct host_call *host, uint64_t counter, struct cg_rnn **rnn, struct cg_rnn_call *args);
void free_answer(struct cg_rnn *rnn, struct cg_rnn_call *args);
/* Fails unless forward and Backprop of a network in type net_types[t] have the library's bits; `counter`: the number of calls that the
   kernel `forward` has computed before. */
void check_net(const struct net *n, int t, int version, void *forward, void *backward, uint64_t counter);

#endif
