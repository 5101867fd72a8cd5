/*
 * LSTMBlockCell and BlockLSTM, which is T of its steps, and their gradients.  Forward: one product for the inputs of all steps, then
 * for each step a product and a point kernel.  Backward: for each step a point kernel and the product that carries its gradient
 * to the step before; then sums over the rows of all steps and the products of the weight gradients.  cs and h are rounded at
 * every step.  The equations are templates/lstm_block.cell, the checks the op table's.
 */
#include <string.h>

#include "runtime/op/run.h"
#include "runtime/block/block.h"

enum { GATES = 4, POINT = 0, SUM_PART, SUM, SUMS = GATES + 3 };

/* Where gate k of the cell (i ci f o) stands among the blocks of w, b and dgates. */
static const int place[][GATES] = { [CG_ICFO] = { 0, 1, 2, 3 }, [CG_IFCO] = { 0, 2, 1, 3 } };

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

/* The work memory, in the order in which it is taken.  What passes from step to step is there when there is more than one. */
struct forward_work { struct cg_mem gates, cs, h; };                     /* [T B 4U] acc; [2 B U] and [B U], for absent outputs */
struct grad_work { struct cg_mem dgates, partial, dcs, dh, before; };    /* [T B 4U]; acc; [2 B U], [B U], upstream; [T B U] */

static void take_forward(const struct cg_lstm_block *op, struct cg_work *work, struct forward_work *w)
{
	size_t real = cg_dtype_bytes(op->dtype);

	*w = (struct forward_work){ .gates = cg_work_take(work, op->T * op->B, GATES * op->U, cg_acc_bytes(op->dtype)) };
	if (op->T <= 1)
		return;
	w->cs = cg_work_take(work, 2 * op->B, op->U, real);
	w->h = cg_work_take(work, op->B, op->U, real);
}

static void take_grad(const struct cg_lstm_block *op, struct cg_work *work, struct grad_work *w)
{
	size_t real = cg_dtype_bytes(op->dtype);
	int64_t rows = op->T * op->B;

	*w = (struct grad_work){ .dgates = cg_work_take(work, rows, GATES * op->U, real) };
	w->partial = cg_work_take(work, (rows + CG_SUM_ROWS - 1) / CG_SUM_ROWS, SUMS * op->U, cg_acc_bytes(op->dtype));
	if (op->T <= 1)
		return;
	w->dcs = cg_work_take(work, 2 * op->B, op->U, real);
	w->dh = cg_work_take(work, op->B, op->U, real);
	w->before = cg_work_take(work, rows, op->U, real);
}

static size_t work_bytes(const struct cg_lstm_block *op, int pass)
{
	struct cg_work work = { .used = 0 };
	struct forward_work forward;
	struct grad_work grad;

	if (pass == CG_FORWARD)
		take_forward(op, &work, &forward);
	else
		take_grad(op, &work, &grad);
	return work.used;
}

/* Of T B U elements the work is less than 64 bytes each, and as much for one row. */
static int is_too_large(const struct cg_lstm_block *op)
{
	const int64_t most = PTRDIFF_MAX / 256;
	int64_t rows, all;

	return __builtin_mul_overflow(op->T, op->B, &rows) || __builtin_mul_overflow(rows, op->U, &all) || all > most || op->U > most;
}

int cg_lstm_block_work(const struct cg_lstm_block *op, enum cg_pass pass, size_t *bytes)
{
	struct cg_lstm_block whole;

	if (!op || !bytes)
		return cg_fail(CG_BAD_ARGUMENT, "cg_lstm_block_work: %s: missing", op ? "bytes" : "op");
	op = cg_sized_complete(&sized, op, &whole);
	CG_TRY(cg_sized_check("cg_lstm_block_work", "cg_lstm_block", op, sizeof *op));
	if (pass != CG_FORWARD && pass != CG_GRAD)
		return cg_fail(CG_UNSUPPORTED, "cg_lstm_block_work: pass: expected CG_FORWARD or CG_GRAD");
	if (op->T < 0 || op->B < 0 || op->U < 1 || !cg_dtype_bytes(op->dtype) || is_too_large(op))
		return cg_fail(CG_BAD_ARGUMENT, "cg_lstm_block_work: T, B, U or dtype: out of range");
	*bytes = work_bytes(op, pass);
	return CG_OK;
}

