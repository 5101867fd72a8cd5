/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks over whole sequences: plans, shapes of calls, packed sequences, layers, and the recurrence.
 */
#ifndef CG_RNN_H
#define CG_RNN_H

#include "runtime/device/device.h"
#include "runtime/op/op.h"
#include "runtime/rnn/network_op.h"

/* A gate.  Field `weight`: for each part of a gate's weights (input matrix, recurrent matrix, bW, bR), the number of this gate's part among
 * those of all gates, in the order of params; -1: the gate lacks the part.  Field `block`: the number of the gate's column block.  The
 * matrix of gate pre-activations consists of blocks of U columns: first the gates that a recurrent product adds to, then all others. */
struct cg_rnn_gate { int weight[CG_GATE_PARTS], block; };

/* A range of contiguous column blocks whose weights of a part are contiguous, too.  One product computes all blocks of a range of input
 * matrices; one copy writes all blocks of a range of biases.  add 1: these biases are added to those that another range wrote. */
struct cg_gate_range { int weight, block, n, part, add; };

/* A saved value [N, U], of which each step saves its rows, for the backward pass or for the next step.  Field `acc` 1: the value has type
 * acc, f64 for f64 and else f32; 0: the dtype. */
struct cg_rnn_saved { int acc; };

enum { CG_RNN_SAVED_MAX = CG_SAVES_MAX + 2 };

/* Indices of the matrices that are packed for the products of single steps: the recurrent ones by stage, and the projection. */
enum { CG_RNN_PACKED_PROJECTION = CG_STAGES_MAX, CG_RNN_PACKED_MAX };
_Static_assert(CG_ROUTE_MAX >= 32 + CG_WHY_NOT, "a route's description has space for the reason of a refusal");

/* The parts of a pass's workspace that a pseudo-layer has for itself while it runs. */
struct cg_rnn_own {
	struct cg_mem gates, bias, stage_input[CG_STAGES_MAX], packed[CG_RNN_PACKED_MAX], scan, h_first, c_first[CG_STATES_MAX], x, means;
	struct cg_mem d_gates, d_stage_input[CG_STAGES_MAX], dm, dh, carry_h, carry_c[CG_STATES_MAX], prev_h, prev_c[CG_STATES_MAX];
	struct cg_mem saved[CG_RNN_SAVED_MAX];   /* memory for saved values; set only without training, when there is no reserve space */
};

/* The parts of a pass's workspace.  All members are cg_mem: storage.c lays them out as offsets, layers.c assigns memory to them. */
struct cg_rnn_workspace {
	/* Hidden states by direction, if they are not in the reserve space: those of the layers that run at once and of the layer below.  The
	 * hidden states of layer l are at index l modulo (n + 1), where n is the number of layers that run at once. */
	struct cg_mem h[CG_SCANS_MAX + 1][2];
	/* dx: sums, of type acc, of the gradient of a layer's input, by direction, with rows in that direction's order */
	struct cg_mem dx[2], dx_real, dy[2];
	struct cg_mem partial, sum;
	struct cg_rnn_own own[CG_SCANS_MAX];     /* the last field, since only its first at_once entries are set */
};

/* The strides of a caller's sequence: elements from step to step, and from batch row to batch row.  In a packed sequence, whose rows are
 * contiguous, both are the width of a row. */
struct cg_rnn_spacing { int64_t t, b; };

/* The shape of a call: everything that follows from its sizes, lengths and strides, computed once and passed down. */
struct cg_rnn_shape {
	int64_t T, B, N, longest;                /* N: valid steps of all batch rows; longest: the largest length */
	const int32_t *lengths, *batch_sizes;    /* if lengths and batch_sizes are NULL, all batch rows have T steps */
	uint64_t lengths_stamp;                  /* a hash of the lengths */
	struct cg_rnn_spacing input, output;     /* strides of input and output, and of their gradients */
	int is_plain;                            /* 1: input and output are dense and are not packed sequences */
	int is_whole;                            /* 1: all batch rows have T steps */
	/* all batch rows have T steps, and the caller's rows are in packed order and evenly spaced: no index array is needed */
	int input_in_place, output_in_place;
	int is_vendors;                          /* 1: a vendor's library runs the call; 0: layers.c runs it */
	/* the number of pseudo-layers that layers.c runs together: 1, the two directions of a layer, or several layers */
	int at_once;
	/* bytes of the reserve space, and of the workspace of each pass; with is_vendors 0, of one pass alone: those of the other are 0 */
	struct cg_net_sizes bytes;
	struct cg_rnn_workspace workspace;       /* if layers.c runs the call: the workspace's layout for the pass given to cg_rnn_measure() */
};

