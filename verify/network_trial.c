/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials of networks: the cases, their fields, and one run. One table lists the arguments of a call, and where each argument is in the
 * reference's struct and in the library's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/core.h"
#include "verify/answer.h"
#include "verify/network_trial.h"
#include "verify/numbers.h"
#include "verify/promise.h"
#include "verify/sequence.h"

enum { SIZE_MOST = 4096, COST_MOST = 20000000 };

/* Lengths of the batch's rows. NONE: no array, all rows have T steps; DRAWN: random lengths; WHOLE: an array in which all are T; ZERO:
 * all lengths are 0. */
enum network_lengths { LENGTHS_NONE, LENGTHS_DRAWN, LENGTHS_WHOLE, LENGTHS_ZERO, LENGTHS };

/* Layout of input, output and their gradients in memory. DENSE: without gaps; APART: with a gap after each row of a step; TURNED: the
 * input is batch-major in a time-major network and time-major in a batch-major one, and the output has a gap after all rows of a step
 * (batch-major: after all steps of a row); PACKED: a packed sequence. */
enum network_layout { LAYOUT_DENSE, LAYOUT_APART, LAYOUT_TURNED, LAYOUT_PACKED, LAYOUTS };

static const char *const modes[] = { "lstm", "gru", "rnn_tanh", "rnn_relu" };
static const char *const inputs[] = { "linear_input", "skip_input", "auto_select" };
static const char *const directions[] = { "unidirectional", "bidirectional" };
static const char *const lengths_words[] = { "none", "drawn", "whole", "zero" };
static const char *const layout_words[] = { "dense", "apart", "turned", "packed" };

/* ---- arguments ---- */

enum when { IN, FORWARD_OUT, BACKWARD_IN, BACKWARD_OUT };

/* An argument of a call. shape: 'x' is the input's, 'h' and 'c' those of the states, 'p' that of params, 'y' the output's. */
static const struct argument {
	const char *name;
	enum when when;
	char   shape;
	int    optional;
	size_t ref, call, old;
} arguments[] = {
#define REF(field) offsetof(struct ref_rnn, field)
#define CALL(field) offsetof(struct cg_rnn_call, field)
#define ROW(name, when, shape, optional) { #name, when, shape, optional, REF(name), CALL(name), 0 }
	ROW(input, IN, 'x', 0), ROW(input_h, IN, 'h', 1), ROW(input_c, IN, 'c', 1), ROW(params, IN, 'p', 0),
	ROW(output, FORWARD_OUT, 'y', 1), ROW(output_h, FORWARD_OUT, 'h', 1), ROW(output_c, FORWARD_OUT, 'c', 1),
	ROW(output_backprop, BACKWARD_IN, 'y', 1), ROW(output_h_backprop, BACKWARD_IN, 'h', 1),
	ROW(output_c_backprop, BACKWARD_IN, 'c', 1), ROW(input_backprop, BACKWARD_OUT, 'x', 1),
	ROW(input_h_backprop, BACKWARD_OUT, 'h', 1), ROW(input_c_backprop, BACKWARD_OUT, 'c', 1),
	{ "params_backprop", BACKWARD_OUT, 'p', 1, REF(params_backprop), CALL(params_backprop), REF(params_backprop_old) },
#undef ROW
#undef CALL
#undef REF
};
enum { ARGUMENTS = sizeof arguments / sizeof *arguments, LENGTHS_MAX = SIZE_MOST };

static int is_of(const struct argument *a, int grad)
{
	return grad || a->when < BACKWARD_IN;
}

int network_optionals(int grad)
{
	int n = 0;

	for (int k = 0; k < ARGUMENTS; k++)
		n += is_of(&arguments[k], grad) && arguments[k].optional;
	return n;
}

/* ---- cases ---- */

int network_has_reference(const struct cg_op *op)
{
	return !strcmp(op->name, "rnn") || !strcmp(op->name, "rnn_backprop");
}

static double cost(const struct network_trial *t)
{
	return (double)(t->T + 1) * (double)(t->B + 1) * (double)t->layers * (double)(t->U * (t->I + 2 * t->U));
}

int network_too_large(const struct network_trial *t)
{
	return cost(t) > COST_MOST;
}