/* Steps that are computed; the outputs beyond are zero, and nothing is read there.  Of no rows none is: T may then be anything. */
static int64_t steps(const struct cg_lstm_block *op)
{
	return !op->B ? 0 : op->seq_len_max < 0 ? op->T : op->seq_len_max;
}

/* Step t of [T B width]. */
static struct cg_mem at(const struct cg_lstm_block *op, struct cg_mem mem, int64_t t, int64_t width, size_t bytes)
{
	bytes *= (size_t)(op->B * width);
	return cg_part(mem, (size_t)t * bytes, bytes);
}

/* The same of what has a row of U for each of the batch. */
static struct cg_mem state(const struct cg_lstm_block *op, struct cg_mem mem, int64_t t)
{
	return at(op, mem, t, op->U, cg_dtype_bytes(op->dtype));
}

/* The steps of an output that are not computed. */
static int zero_rest(struct cg_stream *stream, const struct cg_lstm_block *op, struct cg_mem mem, int64_t width)
{
	size_t step = (size_t)(op->B * width) * cg_dtype_bytes(op->dtype), bytes = (size_t)(op->T - steps(op)) * step;

	if (!cg_present(mem) || !bytes)
		return CG_OK;
	return stream->context->backend->zero(stream->queue, cg_part(mem, (size_t)steps(op) * step, bytes), bytes);
}

static const char *options(const struct cg_lstm_block *op)
{
	return op->use_peephole ? "peephole" : "";
}

/* ---- the arguments of a kernel ---- */

#define LSTM(field) offsetof(struct cg_lstm_block, field)

/* The op's arguments in the order of the cell, and the gradients of its vectors. */
static const size_t saved_at[] = { LSTM(i), LSTM(ci), LSTM(f), LSTM(o), LSTM(cs), LSTM(co), LSTM(h) };
static const size_t vector_at[][2] = { { LSTM(wci), LSTM(wci_grad) }, { LSTM(wcf), LSTM(wcf_grad) }, { LSTM(wco), LSTM(wco_grad) } };
enum { SAVED = sizeof saved_at / sizeof *saved_at, SAVED_CS = 4, SAVED_H = 6, STATE_CS = 0, VECTORS = 3 };

static struct cg_mem mem_at(const struct cg_lstm_block *op, size_t at)
{
	return *(const struct cg_mem *)(const void *)((const char *)op + at);
}

/* What the kernels take at a step, or in the sums of all. */
struct kernel_memory {
	const struct cg_lstm_block *op;
	struct cg_mem gates, dgates;             /* [B 4U] */
	struct cg_mem cs_prev, dcs_prev, dcs, dh;
	struct cg_mem saved[SAVED], partial;
};

/* Gate k of [B 4U], or of [4U]. */
static void bind_gate(const struct cg_lstm_block *op, struct cg_mem mem, int k, size_t bytes, struct cg_operand *operand)
{
	size_t at = (size_t)(place[op->gates][k] * op->U) * bytes;

	operand->mem = cg_part(mem, at, mem.bytes - at);
	operand->stride = GATES * op->U;
}

