/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays out the struct that all steps of a sequence take: matrices for each step or for one step, vectors over the units, scalars, and the
 * memory of the products. The role of a function's argument decides the struct's field for it, as in runtime/rnn/recurrence.c. This file
 * also makes the plan of the text of all steps.
 */
#include "step_fields.h"

#include <stdio.h>
#include <string.h>

#include "steps.h"

static void lay_out_gates(struct steps *s)
{
	const struct cg_cell *cell = s->plan->cell;
	int n = 0;

	memset(s->first, 0, sizeof s->first);
	for (int k = 0; k < cell->n_gates; k++)
		if (cell->gates[k].whole < 0 && (cg_gate_weights(cell, k) & 1 << CG_PART_R)) {
			s->block[k] = n;
			s->first[cell->gates[k].stage] = ++n;
		}
	/* Products add to the column block of a split gate; the gate of which a split gate is the recurrent part gets a column block behind
	 * all those that products add to, and so does a gate without a recurrent part. */
	for (int k = 0; k < cell->n_gates; k++)
		if (cell->gates[k].whole >= 0) {
			s->block[k] = s->block[cell->gates[k].whole];
			s->block[cell->gates[k].whole] = n++;
		}
	for (int k = 0; k < cell->n_gates; k++)
		if (!(cg_gate_weights(cell, k) & 1 << CG_PART_R))
			s->block[k] = n++;
	s->n_blocks = n;
}

const char *cg_get_step_gate(const struct steps *s, int block)
{
	int k = 0;

	while (s->block[k] != block)
		k++;
	return s->plan->cell->gates[k].name;
}

/* Finds a field that an argument of another function, or of a neighbouring step, has added to the struct; NULL: there is none. */
static struct field *find_field(struct steps *s, int kind, const char *name)
{
	for (int k = 0; k < s->n_fields; k++)
		if (s->fields[k].kind == kind && s->fields[k].role != CG_ROLE_GATE && !strcmp(s->fields[k].name, name))
			return &s->fields[k];
	return NULL;
}

static struct field *add_field(struct steps *s, int kind, int type, int out, const char *name, const char *end)
{
	struct field *f = &s->fields[s->n_fields++];

	*f = (struct field){ .kind = kind, .type = type, .out = out, .role = -1 };
	snprintf(f->name, sizeof f->name, "%s%s", name, end);
	return f;
}

/* Adds a field for an argument that has one value for all steps.  Returns NULL where the struct has the argument's field already. */
static struct field *add_constant(struct steps *s, const struct cg_argument *a, int kind)
{
	return find_field(s, kind, a->name) ? NULL : add_field(s, kind, a->type, 0, a->name, "");
}

const char *cg_get_prev_value(const struct steps *s, int prev)
{
	return s->plan->cell->values[s->plan->cell->prevs[prev].value].name;
}

static void add_counts(struct steps *s)
{
	static const struct { const char *name, *is; } counts[] = {
		{ "steps", "number of steps of the sequence" }, { "rows", "number of rows of the batch" },
		{ "units", "number of units of the layer" }, { "shares", "number of shares of the units, one for each thread, at least 1" }
	};

	for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
		snprintf(add_field(s, COUNT, CG_TYPE_I64, 0, counts[k].name, "")->is, sizeof s->fields->is, "%s", counts[k].is);
}

/* Adds the field of each stage's recurrent matrix, the field by_input, and that of the workspace. */
static void add_matrices(struct steps *s)
{
	const struct cg_cell *cell = s->plan->cell;

	for (int stage = 0; stage < cell->n_stages; stage++) {
		char name[16] = "R";
		struct field *f;
		int n = s->first[stage + 1] - s->first[stage], length;

		if (cell->n_stages > 1)
			snprintf(name, sizeof name, "R_s%d", stage + 1);
		f = add_field(s, MATRIX, CG_TYPE_REAL, 0, name, "");
		f->required = 1;
		f->index = stage;
		snprintf(f->shape, sizeof f->shape, n > 1 ? "[%d units, units]" : "[units, units]", n);
		length = snprintf(f->is, sizeof f->is, "weights of");
		for (int k = s->first[stage]; k < s->first[stage + 1] && length < (int)sizeof f->is; k++)
			length += snprintf(f->is + length, sizeof f->is - (size_t)length, " %s", cg_get_step_gate(s, k));
	}
	snprintf(add_field(s, COUNT, CG_TYPE_I64, 0, "by_input", "")->is, sizeof s->fields->is,
	         "1: R is transposed, as in TensorFlow; 0: as in PyTorch");
	snprintf(add_field(s, MEMORY, CG_TYPE_ACC, 1, "work", "")->is, sizeof s->fields->is, "scratch memory of as many bytes as "
	         "..._bytes() returns, aligned as by malloc");
}

