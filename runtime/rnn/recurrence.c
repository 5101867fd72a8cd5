/*
 * The recurrence: one direction of one layer, step by step.  Forward: the input products of all steps at once, then for each step a
 * recurrent product and a launch for each stage of the cell.  Backward: the steps in reverse order, then the gradients of the
 * weights.  The role of a kernel's argument decides its operand at a step, so that any cell can be run.
 */
#include "runtime/rnn/rnn.h"

/* In place of a step: all steps, which sums are over; and an operand that has no memory. */
enum { ALL_STEPS = -1 };
static const struct cg_matrix none = { .stride = 0 };

static int is_grad(const struct cg_recurrence *w)
{
	return w->kernel->pass == CG_GRAD || w->kernel->pass == CG_SEQ_GRAD;
}

/* Kernels of a sequence carry states from step to step in acc and take the gradient that reaches the output from the layer above
 * as an argument of its own; kernels of a single step have rounded states and one argument for the whole gradient of a state. */
static int is_of_sequence(const struct cg_recurrence *w)
{
	return w->kernel->pass == CG_SEQ_FORWARD || w->kernel->pass == CG_SEQ_GRAD;
}

static int n_stages(const struct cg_recurrence *w)
{
	return w->kernel->cell->n_stages;
}

/* The part of a matrix from a row and a column on. */
static struct cg_matrix at(const struct cg_recurrence *w, struct cg_matrix m, int64_t row, int64_t column)
{
	size_t bytes = (size_t)(row * m.stride + column) * w->bytes[m.acc];

	if (m.mem.data) {
		m.mem.offset += bytes;
		m.mem.bytes -= bytes;
	}
	return m;
}

static struct cg_matrix gates(const struct cg_recurrence *w)
{
	return (struct cg_matrix){ w->gates, w->n_blocks * w->U, 1 };
}

static struct cg_matrix d_gates(const struct cg_recurrence *w)
{
	return (struct cg_matrix){ w->d_gates, w->n_blocks * w->U, 0 };
}

static int64_t off(const struct cg_recurrence *w, int64_t s)
{
	return cg_packed_offset(w->sequence, w->direction, s);
}

/* The first row of a step in a saved value, which holds every step, or a number of steps in turn. */
static int64_t saved_row(const struct cg_recurrence *w, int k, int64_t s)
{
	if (s == ALL_STEPS)
		return 0;
	return w->in_turn[k] ? s % w->in_turn[k] * w->sequence->B : off(w, s);
}

static struct cg_matrix saved_matrix(const struct cg_recurrence *w, int k)
{
	return (struct cg_matrix){ w->saved[k], w->U, k == w->saved_c && is_of_sequence(w) };
}

/* The output after a step. */
static struct cg_matrix h_of(const struct cg_recurrence *w, int64_t s)
{
	return at(w, w->h, saved_row(w, w->saved_h, s), 0);
}

/* The part of a weight matrix from its k-th gate on. */
static struct cg_matrix of_gates(const struct cg_recurrence *w, struct cg_matrix m, int64_t k)
{
	return w->by_input ? at(w, m, 0, k * w->U) : at(w, m, k * w->U, 0);
}

struct cg_matrix cg_recurrence_get_carry(const struct cg_recurrence *w, struct cg_mem carry, int64_t width, int64_t s)
{
	int64_t B = w->sequence->B, row = w->every_carry ? s < 0 ? w->sequence->N : off(w, s) : (s + 2) % 2 * B;

	return at(w, (struct cg_matrix){ carry, width, is_of_sequence(w) }, row, 0);
}

/* ---- the arguments of a kernel ---- */

static struct cg_matrix prev_of(const struct cg_recurrence *w, const struct cg_argument *a, int64_t s)
{
	int is_h = a->index == w->output;

