/*
 * Prints all steps of a sequence: the struct of what they take, the functions over elements, the tiles, and the functions that are called.
 * The role of an argument of an element's function says what it is at a step, as in runtime/rnn/recurrence.c.  The texts are in
 * templates/scan.in.
 */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include "tiles.h"

/* ---- what the steps take ---- */

/* What a field of the struct is: a matrix of each step, of one step, a vector of the units, a scalar; and what no argument is. */
enum field_kind { SEQUENCE, ONE_STEP, PER_UNIT, SCALAR, COUNT, MATRIX, MEMORY };

struct field {
	char name[CG_NAME_MAX + 16];
	char shape[48], is[240];
	int kind, type, out, required;
	int role, index, derivative;
};

enum { BOTH = 2 };                               /* in and out */
enum { FIELDS_MAX = 4 * CG_STATES_MAX + CG_SAVES_MAX + CG_WEIGHTS_MAX + CG_PARAMS_MAX + 4 * CG_STAGES_MAX + 16 };

/* The layout of a cell in a sequence, and the fields. */
struct steps {
	const struct cg_pass_plan *plan;
	int backward, plain, output;             /* output: its index among the states before the step */
	int first[CG_STAGES_MAX + 1];            /* gates that products add to, before each stage */
	int block[CG_GATES_MAX], n_blocks;       /* where each gate stands among all of a step */
	struct field fields[FIELDS_MAX]; int n_fields;
};

static void place_gates(struct steps *s)
{
	const struct cg_cell *cell = s->plan->cell;
	int n = 0;

	memset(s->first, 0, sizeof s->first);
	for (int k = 0; k < cell->n_gates; k++)
		if (!cell->gates[k].split) {
			s->block[k] = n;
			s->first[cell->gates[k].stage] = ++n;
		}
	/* A split gate has the place where products add, the gate that it is a part of comes behind all of them. */
	for (int k = 0; k < cell->n_gates; k++)
		if (cell->gates[k].split) {
			s->block[k] = s->block[cell->gates[k].whole];
			s->block[cell->gates[k].whole] = n++;
		}
	s->n_blocks = n;
}

static const char *gate_at(const struct steps *s, int block)
{
	int k = 0;

	while (s->block[k] != block)
		k++;
	return s->plan->cell->gates[k].name;
}

/* Of an argument that another function has, or a step beside it. */
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

static const char *value_of(const struct steps *s, int prev)
{
	return s->plan->cell->values[s->plan->cell->prevs[prev].value].name;
}

static void add_counts(struct steps *s)
{
	static const struct { const char *name, *is; } counts[] = {
		{ "steps", "of the sequence" }, { "rows", "of the batch" }, { "units", "of the layer" },
		{ "shares", "of the units; 1 at least" }
	};

	for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
		snprintf(add_field(s, COUNT, CG_TYPE_I64, 0, counts[k].name, "")->is, sizeof s->fields->is, "%s", counts[k].is);
}

/* The recurrent matrix of each stage. */
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
			length += snprintf(f->is + length, sizeof f->is - (size_t)length, " %s", gate_at(s, k));
	}
	snprintf(add_field(s, COUNT, CG_TYPE_I64, 0, "by_input", "")->is, sizeof s->fields->is,
	         "1: R is transposed, as in TensorFlow; 0: as in PyTorch");
	snprintf(add_field(s, MEMORY, CG_TYPE_ACC, 1, "work", "")->is, sizeof s->fields->is, "of _bytes bytes, aligned as by malloc");
}