/* Adds a field for the gate pre-activations (d = 0) or their adjoints (d = 1), those of all gates side by side. */
static void add_gates(struct steps *s, int d)
{
	struct field *f = add_field(s, SEQUENCE, d ? CG_TYPE_REAL : CG_TYPE_ACC, d ? 1 : s->backward ? 0 : BOTH, d ? "dgates" : "gates", "");
	int length;

	f->role = CG_ROLE_GATE;
	f->derivative = d ? CG_D : CG_VALUE;
	f->required = 1;
	snprintf(f->shape, sizeof f->shape, s->n_blocks > 1 ? "[steps, rows, %d units]" : "[steps, rows, units]", s->n_blocks);
	length = snprintf(f->is, sizeof f->is, "%s", d ? "" : s->backward ? "as forward left them:" :
	                  "x W + b, to which each step adds its recurrent products:");
	for (int k = 0; k < s->n_blocks && length < (int)sizeof f->is; k++)
		length += snprintf(f->is + length, sizeof f->is - (size_t)length, "%s%s%s", length ? " " : "", d ? "d" : "", cg_get_step_gate(s, k));
}

static struct field *add_sequence(struct steps *s, const struct cg_argument *a, int type, int out, const char *name)
{
	struct field *f = find_field(s, SEQUENCE, name);

	if (f)
		return f;
	f = add_field(s, SEQUENCE, type, out, name, "");
	snprintf(f->shape, sizeof f->shape, "[steps, rows, units]");
	f->role = a->role;
	f->index = a->index;
	f->derivative = a->derivative;
	return f;
}

static struct field *add_one_step(struct steps *s, int type, int out, const char *name, const char *end, int role, int index,
                                  int derivative)
{
	struct field *f = add_field(s, ONE_STEP, type, out, name, end);

	snprintf(f->shape, sizeof f->shape, "[rows, units]");
	f->role = role;
	f->index = index;
	f->derivative = derivative;
	return f;
}

static int is_output(const struct steps *s, const struct cg_argument *a)
{
	return s->plan->cell->prevs[a->index].output;
}

/* Adds the fields of a previous value: the first step reads it from a matrix of its own, every other step from the matrix that the step
 * before wrote. */
static void add_prev(struct steps *s, const struct cg_argument *a)
{
	const char *value = cg_get_prev_value(s, a->index);
	char name[sizeof s->fields->name];

	if (a->derivative != CG_VALUE) {
		if (!find_field(s, ONE_STEP, a->name))
			snprintf(add_one_step(s, CG_TYPE_ACC, 1, a->name, "", CG_ROLE_PREV, a->index, CG_D)->is, sizeof s->fields->is,
			         "adjoint of %s_first; may be NULL", value);
		return;
	}
	snprintf(name, sizeof name, "%s_first", value);
	if (!find_field(s, ONE_STEP, name))
		snprintf(add_one_step(s, a->type, 0, value, "_first", CG_ROLE_PREV, a->index, CG_VALUE)->is, sizeof s->fields->is,
		         "value before the first step; may be NULL");
	/* Forward always writes the state, or the output, of every step, and backward reads it. */
	if (s->backward && !find_field(s, SEQUENCE, value)) {
		struct field *f = add_sequence(s, a, a->type, 0, value);

		f->role = CG_ROLE_STATE;
		f->required = 1;
		snprintf(f->is, sizeof f->is, "value after each step");
	}
}

static int is_state(const struct steps *s, const char *name)
{
	for (int k = 0; k < s->plan->cell->n_prevs; k++)
		if (!strcmp(cg_get_prev_value(s, k), name))
			return 1;
	return 0;
}

