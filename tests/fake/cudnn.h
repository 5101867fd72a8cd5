/* SPDX-License-Identifier: Apache-2.0 */
/* Declares what the parts of the stand-in for libcudnn share. */
#ifndef FAKE_CUDNN_H
#define FAKE_CUDNN_H

#include <stddef.h>
#include <stdint.h>

#include "cuda.h"
#include "number.h"

/* Constants of NVIDIA's cudnn_graph.h, cudnn_ops.h and cudnn_adv.h. Errors have the numbers of version 9 here; a stand-in that plays
   version 8 returns the numbers of version 8. */
enum {
	DNN_NOT_INITIALIZED = 1001, DNN_BAD_PARAM = 2000, DNN_NOT_SUPPORTED = 3000, DNN_ARCH_MISMATCH = 3007, DNN_INTERNAL_ERROR = 4000,
	DNN_ALLOC_FAILED = 4003, DNN_EXECUTION_FAILED = 5000
};
enum { DNN_FLOAT = 0, DNN_DOUBLE = 1, DNN_HALF = 2, DNN_BFLOAT16 = 9 };
enum { DEFAULT_MATH, TENSOR_OP_MATH, TENSOR_OP_MATH_ALLOW_CONVERSION, FMA_MATH };
enum { STANDARD, PERSIST_STATIC, PERSIST_DYNAMIC, PERSIST_SMALL_H };
enum { RELU, TANH, LSTM, GRU };
enum { NO_BIAS, SINGLE_INPUT_BIAS, DOUBLE_BIAS, SINGLE_RECURRENT_BIAS };
enum { SEQ_MAJOR_UNPACKED, SEQ_MAJOR_PACKED, BATCH_MAJOR_UNPACKED };
enum { INFERENCE, TRAINING };
enum { PADDED_IO = 1, MOST_DIMS = 8, WORK_ALIGNMENT = 256 };
enum { DNN_HANDLE = 10, DNN_TENSOR, DNN_DROPOUT, DNN_RNN, DNN_DATA };

struct dnn { struct handle handle; struct context *context; struct stream *stream; };
struct tensor { struct handle handle; int set, type, n, dims[MOST_DIMS], strides[MOST_DIMS]; };
struct dropout { struct handle handle; int set; double rate; uint64_t states; };

/* The description of a network, which cudnnSetRNNDescriptor_v8 sets. */
struct model {
	int cell, gates, bias, D, skip;
	int type, narrow;                        /* type: a number of library_types.h; narrow: operands of products are rounded to TF32 */
	/* in_halves: kernels pass numbers of 16 bits to each other; coarse_tanh: tanh has a relative error of up to 2^-11 */
	int in_halves, coarse_tanh;
	int order;                               /* the order in which products add their terms: see number.h */
	/* permuted: weights in reverse order, with gaps; shows_input: layer 0 has input matrices although it skips its input */
	int permuted, shows_input;
	int64_t L, I, U, H, P;                   /* P: the width of the projection, 0 without one */
};

struct rnn {
	struct handle handle;
	int set, algorithm, dnn_type, flags, built;      /* built: the batch size of cudnnBuildRNNDynamic */
	struct model model;
	struct dropout *dropout;
};

struct data {
	struct handle handle;
	int set, type, layout, T, B, width, fills, *lengths;
	double fill;
};

/* ---- cudnn.c ---- */

int fake_dnn_version(void);              /* the version played: 91300 for 9.13.0, 80907 for 8.9.7 */
/* A setting that is drawn by chance, once for a process, unless CELLGRAD_FAKE_CUDNN_`name` gives it; `which`: a CHANCE_
   constant. */
int fake_dnn_chance(const char *name, int which);
enum { CHANCE_LAYOUT, CHANCE_NAN, CHANCE_DESTROY, CHANCES };

/* Each of the next two functions returns the status of an error. fake_dnn_wrong: a mistake, which is reported; fake_dnn_lacks: this library
   lacks what the call needs, which is no mistake. */