struct cg_rnn {
	struct cg_context *context;              /* the context, to which the plan has a reference while `holders` is not 0 */
	int holders, is_cached;                  /* holders: reference count; atomic, or, for a cached plan, under the cache's lock */
	struct cg_network net;                   /* the network's description, which a backend's code for a vendor's library reads, too */
	int options;
	uint64_t fingerprint;                    /* a hash of everything in the plan that the reserve space depends on */
	double values[CG_PARAMS_MAX];            /* values of the cell's params, rounded to the dtype */
	/* route: the plan's route; beyond: the route of calls that have more steps than the vendor's library supports */
	char route[CG_ROUTE_MAX], beyond[CG_ROUTE_MAX];
	int by_name, scans;                      /* by_name: the caller named a vendor's route.  scans: the route is scan */
	struct cg_net *vendor;                   /* the network of the vendor's library; NULL: the route is composed or scan */
	struct cg_network_text text;
	const struct cg_kernel_entry *forward, *grad;    /* the context's kernels; NULL on a vendor's route; grad: NULL without training */

	struct cg_rnn_gate gates[CG_GATES_MAX];
	int n_blocks;                            /* number of blocks of U columns of gate pre-activations */
	struct cg_gate_range ranges[CG_GATES_MAX];
	int n_ranges;
	struct cg_gate_range biases[3 * CG_GATES_MAX];   /* ranges of bR, then of bW; part -1: a range of blocks without biases */
	int n_biases;
	/* first[s]: the first column block of stage s + 1, where stages count from 1; first[n_stages]: the first column block to which no
	 * recurrent product adds */
	int first[CG_STAGES_MAX + 2];
	int vectors[CG_WEIGHTS_MAX];             /* the cell's index of each per-unit weight that the cell has with the plan's options */
	/* output: the index of the output among the cell's values of the step before; slot: by that index, the number of a cell state among
	 * the cell states, or -1 for the output */
	int n_states, output;
	signed char slot[CG_STATES_MAX + 1];
	struct cg_rnn_saved saved[CG_RNN_SAVED_MAX];     /* the values that the cell saves, then output and cell states that it does not */
	int n_saved, saved_h, saved_c[CG_STATES_MAX];
	/* By pass (0 forward, 1 gradient) and stage: the saved value that is the operand of the product after the stage; -1: the operand is
	 * not saved and has separate memory. */
	signed char stage_input_saved[2][CG_STAGES_MAX];
	int sum_values;                          /* the most values that one function of the gradient sums over the rows */
	/* the most means over units that a row has in memory: in a forward step, in a step of the gradient, in the gradient's sums over rows */
	int means, d_means, sum_means;
	/* 1 if the gradient's sums over rows read: sums_prev_h: h of the step before; sums_prev_c[k]: cell state k of the step before;
	 * sums_carry: the carried gradients, or gradients of stage inputs */
	int sums_prev_h, sums_prev_c[CG_STATES_MAX], sums_carry;
	int uses_h_prev;                         /* 1: an equation of the cell reads h_prev, beside the recurrent product */
	int keeps_gates;                         /* 1: the reserve space holds the gate pre-activations, which the gradient reads */
	struct cg_rnn_op op;                     /* in an open plan: the attributes and sizes of its calls */
};

/* ---- packed.c ---- */

/*
 * A packed sequence: the order of a call's valid steps, so that no kernel reads a length.  Batch rows are sorted by falling length; step s
 * consists of the first n[s] of them, in packed rows from off[s] on.  In a reversed direction, step s of a row of length n is time
 * n - 1 - s.  If all rows have T steps (dense), packed rows are ordered by time in both directions, and a reversed direction takes them
 * from the end.  The reserve space has the order of packed rows, too, so that it does not depend on the layout of the caller's rows.
 */
