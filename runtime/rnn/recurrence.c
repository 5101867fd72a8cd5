/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a recurrence, one direction of one layer or a block op, step by step or by the backend's scan.  Forward: the input products of a
 * span of steps at once, then, for each step and each stage of the cell, a recurrent product and a launch.  Backward: the steps of a span
 * in reverse order, then the span's part of the gradient of x and, unless recurrences run with a lag, of the gradients of the matrices.
 */
#include "runtime/rnn/recurrence.h"

/* ---- launches ---- */

static int launch(const struct cg_recurrence *w, int function, int64_t s, int side)
{
	const struct cg_at_step at = { w, s, side };

	return cg_launch(w->stream, w->kernel, function, s == CG_ALL_STEPS ? w->sequence->N : cg_packed_rows(w->sequence, s), w->U, cg_recurrence_bind, &at);
}

/* Launches, for all steps, the functions that compute the means that a function reads. */
static int launch_means(const struct cg_recurrence *w, int function)
{
	for (int p = function - w->kernel->plan->functions[function].mean_functions; p < function; p++)
		CG_TRY(launch(w, p, CG_ALL_STEPS, 0));
	return CG_OK;
}

struct cg_gemm cg_recurrence_describe_product(int dtype, int back, int by_input, int64_t gates, int64_t h, int64_t rows)
{
	return (struct cg_gemm){ .dtype = dtype, .m = rows, .n = back ? h : gates, .k = back ? gates : h,
	                         .transpose_b = back == by_input };
}

/* The recurrent product of a stage: forward it is added to the gate pre-activations, backward it is the gradient of the forward product's
 * operand. */
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
	if (!context || !context->backend->packed || N / CG_STEPS_TO_PACK < g->m || !g->n || !g->k)
		return 0;
	return context->backend->packed(context->device, g);
}

struct cg_gemm cg_recurrence_describe_projection(int dtype, int back, int64_t P, int64_t U, int64_t rows)
{
	return (struct cg_gemm){ .dtype = dtype, .m = rows, .n = back ? U : P, .k = back ? P : U, .transpose_b = !back };
}

static struct cg_gemm projection_product(const struct cg_recurrence *w, int64_t rows)
{
	struct cg_gemm g = cg_recurrence_describe_projection(w->kernel->dtype, is_grad(w), w->P, w->U, rows);

	g.b = w->projection.value;
	g.packed = w->packed[CG_RNN_PACKED_PROJECTION];
	return g;
}

/* Packs the matrices for products of single steps; the backend's scan packs them itself. */
static int pack_matrices(const struct cg_recurrence *w)
{
	const struct cg_stream *stream = w->stream;

	for (int matrix = 0; matrix < CG_RNN_PACKED_MAX; matrix++) {
		struct cg_gemm g;

		if (!cg_present(w->packed[matrix]))
			continue;
		if (matrix == CG_RNN_PACKED_PROJECTION)
			g = projection_product(w, w->sequence->B);
		else
			g = stage_product(w, matrix, w->sequence->B);
		CG_TRY(stream->context->backend->pack(stream->queue, &g));
	}
	return CG_OK;
}

/* The operand of the recurrent product of a stage at a step. */
static struct cg_matrix operand_of(const struct cg_recurrence *w, int stage, int64_t s)
{
	int saved = stage ? w->stage_input_saved[stage - 1] : -1;

	if (saved >= 0)
		return cg_recurrence_get_saved(w, saved, s);
	if (stage)
		return (struct cg_matrix){ w->stage_input[stage - 1], w->U, 0 };
	return s ? cg_recurrence_get_h(w, s - 1) : w->h_first;
}

/* ---- phases: the products and launches of a step ---- */

/* A phase of any step: the stage of its product, -1 for none, then the function that it launches, -1 for none. */
struct step_phase { int stage, function; };
enum { PHASES_MAX = CG_FUNCTIONS_MAX + CG_STAGES_MAX };

static void add_phase(struct step_phase *phases, int *n, int stage, int function)
{
	phases[(*n)++] = (struct step_phase){ stage, function };
}