int fake_dnn_wrong(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fake_dnn_lacks(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the status of a null pointer, or of a mistake that another function, such as fake_known(), has reported. */
int fake_dnn_bad(const char *call);
int fake_dnn_refused(const char *call, int code);
#define DNN_CALL(name, needs) \
	int inside __attribute__((cleanup(fake_leave), unused)) = 1, refusal = fake_enter(#name, needs); \
	if (refusal) \
		return fake_dnn_refused(#name, refusal)

/* The next three functions report a handle or descriptor that is not valid; fake_dnn_handle and fake_dnn_set then return NULL. */
struct dnn *fake_dnn_handle(const char *call, struct dnn *handle);
void *fake_dnn_set(const char *call, int kind, void *descriptor);
int fake_dnn_destroy(const char *call, int kind, void *descriptor);
/* Returns the library_types.h number of cuDNN's data type; -1: the stand-in has no such type. */
int fake_dnn_type(int type);

/* ---- cudnn_descriptor.c ---- */

enum { MATRIX, BIAS };
struct region { int64_t offset, rows, columns; };        /* offset: in elements; rows 0: the network has no such matrix or bias */
struct region fake_region(const struct model *, int pseudo_layer, int id, int part);
int fake_ids(const struct model *);
size_t fake_weight_bytes(const struct model *);
int64_t fake_width(const struct model *, int64_t layer);         /* the width of the layer's input */
size_t fake_work_bytes(const struct model *, const struct data *x);
/* Returns 0 if the network's algorithm can compute a call with such data, else a status. */
int fake_persists(const char *call, const struct rnn *, const struct data *, int backward);

/* ---- cudnn_forward.c, cudnn_back.c: the work ---- */

struct sequence { uint64_t at; int layout, fills; int64_t width; double fill; };

/* A call of forward, backward data or backward weights, with everything that its queued work needs later. */
struct net {
	const char *call;
	struct model m;
	int training, backward, destroys, nan_first;
	int64_t T, B;
	double rate;
	struct sequence x, y, dy, dx;
	uint64_t hx, hy, cx, cy, dhy, dhx, dcy, dcx, weights, dweights, lengths_at, states, work, reserve;
	size_t work_bytes, reserve_bytes;
	int lengths[];
};
size_t fake_reserve_bytes(const struct model *, int64_t T, int64_t B);
/* The functions that the three calls give to fake_enqueue(), each with a struct net as its data. */
int fake_net_forward(void *net), fake_net_data(void *net), fake_net_weights(void *net);

/* ---- cudnn_reserve.c: what a forward keeps for the gradient ---- */

/* What the reserve keeps of one direction of one layer. Row t * B + b is step t of sequence b, whatever the layout of the data. */
struct pseudo {
	/* gate: [T B, gates U]; q, c, m: [T B, U]; q: R h + b of GRU's candidate; c: the cell state; m: the output before a
	   projection. */
	double *gate, *q, *c, *m;
	double *h, *h_first, *c_first;           /* h: [T B, H], rounded to the dtype; h_first: [B, H]; c_first: [B, U] */
	/* What backward data leaves for backward weights; da, dq: [T B, gates U]; dh: [T B, H]. */
	double *da, *dq, *dh;
};
struct saved {
	struct stamp *stamp;
	/* One for each layer: in: the input that the layer read, [T B, width]; factor: the factors by which dropout multiplied that input, NULL
	   for the first layer. */
	double **in, **factor;
	struct pseudo *pseudo;
};
/* The header of the reserve. */
struct stamp { uint64_t mark, model, x, hx, cx, weights; int stage, dropped, spare[2]; };
enum { FORWARD_DONE = 1, DATA_DONE };

size_t fake_saved_open(struct saved *, const struct model *, int64_t T, int64_t B, void *at);
void fake_saved_close(struct saved *);
/* The weights of a pseudo-layer as doubles, plain and transposed; w is the start of the one allocated block that holds them all. */
struct weights { double *w, *w_turned, *r, *r_turned, *p, *p_turned, *b_input, *b_recurrent; };
struct weights fake_weights(const struct net *, int pseudo_layer);
uint64_t fake_stamp_of(const struct net *);
uint64_t fake_sequence_sum(const struct net *, const struct sequence *);
uint64_t fake_bytes_sum(uint64_t at, size_t bytes);
uint64_t fake_weights_sum(const struct net *);
/* The device address of step t of sequence b. */
uint64_t fake_step_address(const struct net *, const struct sequence *, int64_t t, int64_t b);

/* ---- cudnn_cell.c: one step of one row ---- */

/* Returns the number x as the next kernel reads it: rounded to the dtype if in_halves is set. */
double fake_handed(const struct model *, double x);
void fake_hand(const struct model *, double *x, int64_t n);

struct step {
	/* gate: [gates U]; q, c, m: [U]; q: R h + b of GRU's candidate; m: the step's output before a projection */
	double *gate, *q, *c, *m;
	const double *h_prev, *c_prev;
};
/* Computes a step of the cell from a = W x + b and r = R h + b of all gates. */
void fake_cell(const struct model *, const struct step *, const double *a, const double *r);
/* dm [U] is the gradient of m; dc [U] is the gradient of c on entry, and of c_prev on return. direct [U] is the part of the
   gradient of h_prev that passes no matrix. */
void fake_cell_back(const struct model *, const struct step *, const double *dm, double *dc, double *da, double *dr, double *direct);
/* Adds to out [n] the product of the row a [k] and the matrix [k, n]. */
void fake_add_product(const struct model *, int64_t n, int64_t k, const double *a, const double *matrix, double *out);

#endif