struct cg_packed {
	/* N: valid steps of all batch rows; S: the length of the longest batch row, the number of steps */
	int64_t T, B, N, S;
	/* 1: all rows have T steps and no vendor's library runs the call: packed row p is batch row p % B at time p / B in both directions;
	 * of the arrays for the device only input and output may be present */
	int is_dense;
	/* not read if is_dense.  n: [S], the number of rows of a step; off: [S + 1], the first packed row of each step, then N */
	int64_t *n, *off;
	struct cg_mem offsets;                   /* off, in memory that the device reads; absent if is_dense */
	/* Arrays of int64 in memory that the device reads.  Direction 0 of a network with `reverse` has the order of direction 1 of other
	 * networks. */
	struct cg_mem order, last;               /* [B] each, by sorted row.  order: its batch row; last: the packed row of its last step */
	/* The position of each packed row in the caller's input and output, and in their gradients: [N] indices, by direction, and the
	 * unit of an index, in elements.  Absent: packed row p has index p. */
	struct cg_mem input[2], output[2];
	int64_t input_unit, output_unit;
	/* [N]: the row in dense memory of each packed row of direction 0, for a vendor's call on strided or packed sequences */
	struct cg_mem dense;
	struct cg_mem t[2], b;                   /* [N] each.  t: the time of each packed row, by direction; b: its batch row */
	struct cg_mem reversed_index;            /* [N]: the packed row of the other direction for the same time and batch row */
	/* [N]: for each packed row, the packed row of the step before it; in the first step, the number of the sorted row */
	struct cg_mem prev;
};
static inline int64_t cg_packed_rows(const struct cg_packed *sequence, int64_t s)
{
	return sequence->is_dense ? sequence->B : sequence->n[s];
}
static inline int64_t cg_packed_offset(const struct cg_packed *sequence, int direction, int64_t s)
{
	return !sequence->is_dense ? sequence->off[s] : sequence->B * (direction ? sequence->T - 1 - s : s);
}
/* Sets N, longest, is_whole and lengths_stamp from the lengths or batch sizes; CG_BAD_ARGUMENT: one of these is out of range. */
int  cg_packed_count(struct cg_rnn_shape *);
/* Computes the lengths, [B], from the batch sizes, in cg_memory that the caller frees; *lengths: NULL without batch sizes or rows. */
int  cg_packed_get_lengths(const struct cg_rnn_shape *, int32_t **lengths);
/* If a caller's sequence has padding, zeros all its rows, of `width` elements each; memory between rows is unchanged.  Argument `any`:
 * memory of at least one row, which is copied with every element dropped, so that it gives zeros. */
int  cg_packed_clear(struct cg_stream *, int dtype, const struct cg_rnn_shape *, struct cg_rnn_spacing, int64_t width, struct cg_mem,
                     struct cg_mem any);
/* Gets the packed sequence of a call.  The stream keeps the last packed sequence that has index arrays, for calls with the same
 * sizes, lengths, strides and directions. */
int  cg_packed_get(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_shape *, struct cg_packed *);

/* ---- cell_layout.c ---- */

/* Sets the plan's gates, weights and saved values from the cell and its options. */
int cg_rnn_lay_out_cell(struct cg_rnn *);
/* Finds, without compiling kernels, which values the kernels of the forward pass and, with training, those of the gradient read.  The
 * reserve space holds the gate pre-activations if kernels of the gradient read them.  CG_BAD_ARGUMENT: the cell forbids the network's
 * projection. */
int cg_rnn_analyse_gradient(struct cg_rnn *);
/* Gets the kernels for routes composed and scan; a context compiles each kernel once. */
int cg_rnn_compile(struct cg_rnn *);

/* ---- plan.c ---- */

