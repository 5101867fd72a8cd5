/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the plugin's parts share: the plugin in the host, tensors for calls of its kernels, and networks beside the library.
 * Where the plugin was not built, as without shared libraries, a test that asks for a kernel is skipped.
 */
#ifndef TF_TRIAL_H
#define TF_TRIAL_H

#include "tests/bindings/tensorflow/tf_host.h"
#include "runtime/cellgrad.h"

extern const char built_plugin[];

/* Loads the plugin into a host of this version, whose ops have kernels for these devices; returns what it registered. */
int load_plugin(const char *version, const char *devices, const char **state);
/* Loads it with all its ops, on the cpu. */
int load_usual(void **unused);
/* For cmocka: open the library's own context and stream, and load the plugin as usual; close them. */
int open_context(void **unused);
int close_context(void **unused);
extern struct cg_stream *the_stream;

/* A kernel of type T with attributes "rnn_mode=gru seed=7"; the test fails where the plugin refuses it. */
void *kernel_of(const char *op, const char *type, const char *attributes);

/* ---- tensors ---- */

/* Numbers of size 1/4 to 1, of either sign, in a shape, or in that of a tensor. */
TF_Tensor *numbers(TF_DataType type, int rank, const int64_t *dims);
TF_Tensor *numbers_like(TF_DataType type, const TF_Tensor *t);
/* A scalar of int32 or int64, or an element of 0 of another type. */
TF_Tensor *scalar(TF_DataType type, int64_t value);
/* A tensor's memory as the library takes it, and new memory of zeros, to be freed by its data. */
struct cg_mem mem_of(const TF_Tensor *t);
struct cg_mem make_mem(size_t bytes);

/* The call was done; it failed with this code, and these words within its own; its k-th output has these bytes. */
void assert_done(const struct host_call *call);
void assert_refused(const struct host_call *call, TF_Code code, const char *words);
void assert_output(const struct host_call *call, int k, struct cg_mem wanted);

/* ---- networks ---- */

struct net {
	const char *attributes;                  /* beside T */
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
/* The ops by their version, 1 to 3. */
extern const char *const forwards[4], *const backwards[4];

/* Inputs of a network for the op of a version, numbers in all of them. */
void give_inputs(const struct net *n, TF_DataType type, int dtype, int version, struct host_call *call);
/* Inputs of Backprop after a forward, whose tensors stay its own: free_backprop leaves them. */
void give_backprop(const struct host_call *forward, TF_DataType type, struct host_call *call);
void free_backprop(const struct host_call *forward, struct host_call *call);
/* The library's own forward of the host's inputs, as the counter-th call, into memory of args. */
void answer_forward(const struct net *n, int dtype, const struct host_call *host, uint64_t counter, struct cg_rnn **rnn, struct cg_rnn_call *args);
void free_answer(struct cg_rnn *rnn, struct cg_rnn_call *args);
/* Forward and Backprop of a network in net_types[t], the counter-th call of the kernel, have the library's bits. */
void check_net(const struct net *n, int t, int version, void *forward, void *backward, uint64_t counter);

#endif
