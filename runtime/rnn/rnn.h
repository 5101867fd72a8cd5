/*
 * A network over whole sequences, inside: what a plan has worked out, the order in which a call takes its rows, and the parts of
 * its memory.
 */
#ifndef CG_RNN_H
#define CG_RNN_H

#include "runtime/device/device.h"
#include "runtime/op/op.h"
#include "runtime/rnn/network_op.h"

/* Where a gate of the cell stands.  Gates with weights are counted as params has them; blocks of U columns stand beside each
 * other in the matrix of pre-activations, first those that a recurrent product adds to, then the input parts of split gates. */
struct cg_rnn_gate { int weight, block, takes_input, takes_h; };

/* Blocks beside each other whose input matrices are beside each other too: one product. */
struct cg_gate_range { int weight, block, n; };

/* A value that a step keeps for the gradient and for the steps beside it: [N, U]. */
struct cg_rnn_saved { int acc; };

enum { CG_RNN_SAVED_MAX = CG_SAVES_MAX + 2 };
_Static_assert(CG_ROUTE_MAX >= 32 + CG_WHY_NOT, "a route's description has space for the reason of a refusal");

/* The workspace of a pass, piece by piece: pieces and nothing else.  Until there is memory, they have offsets alone. */
struct cg_rnn_workspace {
	struct cg_mem gates, bias, feed[CG_STAGES_MAX], packed[CG_STAGES_MAX], h_first, c_first, x;
	struct cg_mem h[2][2];                   /* of a layer and the one below, by direction, where h is not in the reserve */
	struct cg_mem d_gates, d_feed[CG_STAGES_MAX], dm, dh, carry_h, carry_c, prev_h, prev_c, partial, sum;
	struct cg_mem dx[2], dx_real, dy[2];     /* dx: sums in acc; of the other direction in its own order */
	struct cg_mem saved[CG_RNN_SAVED_MAX];         /* without a reserve */
};

/* What follows from the sizes and lengths of a call: worked out once for each, and handed down. */
struct cg_rnn_shape {
	int64_t T, B, N, longest;                /* N: valid rows, of all steps; the longest length */
	const int32_t *lengths;                  /* NULL: all T */
	int is_whole, is_dense;                  /* all rows have T steps; and, time-major, are in the caller's order when packed */
	int is_vendors;                          /* the plan's vendor library runs it, else layers.c */
	struct cg_net_sizes bytes;               /* of the reserve, and of the workspace of the pass that was asked for */
	struct cg_rnn_workspace workspace;       /* of layers.c in that pass */
};

struct cg_rnn {
	struct cg_context *context;              /* held, like the cell */
	struct cg_network net;                   /* what was asked for, as vendors' libraries read it, too */
	int options;
	uint64_t fingerprint;                          /* of all that makes a reserve this plan's */
	double values[CG_PARAMS_MAX];            /* of the cell's params, rounded */
	char route[CG_ROUTE_MAX], beyond[CG_ROUTE_MAX];  /* beyond: of calls of more steps than the vendor takes */
	int by_name;                             /* the route was asked for */
	struct cg_net *vendor;                   /* where the route is the backend's own; NULL: composed */
	struct cg_network_text text;
	const struct cg_kernel_entry *forward, *grad;   /* the context's; grad NULL without training */

	struct cg_rnn_gate gates[CG_GATES_MAX];
	int n_blocks;                            /* of U columns of pre-activations */
	struct cg_gate_range ranges[CG_GATES_MAX];
	int n_ranges;
	int first[CG_STAGES_MAX + 2];            /* first[s]: the first block of stage s + 1; ends with G */
	int vectors[CG_WEIGHTS_MAX];             /* per-unit weights of the options that are on, by the cell's index */
	int state, output;                       /* among the cell's prevs; state -1: none */
	struct cg_rnn_saved saved[CG_RNN_SAVED_MAX];    /* the cell's saves, then the output and the state where it does not save them */
	int n_saved, saved_h, saved_c;
	/* By pass (0 forward, 1 gradient) and stage: among the saved values, what the product after the stage multiplies; -1: memory of its own. */
	signed char feed_saved[2][CG_STAGES_MAX];
	int sum_values;                          /* of the largest of the gradient's sums; what they read beside the gates' adjoints: */
	int sums_prev_h, sums_prev_c, sums_carry;
	int uses_h_prev;                         /* in the equations, beside the product */
	int keeps_gates;                         /* the gradient computes again what was not saved */
	struct cg_rnn_op op;                     /* of an open plan: its attributes and sizes, as the rows of calls have them */
};

