/*
 * One direction of one layer, step by step: the input products of all steps at once, then for each step a recurrent product and a
 * launch for each stage of the cell; backward the other way round, the weights' gradients after the walk.  What a kernel's
 * argument is at a step follows from its role, so that any cell goes this way.
 */
#include "runtime/rnn/rnn.h"

/* Whole walk, for sums, instead of a step; and what a step has no memory for. */
enum { ALL_STEPS = -1 };
static const struct cg_matrix none = { .stride = 0 };

static size_t bytes_of(const struct cg_scan *w, int acc)
{
	return acc ? cg_acc_bytes(w->rnn->net.dtype) : cg_dtype_bytes(w->rnn->net.dtype);
}

static struct cg_mem from(struct cg_mem mem, size_t offset)
{
	return cg_part(mem, offset, mem.bytes - offset);
}

/* Of a matrix from a row and a column on. */
static struct cg_matrix at(const struct cg_scan *w, struct cg_matrix m, int64_t row, int64_t column)
{
	m.mem = from(m.mem, (size_t)(row * m.stride + column) * bytes_of(w, m.acc));
	return m;
}

static struct cg_matrix gates(const struct cg_scan *w)
{
	return (struct cg_matrix){ w->gates, w->rnn->n_blocks * w->rnn->net.U, 1 };
}

static struct cg_matrix d_gates(const struct cg_scan *w)
{
	return (struct cg_matrix){ w->d_gates, w->rnn->n_blocks * w->rnn->net.U, 0 };
}

static struct cg_matrix kept(const struct cg_scan *w, int k)
{
	return (struct cg_matrix){ w->kept[k], w->rnn->net.U, w->rnn->kept[k].acc };
}

static int64_t off(const struct cg_scan *w, int64_t s)
{
	return cg_steps_off(w->steps, w->direction, s);
}

/* A part of params, or of their gradient, as a matrix. */
static struct cg_matrix part(const struct cg_scan *w, struct cg_mem params, enum cg_rnn_part which, int k)
{
	struct cg_rnn_region r = cg_network_part(&w->rnn->net, w->pseudo_layer, which, k);

	return (struct cg_matrix){ from(params, (size_t)r.offset * bytes_of(w, 0)), r.columns, 0 };
}

struct cg_matrix cg_scan_carry(const struct cg_scan *w, struct cg_mem carry, int64_t width, int64_t s)
{
	int64_t B = w->steps->B, row = w->every_carry ? s < 0 ? w->steps->N : off(w, s) : (s + 2) % 2 * B;

	return at(w, (struct cg_matrix){ carry, width, 1 }, row, 0);
}

/* ---- the arguments of a kernel ---- */

static struct cg_matrix prev_of(const struct cg_scan *w, const struct cg_argument *a, int64_t s)
{
	int is_h = a->index == w->rnn->output;

	if (a->order != CG_VALUE)
		return cg_scan_carry(w, is_h ? w->carry_h : w->carry_c, w->rnn->net.U, s - 1);
	if (s == ALL_STEPS)
		return (struct cg_matrix){ is_h ? w->prev_h : w->prev_c, w->rnn->net.U, !is_h };
	if (!s)
		return is_h ? w->h_first : w->c_first;
	return at(w, is_h ? w->h : kept(w, w->rnn->kept_c), off(w, s - 1), 0);
}

static struct cg_matrix state_of(const struct cg_scan *w, const struct cg_argument *a, int64_t s)
{
	int is_h = a->index == w->rnn->output;

	if (a->order == CG_VALUE)
		return at(w, kept(w, is_h ? w->rnn->kept_h : w->rnn->kept_c), s == ALL_STEPS ? 0 : off(w, s), 0);
	if (is_h && w->rnn->net.P)
		return at(w, (struct cg_matrix){ w->dm, w->rnn->net.U, 1 }, w->every_carry && s != ALL_STEPS ? off(w, s) : 0, 0);
	if (s == ALL_STEPS)
		return (struct cg_matrix){ is_h ? w->carry_h : w->carry_c, w->rnn->net.U, 1 };
	return cg_scan_carry(w, is_h ? w->carry_h : w->carry_c, w->rnn->net.U, s);
}