/* Lists the phases of a step, and returns their number.  A phase is a product and the launch of the function that computes the elements of
 * a stage.  If that function reads means over units, the product, each function that computes means, and the function itself are phases of
 * their own.  Forward, the product is that of the same stage; backward, it is that of the stage before in the list, and in the first phase
 * it is the last product of the step that was computed before. */
static int list_phases(const struct cg_recurrence *w, struct step_phase phases[PHASES_MAX])
{
	const struct cg_pass_plan *plan = w->kernel->plan;
	int n = 0, before = -1;

	for (int p = 0; p < plan->n_functions; p++) {
		const struct cg_function *f = &plan->functions[p];
		int stage = is_grad(w) ? before : f->stage - 1;

		if (f->shape != CG_FUNCTION_POINT)
			continue;
		before = f->stage - 1;
		if (f->mean_functions) {
			add_phase(phases, &n, stage, -1);
			stage = -1;
		}
		for (int q = p - f->mean_functions; q < p; q++)
			add_phase(phases, &n, -1, q);
		add_phase(phases, &n, stage, p);
	}
	if (is_grad(w))
		phases[0].stage = before;
	return n;
}

static int count_phases(const struct cg_recurrence *w)
{
	struct step_phase phases[PHASES_MAX];

	return list_phases(w, phases);
}

/* Sets a phase of step s without a product, a sum and a launch. */
static void describe_nothing(const struct cg_recurrence *w, int64_t s, struct cg_phase *p)
{
	p->product.m = 0;
	p->sum = p->addend = none;
	p->function = -1;
	p->step = s;
	p->rows = cg_packed_rows(w->sequence, s);
}

/* Sets the launch of a phase, and binds its arguments. */
static void describe_launch(const struct cg_recurrence *w, int function, struct cg_phase *p)
{
	const struct cg_at_step at = { w, p->step, 0 };

	p->function = function;
	if (function >= 0)
		(void)cg_bind(&w->kernel->plan->functions[function], cg_recurrence_bind, &at, p->operands);
}

/* Describes the steps for the backend.  The products are set only if the backend's scan runs the steps. */
static void describe_steps(const struct cg_recurrence *w, void (*describe)(const void *, int64_t, struct cg_phase *, int *),
                           struct cg_scan *scan)
{
	scan->units = w->U;
	scan->n_products = n_stages(w);
	scan->module = w->kernel->built;
	scan->describe = describe;
	scan->recurrence = w;
	scan->work = w->scan;
	scan->is_packed = 0;
	for (int stage = 0; stage < n_stages(w) && cg_present(w->scan); stage++)
		scan->products[stage] = stage_product(w, stage, w->sequence->B);
}

static int64_t span_steps(const struct cg_recurrence *w)
{
	return w->span && w->span < w->sequence->S ? w->span : w->sequence->S;
}

/* Spans are counted from the first step on, also in the backward pass. */
static int64_t count_spans(const struct cg_recurrence *w)
{
	return w->sequence->S ? (w->sequence->S + span_steps(w) - 1) / span_steps(w) : 0;
}

static struct cg_span cut_span(const struct cg_recurrence *w, int64_t first, int64_t steps)
{
	const struct cg_packed *sequence = w->sequence;
	struct cg_span span = { .first = first };

	if (!steps)
		return span;
	span.end = sequence->S - span.first < steps ? sequence->S : span.first + steps;
	span.row = off(w, w->direction && sequence->is_dense ? span.end - 1 : span.first);
	span.rows = sequence->is_dense ? (span.end - span.first) * sequence->B
	                               : off(w, span.end - 1) + cg_packed_rows(sequence, span.end - 1) - span.row;
	return span;
}

static struct cg_span get_span(const struct cg_recurrence *w, int64_t k)
{
	return cut_span(w, k * span_steps(w), span_steps(w));
}

