/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the cuDNN route share.  net_route.c says which networks cuDNN computes and opens them, descriptor.c describes them
 * to cuDNN, queue.c keeps the state of a network on a queue, weight_space.c finds where cuDNN has the parameters, rnn_data.c makes what
 * depends on the sizes of a call, temp_space.c cuts up workspace and reserve, forward_backward.c runs calls, and range.c runs those of
 * more steps than cuDNN takes at once.
 */
#ifndef CG_CUDA_CUDNN_H
#define CG_CUDA_CUDNN_H

#include "backends/cuda/cuda.h"

/* A matrix or a bias: which of ours it is, and where cuDNN has it. */
struct cg_dnn_part {
	int pseudo_layer;                        /* of the segment's */
	enum cg_rnn_part part;
	int k;
	size_t at;                               /* bytes from the start of cuDNN's space */
};

/* The parameters of a segment as cuDNN has them. */
struct cg_dnn_layout {
	size_t bytes;
	struct cg_dnn_part *parts;               /* in the order of ours */
	int n;
	int is_identity;                         /* they are where ours are, and those are all of the plan's */
};

/* cuDNN's standard algorithm, which is the first, or a persistent one that may do for some sizes. */
struct cg_dnn_algorithm {
	unsigned algorithm;
	struct cudnnRNNStruct *rnn;
	struct cg_dnn_layout layout;
};
enum { CG_DNN_ALGORITHMS = 3 };

/* What one call of cuDNN runs: all layers, or one of them where the masks between layers are ours. */
struct cg_dnn_segment {
	int layers, skip;
	int64_t width;                           /* of its input */
	struct cg_dnn_algorithm algorithms[CG_DNN_ALGORITHMS];
	int n_algorithms;
};

/*
 * The steps of one call of cuDNN: a whole call of ours or a part of it.  Time-major memory of a part is cut to its steps; other
 * memory is whole, and the part's first step is the `first` of `whole` there.
 */
struct cg_dnn_range {
	int64_t T, B;
	const int32_t *lengths;                  /* [B], of these steps; NULL: all T */
	int64_t first, whole;
};

/* The sizes of a range of steps, and what cuDNN needs for them. */
struct cg_dnn_shape {
	int64_t T, B, first, steps;              /* steps: of the memory, which is whole */
	int32_t *lengths;                        /* [B]; NULL: all T */
	int64_t N, live;                         /* valid steps; batch rows that have one */
	int whole;                               /* all have T */
	int compact;                             /* some have none, or not all steps are in the range: cuDNN gets the others alone, time-major */
	int moves;                               /* states stand otherwise than cuDNN has them */
	int algorithm;                           /* of each segment: the persistent one that suits, or 0 */
	size_t work, reserve[2];                 /* cuDNN's: the most of all segments; of the first segment and of each other */
	struct cudnnRNNDataStruct *x[2], *y;     /* x: of the first segment and of the others */
	struct cudnnTensorStruct *h, *c;

	/* Only in the state of a queue: arrays on the device. */
	int64_t *host;
	CUdeviceptr device;
	struct cg_mem from;                      /* int64 [N]: the caller's row of each valid step; with compact */
	struct cg_mem rows, t, b;                /* int64 [N]: its row as cuDNN has it, its time and batch row; absent: in order */
	struct cg_mem states, dead;              /* int64: the caller's rows of the states, by cuDNN's; of those that have no step */
	struct cg_mem padding;                   /* int64 [T B - N]: the caller's rows beyond the lengths */
	struct cg_mem device_lengths;            /* int32 [live], where this version of cuDNN needs it */
};
enum { CG_DNN_SHAPES = 4 };

/* The state of a network on one queue. */
struct cg_dnn_state {
	struct cg_dnn_state *next;
	struct cg_queue *queue;
	struct cg_dnn_shape *shapes[CG_DNN_SHAPES];
	int oldest;
	/* cuDNN's dropout, whose generator goes on from call to call: NULL where the masks are ours. */
	CUdeviceptr generator;
	struct cudnnDropoutStruct *dropout;
	struct cudnnRNNStruct *algorithms[CG_DNN_ALGORITHMS];
};

struct cg_net {
	struct cg_net *next;                     /* of the device's; under its lock, like all that changes here */
	struct cg_dev *device;
	const struct cg_network *rnn;
	int version;
	unsigned cell, type;
	struct cg_dnn_segment segments[2];       /* the first, and each of the others */
	int n_segments;                          /* 1, or the layers */
	int vendor_dropout;
	int persistent;                          /* atomic; an enum of forward_backward.c: do its persistent algorithms work here? */
	CUdeviceptr generator;                   /* for queries; as in the state of a queue */
	struct cudnnDropoutStruct *dropout;
	struct cg_dnn_shape *sizes[2 * CG_DNN_SHAPES];   /* of the latest queries */
	int oldest;
	struct cg_dnn_state *states_of_queues;
};

static inline const struct cg_dnn_segment *cg_dnn_segment_of(const struct cg_net *net, int n)
{
	return &net->segments[n > 0];
}

