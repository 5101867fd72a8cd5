/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks over whole sequences: plans, shapes of calls, packed sequences, layers, and the recurrence.
 */
#ifndef CG_RNN_H
#define CG_RNN_H

#include "runtime/device/device.h"
#include "runtime/op/op.h"
#include "runtime/rnn/network_op.h"

/* A gate: its number among the gates with weights, in the order of params, and its column block.  The matrix of gate pre-activations
 * has blocks of U columns: first the gates that a recurrent product adds to, then the input parts of split gates. */
struct cg_rnn_gate { int weight, block, has_input, has_recurrent; };

/* Contiguous column blocks with contiguous input matrices: one product computes them all. */
struct cg_gate_range { int weight, block, n; };

/* A value that each step saves for the gradient and for the next step: [N, U], in acc or in the dtype. */
struct cg_rnn_saved { int acc; };

enum { CG_RNN_SAVED_MAX = CG_SAVES_MAX + 2 };

/* Matrices that the products of single steps read packed: the recurrent ones by stage, and the projection. */
enum { CG_RNN_PACKED_PROJECTION = CG_STAGES_MAX, CG_RNN_PACKED_MAX };
_Static_assert(CG_ROUTE_MAX >= 32 + CG_WHY_NOT, "a route's description has space for the reason of a refusal");

/* The parts of a pass's workspace that a pseudo-layer has for itself while it runs. */
struct cg_rnn_own {
	struct cg_mem gates, bias, stage_input[CG_STAGES_MAX], packed[CG_RNN_PACKED_MAX], scan, h_first, c_first, x;
	struct cg_mem d_gates, d_stage_input[CG_STAGES_MAX], dm, dh, carry_h, carry_c, prev_h, prev_c;
	struct cg_mem saved[CG_RNN_SAVED_MAX];   /* in inference, which has no reserve */
};

/* The parts of a pass's workspace.  The struct holds nothing else: storage.c lays the parts out as offsets, layers.c gives them memory. */
struct cg_rnn_workspace {
	/* Hidden states by direction, if not in the reserve: of the layers that run at once, and of the one below; layer l's stand at
	 * l modulo their number. */
	struct cg_mem h[CG_SCANS_MAX + 1][2];
	struct cg_mem dx[2], dx_real, dy[2];     /* dx: sums in acc, by direction, each in the direction's order */
	struct cg_mem partial, sum;
	struct cg_rnn_own own[CG_SCANS_MAX];     /* the last member: of those that do not run nothing is set */
};

/* Where the rows of a caller's sequence lie: elements from step to step, and from batch row to batch row.  In a packed sequence, whose
 * rows come one after the other, both are the row's width. */
struct cg_rnn_spacing { int64_t t, b; };

/* The shape of a call: everything that follows from its sizes, lengths and strides, computed once and passed down. */
struct cg_rnn_shape {
	int64_t T, B, N, longest;                /* N: valid steps of all batch rows; longest: the largest length */
	const int32_t *lengths, *batch_sizes;    /* both NULL: all T */
	uint64_t lengths_stamp;                  /* the fingerprint of lengths */
	struct cg_rnn_spacing input, output;     /* of these and of their gradients */
	int is_plain;                            /* they are dense, and not packed */
	int is_whole;                            /* all rows have T steps */
	int input_in_place, output_in_place;     /* and the caller's rows come in the packed order, evenly apart */
	int is_vendors;                          /* the vendor library runs the call, else layers.c does */
	int at_once;                             /* pseudo-layers that layers.c runs together: both directions of a layer, or so many layers */
	struct cg_net_sizes bytes;               /* of the reserve, and of the workspace of one pass */
	struct cg_rnn_workspace workspace;       /* of that pass in layers.c */
};