/* Pre-activations, or their adjoints: those of all gates beside each other. */
static void add_gates(struct steps *s, int d)
{
	struct field *f = add_field(s, SEQUENCE, d ? CG_TYPE_REAL : CG_TYPE_ACC, d ? 1 : s->backward ? 0 : BOTH, d ? "dgates" : "gates", "");
	int length;

	f->role = CG_ROLE_GATE;
	f->derivative = d ? CG_D : CG_VALUE;
	f->required = 1;
	snprintf(f->shape, sizeof f->shape, s->n_blocks > 1 ? "[steps, rows, %d units]" : "[steps, rows, units]", s->n_blocks);
	length = snprintf(f->is, sizeof f->is, "%s", d ? "" : s->backward ? "as forward left them:" : "x W + b, to which h R is added:");
	for (int k = 0; k < s->n_blocks && length < (int)sizeof f->is; k++)
		length += snprintf(f->is + length, sizeof f->is - (size_t)length, "%s%s%s", length ? " " : "", d ? "d" : "", gate_at(s, k));
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

/* What was before the step: of the first step a matrix of its own, else what the step before gave. */
static void add_prev(struct steps *s, const struct cg_argument *a)
{
	const char *value = value_of(s, a->index);
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
		         "before the first step; may be NULL");
	/* Forward gives it in any case, and needs it. */
	if (s->backward && !find_field(s, SEQUENCE, value)) {
		struct field *f = add_sequence(s, a, a->type, 0, value);

		f->role = CG_ROLE_STATE;
		f->required = 1;
		snprintf(f->is, sizeof f->is, "after each step");
	}
}

static int is_state(const struct steps *s, const char *name)
{
	for (int k = 0; k < s->plan->cell->n_prevs; k++)
		if (!strcmp(value_of(s, k), name))
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
				         "adjoint of %s after the last step; may be NULL", value_of(s, a->index));
			return;
		}
		/* fall through */
	case CG_ROLE_SAVED:
	case CG_ROLE_OUTPUT:
	case CG_ROLE_FEED:
		/* What carries a feed between two products of a step is in the work memory. */
		if (a->role == CG_ROLE_FEED && (a->derivative != CG_VALUE || !s->backward))
			return;
		f = add_sequence(s, a, a->type, a->out, a->name);
		f->required = !a->derivative && (a->out ? !s->backward && (is_state(s, a->name) || is_feed(s, a->name)) : 1);
		if (!f->is[0])
			snprintf(f->is, sizeof f->is, "%s%s", a->role == CG_ROLE_OUTPUT ? "its adjoint from the layer above" :
			         a->role == CG_ROLE_FEED ? "what the next stage's product took" :
			         is_state(s, a->name) ? "after each step" : "kept by forward", f->required ? "" : "; may be NULL");
		return;
	case CG_ROLE_WEIGHT:
		if (find_field(s, PER_UNIT, a->name))
			return;
		f = add_field(s, PER_UNIT, a->type, 0, a->name, "");
		snprintf(f->shape, sizeof f->shape, "[units]");
		snprintf(f->is, sizeof f->is, "a weight per unit; may be NULL");
		break;
	case CG_ROLE_PARAM:
		if (find_field(s, SCALAR, a->name))
			return;
		f = add_field(s, SCALAR, a->type, 0, a->name, "");
		snprintf(f->is, sizeof f->is, "rounded to %s first", cg_real_names[s->plan->dtype]);
		break;
	default:
		return;
	}
	f->role = a->role;
	f->index = a->index;
}

static int reads_gates(const struct cg_pass_plan *plan)
{
	for (int p = 0; p < plan->n_functions; p++)
		for (int k = 0; k < plan->functions[p].n_arguments; k++)
			if (plan->functions[p].arguments[k].role == CG_ROLE_GATE && plan->functions[p].arguments[k].derivative == CG_VALUE)
				return 1;
	return 0;
}

/* Does a function give a part of what reaches the output of the step before? */
static int uses_h_prev(const struct steps *s)
{
	for (int p = 0; p < s->plan->n_functions; p++)
		for (int k = 0; k < s->plan->functions[p].n_arguments; k++) {
			const struct cg_argument *a = &s->plan->functions[p].arguments[k];

			if (a->role == CG_ROLE_PREV && a->derivative == CG_D && is_output(s, a))
				return 1;
		}
	return 0;
}