	if (a->derivative != CG_VALUE && s)
		return cg_recurrence_get_carry(w, is_h ? w->carry_h : w->carry_c, w->U, s - 1);
	if (a->derivative != CG_VALUE)
		return is_h ? w->d_h_first : w->d_c_first;
	/* In a sequence of one step the state before it is in c_first alone. */
	if (s == ALL_STEPS && (is_h || w->sequence->S != 1))
		return (struct cg_matrix){ is_h ? w->prev_h : w->prev_c, w->U, !is_h && is_of_sequence(w) };
	if (s == ALL_STEPS || !s)
		return is_h ? w->h_first : w->c_first;
	return is_h ? h_of(w, s - 1) : at(w, saved_matrix(w, w->saved_c), saved_row(w, w->saved_c, s - 1), 0);
}

static struct cg_matrix state_of(const struct cg_recurrence *w, const struct cg_argument *a, int64_t s)
{
	int is_h = a->index == w->output, k = is_h ? w->saved_h : w->saved_c;

	if (a->derivative == CG_VALUE)
		return at(w, saved_matrix(w, k), saved_row(w, k, s), 0);
	if (is_h && w->P)
		return at(w, (struct cg_matrix){ w->dm, w->U, 1 }, w->every_carry && s != ALL_STEPS ? off(w, s) : 0, 0);
	if (s == ALL_STEPS)
		return (struct cg_matrix){ is_h ? w->carry_h : w->carry_c, w->U, is_of_sequence(w) };
	if (!is_of_sequence(w) && s == w->sequence->S - 1)
		return at(w, is_h ? w->dy : w->dc, off(w, s), 0);
	return cg_recurrence_get_carry(w, is_h ? w->carry_h : w->carry_c, w->U, s);
}

static struct cg_matrix saved_of(const struct cg_recurrence *w, int k, int64_t s)
{
	return at(w, saved_matrix(w, k), saved_row(w, k, s), 0);
}

static struct cg_matrix feed_of(const struct cg_recurrence *w, const struct cg_argument *a, int64_t s)
{
	int d = a->derivative != CG_VALUE, packed = d ? w->every_carry : is_grad(w);

	return at(w, (struct cg_matrix){ d ? w->d_stage_input[a->index] : w->stage_input[a->index], w->U, d },
	          packed && s != ALL_STEPS ? off(w, s) : 0, 0);
}

/* The gradient of a gate's bias goes to bW and to bR, where the gate has both; side 1 is the second of the two. */
static struct cg_matrix bias_of(const struct cg_recurrence *w, int gate, int side)
{
	const struct cg_rnn_gate *g = &w->gate[gate];

	if (side && !(g->has_input && g->has_recurrent))
		return none;
	return at(w, (struct cg_matrix){ w->d_bias[side || !g->has_input], 0, 0 }, 0, g->weight * w->U);
}

/* How many elements behind the first place for a sum the second is, where one launch fills both; 0: there is none. */
static int64_t second_of(const struct cg_recurrence *w, const struct cg_argument *a)
{
	struct cg_matrix first, second;

	first = bias_of(w, a->index, 0);
	second = bias_of(w, a->index, 1);
	return cg_present(second.mem) ? (int64_t)((second.mem.offset - first.mem.offset) / w->bytes[0]) : 0;
}

static struct cg_matrix vector_of(const struct cg_recurrence *w, const struct cg_argument *a, int side)
{
	if (a->derivative == CG_VALUE)
		return (struct cg_matrix){ w->vector[a->index], 0, 0 };
	return side ? none : (struct cg_matrix){ w->d_vector[a->index], 0, 0 };
}

static struct cg_matrix tensor_of(const struct cg_recurrence *w, const struct cg_argument *a, int64_t s, int side)
{
	int64_t row = s == ALL_STEPS ? 0 : off(w, s);
	int is_value = a->derivative == CG_VALUE;

	switch (a->role) {
	case CG_ROLE_GATE:    return at(w, is_value ? gates(w) : d_gates(w), row, w->gate[a->index].block * w->U);
	case CG_ROLE_PREV:    return prev_of(w, a, s);
	case CG_ROLE_STATE:   return state_of(w, a, s);
	case CG_ROLE_OUTPUT:  return w->P ? none : at(w, w->dy, row, 0);
	case CG_ROLE_SAVED:   return saved_of(w, a->index, s);
	case CG_ROLE_FEED:    return feed_of(w, a, s);
	case CG_ROLE_BIAS:    return bias_of(w, a->index, side);
	case CG_ROLE_WEIGHT:  return vector_of(w, a, side);
	case CG_ROLE_SCRATCH: return (struct cg_matrix){ w->partial, 0, 1 };
	}
	return none;
}