/* A value that forward keeps: of every step, or of the last one alone. */
static struct cg_matrix saved_of(const struct cg_scan *w, int k, int64_t s)
{
	int packed = !w->forgets || k == w->rnn->kept_h || k == w->rnn->kept_c;

	return at(w, kept(w, k), packed && s != ALL_STEPS ? off(w, s) : 0, 0);
}

static struct cg_matrix feed_of(const struct cg_scan *w, const struct cg_argument *a, int64_t s)
{
	int d = a->order != CG_VALUE, packed = d ? w->every_carry : w->d_gates.data != NULL;

	return at(w, (struct cg_matrix){ d ? w->d_feed[a->index] : w->feed[a->index], w->rnn->net.U, d },
	          packed && s != ALL_STEPS ? off(w, s) : 0, 0);
}

/* The gradient of a gate's bias goes to bW and to bR, where the gate has both; side 1 is the second of the two. */
static struct cg_matrix bias_of(const struct cg_scan *w, int gate, int side)
{
	const struct cg_rnn_gate *g = &w->rnn->gates[gate];

	if (side && !(g->takes_input && g->takes_h))
		return none;
	return part(w, w->params_backprop, side || !g->takes_input ? CG_RNN_BIAS_R : CG_RNN_BIAS_W, g->weight);
}

/* How many elements behind the first place for a sum the second is, where one launch fills both; 0: there is none. */
static int64_t second_of(const struct cg_scan *w, const struct cg_argument *a)
{
	struct cg_matrix first, second;

	if (a->role != CG_ROLE_BIAS || !w->stream->context->backend->seconds)
		return 0;
	first = bias_of(w, a->index, 0);
	second = bias_of(w, a->index, 1);
	return cg_present(second.mem) ? (int64_t)((second.mem.offset - first.mem.offset) / bytes_of(w, 0)) : 0;
}

static struct cg_matrix vector_of(const struct cg_scan *w, struct cg_mem params, int weight)
{
	int k = 0;

	while (w->rnn->vectors[k] != weight)
		k++;
	return part(w, params, CG_RNN_VECTOR, k);
}

static struct cg_matrix tensor_of(const struct cg_scan *w, const struct cg_argument *a, int64_t s, int side)
{
	int64_t row = s == ALL_STEPS ? 0 : off(w, s);

	switch (a->role) {
	case CG_ROLE_GATE:
		return at(w, a->order == CG_VALUE ? gates(w) : d_gates(w), row, w->rnn->gates[a->index].block * w->rnn->net.U);
	case CG_ROLE_PREV:    return prev_of(w, a, s);
	case CG_ROLE_STATE:   return state_of(w, a, s);
	case CG_ROLE_OUTPUT:  return w->rnn->net.P ? none : at(w, w->dy, row, 0);
	case CG_ROLE_SAVED:   return saved_of(w, a->index, s);
	case CG_ROLE_FEED:    return feed_of(w, a, s);
	case CG_ROLE_BIAS:    return bias_of(w, a->index, side);
	case CG_ROLE_WEIGHT:
		return a->order == CG_VALUE ? vector_of(w, w->params, a->index)
		                            : side ? none : vector_of(w, w->params_backprop, a->index);
	case CG_ROLE_SCRATCH: return (struct cg_matrix){ w->partial, 0, 1 };
	}
	return none;
}

static int launch(const struct cg_scan *w, const struct cg_ready *kernel, int piece, int64_t s, int side)
{
	const struct cg_piece *p = &kernel->plan->pieces[piece];
	struct cg_operand operands[CG_SLOTS_MAX];

	for (int k = 0; k < p->n_arguments; k++) {
		const struct cg_argument *a = &p->arguments[k];
		struct cg_matrix m = tensor_of(w, a, s, side);

		operands[k] = (struct cg_operand){ .mem = m.mem, .stride = m.stride, .second = second_of(w, a) };
		if (a->role == CG_ROLE_PARAM)
			operands[k].value = w->rnn->values[a->index];
		else if (a->role == CG_ROLE_ACCUMULATE)
			operands[k].value = w->accumulate;
	}
	return w->stream->context->backend->launch(w->stream->queue, kernel->built, piece,
	                                           s == ALL_STEPS ? w->steps->N : cg_steps_n(w->steps, s), w->rnn->net.U, operands);
}

