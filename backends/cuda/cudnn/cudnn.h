/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the files of the cuDNN route share.  net_route.c decides which networks cuDNN computes and opens them, descriptor.c
 * describes them to cuDNN, queue.c keeps the state of a network on a queue, weight_space.c finds where cuDNN keeps the parameters,
 * rnn_data.c makes what depends on the sizes of a call, temp_space.c divides workspace and reserve space, forward_backward.c runs calls,
 * and range.c runs calls of more steps than cuDNN takes at once.
 */
#ifndef CG_CUDA_CUDNN_H
#define CG_CUDA_CUDNN_H

#include "backends/cuda/cuda.h"

/* A matrix or a bias: which of the network's it is, and where cuDNN keeps it. */
struct cg_dnn_part {
	int pseudo_layer;                        /* within the segment */
	enum cg_rnn_part part;
	int k;
	size_t at;                               /* bytes from the start of cuDNN's weight space */
};

/* cuDNN's layout of the parameters of a segment. */
struct cg_dnn_layout {
	size_t bytes;
	struct cg_dnn_part *parts;               /* in the order of the library's layout */
	int n;
	int is_identity;                         /* the layout is the library's, and these are all parameters of the plan */
};

/* An algorithm of cuDNN: the standard one, which is the first, or a persistent one, which suits some sizes. */
struct cg_dnn_algorithm {
	unsigned algorithm;
	struct cudnnRNNStruct *rnn;
	struct cg_dnn_layout layout;
};
enum { CG_DNN_ALGORITHMS = 3 };

/* What one call of cuDNN runs: all layers, or one layer where the library's masks lie between layers. */
struct cg_dnn_segment {
	int layers, skip;
	int64_t width;                           /* width of the input */
	struct cg_dnn_algorithm algorithms[CG_DNN_ALGORITHMS];
	int n_algorithms;
};

/*
 * The steps of one call of cuDNN: a whole call of a network, or a part of it.  Time-major memory of a part is cut to its steps; batch-major
 * memory is whole, and the part begins at step `first` of its `whole` steps.
 */
struct cg_dnn_range {
	int64_t T, B;
	const int32_t *lengths;                  /* [B], within these steps; NULL: all are T */
	int64_t first, whole;
};

/* The sizes of a range of steps, and what cuDNN needs for them. */
struct cg_dnn_shape {
	int64_t T, B, first, steps;              /* steps: of the memory, where it is whole */
	int32_t *lengths;                        /* [B]; NULL: all are T */
	int64_t N, live;                         /* N: valid steps; live: batch rows with at least one */
	int whole;                               /* all rows have T steps */
	int compact;                             /* some rows have no step, or the memory has more steps than the range: cuDNN gets
						  * the others, gathered and time-major */
	int moves;                               /* cuDNN's states have another order than the caller's */
	int algorithm;                           /* for each segment: the index of the persistent algorithm that suits, or 0 */
	size_t work, reserve[2];                 /* cuDNN's: the largest of all segments; that of the first segment and of each other */
	struct cudnnRNNDataStruct *x[2], *y;     /* x: for the first segment and for the others */
	struct cudnnTensorStruct *h, *c;

	/* Arrays on the device, only in the state of a queue. */
	int64_t *host;
	CUdeviceptr device;
	struct cg_mem from;                      /* int64 [N]: the caller's row of each valid step; with compact */
	struct cg_mem rows, t, b;                /* int64 [N]: cuDNN's row of each, its time and its batch row; absent: in order */
	struct cg_mem states, dead;              /* int64: the caller's row of each state of cuDNN; the caller's rows of states
						  * without a step */
	struct cg_mem padding;                   /* int64 [T B - N]: the caller's rows in the padding */
	struct cg_mem device_lengths;            /* int32 [live], where this version of cuDNN needs them on the device */
};
enum { CG_DNN_SHAPES = 4 };

/* The state of a network on one queue. */
struct cg_dnn_state {
	struct cg_dnn_state *next;
	struct cg_queue *queue;
	struct cg_dnn_shape *shapes[CG_DNN_SHAPES];
	int oldest;
	/* cuDNN's dropout, whose generator goes on from call to call; NULL where the masks are the library's. */
	CUdeviceptr generator;
	struct cudnnDropoutStruct *dropout;
	struct cudnnRNNStruct *algorithms[CG_DNN_ALGORITHMS];
};

struct cg_net {
	struct cg_net *next;                     /* the next of the device's networks; under the device's lock, as all that changes here */
	struct cg_dev *device;
	const struct cg_network *rnn;
	int version;
	unsigned cell, type;
	struct cg_dnn_segment segments[2];       /* the first, and each of the others */
	int n_segments;                          /* 1, or the number of layers */
	int vendor_dropout;
	int persistent;                          /* atomic; an enum of forward_backward.c: do persistent algorithms work here? */
	CUdeviceptr generator;                   /* for queries; calls use that of the queue's state */
	struct cudnnDropoutStruct *dropout;
	struct cg_dnn_shape *sizes[2 * CG_DNN_SHAPES];   /* the shapes of the latest queries */
	int oldest;
	struct cg_dnn_state *states_of_queues;
};

static inline const struct cg_dnn_segment *cg_dnn_segment_of(const struct cg_net *net, int n)
{
	return &net->segments[n > 0];
}

