/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds the subjects of `cellgrad check`, and chooses the next case of each. A field, such as a size, that the user
 * gave as NAME=VALUE has the user's value in all cases.
 */
#include <stdio.h>
#include <string.h>

#include "command/check/check.h"

void check_skip(struct check *c, const char *what, const char *why, long cases)
{
	struct skip *s = c->skips;

	c->skipped += cases;
	while (s < c->skips + c->n_skips && (strcmp(s->what, what) || strcmp(s->why, why)))
		s++;
	if (s == c->skips + SKIPS_MAX) {
		c->lost_skips++;
		return;
	}
	if (s == c->skips + c->n_skips) {
		c->n_skips++;
		snprintf(s->what, sizeof s->what, "%s", what);
		snprintf(s->why, sizeof s->why, "%s", why);
	}
	s->cases += cases;
}

/* ---- the three kinds of trials ---- */

struct subject_kind {
	void (*small)(const struct subject *, struct example *);
	void (*fields)(struct example *, struct fields *);
	/* CG_OK: the case, in which the user's fields are set, is possible; *why: as in subject_add. */
	int  (*legal)(const struct example *, int *why);
	int  (*too_large)(const struct example *);
	int  (*next)(struct subject *, unsigned long long seed, struct example *);
	void (*any)(struct subject *, unsigned long long seed, struct example *);
	int  (*run)(const struct check *, struct example *, struct finding *);
};

static void op_small(const struct subject *s, struct example *e)
{
	trial_small(s->op, s->dtype, &e->trial);
}

static void op_fields(struct example *e, struct fields *f)
{
	trial_fields(&e->trial, f);
}

static int op_legal(const struct example *e, int *why)
{
	const struct cg_op *op = e->subject->op;

	*why = 3;
	CG_TRY(trial_legal(&e->trial));
	*why = 0;
	return *(const int *)(const void *)((const char *)&e->trial.is + op->dtype_at) == e->subject->dtype ? CG_OK : CG_BAD_ARGUMENT;
}

static int op_too_large(const struct example *e)
{
	return trial_too_large(&e->trial);
}

/* Sets the next case with absent arguments: first those without one of the optional arguments, then those with only one of them. */
static int next_absent(struct subject *s, struct trial *t)
{
	int n = trial_optionals(s->op), k = s->absent++;

	if (k >= 2 * n)
		return 0;
	trial_small(s->op, s->dtype, t);
	t->absent = k < n ? 1ull << k : ((1ull << n) - 1) ^ 1ull << (k - n);
	return 1;
}

static int op_next(struct subject *s, unsigned long long seed, struct example *e)
{
	if (!trial_next(&s->at, s->op, s->dtype, &e->trial) && !next_absent(s, &e->trial))
		return 0;
	e->trial.seed = seed;
	return 1;
}

static void op_any(struct subject *s, unsigned long long seed, struct example *e)
{
	trial_random(s->op, s->dtype, seed, &e->trial);
}

static int op_run(const struct check *c, struct example *e, struct finding *f)
{
	return trial_run(&e->trial, c->sides, c->n_sides, f);
}

static void network_smallest(const struct subject *s, struct example *e)
{
	network_small(s->op, s->dtype, &e->network);
}

static void network_all_fields(struct example *e, struct fields *f)
{
	network_fields(&e->network, f);
}

static int network_legal(const struct example *e, int *why)
{
	*why = 0;
	return e->network.dtype == e->subject->dtype ? CG_OK : CG_BAD_ARGUMENT;
}

static int network_large(const struct example *e)
{
	return network_too_large(&e->network);
}

static int network_next(struct subject *s, unsigned long long seed, struct example *e)
{
	if (!network_case(s->op, s->dtype, s->number, &e->network))
		return 0;
	s->number++;
	e->network.seed = seed;
	return 1;
}

static void network_any(struct subject *s, unsigned long long seed, struct example *e)
{
	network_random(s->op, s->dtype, seed, &e->network);
}

static int network_run(const struct check *c, struct example *e, struct finding *f)
{
	return network_trial_run(&e->network, c->sides, c->n_sides, f);
}

static void kernel_smallest(const struct subject *s, struct example *e)
{
	kernel_small(&s->kinds[0], &e->kernel);
}

static void kernel_all_fields(struct example *e, struct fields *f)
{
	kernel_fields(&e->kernel, f);
}

static int kernel_legal(const struct example *e, int *why)
{
	*why = 0;
	return kernel_matches(&e->kernel) ? CG_OK : CG_BAD_ARGUMENT;
}

static int kernel_large(const struct example *e)
{
	return kernel_too_large(&e->kernel);
}

static int kernel_next(struct subject *s, unsigned long long seed, struct example *e)
{
	if (s->number >= s->n_kinds * kernel_areas())
		return 0;
	kernel_case(&s->kinds[s->number % s->n_kinds], s->number / s->n_kinds, seed, &e->kernel);
	s->number++;
	return 1;
}

static void kernel_any(struct subject *s, unsigned long long seed, struct example *e)
{
	kernel_case(&s->kinds[seed % (unsigned)s->n_kinds], kernel_areas(), seed, &e->kernel);
}

static int kernel_run(const struct check *c, struct example *e, struct finding *f)
{
	const struct side again = { c->other.name, c->sides[0].context, c->sides[0].stream, NULL };
	const struct side sides[2] = { c->sides[0], c->other.context ? c->other : again };
	const struct cg_cell *const cells[2] = { NULL, e->subject->again };

	return kernel_trial_run(&e->kernel, sides, cells, f);
}