/* Runs one phase: a matrix product, a sum of two matrices and a launch.  between: a function to call between the product and the sum, or
 * NULL. */
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
	if (cg_present(p.addend.mem))
		CG_TRY(copy_rows(w, p.rows, w->U, p.addend, p.sum, 1));
	if (p.function < 0)
		return CG_OK;
	return w->stream->context->backend->launch(w->stream->queue, w->kernel->built, p.function, p.rows, w->U, p.operands);
}

/* ---- several recurrences at once ---- */

/* The recurrences that run a span in a round: first to end - 1.  Recurrence k runs its first span in round k * lag. */
struct at_work { int first, end; };

static struct at_work find_at_work(int64_t round, int64_t spans, int n, int lag)
{
	struct at_work at = { 0, n };

	while (lag && round - at.first * lag >= spans)
		at.first++;
	while ((at.end - 1) * lag > round)
		at.end--;
	return at;
}

/* The first function that computes elements: the only one of a cell without a recurrent product. */
static int find_point(const struct cg_recurrence *w)
{
	const struct cg_function *functions = w->kernel->plan->functions;
	int p = 0;

	while (functions[p].shape != CG_FUNCTION_POINT)
		p++;
	return p;
}

/* Runs the steps that `scans` describe: by one call of the backend's scan, which continues after the steps before; by a step loop; or step
 * by step. */
static int run_steps(struct cg_recurrence *const *w, struct cg_scan *scans, const struct at_work *at,
                     int (*composed)(const struct cg_recurrence *, const struct cg_scan *))
{
	const struct cg_stream *stream = w[0]->stream;

	if (!cg_present(w[0]->scan)) {
		const int point = find_point(w[0]);

		return cg_recurrence_loops(w[0], point) ? cg_recurrence_loop(w[0], point) : composed(w[0], &scans[0]);
	}
	CG_TRY(stream->context->backend->scan(stream->queue, scans + at->first, at->end - at->first));
	for (int k = at->first; k < at->end; k++)
		scans[k].is_packed = 1;
	return CG_OK;
}

/* ---- forward ---- */

/* The recurrent product of a stage at a step. */
static struct cg_gemm forward_product(const struct cg_recurrence *w, int stage, int64_t s)
{
	struct cg_gemm g = stage_product(w, stage, cg_packed_rows(w->sequence, s));

	g.a = operand_of(w, stage, s);
	g.c = g.start = gates_at(w, off(w, s), w->first[stage]);
	if (starts_from_bias(w, stage))
		g.start = at(w, w->bias, 0, w->first[stage] * w->U);
	if (!g.n)
		g.m = 0;
	if (cg_present(g.a.mem))
		return g;
	/* Without an initial hidden state the product is 0. */
	if (!starts_from_bias(w, stage))
		g.m = 0;
	g.k = 0;
	g.packed = none.mem;
	return g;
}

/* Describes a phase of the forward pass. */
static void describe_forward(const void *recurrence, int64_t phase, struct cg_phase *p, int *stage)
{
	const struct cg_recurrence *w = recurrence;
	struct step_phase phases[PHASES_MAX];
	const int n = list_phases(w, phases);
	const struct step_phase *kind = &phases[phase % n];

	describe_nothing(w, phase / n, p);
	*stage = kind->stage;
	if (kind->stage >= 0)
		p->product = forward_product(w, kind->stage, p->step);
	describe_launch(w, kind->function, p);
}

int cg_recurrence_project(const struct cg_recurrence *w, int64_t row, int64_t n)
{
	struct cg_gemm g = cg_recurrence_describe_projection(w->kernel->dtype, 0, w->P, w->U, n);

	g.a = at(w, saved_matrix(w, w->saved_h), row, 0);
	g.b = w->projection.value;
	if (!is_grad(w) && n <= w->sequence->B)
		g.packed = w->packed[CG_RNN_PACKED_PROJECTION];
	g.c = at(w, w->h, row, 0);
	return multiply(w, &g);
}

static int composed_forward(const struct cg_recurrence *w, const struct cg_scan *scan)
{
	const int n = count_phases(w);

	for (int64_t phase = scan->first; phase < scan->first + scan->phases; phase++) {
		int64_t s = phase / n;

		CG_TRY(run_phase(w, scan, phase, NULL));
		if (w->P && phase % n == n - 1)
			CG_TRY(cg_recurrence_project(w, off(w, s), cg_packed_rows(w->sequence, s)));
	}
	return CG_OK;
}

