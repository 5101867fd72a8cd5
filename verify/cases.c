/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cases of an op: those of the table in cases.h, and random ones; the fields of a case by name.
 */
#include <string.h>

#include "runtime/core/core.h"
#include "verify/cases.h"
#include "verify/numbers.h"
#include "verify/trial.h"

/* The largest size and cost of a case that a caller may ask for; the cases of the table and random cases are far smaller. */
enum { SIZE_MOST = 65536, COST_MOST = 200000000, LENGTHS = sizeof lengths / sizeof *lengths };

const struct cg_op *trial_forward(const struct cg_op *op)
{
	int is_grad;
	const struct cg_op *pair = cg_op_pair(op, &is_grad);

	return is_grad ? pair : op;
}

/* Upstream gradients are the inputs of a grad op that are neither inputs nor outputs of its forward op. */
int trial_optional(const struct cg_op *op, const struct cg_port *port)
{
	const struct cg_port *p = trial_forward(op)->ports;

	while (p->name && strcmp(p->name, port->name))
		p++;
	return port->flow != CG_IN || !p->name;
}

int trial_optionals(const struct cg_op *op)
{
	int n = 0;

	for (const struct cg_port *port = op->ports; port->name; port++)
		n += trial_optional(op, port);
	return n;
}

static void *member(void *of, size_t at)
{
	return (char *)of + at;
}

/* The size that a symbol such as "T" has in the trial; 1 for a symbol that the op does not have. */
int64_t trial_size(const struct trial *t, const char *symbol)
{
	for (const struct cg_dim *d = t->op->dims; d->symbol; d++)
		if (!strcmp(d->symbol, symbol))
			return *(const int64_t *)(const void *)((const char *)&t->is + d->at);
	return 1;
}

static double cost(double B, double I, double U)
{
	return (B + 1) * (I + U) * U;
}

int trial_too_large(const struct trial *t)
{
	return (double)trial_size(t, "T") * cost((double)trial_size(t, "B"), (double)trial_size(t, "I"), (double)trial_size(t, "U")) >
	       COST_MOST;
}

int trial_legal(const struct trial *t)
{
	for (const struct cg_attribute *a = t->op->attributes; a->name; a++)
		CG_TRY(cg_attribute_check(t->op, a, &t->is, 0));
	return CG_OK;
}

static void set_one(struct trial *t, const char *symbol, int64_t value)
{
	for (const struct cg_dim *d = t->op->dims; d->symbol; d++)
		if (!strcmp(d->symbol, symbol) && !d->only)
			*(int64_t *)member(&t->is, d->at) = value;
}

static void set_size(struct trial *t, struct size size)
{
	set_one(t, "B", size.B);
	set_one(t, "I", size.I);
	set_one(t, "U", size.U);
}

/* Does the op compute sequences? */
static int has_steps(const struct cg_op *op)
{
	return !strcmp(op->dims->symbol, "T") && !op->dims->only;
}

/* The attributes of the forward op: a grad op reads what a forward pass computed with these attributes. */
static const struct cg_attribute *attributes_of(const struct cg_op *op)
{
	return trial_forward(op)->attributes;
}

static void set_attribute(struct trial *t, const char *name, double value)
{
	for (const struct cg_attribute *a = attributes_of(t->op); a->name; a++)
		if (!strcmp(a->name, name))
			cg_attribute_set(a, &t->is, value);
}

static void set_length(struct trial *t, int64_t T, int64_t seq_len_max)
{
	if (!has_steps(t->op))
		return;
	set_one(t, "T", T);
	set_attribute(t, "seq_len_max", (double)seq_len_max);
}

void trial_small(const struct cg_op *op, int dtype, struct trial *t)
{
	memset(t, 0, sizeof *t);
	t->op = op;
	t->scale = 1;
	t->seed = 1;
	op->init(&t->is, op->size);
	*(int *)member(&t->is, op->dtype_at) = dtype;
	set_size(t, small);
	set_length(t, lengths[0].T, lengths[0].seq_len_max);
}

int trial_next(struct trial_cursor *at, const struct cg_op *op, int dtype, struct trial *t)
{
	static const int memories[] = { AREA_HOST, AREA_HOST, AREA_MIXED, AREA_ARENA, AREA_DEVICE };
	const int ordinary = sizeof sizes / sizeof *sizes, more = sizeof large / sizeof *large;
	/* Sequences get no large sizes: their steps make the products large already. */
	const int all = has_steps(op) ? ordinary : ordinary + more;

	for (; at->size < all; at->size++, at->variant = 0)
		while (at->variant < (op->gates_at ? 12 : 6)) {
			int s = at->size, variant = at->variant++;
			struct size size = s < ordinary ? sizes[s] : large[s - ordinary];
			int steps = (variant + 2 * s) % LENGTHS;
			double T = has_steps(op) ? (double)lengths[steps].T : 1;

			/* Large cases run with few variants, because the reference is slow. */
			if (variant > 0 && T * cost((double)size.B - 1, (double)size.I, (double)size.U) > (variant < 3 ? 500000 : 20000))
				continue;
			trial_small(op, dtype, t);
			set_size(t, size);
			set_length(t, lengths[steps].T, lengths[steps].seq_len_max);
			set_attribute(t, "use_peephole", variant % 2);
			set_attribute(t, "forget_bias", scalars[variant / 2 % 3].forget_bias);
			set_attribute(t, "cell_clip", scalars[variant / 2 % 3].cell_clip);
			if (op->gates_at)
				*(int *)member(&t->is, op->gates_at) = variant / 2 % 2;
			*(int *)member(&t->is, op->accumulate_at) = (variant + s) % 3 == 0;
			t->scale = scales[(variant / 3 + s) % 3];
			t->memory = memories[variant % 5];
			return 1;
		}
	return 0;
}

