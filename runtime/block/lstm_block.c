/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LSTMBlockCell, BlockLSTM and BlockLSTMV2, which run T steps of LSTMBlockCell, and the gradients of these ops.  All ops of this file run
 * as a recurrence whose states cs and h are rounded to the dtype at every step.  The equations are in templates/lstm_block.cell, the checks
 * of arguments in runtime/op/check.c.
 */
#include <stddef.h>

#include "runtime/op/run.h"
#include "runtime/block/block.h"
#include "runtime/rnn/rnn.h"

#define LSTM(field) offsetof(struct cg_lstm_block, field)

/* ---- the cell: its gates are i ci f o ---- */

enum { GATES = 4, PARAMS = 2, SUMS = GATES + 3 };

/* For each enum cg_gates and each gate of the cell, i ci f o, the number of the gate's block of columns in w, b and dgates. */
#define GATE(block) { { block, block, block, -1 }, block }
static const struct cg_rnn_gate gates[][GATES] = {
	[CG_ICFO] = { GATE(0), GATE(1), GATE(2), GATE(3) },
	[CG_IFCO] = { GATE(0), GATE(2), GATE(1), GATE(3) },
};
static const struct cg_gate_range all_gates = { 0, 0, GATES, CG_PART_W, 0 };
static const int first[] = { 0, GATES };

/* The offsets, in the op's struct, of the cell's saved values and per-unit vectors, in the order of the cell. */
static const size_t saved[] = { LSTM(i), LSTM(ci), LSTM(f), LSTM(o), LSTM(cs), LSTM(co), LSTM(h) };
static const struct { size_t value, grad; int reads_cs_prev; } vectors[] = {
	{ LSTM(wci), LSTM(wci_grad), 1 }, { LSTM(wcf), LSTM(wcf_grad), 1 }, { LSTM(wco), LSTM(wco_grad), 0 },
};
enum { SAVED = sizeof saved / sizeof *saved, VECTORS = sizeof vectors / sizeof *vectors, CS = 4, H = 6, OUTPUT = 1 };
static const int saved_c[] = { CS };
static const signed char slot[] = { 0, -1 };

static struct cg_mem mem_at(const struct cg_lstm_block *op, size_t at)
{
	return *(const struct cg_mem *)(const void *)((const char *)op + at);
}

/* ---- sizes ---- */

static void init(void *op, size_t size)
{
	static const struct cg_lstm_block defaults = { .T = 1, .seq_len_max = -1, .forget_bias = 1, .cell_clip = 3 };

	cg_sized_init(op, size, &defaults, sizeof defaults);
}

void cg_lstm_block_init(struct cg_lstm_block *op, size_t size)
{
	init(op, size);
}

static const struct cg_sized sized = CG_SIZED(struct cg_lstm_block, b_grad, init);

/* The workspace, in the order of its parts.  If T is at most 1, only gates, dgates and partial have memory. */
struct forward_work { struct cg_mem gates, cs, h, packed; };             /* gates: [T B 4U], type acc; absent outputs: cs, h [2 B U] */
struct grad_work { struct cg_mem dgates, partial, carry_cs, carry_h, cs_prev, sum, packed; };

/* Allocates memory for a packed copy of the rows of w that multiply h, a matrix of k rows and n columns, if T is at least CG_STEPS_TO_PACK.
 * The memory has one row more than the matrix: a scan may skip CG_PACKED_ALIGN bytes to align the copy, and no row is shorter than that. */
static struct cg_mem carve_packed(const struct cg_lstm_block *op, struct cg_work *work, int64_t k, int64_t n)
{
	if (op->T < CG_STEPS_TO_PACK)
		return (struct cg_mem){ .data = NULL };
	return cg_work_alloc(work, k + 1, (n + CG_PACKED_COLUMNS - 1) / CG_PACKED_COLUMNS * CG_PACKED_COLUMNS, cg_acc_bytes(op->dtype));
}

static void carve_forward(const struct cg_lstm_block *op, struct cg_work *work, struct forward_work *w)
{
	size_t real = cg_dtype_bytes(op->dtype);

	*w = (struct forward_work){ .gates = cg_work_alloc(work, op->T * op->B, GATES * op->U, cg_acc_bytes(op->dtype)) };
	if (op->T <= 1)
		return;
	w->cs = cg_work_alloc(work, 2 * op->B, op->U, real);
	w->h = cg_work_alloc(work, 2 * op->B, op->U, real);
	w->packed = carve_packed(op, work, op->U, GATES * op->U);
}