/* Computes the input products of a recurrence's k-th span, and sets *scan to its steps. */
static int begin_forward(struct cg_recurrence *w, int64_t k, struct cg_scan *scan)
{
	const struct cg_span span = get_span(w, k);
	const int n = count_phases(w);

	w->gates_row = w->gates_of_span ? span.row : 0;
	scan->first = span.first * n;
	scan->phases = (span.end - span.first) * n;
	return cg_span_multiply_inputs(w, &span);
}

int cg_recurrence_forward(struct cg_recurrence *const *w, int n, int lag)
{
	struct cg_scan scans[CG_SCANS_MAX];
	const int64_t spans = count_spans(w[0]), rounds = spans ? spans + lag * (n - 1) : 0;

	for (int k = 0; k < n; k++) {
		describe_steps(w[k], describe_forward, &scans[k]);
		CG_TRY(pack_matrices(w[k]));
	}
	for (int64_t round = 0; round < rounds; round++) {
		const struct at_work at = find_at_work(round, spans, n, lag);

		for (int k = at.first; k < at.end; k++)
			CG_TRY(begin_forward(w[k], round - k * lag, &scans[k]));
		CG_TRY(run_steps(w, scans, &at, composed_forward));
	}
	return CG_OK;
}

/* ---- backward ---- */

/* Computes the gradient of the cell's output from that of its projection. */
static int unproject(const struct cg_recurrence *w, int64_t s)
{
	struct cg_gemm g = projection_product(w, cg_packed_rows(w->sequence, s));

	g.a = at(w, w->dh, off(w, s), 0);
	g.c = at(w, (struct cg_matrix){ w->dm, w->U, 1 }, w->every_carry ? off(w, s) : 0, 0);
	return multiply(w, &g);
}

/* Sets the result c of the first stage's backward product, which is the gradient of the hidden state of the step before, and the matrix
 * `start` that the product is added to. */
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

/* The backward recurrent product of a stage: it gives the gradient of the stage's input, or, in the first stage, that of the hidden state
 * of the step before. */
static struct cg_gemm back_product(const struct cg_recurrence *w, int stage, int64_t s)
{
	struct cg_gemm g = stage_product(w, stage, cg_packed_rows(w->sequence, s));

	g.a = d_gates_at(w, off(w, s), w->first[stage]);
	if (stage)
		g.c = at(w, (struct cg_matrix){ w->d_stage_input[stage - 1], w->U, 1 }, w->every_carry ? off(w, s) : 0, 0);
	else
		to_step_before(w, s, &g);
	if (!cg_present(g.c.mem) || !g.k)
		g.m = 0;
	return g;
}

/* Describes the sum, before a step's first launch, of the upstream gradient of c and the carry from the step after.  Only
 * kernels of a single step, those of block ops, need this sum of two gradients. */
static void add_gradient(const struct cg_recurrence *w, int64_t s, struct cg_phase *p)
{
	if (is_of_sequence(w) || s == w->sequence->S - 1 || !cg_present(w->dc.mem))
		return;
	p->sum = cg_recurrence_get_carry(w, w->carry_c[0], w->U, s);
	p->addend = at(w, w->dc, off(w, s), 0);
}

/* Describes a phase of the backward pass.  The first phase of all has no product; the phase after the last launch has only a product. */
static void describe_backward(const void *recurrence, int64_t phase, struct cg_phase *p, int *stage)
{
	const struct cg_recurrence *w = recurrence;
	struct step_phase phases[PHASES_MAX];
	const int n = list_phases(w, phases), k = (int)(phase % n);
	const int64_t last = w->sequence->S - 1, s = last - phase / n;

	describe_nothing(w, s < 0 ? 0 : s, p);
	*stage = phases[k].stage;
	if (phase && *stage >= 0)
		p->product = back_product(w, *stage, k ? s : s + 1);
	if (s < 0)
		return;
	describe_launch(w, phases[k].function, p);
	if (!k)
		add_gradient(w, s, p);
}