struct cg_rnn {
	struct cg_context *context;              /* held, like the cell, while somebody holds the plan */
	int holders, is_cached;                  /* holders: atomic, or, of a cached plan, under the cache's lock */
	struct cg_network net;                   /* the network; vendors' libraries read it, too */
	int options;
	uint64_t fingerprint;                    /* of everything that a reserve depends on */
	double values[CG_PARAMS_MAX];            /* of the cell's params, rounded */
	char route[CG_ROUTE_MAX], beyond[CG_ROUTE_MAX];  /* beyond: for calls of more steps than the vendor library takes */
	int by_name, scans;                      /* the caller named a vendor's route; the route is scan */
	struct cg_net *vendor;                   /* the vendor library's network; NULL: the route is one of ours */
	struct cg_network_text text;
	const struct cg_kernel_entry *forward, *grad;    /* the context's; grad NULL without training */

	struct cg_rnn_gate gates[CG_GATES_MAX];
	int n_blocks;                            /* of U columns of pre-activations */
	struct cg_gate_range ranges[CG_GATES_MAX];
	int n_ranges;
	int first[CG_STAGES_MAX + 2];            /* first[s]: the first block of stage s + 1; ends with G */
	int vectors[CG_WEIGHTS_MAX];             /* per-unit weights of the options that are on, by the cell's index */
	int state, output;                       /* index among the cell's prevs; state -1: the cell has no cell state */
	struct cg_rnn_saved saved[CG_RNN_SAVED_MAX];     /* the cell's saves, then the output and the state where it does not save them */
	int n_saved, saved_h, saved_c;
	/* By pass (0 forward, 1 gradient) and stage: the saved value that the product after the stage multiplies; -1: none, it has
	 * memory of its own. */
	signed char stage_input_saved[2][CG_STAGES_MAX];
	int sum_values;                          /* values of the largest of the gradient's sums */
	int sums_prev_h, sums_prev_c, sums_carry;        /* the sums read h, c of the step before, the carried gradients */
	int uses_h_prev;                         /* an equation reads h_prev, beside the recurrent product */
	int keeps_gates;                         /* the reserve holds gate pre-activations, from which the gradient recomputes values */
	struct cg_rnn_op op;                     /* of an open plan: the attributes and sizes of its calls */
};

/* ---- packed.c ---- */

/*
 * A packed sequence: the order of a call's valid steps, so that no kernel reads a length.  Batch rows are sorted by falling length: step
 * s has the first n[s] of them, in packed rows from off[s] on.  In a reversed direction step s of a row of length n is time n - 1 - s.
 * Where all rows have T steps (dense), packed rows are ordered by time in both directions, and a reversed direction takes them from the
 * end.  So the order, which a reserve has, does not depend on where the caller's rows lie.
 */
struct cg_packed {
	int64_t T, B, N, S;                      /* N: valid steps of all batch rows; S: the largest length */
	int is_dense;                            /* all rows have T steps: packed row p is that of batch row p % B at time p / B, whatever the
	                                          * direction; of the arrays below only input and output may be there */
	int64_t *n, *off;                        /* [S], dense: NULL */
	/* int64, of the device's; direction 0 of a network in reverse has the order of direction 1 of others: */
	struct cg_mem order, last;               /* [B]: the batch row of a sorted one; the packed row of its last step */
	/* Where packed rows lie in the caller's input, in output, and in their gradients: the index of each, [N], by direction, and the elements
	 * that an index counts.  Absent: packed row p has index p. */
	struct cg_mem input[2], output[2];
	int64_t input_unit, output_unit;
	struct cg_mem dense;                     /* [N], of a vendor's call that is not plain: the row in dense memory, of direction 0 */
	struct cg_mem t[2], b;                   /* [N], by direction: the time of a packed row, its batch row */
	struct cg_mem reversed_index;            /* [N]: the packed row that the other direction has for the same time and batch row */
	struct cg_mem prev;                      /* [N]: the row of the step before; of the first step the place of the batch row among
	                                          * the sorted */
};
static inline int64_t cg_packed_rows(const struct cg_packed *sequence, int64_t s)
{
	return sequence->is_dense ? sequence->B : sequence->n[s];
}
static inline int64_t cg_packed_offset(const struct cg_packed *sequence, int direction, int64_t s)
{
	return !sequence->is_dense ? sequence->off[s] : sequence->B * (direction ? sequence->T - 1 - s : s);
}
/* Sets N, longest, is_whole and lengths_stamp by one pass over the lengths or batch sizes; CG_BAD_ARGUMENT for one out of its range. */
int  cg_packed_count(struct cg_rnn_shape *);
/* The lengths, [B], that the shape's batch sizes say, of cg_memory; NULL where it has none. */
int  cg_packed_get_lengths(const struct cg_rnn_shape *, int32_t **lengths);
/* Zeros a caller's sequence, rows of so many elements, if it has steps beyond the lengths; what lies between rows stays.  any: a row of other
 * memory, all of which is dropped. */