/* A launch: of a step, or of all. */
struct at_step { const struct cg_recurrence *recurrence; int64_t s; int side; };

static int bind(const void *of, const struct cg_argument *a, struct cg_operand *operand)
{
	const struct at_step *at = of;
	const struct cg_recurrence *w = at->recurrence;
	struct cg_matrix m = tensor_of(w, a, at->s, at->side);

	*operand = (struct cg_operand){ .mem = m.mem, .stride = m.stride };
	if (a->role == CG_ROLE_PARAM)
		operand->value = w->values[a->index];
	else if (a->role == CG_ROLE_ACCUMULATE)
		operand->value = w->accumulate;
	else if (a->role == CG_ROLE_BIAS && w->stream->context->backend->seconds)
		operand->second = second_of(w, a);
	return CG_OK;
}

static int launch(const struct cg_recurrence *w, int function, int64_t s, int side)
{
	const struct at_step at = { w, s, side };

	return cg_launch(w->stream, w->kernel, function, s == ALL_STEPS ? w->sequence->N : cg_packed_rows(w->sequence, s), w->U, bind, &at);
}

/* ---- products and rows ---- */

static int multiply(const struct cg_recurrence *w, struct cg_gemm *g)
{
	g->dtype = w->kernel->dtype;
	return cg_multiply(w->stream, g);
}

static int move(const struct cg_recurrence *w, int64_t rows, int64_t columns, struct cg_matrix src, struct cg_matrix dst, int add)
{
	const struct cg_rows r = { .dtype = w->kernel->dtype, .rows = rows, .columns = columns, .src = src, .dst = dst,
	                           .add = add };

	return cg_copy_rows(w->stream, &r);
}

/* The columns of the gates of a stage that a recurrent product adds to. */
static int64_t stage_columns(const struct cg_recurrence *w, int stage)
{
	return (w->first[stage + 1] - w->first[stage]) * w->U;
}

/* The columns of its operand: the output, or a stage input. */
static int64_t stage_width(const struct cg_recurrence *w, int stage)
{
	return stage ? w->U : w->H;
}

struct cg_gemm cg_recurrence_describe_product(int dtype, int back, int by_input, int64_t gates, int64_t h, int64_t rows)
{
	return (struct cg_gemm){ .dtype = dtype, .m = rows, .n = back ? h : gates, .k = back ? gates : h,
	                         .transpose_b = back == by_input };
}

/* The recurrent product of a stage: forward it adds to the gate pre-activations, backward it gives the gradient of the product's
 * input. */
static struct cg_gemm stage_product(const struct cg_recurrence *w, int stage, int64_t rows)
{
	struct cg_gemm g = cg_recurrence_describe_product(w->kernel->dtype, is_grad(w), w->by_input, stage_columns(w, stage), stage_width(w, stage),
	                                                  rows);

	g.b = of_gates(w, w->recurrent.value, w->first[stage]);
	g.packed = w->packed[stage];
	g.in_order = w->in_order;
	return g;
}

size_t cg_recurrence_measure_packed(const struct cg_context *context, const struct cg_gemm *g, int64_t N)
{
	if (!context || !context->backend->packed || N / CG_STEPS_TO_PACK < g->m)
		return 0;
	return context->backend->packed(context->device, g);
}

/* For products of single steps; the backend's scan packs for itself. */
static int pack(const struct cg_recurrence *w)
{
	for (int stage = 0; stage < n_stages(w); stage++) {
		struct cg_gemm g = stage_product(w, stage, w->sequence->B);

		if (cg_present(g.packed))
			CG_TRY(w->stream->context->backend->pack(w->stream->queue, &g));
	}
	return CG_OK;
}

/* The operand of the recurrent product of a stage at a step; in the gradient, of all steps. */
static struct cg_matrix operand_of(const struct cg_recurrence *w, int stage, int64_t s)
{
	int saved = stage ? w->stage_input_saved[stage - 1] : -1;