static int is_feed(const struct steps *s, const char *name)
{
	for (int k = 0; k < s->plan->cell->n_stages - 1; k++)
		if (cg_feed_saved(s->plan, k) >= 0 &&
		    !strcmp(s->plan->cell->values[s->plan->cell->saves[cg_feed_saved(s->plan, k)]].name, name))
			return 1;
	return 0;
}

static void add_argument(struct steps *s, const struct cg_argument *a)
{
	struct field *f;

	switch (a->role) {
	case CG_ROLE_PREV:
		add_prev(s, a);
		return;
	case CG_ROLE_STATE:
		if (a->derivative != CG_VALUE) {
			if (!find_field(s, ONE_STEP, a->name))
				snprintf(add_one_step(s, CG_TYPE_ACC, 0, a->name, "", a->role, a->index, CG_D)->is, sizeof s->fields->is,
				         "adjoint of %s after the last step; may be NULL", cg_get_prev_value(s, a->index));
			return;
		}
		/* fall through */
	case CG_ROLE_SAVED:
	case CG_ROLE_OUTPUT:
	case CG_ROLE_FEED:
		/* The struct has no field for a feed, the operand of the next stage's product, in forward, nor for a feed's adjoint in backward:
		 * the workspace holds these between two products of a step. */
		if (a->role == CG_ROLE_FEED && (a->derivative != CG_VALUE || !s->backward))
			return;
		f = add_sequence(s, a, a->type, a->out, a->name);
		f->required = !a->derivative && (a->out ? !s->backward && (is_state(s, a->name) || is_feed(s, a->name)) : 1);
		if (!f->is[0])
			snprintf(f->is, sizeof f->is, "%s%s", a->role == CG_ROLE_OUTPUT ? "adjoint of the output, from the layer above" :
			         a->role == CG_ROLE_FEED ? "operand of the next stage's product" :
			         is_state(s, a->name) ? "value after each step" : "value that forward saves", f->required ? "" : "; may be NULL");
		return;
	case CG_ROLE_WEIGHT:
	case CG_ROLE_SCALAR:
		f = add_constant(s, a, a->role == CG_ROLE_WEIGHT ? PER_UNIT : ELEMENT);
		if (!f)
			return;
		snprintf(f->shape, sizeof f->shape, a->role == CG_ROLE_WEIGHT ? "[units]" : "[1]");
		snprintf(f->is, sizeof f->is, "a %s; may be NULL", a->role == CG_ROLE_WEIGHT ? "weight per unit" : "learnt scalar");
		break;
	case CG_ROLE_PARAM:
		f = add_constant(s, a, SCALAR);
		if (!f)
			return;
		snprintf(f->is, sizeof f->is, "param, which the caller rounds to %s", cg_real_names[s->plan->dtype]);
		break;
	default:
		return;
	}
	f->role = a->role;
	f->index = a->index;
}

int cg_reads_gates(const struct cg_pass_plan *plan)
{
	for (int p = 0; p < plan->n_functions; p++)
		for (int k = 0; k < plan->functions[p].n_arguments; k++)
			if (plan->functions[p].arguments[k].role == CG_ROLE_GATE && plan->functions[p].arguments[k].derivative == CG_VALUE)
				return 1;
	return 0;
}

int cg_gives_h_prev(const struct steps *s)
{
	for (int p = 0; p < s->plan->n_functions; p++)
		for (int k = 0; k < s->plan->functions[p].n_arguments; k++) {
			const struct cg_argument *a = &s->plan->functions[p].arguments[k];

			if (a->role == CG_ROLE_PREV && a->derivative == CG_D && is_output(s, a))
				return 1;
		}
	return 0;
}

void cg_name_d_h(const struct steps *s, char name[CG_NAME_MAX + 16])
{
	snprintf(name, CG_NAME_MAX + 16, "d%s", s->plan->cell->prevs[s->output].name);
}

/* Adds the fields of the output before the step, which the products of a sequence read, or of its adjoint, which they write, even where no
 * function over elements has it as an argument. */