/* ---- packed.c ---- */

/*
 * The order of a call's valid rows.  No kernel sees a length: batch rows are sorted by falling length, so that step s has the
 * first n[s] of them, in packed rows from off[s] on, and the rows of the step before begin with the same.  A reversed direction
 * is the same walk over other rows: its step s of a row of length n is time n - 1 - s.  Where all rows are whole and the call is
 * time-major nothing is sorted: packed rows are the caller's, and a reversed direction walks them from the end.
 */
struct cg_packed {
	int64_t T, B, N, S;                      /* N: valid rows, of all steps; S: the longest length */
	int is_dense;                            /* packed rows are the caller's; the index arrays are absent */
	int64_t *n, *off;                        /* [S], dense: NULL */
	/* int64, of the device's: */
	struct cg_mem order, last;               /* [B]: the batch row of a sorted one; the packed row of its last step */
	struct cg_mem row[2], t[2], b;           /* [N], by direction: the caller's row, its time, its batch row */
	struct cg_mem reversed_index;                     /* [N]: the packed row that the other direction has for the same time and batch row */
	struct cg_mem prev;                      /* [N]: the row of the step before; of the first step its place among the sorted */
};
static inline int64_t cg_packed_rows(const struct cg_packed *steps, int64_t s)
{
	return steps->is_dense ? steps->B : steps->n[s];
}
static inline int64_t cg_packed_offset(const struct cg_packed *steps, int direction, int64_t s)
{
	return !steps->is_dense ? steps->off[s] : steps->B * (direction ? steps->T - 1 - s : s);
}
/* Sets N, the longest and is_whole by one pass over the lengths, which are refused where one is less than 0 or more than T. */
int  cg_packed_count(struct cg_rnn_shape *);
/* The steps of a call, from the stream's last ones where they are the same. */
int  cg_packed_get(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_shape *, struct cg_packed *);

/* ---- cell_layout.c ---- */

/* Gates, weights and what each step keeps, from the cell and its options. */
int cg_rnn_lay_out_cell(struct cg_rnn *);
/* Of an outline, what its kernels read, without making them ready: with it the size of a reserve is known, too. */
int cg_rnn_analyse_gradient(struct cg_rnn *);
/* Makes the kernels of a composed plan ready, once for a context. */
int cg_rnn_ready(struct cg_rnn *);

/* ---- plan.c ---- */

/* A plan but for what a device makes ready: where weights lie, and how many there are. */
int cg_rnn_describe(const struct cg_rnn_config *, struct cg_rnn *);
/* A caller's config: in room, where it is of an earlier header. */
const struct cg_rnn_config *cg_rnn_config_complete(const struct cg_rnn_config *, struct cg_rnn_config *room);

/* ---- sizes.c, call.c ---- */

/* The shape of a call for one pass: that no size is below 0, no length above T, and that there is room for all of it. */
int cg_rnn_measure(const struct cg_rnn *, int pass, int64_t T, int64_t B, const int32_t *lengths, struct cg_rnn_shape *);
/* All of a call that the op table does not check; sets its shape. */
int cg_rnn_check_call(struct cg_stream *, const struct cg_rnn *, int pass, const struct cg_rnn_call *, struct cg_rnn_shape *);
/* Elements of a reserve, of the plan's dtype. */
int64_t cg_rnn_reserve_elements(const struct cg_rnn *, const struct cg_rnn_shape *);

/* ---- route.c ---- */