static int bind(const void *of, const struct cg_argument *a, struct cg_operand *operand)
{
	const struct kernel_memory *m = of;
	const struct cg_lstm_block *op = m->op;
	int is_value = a->order == CG_VALUE;

	operand->stride = op->U;
	switch (a->role) {
	case CG_ROLE_GATE:
		if (is_value)
			bind_gate(op, m->gates, a->index, cg_acc_bytes(op->dtype), operand);
		else
			bind_gate(op, m->dgates, a->index, cg_dtype_bytes(op->dtype), operand);
		break;
	case CG_ROLE_BIAS:       bind_gate(op, op->b_grad, a->index, cg_dtype_bytes(op->dtype), operand); break;
	case CG_ROLE_PREV:       operand->mem = is_value ? m->cs_prev : m->dcs_prev; break;
	case CG_ROLE_STATE:      operand->mem = a->index == STATE_CS ? m->dcs : m->dh; break;
	case CG_ROLE_SAVED:      operand->mem = m->saved[a->index]; break;
	case CG_ROLE_WEIGHT:     operand->mem = mem_at(op, vector_at[a->index][!is_value]); break;
	case CG_ROLE_PARAM:      operand->value = cg_round(op->dtype, a->index ? op->cell_clip : op->forget_bias); break;
	case CG_ROLE_SCRATCH:    operand->mem = m->partial; break;
	case CG_ROLE_ACCUMULATE: operand->value = op->accumulate; break;
	}
	return CG_OK;
}

/* What forward writes and grad reads at step t. */
static void take_saved(struct kernel_memory *m, int64_t t)
{
	for (int k = 0; k < SAVED; k++)
		m->saved[k] = state(m->op, mem_at(m->op, saved_at[k]), t);
}

/* ---- forward ---- */

/* x W_x + b of all steps. */
static int multiply_input(struct cg_stream *stream, const struct cg_lstm_block *op, struct cg_mem gates)
{
	int64_t wide = GATES * op->U;
	struct cg_gemm product = { .dtype = op->dtype, .m = steps(op) * op->B, .n = wide, .k = op->I };

	product.c = (struct cg_matrix){ gates, wide, 1 };
	product.start = (struct cg_matrix){ op->b, 0, 0 };
	product.a = (struct cg_matrix){ op->x, op->I, 0 };
	product.b = (struct cg_matrix){ op->w, wide, 0 };
	return cg_multiply(stream, &product);
}

/* The rows of w, or of its gradient, that multiply h_prev. */
static struct cg_mem recurrent(const struct cg_lstm_block *op, struct cg_mem w)
{
	size_t row = (size_t)(GATES * op->U) * cg_dtype_bytes(op->dtype);

	return cg_part(w, (size_t)op->I * row, (size_t)op->U * row);
}

/* Where the states after step t are; in the work memory, where nobody wants them but the step after. */
static struct cg_mem cs_after(const struct cg_lstm_block *op, const struct forward_work *w, int64_t t)
{
	if (t < 0)
		return op->cs_prev;
	return cg_present(op->cs) ? state(op, op->cs, t) : state(op, w->cs, t % 2);
}

static struct cg_mem h_after(const struct cg_lstm_block *op, const struct forward_work *w, int64_t t)
{
	if (t < 0)
		return op->h_prev;
	return cg_present(op->h) ? state(op, op->h, t) : w->h;
}

static int forward_step(struct cg_stream *stream, const struct cg_lstm_block *op, const struct cg_ready *kernel,
                        const struct forward_work *w, int64_t t)
{
	int64_t wide = GATES * op->U;
	struct kernel_memory m = { .op = op, .gates = at(op, w->gates, t, wide, cg_acc_bytes(op->dtype)), .cs_prev = cs_after(op, w, t - 1) };
	struct cg_gemm product = { .dtype = op->dtype, .m = op->B, .n = wide, .k = op->U };

	product.c = product.start = (struct cg_matrix){ m.gates, wide, 1 };
	product.a = (struct cg_matrix){ h_after(op, w, t - 1), op->U, 0 };
	product.b = (struct cg_matrix){ recurrent(op, op->w), wide, 0 };
	CG_TRY(cg_multiply(stream, &product));
	take_saved(&m, t);
	m.saved[SAVED_CS] = cs_after(op, w, t);
	m.saved[SAVED_H] = h_after(op, w, t);
	return cg_launch(stream, kernel, POINT, op->B, op->U, bind, &m);
}