static void carve_grad(const struct cg_lstm_block *op, struct cg_work *work, struct grad_work *w)
{
	size_t real = cg_dtype_bytes(op->dtype), acc = cg_acc_bytes(op->dtype);
	int64_t rows = op->T * op->B;

	*w = (struct grad_work){ .dgates = cg_work_alloc(work, rows, GATES * op->U, real) };
	w->partial = cg_work_alloc(work, (rows + CG_SUM_ROWS - 1) / CG_SUM_ROWS, SUMS * op->U, acc);
	if (op->T <= 1)
		return;
	w->carry_cs = cg_work_alloc(work, 2 * op->B, op->U, real);
	w->carry_h = cg_work_alloc(work, 2 * op->B, op->U, real);
	w->cs_prev = cg_work_alloc(work, rows, op->U, real);
	if (real != acc)
		w->sum = cg_work_alloc(work, op->U, GATES * op->U, acc);
	w->packed = carve_packed(op, work, GATES * op->U, op->U);
}

static size_t work_bytes(const struct cg_lstm_block *op, int pass)
{
	struct cg_work work = { .used = 0 };
	struct forward_work forward;
	struct grad_work grad;

	if (pass == CG_FORWARD)
		carve_forward(op, &work, &forward);
	else
		carve_grad(op, &work, &grad);
	return work.used;
}

/* Would the size of the workspace overflow, apart from matrices of U x 4U elements and from padding?  The other parts take less than 64
 * bytes for each of the T B U elements, and for each of U more elements; cg_lstm_block_work() checks the whole size. */
static int is_too_large(const struct cg_lstm_block *op)
{
	const int64_t most = PTRDIFF_MAX / 256;
	int64_t rows, all;

	return __builtin_mul_overflow(op->T, op->B, &rows) || __builtin_mul_overflow(rows, op->U, &all) || all > most || op->U > most;
}

static int refuse_sizes(const struct cg_lstm_block *op)
{
	return cg_fail(CG_BAD_ARGUMENT, "cg_lstm_block_work: expected T and B of at least 0, U of at least 1, a workspace of at "
	               "most PTRDIFF_MAX bytes, U and T*B*U of at most PTRDIFF_MAX/256 and an enum cg_dtype, got T=%lld, B=%lld, U=%lld, "
	               "dtype=%d", (long long)op->T, (long long)op->B, (long long)op->U, op->dtype);
}

int cg_lstm_block_work(const struct cg_lstm_block *op, enum cg_pass pass, size_t *bytes)
{
	struct cg_lstm_block whole;

	if (!op || !bytes)
		return cg_fail(CG_BAD_ARGUMENT, "cg_lstm_block_work: %s: expected a pointer, got NULL", op ? "bytes" : "op");
	op = cg_sized_complete(&sized, op, &whole);
	CG_TRY(cg_sized_check("cg_lstm_block_work", "cg_lstm_block", op, sizeof *op));
	if (pass != CG_FORWARD && pass != CG_GRAD)
		return cg_fail(CG_UNSUPPORTED, "cg_lstm_block_work: pass: expected CG_FORWARD=%d or CG_GRAD=%d, got %d", CG_FORWARD, CG_GRAD,
		               (int)pass);
	if (op->T < 0 || op->B < 0 || op->U < 1 || !cg_dtype_bytes(op->dtype) || is_too_large(op))
		return refuse_sizes(op);
	*bytes = work_bytes(op, pass);
	if (*bytes > PTRDIFF_MAX)
		return refuse_sizes(op);
	return CG_OK;
}

/* The number of steps that are computed; for the other steps outputs are zero and inputs are not read.  If there are no batch rows, no
 * step is computed, since T may then have any value. */
static int64_t steps(const struct cg_lstm_block *op)
{
	return !op->B ? 0 : op->seq_len_max < 0 ? op->T : op->seq_len_max;
}

/* ---- the op as a recurrence ---- */

struct sequence {
	struct cg_recurrence recurrence;
	struct cg_packed packed;
	double params[PARAMS];                   /* forget_bias, cell_clip; the gradient reads neither */
};

/* The rows of w, or of its gradient, that multiply h. */
static struct cg_matrix recurrent(const struct cg_lstm_block *op, struct cg_mem w)
{
	size_t row = (size_t)(GATES * op->U) * cg_dtype_bytes(op->dtype);

	return (struct cg_matrix){ cg_part(w, (size_t)op->I * row, (size_t)op->U * row), GATES * op->U, 0 };
}

