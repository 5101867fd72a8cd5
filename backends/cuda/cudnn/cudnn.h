/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the files of the cuDNN route share.  net_route.c decides which networks cuDNN computes and opens them, descriptor.c
 * describes them to cuDNN, queue.c keeps the state of a network on a queue, and weight_space.c finds where cuDNN keeps the parameters.
 * rnn_data.c makes what depends on the sizes of a call, temp_space.c divides workspace and reserve space, forward_backward.c runs calls,
 * and range.c runs calls of more steps than cuDNN takes at once.
 */
#ifndef CG_CUDA_CUDNN_H
#define CG_CUDA_CUDNN_H

#include "backends/cuda/cuda.h"

/* A weight matrix or a bias of the network, and its place in cuDNN's weight space. */
struct cg_dnn_part {
	int pseudo_layer;                        /* the number of the pseudo-layer within its segment */
	enum cg_rnn_part part;
	int k;
	size_t at;                               /* the offset of the part in bytes from the start of cuDNN's weight space */
};

/* cuDNN's layout of the parameters of a segment. */
struct cg_dnn_layout {
	size_t bytes;
	struct cg_dnn_part *parts;               /* the matrices and biases, in the order of this library's layout */
	int n;
	int is_identity;                         /* 1: cuDNN's layout equals this library's, and the parts are all parameters of the network */
};

/* An algorithm of cuDNN: the standard algorithm, which is the first, or a persistent algorithm, which suits some sizes. */
struct cg_dnn_algorithm {
	unsigned algorithm;
	struct cudnnRNNStruct *rnn;
	struct cg_dnn_layout layout;
};
enum { CG_DNN_ALGORITHMS = 3 };

/* The layers that one call of cuDNN runs: all layers of a network, or one layer if this library applies dropout masks between layers. */
struct cg_dnn_segment {
	int layers, skip;
	int64_t width;                           /* the width of the segment's input */
	struct cg_dnn_algorithm algorithms[CG_DNN_ALGORITHMS];
	int n_algorithms;
};

/*
 * The steps of one call of cuDNN: a whole call of a network, or a part of it.  Time-major memory of a part is cut to the part's steps;
 * batch-major memory is that of the whole call, and the part begins at step `first` of the call's `whole` steps.
 */
struct cg_dnn_range {
	int64_t T, B;
	const int32_t *lengths;                  /* the valid steps of each batch row within the range, [B]; NULL: all are T */
	int64_t first, whole;
};

/* The sizes of a range of steps, and the descriptors, index arrays and sizes of memory that cuDNN needs for them. */
struct cg_dnn_shape {
	int64_t T, B, first, steps;              /* steps: the number of steps that the memory has, which may be that of the whole call */
	int32_t *lengths;                        /* the valid steps of each batch row, [B]; NULL: all are T */
	int64_t N, live;                         /* N: the number of valid steps; live: the number of batch rows with a valid step */
	int whole;                               /* 1: all batch rows have T valid steps */
	/* 1: some batch rows have no step, or the memory has more steps than the range, or the sequences are batch-major and a persistent
	 * algorithm, which needs time-major ones, suits the sizes: cuDNN gets the range's steps of rows with steps, gathered, time-major */
	int compact;
	int moves;                               /* 1: states are copied: `compact` is set, or cuDNN's have another order than the caller's */
	/* the index of the persistent algorithm that suits these sizes, the same in each segment; 0: none suits */
	int algorithm;
	/* bytes for cuDNN.  work: the largest workspace of all segments; reserve: cuDNN's reserve of the first segment, and that of each other
	 * one */
	size_t work, reserve[2];
	/* descriptors of sequences.  x: the input of the first segment, and of the others; y: the output */
	struct cudnnRNNDataStruct *x[2], *y;
	struct cudnnTensorStruct *h, *c;