static int forward(struct cg_stream *stream, const void *given, struct cg_work *work)
{
	const struct cg_lstm_block *op = given;
	const struct cg_mem outputs[] = { op->i, op->cs, op->f, op->o, op->ci, op->co, op->h };
	const struct cg_ready *kernel;
	struct forward_work w;

	CG_TRY(cg_ready(stream->context, "lstm_block", options(op), CG_FORWARD, 0, op->dtype, &kernel));
	take_forward(op, work, &w);
	CG_TRY(multiply_input(stream, op, w.gates));
	for (int64_t t = 0; t < steps(op); t++)
		CG_TRY(forward_step(stream, op, kernel, &w, t));
	for (size_t k = 0; k < sizeof outputs / sizeof *outputs; k++)
		CG_TRY(zero_rest(stream, op, outputs[k], op->U));
	return CG_OK;
}

/* ---- gradient ---- */

/* Rows of U elements, copied, or added to what is there. */
static int move(struct cg_stream *stream, const struct cg_lstm_block *op, struct cg_mem from, struct cg_mem to, int64_t n, int add)
{
	const struct cg_rows all = { .dtype = op->dtype, .rows = n, .columns = op->U, .src = { from, op->U, 0 },
	                             .dst = { to, op->U, 0 }, .add = add };

	return cg_copy_rows(stream, &all);
}

/* What each step began with: the state given, then what the steps wrote; of one step, what was given. */
static int shift(struct cg_stream *stream, const struct cg_lstm_block *op, struct cg_mem first, struct cg_mem wrote,
                 struct cg_mem room, struct cg_mem *before)
{
	int64_t n = steps(op);

	*before = n > 1 ? room : first;
	if (n <= 1)
		return CG_OK;
	CG_TRY(move(stream, op, first, room, op->B, 0));
	return move(stream, op, wrote, cg_part(room, state(op, room, 0).bytes, room.bytes), (n - 1) * op->B, 0);
}

/* dgates W^T: what the loss gains by the state that a step began with, or by its input. */
static int carry_back(struct cg_stream *stream, const struct cg_lstm_block *op, struct cg_mem dgates, int64_t n, struct cg_mem w,
                      int64_t width, struct cg_mem start, struct cg_mem to)
{
	int64_t wide = GATES * op->U;
	struct cg_gemm product = { .dtype = op->dtype, .m = n, .n = width, .k = wide, .transpose_b = 1 };

	product.a = (struct cg_matrix){ dgates, wide, 0 };
	product.b = (struct cg_matrix){ w, wide, 0 };
	product.c = (struct cg_matrix){ to, width, 0 };
	if (cg_present(start))
		product.start = (struct cg_matrix){ start, width, 0 };
	return cg_multiply(stream, &product);
}

static int grad_step(struct cg_stream *stream, const struct cg_lstm_block *op, const struct cg_ready *kernel,
                     const struct grad_work *w, int wants_gates, int64_t t)
{
	size_t real = cg_dtype_bytes(op->dtype);
	int64_t wide = GATES * op->U;
	struct kernel_memory m = { .op = op, .dcs = state(op, op->cs_grad, t), .dh = state(op, op->h_grad, t) };

	if (t + 1 < steps(op)) {
		struct cg_mem carried = state(op, w->dcs, (t + 1) % 2);

		CG_TRY(carry_back(stream, op, at(op, w->dgates, t + 1, wide, real), op->B, recurrent(op, op->w), op->U, m.dh, w->dh));
		m.dh = w->dh;
		if (cg_present(m.dcs))
			CG_TRY(move(stream, op, m.dcs, carried, op->B, 1));
		m.dcs = carried;
	}
	take_saved(&m, t);
	m.cs_prev = t ? state(op, op->cs, t - 1) : op->cs_prev;
	m.dcs_prev = t ? state(op, w->dcs, t % 2) : op->cs_prev_grad;
	if (wants_gates)
		m.dgates = at(op, w->dgates, t, wide, real);
	return cg_launch(stream, kernel, POINT, op->B, op->U, bind, &m);
}