void network_small(const struct cg_op *op, int dtype, struct network_trial *t)
{
	*t = (struct network_trial){ .grad = !strcmp(op->name, "rnn_backprop"), .T = 3, .B = 2, .I = 3, .U = 4, .layers = 1,
	                             .dtype = dtype, .time_major = 1, .training = 1, .scale = 1, .seed = 1 };
}

/* Changes the fields of a trial to those of a legal network: only lstm has peepholes and a projection, which is no wider than the units;
 * a skipped input is as wide as the units. A network of two directions has first_step 0 and is not reversed; a trial of gradients
 * has training set. */
static void make_legal(struct network_trial *t)
{
	if (t->mode != REF_LSTM)
		t->proj = t->peephole = 0;
	if (t->proj > t->U)
		t->proj = t->U;
	if (t->input == REF_SKIP)
		t->I = t->U;
	if (t->direction)
		t->first_step = t->reverse = 0;
	if (t->grad)
		t->training = 1;
}

int network_case(const struct cg_op *op, int dtype, int n, struct network_trial *t)
{
	static const struct { int64_t T, B, I, U, layers; } sizes[] = {
		{ 1, 1, 1, 1, 1 }, { 4, 3, 5, 7, 2 }, { 0, 2, 3, 4, 1 }, { 3, 0, 3, 4, 2 }, { 7, 2, 16, 16, 1 }, { 2, 17, 9, 33, 1 },
		{ 9, 5, 3, 17, 3 }, { 5, 66, 2, 3, 2 }, { 12, 4, 8, 5, 1 },
	};
	static const double scales[] = { 1, 1e-3, 6 }, rates[] = { 0, 0.5, 1, 0.3 };
	enum { SIZES = sizeof sizes / sizeof *sizes, VARIANTS = 8 };
	int s = n / VARIANTS, v = n % VARIANTS, odd = s % 2;

	if (s >= SIZES)
		return 0;
	network_small(op, dtype, t);
	t->T = sizes[s].T;
	t->B = sizes[s].B;
	t->I = sizes[s].I;
	t->U = sizes[s].U;
	t->layers = sizes[s].layers;
	t->mode = v % 4;
	t->direction = (v / 4 + s) % 2;
	t->lengths = (v + s) % LENGTHS;
	t->layout = (2 * v + s) % 5 % LAYOUTS;
	t->time_major = (v + 2 * s) % 3 > 0;
	t->states_major = (v + s) % 2;
	t->reverse = (v + s) % 3 == 1;
	t->input = (v / 2 + s) % 3;
	t->proj = v == 4 ? (t->U + 1) / 2 : 0;
	t->peephole = v == 0 && odd;
	t->training = (v + s) % 5 > 0;
	t->dropout = rates[(v / 2 + s) % 4];
	t->first_step = s % 3 * 5;
	t->no_dropout = (v + s) % 7 == 0;
	t->accumulate = (v + s) % 3 == 0;
	t->scale = scales[(v / 3 + s) % 3];
	t->memory = (v + s) % AREA_MEMORIES;
	make_legal(t);
	return 1;
}

void network_random(const struct cg_op *op, int dtype, unsigned long long seed, struct network_trial *t)
{
	unsigned long long state = seed ^ 0x9e3779b97f4a7c15u, *at = &state;
	static const double scales[] = { 1, 1, 1e-3, 6 }, rates[] = { 0, 0, 0.3, 0.5, 1 };

	network_small(op, dtype, t);
	t->seed = seed;
	do {
		t->T = numbers_below(at, 12);
		t->B = numbers_below(at, 20) ? numbers_below(at, 9) : 60 + numbers_below(at, 20);
		t->I = 1 + numbers_below(at, numbers_below(at, 4) ? 8 : 40);
		t->U = 1 + numbers_below(at, numbers_below(at, 4) ? 8 : 40);
		t->layers = 1 + numbers_below(at, 3);
	} while (cost(t) > 300000);
	t->mode = (int)numbers_below(at, 4);
	t->direction = (int)numbers_below(at, 2);
	t->input = (int)numbers_below(at, 3);
	t->time_major = numbers_below(at, 3) > 0;
	t->training = numbers_below(at, 4) > 0;
	t->peephole = (int)numbers_below(at, 2);
	t->proj = numbers_below(at, 2) ? 1 + numbers_below(at, (unsigned)t->U) : 0;
	t->accumulate = (int)numbers_below(at, 2);
	t->lengths = numbers_below(at, 3) ? LENGTHS_DRAWN : (int)numbers_below(at, LENGTHS);
	t->dropout = rates[numbers_below(at, sizeof rates / sizeof *rates)];
	t->first_step = numbers_below(at, 2) ? numbers_below(at, 100) : 0;
	t->scale = scales[numbers_below(at, sizeof scales / sizeof *scales)];
	t->memory = (int)numbers_below(at, AREA_MEMORIES);
	t->absent = numbers_subset(at, network_optionals(t->grad));
	t->strict_rounding = !numbers_below(at, 4);
	t->no_dropout = !numbers_below(at, 6);
	t->states_major = (int)numbers_below(at, 2);
	t->reverse = !numbers_below(at, 3);
	t->layout = numbers_below(at, 2) ? LAYOUT_DENSE : (int)numbers_below(at, LAYOUTS);
	make_legal(t);
}