	/* Index arrays on the device, which only the shapes in the state of a queue have. */
	int64_t *host;
	CUdeviceptr device;
	struct cg_mem from;                      /* int64 [N], only if `compact` is set: the row of each valid step in the caller's memory */
	/* int64 [N] each, by valid step.  rows: its row in cuDNN's memory; t: its number in the range; b: its batch row.  An array is absent
	 * if no copy reads the array, or if all batch rows have T steps and the sequences are time-major: row p of cuDNN's memory then is step
	 * p / B of batch row p % B. */
	struct cg_mem rows, t, b;
	/* int64.  states: the caller's row of each state of cuDNN; dead: the caller's rows of states of batch rows without a step */
	struct cg_mem states, dead;
	struct cg_mem padding;                   /* int64 [T B - N]: the caller's rows in the padding */
	struct cg_mem device_lengths;            /* the lengths, int32 [live], if this version of cuDNN needs them on the device */
};
enum { CG_DNN_SHAPES = 4 };

/* The state of a network on one queue. */
struct cg_dnn_state {
	struct cg_dnn_state *next;
	struct cg_queue *queue;
	struct cg_dnn_shape *shapes[CG_DNN_SHAPES];
	int oldest;
	/* cuDNN's dropout, whose generator goes on from call to call; 0 and NULL if cuDNN draws no dropout masks. */
	CUdeviceptr generator;
	struct cudnnDropoutStruct *dropout;
	struct cudnnRNNStruct *algorithms[CG_DNN_ALGORITHMS];
};

struct cg_net {
	/* the next open network of the device.  Field `next` and all other fields that change after the opening change under the
	 * device's lock */
	struct cg_net *next;
	struct cg_dev *device;
	const struct cg_network *rnn;
	int version;
	unsigned cell, type;
	struct cg_dnn_segment segments[2];       /* the description of the first segment, and that of each of the others */
	int n_segments;                          /* the number of segments: 1, or the number of layers */
	int vendor_dropout;
	/* do persistent algorithms work for the network?  Field `persistent` is atomic and has a value of an enum in forward_backward.c */
	int persistent;
	CUdeviceptr generator;                   /* the generator of cuDNN's dropout for queries; calls use that of the queue's state */
	struct cudnnDropoutStruct *dropout;
	struct cg_dnn_shape *sizes[2 * CG_DNN_SHAPES];   /* the shapes of the latest queries */
	int oldest;
	struct cg_dnn_state *states_of_queues;
};

static inline const struct cg_dnn_segment *cg_dnn_segment_of(const struct cg_net *net, int n)
{
	return &net->segments[n > 0];
}

/* cg_dnn_wide() returns the width of a layer's output, cg_dnn_states() the number of states of a batch row. */
static inline int64_t cg_dnn_wide(const struct cg_network *rnn)
{
	return rnn->directions * rnn->H;
}
static inline int64_t cg_dnn_states(const struct cg_network *rnn)
{
	return (int64_t)rnn->layers * rnn->directions;
}

/* ---- descriptor.c ---- */

/* Makes cuDNN's descriptor of the layers of a segment.  The dropout descriptor is the network's or that of the network's state on a
 * queue. */
int  cg_dnn_describe(const struct cg_net *, const struct cg_dnn_segment *, unsigned algorithm, struct cudnnDropoutStruct *,
                     struct cudnnRNNStruct **);
/* Makes a descriptor of cuDNN's dropout with a random generator, or of dropout of rate 0, which has no generator.  The seeding of the
 * generator is enqueued on the cuDNN handle's stream. */
int  cg_dnn_make_dropout(const struct cg_net *, struct cudnnContext *, struct cg_queue *, CUdeviceptr *generator,
                         struct cudnnDropoutStruct **);

/* ---- queue.c ---- */

/* Finds the network's state on a queue, or makes it at the network's first call on that queue, and with it the queue's cuDNN handle. */
int  cg_dnn_find_state(struct cg_net *, struct cg_queue *, struct cg_dnn_state **);
/* Moves the state *at from its network's list to the list of states that its queue frees later; called under the device's lock. */
void cg_dnn_leave_state(struct cg_dnn_state **);

/* ---- weight_space.c ---- */