/* Sets the fields of the recurrence that both passes use. */
static int begin(struct cg_stream *stream, const struct cg_lstm_block *op, int pass, struct sequence *sequence)
{
	struct cg_recurrence *recurrence = &sequence->recurrence;
	int64_t U = op->U, wide = GATES * U, n = steps(op);

	sequence->packed = (struct cg_packed){ .T = n, .B = op->B, .N = n * op->B, .S = n, .is_dense = 1 };
	*recurrence = (struct cg_recurrence){
		.stream = stream, .sequence = &sequence->packed, .bytes = { cg_dtype_bytes(op->dtype), cg_acc_bytes(op->dtype) },
		.values = sequence->params, .gate = gates[op->gates], .ranges = &all_gates, .first = first, .n_ranges = 1, .n_blocks = GATES,
		.output = OUTPUT, .saved_h = H, .saved_c = saved_c, .slot = slot, .n_states = 1,
		.U = U, .H = U, .width = op->I, .by_input = 1, .x = { op->x, op->I, 0 },
		.h = { op->h, U, 0 }, .h_first = { op->h_prev, U, 0 }, .c_first = { { op->cs_prev, U, 0 } }, .bias = { op->b, 0, 0 },
	};
	recurrence->input.value = (struct cg_matrix){ op->w, wide, 0 };
	recurrence->recurrent.value = recurrent(op, op->w);
	for (int k = 0; k < SAVED; k++)
		recurrence->saved[k] = mem_at(op, saved[k]);
	for (int k = 0; k < VECTORS; k++)
		recurrence->vector[k] = mem_at(op, vectors[k].value);
	return cg_open_kernel(stream->context, "lstm_block", op->use_peephole ? "peephole" : "", pass, 0, op->dtype, &recurrence->kernel);
}

/* From CG_STEPS_TO_PACK steps on, chooses the backend's scan, or else products with a packed copy of the recurrent rows of w, if the
 * backend has them and the workspace is large enough.  Without a scan and a packed copy, each step is a matrix product with w itself and a
 * kernel launch. */
static void set_packed(struct cg_recurrence *recurrence, int back, struct cg_mem space)
{
	const struct cg_context *context = recurrence->stream->context;
	struct cg_scan scan;
	char why[CG_WHY_NOT];
	size_t bytes;

	if (recurrence->sequence->S < CG_STEPS_TO_PACK)
		return;
	scan = (struct cg_scan){ .units = recurrence->U, .n_products = 1 };
	scan.products[0] = cg_recurrence_describe_product(recurrence->kernel->dtype, back, 1, GATES * recurrence->U, recurrence->U,
	                                                  recurrence->sequence->B);
	bytes = context->backend->scan_work ? context->backend->scan_work(context->device, &scan, why) : 0;
	if (bytes && bytes <= space.bytes) {
		recurrence->scan = cg_part(space, 0, bytes);
		recurrence->span = cg_recurrence_count_span_steps(recurrence->kernel->dtype, recurrence->kernel->pass, GATES * recurrence->U,
		                                                  recurrence->width + recurrence->U, recurrence->sequence->B);
		recurrence->gates_of_span = 1;
		return;
	}
	bytes = cg_recurrence_measure_packed(context, &scan.products[0], recurrence->sequence->N);
	if (bytes && bytes <= space.bytes)
		recurrence->packed[0] = cg_part(space, 0, bytes);
}

static int zero(struct cg_stream *stream, struct cg_mem mem, size_t at, size_t bytes)
{
	return cg_present(mem) && bytes ? stream->context->backend->zero(stream->queue, cg_part(mem, at, bytes), bytes) : CG_OK;
}

/* Zeros the steps of an output that are not computed. */
static int zero_rest(struct cg_stream *stream, const struct cg_lstm_block *op, struct cg_mem mem, int64_t width)
{
	size_t step = (size_t)(op->B * width) * cg_dtype_bytes(op->dtype);

	return zero(stream, mem, (size_t)steps(op) * step, (size_t)(op->T - steps(op)) * step);
}

/* ---- forward ---- */