int  cg_packed_clear(struct cg_stream *, int dtype, const struct cg_rnn_shape *, struct cg_rnn_spacing, int64_t width, struct cg_mem,
                     struct cg_mem any);
/* The packed sequence of a call; the stream keeps the last one for the next call of the same lengths. */
int  cg_packed_get(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_shape *, struct cg_packed *);

/* ---- cell_layout.c ---- */

/* Sets gates, weights and saved values from the cell and its options. */
int cg_rnn_lay_out_cell(struct cg_rnn *);
/* Finds which tensors the gradient kernels read, without compiling them; the size of a reserve needs it. */
int cg_rnn_analyse_gradient(struct cg_rnn *);
/* Compiles the kernels of a composed plan, once per context. */
int cg_rnn_compile(struct cg_rnn *);

/* ---- plan.c ---- */

/* Fills the device-independent part of a plan: parameter layout and count. */
int cg_rnn_describe(const struct cg_rnn_config *, struct cg_rnn *);
/* Frees a plan that nobody holds; its context is held no longer. */
void cg_rnn_free(struct cg_rnn *);
/* A caller's config; one of an earlier header is completed in `storage`. */
const struct cg_rnn_config *cg_rnn_config_complete(const struct cg_rnn_config *, struct cg_rnn_config *storage);

/* ---- sizes.c, call.c ---- */

/* Checks sizes, lengths and strides, and computes the shape of a call for one pass; CG_BAD_ARGUMENT where memory cannot hold it.  Of the
 * call's memory only `work` is looked at: where it is there and too small for several pseudo-layers at once, one runs at a time. */
int cg_rnn_measure(const struct cg_rnn *, int pass, const struct cg_rnn_call *, struct cg_rnn_shape *);
/* What a call needs of each pass. */
int cg_rnn_measure_sizes(const struct cg_rnn *, const struct cg_rnn_call *, struct cg_rnn_sizes *);
/* Checks what the op table does not check, and sets the call's shape. */
int cg_rnn_check_call(struct cg_stream *, const struct cg_rnn *, int pass, const struct cg_rnn_call *, struct cg_rnn_shape *);
/* Elements of a reserve, in the plan's dtype. */
int64_t cg_rnn_reserve_elements(const struct cg_rnn *, const struct cg_rnn_shape *);

/* ---- route.c ---- */

int  cg_rnn_check_route(const char *route);
/* Chooses the route and opens the vendor's network; wanted NULL: the best route. */
int  cg_rnn_open_route(struct cg_rnn *, const char *wanted);
void cg_rnn_close_route(struct cg_rnn *);
/* Does the vendor library run a call of T steps?  CG_UNSUPPORTED where it does not and the caller named the route. */
int  cg_rnn_choose_route(const struct cg_rnn *, int64_t T, int *is_vendors);
/* Does a call of T steps run composed although the plan's route is a vendor's? */
int  cg_rnn_is_beyond(const struct cg_rnn *, int64_t T);
/* Runs a call that was checked. */
int  cg_rnn_run(struct cg_stream *, const struct cg_rnn *, int pass, const struct cg_rnn_call *, struct cg_rnn_shape *,
                struct cg_mem work);