int  cg_rnn_check_route(const char *route);
/* Sets route and net, which it opens; wanted NULL: the best. */
int  cg_rnn_open_route(struct cg_rnn *, const char *wanted);
void cg_rnn_close_route(struct cg_rnn *);
/* Is a call of so many steps the vendor library's?  Refused, where it is not and the route was asked for by name. */
int  cg_rnn_choose_route(const struct cg_rnn *, int64_t T, int *is_vendors);
/* Does a call of so many steps go composed, though the plan's route is another? */
int  cg_rnn_is_beyond(const struct cg_rnn *, int64_t T);
/* Runs a call that was checked. */
int  cg_rnn_run(struct cg_stream *, const struct cg_rnn *, int pass, const struct cg_rnn_call *, struct cg_rnn_shape *,
                 struct cg_mem work);

/* ---- rows.c ---- */

void cg_rnn_op_init(void *op, size_t size);
/* A cell without a state has no c, and the placeholder says nothing. */
int  cg_rnn_op_reads(const struct cg_op *, const struct cg_port *, const void *op);

/* ---- reserve.c ---- */

/* Both do nothing for a device's reserve, but where CELLGRAD_CHECK asks for it. */
int  cg_reserve_write(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, const struct cg_rnn_shape *);
int  cg_reserve_check(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, const struct cg_rnn_shape *);

/* ---- storage.c ---- */

/* Does a call drop outputs of its layers? */
int cg_rnn_drops(const struct cg_rnn *);
/* Does another step read saved value k? */
int cg_rnn_is_read_later(const struct cg_rnn *, int k);
/* Lays out the workspace of a pass and returns its bytes; SIZE_MAX: more than a size can say. */
size_t cg_layers_work(const struct cg_rnn *, int pass, const struct cg_rnn_shape *, struct cg_rnn_workspace *);
/* Bytes of the reserve. */
size_t cg_layers_reserve(const struct cg_rnn *, int64_t N);
/* What the first pseudo-layer keeps there, and the bytes from it to the next one's. */
struct cg_rnn_saved_values { struct cg_mem values[CG_RNN_SAVED_MAX], gates; size_t bytes; };
void cg_layers_place_saved(const struct cg_rnn *, int64_t N, struct cg_mem reserve, struct cg_rnn_saved_values *);

/* ---- layers.c ---- */

/* Both place the workspace of the shape. */
int cg_layers_forward(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, struct cg_rnn_shape *,
                   struct cg_mem work);
int cg_layers_backward(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *, struct cg_rnn_shape *,
                    struct cg_mem work);

/* ---- recurrence.c: one direction of one layer, or a block op ---- */

/* Absent gradients are not computed. */
struct cg_matrix_pair { struct cg_matrix value, grad; };

/* What a walk is of, and everything that it reads and writes.  Matrices have packed rows; absent ones are zeros. */
struct cg_recurrence {
	struct cg_stream *stream;
	const struct cg_packed *steps;
	int direction;

	/* The cell; arrays are those of whoever describes it. */
	const struct cg_kernel_entry *kernel;           /* of the pass; it decides whether states are carried rounded or in acc */
	size_t bytes[2];                         /* of an element of the dtype, of acc */
	const double *values;                    /* of its params, rounded */
	const struct cg_rnn_gate *gate;
	const struct cg_gate_range *ranges;
	const int *first;
	const signed char *feed_saved;            /* of the pass */
	int n_ranges, n_blocks, output, saved_h, saved_c, uses_h_prev;

	/* Where its weights lie.  A matrix is of all gates: [gates U, in], the way of cuDNN and PyTorch, or by_input [in, gates U],
	 * TensorFlow's. */
	int64_t U, H, P, width;                  /* of the state, of the output, of a projection or 0, of x */
	int skip, by_input;                      /* skip: x goes to every gate as it is */
	struct cg_matrix_pair input, recurrent, projection;
	struct cg_mem vector[CG_WEIGHTS_MAX], d_vector[CG_WEIGHTS_MAX];  /* by the cell's index */
	struct cg_mem d_bias[2];                 /* [gates U]; of bW and bR, where there are two */