/* ---- products and rows ---- */

static int multiply(const struct cg_scan *w, struct cg_gemm *g)
{
	g->dtype = w->rnn->net.dtype;
	return w->stream->context->backend->gemm(w->stream->queue, g);
}

static int move(const struct cg_scan *w, int64_t rows, int64_t columns, struct cg_matrix src, struct cg_matrix dst, int add)
{
	const struct cg_rows r = { .dtype = w->rnn->net.dtype, .rows = rows, .columns = columns, .src = src, .dst = dst, .add = add };

	return w->stream->context->backend->rows(w->stream->queue, &r);
}

/* The columns of the gates of a stage that a recurrent product adds to, and that product's weights. */
static int64_t stage_columns(const struct cg_scan *w, int stage)
{
	return (w->rnn->first[stage + 1] - w->rnn->first[stage]) * w->rnn->net.U;
}

static struct cg_matrix recurrent(const struct cg_scan *w, struct cg_mem params, int stage)
{
	return part(w, params, CG_RNN_RECURRENT, w->rnn->first[stage]);
}

/* The recurrent product of a stage over so many rows: forward what its gates add, backward what it hands back. */
static struct cg_gemm stage_product(const struct cg_rnn *rnn, int pass, int stage, int64_t rows)
{
	int64_t gates = (rnn->first[stage + 1] - rnn->first[stage]) * rnn->net.U, h = stage ? rnn->net.U : rnn->net.H;

	return (struct cg_gemm){ .dtype = rnn->net.dtype, .m = rows, .n = pass == CG_FORWARD ? gates : h, .k = pass == CG_FORWARD ? h : gates,
	                         .transpose_b = pass == CG_FORWARD };
}

/* Packing reads and writes the matrix once, which so many steps' products win back. */
enum { STEPS_TO_PACK = 8 };

size_t cg_scan_packed(const struct cg_rnn *rnn, int pass, int stage, int64_t B, int64_t N)
{
	const struct cg_context *context = rnn->context;
	struct cg_gemm g = stage_product(rnn, pass, stage, B);

	return context && context->backend->packed && N / STEPS_TO_PACK >= B ? context->backend->packed(context->device, &g) : 0;
}

static int pack(const struct cg_scan *w, int pass)
{
	for (int stage = 0; stage < w->rnn->net.cell->n_stages; stage++) {
		struct cg_gemm g = stage_product(w->rnn, pass, stage, w->steps->B);

		g.b = recurrent(w, w->params, stage);
		g.packed = w->packed[stage];
		if (cg_present(g.packed))
			CG_TRY(w->stream->context->backend->pack(w->stream->queue, &g));
	}
	return CG_OK;
}

/* What the recurrent product of a stage takes at a step: in the gradient, of all steps. */
static struct cg_matrix operand_of(const struct cg_scan *w, int stage, int64_t s)
{
	int grad = cg_present(w->d_gates), saved = stage ? w->rnn->feed_kept[grad][stage - 1] : -1;

	if (saved >= 0)
		return saved_of(w, saved, s);
	if (stage)
		return (struct cg_matrix){ w->feed[stage - 1], w->rnn->net.U, 0 };
	return s ? at(w, w->h, off(w, s - 1), 0) : w->h_first;
}

/* ---- forward ---- */

/* bW + bR of each gate, where both act on one sum. */
static int add_biases(const struct cg_scan *w)
{
	const struct cg_rnn *rnn = w->rnn;
	struct cg_matrix bias = { w->bias, 0, 1 };

	CG_TRY(move(w, 1, rnn->net.n_weights * rnn->net.U, part(w, w->params, CG_RNN_BIAS_R, 0), bias, 0));
	for (int k = 0; k < rnn->n_runs; k++) {
		const struct cg_rnn_run *run = &rnn->runs[k];

		CG_TRY(move(w, 1, run->n * rnn->net.U, part(w, w->params, CG_RNN_BIAS_W, run->weight),
		            at(w, bias, 0, run->block * rnn->net.U), run->block < rnn->net.n_weights));
	}
	return CG_OK;
}