static void size_field(struct fields *f, const char *name, int64_t *at, double least, double most)
{
	struct field *row = field_add(f, name, FIELD_SIZE, at);

	row->least = least;
	row->most = most;
}

static void word_field(struct fields *f, const char *name, int *at, const char *const *words, int n)
{
	struct field *row = field_add(f, name, FIELD_WORD, at);

	row->words = words;
	row->n_words = n;
}

void network_fields(struct network_trial *t, struct fields *f)
{
	struct field *row;
	int n = 0;

	f->of = t->grad ? "rnn_backprop" : "rnn";
	f->n = 0;
	size_field(f, "T", &t->T, 0, SIZE_MOST);
	size_field(f, "B", &t->B, 0, SIZE_MOST);
	size_field(f, "I", &t->I, 1, SIZE_MOST);
	size_field(f, "U", &t->U, 1, SIZE_MOST);
	size_field(f, "layers", &t->layers, 1, 8);
	size_field(f, "num_proj", &t->proj, 0, SIZE_MOST);
	size_field(f, "first_step", &t->first_step, 0, 1e9);
	field_add(f, "no_dropout", FIELD_BOOL, &t->no_dropout);
	field_add(f, "dtype", FIELD_DTYPE, &t->dtype);
	word_field(f, "rnn_mode", &t->mode, modes, 4);
	word_field(f, "direction", &t->direction, directions, 2);
	word_field(f, "input_mode", &t->input, inputs, 3);
	word_field(f, "lengths", &t->lengths, lengths_words, LENGTHS);
	word_field(f, "layout", &t->layout, layout_words, LAYOUTS);
	field_add(f, "time_major", FIELD_BOOL, &t->time_major);
	field_add(f, "states_major", FIELD_BOOL, &t->states_major);
	field_add(f, "reverse", FIELD_BOOL, &t->reverse);
	field_add(f, "is_training", FIELD_BOOL, &t->training);
	field_add(f, "peephole", FIELD_BOOL, &t->peephole);
	field_add(f, "strict_rounding", FIELD_BOOL, &t->strict_rounding);
	row = field_add(f, "dropout", FIELD_REAL, &t->dropout);
	row->most = 1;
	if (t->grad)
		field_add(f, "accumulate", FIELD_BOOL, &t->accumulate);
	word_field(f, "memory", &t->memory, area_memories, AREA_MEMORIES);
	row = field_add(f, "scale", FIELD_REAL, &t->scale);
	row->least = 1e-6;
	row->most = 1e6;
	row->plain = 1;
	for (int k = 0; k < ARGUMENTS; k++)
		if (is_of(&arguments[k], t->grad) && arguments[k].optional)
			f->names[n++] = arguments[k].name;
	row = field_add(f, "absent", FIELD_SET, &t->absent);
	row->words = f->names;
	row->n_words = n;
	row->simple = (1ull << n) - 1;
	field_add(f, "seed", FIELD_SEED, &t->seed);
}

/* ---- one run ---- */

struct trial_state {
	struct network_trial trial;
	struct ref_rnn ref;
	int32_t lengths[LENGTHS_MAX], batch_sizes[LENGTHS_MAX];
	int asked;                       /* 1: the reference has been computed, with by_vendor as it is in `ref` */
	struct answer args[ARGUMENTS];
	struct area reserve, work;
	struct cg_rnn *rnn;
	struct cg_rnn_call call;
	struct finding *finding;
};

static void *member(void *of, size_t at)
{
	return (char *)of + at;
}

static int compare_falling(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x < y) - (x > y);
}