/* The width of an output; below, the number of states of a batch row. */
static inline int64_t cg_dnn_wide(const struct cg_network *rnn)
{
	return rnn->directions * rnn->H;
}
static inline int64_t cg_dnn_states(const struct cg_network *rnn)
{
	return (int64_t)rnn->layers * rnn->directions;
}

/* ---- descriptor.c ---- */

/* Makes a descriptor of a segment.  The dropout is the network's or that of its state on a queue. */
int  cg_dnn_describe(const struct cg_net *, const struct cg_dnn_segment *, unsigned algorithm, struct cudnnDropoutStruct *,
                     struct cudnnRNNStruct **);
/* Makes cuDNN's dropout with a generator, or dropout of rate 0, which has none.  The seeding is enqueued on the handle's stream. */
int  cg_dnn_make_dropout(const struct cg_net *, struct cudnnContext *, struct cg_queue *, CUdeviceptr *generator,
                         struct cudnnDropoutStruct **);

/* ---- queue.c ---- */

/* Finds the network's state on a queue, or makes it at its first call there, with the queue's handle. */
int  cg_dnn_find_state(struct cg_net *, struct cg_queue *, struct cg_dnn_state **);
/* Moves the state of a network that is closed to the queue; under the device's lock. */
void cg_dnn_leave_state(struct cg_dnn_state **);

/* ---- weight_space.c ---- */

/* Finds where cuDNN keeps a segment's parameters. */
int  cg_dnn_lay_out(const struct cg_net *, const struct cg_dnn_segment *, struct cg_dnn_algorithm *);
void cg_dnn_release_layout(struct cg_dnn_layout *);
/* Does cuDNN have input matrices for the first layer?  With skip_input it should have none. */
int  cg_dnn_has_input(const struct cg_dnn_layout *);
/* Moves the parameters of a segment, whose first layer is `first`, between the library's buffer and cuDNN's. */
int  cg_dnn_copy_in(struct cg_queue *, struct cg_cu_moves *, const struct cg_net *, int first, const struct cg_dnn_layout *,
                    struct cg_mem ours, struct cg_mem theirs);
int  cg_dnn_copy_out(struct cg_queue *, struct cg_cu_moves *, const struct cg_net *, int first, const struct cg_dnn_layout *,
                     struct cg_mem theirs, struct cg_mem ours);

/* ---- rnn_data.c ---- */

/* Finds the shape of a call's sizes among the latest ones, or makes it; under the device's lock. */
int  cg_dnn_find_sizes(struct cg_net *, const struct cg_dnn_range *, const struct cg_dnn_shape **);
/* The same for the state on a queue, with its arrays on the device. */
int  cg_dnn_find_shape(struct cg_net *, struct cg_dnn_state *, const struct cg_dnn_range *, const struct cg_dnn_shape **);
void cg_dnn_release_shape(struct cg_dev *, struct cg_queue *, struct cg_dnn_shape *);
/* Rows of cuDNN's sequences. */
int64_t cg_dnn_rows(const struct cg_dnn_shape *);

/* ---- temp_space.c ---- */

enum { CG_DNN_ALIGN = 256 };                     /* what cuDNN's own memory is aligned to, as memory of cudaMalloc is */

/* The workspace of a pass. */
struct cg_dnn_workspace {
	struct cg_mem vendor, weights, reserve;
	struct cg_mem dweights[2];                               /* segments use them in turn */
	struct cg_mem x, masked, y, dy, dx;
	struct cg_mem hx, cx, hy, cy, dhy, dcy, dhx, dcx;        /* states in cuDNN's order */
};
void cg_dnn_carve_workspace(const struct cg_net *, const struct cg_dnn_shape *, int pass, struct cg_work *, struct cg_dnn_workspace *);
/* Carves one segment's part of the reserve space: its output, and cuDNN's own reserve. */
void cg_dnn_carve_reserve(const struct cg_net *, const struct cg_dnn_shape *, struct cg_work *, int segment, struct cg_mem *y,
                          struct cg_mem *reserve);
/* The bytes that a range of steps needs; under the device's lock. */
int  cg_dnn_range_needs(struct cg_net *, const struct cg_dnn_range *, struct cg_net_sizes *);

/* ---- forward_backward.c ---- */

/* Runs a call, or a range of its steps, with the memory of the range. */
int cg_dnn_range_run(struct cg_queue *, struct cg_net *, int pass, const struct cg_dnn_range *, const struct cg_rnn_call *,
                     struct cg_mem work);

/* ---- range.c ---- */

enum { CG_DNN_STEPS = 65535 };                   /* the most steps of a data descriptor: cuDNN 9.26 reports more as not supported */

int cg_dnn_declines(const struct cg_net *, int64_t T, char why[CG_WHY_NOT]);
int cg_dnn_needs(struct cg_net *, int64_t T, int64_t B, const int32_t *lengths, struct cg_net_sizes *);
int cg_dnn_forward(struct cg_queue *, struct cg_net *, const struct cg_rnn_call *, struct cg_mem work);
int cg_dnn_backward(struct cg_queue *, struct cg_net *, const struct cg_rnn_call *, struct cg_mem work);

#endif