/* The input parts of all steps: x W + b, or under skip_input x itself for each gate. */
static int input_products(const struct cg_scan *w)
{
	const struct cg_rnn *rnn = w->rnn;
	int64_t N = w->steps->N;
	struct cg_matrix bias = { w->bias, 0, 1 };
	int skip = rnn->net.skip && w->pseudo_layer < rnn->net.directions;

	for (int k = 0; k < CG_GATES_MAX && k < rnn->n_blocks; k++)
		if (skip || rnn->bare[k])
			CG_TRY(move(w, N, rnn->net.U, at(w, bias, 0, k * rnn->net.U), at(w, gates(w), 0, k * rnn->net.U), 0));
	for (int k = 0; k < rnn->n_runs; k++) {
		const struct cg_rnn_run *run = &rnn->runs[k];
		struct cg_gemm g = { .m = N, .n = run->n * rnn->net.U, .k = w->width, .transpose_b = 1, .a = w->x };

		for (int j = 0; skip && j < run->n; j++)
			CG_TRY(move(w, N, rnn->net.U, w->x, at(w, gates(w), 0, (run->block + j) * rnn->net.U), 1));
		if (skip)
			continue;
		g.b = part(w, w->params, CG_RNN_INPUT, run->weight);
		g.start = at(w, bias, 0, run->block * rnn->net.U);
		g.c = at(w, gates(w), 0, run->block * rnn->net.U);
		CG_TRY(multiply(w, &g));
	}
	return CG_OK;
}

static int step_forward(const struct cg_scan *w, int64_t s)
{
	const struct cg_rnn *rnn = w->rnn;
	int64_t n = cg_steps_n(w->steps, s);

	for (int stage = 0; stage < rnn->net.cell->n_stages; stage++) {
		struct cg_gemm g = stage_product(rnn, CG_FORWARD, stage, n);

		g.a = operand_of(w, stage, s);
		g.b = recurrent(w, w->params, stage);
		g.packed = w->packed[stage];
		g.c = g.start = at(w, gates(w), off(w, s), rnn->first[stage] * rnn->net.U);
		if (cg_present(g.a.mem))
			CG_TRY(multiply(w, &g));
		CG_TRY(launch(w, rnn->forward, stage, s, 0));
	}
	return rnn->net.P ? cg_scan_project(w, off(w, s), n) : CG_OK;
}

int cg_scan_project(const struct cg_scan *w, int64_t row, int64_t n)
{
	struct cg_gemm g = { .m = n, .n = w->rnn->net.P, .k = w->rnn->net.U, .transpose_b = 1 };

	g.a = at(w, kept(w, w->rnn->kept_h), row, 0);
	g.b = part(w, w->params, CG_RNN_PROJECTION, 0);
	g.c = at(w, w->h, row, 0);
	return multiply(w, &g);
}

int cg_scan_forward(const struct cg_scan *w)
{
	CG_TRY(pack(w, CG_FORWARD));
	CG_TRY(add_biases(w));
	CG_TRY(input_products(w));
	for (int64_t s = 0; s < w->steps->S; s++)
		CG_TRY(step_forward(w, s));
	return CG_OK;
}

/* ---- backward ---- */

/* The adjoint of the cell's output from that of its projection. */
static int unproject(const struct cg_scan *w, int64_t s)
{
	struct cg_gemm g = { .m = cg_steps_n(w->steps, s), .n = w->rnn->net.U, .k = w->rnn->net.P };

	g.a = at(w, w->dh, off(w, s), 0);
	g.b = part(w, w->params, CG_RNN_PROJECTION, 0);
	g.c = at(w, (struct cg_matrix){ w->dm, w->rnn->net.U, 1 }, w->every_carry ? off(w, s) : 0, 0);
	return multiply(w, &g);
}

/* What the recurrent product of a stage hands back: to the stage before it, or to the step before. */
static int back(const struct cg_scan *w, int stage, int64_t s)
{
	const struct cg_rnn *rnn = w->rnn;
	struct cg_gemm g = stage_product(rnn, CG_GRAD, stage, cg_steps_n(w->steps, s));

	if (!stage && !s && !w->wants_h)
		return CG_OK;
	g.a = at(w, d_gates(w), off(w, s), rnn->first[stage] * rnn->net.U);
	g.b = recurrent(w, w->params, stage);
	g.packed = w->packed[stage];
	if (stage)
		g.c = at(w, (struct cg_matrix){ w->d_feed[stage - 1], rnn->net.U, 1 }, w->every_carry ? off(w, s) : 0, 0);
	else if (rnn->net.P && s)
		g.c = g.start = at(w, w->dh, off(w, s - 1), 0);
	else
		g.c = rnn->net.P ? (struct cg_matrix){ w->carry_h, rnn->net.P, 1 } : cg_scan_carry(w, w->carry_h, rnn->net.H, s - 1);
	if (!stage && !rnn->net.P && rnn->uses_h_prev)
		g.start = g.c;
	return multiply(w, &g);
}