static void d_h_name(const struct steps *s, char name[CG_NAME_MAX + 16])
{
	snprintf(name, CG_NAME_MAX + 16, "d%s", s->plan->cell->prevs[s->output].name);
}

/* What products of a sequence take and give, which no function over elements may have. */
static void add_output(struct steps *s)
{
	const struct cg_argument h = { .role = CG_ROLE_PREV, .index = s->output, .type = CG_TYPE_REAL };
	struct cg_argument d_h = { .role = CG_ROLE_PREV, .index = s->output, .derivative = CG_D };
	char name[CG_NAME_MAX + 16];

	if (!s->backward) {
		add_prev(s, &h);
		return;
	}
	d_h_name(s, name);
	d_h.name = name;
	add_prev(s, &d_h);
}

static void lay_out(struct steps *s, const struct cg_pass_plan *plan)
{
	*s = (struct steps){ .plan = plan, .backward = plan->pass == CG_PASS_SEQ_GRAD, .plain = cg_is_plain(plan->dtype) };
	while (!plan->cell->prevs[s->output].output)
		s->output++;
	place_gates(s);
	add_counts(s);
	add_matrices(s);
	if (!s->backward || reads_gates(plan))
		add_gates(s, 0);
	if (s->backward)
		add_gates(s, 1);
	for (int p = 0; p < plan->n_functions; p++)
		for (int k = 2; k < plan->functions[p].n_arguments; k++)
			add_argument(s, &plan->functions[p].arguments[k]);
	add_output(s);
}

/* ---- the plan ---- */

/* The names in the struct that a field brings. */
static int member(const struct field *f, int k, char name[CG_NAME_MAX + 24])
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
		for (int i = 0; member(&s->fields[k], i, other); i++)
			if (!strcmp(name, other))
				return 1;
	return 0;
}

/* Cells may have names that are free in kernels and not in the struct. */
static int check_names(const struct cg_pass_plan *plan, struct cg_mistake *mistake)
{
	char name[CG_NAME_MAX + 24];
	struct steps s;

	lay_out(&s, plan);
	for (int k = 0; k < s.n_fields; k++)
		for (int i = 0; member(&s.fields[k], i, name); i++)
			if (is_taken(&s, k, name)) {
				snprintf(mistake->text, sizeof mistake->text, "cell %s: all steps of it would take two things named '%s'; "
				         "give that of the cell another name", plan->cell->name, name);
				return -1;
			}
	return 0;
}

struct cg_pass_plan *cg_plan_steps(const struct cg_cell *cell, int options, int pass, int dtype, cg_resize *resize,
                                   struct cg_mistake *mistake)
{
	struct cg_pass_plan *plan = cg_check_split(cell, mistake) ? NULL : cg_plan(cell, options, pass, 0, dtype, resize, mistake);
	size_t length;
	int n = 0;