	if (saved >= 0)
		return saved_of(w, saved, s);
	if (stage)
		return (struct cg_matrix){ w->stage_input[stage - 1], w->U, 0 };
	return s ? h_of(w, s - 1) : w->h_first;
}

/* ---- phases: a step's products and launches ---- */

/* All steps as the backend takes them. */
static struct cg_scan all_steps(const struct cg_recurrence *w, int64_t phases,
                                void (*describe)(const void *, int64_t, struct cg_phase *, int *))
{
	struct cg_scan scan = { .units = w->U, .phases = phases, .n_products = n_stages(w), .module = w->kernel->built,
	                        .describe = describe, .recurrence = w };

	for (int stage = 0; stage < n_stages(w); stage++)
		scan.products[stage] = stage_product(w, stage, w->sequence->B);
	return scan;
}

/* Runs one phase; between: what stands between its product and its launch, NULL for nothing. */
static int run_phase(const struct cg_recurrence *w, const struct cg_scan *scan, int64_t phase,
                     int (*between)(const struct cg_recurrence *, int64_t phase))
{
	struct cg_phase p;
	int stage;

	scan->describe(w, phase, &p, &stage);
	if (p.product.m)
		CG_TRY(multiply(w, &p.product));
	if (between)
		CG_TRY(between(w, phase));
	if (p.function < 0)
		return CG_OK;
	return w->stream->context->backend->launch(w->stream->queue, w->kernel->built, p.function, p.rows, w->U, p.operands);
}

/* ---- forward ---- */

/* The input parts of all steps: x W + b, or under skip_input x itself for each gate. */
static int input_products(const struct cg_recurrence *w)
{
	int64_t N = w->sequence->N;

	for (int k = 0; k < w->kernel->cell->n_gates; k++) {
		int64_t column = w->gate[k].block * w->U;

		if (w->skip || !w->gate[k].has_input)
			CG_TRY(move(w, N, w->U, at(w, w->bias, 0, column), at(w, gates(w), 0, column), 0));
	}
	for (int k = 0; k < w->n_ranges; k++) {
		const struct cg_gate_range *range = &w->ranges[k];
		struct cg_gemm g = { .m = N, .n = range->n * w->U, .k = w->width, .transpose_b = !w->by_input, .a = w->x };

		for (int j = 0; w->skip && j < range->n; j++)
			CG_TRY(move(w, N, w->U, w->x, at(w, gates(w), 0, (range->block + j) * w->U), 1));
		if (w->skip)
			continue;
		g.b = of_gates(w, w->input.value, range->weight);
		g.start = at(w, w->bias, 0, range->block * w->U);
		g.c = at(w, gates(w), 0, range->block * w->U);
		CG_TRY(multiply(w, &g));
	}
	return CG_OK;
}

/* A launch of a step, bound. */
static void describe_launch(const struct cg_recurrence *w, int function, int64_t s, struct cg_phase *p)
{
	const struct at_step at = { w, s, 0 };

	p->function = function;
	p->rows = cg_packed_rows(w->sequence, s);
	(void)cg_bind(&w->kernel->plan->functions[function], bind, &at, p->operands);
}

/* A phase of the forward pass: the recurrent product of a stage at a step, then the stage. */
static void describe_forward(const void *recurrence, int64_t phase, struct cg_phase *p, int *stage)
{
	const struct cg_recurrence *w = recurrence;
	int64_t s = phase / n_stages(w);

	*stage = (int)(phase % n_stages(w));
	p->product = stage_product(w, *stage, cg_packed_rows(w->sequence, s));
	p->product.a = operand_of(w, *stage, s);
	p->product.c = p->product.start = at(w, gates(w), off(w, s), w->first[*stage] * w->U);
	if (!cg_present(p->product.a.mem))
		p->product.m = 0;
	describe_launch(w, *stage, s, p);
}

int cg_recurrence_project(const struct cg_recurrence *w, int64_t row, int64_t n)
{
	struct cg_gemm g = { .m = n, .n = w->P, .k = w->U, .transpose_b = 1 };

	g.a = at(w, saved_matrix(w, w->saved_h), row, 0);
	g.b = w->projection.value;
	g.c = at(w, w->h, row, 0);
	return multiply(w, &g);
}

