/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials of kernels. A kernel's arguments come from its plan. Inputs are mostly numbers of ordinary size, sometimes any bits. In f64, where
 * devices may or may not flush subnormal numbers, finite inputs are 0 or from 1e-30 to 1e30 in magnitude, so that subnormal numbers seldom
 * arise. Pairs of different f64 answers that are both below 2^-1000 are counted apart. Where a kernel gives a NaN, another device must
 * give a NaN, whose bits may differ.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/core/core.h"
#include "verify/cases.h"
#include "verify/kernel_trial.h"
#include "verify/numbers.h"

enum { ROWS_MOST = 1 << 20, ELEMENTS_MOST = 1 << 22 };

/* ---- which kernels there are ---- */

static int has(const struct kernel_kind *k, const char *name)
{
	for (int j = 0; j < k->n; j++)
		if (!strcmp(k->arguments[j]->name, name))
			return 1;
	return 0;
}

/* Gathers the arguments that a caller of a kernel gives, all but the sizes and scratch. The first call, with memory = 1, gathers the
 * arguments in memory; the second call, with memory = 0, gathers those that are numbers. */
static void gather(struct kernel_kind *k, int memory)
{
	for (int p = 0; p < k->plan->n_functions; p++) {
		const struct cg_function *function = &k->plan->functions[p];

		for (int j = 0; j < function->n_arguments && (function->serves == CG_FUNCTION_POINT) == (k->shape == CG_POINT); j++) {
			const struct cg_argument *a = &function->arguments[j];

			if (a->role != CG_ROLE_ROWS && a->role != CG_ROLE_UNITS && !cg_is_shared(a) && cg_is_array(a) == memory
			    && !has(k, a->name) && k->n < KERNEL_ARGUMENTS)
				k->arguments[k->n++] = a;
		}
	}
	if (memory)
		k->n_memory = k->n;
}

static int add(const struct kernel_kind *like, struct kernel_kind *kinds, int *n)
{
	struct cg_mistake mistake;
	struct kernel_kind *k = &kinds[*n];

	if (*n == KERNEL_KINDS)
		return cg_fail(CG_UNSUPPORTED, "cell %s has more than %d kernels", like->cell->name, KERNEL_KINDS);
	*k = *like;
	k->plan = cg_plan(k->cell, (int)k->options, k->pass, k->cell->n_stages > 1 ? (int)k->stage : 0, k->dtype, cg_memory, &mistake);
	if (!k->plan)
		return cg_fail(mistake.text[0] ? CG_BUILD : CG_NO_MEMORY, "%s: %s", k->cell->name, mistake.text);
	gather(k, 1);
	gather(k, 0);
	if (k->n)
		++*n;
	else
		cg_plan_free(k->plan);
	return CG_OK;
}

int kernel_kinds(const struct cg_cell *cell, int dtype, struct kernel_kind kinds[KERNEL_KINDS], int *n)
{
	struct kernel_kind like = { .cell = cell, .dtype = dtype };

	*n = 0;
	for (like.options = 0; like.options < 1ull << cell->n_options; like.options++)
		for (like.pass = CG_FORWARD; like.pass < CG_PASS_COUNT; like.pass++)
			for (like.stage = 1; like.stage <= cell->n_stages; like.stage++)
				for (like.shape = CG_POINT; like.shape <= CG_SUM; like.shape++)
					CG_TRY(add(&like, kinds, n));
	return CG_OK;
}

void kernel_kinds_close(struct kernel_kind *kinds, int n)
{
	for (int k = 0; k < n; k++)
		cg_plan_free(kinds[k].plan);
}

int kernel_again(const struct cg_cell *cell, struct cg_cell **again)
{
	const char *at = strstr(cell->text, "\ncell ");
	size_t before = at ? (size_t)(at - cell->text) + 6 : 5;
	struct cg_text text = { cg_memory, NULL, 0, 0, 0 };
	int code;

	cg_text_put_n(&text, cell->text, before);
	cg_text_put(&text, "again");
	cg_text_put(&text, cell->text + before + strlen(cell->name));
	code = text.failed ? CG_NO_MEMORY : cg_cell_parse(text.at, cell->name, again);
	cg_memory(text.at, 0);
	return code;
}