/* Checks a config and fills the part of a plan that does not depend on a device, for example the layout and the number of params. */
int cg_rnn_describe(const struct cg_rnn_config *, struct cg_rnn *);
/* Frees a plan without references; the caller drops the plan's reference to its context. */
void cg_rnn_free(struct cg_rnn *);
/* Returns a caller's config; one that was compiled against an earlier header is completed in `storage`. */
const struct cg_rnn_config *cg_rnn_config_complete(const struct cg_rnn_config *, struct cg_rnn_config *storage);

/* ---- sizes.c, call.c ---- */

/* Checks sizes, lengths and strides, and computes the shape of a call for one pass; CG_BAD_ARGUMENT: the call has too many
 * steps, rows or bytes.  Of the call's memory only `work` matters: if `work` is given and too small for several pseudo-layers at once,
 * one pseudo-layer runs at a time. */
int cg_rnn_measure(const struct cg_rnn *, int pass, const struct cg_rnn_call *, struct cg_rnn_shape *);
/* Computes the bytes of params, of the reserve space, and of a workspace that is large enough for both passes. */
int cg_rnn_measure_sizes(const struct cg_rnn *, const struct cg_rnn_call *, struct cg_rnn_sizes *);
/* Checks what cg_op_check() does not check by the call's row and needs no memory: stream, plan, sizes, lengths, strides, first_step
 * and flags.  Sets the call's shape. */
int cg_rnn_check_call(struct cg_stream *, const struct cg_rnn *, int pass, const struct cg_rnn_call *, struct cg_rnn_shape *);
/* The size of the reserve space in elements of the plan's dtype. */
int64_t cg_rnn_reserve_elements(const struct cg_rnn *, const struct cg_rnn_shape *);

/* ---- route.c ---- */

/* Checks that a route of this name exists on some backend; NULL is legal. */
int  cg_rnn_check_route(const char *route);
/* Chooses the route of a plan, and opens the vendor's network if the route is a vendor's.  Argument `wanted` NULL: the best route. */
int  cg_rnn_open_route(struct cg_rnn *, const char *wanted);
void cg_rnn_close_route(struct cg_rnn *);
/* Sets *is_vendors to 1 if the vendor's library runs calls of T steps, else to 0.  CG_UNSUPPORTED: the library does not run such calls, and
 * the caller named the vendor's route. */
int  cg_rnn_choose_route(const struct cg_rnn *, int64_t T, int *is_vendors);
/* Does a call of T steps run on route composed although the plan's route is a vendor's? */
int  cg_rnn_is_beyond(const struct cg_rnn *, int64_t T);
/* Runs a checked call on its route. */
int  cg_rnn_run(struct cg_stream *, const struct cg_rnn *, int pass, const struct cg_rnn_call *, struct cg_rnn_shape *,
                struct cg_mem work);

/* ---- vendor_rows.c ---- */

/* Bytes of the workspace of a vendor's call on strided or packed sequences: `own` bytes of the vendor, then dense copies of the sequences;
 * SIZE_MAX: more than a size_t can hold. */
size_t cg_vendor_measure(const struct cg_rnn *, int pass, const struct cg_rnn_shape *, size_t own);
/* Runs a vendor's call on dense copies of its sequences. */
int cg_vendor_run(struct cg_stream *, const struct cg_rnn *, int pass, const struct cg_rnn_call *, const struct cg_rnn_shape *,
                  struct cg_mem work);

/* ---- op_rows.c ---- */

void cg_rnn_op_init(void *op, size_t size);
/* Does the op use the port?  The op uses no port of a state that its cell lacks, and never TensorFlow's placeholder host_reserved. */
int  cg_rnn_op_reads(const struct cg_op *, const struct cg_port *, const void *op);
/* Sets the layout of a port's rows, in a call whose shape is known; returns 0 if all sequences are dense or the port is no sequence. */
int  cg_rnn_op_spacing(const struct cg_port *, const void *op, struct cg_spacing *);

/* ---- reserve.c ---- */

/* cg_reserve_write() writes the header of a reserve space, and cg_reserve_check() checks it.  If the reserve space is in device memory,
 * both do nothing unless CELLGRAD_CHECK is 1. */
int  cg_reserve_write(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, const struct cg_rnn_shape *);
int  cg_reserve_check(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, const struct cg_rnn_shape *);

/* ---- storage.c ---- */

