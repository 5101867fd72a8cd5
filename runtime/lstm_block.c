/*
 * LSTMBlockCell and LSTMBlockCellGrad: two products and a point kernel forward; a point kernel, sums over the batch and the
 * products of the weight gradients backward.  The equations are templates/lstm_block.cell, the checks the op table's.
 */
#include <string.h>

#include "runtime/backend.h"
#include "runtime/op.h"

/* What the kernels' arguments are called; the operands of a launch stand in this order. */
enum {
	A_I, A_CI, A_F, A_O, CS_PREV, FORGET_BIAS, CELL_CLIP, WCI, WCF, WCO, I, CI, F, O, CS, CO, H,
	DCS, DH, DA_I, DA_CI, DA_F, DA_O, DCS_PREV, PARTIAL, DB_I, DB_CI, DB_F, DB_O, DWCI, DWCF, DWCO, ACCUMULATE, OPERANDS
};
static const char *const names[] = {
	"a_i", "a_ci", "a_f", "a_o", "cs_prev", "forget_bias", "cell_clip", "wci", "wcf", "wco", "i", "ci", "f", "o", "cs", "co",
	"h", "dcs", "dh", "da_i", "da_ci", "da_f", "da_o", "dcs_prev", "partial", "db_i", "db_ci", "db_f", "db_o", "dwci", "dwcf",
	"dwco", "accumulate", NULL
};

enum { GATES = 4, POINT = 0, SUM_PART, SUM, SUMS = GATES + 3 };

/* Where gate k of the cell (i ci f o) stands among the blocks of w, b and dgates. */
static const int place[][GATES] = { [CG_ICFO] = { 0, 1, 2, 3 }, [CG_IFCO] = { 0, 2, 1, 3 } };

void cg_lstm_block_init(struct cg_lstm_block *op, size_t size)
{
	memset(op, 0, size);
	op->size = size;
	op->T = 1;
	op->seq_len_max = -1;
	op->forget_bias = 1;
	op->cell_clip = 3;
}

/* The work memory, in the order in which it is taken. */
struct forward_work { struct cg_mem gates; };
struct grad_work { struct cg_mem dgates, partial; };

static void take_forward(const struct cg_lstm_block *op, struct cg_work *work, struct forward_work *w)
{
	w->gates = cg_work_take(work, op->B, GATES * op->U, cg_acc_bytes(op->dtype));
}