static void set_reference(struct trial_state *r, unsigned long long *state)
{
	const struct network_trial *t = &r->trial;

	r->ref = (struct ref_rnn){
		.T = t->T, .B = t->B, .I = t->I, .U = t->U, .L = t->layers, .P = t->proj, .mode = t->mode, .dtype = t->dtype,
		.bidirectional = t->direction, .input_mode = t->input, .time_major = t->time_major, .states_major = t->states_major, .reverse = t->reverse, .is_training = t->training,
		.peephole = t->peephole, .accumulate = t->accumulate, .dropout = t->no_dropout ? 0 : t->dropout, .key = ref_dropout_key(20, (int64_t)t->seed),
		.call = t->seed, .first_step = t->first_step,
	};
	for (int64_t b = 0; b < t->B; b++)
		r->lengths[b] = t->lengths == LENGTHS_DRAWN ? (int32_t)numbers_below(state, (unsigned)t->T + 1)
		                                            : t->lengths == LENGTHS_ZERO ? 0 : (int32_t)t->T;
	r->ref.lengths = t->lengths == LENGTHS_NONE ? NULL : r->lengths;
	if (t->layout == LAYOUT_PACKED)
		qsort(r->lengths, (size_t)t->B, sizeof *r->lengths, compare_falling);
	for (int64_t b = 0; b < t->B; b++)
		for (int64_t s = 0; s < r->lengths[b]; s++)
			r->batch_sizes[s]++;
}

static size_t elements(const struct trial_state *r, char shape)
{
	const struct network_trial *t = &r->trial;
	int64_t D = 1 + t->direction, H = t->proj ? t->proj : t->U, states = t->layers * D * t->B;

	switch (shape) {
	case 'x': return (size_t)(t->T * t->B * t->I);
	case 'h': return (size_t)(states * H);
	case 'c': return t->mode == REF_LSTM ? (size_t)(states * t->U) : 0;
	case 'p': return (size_t)ref_rnn_size(&r->ref);
	}
	return (size_t)(t->T * t->B * D * H);
}

/* ---- where rows lie ---- */

struct spacing { int64_t t, b; };

/* The distances, in elements, from step to step and from row to row, for rows of `width` elements. */
static struct spacing space_rows(const struct network_trial *t, char shape, int64_t width)
{
	const int is_turned = t->layout == LAYOUT_TURNED && shape == 'x';
	const int by_steps = is_turned ? !t->time_major : t->time_major;
	const int64_t near = width + (t->layout == LAYOUT_APART ? (shape == 'x' ? 3 : 1) : 0);
	const int64_t far = near * (by_steps ? t->B : t->T) + (t->layout == LAYOUT_TURNED && shape == 'y' ? 2 : 0);

	return by_steps ? (struct spacing){ far, near } : (struct spacing){ near, far };
}

/* Where the row of batch index b and step t begins in memory, in elements; ANSWER_NOWHERE: a packed sequence does not contain that row. */
static size_t place_row(const struct trial_state *r, struct spacing rows, int64_t width, int64_t t, int64_t b)
{
	int64_t before = 0;

	if (r->trial.layout != LAYOUT_PACKED)
		return (size_t)(t * rows.t + b * rows.b);
	if (t >= r->lengths[b])
		return ANSWER_NOWHERE;
	for (int64_t s = 0; s < t; s++)
		before += r->batch_sizes[s];
	return (size_t)((before + b) * width);
}

/* Spreads a sequence over memory as the trial's layout says. */
static int spread(struct trial_state *r, struct answer *a, char shape, size_t shift)
{
	const struct network_trial *t = &r->trial;
	const int64_t width = (int64_t)a->n / (t->T * t->B);
	const struct spacing rows = space_rows(t, shape, width);
	size_t *at = cg_memory(NULL, a->n * sizeof *at), span = 0;

	if (!at)
		return CG_NO_MEMORY;
	for (int64_t k = 0; k < t->T * t->B; k++) {
		size_t place = place_row(r, rows, width, t->time_major ? k / t->B : k % t->T, t->time_major ? k % t->B : k / t->T);

		for (int64_t i = 0; i < width; i++)
			at[k * width + i] = place == ANSWER_NOWHERE ? place : place + (size_t)i;
		if (place != ANSWER_NOWHERE && place + (size_t)width > span)
			span = place + (size_t)width;
	}
	return answer_spread(a, span, shift, at);
}