int cg_recurrence_forward(const struct cg_recurrence *w)
{
	const struct cg_scan scan = all_steps(w, w->sequence->S * n_stages(w), describe_forward);

	CG_TRY(pack(w));
	CG_TRY(input_products(w));
	if (cg_present(w->scan))
		return w->stream->context->backend->scan(w->stream->queue, &scan, w->scan);
	for (int64_t phase = 0; phase < scan.phases; phase++) {
		int64_t s = phase / n_stages(w);

		CG_TRY(run_phase(w, &scan, phase, NULL));
		if (w->P && phase % n_stages(w) == n_stages(w) - 1)
			CG_TRY(cg_recurrence_project(w, off(w, s), cg_packed_rows(w->sequence, s)));
	}
	return CG_OK;
}

/* ---- backward ---- */

/* The adjoint of the cell's output from that of its projection. */
static int unproject(const struct cg_recurrence *w, int64_t s)
{
	struct cg_gemm g = { .m = cg_packed_rows(w->sequence, s), .n = w->U, .k = w->P };

	g.a = at(w, w->dh, off(w, s), 0);
	g.b = w->projection.value;
	g.c = at(w, (struct cg_matrix){ w->dm, w->U, 1 }, w->every_carry ? off(w, s) : 0, 0);
	return multiply(w, &g);
}

/* The destination of the first stage's backward product, and the matrix that it is added to. */
static void to_step_before(const struct cg_recurrence *w, int64_t s, struct cg_gemm *g)
{
	if (!s)
		g->c = w->d_h_first;
	else
		g->c = w->P ? at(w, w->dh, off(w, s - 1), 0) : cg_recurrence_get_carry(w, w->carry_h, w->H, s - 1);
	if (w->P ? s > 0 : w->uses_h_prev)
		g->start = g->c;
	else if (s && !is_of_sequence(w) && cg_present(w->dy.mem))
		g->start = at(w, w->dy, off(w, s - 1), 0);
}

/* The backward recurrent product of a stage: the gradient of the stage input of the stage before it, or of h of the step before. */
static struct cg_gemm back(const struct cg_recurrence *w, int stage, int64_t s)
{
	struct cg_gemm g = stage_product(w, stage, cg_packed_rows(w->sequence, s));

	g.a = at(w, d_gates(w), off(w, s), w->first[stage] * w->U);
	if (stage)
		g.c = at(w, (struct cg_matrix){ w->d_stage_input[stage - 1], w->U, 1 }, w->every_carry ? off(w, s) : 0, 0);
	else
		to_step_before(w, s, &g);
	if (!cg_present(g.c.mem))
		g.m = 0;
	return g;
}

/* The functions over elements, in the order of a step. */
static int n_points(const struct cg_recurrence *w, int *functions)
{
	const struct cg_pass_plan *plan = w->kernel->plan;
	int n = 0;

	for (int p = 0; p < plan->n_functions; p++)
		if (plan->functions[p].shape == CG_FUNCTION_POINT)
			functions[n++] = p;
	return n;
}

/* A phase of the backward pass: the backward product of the launch before it, then a launch; in the last one the product alone. */
static void describe_backward(const void *recurrence, int64_t phase, struct cg_phase *p, int *stage)
{
	const struct cg_recurrence *w = recurrence;
	int functions[CG_FUNCTIONS_MAX], n = n_points(w, functions);
	int64_t last = w->sequence->S - 1;

	p->product.m = 0;
	p->function = -1;
	if (phase) {
		*stage = w->kernel->plan->functions[functions[(phase - 1) % n]].stage - 1;
		p->product = back(w, *stage, last - (phase - 1) / n);
	}
	if (phase < (last + 1) * n)
		describe_launch(w, functions[phase % n], last - phase / n, p);
}