/* Does the plan train with dropout between layers? */
int cg_rnn_drops(const struct cg_rnn *);
/* Does another step read saved value k? */
int cg_rnn_is_read_later(const struct cg_rnn *, int k);
/* The number of steps of a span, if the backend's scan runs the recurrence; 0: one span has all steps. */
int64_t cg_layers_span_steps(const struct cg_rnn *, int pass, const struct cg_rnn_shape *);
/* The row stride, in elements of `bytes` bytes, of the gate pre-activations in the workspace, or of their gradients. */
int64_t cg_layers_get_gates_stride(const struct cg_rnn *, size_t bytes);
/* Lays out the shape's workspace for a pass, and sets the number of pseudo-layers that run at once, `at_once` or fewer.  Returns the bytes
 * of the workspace; SIZE_MAX: more than a size_t can hold. */
size_t cg_layers_lay_out_workspace(const struct cg_rnn *, int pass, int at_once, struct cg_rnn_shape *);
/* The number of cg_mem fields of the shape's workspace, up to those of the last pseudo-layer that runs at once. */
size_t cg_layers_count_parts(const struct cg_rnn_shape *);
/* The bytes of the reserve space for N valid steps. */
size_t cg_layers_measure_reserve(const struct cg_rnn *, int64_t N);
/* Sets a bound: the reserve space for N valid steps has at most fixed + step N bytes. */
void cg_layers_bound_reserve(const struct cg_rnn *, size_t *fixed, size_t *step);
/* The saved values of the first pseudo-layer in the reserve space, and the bytes from one pseudo-layer to the next. */
struct cg_rnn_saved_values { struct cg_mem values[CG_RNN_SAVED_MAX], gates; size_t bytes; };
void cg_layers_lay_out_saved(const struct cg_rnn *, int64_t N, struct cg_mem reserve, struct cg_rnn_saved_values *);

/* ---- layers.c ---- */

/* cg_layers_forward() and cg_layers_backward() run a checked call on route scan or composed, and assign memory to the parts of the
 * shape's workspace. */
int cg_layers_forward(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, struct cg_rnn_shape *,
                      struct cg_mem work);
int cg_layers_backward(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, struct cg_rnn_shape *,
                       struct cg_mem work);

/* ---- recurrence.c: one direction of one layer, or a block op ---- */

/* A weight matrix and its gradient; an absent gradient is not computed. */
struct cg_matrix_pair { struct cg_matrix value, grad; };

/* A recurrence: the cell, the layout of its weights, and all memory that it reads and writes.  In the shapes below, N counts packed rows;
 * `real` and `acc` are types of elements: the dtype, and f64 for f64, else f32.  An absent input stands for zeros. */
struct cg_recurrence {
	struct cg_stream *stream;
	const struct cg_packed *sequence;
	int direction;

	/* The cell; the arrays belong to the caller. */
	/* the kernel's pass decides whether the cell state and the carries have the dtype or type acc */
	const struct cg_kernel_entry *kernel;
	size_t bytes[2];                         /* bytes of an element of the dtype, and of acc */
	const double *values;                    /* values of the cell's params, rounded to the dtype */
	const struct cg_rnn_gate *gate;
	const struct cg_gate_range *ranges;
	const int *first;
	const signed char *stage_input_saved;    /* the row of the plan's array stage_input_saved for this pass */
	int n_ranges, n_blocks, output, saved_h, uses_h_prev;
	int n_states;                            /* number of cell states; below, c stands for any of them */
	const int *saved_c;                      /* by cell state: the number of the saved value that holds it */
	const signed char *slot;                 /* by the index of a previous value: the number of its cell state; -1: the output */

	/* The layout of the weights.  A matrix holds all gates: [gates U, in] as in cuDNN and PyTorch, or, by_input, [in, gates U] as in
	 * TensorFlow. */
	int64_t U, H, P, width;                  /* units; width of the hidden state; width of the projection, or 0; width of x */
	int skip, by_input;                      /* skip: there is no input matrix; x is added to each gate that takes x */
	int in_order;                            /* 1: recurrent products must have the bits of the backend's scan */
	struct cg_matrix_pair input, recurrent, projection;
	struct cg_mem vector[CG_WEIGHTS_MAX], d_vector[CG_WEIGHTS_MAX];  /* per-unit weights and their gradients, by the cell's index */
	struct cg_mem scalars, d_scalars;        /* the cell's scalars and their gradients, in the cell's order */
	struct cg_mem d_bias[2];                 /* [gates U]: gradients of the biases, of bW and bR if there are two */