/* The width of an output; how many states there are of a batch row. */
static inline int64_t cg_dnn_wide(const struct cg_network *rnn)
{
	return rnn->directions * rnn->H;
}
static inline int64_t cg_dnn_states(const struct cg_network *rnn)
{
	return (int64_t)rnn->layers * rnn->directions;
}

/* ---- descriptor.c ---- */

/* Sets up a descriptor of a segment; the dropout is the net's or that of a state on a queue. */
int  cg_dnn_describe(const struct cg_net *, const struct cg_dnn_segment *, unsigned algorithm, struct cudnnDropoutStruct *,
                     struct cudnnRNNStruct **);
/* Dropout of cuDNN's with a generator, or of rate 0, which has none.  The seeding is enqueued on the handle's stream. */
int  cg_dnn_make_dropout(const struct cg_net *, struct cudnnContext *, struct cg_queue *, CUdeviceptr *generator,
                         struct cudnnDropoutStruct **);

/* ---- queue.c ---- */

/* The net's state on the queue, made at its first call, with the queue's handle. */
int  cg_dnn_find_state(struct cg_net *, struct cg_queue *, struct cg_dnn_state **);
/* A net that is closed leaves its state to the queue; under the device's lock. */
void cg_dnn_leave_state(struct cg_dnn_state **);

/* ---- weight_space.c ---- */

/* Finds where a segment's parameters lie. */
int  cg_dnn_lay_out(const struct cg_net *, const struct cg_dnn_segment *, struct cg_dnn_algorithm *);
void cg_dnn_release_layout(struct cg_dnn_layout *);
/* Does cuDNN have matrices for an input that skips them? */
int  cg_dnn_has_input(const struct cg_dnn_layout *);
/* Moves the parameters of a segment, whose first layer is `first`, between our buffer and cuDNN's. */
int  cg_dnn_copy_in(struct cg_queue *, struct cg_cu_moves *, const struct cg_net *, int first, const struct cg_dnn_layout *,
                    struct cg_mem ours, struct cg_mem theirs);
int  cg_dnn_copy_out(struct cg_queue *, struct cg_cu_moves *, const struct cg_net *, int first, const struct cg_dnn_layout *,
                     struct cg_mem theirs, struct cg_mem ours);

/* ---- rnn_data.c ---- */

/* Finds the shape of a call's sizes among the latest, or makes it; under the device's lock. */
int  cg_dnn_find_sizes(struct cg_net *, const struct cg_dnn_range *, const struct cg_dnn_shape **);
/* The same for the state on a queue, with its arrays on the device. */
int  cg_dnn_find_shape(struct cg_net *, struct cg_dnn_state *, const struct cg_dnn_range *, const struct cg_dnn_shape **);
void cg_dnn_release_shape(struct cg_dev *, struct cg_queue *, struct cg_dnn_shape *);
/* Rows of cuDNN's sequences; bytes of one output of a segment. */
int64_t cg_dnn_rows(const struct cg_dnn_shape *);

/* ---- temp_space.c ---- */

enum { CG_DNN_ALIGN = 256 };                     /* as cudaMalloc's: what cuDNN's own memory begins at a multiple of */

/* The workspace of a pass. */
struct cg_dnn_workspace {
	struct cg_mem vendor, weights, reserve;
	struct cg_mem dweights[2];                               /* used by segments in turn */
	struct cg_mem x, masked, y, dy, dx;
	struct cg_mem hx, cx, hy, cy, dhy, dcy, dhx, dcx;        /* states as cuDNN has them */
};
void cg_dnn_carve_workspace(const struct cg_net *, const struct cg_dnn_shape *, int pass, struct cg_work *, struct cg_dnn_workspace *);
/* Carves the part of the reserve of one segment: its output, and cuDNN's own reserve. */
void cg_dnn_carve_reserve(const struct cg_net *, const struct cg_dnn_shape *, struct cg_work *, int segment, struct cg_mem *y,
                          struct cg_mem *reserve);
/* The bytes of a range of steps; under the device's lock. */
int  cg_dnn_range_needs(struct cg_net *, const struct cg_dnn_range *, struct cg_net_sizes *);

/* ---- forward_backward.c ---- */

/* Runs a call, or a range of its steps with the memory of the range. */
int cg_dnn_range_run(struct cg_queue *, struct cg_net *, int pass, const struct cg_dnn_range *, const struct cg_rnn_call *,
                     struct cg_mem work);

/* ---- range.c ---- */

enum { CG_DNN_STEPS = 65535 };                   /* that a data descriptor takes: of more cuDNN 9.26 says that they are not supported */

int cg_dnn_declines(const struct cg_net *, int64_t T, char why[CG_WHY_NOT]);
int cg_dnn_needs(struct cg_net *, int64_t T, int64_t B, const int32_t *lengths, struct cg_net_sizes *);
int cg_dnn_forward(struct cg_queue *, struct cg_net *, const struct cg_rnn_call *, struct cg_mem work);
int cg_dnn_backward(struct cg_queue *, struct cg_net *, const struct cg_rnn_call *, struct cg_mem work);

#endif