/* Before the first launch of a step: the adjoint of the output from that of its projection, and the gradient of c from outside. */
static int begin_step_backward(const struct cg_recurrence *w, int64_t phase)
{
	int functions[CG_FUNCTIONS_MAX], n = n_points(w, functions);
	int64_t s = w->sequence->S - 1 - phase / n;

	if (s < 0 || phase % n)
		return CG_OK;
	if (w->P)
		CG_TRY(unproject(w, s));
	if (is_of_sequence(w) || s == w->sequence->S - 1 || !cg_present(w->dc.mem))
		return CG_OK;
	return move(w, cg_packed_rows(w->sequence, s), w->U, at(w, w->dc, off(w, s), 0), cg_recurrence_get_carry(w, w->carry_c, w->U, s), 1);
}

static int steps_backward(const struct cg_recurrence *w)
{
	int functions[CG_FUNCTIONS_MAX];
	const struct cg_scan scan = all_steps(w, w->sequence->S * n_points(w, functions) + 1, describe_backward);

	if (cg_present(w->scan))
		return w->stream->context->backend->scan(w->stream->queue, &scan, w->scan);
	for (int64_t phase = 0; phase < scan.phases; phase++)
		CG_TRY(run_phase(w, &scan, phase, begin_step_backward));
	return CG_OK;
}

/* h of the step before, for every row; of the first step h_first. */
static int gather_prev(const struct cg_recurrence *w, struct cg_matrix src, struct cg_matrix first, struct cg_matrix dst)
{
	int64_t n = w->sequence->S ? cg_packed_rows(w->sequence, 0) : 0, more = w->sequence->N - n, width = dst.stride;
	struct cg_rows r = { .dtype = w->kernel->dtype, .rows = more, .columns = width, .src = src, .dst = dst };

	if (!n)
		return CG_OK;
	if (w->sequence->is_dense) {
		r.src = at(w, src, w->direction ? n : 0, 0);
		r.dst = at(w, dst, w->direction ? 0 : n, 0);
	} else {
		r.dst = at(w, dst, n, 0);
		r.from = cg_part(w->sequence->prev, (size_t)n * sizeof(int64_t), (size_t)more * sizeof(int64_t));
	}
	CG_TRY(cg_copy_rows(w->stream, &r));
	dst = at(w, dst, off(w, 0), 0);
	if (cg_present(first.mem))
		return move(w, n, width, first, dst, 0);
	return w->stream->context->backend->zero(w->stream->queue, dst.mem, (size_t)(n * width) * w->bytes[dst.acc]);
}

/* c, the gradient of the weights between `in` and d, a gradient of what they give, is start and the sum over so many rows; start
 * may be absent. */
static int weights(const struct cg_recurrence *w, int by_input, int64_t rows, struct cg_matrix d, int64_t m, struct cg_matrix in,
                   int64_t n, struct cg_matrix start, struct cg_matrix c)
{
	struct cg_gemm g = { .m = by_input ? n : m, .n = by_input ? m : n, .k = rows, .transpose_a = 1, .start = start, .c = c };

	/* A matrix without rows may be absent. */
	if (rows) {
		g.a = by_input ? in : d;
		g.b = by_input ? d : in;
	}
	return multiply(w, &g);
}

/* dR of the first stage where h of the step before stands in h itself, a step away, and h_first apart. */
static int shifted_weights(const struct cg_recurrence *w, struct cg_matrix start, struct cg_matrix c)
{
	int64_t m = stage_columns(w, 0), B = w->sequence->S ? w->sequence->B : 0, more = w->sequence->N - B;
	struct cg_matrix sum = { w->sum, c.stride, 1 };

	if (B && cg_present(w->h_first.mem)) {
		/* Where acc is real, or nothing is added later, the sum needs no memory of its own. */
		if (!more || w->bytes[0] == w->bytes[1])
			sum = c;
		CG_TRY(weights(w, w->by_input, B, at(w, d_gates(w), off(w, 0), 0), m, w->h_first, w->H, start, sum));
		start = sum;
	}
	if (!more && start.mem.data)
		return CG_OK;
	return weights(w, w->by_input, more, at(w, d_gates(w), w->direction ? 0 : B, 0), m, at(w, w->h, w->direction ? B : 0, 0),
	               w->H, start, c);
}