/* The magnitude of random numbers: params are scaled down, since sums over many terms of order 1 would saturate every gate. */
static double scale_of(const struct trial_state *r, char shape)
{
	const struct network_trial *t = &r->trial;

	return shape == 'p' ? t->scale / sqrt((double)(t->I + t->U)) : t->scale;
}

/* Draws the random numbers of all arguments, and sets the pointers of the reference's struct to these numbers and to the answers. */
static int draw(struct trial_state *r)
{
	const struct network_trial *t = &r->trial;
	unsigned long long state = t->seed;
	int bit = 0;

	set_reference(r, &state);
	for (int k = 0; k < ARGUMENTS; k++) {
		const struct argument *g = &arguments[k];
		struct answer *a = &r->args[k];
		struct ref_in in;

		const size_t shift = numbers_below(&state, 3);

		CG_TRY(answer_open(a, g->name, t->dtype, is_of(g, t->grad) ? elements(r, g->shape) : 0, shift));
		if (t->layout && a->n && (g->shape == 'x' || g->shape == 'y'))
			CG_TRY(spread(r, a, g->shape, shift));
		a->is_out = g->when == FORWARD_OUT || g->when == BACKWARD_OUT;
		a->given = a->n && !(is_of(g, t->grad) && g->optional && t->absent >> bit & 1);
		bit += is_of(g, t->grad) && g->optional;
		answer_draw(a, &state, scale_of(r, g->shape));
		in = (struct ref_in){ .d = a->given || !g->optional || a->is_out ? a->d : NULL };
		if (a->is_out) {
			struct ref_out out = { a->v, a->e };

			memcpy(member(&r->ref, g->ref), &out, sizeof out);
		} else {
			memcpy(member(&r->ref, g->ref), &in, sizeof in);
		}
		if (g->old)
			memcpy(member(&r->ref, g->old), &in, sizeof in);
		if (!a->is_out || (g->old && t->accumulate))
			answer_encode(a);
	}
	return CG_OK;
}

/* Computes the reference's answers, again if the route's bounds differ: those for cuDNN are wider than those of other routes. */
static int ask(struct trial_state *r)
{
	int by_vendor = is_by_vendor(cg_rnn_route(r->rnn));

	if (r->asked && r->ref.by_vendor == by_vendor)
		return CG_OK;
	r->ref.by_vendor = by_vendor;
	if (ref_rnn_forward(&r->ref) || (r->trial.grad && ref_rnn_backward(&r->ref)))
		return cg_fail(CG_NO_MEMORY, "no memory to compute the reference answer");
	r->asked = 1;
	return CG_OK;
}

static int open_plan(struct trial_state *r, const struct side *side)
{
	const struct network_trial *t = &r->trial;
	struct cg_rnn_config c;

	cg_rnn_config_init(&c, sizeof c);
	c.cell = cg_cell_find(modes[t->mode]);
	c.options = t->peephole ? "peephole" : NULL;
	c.dtype = t->dtype;
	c.layers = (int)t->layers;
	c.bidirectional = t->direction;
	c.input_mode = t->input;
	c.time_major = t->time_major;
	c.states_major = t->states_major;
	c.reverse = t->reverse;
	c.training = t->training;
	c.input = t->I;
	c.units = t->U;
	c.proj = t->proj;
	c.dropout = t->dropout;
	c.seed = r->ref.key;
	c.strict_rounding = t->strict_rounding;
	c.route = side->route;
	return cg_rnn_open(side->context, &c, &r->rnn);
}

/* Sets all fields of a call except those of type cg_mem. */
static void begin_call(struct trial_state *r)
{
	const struct network_trial *t = &r->trial;
	const int64_t H = t->proj ? t->proj : t->U;
	const struct spacing x = space_rows(t, 'x', t->I), y = space_rows(t, 'y', H * (1 + t->direction));

	cg_rnn_call_init(&r->call, sizeof r->call);
	r->call.T = t->T;
	r->call.B = t->B;
	if (t->layout == LAYOUT_PACKED) {
		r->call.batch_sizes = r->batch_sizes;
	} else {
		r->call.lengths = r->ref.lengths;
	}
	if (t->layout == LAYOUT_APART || t->layout == LAYOUT_TURNED) {
		r->call.input_t_stride = x.t;
		r->call.input_b_stride = x.b;
		r->call.output_t_stride = y.t;
		r->call.output_b_stride = y.b;
	}
	r->call.counter = r->ref.call;
	r->call.first_step = t->first_step;
	r->call.no_dropout = t->no_dropout;
	r->call.accumulate = t->accumulate;
}