/* ---- cases ---- */

int kernel_areas(void)
{
	return sizeof areas / sizeof *areas;
}

void kernel_small(const struct kernel_kind *kind, struct kernel_trial *t)
{
	*t = (struct kernel_trial){ .kind = kind, .is = *kind, .rows = 2, .units = 3, .seed = 1 };
}

void kernel_case(const struct kernel_kind *kind, int n, unsigned long long seed, struct kernel_trial *t)
{
	unsigned long long state = seed ^ 0x9e3779b97f4a7c15u, *at = &state;

	kernel_small(kind, t);
	t->seed = seed;
	if (n < kernel_areas()) {
		t->rows = areas[n].rows;
		t->units = areas[n].units;
	} else {
		t->rows = numbers_below(at, numbers_below(at, 8) ? 20 : 300);
		t->units = 1 + numbers_below(at, numbers_below(at, 8) ? 40 : 400);
	}
	t->gap = numbers_below(at, 4);
	t->memory = (int)numbers_below(at, AREA_MEMORIES);
	t->accumulate = kind->shape == CG_SUM && numbers_below(at, 2);
	t->absent = numbers_subset(at, kind->n_memory);
	t->nan = !numbers_below(at, 4);
}

/* Marks a field that names the kernel, so that shrinking leaves it alone. */
static void fix(struct field *row, const char *const *words, int n)
{
	row->words = words;
	row->n_words = n;
	row->is_fixed = 1;
}

void kernel_fields(struct kernel_trial *t, struct fields *f)
{
	static const char *const shapes[] = { "point", "sum" };
	const struct cg_cell *cell = t->is.cell;
	const struct { const char *name; int64_t *at; int64_t least, most; int is_fixed; } sizes[] = {
		{ "stage", &t->is.stage, 1, cell->n_stages, 1 }, { "rows", &t->rows, 0, ROWS_MOST, 0 },
		{ "units", &t->units, 1, ROWS_MOST, 0 }, { "gap", &t->gap, 0, 64, 0 }
	};
	const char **names = f->names;
	struct field *row;

	f->of = cell->name;
	f->n = 0;
	fix(field_add(f, "pass", FIELD_WORD, &t->is.pass), cg_pass_names, CG_PASS_COUNT);
	fix(field_add(f, "shape", FIELD_WORD, &t->is.shape), shapes, 2);
	for (int k = 0; k < cell->n_options; k++)
		*names++ = cell->options[k].name;
	fix(field_add(f, "options", FIELD_SET, &t->is.options), f->names, cell->n_options);
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		row = field_add(f, sizes[k].name, FIELD_SIZE, sizes[k].at);
		row->least = (double)sizes[k].least;
		row->most = (double)sizes[k].most;
		row->is_fixed = sizes[k].is_fixed;
	}
	field_add(f, "dtype", FIELD_DTYPE, &t->is.dtype);
	if (t->kind->shape == CG_SUM)
		field_add(f, "accumulate", FIELD_BOOL, &t->accumulate);
	field_add(f, "nan", FIELD_BOOL, &t->nan);
	row = field_add(f, "memory", FIELD_WORD, &t->memory);
	row->words = area_memories;
	row->n_words = AREA_MEMORIES;
	row = field_add(f, "absent", FIELD_SET, &t->absent);
	row->words = names;
	row->n_words = t->kind->n_memory;
	row->simple = (1ull << t->kind->n_memory) - 1;
	for (int k = 0; k < t->kind->n_memory; k++)
		*names++ = t->kind->arguments[k]->name;
	field_add(f, "seed", FIELD_SEED, &t->seed);
}

int kernel_matches(const struct kernel_trial *t)
{
	const struct kernel_kind *a = &t->is, *b = t->kind;

	return a->pass == b->pass && a->options == b->options && a->stage == b->stage && a->shape == b->shape && a->dtype == b->dtype;
}

int kernel_too_large(const struct kernel_trial *t)
{
	return (double)(t->rows + 1) * (double)(t->units + t->gap) > ELEMENTS_MOST;
}

