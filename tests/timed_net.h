/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network that net_time measures in two ways on one stream: by three calls of cuDNN alone, with descriptors, weights, workspace and
 * reserve space of their own, and by the library.  cuDNN's calls and the library's have the same sequences and states.
 */
#ifndef TIMED_NET_H
#define TIMED_NET_H

#include "backends/cuda/cuda.h"
#include "tests/gpu_time.h"

enum { BUFFERS = 32, ROWS_MAX = 512 };

struct net_cell { const char *cell; unsigned mode; int has_c; };
extern const struct net_cell net_cells[4];
struct size { int T, B, I, U, layers, directions; };

/* cuDNN alone. */
struct bare {
	struct cudnnContext *handle;
	struct cudnnDropoutStruct *dropout;
	struct cudnnRNNStruct *rnn;
	struct cudnnRNNDataStruct *x, *y;
	struct cudnnTensorStruct *h, *c;
	size_t weight_bytes, work_bytes, reserve_bytes;
	struct cg_mem weights, dweights, work, reserve, lengths;
};

struct net {
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_rnn_config config;
	struct size size;
	int cell;
	struct cg_rnn *rnn;
	struct cg_rnn_call call;
	struct cg_mem buffers[BUFFERS];
	int n_buffers;
	unsigned long long noise;                /* the state of the random numbers in the buffers */
	struct bare bare;
	struct gpu_timer timer;
	void *graph;                             /* the CUDA graph of the work that time_graph repeats; NULL: none */
	int ragged;                              /* not 0: the sequences have different lengths */
	int32_t lengths[ROWS_MAX];
};

/* Opens the network for cuDNN alone, with one of cuDNN's algorithms.  The library's network must be open: cuDNN's calls use its
 * sequences. */
int  net_open_bare(struct net *, unsigned algorithm);
void net_close_bare(struct bare *);
/* By cuDNN alone, net_forward_bare runs a forward pass, and net_step_bare a training step of a forward and a backward pass. */
int  net_forward_bare(struct net *);
int  net_step_bare(struct net *);

/* Opens the network by the library, and allocates its memory. */
int  net_open_ours(struct net *);
int  net_step_ours(struct net *);
/* Opens the library's network and runs one training step, which shows whether the network works, and sets net_algorithm. */
int  net_try_ours(struct net *);
/* The algorithm of cuDNN that the library's last step took. */
extern unsigned net_algorithm;

#endif