/* The gradients of the peephole vectors and of b, summed over the rows of all steps from dgates. */
static int sums(struct cg_stream *stream, const struct cg_lstm_block *op, const struct cg_ready *kernel, const struct grad_work *w)
{
	struct kernel_memory m = { .op = op, .dgates = w->dgates, .saved[SAVED_CS] = op->cs, .partial = w->partial };
	int64_t n = steps(op) * op->B;
	int wanted = cg_present(op->b_grad), wants_cs_prev = 0;

	for (int k = 0; k < VECTORS; k++) {
		struct cg_mem grad = mem_at(op, vector_at[k][1]);

		wanted |= op->use_peephole && cg_present(grad);
		wants_cs_prev |= op->use_peephole && cg_present(grad) && k < VECTORS - 1;
		if (!op->use_peephole && cg_present(grad) && !op->accumulate)
			CG_TRY(stream->context->backend->zero(stream->queue, grad, (size_t)op->U * cg_dtype_bytes(op->dtype)));
	}
	if (!wanted)
		return CG_OK;
	/* Absent, it reads as zeros, in sums that nobody asks for. */
	if (wants_cs_prev)
		CG_TRY(shift(stream, op, op->cs_prev, op->cs, w->before, &m.cs_prev));
	CG_TRY(cg_launch(stream, kernel, SUM_PART, n, op->U, bind, &m));
	return cg_launch(stream, kernel, SUM, n, op->U, bind, &m);
}

/* The rows of w_grad that belong to `in` [n width]. */
static int weights(struct cg_stream *stream, const struct cg_lstm_block *op, struct cg_mem in, int64_t width, struct cg_mem dgates,
                   struct cg_mem w_grad)
{
	int64_t wide = GATES * op->U;
	struct cg_gemm product = { .dtype = op->dtype, .m = width, .n = wide, .k = steps(op) * op->B, .transpose_a = 1 };

	/* Of no rows there is no memory to name. */
	if (product.k) {
		product.a = (struct cg_matrix){ in, width, 0 };
		product.b = (struct cg_matrix){ dgates, wide, 0 };
	}
	product.c = (struct cg_matrix){ w_grad, wide, 0 };
	if (op->accumulate)
		product.start = product.c;
	return cg_multiply(stream, &product);
}

/* x_grad, h_prev_grad and w_grad: products with dgates. */
static int products(struct cg_stream *stream, const struct cg_lstm_block *op, const struct grad_work *w)
{
	const struct cg_mem none = { .data = NULL };
	int64_t n = steps(op);
	struct cg_mem h_prev;

	if (cg_present(op->x_grad))
		CG_TRY(carry_back(stream, op, w->dgates, n * op->B, op->w, op->I, none, op->x_grad));
	if (cg_present(op->w_grad))
		CG_TRY(weights(stream, op, op->x, op->I, w->dgates, op->w_grad));
	if (cg_present(op->h_prev_grad) && n)
		CG_TRY(carry_back(stream, op, w->dgates, op->B, recurrent(op, op->w), op->U, none, op->h_prev_grad));
	if (!cg_present(op->w_grad))
		return CG_OK;
	CG_TRY(shift(stream, op, op->h_prev, op->h, w->before, &h_prev));
	return weights(stream, op, h_prev, op->U, w->dgates, recurrent(op, op->w_grad));
}