static int lend(struct trial_state *r, const struct side *side, int again)
{
	const struct network_trial *t = &r->trial;

	begin_call(r);
	for (int k = 0; k < ARGUMENTS; k++) {
		struct cg_mem *mem = member(&r->call, arguments[k].call);

		CG_TRY(area_lend(&r->args[k].area, side, r->args[k].given ? t->memory : AREA_HOST, (unsigned)k, mem));
		if (!r->args[k].given)
			*mem = (struct cg_mem){ .bytes = 0 };
	}
	CG_TRY(area_lend(&r->reserve, side, t->memory, 0, &r->call.reserve));
	/* The second call on a side gets its workspace from the caller, the first one takes the stream's. */
	return again ? area_lend(&r->work, side, t->memory, 0, &r->call.work) : CG_OK;
}

static int read_back(struct trial_state *r, const struct side *side)
{
	int code = area_back(&r->work, side), back = area_back(&r->reserve, side);

	code = code ? code : back;
	for (int k = 0; k < ARGUMENTS; k++) {
		back = area_back(&r->args[k].area, side);
		code = code ? code : back;
	}
	return code;
}

static int call(struct trial_state *r, const struct side *side)
{
	CG_TRY(cg_rnn_forward(side->stream, r->rnn, &r->call));
	if (r->trial.grad)
		CG_TRY(cg_rnn_backward(side->stream, r->rnn, &r->call));
	/* A call with arguments in host memory alone returns only when it is done. */
	return r->trial.memory == AREA_HOST ? CG_OK : cg_stream_sync(side->stream);
}

static int once(struct trial_state *r, const struct side *side, int which, int again)
{
	int code = lend(r, side, again), back;

	if (!code && call(r, side))
		finding_format(r->finding, FINDING_CALL, "%s: %s", side->name, cg_message());
	back = read_back(r, side);
	code = code ? code : back;
	if (code || r->finding->kind)
		return code;
	if (area_touched(&r->work, 0) || area_touched(&r->reserve, 0))
		return finding_format(r->finding, FINDING_TOUCHED, "the call on %s wrote beside its workspace or its reserve space", side->name);
	/* A second call whose bits need not repeat those of the first is judged by its error bounds, as the first was. */
	again = again && promises_bits(cg_rnn_route(r->rnn)) && lies_alike(side->context, r->trial.memory);
	for (int k = 0; k < ARGUMENTS && !r->finding->kind; k++)
		CG_TRY(answer_judge(&r->args[k], side, which, again, r->finding));
	return CG_OK;
}

static int compute(struct trial_state *r, const struct side *side, int which)
{
	struct cg_rnn_sizes sizes;

	CG_TRY(open_plan(r, side));
	CG_TRY(ask(r));
	begin_call(r);
	CG_TRY(r->trial.layout ? cg_rnn_call_sizes(r->rnn, &r->call, &sizes)
	                     : cg_rnn_sizes(r->rnn, r->trial.T, r->trial.B, r->ref.lengths, &sizes));
	CG_TRY(area_open(&r->reserve, sizes.reserve, 0));
	CG_TRY(area_open(&r->work, sizes.work, 0));
	for (int again = 0; again < 2 && !r->finding->kind; again++)
		CG_TRY(once(r, side, which, again));
	return CG_OK;
}

int network_trial_run(const struct network_trial *t, const struct side *sides, int n, struct finding *finding)
{
	struct trial_state *r = cg_memory(NULL, sizeof *r);
	int code;

	memset(finding, 0, sizeof *finding);
	if (!r)
		return CG_NO_MEMORY;
	memset(r, 0, sizeof *r);
	r->trial = *t;
	r->finding = finding;
	make_legal(&r->trial);
	code = draw(r);
	for (int k = 0; k < n && !code && !finding->kind; k++) {
		code = compute(r, &sides[k], k);
		cg_rnn_close(r->rnn);
		area_close(&r->reserve);
		area_close(&r->work);
		r->rnn = NULL;
	}
	for (int k = 0; k < ARGUMENTS; k++)
		answer_close(&r->args[k]);
	cg_memory(r, 0);
	return code;
}