/* Before the first launch of a step, computes the gradient of the cell's output from that of its projection. */
static int begin_step_backward(const struct cg_recurrence *w, int64_t phase)
{
	const int n = count_phases(w);
	int64_t s = w->sequence->S - 1 - phase / n;

	return s >= 0 && phase % n == 0 && w->P ? unproject(w, s) : CG_OK;
}

static int composed_backward(const struct cg_recurrence *w, const struct cg_scan *scan)
{
	for (int64_t phase = scan->first; phase < scan->first + scan->phases; phase++)
		CG_TRY(run_phase(w, scan, phase, begin_step_backward));
	return CG_OK;
}

/* Sets *scan to the steps of a span. */
static void begin_backward(const struct cg_recurrence *w, const struct cg_span *span, struct cg_scan *scan)
{
	const int n = count_phases(w);

	scan->first = (w->sequence->S - span->end) * n;
	scan->phases = (span->end - span->first) * n + !span->first;
}

static int launch_sums(const struct cg_recurrence *w)
{
	const struct cg_pass_plan *plan = w->kernel->plan;
	int sides = w->stream->context->backend->seconds || !cg_present(w->d_bias[1]) ? 1 : 2;

	for (int p = 0; p < plan->n_functions; p++) {
		int shape = plan->functions[p].shape;

		if (shape == CG_FUNCTION_SUM_PART)
			CG_TRY(launch_means(w, p));
		if (shape == CG_FUNCTION_SUM_PART || shape == CG_FUNCTION_SUM_UNITS)
			CG_TRY(launch(w, p, CG_ALL_STEPS, 0));
		for (int side = 0; shape == CG_FUNCTION_SUM && side < sides; side++)
			CG_TRY(launch(w, p, CG_ALL_STEPS, side));
	}
	return CG_OK;
}

/* Runs the products over the rows of a span.  If recurrences run with a lag, spans are short; then the gradients of matrices, which no
 * other recurrence waits for, are computed in one product over all steps, with the span that runs last. */
static int multiply_spans(const struct cg_recurrence *w, const struct cg_span *span, int lag)
{
	const struct cg_span all = cut_span(w, 0, w->sequence->S);

	if (!lag)
		CG_TRY(cg_span_multiply_weights(w, span));
	CG_TRY(cg_span_multiply_gradients(w, span));
	return lag && !span->first ? cg_span_multiply_weights(w, &all) : CG_OK;
}

int cg_recurrence_backward(struct cg_recurrence *const *w, int n, int lag, int (*begin_products)(void *user, int k), void *user)
{
	struct cg_scan scans[CG_SCANS_MAX];
	/* A sequence without steps has one empty span, which sets the gradients of matrices to zeros unless they accumulate. */
	const int64_t spans = w[0]->sequence->S ? count_spans(w[0]) : 1;

	for (int k = 0; k < n; k++) {
		describe_steps(w[k], describe_backward, &scans[k]);
		CG_TRY(pack_matrices(w[k]));
		CG_TRY(cg_span_gather_prev(w[k]));
	}
	for (int64_t round = 0; round < spans + lag * (n - 1); round++) {
		const struct at_work at = find_at_work(round, spans, n, lag);
		struct cg_span span[CG_SCANS_MAX];

		for (int k = at.first; k < at.end; k++) {
			span[k] = get_span(w[k], spans - 1 - (round - k * lag));
			begin_backward(w[k], &span[k], &scans[k]);
		}
		CG_TRY(run_steps(w, scans, &at, composed_backward));
		for (int k = at.first; k < at.end; k++) {
			if (begin_products && round == k * lag)
				CG_TRY(begin_products(user, k));
			CG_TRY(multiply_spans(w[k], &span[k], lag));
		}
	}
	for (int k = 0; k < n; k++)
		if (w[k]->needs_sums)
			CG_TRY(launch_sums(w[k]));
	return CG_OK;
}