/* Draws a random size: mostly a small one, sometimes one near the width of a vector, a strip or a block, rarely a larger one. */
static int64_t draw_size(unsigned long long *state, int64_t least)
{
	static const int64_t edges[] = { 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257 };
	unsigned kind = numbers_below(state, 100);

	if (kind < 3)
		return least;
	if (kind < 40)
		return 1 + numbers_below(state, 5);
	if (kind < 80)
		return 1 + numbers_below(state, 40);
	if (kind < 95)
		return edges[numbers_below(state, sizeof edges / sizeof *edges)];
	return 1 + numbers_below(state, 600);
}

void trial_random(const struct cg_op *op, int dtype, unsigned long long seed, struct trial *t)
{
	unsigned long long state = seed ^ 0x9e3779b97f4a7c15u, *at = &state;
	struct size size;
	int most = numbers_below(at, 50) ? 20000 : 400000;

	trial_small(op, dtype, t);
	t->seed = seed;
	do
		size = (struct size){ draw_size(at, 0), draw_size(at, 1), draw_size(at, 1) };
	while (cost((double)size.B, (double)size.I, (double)size.U) > most);
	set_size(t, size);
	if (has_steps(op)) {
		int64_t T = numbers_below(at, 9);

		set_length(t, T, numbers_below(at, 2) ? -1 : (int64_t)numbers_below(at, (unsigned)T + 1));
	}
	for (const struct cg_attribute *a = attributes_of(op); a->name; a++)
		if (a->kind == CG_BOOL)
			set_attribute(t, a->name, numbers_below(at, 2));
		else if (a->kind == CG_REAL && numbers_below(at, 2))
			set_attribute(t, a->name, (numbers_below(at, 600) - 200.0) / 100);       /* two decimals, so that the number prints short */
	if (op->gates_at)
		*(int *)member(&t->is, op->gates_at) = (int)numbers_below(at, 2);
	*(int *)member(&t->is, op->accumulate_at) = (int)numbers_below(at, 2);
	t->scale = scales[numbers_below(at, sizeof scales / sizeof *scales)];
	t->memory = (int)numbers_below(at, AREA_MEMORIES);
	t->absent = numbers_subset(at, trial_optionals(op));
}

void trial_fields(struct trial *t, struct fields *f)
{
	static const char *const gates[] = { "ICFO", "IFCO" };
	struct field *row;
	int n = 0, sums = 0;

	f->of = t->op->name;
	f->n = 0;
	for (const struct cg_dim *d = t->op->dims; d->symbol; d++)
		if (!d->only) {
			row = field_add(f, d->symbol, FIELD_SIZE, member(&t->is, d->at));
			row->least = (double)d->least;
			row->most = SIZE_MOST;
		}
	field_add(f, "dtype", FIELD_DTYPE, member(&t->is, t->op->dtype_at));
	for (const struct cg_attribute *a = attributes_of(t->op); a->name; a++) {
		static const int kinds[] = { [CG_REAL] = FIELD_REAL, [CG_BOOL] = FIELD_BOOL, [CG_INTEGER] = FIELD_SIZE, [CG_WORD] = FIELD_WORD };

		row = field_add(f, a->name, kinds[a->kind], member(&t->is, a->at));
		row->least = a->kind == CG_INTEGER ? -1 : -1e6;
		row->most = a->kind == CG_INTEGER ? SIZE_MOST : 1e6;
		row->plain = a->fallback;
		for (row->words = a->words; a->words && a->words[row->n_words]; row->n_words++)
			;
	}
	if (t->op->gates_at) {
		row = field_add(f, "gates", FIELD_WORD, member(&t->is, t->op->gates_at));
		row->words = gates;
		row->n_words = 2;
	}
	for (const struct cg_port *p = t->op->ports; p->name; p++)
		sums |= p->flow == CG_OUT_SUM;
	if (sums)
		field_add(f, "accumulate", FIELD_BOOL, member(&t->is, t->op->accumulate_at));
	row = field_add(f, "memory", FIELD_WORD, &t->memory);
	row->words = area_memories;
	row->n_words = AREA_MEMORIES;
	row = field_add(f, "scale", FIELD_REAL, &t->scale);
	row->least = 1e-6;
	row->most = 1e6;
	row->plain = 1;
	for (const struct cg_port *p = t->op->ports; p->name; p++)
		if (trial_optional(t->op, p))
			f->names[n++] = p->name;
	row = field_add(f, "absent", FIELD_SET, &t->absent);
	row->words = f->names;
	row->n_words = n;
	row->simple = (1ull << n) - 1;
	field_add(f, "seed", FIELD_SEED, &t->seed);
}