	if (!plan)
		return NULL;
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

/* ---- text ---- */

enum { TEXTS = 24 };

/* Holes with texts that were made for them, freed together. */
struct holes {
	const char *pairs[2 * TEXTS + 1];
	struct cg_text text[TEXTS];
	int n;
};

/* The text of the hole, to be filled before the next one is added. */
static struct cg_text *add_hole(struct holes *h, const char *name, cg_resize *resize)
{
	h->pairs[2 * h->n] = name;
	h->text[h->n] = (struct cg_text){ .resize = resize };
	return &h->text[h->n++];
}

static int put(struct cg_text *text, const char *name, const char *qualifier, struct holes *h)
{
	struct cg_section section;

	if (cg_section_find("scan.in", name, qualifier, &section))
		return -1;
	for (int k = 0; k < h->n; k++) {
		h->pairs[2 * k + 1] = h->text[k].at ? h->text[k].at : "";
		text->failed |= h->text[k].failed;
	}
	h->pairs[2 * h->n] = NULL;
	cg_fill(text, section.at, section.length, h->pairs);
	return text->failed ? -1 : 0;
}

static void free_holes(struct holes *h)
{
	for (int k = 0; k < h->n; k++)
		h->text[k].resize(h->text[k].at, 0);
}

static const char *word_of(const struct steps *s)
{
	return s->backward ? "backward" : "forward";
}

static const char *type_of(const struct steps *s, int type)
{
	int dtype = s->plan->dtype;

	return type == CG_TYPE_I64 ? "int64_t" : cg_type_word(&cg_dialects[CG_LANG_C], type == CG_TYPE_REAL ? dtype : cg_dtypes[dtype].acc);
}

/* ---- the header ---- */

/* "const float *c_first; int64_t c_first_stride;" */
static void declare(const struct steps *s, const struct field *f, char text[200])
{
	const char *type = type_of(s, f->type), *given = f->out ? "" : "const ", *name = f->name;

	switch (f->kind) {
	case SEQUENCE: snprintf(text, 200, "%s%s *%s; int64_t %s_stride, %s_step;", given, type, name, name, name); break;
	case ONE_STEP:
	case MATRIX:   snprintf(text, 200, "%s%s *%s; int64_t %s_stride;", given, type, name, name); break;
	case PER_UNIT: snprintf(text, 200, "%s%s *%s;", given, type, name); break;
	case MEMORY:   snprintf(text, 200, "void *%s;", name); break;
	default:       snprintf(text, 200, "%s %s;", type, name);
	}
}

static void put_struct(const struct steps *s, struct cg_text *text)
{
	enum { WIDEST = 52 };
	static const char *const flows[] = { "in     ", "out    ", "in out " };
	char line[200];
	int width = 0;

	for (int k = 0; k < s->n_fields; k++) {
		declare(s, &s->fields[k], line);
		if ((int)strlen(line) > width && strlen(line) <= WIDEST)
			width = (int)strlen(line);
	}
	cg_text_printf(text, "struct %s {\n", s->plan->key);
	for (int k = 0; k < s->n_fields; k++) {
		const struct field *f = &s->fields[k];
		int in_memory = f->kind != SCALAR && f->kind != COUNT && f->kind != MEMORY;

		declare(s, f, line);
		cg_text_printf(text, "\t%-*s /* %s%s%s%s */\n", width, line, in_memory ? flows[f->out] : "", f->shape,
		               f->shape[0] ? "  " : "", f->is);
	}
	cg_text_put(text, "};\n");
}

static void put_guard(struct cg_text *text, const char *key)
{
	for (; *key; key++)
		cg_text_put_n(text, (char[]){ (char)(*key >= 'a' && *key <= 'z' ? *key - 'a' + 'A' : *key) }, 1);
	cg_text_put(text, "_H\n");
}

static void put_linkage(struct cg_text *text, const char *name)
{
	struct cg_section section;

	if (!cg_section_find(cg_dialects[CG_LANG_C].file, name, NULL, &section))
		cg_text_put_n(text, section.at, section.length);
}

/* What the header and the source begin with, between guards, so that both may be in one file. */
static int put_declarations(const struct steps *s, struct cg_text *text)
{
#define TEXT(with, code, name, text) text,
	static const char *const passes[] = { CG_PASSES(TEXT,) };
	const struct cg_dtype_row *real = &cg_dtypes[s->plan->dtype];
	struct holes h = { .n = 0 };
	int failed;

	cg_text_put(text, "#ifndef ");
	put_guard(text, s->plan->key);
	cg_text_put(text, "#define ");
	put_guard(text, s->plan->key);
	cg_text_put(text, "\n#include <stddef.h>\n#include <stdint.h>\n\n");
	if (!real->type)
		cg_text_printf(text, "/* An element of %s is the %s. */\n\n", type_of(s, CG_TYPE_REAL), real->bits);
	put_linkage(text, "open");
	cg_text_put(add_hole(&h, "key", text->resize), s->plan->key);
	cg_text_put(add_hole(&h, "pass", text->resize), passes[s->plan->pass]);
	cg_text_put(add_hole(&h, "cell", text->resize), s->plan->cell->name);
	failed = put(text, "about", NULL, &h);
	put_struct(s, text);
	cg_text_put(text, "\n");
	failed = failed || put(text, "prototypes", NULL, &h);
	free_holes(&h);
	put_linkage(text, "close");
	cg_text_put(text, "\n#endif\n");
	return failed;
}

int cg_print_steps_header(const struct cg_pass_plan *plan, struct cg_text *text)
{
	struct steps s;

	lay_out(&s, plan);
	cg_text_printf(text, "/* %s: ", plan->key);
	cg_print_command(plan, CG_LANG_C, text);
	cg_text_put(text, " --header */\n");
	return put_declarations(&s, text) || text->failed ? -1 : 0;
}

/* ---- an argument at a step ---- */

/* The places in the work memory: two for the adjoint of each state, then of each feed; forward of each feed. */
static int feed_place(const struct steps *s, int feed)
{
	return s->backward ? 2 * s->plan->cell->n_prevs + feed : feed;
}

static int count_places(const struct steps *s)
{
	return feed_place(s, s->plan->cell->n_stages - 1);
}

static void put_sequence(struct cg_text *text, const char *name)
{
	cg_text_printf(text, "AT(a->%s, s * a->%s_step + u.first), a->%s_stride", name, name, name);
}

static void put_prev(const struct steps *s, const struct cg_argument *a, struct cg_text *text)
{
	const char *name = value_of(s, a->index);

	if (a->derivative == CG_VALUE)
		cg_text_printf(text, "s ? AT(a->%s, (s - 1) * a->%s_step + u.first) : AT(a->%s_first, u.first),\n"
		               "\ts ? a->%s_stride : a->%s_first_stride", name, name, name, name, name);
	else
		cg_text_printf(text, "s ? find_carry(a, %d, s - 1) + u.first : AT(a->%s, u.first), s ? units : a->%s_stride", a->index,
		               a->name, a->name);
}

static void put_argument(const struct steps *s, const struct cg_argument *a, struct cg_text *text)
{
	const char *d = a->derivative == CG_VALUE ? "" : "d";

	switch (a->role) {
	case CG_ROLE_GATE:
		cg_text_printf(text, "%sgates + %d * units + u.first, a->%sgates_stride", d, s->block[a->index], d);
		break;
	case CG_ROLE_PREV:
		put_prev(s, a, text);
		break;
	case CG_ROLE_STATE:
		if (a->derivative == CG_VALUE)
			put_sequence(text, a->name);
		else
			cg_text_printf(text, "s < last ? find_carry(a, %d, s) + u.first : AT(a->%s, u.first), s < last ? units : a->%s_stride",
			               a->index, a->name, a->name);
		break;
	case CG_ROLE_FEED:
		if (a->derivative == CG_VALUE && s->backward)
			put_sequence(text, a->name);
		else
			cg_text_printf(text, "%sfind_place(a, %d) + u.first, units", a->type == CG_TYPE_REAL && !s->plain ? "(real *)" : "",
			               feed_place(s, a->index));
		break;
	case CG_ROLE_WEIGHT:
		cg_text_printf(text, "AT(a->%s, u.first)", a->name);
		break;
	case CG_ROLE_PARAM:
		cg_text_printf(text, "a->%s", a->name);
		break;
	default:
		put_sequence(text, a->name);
	}
}

/* ---- the functions ---- */

static void put_operand(const struct steps *s, int stage, struct cg_text *text)
{
	int saved = cg_feed_saved(s->plan, stage - 1);
	const char *name = saved < 0 ? "" : s->plan->cell->values[s->plan->cell->saves[saved]].name;

	if (saved < 0)
		cg_text_printf(text, "%sfind_place(a, %d), units", s->plain ? "" : "(real *)", feed_place(s, stage - 1));
	else
		cg_text_printf(text, "a->%s + s * a->%s_step, a->%s_stride", name, name, name);
}

/* A function over elements and the product of its stage. */
static int put_phase(const struct steps *s, const struct cg_function *function, struct cg_text *text)
{
	int stage = function->stage - 1, failed;
	char name[CG_NAME_MAX + 16];
	struct holes h = { .n = 0 };
	struct cg_text *list;

	d_h_name(s, name);
	cg_text_put(add_hole(&h, "point", text->resize), function->key);
	cg_text_put(add_hole(&h, "h", text->resize), value_of(s, s->output));
	cg_text_put(add_hole(&h, "d_h", text->resize), name);
	cg_text_printf(add_hole(&h, "h_index", text->resize), "%d", s->output);
	cg_text_printf(add_hole(&h, "stage", text->resize), "%d", stage);
	cg_text_printf(add_hole(&h, "first", text->resize), "%d", s->first[stage]);
	cg_text_put(add_hole(&h, "more", text->resize), stage + 1 < s->plan->cell->n_stages ? "meet" : "meet && s + 1 < a->steps");
	cg_text_put(add_hole(&h, "clear", text->resize), uses_h_prev(s) ? "" : "clear(a, &u, before, stride);");
	if (stage) {
		put_operand(s, stage, add_hole(&h, "operand", text->resize));
		cg_text_printf(add_hole(&h, "place", text->resize), "%d", feed_place(s, stage - 1));
	}
	list = add_hole(&h, "arguments", text->resize);
	for (int k = 2; k < function->n_arguments; k++) {
		if (k > 2)
			cg_text_put(list, ",\n");
		put_argument(s, &function->arguments[k], list);
	}
	failed = put(text, stage ? "phase" : "phase_first", word_of(s), &h);
	free_holes(&h);
	return failed;
}

static int put_phases(const struct steps *s, struct cg_text *text)
{
	for (int p = 0; p < s->plan->n_functions; p++)
		if (put_phase(s, &s->plan->functions[p], text))
			return -1;
	return 0;
}

static void put_list(struct cg_text *text, int k, const char *form, int a, int b)
{
	cg_text_put(text, k ? ", " : "");
	cg_text_printf(text, form, a, b);
}

static int add_all_holes(const struct steps *s, struct holes *h, cg_resize *resize)
{
	const struct cg_cell *cell = s->plan->cell;
	struct cg_text *gates, *R, *stride;
	int most = CG_TILE_VECTORS, n = cell->n_stages;

	cg_text_put(add_hole(h, "key", resize), s->plan->key);
	cg_text_put(add_hole(h, "inline", resize), cg_dialects[CG_LANG_C].inlined);
	cg_text_printf(add_hole(h, "stages", resize), "%d", n);
	cg_text_printf(add_hole(h, "places", resize), "%d", count_places(s));
	cg_text_put(add_hole(h, "place_bytes", resize), count_places(s) ? " + PLACES * count_place_bytes(a)" : "");
	cg_text_put(add_hole(h, "product_is", resize), s->backward ? "adjoints of gates times the transposed matrix" :
	            "the output of the step before, or what the stage before gave, times the matrix");
	cg_text_put(add_hole(h, "gates", resize), s->backward ? "1" : "stage_gates[stage].count");
	cg_text_put(add_hole(h, "k", resize), s->backward ? "stage_gates[stage].count * a->units" : "a->units");
	cg_text_put(add_hole(h, "transposed", resize), s->backward ? "a->by_input != 0" : "!a->by_input");
	gates = add_hole(h, "stage_gates", resize);
	for (int k = 0; k < n; k++)
		put_list(gates, k, "{ %d, %d }", s->first[k], s->first[k + 1] - s->first[k]);
	R = add_hole(h, "R", resize);
	for (int k = 0; k < n; k++)
		put_list(R, k, n > 1 ? "a->R_s%d" : "a->R", k + 1, 0);
	stride = add_hole(h, "R_stride", resize);
	for (int k = 0; k < n; k++) {
		put_list(stride, k, n > 1 ? "a->R_s%d_stride" : "a->R_stride", k + 1, 0);
		most = !s->backward && s->first[k + 1] - s->first[k] > most ? s->first[k + 1] - s->first[k] : most;
	}
	cg_text_printf(add_hole(h, "most", resize), "%d", most);
	cg_text_put(add_hole(h, "pointers", resize),
	            s->backward && reads_gates(s->plan) ? "const acc *const gates = a->gates + s * a->gates_step;" : "");
	return put_phases(s, add_hole(h, "phases", resize));
}

/* Does a product begin with zeros, where no function over elements gave a part of the sum? */
static int clears(const struct steps *s)
{
	return s->backward && (s->plan->cell->n_stages > 1 || !uses_h_prev(s));
}

static int put_walk(const struct steps *s, struct cg_text *text)
{
	const char *dtype = cg_real_names[s->plan->dtype];
	struct holes h = { .n = 0 };
	int places = count_places(s), failed = add_all_holes(s, &h, text->resize);

	failed = failed || put(text, "shares", NULL, &h) || put(text, "copies", dtype, &h) ||
	         (places && (put(text, "places", NULL, &h) || put(text, "place", NULL, &h))) ||
	         (s->backward && put(text, "carry", NULL, &h)) || (clears(s) && put(text, "clear", NULL, &h)) ||
	         put(text, "tile_at", NULL, &h) ||
	         (!s->plain && put(text, "element", dtype, &h)) || put(text, "multiply", dtype, &h);
	put_linkage(text, "open");
	failed = failed || put(text, "functions", NULL, &h) || put(text, "scan", word_of(s), &h);
	put_linkage(text, "close");
	for (int k = 0; k < h.n; k++)
		text->failed |= h.text[k].failed;
	free_holes(&h);
	return failed;
}

static int put_file(struct cg_text *text, const char *name)
{
	const struct cg_embedded *e = cg_embedded;

	while (e->name && strcmp(e->name, name))
		e++;
	cg_text_put(text, e->name ? e->text : "");
	return e->name ? 0 : -1;
}

int cg_print_steps(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	static const char *const words[] = { "shuffles", NULL };
	struct holes none = { .n = 0 };
	struct steps s;

	lay_out(&s, plan);
	cg_text_printf(text, "/* %s: ", plan->key);
	cg_print_command(plan, lang, text);
	cg_text_put(text, " */\n");
	if (put_declarations(&s, text))
		return -1;
	cg_text_put(text, "\n/* ---- one step: each element from the same element of what it takes ---- */\n\n");
	if (cg_print_prelude(&plan, 1, lang, text) || cg_print_functions(plan, lang, "static ", text))
		return -1;
	cg_text_put(text, "\n/* ---- products, by tiles of units ---- */\n\n");
	if (cg_print_sections(plan->dtype, lang, words, text) || put_file(text, "tile.h"))
		return -1;
	cg_text_put(text, "\n");
	if (put(text, "fused", NULL, &none) || cg_print_tiles(plan->dtype, text) || put(text, "unfused", NULL, &none))
		return -1;
	return put_walk(&s, text) || text->failed ? -1 : 0;
}

/* ---- the manifest ---- */

static void put_entry(const struct steps *s, const struct field *f, struct cg_text *text)
{
	static const char *const kinds[] = {
		[SEQUENCE] = "sequence", [ONE_STEP] = "tensor", [PER_UNIT] = "per_unit", [SCALAR] = "scalar", [COUNT] = "count",
		[MATRIX] = "matrix", [MEMORY] = "scratch"
	};
	static const char *const roles[] = {
		[CG_ROLE_GATE] = "gate", [CG_ROLE_PREV] = "prev", [CG_ROLE_STATE] = "state", [CG_ROLE_OUTPUT] = "output",
		[CG_ROLE_SAVED] = "saved", [CG_ROLE_FEED] = "feed", [CG_ROLE_WEIGHT] = "weight", [CG_ROLE_PARAM] = "param"
	};
	static const char *const flows[] = { "in", "out", "inout" };
	int dtype = s->plan->dtype;
	char name[CG_NAME_MAX + 24], value[40];

	cg_text_printf(text, "{\"name\": \"%s\", \"role\": \"%s\", \"index\": %d, \"order\": \"%s\", \"kind\": \"%s\", \"type\": \"%s\", "
	               "\"shape\": \"%s\", \"flow\": \"%s\", \"optional\": %s", f->name, f->role < 0 ? f->kind == MATRIX ? "recurrent" : f->name : roles[f->role],
	               f->index, f->derivative == CG_VALUE ? "value" : "d", kinds[f->kind],
	               f->type == CG_TYPE_I64 ? "i64" : cg_real_names[f->type == CG_TYPE_REAL ? dtype : cg_dtypes[dtype].acc], f->shape,
	               flows[f->out],
	               !f->required && (f->kind == SEQUENCE || f->kind == ONE_STEP || f->kind == PER_UNIT) ? "true" : "false");
	if (f->role == CG_ROLE_GATE) {
		cg_text_printf(text, ", \"blocks\": %d, \"gates\": [", s->n_blocks);
		for (int k = 0; k < s->n_blocks; k++)
			cg_text_printf(text, "%s\"%s\"", k ? ", " : "", gate_at(s, k));
		cg_text_put(text, "]");
	}
	if (f->kind == SCALAR && s->plan->cell->params[f->index].given) {
		snprintf(value, sizeof value, "%.17g", s->plan->cell->params[f->index].value);
		/* As JSON has it, whatever the locale says of commas. */
		for (char *c = value; *c; c++)
			*c = strchr("0123456789+-e", *c) ? *c : '.';
		cg_text_printf(text, ", \"default\": %s", value);
	}
	cg_text_put(text, "}");
	for (int k = 1; member(f, k, name); k++)
		cg_text_printf(text, ",\n    {\"name\": \"%s\", \"of\": \"%s\", \"kind\": \"%s\", \"type\": \"i64\", \"flow\": \"in\"}", name, f->name,
		               k == 1 ? "stride" : "step");
}

int cg_print_steps_manifest(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	const struct cg_cell *cell = plan->cell;
	const char *first = "";
	struct steps s;

	lay_out(&s, plan);
	cg_text_printf(text, "{\n  \"key\": \"%s\",\n  \"command\": \"", plan->key);
	cg_print_command(plan, lang, text);
	cg_text_printf(text, "\",\n  \"lang\": \"%s\",\n  \"shape\": \"scan\",\n  \"cell\": \"%s\",\n  \"options\": [", cg_lang_names[lang],
	               cell->name);
	for (int k = 0; k < cell->n_options; k++)
		if (plan->options >> k & 1) {
			cg_text_printf(text, "%s\"%s\"", first, cell->options[k].name);
			first = ", ";
		}
	cg_text_printf(text, "],\n  \"pass\": \"%s\",\n  \"dtype\": \"%s\",\n  \"real\": \"%s\",\n  \"acc\": \"%s\",\n  \"flags\": %s,\n"
	               "  \"functions\": {\"bytes\": \"%s_bytes\", \"pack\": \"%s_pack\", \"scan\": \"%s\"},\n  \"struct\": \"%s\",\n"
	               "  \"fields\": [",
	               cg_pass_names[plan->pass], cg_real_names[plan->dtype], cg_real_names[plan->dtype],
	               cg_real_names[cg_dtypes[plan->dtype].acc],
	               cg_dialects[lang].flags, plan->key, plan->key, plan->key, plan->key);
	for (int k = 0; k < s.n_fields; k++) {
		cg_text_put(text, k ? ",\n    " : "\n    ");
		put_entry(&s, &s.fields[k], text);
	}
	cg_text_put(text, "\n  ]\n}\n");
	return text->failed ? -1 : 0;
}