/* ---- vendor_rows.c ---- */

/* Bytes of a vendor's call, its own workspace and, behind it, dense copies of what is not plain; SIZE_MAX: more than a size_t can hold. */
size_t cg_vendor_measure(const struct cg_rnn *, int pass, const struct cg_rnn_shape *, size_t own);
/* Runs a vendor's call on dense copies of its sequences. */
int cg_vendor_run(struct cg_stream *, const struct cg_rnn *, int pass, const struct cg_rnn_call *, const struct cg_rnn_shape *,
                  struct cg_mem work);

/* ---- op_rows.c ---- */

void cg_rnn_op_init(void *op, size_t size);
/* Does the op read the port?  A cell without a cell state has no c, and TensorFlow's placeholder is not read. */
int  cg_rnn_op_reads(const struct cg_op *, const struct cg_port *, const void *op);
/* How the rows of a sequence lie in a call whose shape is known; returns 0 where they are dense. */
int  cg_rnn_op_spacing(const struct cg_port *, const void *op, struct cg_spacing *);

/* ---- reserve.c ---- */

/* The reserve's header; for a reserve in device memory both do nothing unless CELLGRAD_CHECK is set. */
int  cg_reserve_write(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, const struct cg_rnn_shape *);
int  cg_reserve_check(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, const struct cg_rnn_shape *);

/* ---- storage.c ---- */

/* Does a call drop outputs of its layers? */
int cg_rnn_drops(const struct cg_rnn *);
/* Does another step read saved value k? */
int cg_rnn_is_read_later(const struct cg_rnn *, int k);
/* The steps of a span of a recurrence that the backend's scan takes; 0: all. */
int64_t cg_layers_span_steps(const struct cg_rnn *, int pass, const struct cg_rnn_shape *);
/* Elements from row to row of the gates in a workspace, or of their gradients, of so many bytes each. */
int64_t cg_layers_get_gates_stride(const struct cg_rnn *, size_t bytes);
/* Lays out the shape's workspace for a pass, and sets how many pseudo-layers run at once, of so many at most.  Returns its bytes; SIZE_MAX: more than a size_t
 * can hold. */
size_t cg_layers_lay_out_workspace(const struct cg_rnn *, int pass, int at_once, struct cg_rnn_shape *);
/* How many parts of the shape's workspace are set. */
size_t cg_layers_count_parts(const struct cg_rnn_shape *);
/* Bytes of the reserve. */
size_t cg_layers_measure_reserve(const struct cg_rnn *, int64_t N);
/* The reserve of N valid steps has at most fixed + step N bytes. */
void cg_layers_bound_reserve(const struct cg_rnn *, size_t *fixed, size_t *step);
/* The saved values of the first pseudo-layer, and the bytes from them to those of the next. */
struct cg_rnn_saved_values { struct cg_mem values[CG_RNN_SAVED_MAX], gates; size_t bytes; };
void cg_layers_lay_out_saved(const struct cg_rnn *, int64_t N, struct cg_mem reserve, struct cg_rnn_saved_values *);

/* ---- layers.c ---- */

/* Both give the workspace of the shape its memory. */
int cg_layers_forward(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, struct cg_rnn_shape *,
                      struct cg_mem work);
int cg_layers_backward(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, struct cg_rnn_shape *,
                       struct cg_mem work);

/* ---- recurrence.c: one direction of one layer, or a block op ---- */

/* A weight matrix and its gradient; an absent gradient is not computed. */
struct cg_matrix_pair { struct cg_matrix value, grad; };

/* A recurrence: the cell, the layout of its weights, and all memory that it reads and writes.  Matrices have packed rows; absent ones
 * are zeros. */