static int recurrent_weights(const struct cg_recurrence *w)
{
	for (int stage = 0; stage < n_stages(w); stage++) {
		struct cg_matrix c = of_gates(w, w->recurrent.grad, w->first[stage]), start = w->accumulate ? c : none;
		struct cg_matrix in = stage ? operand_of(w, stage, ALL_STEPS) : (struct cg_matrix){ w->prev_h, w->H, 0 };
		struct cg_matrix d = at(w, d_gates(w), 0, w->first[stage] * w->U);

		if (stage || cg_present(w->prev_h))
			CG_TRY(weights(w, w->by_input, w->sequence->N, d, stage_columns(w, stage), in, stage_width(w, stage), start, c));
		else
			CG_TRY(shifted_weights(w, start, c));
	}
	return CG_OK;
}

static int input_weights(const struct cg_recurrence *w)
{
	for (int k = 0; k < w->n_ranges && !w->skip; k++) {
		const struct cg_gate_range *range = &w->ranges[k];
		struct cg_matrix c = of_gates(w, w->input.grad, range->weight);

		CG_TRY(weights(w, w->by_input, w->sequence->N, at(w, d_gates(w), 0, range->block * w->U), range->n * w->U, w->x, w->width,
		               w->accumulate ? c : none, c));
	}
	return CG_OK;
}

static int sums(const struct cg_recurrence *w)
{
	const struct cg_pass_plan *plan = w->kernel->plan;
	int sides = w->stream->context->backend->seconds || !cg_present(w->d_bias[1]) ? 1 : 2;

	for (int p = 0; p < plan->n_functions; p++) {
		int shape = plan->functions[p].shape;

		if (shape == CG_FUNCTION_SUM_PART)
			CG_TRY(launch(w, p, ALL_STEPS, 0));
		for (int side = 0; shape == CG_FUNCTION_SUM && side < sides; side++)
			CG_TRY(launch(w, p, ALL_STEPS, side));
	}
	return CG_OK;
}

/* The gradients of weights that are present. */
static int params_backprop(const struct cg_recurrence *w)
{
	struct cg_matrix c = w->projection.grad;

	if (cg_present(w->input.grad.mem))
		CG_TRY(input_weights(w));
	if (cg_present(w->recurrent.grad.mem))
		CG_TRY(recurrent_weights(w));
	if (cg_present(c.mem))
		CG_TRY(weights(w, 0, w->sequence->N, w->dh, w->P, saved_matrix(w, w->saved_h), w->U, w->accumulate ? c : none, c));
	return w->needs_sums ? sums(w) : CG_OK;
}

int cg_recurrence_backward(const struct cg_recurrence *w)
{
	CG_TRY(pack(w));
	CG_TRY(steps_backward(w));
	if (cg_present(w->prev_h) && cg_present(w->recurrent.grad.mem))
		CG_TRY(gather_prev(w, w->h, w->h_first, (struct cg_matrix){ w->prev_h, w->H, 0 }));
	if (cg_present(w->prev_c) && w->needs_sums && w->sequence->S > 1)
		CG_TRY(gather_prev(w, saved_matrix(w, w->saved_c), w->c_first, (struct cg_matrix){ w->prev_c, w->U, is_of_sequence(w) }));
	return params_backprop(w);
}

int cg_recurrence_compute_dx(const struct cg_recurrence *w, int add, struct cg_matrix sums, struct cg_matrix c)
{
	for (int k = 0; k < w->n_ranges; k++) {
		const struct cg_gate_range *range = &w->ranges[k];
		struct cg_gemm g = { .m = w->sequence->N, .n = w->width, .k = range->n * w->U, .transpose_b = w->by_input };

		g.a = at(w, d_gates(w), 0, range->block * w->U);
		for (int j = 0; w->skip && j < range->n; j++, add = 1)
			CG_TRY(move(w, g.m, w->U, at(w, g.a, 0, j * w->U), sums, add));
		if (w->skip)
			continue;
		g.b = of_gates(w, w->input.value, range->weight);
		g.start = add ? sums : none;
		g.c = k < w->n_ranges - 1 ? sums : c;
		CG_TRY(multiply(w, &g));
		add = 1;
	}
	if (w->skip && (sums.mem.data != c.mem.data || sums.mem.offset != c.mem.offset))
		return move(w, w->sequence->N, w->width, sums, c, 0);
	return CG_OK;
}