/* What no step computes. */
static int zero_grads(struct cg_stream *stream, const struct cg_lstm_block *op)
{
	const struct cg_mem states[] = { op->cs_prev_grad, op->h_prev_grad };
	size_t bytes = (size_t)(op->B * op->U) * cg_dtype_bytes(op->dtype);

	CG_TRY(zero_rest(stream, op, op->dgates, GATES * op->U));
	CG_TRY(zero_rest(stream, op, op->x_grad, op->I));
	for (int k = 0; k < 2 && !steps(op) && bytes; k++)
		if (cg_present(states[k]))
			CG_TRY(stream->context->backend->zero(stream->queue, states[k], bytes));
	return CG_OK;
}

static int grad(struct cg_stream *stream, const void *given, struct cg_work *work)
{
	const struct cg_lstm_block *op = given;
	const struct cg_ready *kernel;
	struct grad_work w;
	int wants_gates = cg_present(op->x_grad) || cg_present(op->h_prev_grad) || cg_present(op->w_grad) ||
	                  cg_present(op->b_grad) || cg_present(op->dgates) || steps(op) > 1 ||
	                  (op->use_peephole && (cg_present(op->wci_grad) || cg_present(op->wcf_grad) || cg_present(op->wco_grad)));

	CG_TRY(cg_ready(stream->context, "lstm_block", options(op), CG_GRAD, 0, op->dtype, &kernel));
	take_grad(op, work, &w);
	if (cg_present(op->dgates))
		w.dgates = op->dgates;
	for (int64_t t = steps(op) - 1; t >= 0; t--)
		CG_TRY(grad_step(stream, op, kernel, &w, wants_gates, t));
	CG_TRY(zero_grads(stream, op));
	CG_TRY(sums(stream, op, kernel, &w));
	return products(stream, op, &w);
}

/* ---- calls ---- */

/* The row of the op table that is called.  A step that is all of its sequence is the cell's. */
static const struct cg_op *row_of(const struct cg_lstm_block *op, int is_grad)
{
	int is_readable = op && op->size >= sizeof *op;

	if (!is_readable || (op->T == 1 && (op->seq_len_max == -1 || op->seq_len_max == 1)))
		return &cg_lstm_block_cell_ops[is_grad];
	/* TensorFlow's V2 has no forget_bias. */
	return &cg_block_lstm_ops[2 * (op->gates == CG_IFCO && (is_grad || op->forget_bias == 0)) + is_grad];
}

int cg_lstm_block_forward(struct cg_stream *stream, const struct cg_lstm_block *op)
{
	struct cg_lstm_block whole;

	op = cg_sized_complete(&sized, op, &whole);
	return cg_op_run(stream, row_of(op, 0), op, forward);
}

int cg_lstm_block_grad(struct cg_stream *stream, const struct cg_lstm_block *op)
{
	struct cg_lstm_block whole;

	op = cg_sized_complete(&sized, op, &whole);
	return cg_op_run(stream, row_of(op, 1), op, grad);
}

/* ---- LSTMBlockCell, LSTMBlockCellGrad ---- */

#define ABOUT_CLIP "cs is kept from -cell_clip to cell_clip; 0 or less: no limit"

static const struct cg_dim lstm_dims[] = {
	{ "T", LSTM(T), 1, .only = "it is one step; sequences are block_lstm's", .about = ABOUT_T },
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

/* All outputs come from the point gradient, which reads cs_prev, the gates and co; cs, in wco_grad alone, only when
 * peepholes are on.  x, h_prev and w are in the products. */
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

/* In C -1 stands for T. */
#define SEQ_LEN_MAX { .name = "seq_len_max", .kind = CG_INTEGER, .range = "0 T", .scalar = 1, .required = 1, .fallback = -1, \
                      .at = LSTM(seq_len_max), .about = "steps that are computed, of T" }

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

/* A step's gradient goes through w to the step before, and reads its cs: all outputs need both.  h is in the products alone. */
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
/* Without a forget_bias, and with nothing clipped, the equations are those of lstm. */
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