/* Finds the place of each of a segment's parameters in cuDNN's weight space. */
int  cg_dnn_lay_out(const struct cg_net *, const struct cg_dnn_segment *, struct cg_dnn_algorithm *);
void cg_dnn_release_layout(struct cg_dnn_layout *);
/* Does cuDNN have input matrices for the first layer?  With skip_input a cuDNN that has such matrices does not compute the network. */
int  cg_dnn_has_input(const struct cg_dnn_layout *);
/* Copy the parameters of a segment, whose first layer is `first`, from this library's buffer to cuDNN's weight space, and back. */
int  cg_dnn_copy_in(struct cg_queue *, struct cg_cu_moves *, const struct cg_net *, int first, const struct cg_dnn_layout *,
                    struct cg_mem ours, struct cg_mem theirs);
int  cg_dnn_copy_out(struct cg_queue *, struct cg_cu_moves *, const struct cg_net *, int first, const struct cg_dnn_layout *,
                     struct cg_mem theirs, struct cg_mem ours);

/* ---- rnn_data.c ---- */

/* Finds the shape of a range of steps among the latest ones of the network's queries, or makes it; called under the device's lock. */
int  cg_dnn_find_sizes(struct cg_net *, const struct cg_dnn_range *, const struct cg_dnn_shape **);
/* Finds the shape of a range of steps among those of the network's state on a queue, or makes it, with its index arrays on the device. */
int  cg_dnn_find_shape(struct cg_net *, struct cg_dnn_state *, const struct cg_dnn_range *, const struct cg_dnn_shape **);
void cg_dnn_release_shape(struct cg_dev *, struct cg_queue *, struct cg_dnn_shape *);
/* The number of rows of a sequence that cuDNN gets: T rows for each batch row with a valid step. */
int64_t cg_dnn_rows(const struct cg_dnn_shape *);

/* ---- temp_space.c ---- */

/* the alignment of cuDNN's workspace and reserve in bytes, as memory of cudaMalloc has it */
enum { CG_DNN_ALIGN = 256 };

/* The workspace of a pass. */
struct cg_dnn_workspace {
	struct cg_mem vendor, weights, reserve;
	struct cg_mem dweights[2];                               /* cuDNN's weight gradients: [0] of even segments, [1] of odd segments */
	struct cg_mem x, masked, y, dy, dx;
	struct cg_mem hx, cx, hy, cy, dhy, dcy, dhx, dcx;        /* states and their gradients, in cuDNN's order */
};
void cg_dnn_carve_workspace(const struct cg_net *, const struct cg_dnn_shape *, int pass, struct cg_work *, struct cg_dnn_workspace *);
/* Carves one segment's part of the reserve space: its output, and cuDNN's own reserve. */
void cg_dnn_carve_reserve(const struct cg_net *, const struct cg_dnn_shape *, struct cg_work *, int segment, struct cg_mem *y,
                          struct cg_mem *reserve);
/* Computes the bytes of workspace and reserve space that a range of steps needs; called under the device's lock. */
int  cg_dnn_range_needs(struct cg_net *, const struct cg_dnn_range *, struct cg_net_sizes *);

/* ---- forward_backward.c ---- */

/* Runs a network call, or a range of its steps, on the memory of that range. */
int cg_dnn_range_run(struct cg_queue *, struct cg_net *, int pass, const struct cg_dnn_range *, const struct cg_rnn_call *,
                     struct cg_mem work);

/* ---- range.c ---- */

/* the most steps of a cuDNN data descriptor: cuDNN 9.26 reports more steps as not supported */
enum { CG_DNN_STEPS = 65535 };

int cg_dnn_declines(const struct cg_net *, int64_t T, char why[CG_WHY_NOT]);
int cg_dnn_needs(struct cg_net *, int64_t T, int64_t B, const int32_t *lengths, struct cg_net_sizes *);
int cg_dnn_forward(struct cg_queue *, struct cg_net *, const struct cg_rnn_call *, struct cg_mem work);
int cg_dnn_backward(struct cg_queue *, struct cg_net *, const struct cg_rnn_call *, struct cg_mem work);

#endif