static void take_grad(const struct cg_lstm_block *op, struct cg_work *work, struct grad_work *w)
{
	w->dgates = cg_work_take(work, op->B, GATES * op->U, cg_dtype_bytes(op->dtype));
	w->partial = cg_work_take(work, (op->B + CG_SUM_ROWS - 1) / CG_SUM_ROWS, SUMS * op->U, cg_acc_bytes(op->dtype));
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

int cg_lstm_block_work(const struct cg_lstm_block *op, enum cg_pass pass, size_t *bytes)
{
	if (!op || !bytes)
		return cg_fail(CG_BAD_ARGUMENT, "cg_lstm_block_work: %s: missing", op ? "bytes" : "op");
	if (pass != CG_FORWARD && pass != CG_GRAD)
		return cg_fail(CG_UNSUPPORTED, "cg_lstm_block_work: pass: expected CG_FORWARD or CG_GRAD");
	if (op->B < 0 || op->U < 1 || !cg_dtype_bytes(op->dtype) || op->B > PTRDIFF_MAX / 256 / op->U)
		return cg_fail(CG_BAD_ARGUMENT, "cg_lstm_block_work: B, U or dtype: out of range");
	*bytes = work_bytes(op, pass);
	return CG_OK;
}

/* One row per batch row, each U wide. */
static struct cg_operand rows(const struct cg_lstm_block *op, struct cg_mem mem)
{
	return (struct cg_operand){ .mem = mem, .stride = op->U };
}

static struct cg_operand scalar(double value)
{
	return (struct cg_operand){ .value = value };
}

/* Gate k of [B 4U], or of [4U]. */
static struct cg_operand gate(const struct cg_lstm_block *op, struct cg_mem mem, int k, size_t bytes)
{
	size_t u = (size_t)op->U, at = (size_t)place[op->gates][k] * u * bytes;

	return (struct cg_operand){ .mem = cg_part(mem, at, mem.bytes - at), .stride = GATES * op->U };
}

static const char *options(const struct cg_lstm_block *op)
{
	return op->use_peephole ? "peephole" : "";
}

/* What forward writes and grad reads, and what both read. */
static void bind_state(const struct cg_lstm_block *op, struct cg_operand *v)
{
	v[CS_PREV] = rows(op, op->cs_prev);
	v[WCI].mem = op->wci;
	v[WCF].mem = op->wcf;
	v[WCO].mem = op->wco;
	v[I]  = rows(op, op->i);
	v[CI] = rows(op, op->ci);
	v[F]  = rows(op, op->f);
	v[O]  = rows(op, op->o);
	v[CS] = rows(op, op->cs);
	v[CO] = rows(op, op->co);
}

/* Nothing of the step is beyond the sequence. */
static int check_length(const struct cg_lstm_block *op)
{
	if (op->seq_len_max == -1 || op->seq_len_max == op->T)
		return CG_OK;
	return cg_fail(CG_UNSUPPORTED, "lstm_block_cell: seq_len_max: expected -1 or T=%lld, got %lld: sequences are not in this "
	               "version", (long long)op->T, (long long)op->seq_len_max);
}

static int forward(struct cg_stream *stream, const void *given, struct cg_work *work)
{
	const struct cg_lstm_block *op = given;
	const struct cg_backend *backend = stream->context->backend;
	size_t real = cg_dtype_bytes(op->dtype), acc = cg_acc_bytes(op->dtype);
	int64_t wide = GATES * op->U;
	struct cg_operand v[OPERANDS] = { [FORGET_BIAS] = scalar(cg_round(op->dtype, op->forget_bias)),
	                                  [CELL_CLIP] = scalar(cg_round(op->dtype, op->cell_clip)) };
	struct forward_work w;
	const struct cg_ready *kernel;
	struct cg_gemm product = { .dtype = op->dtype, .m = op->B, .n = wide };

	CG_TRY(check_length(op));
	CG_TRY(cg_ready(stream->context, "lstm_block", options(op), CG_FORWARD, 0, op->dtype, names, &kernel));
	take_forward(op, work, &w);

	product.c = (struct cg_matrix){ w.gates, wide, 1 };
	product.start = (struct cg_matrix){ op->b, 0, 0 };
	product.a = (struct cg_matrix){ op->x, op->I, 0 };
	product.b = (struct cg_matrix){ op->w, wide, 0 };
	product.k = op->I;
	CG_TRY(backend->gemm(stream->queue, &product));
	product.start = product.c;
	product.a = (struct cg_matrix){ op->h_prev, op->U, 0 };
	product.b = (struct cg_matrix){ cg_part(op->w, (size_t)(op->I * wide) * real, (size_t)(op->U * wide) * real), wide, 0 };
	product.k = op->U;
	CG_TRY(backend->gemm(stream->queue, &product));

	for (int k = 0; k < GATES; k++)
		v[A_I + k] = gate(op, w.gates, k, acc);
	bind_state(op, v);
	v[H] = rows(op, op->h);
	return cg_launch(stream, kernel, POINT, op->B, op->U, v);
}

/* The gradients of the peephole vectors and of b, summed over the batch from dgates. */
static int sums(struct cg_stream *stream, const struct cg_lstm_block *op, const struct cg_ready *kernel, struct cg_operand *v)
{
	const struct cg_mem peepholes[] = { op->wci_grad, op->wcf_grad, op->wco_grad };
	int wanted = cg_present(op->b_grad);

	for (int k = 0; k < 3; k++) {
		wanted |= op->use_peephole && cg_present(peepholes[k]);
		if (!op->use_peephole && cg_present(peepholes[k]) && !op->accumulate)
			CG_TRY(stream->context->backend->zero(stream->queue, peepholes[k],
			                                      (size_t)op->U * cg_dtype_bytes(op->dtype)));
		v[DWCI + k].mem = peepholes[k];
	}
	if (!wanted)
		return CG_OK;
	for (int k = 0; k < GATES; k++)
		v[DB_I + k] = gate(op, op->b_grad, k, cg_dtype_bytes(op->dtype));
	v[ACCUMULATE] = scalar(op->accumulate);
	CG_TRY(cg_launch(stream, kernel, SUM_PART, op->B, op->U, v));
	return cg_launch(stream, kernel, SUM, op->B, op->U, v);
}

/* x_grad, h_prev_grad and w_grad: products with dgates. */
static int products(struct cg_stream *stream, const struct cg_lstm_block *op, struct cg_mem dgates)
{
	const struct cg_backend *backend = stream->context->backend;
	size_t real = cg_dtype_bytes(op->dtype);
	int64_t wide = GATES * op->U;
	const struct cg_matrix d = { dgates, wide, 0 };
	const struct { int64_t width; struct cg_mem in, in_grad; } sides[] = {
		{ op->I, op->x, op->x_grad }, { op->U, op->h_prev, op->h_prev_grad }
	};
	size_t at = 0;

	for (int k = 0; k < 2; k++) {
		int64_t width = sides[k].width;
		size_t bytes = (size_t)(width * wide) * real;

		if (cg_present(sides[k].in_grad)) {
			struct cg_gemm product = { .dtype = op->dtype, .m = op->B, .n = width, .k = wide, .transpose_b = 1, .a = d };

			product.b = (struct cg_matrix){ cg_part(op->w, at, bytes), wide, 0 };
			product.c = (struct cg_matrix){ sides[k].in_grad, width, 0 };
			CG_TRY(backend->gemm(stream->queue, &product));
		}
		if (cg_present(op->w_grad)) {
			struct cg_gemm product = { .dtype = op->dtype, .m = width, .n = wide, .k = op->B, .transpose_a = 1, .b = d };

			product.a = (struct cg_matrix){ sides[k].in, width, 0 };
			product.c = (struct cg_matrix){ cg_part(op->w_grad, at, bytes), wide, 0 };
			if (op->accumulate)
				product.start = product.c;
			CG_TRY(backend->gemm(stream->queue, &product));
		}
		at += bytes;
	}
	return CG_OK;
}

static int grad(struct cg_stream *stream, const void *given, struct cg_work *work)
{
	const struct cg_lstm_block *op = given;
	struct cg_operand v[OPERANDS] = { { .value = 0 } };
	const struct cg_ready *kernel;
	struct grad_work w;
	int further = cg_present(op->x_grad) || cg_present(op->h_prev_grad) || cg_present(op->w_grad) ||
	              cg_present(op->b_grad) || (op->use_peephole && (cg_present(op->wci_grad) || cg_present(op->wcf_grad) ||
	              cg_present(op->wco_grad)));
	struct cg_mem dgates;

	CG_TRY(check_length(op));
	CG_TRY(cg_ready(stream->context, "lstm_block", options(op), CG_GRAD, 0, op->dtype, names, &kernel));
	take_grad(op, work, &w);
	dgates = cg_present(op->dgates) ? op->dgates : w.dgates;

	bind_state(op, v);
	v[DCS] = rows(op, op->cs_grad);
	v[DH]  = rows(op, op->h_grad);
	for (int k = 0; k < GATES && (further || cg_present(op->dgates)); k++)
		v[DA_I + k] = gate(op, dgates, k, cg_dtype_bytes(op->dtype));
	v[DCS_PREV] = rows(op, op->cs_prev_grad);
	v[PARTIAL].mem = w.partial;
	CG_TRY(cg_launch(stream, kernel, POINT, op->B, op->U, v));
	CG_TRY(sums(stream, op, kernel, v));
	return products(stream, op, dgates);
}

int cg_lstm_block_forward(struct cg_stream *stream, const struct cg_lstm_block *op)
{
	return cg_block_run(stream, "lstm_block_cell", op, forward);
}

int cg_lstm_block_grad(struct cg_stream *stream, const struct cg_lstm_block *op)
{
	return cg_block_run(stream, "lstm_block_cell_grad", op, grad);
}
