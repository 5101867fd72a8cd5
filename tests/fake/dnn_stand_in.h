/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the stand-in for libcudnn, and a network with all its memory, for tests of the stand-in. */
#ifndef FAKE_DNN_STAND_IN_H
#define FAKE_DNN_STAND_IN_H

#include "tests/fake/stand_in.h"

struct cudnnContext; struct cudnnTensorStruct; struct cudnnDropoutStruct; struct cudnnRNNStruct; struct cudnnRNNDataStruct;
struct CUstream_st;

extern struct dnn {
#define CUDNN_CALL(name, parameters, names) unsigned (*name) parameters;
#define CUDNN_COUNT(name, parameters, names) size_t (*name) parameters;
#define CUDNN_WORDS(name, parameters, names) const char *(*name) parameters;
#define CUDNN_TELLS(name, parameters, names) void (*name) parameters;
#include "backends/cuda/cuda.fn"
} dnn;

/* Returns the number that the chosen version of cuDNN has for an error that version 9 numbers `status`. */
unsigned dnn_error(unsigned status);
#define BAD_PARAM dnn_error(2000)
#define NOT_SUPPORTED dnn_error(3000)
#define INTERNAL_ERROR dnn_error(4000)
#define ALLOC_FAILED dnn_error(4003)
#define EXECUTION_FAILED dnn_error(5000)
enum { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT16 = 9, DEFAULT_MATH = 0, FMA_MATH = 3, MOST_ROWS = 32 };
enum { STANDARD, STATIC, DYNAMIC, SMALL_H };
enum { RELU, TANH, LSTM, GRU };

/* An array in device memory: its address, and the number of its elements. */
struct array { uint64_t at; int64_t n; };
struct net {
	/* The settings that a trial changes before net_open. P 0: no projection; a length of 0 means T. */
	int cell, type, algorithm, math, bias, skip, D, L, T, B, I, U, P, flags, layout, fills, lengths[MOST_ROWS];
	float rate, fill;
	uint64_t seed;

	struct cudnnContext *handle;
	struct cudnnRNNStruct *rnn;
	struct cudnnRNNDataStruct *x_data, *y_data;
	struct cudnnTensorStruct *h, *c;
	struct cudnnDropoutStruct *dropout;
	struct array x, y, dy, dx, hx, hy, cx, cy, dhy, dhx, dcy, dcx;
	uint64_t weights, dweights, work, reserve, states, device_lengths;
	size_t weight_bytes, work_bytes, reserve_bytes;
	void *given_lengths;                     /* the argument of calls: the device's lengths, or NULL for versions that need none */
};
/* The settings of a usual network: lstm, f64, 2 steps, a batch of 2 with lengths 2 and 1, 2 inputs, 2 units. */
struct net a_net(void);

/* Loads libcudnn and the other libraries, and makes a context and a stream. */
void dnn_begin(void);
/* Makes descriptors and memory; inputs, upstream gradients and params get the numbers of fill_rule, other memory stays unwritten. */
void net_open(struct net *n);
/* Sets the descriptors again, from changed settings; returns the status of setting the network's descriptor. */
unsigned net_set(struct net *n);
unsigned net_forward(struct net *n, int training);
unsigned net_data(struct net *n);
unsigned net_weights(struct net *n);
void net_train(struct net *n);           /* runs the three calls, with dweights cleared; each must succeed */
void net_close(struct net *n);
void dnn_end(void);

struct array make_array(const struct net *n, int64_t elements);
void put_array(const struct net *n, struct array a, const double *from);
double *get_array(const struct net *n, struct array a);  /* waits for the stream; the caller frees the copy */
/* put_params() takes, and get_dparams() returns, the parameters in this order: all matrices, then all biases, each by pseudo-layer and
   id. */
int64_t count_params(const struct net *n);
void put_params(const struct net *n, const double *from);
double *get_dparams(const struct net *n);
/* The number that net_open() writes to element k of the tensor with this tag. */
double fill_rule(int64_t k, int tag);
int64_t net_h(const struct net *n);

/* The network of a test: open and ready for calls; most tests do not close it, since they end with the report of a call. */
extern struct net net;
void ready(void);
void leave(void);                        /* closes the network and ends the test */
/* Waits for the stream, whose result must be `code`, and ends the test: leaks are then reported, too. */
void wait_for(int code);

#endif