static int run_forward(struct cg_stream *stream, const void *given, struct cg_work *work)
{
	const struct cg_lstm_block *op = given;
	struct forward_work w;
	struct sequence sequence;
	struct cg_recurrence *recurrence = &sequence.recurrence;

	CG_TRY(begin(stream, op, CG_FORWARD, &sequence));
	sequence.params[0] = cg_round(op->dtype, op->forget_bias);
	sequence.params[1] = cg_round(op->dtype, op->cell_clip);
	carve_forward(op, work, &w);
	recurrence->gates = (struct cg_matrix){ w.gates, GATES * op->U, 1 };
	if (!cg_present(op->cs)) {
		recurrence->saved[CS] = w.cs;
		recurrence->in_turn[CS] = 2;
	}
	if (!cg_present(op->h)) {
		recurrence->h.mem = recurrence->saved[H] = w.h;
		recurrence->in_turn[H] = 2;
	}
	set_packed(recurrence, 0, w.packed);
	CG_TRY(cg_recurrence_forward(&recurrence, 1, 0));
	for (int k = 0; k < SAVED; k++)
		CG_TRY(zero_rest(stream, op, mem_at(op, saved[k]), op->U));
	return CG_OK;
}

/* ---- gradient ---- */

/* Sets which gradients of weights are computed, and the operands of the sums over all rows of all steps. */
static void set_weight_gradients(const struct cg_lstm_block *op, const struct grad_work *w, struct cg_recurrence *recurrence)
{
	if (cg_present(op->w_grad)) {
		recurrence->input.grad = (struct cg_matrix){ op->w_grad, GATES * op->U, 0 };
		recurrence->recurrent.grad = recurrent(op, op->w_grad);
	}
	recurrence->d_bias[0] = op->b_grad;
	recurrence->needs_sums = cg_present(op->b_grad);
	for (int k = 0; k < VECTORS && op->use_peephole; k++) {
		recurrence->d_vector[k] = mem_at(op, vectors[k].grad);
		recurrence->needs_sums |= cg_present(recurrence->d_vector[k]);
		/* If neither wci_grad nor wcf_grad is requested, prev_c stays absent: the sum then reads zeros, and nothing uses that sum. */
		if (vectors[k].reads_cs_prev && cg_present(recurrence->d_vector[k]))
			recurrence->prev_c[0] = w->cs_prev;
	}
	recurrence->partial = w->partial;
	recurrence->sum = w->sum;
	recurrence->accumulate = op->accumulate;
}

static int begin_grad(struct cg_stream *stream, const struct cg_lstm_block *op, struct cg_work *work, struct sequence *sequence)
{
	struct cg_recurrence *recurrence = &sequence->recurrence;
	struct grad_work w;

	CG_TRY(begin(stream, op, CG_GRAD, sequence));
	carve_grad(op, work, &w);
	set_weight_gradients(op, &w, recurrence);
	recurrence->dy = (struct cg_matrix){ op->h_grad, op->U, 0 };
	recurrence->dc = (struct cg_matrix){ op->cs_grad, op->U, 0 };
	recurrence->dx.result = (struct cg_matrix){ op->x_grad, op->I, 0 };
	recurrence->carry_h = w.carry_h;
	recurrence->carry_c[0] = w.carry_cs;
	recurrence->d_h_first = (struct cg_matrix){ op->h_prev_grad, op->U, 0 };
	recurrence->d_c_first[0] = (struct cg_matrix){ op->cs_prev_grad, op->U, 0 };
	recurrence->d_gates = (struct cg_matrix){ op->dgates, GATES * op->U, 0 };
	if (!cg_present(op->dgates) && (steps(op) > 1 || cg_present(op->x_grad) || cg_present(op->h_prev_grad) || cg_present(op->w_grad) ||
	                                recurrence->needs_sums))
		recurrence->d_gates.mem = w.dgates;
	set_packed(recurrence, 1, w.packed);
	return CG_OK;
}

/* Zeros the gradients of steps that are not computed; those of the initial states if no step is computed; and, without peepholes and unless
 * the op accumulates, those of the per-unit vectors. */
static int zero_grads(struct cg_stream *stream, const struct cg_lstm_block *op)
{
	size_t unit = (size_t)op->U * cg_dtype_bytes(op->dtype), state = steps(op) ? 0 : (size_t)op->B * unit;

	CG_TRY(zero_rest(stream, op, op->dgates, GATES * op->U));
	CG_TRY(zero_rest(stream, op, op->x_grad, op->I));
	CG_TRY(zero(stream, op->cs_prev_grad, 0, state));
	CG_TRY(zero(stream, op->h_prev_grad, 0, state));
	for (int k = 0; k < VECTORS && !op->use_peephole && !op->accumulate; k++)
		CG_TRY(zero(stream, mem_at(op, vectors[k].grad), 0, unit));
	return CG_OK;
}