/* ---- one run ---- */

struct trial_state {
	const struct kernel_trial *trial;
	struct cg_kernel kernel;
	char options[256];
	struct cg_arg args[KERNEL_ARGUMENTS];
	struct area areas[KERNEL_ARGUMENTS];
	unsigned char *first[KERNEL_ARGUMENTS];
	struct finding *finding;
};

static int dtype_of(const struct kernel_trial *t, const struct cg_argument *a)
{
	return a->type == CG_TYPE_ACC ? numbers_acc(t->kind->dtype) : t->kind->dtype;
}

static int64_t rows_of(const struct kernel_trial *t, const struct cg_argument *a)
{
	return a->kind == CG_KIND_TENSOR ? t->rows : 1;
}

static void draw(unsigned long long *state, int dtype, int nan, unsigned char *to)
{
	double d;

	if (nan && !numbers_below(state, 4)) {
		numbers_nan(state, dtype, to);
		return;
	}
	do {
		numbers_bits(state, dtype, to);
		d = fabs(numbers_decode(dtype, to));
	} while (dtype == CG_F64 && d > 0 && isfinite(d) && (d < 1e-30 || d > 1e30));
}

static int fill(struct trial_state *r, int k, unsigned long long *state)
{
	static const double scalars[] = { 1, 3, 0.5, -1, 0, 0.3 };
	const struct kernel_trial *t = r->trial;
	const struct cg_argument *a = t->kind->arguments[k];
	int dtype = dtype_of(t, a);
	size_t each = cg_dtype_bytes(dtype), n = 0;

	r->args[k] = (struct cg_arg){ .name = a->name };
	if (!cg_is_array(a)) {
		r->args[k].value = a->kind == CG_KIND_COUNT ? t->accumulate : scalars[numbers_below(state, 6)];
		return CG_OK;
	}
	r->args[k].stride = t->units + t->gap;
	if (rows_of(t, a))
		n = a->kind == CG_KIND_ELEMENT ? 1 : (size_t)((rows_of(t, a) - 1) * r->args[k].stride + t->units);
	CG_TRY(area_open(&r->areas[k], n * each, numbers_below(state, 3) * each));
	r->first[k] = cg_memory(NULL, n * each + 1);
	if (!r->first[k])
		return CG_NO_MEMORY;
	for (size_t j = 0; j < n && (!a->out || t->accumulate); j++)
		draw(state, dtype, t->nan, area_in(&r->areas[k]) + j * each);
	return CG_OK;
}

/* Are both answers below 2^-1000 in f64? If both answers are that small, one device may have flushed its answer to 0. */
static int flushed(int dtype, const void *a, const void *b)
{
	return dtype == CG_F64 && fabs(numbers_decode(dtype, a)) < 0x1p-1000 && fabs(numbers_decode(dtype, b)) < 0x1p-1000;
}

/* Compares an output with the one that the first run wrote. The run must not have written between the output's rows. */
static int compare(struct trial_state *r, const struct side *side, int k, int kind)
{
	const struct kernel_trial *t = r->trial;
	const struct cg_argument *a = t->kind->arguments[k];
	int dtype = dtype_of(t, a);
	size_t each = cg_dtype_bytes(dtype), stride = (size_t)r->args[k].stride, n = r->areas[k].bytes / each;
	const unsigned char *now = area_out(&r->areas[k]), *start = area_in(&r->areas[k]);

	for (size_t j = 0; j < n; j++) {
		const unsigned char *x = now + j * each, *y = r->first[k] + j * each;

		if (j % stride >= (size_t)t->units && memcmp(x, start + j * each, each))
			return finding_format(r->finding, FINDING_TOUCHED, "the kernel of %s wrote between the rows of argument %s",
			                      side->name, a->name);
		if (kind == FINDING_NONE || numbers_same(dtype, x, y))
			continue;
		if (!flushed(dtype, x, y))
			return finding_format(r->finding, kind, "%s: %s[%zu, %zu]: %s: %.17g and %.17g", side->name, a->name, j / stride, j % stride,
			                      kind == FINDING_REPEAT ? "a second run of the kernel gave other bits" : "other bits",
			                      numbers_decode(dtype, y), numbers_decode(dtype, x));
		r->finding->flushed++;
	}
	r->finding->elements += n;
	return CG_OK;
}