static int step_backward(const struct cg_scan *w, int64_t s)
{
	const struct cg_ready *kernel = w->rnn->grad;

	if (w->rnn->net.P)
		CG_TRY(unproject(w, s));
	for (int p = 0; p < kernel->plan->n_pieces; p++)
		if (kernel->plan->pieces[p].shape == CG_PIECE_POINT) {
			CG_TRY(launch(w, kernel, p, s, 0));
			CG_TRY(back(w, kernel->plan->pieces[p].stage - 1, s));
		}
	return CG_OK;
}

/* What the step before gave, for every row: of the first step what was given for it. */
static int gather_prev(const struct cg_scan *w, struct cg_matrix src, struct cg_matrix first, struct cg_matrix dst)
{
	int64_t n = w->steps->S ? cg_steps_n(w->steps, 0) : 0, more = w->steps->N - n, width = dst.stride;
	struct cg_rows r = { .dtype = w->rnn->net.dtype, .rows = more, .columns = width, .src = src, .dst = dst };

	if (!n)
		return CG_OK;
	if (w->steps->straight) {
		r.src = at(w, src, w->direction ? n : 0, 0);
		r.dst = at(w, dst, w->direction ? 0 : n, 0);
	} else {
		r.dst = at(w, dst, n, 0);
		r.from = from(w->steps->prev, (size_t)n * sizeof(int64_t));
	}
	CG_TRY(w->stream->context->backend->rows(w->stream->queue, &r));
	dst = at(w, dst, off(w, 0), 0);
	if (cg_present(first.mem))
		return move(w, n, width, first, dst, 0);
	return w->stream->context->backend->zero(w->stream->queue, dst.mem, (size_t)(n * width) * bytes_of(w, dst.acc));
}

/* c (+)= a' b over so many rows; first: the sum so far, in acc, or absent. */
static int weights(const struct cg_scan *w, int64_t rows, struct cg_matrix a, int64_t m, struct cg_matrix b, int64_t n,
                   struct cg_matrix start, struct cg_matrix c)
{
	struct cg_gemm g = { .m = m, .n = n, .k = rows, .transpose_a = 1, .a = a, .b = b, .start = start, .c = c };

	return multiply(w, &g);
}

/* dR of the first stage where h of the step before stands in h itself, a step away, and h_first apart. */
static int shifted_weights(const struct cg_scan *w, struct cg_matrix start, struct cg_matrix c)
{
	int64_t m = stage_columns(w, 0), B = w->steps->S ? w->steps->B : 0, more = w->steps->N - B, H = w->rnn->net.H;
	struct cg_matrix sum = { w->sum, H, 1 };

	if (B && cg_present(w->h_first.mem)) {
		/* Where acc is real the sum may wait in its place. */
		if (bytes_of(w, 0) == bytes_of(w, 1))
			sum = c;
		CG_TRY(weights(w, B, at(w, d_gates(w), off(w, 0), 0), m, w->h_first, H, start, sum));
		start = sum;
	}
	return weights(w, more, at(w, d_gates(w), w->direction ? 0 : B, 0), m, at(w, w->h, w->direction ? B : 0, 0), H, start, c);
}

static int recurrent_weights(const struct cg_scan *w)
{
	const struct cg_rnn *rnn = w->rnn;

	for (int stage = 0; stage < rnn->net.cell->n_stages; stage++) {
		struct cg_matrix c = recurrent(w, w->params_backprop, stage), start = w->accumulate ? c : none;
		struct cg_matrix d = at(w, d_gates(w), 0, rnn->first[stage] * rnn->net.U);

		if (stage)
			CG_TRY(weights(w, w->steps->N, d, stage_columns(w, stage), operand_of(w, stage, ALL_STEPS), rnn->net.U, start, c));
		else if (cg_present(w->prev_h))
			CG_TRY(weights(w, w->steps->N, d, stage_columns(w, 0), (struct cg_matrix){ w->prev_h, rnn->net.H, 0 }, rnn->net.H, start, c));
		else
			CG_TRY(shifted_weights(w, start, c));
	}
	return CG_OK;
}