static int run_grad(struct cg_stream *stream, const void *given, struct cg_work *work)
{
	const struct cg_lstm_block *op = given;
	struct sequence sequence;
	struct cg_recurrence *recurrence = &sequence.recurrence;

	CG_TRY(begin_grad(stream, op, work, &sequence));
	CG_TRY(cg_recurrence_backward(&recurrence, 1, 0, NULL, NULL));
	return zero_grads(stream, op);
}

/* ---- calls ---- */

/* The row in the op table for a call.  A call with T = 1 whose step is computed gets the row of LSTMBlockCell or LSTMBlockCellGrad; so
 * does any call whose struct is NULL or too short. */
static const struct cg_op *row_of(const struct cg_lstm_block *op, int is_grad)
{
	int is_readable = op && op->size >= sizeof *op;

	if (!is_readable || (op->T == 1 && (op->seq_len_max == -1 || op->seq_len_max == 1)))
		return &cg_lstm_block_cell_ops[is_grad];
	/* A forward call with a forget_bias gets the row of BlockLSTM whatever the order of its gates: BlockLSTMV2 has no forget_bias. */
	return &cg_block_lstm_ops[2 * (op->gates == CG_IFCO && (is_grad || op->forget_bias == 0)) + is_grad];
}

int cg_lstm_block_forward(struct cg_stream *stream, const struct cg_lstm_block *op)
{
	struct cg_lstm_block whole;

	op = cg_sized_complete(&sized, op, &whole);
	return cg_op_run(stream, row_of(op, 0), op, run_forward);
}

int cg_lstm_block_grad(struct cg_stream *stream, const struct cg_lstm_block *op)
{
	struct cg_lstm_block whole;

	op = cg_sized_complete(&sized, op, &whole);
	return cg_op_run(stream, row_of(op, 1), op, run_grad);
}

/* ---- LSTMBlockCell, LSTMBlockCellGrad ---- */

#define ABOUT_CLIP "cs is kept from -cell_clip to cell_clip; 0 or less: no limit"

static const struct cg_dim lstm_dims[] = {
	{ "T", LSTM(T), 1, .only = "this op is one step; block_lstm computes sequences", .about = ABOUT_T },
	{ "B", LSTM(B), .least = 0, .about = ABOUT_B },
	{ "I", LSTM(I), .least = 1, .about = ABOUT_I },
	{ "U", LSTM(U), .least = 1, .about = ABOUT_U },
	{ .symbol = NULL }
};

static const struct cg_attribute lstm_attributes[] = {
	{ .name = "forget_bias",  .kind = CG_REAL, .fallback = 1, .at = LSTM(forget_bias)  },
	{ .name = "cell_clip",    .kind = CG_REAL, .fallback = 3, .at = LSTM(cell_clip), .about = ABOUT_CLIP },
	{ .name = "use_peephole", .kind = CG_BOOL, .fallback = 0, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_port lstm_ports[] = {
	{ "x",       "B I",     CG_IN,  NULL,           0, .at = LSTM(x)       },
	{ "cs_prev", "B U",     CG_IN,  NULL,           0, .at = LSTM(cs_prev) },
	{ "h_prev",  "B U",     CG_IN,  NULL,           0, .at = LSTM(h_prev)  },
	{ "w",       "I+U 4*U", CG_IN,  NULL,           0, .at = LSTM(w), .about = ABOUT_W },
	{ "wci",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wci)     },
	{ "wcf",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wcf)     },
	{ "wco",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wco)     },
	{ "b",       "4*U",     CG_IN,  NULL,           0, .at = LSTM(b)       },
	{ "i",       "B U",     CG_OUT, NULL,           0, .at = LSTM(i)       },
	{ "cs",      "B U",     CG_OUT, NULL,           0, .at = LSTM(cs)      },
	{ "f",       "B U",     CG_OUT, NULL,           0, .at = LSTM(f)       },
	{ "o",       "B U",     CG_OUT, NULL,           0, .at = LSTM(o)       },
	{ "ci",      "B U",     CG_OUT, NULL,           0, .at = LSTM(ci)      },
	{ "co",      "B U",     CG_OUT, NULL,           0, .at = LSTM(co)      },
	{ "h",       "B U",     CG_OUT, NULL,           0, .at = LSTM(h)       },
	{ .name = NULL }
};