static void add_output(struct steps *s)
{
	const struct cg_argument h = { .role = CG_ROLE_PREV, .index = s->output, .type = CG_TYPE_REAL };
	struct cg_argument d_h = { .role = CG_ROLE_PREV, .index = s->output, .derivative = CG_D };
	char name[CG_NAME_MAX + 16];

	if (!s->backward) {
		add_prev(s, &h);
		return;
	}
	cg_name_d_h(s, name);
	d_h.name = name;
	add_prev(s, &d_h);
}

void cg_lay_out_steps(struct steps *s, const struct cg_pass_plan *plan)
{
	*s = (struct steps){ .plan = plan, .backward = plan->pass == CG_PASS_SEQ_GRAD, .plain = cg_is_plain(plan->dtype) };
	while (!plan->cell->prevs[s->output].output)
		s->output++;
	lay_out_gates(s);
	add_counts(s);
	add_matrices(s);
	if (!s->backward || cg_reads_gates(plan))
		add_gates(s, 0);
	if (s->backward)
		add_gates(s, 1);
	for (int p = 0; p < plan->n_functions; p++)
		for (int k = 2; k < plan->functions[p].n_arguments; k++)
			add_argument(s, &plan->functions[p].arguments[k]);
	add_output(s);
}

/* ---- the plan ---- */

int cg_name_member(const struct field *f, int k, char name[CG_NAME_MAX + 24])
{
	static const char *const ends[] = { "", "_stride", "_step" };
	int n = f->kind == SEQUENCE ? 3 : f->kind == ONE_STEP || f->kind == MATRIX ? 2 : 1;

	if (k < n)
		snprintf(name, CG_NAME_MAX + 24, "%s%s", f->name, ends[k]);
	return k < n;
}

static int is_taken(const struct steps *s, int before, const char *name)
{
	char other[CG_NAME_MAX + 24];

	for (int k = 0; k < before; k++)
		for (int i = 0; cg_name_member(&s->fields[k], i, other); i++)
			if (!strcmp(name, other))
				return 1;
	return 0;
}

/* Refuses a cell with a name that the struct would contain twice; the cell's kernels may still have that name. */
static int check_names(const struct cg_pass_plan *plan, struct cg_mistake *mistake)
{
	char name[CG_NAME_MAX + 24];
	struct steps s;

	cg_lay_out_steps(&s, plan);
	for (int k = 0; k < s.n_fields; k++)
		for (int i = 0; cg_name_member(&s.fields[k], i, name); i++)
			if (is_taken(&s, k, name)) {
				snprintf(mistake->text, sizeof mistake->text, "cell %s: the struct of all its steps would have two fields named '%s'; "
				         "give the cell's own another name", plan->cell->name, name);
				return -1;
			}
	return 0;
}

struct cg_pass_plan *cg_plan_steps(const struct cg_cell *cell, int options, int pass, int dtype, cg_resize *resize,
                                   struct cg_mistake *mistake)
{
	struct cg_pass_plan *plan;
	size_t length;
	int n = 0;

	if (!cg_has_product(cell, 1)) {
		snprintf(mistake->text, sizeof mistake->text,
		         "cell %s: all steps in one text need a recurrent product in the first stage: expected "
		         "a line 'gates' or 'split'", cell->name);
		return NULL;
	}
	plan = cg_check_split(cell, mistake) ? NULL : cg_plan(cell, options, pass, 0, dtype, resize, mistake);
	if (!plan)
		return NULL;
	for (int p = 0; p < plan->n_functions; p++)
		if (plan->functions[p].shape == CG_FUNCTION_MEAN) {
			snprintf(mistake->text, sizeof mistake->text,
			         "cell %s: no text has all steps of a cell with means over units, which all units of a row wait for", cell->name);
			cg_plan_free(plan);
			return NULL;
		}
	for (int p = 0; p < plan->n_functions; p++)
		if (plan->functions[p].shape == CG_FUNCTION_POINT)
			plan->functions[n++] = plan->functions[p];
	plan->n_functions = n;
	plan->steps = 1;
	length = strlen(plan->key);
	snprintf(plan->key + length, sizeof plan->key - length, "_scan");
	if (!check_names(plan, mistake))
		return plan;
	cg_plan_free(plan);
	return NULL;
}