static int input_weights(const struct cg_scan *w)
{
	const struct cg_rnn *rnn = w->rnn;

	for (int k = 0; k < rnn->n_runs && !(rnn->net.skip && w->pseudo_layer < rnn->net.directions); k++) {
		const struct cg_rnn_run *run = &rnn->runs[k];
		struct cg_matrix c = part(w, w->params_backprop, CG_RNN_INPUT, run->weight);

		CG_TRY(weights(w, w->steps->N, at(w, d_gates(w), 0, run->block * rnn->net.U), run->n * rnn->net.U, w->x, w->width,
		               w->accumulate ? c : none, c));
	}
	return CG_OK;
}

static int sums(const struct cg_scan *w)
{
	const struct cg_ready *kernel = w->rnn->grad;
	int sides = w->stream->context->backend->seconds ? 1 : 2;

	for (int p = 0; p < kernel->plan->n_pieces; p++) {
		int shape = kernel->plan->pieces[p].shape;

		if (shape == CG_PIECE_SUM_PART)
			CG_TRY(launch(w, kernel, p, ALL_STEPS, 0));
		for (int side = 0; shape == CG_PIECE_SUM && side < sides; side++)
			CG_TRY(launch(w, kernel, p, ALL_STEPS, side));
	}
	return CG_OK;
}

static int params_backprop(const struct cg_scan *w)
{
	const struct cg_rnn *rnn = w->rnn;

	CG_TRY(input_weights(w));
	CG_TRY(recurrent_weights(w));
	if (rnn->net.P) {
		struct cg_matrix c = part(w, w->params_backprop, CG_RNN_PROJECTION, 0);

		CG_TRY(weights(w, w->steps->N, w->dh, rnn->net.P, kept(w, rnn->kept_h), rnn->net.U, w->accumulate ? c : none, c));
	}
	return sums(w);
}

int cg_scan_backward(const struct cg_scan *w)
{
	const struct cg_rnn *rnn = w->rnn;

	CG_TRY(pack(w, CG_GRAD));
	for (int64_t s = w->steps->S - 1; s >= 0; s--)
		CG_TRY(step_backward(w, s));
	if (!cg_present(w->params_backprop))
		return CG_OK;
	if (cg_present(w->prev_h))
		CG_TRY(gather_prev(w, w->h, w->h_first, (struct cg_matrix){ w->prev_h, rnn->net.H, 0 }));
	if (cg_present(w->prev_c))
		CG_TRY(gather_prev(w, kept(w, rnn->kept_c), w->c_first, (struct cg_matrix){ w->prev_c, rnn->net.U, 1 }));
	return params_backprop(w);
}

int cg_scan_dx(const struct cg_scan *w, int add, struct cg_matrix sums, struct cg_matrix c)
{
	const struct cg_rnn *rnn = w->rnn;
	int skip = rnn->net.skip && w->pseudo_layer < rnn->net.directions;

	for (int k = 0; k < rnn->n_runs; k++) {
		const struct cg_rnn_run *run = &rnn->runs[k];
		struct cg_gemm g = { .m = w->steps->N, .n = w->width, .k = run->n * rnn->net.U };

		g.a = at(w, d_gates(w), 0, run->block * rnn->net.U);
		for (int j = 0; skip && j < run->n; j++, add = 1)
			CG_TRY(move(w, g.m, rnn->net.U, at(w, g.a, 0, j * rnn->net.U), sums, add));
		if (skip)
			continue;
		g.b = part(w, w->params, CG_RNN_INPUT, run->weight);
		g.start = add ? sums : none;
		g.c = k < rnn->n_runs - 1 ? sums : c;
		CG_TRY(multiply(w, &g));
		add = 1;
	}
	if (skip && (sums.mem.data != c.mem.data || sums.mem.offset != c.mem.offset))
		return move(w, w->steps->N, w->width, sums, c, 0);
	return CG_OK;
}