struct cg_recurrence {
	struct cg_stream *stream;
	const struct cg_packed *sequence;
	int direction;

	/* The cell; the arrays belong to the caller. */
	const struct cg_kernel_entry *kernel;    /* its pass decides whether states are carried in the dtype or in acc */
	size_t bytes[2];                         /* of an element of the dtype, of acc */
	const double *values;                    /* of its params, rounded */
	const struct cg_rnn_gate *gate;
	const struct cg_gate_range *ranges;
	const int *first;
	const signed char *stage_input_saved;    /* of the pass */
	int n_ranges, n_blocks, output, saved_h, saved_c, uses_h_prev;

	/* The layout of the weights.  A matrix holds all gates: [gates U, in] as in cuDNN and PyTorch, or, by_input, [in, gates U] as in
	 * TensorFlow. */
	int64_t U, H, P, width;                  /* of the state, of the output, of a projection or 0, of x */
	int skip, by_input;                      /* skip: x goes to every gate as it is */
	int in_order;                            /* recurrent products have the bits of the backend's scan */
	struct cg_matrix_pair input, recurrent, projection;
	struct cg_mem vector[CG_WEIGHTS_MAX], d_vector[CG_WEIGHTS_MAX];  /* by the cell's index */
	struct cg_mem d_bias[2];                 /* [gates U]; of bW and bR, where there are two */

	struct cg_matrix x;                      /* [N, width] */
	struct cg_mem saved[CG_RNN_SAVED_MAX];   /* [N, U] each; absent where no kernel reads it */
	unsigned char in_turn[CG_RNN_SAVED_MAX]; /* 0, or the number of steps that it holds: [in_turn B, U] */
	struct cg_matrix h;                      /* [N, H]: the saved output, or its projection */
	struct cg_matrix h_first, c_first;       /* [B, H] real, [B, U]: before the first step, sorted */
	struct cg_matrix bias;                   /* one row of blocks U */
	/*
	 * The steps whose input products, or whose part of the gradients of matrices, are made at once, so that what a span of steps
	 * reads again is in a cache still; 0: all.  gates_of_span: `gates` holds the rows of one span; gates_row: its first row.
	 */
	int64_t span, gates_row;
	int gates_of_span;
	struct cg_matrix gates;                  /* [N, blocks U] acc */
	struct cg_mem stage_input[CG_STAGES_MAX]; /* real, forward [B, U], backward [N, U] */
	struct cg_mem packed[CG_RNN_PACKED_MAX]; /* matrices as the steps' products read them best; absent: as they lie */
	struct cg_mem scan;                      /* the workspace of the backend's scan; absent: each step is calls of its own */

	/* backward only */
	struct cg_matrix d_gates;                /* [N, blocks U] real */
	struct cg_matrix dy, dc;                 /* [N, H] [N, U] real: the gradients of h and c from outside the recurrence; dc: of a
	                                          * block op alone */
	/*
	 * The gradients of h and c that a step hands to the one before it: two of [B, U], taken in turn.  A network's are in acc,
	 * and both begin as the gradients of output_h and output_c: no step writes a row before the last step of that row, which
	 * therefore still reads them.  With every_carry, for cells whose sums read the carries: [N + B, U], one for each row and
	 * the last ones.
	 */
	struct cg_mem carry_h, carry_c;
	struct cg_matrix d_h_first, d_c_first;   /* the gradients of h_first and c_first; absent: not computed */
	struct cg_mem d_stage_input[CG_STAGES_MAX]; /* [B, U] acc; [N, U] with every_carry, like dm */
	int every_carry;
	struct cg_matrix dh;                     /* with a projection: [N, P] real, begins as dy; carry_h then is [B, P], the last */
	struct cg_mem dm;
	struct cg_mem prev_h, prev_c;            /* [N, H] real, [N, U]: of the step before; absent where h and c_first serve */
	struct cg_mem partial, sum;              /* of sums; as recurrent, in acc, for halves: a part of dR */
	/* The gradient of x, [N, width]: of this recurrence and, with add, that of another, which is in sums, [N, width] acc; sums is
	 * written, too.  result may be sums; absent: not computed. */
	struct { struct cg_matrix sums, result; int add; } dx;
	int accumulate, needs_sums;              /* needs_sums: the gradients of biases and vectors are computed; some of them may be
	                                          * absent */
};
/* n recurrences of equal sizes, 1 to CG_SCANS_MAX, and more than one only by the backend's scan; each is `lag` spans, 0 or 1, behind the one
 * before it, whose output it may read then.  The span at hand decides where gates are. */
