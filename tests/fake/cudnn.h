/* SPDX-License-Identifier: Apache-2.0 */
/* Declares what the parts of the stand-in for libcudnn share. */
#ifndef FAKE_CUDNN_H
#define FAKE_CUDNN_H

#include <stddef.h>
#include <stdint.h>

#include "cuda.h"
#include "number.h"

/* As cudnn_graph.h, cudnn_ops.h and cudnn_adv.h of the vendor have them; errors as version 9 numbers them, until they are given. */
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

/* The description of a network, by whichever call it was set. */
struct model {
	int cell, gates, bias, D, skip;
	int type, narrow;                        /* as library_types.h has it; operands of products are rounded to TF32 */
	int in_halves, coarse_tanh;              /* what one kernel hands to the next has 16 bits; tanh is good to 2^-11 */
	int order;                               /* of adding: see number.h */
	int permuted, shows_input;               /* the layout of weights; with skip, layer 0 has matrices all the same */
	int64_t L, I, U, H, P;                   /* P: 0 without a projection */
};

struct rnn {
	struct handle handle;
	int set, algorithm, dnn_type, flags, built;      /* built: the batch size that it was built for */
	struct model model;
	struct dropout *dropout;
};

struct data {
	struct handle handle;
	int set, type, layout, T, B, width, fills, *lengths;
	double fill;
};

/* ---- cudnn.c ---- */

int fake_dnn_version(void);              /* 91300 for 9.13.0, 80907 for 8.9.7 */
/* Of a switch that is thrown by chance, the same for a whole process unless CELLGRAD_FAKE_CUDNN_`name` says it. */
int fake_dnn_chance(const char *name, int which);
enum { CHANCE_LAYOUT, CHANCE_NAN, CHANCE_DESTROY, CHANCES };

/* The status of an error: of a mistake, which is reported, or of something that this library lacks, which a caller may query. */
int fake_dnn_wrong(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fake_dnn_lacks(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same where fake_known() or fake_owned() has reported it. */
int fake_dnn_bad(const char *call);
int fake_dnn_refused(const char *call, int code);
#define DNN_CALL(name, needs) \
	int inside __attribute__((cleanup(fake_leave), unused)) = 1, refusal = fake_enter(#name, needs); \
	if (refusal) \
		return fake_dnn_refused(#name, refusal)

/* NULL after a report. */
struct dnn *fake_dnn_handle(const char *call, struct dnn *handle);
void *fake_dnn_set(const char *call, int kind, void *descriptor);
int fake_dnn_destroy(const char *call, int kind, void *descriptor);
/* -1: there is no such type in this version; else as library_types.h has it. */
int fake_dnn_type(int type);

/* ---- cudnn_descriptor.c ---- */

enum { MATRIX, BIAS };
struct region { int64_t offset, rows, columns; };        /* elements; no rows: there is none */
struct region fake_region(const struct model *, int pseudo_layer, int id, int part);
int fake_ids(const struct model *);
size_t fake_weight_bytes(const struct model *);
int64_t fake_width(const struct model *, int64_t layer);         /* of what a layer reads */
size_t fake_work_bytes(const struct model *, const struct data *x);
/* A status where this algorithm does not do it, 0 where it does. */
int fake_persists(const char *call, const struct rnn *, const struct data *, int backward);

/* ---- cudnn_forward.c, cudnn_back.c: the work ---- */

struct sequence { uint64_t at; int layout, fills; int64_t width; double fill; };

/* A call of one of the three, with everything that its work needs later. */
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
/* For fake_enqueue(). */
int fake_net_forward(void *net), fake_net_data(void *net), fake_net_weights(void *net);

/* ---- cudnn_reserve.c: what a forward keeps for the gradient ---- */

/* One direction of one layer.  Rows are t * B + b, whatever the layout. */
struct pseudo {
	double *gate, *q, *c, *m;                /* [T B, gates U], [T B, U]: R h + b of GRU's candidate; the state; before a projection */
	double *h, *h_first, *c_first;           /* [T B, H] rounded, [B, H], [B, U] */
	double *da, *dq, *dh;                    /* [T B, gates U] twice, [T B, H]: what backward data leaves for backward weights */
};
struct saved {
	struct stamp *stamp;
	double **in, **factor;                   /* by layer: what it read [T B, width]; dropout's factors, in layers above the first */
	struct pseudo *pseudo;
};
/* The header of the reserve. */
struct stamp { uint64_t mark, model, x, hx, cx, weights; int stage, dropped, spare[2]; };
enum { FORWARD_DONE = 1, DATA_DONE };

size_t fake_saved_open(struct saved *, const struct model *, int64_t T, int64_t B, void *at);
void fake_saved_close(struct saved *);
/* The weights of a pseudo-layer as doubles, plain and transposed; the first pointer is one malloc for all. */
struct weights { double *w, *w_turned, *r, *r_turned, *p, *p_turned, *b_input, *b_recurrent; };
struct weights fake_weights(const struct net *, int pseudo_layer);
uint64_t fake_stamp_of(const struct net *);
uint64_t fake_sequence_sum(const struct net *, const struct sequence *);
uint64_t fake_bytes_sum(uint64_t at, size_t bytes);
uint64_t fake_weights_sum(const struct net *);
/* The place of step t of row b. */
uint64_t fake_step_address(const struct net *, const struct sequence *, int64_t t, int64_t b);

/* ---- cudnn_cell.c: one step of one row ---- */

/* A number as the next kernel reads it, which may be rounded. */
double fake_handed(const struct model *, double x);
void fake_hand(const struct model *, double *x, int64_t n);

struct step {
	double *gate, *q, *c, *m;                /* [gates U], [U]; m: what comes out */
	const double *h_prev, *c_prev;
};
/* a = W x + b, r = R h + b, of all gates. */
void fake_cell(const struct model *, const struct step *, const double *a, const double *r);
/* dm [U] is the gradient of m; dc [U] that of c on entry, of c_prev on return.  direct [U] is the part of h_prev's gradient without
   products. */
void fake_cell_back(const struct model *, const struct step *, const double *dm, double *dc, double *da, double *dr, double *direct);
/* out [n] += a [k] turned matrix [k, n] */
void fake_add_product(const struct model *, int64_t n, int64_t k, const double *a, const double *matrix, double *out);

#endif