	struct cg_matrix x;                      /* the input of the recurrence, [N, width] */
	struct cg_mem saved[CG_RNN_SAVED_MAX];   /* the saved values, [N, U] each; absent: an output of a block op that is not requested */
	unsigned char in_turn[CG_RNN_SAVED_MAX]; /* 0: saved[k] holds all steps; n: saved[k] holds n steps in turn, [n B, U] */
	struct cg_matrix h;                      /* [N, H]: the hidden state, that is the saved output or its projection */
	/* the initial states, batch rows in the sorted order: h_first [B, H], type real; c_first [B, U], type acc, or real in a block op */
	struct cg_matrix h_first, c_first[CG_STATES_MAX];
	struct cg_matrix bias;                   /* the biases: one row with the column blocks of all gates */
	/*
	 * span: the number of steps whose input products, or gradients of matrices, are computed together, so that their gates are still
	 * in a cache when the steps read them; 0: all.  gates_of_span: `gates` holds the rows of one span; gates_row: the first of them.
	 */
	int64_t span, gates_row;
	int gates_of_span;
	struct cg_matrix gates;                  /* the gate pre-activations, [N, blocks U], type acc */
	struct cg_mem stage_input[CG_STAGES_MAX]; /* operands of the products between stages, type real: forward [B, U], backward [N, U] */
	struct cg_mem packed[CG_RNN_PACKED_MAX]; /* matrices packed for the products of single steps; absent: not packed */
	struct cg_mem means;                     /* means over units, those of a row side by side, type acc */
	struct cg_mem scan;                      /* the workspace of the backend's scan; absent: products and launches step by step */

	/* backward only */
	struct cg_matrix d_gates;                /* the gradients of the gate pre-activations, [N, blocks U], type real */
	struct cg_matrix dy, dc;                 /* the upstream gradients of h and c, [N, H] and [N, U], type real; dc: in a block op alone */
	/*
	 * The carries: gradients of h and c that a step passes to the step before it.  A carry is two matrices [B, U] that are used in turn,
	 * unless every_carry is set or, for h, the network has a projection.
	 * In a network the carries have type acc, and begin as the gradients of output_h and output_c.  The backward pass reaches a row first
	 * at the row's last step; no step that ran earlier has written the row's carry, so that this step reads the initial values.
	 * every_carry: all carries are kept, [N + B, U], one for each packed row and those of the initial states; set for cells whose sums read
	 * the carries or gradients of stage inputs.
	 */
	struct cg_mem carry_h, carry_c[CG_STATES_MAX];
	struct cg_matrix d_h_first, d_c_first[CG_STATES_MAX];    /* the gradients of h_first and c_first; absent: not computed */
	struct cg_mem d_stage_input[CG_STAGES_MAX]; /* gradients of stage_input, type acc: [B, U], or with every_carry [N, U] */
	int every_carry;
	struct cg_matrix dh;                     /* with a projection: the gradient of the hidden state, [N, P], type real, begins as dy;
	                                          * carry_h is then [B, P], the gradient of h_first */
	struct cg_mem dm;                        /* with a projection: the gradient of the cell's output, in the shape of d_stage_input */
	/* h and c of the step before, [N, H] of type real and [N, U]; absent: h and c_first suffice */
	struct cg_mem prev_h, prev_c[CG_STATES_MAX];
	struct cg_mem partial, sum;              /* partial: partial sums.  sum: in f16 and bf16, a part of dR of type acc */
	/* The gradient of x, [N, width].  Field `add` 1: `sums`, [N, width] of type acc, holds another recurrence's gradient, to which this
	 * one is added.  `sums` is overwritten; `result` may be the same memory as `sums`; if `result` is absent, the gradient is not
	 * computed. */
	struct { struct cg_matrix sums, result; int add; } dx;
	int accumulate, needs_sums;              /* needs_sums: the gradients of biases, per-unit weights and scalars are computed; some
	                                          * of them may be absent */
};
/* Runs n recurrences of equal sizes, 1 to CG_SCANS_MAX; more than one only if the backend's scan runs them.  With a lag of 1 each
 * recurrence is one span of steps behind the recurrence before it, and may read that recurrence's output.  Sets gates_row for each span. */