int cg_recurrence_forward(struct cg_recurrence *const *, int n, int lag);
/* The steps of a span, which the backend's scan takes: of so many columns of gates, and rows of the weight matrices that these multiply;
 * 0: all. */
int64_t cg_recurrence_count_span_steps(int dtype, int pass, int64_t gates, int64_t matrix_rows, int64_t B);
/* The recurrent product of `rows` rows, forward or backward, without its operands. */
struct cg_gemm cg_recurrence_describe_product(int dtype, int back, int by_input, int64_t gates, int64_t h, int64_t rows);
/* The product by the projection [P, U]: forward of the output of the cell, backward of the gradient of h. */
struct cg_gemm cg_recurrence_describe_projection(int dtype, int back, int64_t P, int64_t U, int64_t rows);
/* Bytes of `packed` for such products of a call of N valid rows; 0: none.  Packing reads and writes the matrix once, which pays
 * from CG_STEPS_TO_PACK steps on. */
enum { CG_STEPS_TO_PACK = 8 };
size_t cg_recurrence_measure_packed(const struct cg_context *, const struct cg_gemm *, int64_t N);
/* Computes h of n packed rows from the saved output by the projection. */
int cg_recurrence_project(const struct cg_recurrence *, int64_t row, int64_t n);
/* begin_products, which may be NULL, comes before the first products over rows of recurrence k, which come in the order of k.  With a lag
 * of 0 several recurrences have one span each. */
int cg_recurrence_backward(struct cg_recurrence *const *, int n, int lag, int (*begin_products)(void *user, int k), void *user);
/* The gradient of h or c at step s from the step after; s -1: in a network the gradient of h_first or c_first. */
struct cg_matrix cg_recurrence_get_carry(const struct cg_recurrence *, struct cg_mem carry, int64_t width, int64_t s);

/* ---- pseudo_layer.c ---- */

/* Fills in a network's pseudo-layer for a pass: everything that does not depend on the steps.  params_backprop may be absent. */
void cg_rnn_fill_recurrence(const struct cg_rnn *, int pass, int pseudo_layer, struct cg_mem params, struct cg_mem params_backprop,
                            struct cg_recurrence *);
/* Writes the recurrence's bias, in acc: bW + bR of each gate whose biases act on one sum. */
int cg_rnn_add_biases(const struct cg_rnn *, int pseudo_layer, struct cg_mem params, const struct cg_recurrence *);
/* Bytes of a stage's `packed`, or of the projection's, in a pass of N rows; 0: none. */
size_t cg_rnn_packed_bytes(const struct cg_rnn *, int pass, int stage, int64_t B, int64_t N);
/* Does the backend's scan take this network?  If not, a few words in `why`. */
int cg_rnn_can_scan(const struct cg_rnn *, char why[CG_WHY_NOT]);
/* Bytes of the workspace of the backend's scan in a pass of N rows; 0: steps are calls of their own, with the same bits. */
size_t cg_rnn_measure_scan(const struct cg_rnn *, int pass, int64_t B, int64_t N);
/* How many recurrences of the network, each by the backend's scan, keep it busy together. */
int cg_rnn_count_at_once(const struct cg_rnn *, int pass, int64_t B, int64_t steps);

#endif