static const struct subject_kind
	ops      = { op_small, op_fields, op_legal, op_too_large, op_next, op_any, op_run },
	networks = { network_smallest, network_all_fields, network_legal, network_large, network_next, network_any, network_run },
	kernels  = { kernel_smallest, kernel_all_fields, kernel_legal, kernel_large, kernel_next, kernel_any, kernel_run };

int subject_has_reference(const struct cg_op *op)
{
	return trial_has_reference(op) || network_has_reference(op);
}

void example_fields(struct example *e, struct fields *f)
{
	e->subject->kind->fields(e, f);
}

int example_run(const struct check *c, struct example *e, struct finding *f)
{
	return e->subject->kind->run(c, e, f);
}

/* ---- subjects ---- */

/* Sets those fields of the case that the user gave; *why: as in subject_add. */
static int set_fields(const struct check *c, struct example *e, int *why)
{
	struct fields f;

	example_fields(e, &f);
	for (const char **word = c->attributes; *word; word++) {
		int known = field_find(&f, *word) != NULL, code = field_set(&f, *word);

		if (code) {
			*why = known ? 3 : strstr(cg_message(), "did you mean") ? 2 : 1;
			return code;
		}
	}
	return e->subject->kind->legal(e, why);
}

static int accepts(const struct check *c, struct example *e, int *why)
{
	CG_TRY(set_fields(c, e, why));
	if (!e->subject->kind->too_large(e))
		return CG_OK;
	*why = 3;
	return cg_fail(CG_BAD_ARGUMENT, "%s: a case of these sizes would take too long: expected smaller sizes", e->subject->name);
}

static int add_op(const struct check *c, struct subject *s, int *why)
{
	struct example e = { .subject = s };

	s->kind->small(s, &e);
	return accepts(c, &e, why);
}

/* Adds to the subject those of the cell's kernels that are possible with the user's fields. */
static int add_cell(const struct check *c, struct subject *s, int *why)
{
	struct example e = { .subject = s };
	int n = 0, all, code = CG_OK;

	*why = 0;
	s->kinds = cg_memory(NULL, KERNEL_KINDS * sizeof *s->kinds);
	if (!s->kinds)
		return CG_NO_MEMORY;
	CG_TRY(kernel_kinds(s->cell, s->dtype, s->kinds, &s->n_kinds));
	all = s->n_kinds;
	for (int k = 0, reason; k < all; k++) {
		kernel_small(&s->kinds[k], &e.kernel);
		reason = 0;
		if (!accepts(c, &e, &reason)) {
			struct kernel_kind kind = s->kinds[k];

			s->kinds[k] = s->kinds[n];
			s->kinds[n++] = kind;
			continue;
		}
		*why = reason > *why ? reason : *why;
	}
	kernel_kinds_close(s->kinds + n, all - n);
	s->n_kinds = n;
	if (!n)
		code = CG_BAD_ARGUMENT;
	return code;
}

static void free_subject(struct subject *s)
{
	kernel_kinds_close(s->kinds, s->n_kinds);
	cg_memory(s->kinds, 0);
	cg_cell_close(s->again);
	*s = (struct subject){ .op = NULL };
}

int subject_add(struct check *c, const char *name, const struct cg_op *op, const struct cg_cell *cell, int dtype, int *why)
{
	struct subject *s = &c->subjects[c->n_subjects];
	int code;

	*why = 0;
	if (c->n_subjects == SUBJECTS_MAX)
		return cg_fail(CG_UNSUPPORTED, "expected at most %d ops and cells, counted once for each dtype, got more", SUBJECTS_MAX);
	*s = (struct subject){ .name = name, .op = op, .cell = cell, .dtype = dtype,
	                         .kind = !op ? &kernels : network_has_reference(op) ? &networks : &ops };
	code = op ? add_op(c, s, why) : add_cell(c, s, why);
	if (code)
		free_subject(s);
	else
		c->n_subjects++;
	return code;
}

void subjects_close(struct check *c)
{
	for (int k = 0; k < c->n_subjects; k++)
		free_subject(&c->subjects[k]);
	c->n_subjects = 0;
}

/* ---- cases ---- */

int subject_next(const struct check *c, struct subject *s, unsigned long long seed, struct example *e)
{
	int why;

	e->subject = s;
	while (s->kind->next(s, seed, e))
		if (!set_fields(c, e, &why) && !s->kind->too_large(e))
			return 1;
	return 0;
}

int subject_any(const struct check *c, struct subject *s, unsigned long long seed, struct example *e)
{
	enum { TRIES = 50 };
	int why;

	e->subject = s;
	for (int k = 0; k < TRIES; k++, seed += 104729) {
		s->kind->any(s, seed, e);
		if (!set_fields(c, e, &why) && !s->kind->too_large(e))
			return 1;
	}
	return 0;
}

void subject_only(const struct check *c, struct subject *s, struct example *e)
{
	int why;

	e->subject = s;
	s->kind->small(s, e);
	set_fields(c, e, &why);
}

long subject_table(const struct check *c, const struct subject *s)
{
	struct subject again = *s;
	struct example e;
	long n = 0;

	again.at = (struct trial_cursor){ 0, 0 };
	again.absent = again.number = 0;
	while (subject_next(c, &again, 1, &e))
		n++;
	return n;
}