	struct cg_matrix x;                      /* [N, width] */
	struct cg_mem saved[CG_RNN_SAVED_MAX];         /* [N, U] each; absent where nobody reads it */
	unsigned char in_turn[CG_RNN_SAVED_MAX];      /* 0, or the steps that have room: [in_turn B, U] */
	struct cg_matrix h;                      /* [N, H]: the saved output, or its projection */
	struct cg_matrix h_first, c_first;       /* [B, H] real, [B, U]: before the first step, sorted */
	struct cg_matrix bias;                   /* one row of blocks U */
	struct cg_mem gates;                     /* [N, blocks U] acc */
	struct cg_mem feed[CG_STAGES_MAX];       /* real, forward [B, U], backward [N, U] */
	struct cg_mem packed[CG_STAGES_MAX];     /* the recurrent matrices as the steps' products read them best; absent: as they lie */

	/* backward alone */
	struct cg_mem d_gates;                   /* [N, blocks U] real */
	struct cg_matrix dy, dc;                 /* [N, H] [N, U] real: what reaches h and c from elsewhere; dc: of a block op alone */
	/*
	 * What reaches h and c from the step after: two of [B, U], taken in turn.  A network's are in acc, and both begin as the
	 * gradients of output_h and output_c: a row that is not yet in a step is written by none, and so still holds them when its
	 * last step reads it.  With every_carry, for cells whose sums read the carries, [N + B, U], one for each row and the last
	 * ones.
	 */
	struct cg_mem carry_h, carry_c;
	struct cg_matrix d_h_first, d_c_first;   /* what reaches h_first and c_first goes there; absent: it is not computed */
	struct cg_mem d_feed[CG_STAGES_MAX];     /* [B, U] acc; [N, U] with every_carry, like dm */
	int every_carry;
	struct cg_matrix dh;                     /* with a projection: [N, P] real, begins as dy; carry_h then is [B, P], the last */
	struct cg_mem dm;
	struct cg_mem prev_h, prev_c;            /* [N, H] real, [N, U]: of the step before; absent where h and c_first serve */
	struct cg_mem partial, sum;              /* of sums; as recurrent, in acc, for halves: a part of dR */
	int accumulate, wants_sums;              /* wants_sums: the gradients of biases and vectors, of which some may be absent */
};
int cg_recurrence_forward(const struct cg_recurrence *);
/* The recurrent product of so many rows, back or forward, but for its operands. */
struct cg_gemm cg_recurrence_product(int dtype, int back, int by_input, int64_t gates, int64_t h, int64_t rows);
/* Bytes of `packed` for such products of a call of N valid rows, 0: none.  Packing reads and writes the matrix once, which so many
 * steps' products win back. */
enum { CG_STEPS_TO_PACK = 8 };
size_t cg_scan_packed(const struct cg_context *, const struct cg_gemm *, int64_t N);
/* h of so many packed rows from the saved output. */
int cg_recurrence_project(const struct cg_recurrence *, int64_t row, int64_t n);
int cg_recurrence_backward(const struct cg_recurrence *);
/* What reaches h or c at step s from the step after; s -1: a network's place for what reaches h_first or c_first. */
struct cg_matrix cg_recurrence_carry(const struct cg_recurrence *, struct cg_mem carry, int64_t width, int64_t s);
/* c = what reaches x, added to sums, an [N, width] in acc, where `add` says so; sums is written, too.  c may be sums. */
int cg_recurrence_dx(const struct cg_recurrence *, int add, struct cg_matrix sums, struct cg_matrix c);

/* ---- pseudo_layer.c ---- */

/* Describes a pseudo-layer of a network for a pass: all that does not depend on steps.  params_backprop may be absent. */
void cg_rnn_fill_recurrence(const struct cg_rnn *, int pass, int pseudo_layer, struct cg_mem params, struct cg_mem params_backprop,
                          struct cg_recurrence *);
/* Writes the scan's bias, which is in acc: bW + bR of each gate, where both act on one sum. */
int cg_rnn_add_biases(const struct cg_rnn *, int pseudo_layer, struct cg_mem params, const struct cg_recurrence *);
/* Bytes of `packed` of a stage in a pass of so many rows, 0: none. */
size_t cg_rnn_packed_bytes(const struct cg_rnn *, int pass, int stage, int64_t B, int64_t N);

#endif