static const struct cg_attribute lstm_grad_attributes[] = {
	{ .name = "use_peephole", .kind = CG_BOOL, .required = 1, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

/* All outputs depend on the pointwise gradient, which reads cs_prev, the gates and co; with peepholes also cs, for wco_grad.  The products
 * read x, h_prev and w. */
static const struct cg_port lstm_grad_ports[] = {
	{ "x",            "B I",     CG_IN,      "w_grad",             0, .at = LSTM(x)            },
	{ "cs_prev",      "B U",     CG_IN,      NULL,                 0, .at = LSTM(cs_prev)      },
	{ "h_prev",       "B U",     CG_IN,      "w_grad",             0, .at = LSTM(h_prev)       },
	{ "w",            "I+U 4*U", CG_IN,      "x_grad h_prev_grad", 0, .at = LSTM(w), .about = ABOUT_W },
	{ "wci",          "U",       CG_IN,      "use_peephole",       0, .at = LSTM(wci)          },
	{ "wcf",          "U",       CG_IN,      "use_peephole",       0, .at = LSTM(wcf)          },
	{ "wco",          "U",       CG_IN,      "use_peephole",       0, .at = LSTM(wco)          },
	{ "b",            "4*U",     CG_IN,      "",                   0, .at = LSTM(b), .flags = CG_SHAPE_ALONE },
	{ "i",            "B U",     CG_IN,      NULL,                 0, .at = LSTM(i)            },
	{ "cs",           "B U",     CG_IN,      "use_peephole",       0, .at = LSTM(cs)           },
	{ "f",            "B U",     CG_IN,      NULL,                 0, .at = LSTM(f)            },
	{ "o",            "B U",     CG_IN,      NULL,                 0, .at = LSTM(o)            },
	{ "ci",           "B U",     CG_IN,      NULL,                 0, .at = LSTM(ci)           },
	{ "co",           "B U",     CG_IN,      NULL,                 0, .at = LSTM(co)           },
	{ "cs_grad",      "B U",     CG_IN,      "",                   0, .at = LSTM(cs_grad)      },
	{ "h_grad",       "B U",     CG_IN,      "",                   0, .at = LSTM(h_grad)       },
	{ "cs_prev_grad", "B U",     CG_OUT,     NULL,                 0, .at = LSTM(cs_prev_grad) },
	{ "dicfo",        "B 4*U",   CG_OUT,     NULL,                 0, .at = LSTM(dgates), .about = ABOUT_GATES },
	{ "wci_grad",     "U",       CG_OUT_SUM, NULL,                 0, .at = LSTM(wci_grad)     },
	{ "wcf_grad",     "U",       CG_OUT_SUM, NULL,                 0, .at = LSTM(wcf_grad)     },
	{ "wco_grad",     "U",       CG_OUT_SUM, NULL,                 0, .at = LSTM(wco_grad)     },
	{ "x_grad",       "B I",     CG_OUT,     NULL,                 1, .at = LSTM(x_grad)       },
	{ "h_prev_grad",  "B U",     CG_OUT,     NULL,                 1, .at = LSTM(h_prev_grad)  },
	{ "w_grad",       "I+U 4*U", CG_OUT_SUM, NULL,                 1, .at = LSTM(w_grad)       },
	{ "b_grad",       "4*U",     CG_OUT_SUM, NULL,                 1, .at = LSTM(b_grad)       },
	{ .name = NULL }
};

/* ---- BlockLSTM, BlockLSTMGrad, and V2 of both ---- */

static const struct cg_dim block_lstm_dims[] = {
	{ "T", LSTM(T), .least = 0, .about = ABOUT_T },
	{ "B", LSTM(B), .least = 0, .about = ABOUT_B },
	{ "I", LSTM(I), .least = 1, .about = ABOUT_I },
	{ "U", LSTM(U), .least = 1, .about = ABOUT_U },
	{ .symbol = NULL }
};

/* The default of seq_len_max, -1, stands for T. */
#define SEQ_LEN_MAX { .name = "seq_len_max", .kind = CG_INTEGER, .range = "0 T", .scalar = 1, .required = 1, .fallback = -1, \
                      .at = LSTM(seq_len_max), .about = "how many steps to compute, from step 0 on" }

static const struct cg_attribute block_lstm_attributes[] = {
	SEQ_LEN_MAX,
	{ .name = "forget_bias",  .kind = CG_REAL, .fallback = 1, .at = LSTM(forget_bias)  },
	{ .name = "cell_clip",    .kind = CG_REAL, .fallback = 3, .at = LSTM(cell_clip), .about = ABOUT_CLIP },
	{ .name = "use_peephole", .kind = CG_BOOL, .fallback = 0, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_attribute block_lstm_v2_attributes[] = {
	SEQ_LEN_MAX,
	{ .name = "cell_clip",    .kind = CG_REAL, .fallback = 0, .at = LSTM(cell_clip), .about = ABOUT_CLIP },
	{ .name = "use_peephole", .kind = CG_BOOL, .fallback = 0, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_attribute block_lstm_grad_attributes[] = {
	SEQ_LEN_MAX,
	{ .name = "use_peephole", .kind = CG_BOOL, .required = 1, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_port block_lstm_ports[] = {
	{ "x",       "T B I",   CG_IN,  NULL,           0, .at = LSTM(x)       },
	{ "cs_prev", "B U",     CG_IN,  NULL,           0, .at = LSTM(cs_prev) },
	{ "h_prev",  "B U",     CG_IN,  NULL,           0, .at = LSTM(h_prev)  },
	{ "w",       "I+U 4*U", CG_IN,  NULL,           0, .at = LSTM(w), .about = ABOUT_W },
	{ "wci",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wci)     },
	{ "wcf",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wcf)     },
	{ "wco",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wco)     },
	{ "b",       "4*U",     CG_IN,  NULL,           0, .at = LSTM(b)       },
	{ "i",       "T B U",   CG_OUT, NULL,           0, .at = LSTM(i), .flags = CG_UNSET },
	{ "cs",      "T B U",   CG_OUT, NULL,           0, .at = LSTM(cs)      },
	{ "f",       "T B U",   CG_OUT, NULL,           0, .at = LSTM(f), .flags = CG_UNSET },
	{ "o",       "T B U",   CG_OUT, NULL,           0, .at = LSTM(o), .flags = CG_UNSET },
	{ "ci",      "T B U",   CG_OUT, NULL,           0, .at = LSTM(ci), .flags = CG_UNSET },
	{ "co",      "T B U",   CG_OUT, NULL,           0, .at = LSTM(co), .flags = CG_UNSET },
	{ "h",       "T B U",   CG_OUT, NULL,           0, .at = LSTM(h)       },
	{ .name = NULL }
};

/* The gradient of a step passes through w to the step before, and reads that step's cs, so that all outputs need w and cs.  Only products
 * read h. */
static const struct cg_port block_lstm_grad_ports[] = {
	{ "x",            "T B I",   CG_IN,      "w_grad",       0, .at = LSTM(x)            },
	{ "cs_prev",      "B U",     CG_IN,      NULL,           0, .at = LSTM(cs_prev)      },
	{ "h_prev",       "B U",     CG_IN,      "w_grad",       0, .at = LSTM(h_prev)       },
	{ "w",            "I+U 4*U", CG_IN,      NULL,           0, .at = LSTM(w), .about = ABOUT_W },
	{ "wci",          "U",       CG_IN,      "use_peephole", 0, .at = LSTM(wci)          },
	{ "wcf",          "U",       CG_IN,      "use_peephole", 0, .at = LSTM(wcf)          },
	{ "wco",          "U",       CG_IN,      "use_peephole", 0, .at = LSTM(wco)          },
	{ "b",            "4*U",     CG_IN,      "",             0, .at = LSTM(b), .flags = CG_SHAPE_ALONE },
	{ "i",            "T B U",   CG_IN,      NULL,           0, .at = LSTM(i)            },
	{ "cs",           "T B U",   CG_IN,      NULL,           0, .at = LSTM(cs)           },
	{ "f",            "T B U",   CG_IN,      NULL,           0, .at = LSTM(f)            },
	{ "o",            "T B U",   CG_IN,      NULL,           0, .at = LSTM(o)            },
	{ "ci",           "T B U",   CG_IN,      NULL,           0, .at = LSTM(ci)           },
	{ "co",           "T B U",   CG_IN,      NULL,           0, .at = LSTM(co)           },
	{ "h",            "T B U",   CG_IN,      "w_grad",       0, .at = LSTM(h)            },
	{ "cs_grad",      "T B U",   CG_IN,      "",             0, .at = LSTM(cs_grad)      },
	{ "h_grad",       "T B U",   CG_IN,      "",             0, .at = LSTM(h_grad)       },
	{ "x_grad",       "T B I",   CG_OUT,     NULL,           0, .at = LSTM(x_grad)       },
	{ "cs_prev_grad", "B U",     CG_OUT,     NULL,           0, .at = LSTM(cs_prev_grad) },
	{ "h_prev_grad",  "B U",     CG_OUT,     NULL,           0, .at = LSTM(h_prev_grad)  },
	{ "w_grad",       "I+U 4*U", CG_OUT_SUM, NULL,           0, .at = LSTM(w_grad)       },
	{ "wci_grad",     "U",       CG_OUT_SUM, NULL,           0, .at = LSTM(wci_grad)     },
	{ "wcf_grad",     "U",       CG_OUT_SUM, NULL,           0, .at = LSTM(wcf_grad)     },
	{ "wco_grad",     "U",       CG_OUT_SUM, NULL,           0, .at = LSTM(wco_grad)     },
	{ "b_grad",       "4*U",     CG_OUT_SUM, NULL,           0, .at = LSTM(b_grad)       },
	{ "dgates",       "T B 4*U", CG_OUT,     NULL,           1, .at = LSTM(dgates), .about = ABOUT_GATES },
	{ .name = NULL }
};

static void lstm_init(void *op, size_t size)
{
	cg_lstm_block_init(op, size);
}

static void lstm_v2_init(void *op, size_t size)
{
	struct cg_lstm_block *v2 = op;

	cg_lstm_block_init(op, size);
	v2->gates = CG_IFCO;
	v2->forget_bias = v2->cell_clip = 0;
}

static int lstm_work(const void *op, size_t *bytes)
{
	return cg_lstm_block_work(op, CG_FORWARD, bytes);
}

static int lstm_grad_work(const void *op, size_t *bytes)
{
	return cg_lstm_block_work(op, CG_GRAD, bytes);
}

static int lstm(struct cg_stream *stream, const void *op)
{
	return cg_lstm_block_forward(stream, op);
}

static int lstm_grad(struct cg_stream *stream, const void *op)
{
	return cg_lstm_block_grad(stream, op);
}

#define LSTM_STRUCT CG_READ_ONCE, \
	.type = "cg_lstm_block", .size = sizeof(struct cg_lstm_block), \
	.dtype_at = LSTM(dtype), .accumulate_at = LSTM(accumulate), .work_at = LSTM(work)
#define LSTM_MEANS  ONE_LAYER " cell=lstm_block weights_format=block"
/* Without forget_bias and without clipping, the equations of cell lstm_block are those of cell lstm. */
#define V2_MEANS    ONE_LAYER " cell=lstm_block,lstm weights_format=block_v2 time_major=true"
#define LSTM_CELL  LSTM_STRUCT, .init = lstm_init, .dims = lstm_dims, .gates_at = LSTM(gates), .gates = "i ci f o", .means = LSTM_MEANS
#define BLOCK_LSTM LSTM_STRUCT, .init = lstm_init, .dims = block_lstm_dims, .steps_at = LSTM(seq_len_max), .gates_at = LSTM(gates), \
	.gates = "i ci f o", .means = LSTM_MEANS " time_major=true"
#define BLOCK_LSTM_V2 LSTM_STRUCT, .init = lstm_v2_init, .dims = block_lstm_dims, .steps_at = LSTM(seq_len_max), .gates = "i f ci o"
#define LSTM_FORWARD .work = lstm_work, .call = lstm
#define LSTM_GRAD    .work = lstm_grad_work, .call = lstm_grad

const struct cg_op cg_lstm_block_cell_ops[] = {
	{ .name = "lstm_block_cell",      .tensorflow = "LSTMBlockCell",     LSTM_CELL, LSTM_FORWARD,
	  .attributes = lstm_attributes, .ports = lstm_ports },
	{ .name = "lstm_block_cell_grad", .tensorflow = "LSTMBlockCellGrad", LSTM_CELL, LSTM_GRAD,
	  .attributes = lstm_grad_attributes, .ports = lstm_grad_ports },
	{ .name = NULL }
};

const struct cg_op cg_block_lstm_ops[] = {
	{ .name = "block_lstm",           .tensorflow = "BlockLSTM",         BLOCK_LSTM, LSTM_FORWARD,
	  .attributes = block_lstm_attributes, .ports = block_lstm_ports },
	{ .name = "block_lstm_grad",      .tensorflow = "BlockLSTMGrad",     BLOCK_LSTM, LSTM_GRAD,
	  .attributes = block_lstm_grad_attributes, .ports = block_lstm_grad_ports },
	{ .name = "block_lstm_v2",        .tensorflow = "BlockLSTMV2",       BLOCK_LSTM_V2, LSTM_FORWARD, .means = V2_MEANS " forget_bias=0",
	  .attributes = block_lstm_v2_attributes, .ports = block_lstm_ports },
	{ .name = "block_lstm_grad_v2",   .tensorflow = "BlockLSTMGradV2",   BLOCK_LSTM_V2, LSTM_GRAD, .means = V2_MEANS,
	  .attributes = block_lstm_grad_attributes, .ports = block_lstm_grad_ports },
	{ .name = NULL }
};