int cg_recurrence_forward(struct cg_recurrence *const *, int n, int lag);
/* The number of steps of a span for the backend's scan; 0: all.  gates: columns of gate pre-activations; matrix_rows: rows of the weight
 * matrices that give them. */
int64_t cg_recurrence_count_span_steps(int dtype, int pass, int64_t gates, int64_t matrix_rows, int64_t B);
/* Describes the recurrent product of `rows` rows, forward or backward, without its operands. */
struct cg_gemm cg_recurrence_describe_product(int dtype, int back, int by_input, int64_t gates, int64_t h, int64_t rows);
/* Describes the product with the projection matrix [P, U]: forward of the cell's output, backward of the gradient of h. */
struct cg_gemm cg_recurrence_describe_projection(int dtype, int back, int64_t P, int64_t U, int64_t rows);
/* Bytes of the packed matrix of a product of single steps, in a call of N valid steps; 0: the matrix is not packed.  Packing, which
 * reads and writes the matrix once, saves time from CG_STEPS_TO_PACK steps on. */
enum { CG_STEPS_TO_PACK = 8 };
size_t cg_recurrence_measure_packed(const struct cg_context *, const struct cg_gemm *, int64_t N);
/* Computes h of n packed rows from the saved output by the projection. */
int cg_recurrence_project(const struct cg_recurrence *, int64_t row, int64_t n);
/* Runs the backward pass of n recurrences.  begin_products, which may be NULL, is called for each recurrence k, in the order of k, before
 * the first product over many of its rows.  Several recurrences with a lag of 0 must have one span each. */
int cg_recurrence_backward(struct cg_recurrence *const *, int n, int lag, int (*begin_products)(void *user, int k), void *user);
/* The carry that step s reads: the gradient of h or c from the step after it.  s -1: in a network the gradient of h_first or c_first. */
struct cg_matrix cg_recurrence_get_carry(const struct cg_recurrence *, struct cg_mem carry, int64_t width, int64_t s);

/* ---- pseudo_layer.c ---- */

/* Fills the fields of a recurrence that follow from the plan, the pseudo-layer and the pass.  params_backprop may be absent. */
void cg_rnn_fill_recurrence(const struct cg_rnn *, int pass, int pseudo_layer, struct cg_mem params, struct cg_mem params_backprop,
                            struct cg_recurrence *);
/* Writes the recurrence's biases, with type acc: for each gate bW + bR, or the one bias that the gate has, or zeros.  A gate whose
 * recurrent part is a split gate has no bR, and the split gate has no bW. */
int cg_rnn_add_biases(const struct cg_rnn *, int pseudo_layer, struct cg_mem params, const struct cg_recurrence *);
/* Bytes of the packed matrix of a stage, or of the projection, in a pass of N valid steps; 0: the matrix is not packed. */
size_t cg_rnn_packed_bytes(const struct cg_rnn *, int pass, int stage, int64_t B, int64_t N);
/* Does the backend's scan support this network?  If the scan does not, `why` receives the reason in a few words, unless the reason is
 * that the backend has no scan. */
int cg_rnn_can_scan(const struct cg_rnn *, char why[CG_WHY_NOT]);
/* Bytes of the workspace of the backend's scan in a pass of N valid steps; 0: the call runs step by step, on route scan with the bits of
 * the scan. */
size_t cg_rnn_measure_scan(const struct cg_rnn *, int pass, int64_t B, int64_t N);
/* Returns how many recurrences of the network the backend's scan should run together, so that all threads are busy. */
int cg_rnn_count_at_once(const struct cg_rnn *, int pass, int64_t B, int64_t steps);

#endif