/* Judges one run. kind: the kind of the finding that is reported where bits differ from those of the first run; FINDING_NONE: this is
 * the first run. */
static int look(struct trial_state *r, const struct side *side, int kind)
{
	for (int k = 0; k < r->trial->kind->n_memory && !r->finding->kind; k++) {
		const struct cg_argument *a = r->trial->kind->arguments[k];
		int given = !(r->trial->absent >> k & 1);

		if (area_touched(&r->areas[k], !a->out || !given))
			return finding_format(r->finding, FINDING_TOUCHED,
			                      "the kernel of %s wrote beside argument %s or, if that is an input, into it", side->name, a->name);
		if (a->out && given)
			CG_TRY(compare(r, side, k, kind));
		if (!kind)
			memcpy(r->first[k], area_out(&r->areas[k]), r->areas[k].bytes);
	}
	return CG_OK;
}

static int lend(struct trial_state *r, const struct side *side)
{
	for (int k = 0; k < r->trial->kind->n_memory; k++) {
		int absent = (int)(r->trial->absent >> k & 1);

		CG_TRY(area_lend(&r->areas[k], side, absent ? AREA_HOST : r->trial->memory, (unsigned)k, &r->args[k].mem));
		if (absent)
			r->args[k].mem = (struct cg_mem){ 0 };
	}
	return CG_OK;
}

static int once(struct trial_state *r, const struct side *side, const struct cg_cell *cell, int kind)
{
	const struct kernel_trial *t = r->trial;
	int code = lend(r, side);

	r->kernel.cell = cell ? cell : t->kind->cell;
	if (!code) {
		int done = cg_kernel_run(side->stream, &r->kernel, t->rows, t->units, r->args, t->kind->n);

		/* A call with arguments in host memory alone returns only when it is done. */
		if (!done && t->memory != AREA_HOST)
			done = cg_stream_sync(side->stream);
		if (done)
			finding_format(r->finding, done == CG_UNSUPPORTED ? FINDING_DECLINED : FINDING_CALL, "%s: %s", side->name, cg_message());
	}
	for (int k = 0; k < t->kind->n_memory; k++) {
		int back = area_back(&r->areas[k], side);

		code = code ? code : back;
	}
	return code || r->finding->kind ? code : look(r, side, kind);
}

static int compute(struct trial_state *r, const struct side *sides, const struct cg_cell *const *cells)
{
	unsigned long long state = r->trial->seed;

	for (int k = 0; k < r->trial->kind->n; k++)
		CG_TRY(fill(r, k, &state));
	CG_TRY(once(r, &sides[0], cells[0], FINDING_NONE));
	if (!r->finding->kind)
		CG_TRY(once(r, &sides[0], cells[0], FINDING_REPEAT));
	if (!r->finding->kind)
		CG_TRY(once(r, &sides[1], cells[1], FINDING_BITS));
	return CG_OK;
}

int kernel_trial_run(const struct kernel_trial *t, const struct side *sides, const struct cg_cell *const *cells, struct finding *finding)
{
	const struct kernel_kind *kind = t->kind;
	struct trial_state r = { .trial = t, .finding = finding };
	int code;

	memset(finding, 0, sizeof *finding);
	for (int k = 0; k < kind->cell->n_options; k++)
		if (kind->options >> k & 1)
			snprintf(r.options + strlen(r.options), sizeof r.options - strlen(r.options), "%s%s", r.options[0] ? "," : "",
			         kind->cell->options[k].name);
	r.kernel = (struct cg_kernel){ .options = r.options, .stage = (int)kind->stage, .pass = kind->pass, .dtype = kind->dtype,
	                               .shape = kind->shape };
	code = compute(&r, sides, cells);
	for (int k = 0; k < kind->n; k++) {
		area_close(&r.areas[k]);
		cg_memory(r.first[k], 0);
	}
	return code;
}
