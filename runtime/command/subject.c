/*
 * What `cellgrad check` checks, and its next case: words that the user gave are fixed in all of them.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/command/check.h"

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

void example_fields(struct example *e, struct fields *f)
{
	if (e->subject->op)
		trial_fields(&e->trial, f);
	else
		kernel_fields(&e->kernel, f);
}

/* Says the words of the case; *why as subject_add has it. */
static int say(const struct check *c, struct example *e, int *why)
{
	struct fields f;

	example_fields(e, &f);
	for (const char **word = c->words; *word; word++) {
		int known = field_find(&f, *word) != NULL, code = field_set(&f, *word);

		if (code) {
			*why = known ? 3 : strstr(cg_message(), "did you mean") ? 2 : 1;
			return code;
		}
	}
	*why = 3;
	if (e->subject->op)
		CG_TRY(trial_legal(&e->trial));
	*why = 0;
	if (e->subject->op)
		return *(int *)(void *)((char *)&e->trial.is + e->subject->op->dtype_at) == e->subject->dtype ? CG_OK : CG_BAD_ARGUMENT;
	return kernel_matches(&e->kernel) ? CG_OK : CG_BAD_ARGUMENT;
}

static int too_large(const struct example *e)
{
	return e->subject->op ? trial_too_large(&e->trial) : kernel_too_large(&e->kernel);
}

static int accepts(const struct check *c, struct example *e, int *why)
{
	CG_TRY(say(c, e, why));
	if (!too_large(e))
		return CG_OK;
	*why = 3;
	return cg_fail(CG_BAD_ARGUMENT, "%s: of these sizes a case would take too long: expected smaller ones", e->subject->name);
}

static int add_op(const struct check *c, struct subject *s, int *why)
{
	struct example e = { .subject = s };

	trial_small(s->op, s->dtype, &e.trial);
	return accepts(c, &e, why);
}

/* Leaves the kernels that the words can be said of. */
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
			struct kernel_kind kept = s->kinds[k];

			s->kinds[k] = s->kinds[n];
			s->kinds[n++] = kept;
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

static void drop(struct subject *s)
{
	kernel_kinds_close(s->kinds, s->n_kinds);
	cg_memory(s->kinds, 0);
	cg_cell_close(s->again);
	*s = (struct subject){ .op = NULL };
}

int subject_add(struct check *c, const struct cg_op *op, const struct cg_cell *cell, int dtype, int *why)
{
	struct subject *s = &c->subjects[c->n_subjects];
	int code;

	*why = 0;
	if (c->n_subjects == SUBJECTS_MAX)
		return cg_fail(CG_UNSUPPORTED, "there is room for %d subjects", SUBJECTS_MAX);
	*s = (struct subject){ .name = op ? op->name : cell->name, .op = op, .cell = cell, .dtype = dtype };
	code = op ? add_op(c, s, why) : add_cell(c, s, why);
	if (code)
		drop(s);
	else
		c->n_subjects++;
	return code;
}

void subjects_close(struct check *c)
{
	for (int k = 0; k < c->n_subjects; k++)
		drop(&c->subjects[k]);
	c->n_subjects = 0;
}

/* ---- cases ---- */

/* Outputs and upstream gradients absent in turn, then all but one of them. */
static int next_absent(struct subject *s, struct trial *t)
{
	int n = trial_optionals(s->op), k = s->absent++;

	if (k >= 2 * n)
		return 0;
	trial_small(s->op, s->dtype, t);
	t->absent = k < n ? 1ull << k : ((1ull << n) - 1) ^ 1ull << (k - n);
	return 1;
}

static int next(struct subject *s, unsigned long long seed, struct example *e)
{
	if (s->op) {
		if (!trial_next(&s->at, s->op, s->dtype, &e->trial) && !next_absent(s, &e->trial))
			return 0;
		e->trial.seed = seed;
		return 1;
	}
	if (s->kind >= s->n_kinds * kernel_areas())
		return 0;
	kernel_case(&s->kinds[s->kind % s->n_kinds], s->kind / s->n_kinds, seed, &e->kernel);
	s->kind++;
	return 1;
}

int subject_next(const struct check *c, struct subject *s, unsigned long long seed, struct example *e)
{
	int why;

	e->subject = s;
	while (next(s, seed, e))
		if (!say(c, e, &why) && !too_large(e))
			return 1;
	return 0;
}

int subject_any(const struct check *c, struct subject *s, unsigned long long seed, struct example *e)
{
	enum { TRIES = 50 };
	int why;

	e->subject = s;
	for (int k = 0; k < TRIES; k++, seed += 104729) {
		if (s->op)
			trial_random(s->op, s->dtype, seed, &e->trial);
		else
			kernel_case(&s->kinds[seed % (unsigned)s->n_kinds], kernel_areas(), seed, &e->kernel);
		if (!say(c, e, &why) && !too_large(e))
			return 1;
	}
	return 0;
}

void subject_only(const struct check *c, struct subject *s, struct example *e)
{
	int why;

	e->subject = s;
	if (s->op)
		trial_small(s->op, s->dtype, &e->trial);
	else
		kernel_small(&s->kinds[0], &e->kernel);
	say(c, e, &why);
}

long subject_table(const struct check *c, const struct subject *s)
{
	struct subject again = *s;
	struct example e;
	long n = 0;

	again.at = (struct trial_cursor){ 0, 0 };
	again.absent = again.kind = 0;
	while (subject_next(c, &again, 1, &e))
		n++;
	return n;
}

int example_run(const struct check *c, struct example *e, struct finding *f)
{
	const struct subject *s = e->subject;
	const struct side again = { c->other.name, c->sides[0].context, c->sides[0].stream };
	const struct side sides[2] = { c->sides[0], c->other.context ? c->other : again };
	const struct cg_cell *const cells[2] = { NULL, s->again };

	return s->op ? trial_run(&e->trial, c->sides, c->n_sides, f) : kernel_trial_run(&e->kernel, sides, cells, f);
}
