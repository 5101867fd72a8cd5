/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the lines of a .cell, declarations and equations, and checks the whole cell after the last line.
 */
#include "parse.h"

#include <stdio.h>
#include <string.h>

static int full(struct parser *p, int n, int most, const char *what)
{
	return n < most ? 0 : cg_parse_wrong(p, p->at, "a cell has at most %d %s", most, what);
}

enum { OF_X = 1 << CG_PART_W | 1 << CG_PART_BIAS_W, OF_H = 1 << CG_PART_R | 1 << CG_PART_BIAS_R };

/* Reads "no bias" at the end of a line, if it is there, and removes the biases of the gates that the line declares.  Returns 1: the line
 * ends; 0: it goes on with a gate; -1: a mistake. */
static int no_bias(struct parser *p, int first)
{
	const char *at, *const bias = "bias";
	char word[CG_NAME_MAX + 1];

	cg_parse_skip(p);
	at = p->at;
	if (strncmp(at, "no", 2) || (at[2] != ' ' && at[2] != '\t'))
		return 0;
	p->at += 2;
	cg_parse_skip(p);
	word[0] = 0;
	if (cg_is_letter(*p->at) && cg_parse_word(p, word, "'bias'"))
		return -1;
	if (word[0] && cg_parse_line_end(p)) {
		if (strcmp(word, bias) && cg_nearest(word, &bias, 1))
			return cg_parse_wrong(p, at, "expected 'no bias' at the end of the line, got 'no %s'", word);
		if (!strcmp(word, bias)) {
			for (int k = first; k < p->cell->n_gates; k++)
				p->cell->gates[k].parts &= ~(unsigned)CG_GATE_BIASES;
			return 1;
		}
	}
	p->at = at;
	return 0;
}

static int gates(struct parser *p, int split, unsigned parts)
{
	struct cg_cell *cell = p->cell;
	int first = cell->n_gates, ended = 0;

	do {
		struct cg_gate *gate = &cell->gates[cell->n_gates];
		char bias[CG_NAME_MAX + 3] = "b_";
		const char *position;
		int own = p->n_symbols;

		if (full(p, cell->n_gates, CG_GATES_MAX, "gates") || (cg_parse_skip(p), position = p->at, cg_parse_word(p, gate->name, "a gate")))
			return -1;
		gate->stage = p->stage;
		gate->split = split;
		gate->parts = parts;
		gate->whole = -1;
		gate->position = position;
		strcat(bias, gate->name + (strncmp(gate->name, "a_", 2) ? 0 : 2));
		if (cg_parse_declare(p, position, gate->name, CG_SYMBOL_GATE, cell->n_gates) || cg_parse_declare(p, position, bias, DERIVED, own))
			return -1;
		cell->n_gates++;
		if (parts != (OF_X | OF_H))
			ended = no_bias(p, first);
	} while (!ended && !cg_parse_line_end(p));
	return ended < 0 ? -1 : 0;
}

static int prevs(struct parser *p, int output)
{
	struct cg_cell *cell = p->cell;

	do {
		struct cg_prev *prev = &cell->prevs[cell->n_prevs];
		char name[CG_NAME_MAX + 1], of[CG_NAME_MAX + 6];
		const char *position;

		int outputs = 0;

		for (int k = 0; k < cell->n_prevs; k++)
			outputs += cell->prevs[k].output;
		if ((!output && full(p, cell->n_prevs - outputs, CG_STATES_MAX, "states")) ||
		    (cg_parse_skip(p), position = p->at, cg_parse_word(p, name, output ? "the output" : "a state")))
			return -1;
		if (output && outputs)
			return cg_parse_wrong(p, position, "a cell has one output: expected no other");
		snprintf(of, sizeof of, "%s_prev", name);
		if (cg_parse_find(p, name) || strlen(of) > CG_NAME_MAX)
			return cg_parse_wrong(p, position, "'%s' is %s", name,
			                      cg_parse_find(p, name) ? "declared already" : "too long for a state or the output");
		if (cg_parse_argument(p, position, name))
			return -1;
		memcpy(prev->name, of, sizeof of);
		prev->value = -1;
		prev->output = output;
		if (cg_parse_declare(p, position, of, CG_SYMBOL_PREV, cell->n_prevs))
			return -1;
		cell->n_prevs++;
	} while (!cg_parse_line_end(p));
	return 0;
}

static void join(const struct cg_cell *cell, int options, const char *between, char text[CG_KEY_MAX])
{
	int n = 0;

	for (int k = 0; k < CG_OPTIONS_MAX; k++)
		if (options >> k & 1)
			n += snprintf(text + n, CG_KEY_MAX - (size_t)n, "%s%s", n ? between : "", cell->options[k].name);
}

/* Finds options of the cell, from number `from` on, whose names joined by "_" make the text. Returns a bit for each option found, or 0
 * where no options make the text. */
static int joined(const struct cg_cell *cell, int from, const char *text)
{
	for (int k = from; k < cell->n_options; k++) {
		size_t n = strlen(cell->options[k].name);
		int rest = 0;

		if (strncmp(text, cell->options[k].name, n) || (text[n] && text[n] != '_'))
			continue;
		if (!text[n] || (rest = joined(cell, k + 1, text + n + 1)))
			return rest | 1 << k;
	}
	return 0;
}

/* Refuses a new option that would give two kernels one name: a kernel's name contains the names of its options, and "a_b" may be one
 * option or two. The cell's options do not contain the new one yet. */
static int ambiguous(struct parser *p, const char *position)
{
	const struct cg_cell *cell = p->cell;
	int last = 1 << cell->n_options;
	char text[CG_KEY_MAX], other[CG_KEY_MAX];

	for (int options = last; options < 2 * last; options++) {
		int same;

		join(cell, options, "_", text);
		same = joined(cell, 0, text);
		if (same) {
			join(cell, same, ",", other);
			join(cell, options, ",", text);
			return cg_parse_wrong(p, position, "kernels with the options '%s' and '%s' would have the same name; choose another", other,
			                      text);
		}
	}
	return 0;
}

/* Reads "= NUMBER", if it is there.  Returns 1: there is a number; 0: there is none; -1: there is a mistake. */
static int given_number(struct parser *p, double *value)
{
	long double number;
	int minus;

	cg_parse_skip(p);
	if (*p->at != '=')
		return 0;
	p->at++;
	cg_parse_skip(p);
	minus = *p->at == '-';
	p->at += minus;
	if (cg_parse_number(p, &number))
		return -1;
	*value = (double)(minus ? -number : number);
	return 1;
}

/* Reads the names of per-unit weights, which the cell has with an option, or always (option -1), and the number with which their training
 * starts, if there is one. */
static int read_weights(struct parser *p, int option)
{
	struct cg_cell *cell = p->cell;
	int first = cell->n_weights, given = 0;
	double start = 0;

	do {
		struct cg_weight *weight = &cell->weights[cell->n_weights];
		const char *position;

		if (full(p, cell->n_weights, CG_WEIGHTS_MAX, "per-unit weights") ||
		    (cg_parse_skip(p), position = p->at, cg_parse_word(p, weight->name, "a per-unit weight")))
			return -1;
		weight->option = option;
		if (cg_parse_declare(p, position, weight->name, CG_SYMBOL_WEIGHT, cell->n_weights))
			return -1;
		cell->n_weights++;
		given = given_number(p, &start);
	} while (!given && !cg_parse_line_end(p));
	for (int k = first; k < cell->n_weights; k++) {
		cell->weights[k].given = given;
		cell->weights[k].start = start;
	}
	return given < 0 ? -1 : 0;
}

static int weights(struct parser *p)
{
	return read_weights(p, -1);
}

static int option(struct parser *p)
{
	struct cg_cell *cell = p->cell;
	struct cg_option *option = &cell->options[cell->n_options];
	const char *name;

	if (full(p, cell->n_options, CG_OPTIONS_MAX, "options") ||
	    (cg_parse_skip(p), name = p->at, cg_parse_word(p, option->name, "the option's name")))
		return -1;
	for (int k = 0; k < cell->n_options; k++)
		if (!strcmp(cell->options[k].name, option->name))
			return cg_parse_wrong(p, p->at, "option '%s' is declared already", option->name);
	if (cg_parse_free_word(p, name, option->name) || ambiguous(p, name))
		return -1;
	if (read_weights(p, cell->n_options))
		return -1;
	cell->n_options++;
	return 0;
}

static int param(struct parser *p)
{
	struct cg_cell *cell = p->cell;
	struct cg_param *param = &cell->params[cell->n_params];
	const char *position;

	if (full(p, cell->n_params, CG_PARAMS_MAX, "params") ||
	    (cg_parse_skip(p), position = p->at, cg_parse_word(p, param->name, "a param")) ||
	    cg_parse_declare(p, position, param->name, CG_SYMBOL_PARAM, cell->n_params))
		return -1;
	cell->n_params++;
	param->given = given_number(p, &param->value);
	return param->given < 0 ? -1 : 0;
}

static int scalar(struct parser *p)
{
	struct cg_cell *cell = p->cell;
	struct cg_scalar *scalar = &cell->scalars[cell->n_scalars];
	const char *position;
	int given;

	if (full(p, cell->n_scalars, CG_SCALARS_MAX, "scalars") ||
	    (cg_parse_skip(p), position = p->at, cg_parse_word(p, scalar->name, "a scalar")) ||
	    cg_parse_declare(p, position, scalar->name, CG_SYMBOL_SCALAR, cell->n_scalars))
		return -1;
	cell->n_scalars++;
	given = given_number(p, &scalar->start);
	return given ? given < 0 ? -1 : 0
	             : cg_parse_wrong(p, p->at, "expected '=' after scalar '%s', and the number with which its training starts",
	                              scalar->name);
}

/* Reads a list with commas. */
static int list(struct parser *p, int (*read)(struct parser *), const char *what)
{
	for (;;) {
		if (read(p))
			return -1;
		if (cg_parse_line_end(p))
			return 0;
		if (cg_parse_expect(p, ',', what))
			return -1;
	}
}

static int params(struct parser *p)  { return list(p, param, "the param"); }
static int scalars(struct parser *p) { return list(p, scalar, "the scalar"); }

/* Reads the name of a value that an equation above computes. */
static int value(struct parser *p, const char *what)
{
	char name[CG_NAME_MAX + 1];
	const struct symbol *symbol;
	const char *position;

	cg_parse_skip(p);
	position = p->at;
	if (cg_parse_word(p, name, what))
		return -1;
	symbol = cg_parse_find(p, name);
	if (!symbol || symbol->kind == DERIVED)
		return cg_parse_unknown(p, position, name);
	if (symbol->kind != CG_SYMBOL_VALUE)
		return cg_parse_wrong(p, position, "'%s' is %s: expected a value that an equation above computes", name,
		                      cg_symbol_kinds[symbol->kind]);
	return symbol->index;
}

static int stage(struct parser *p)
{
	struct cg_cell *cell = p->cell;
	const char *position;
	int feed;

	cg_parse_skip(p);
	position = p->at;
	if (full(p, p->stage, CG_STAGES_MAX, "stages") || (feed = value(p, "the value that the new stage's product takes")) < 0)
		return -1;
	/* No product may take a state or the output: the function that computes the value has an argument for the value already. */
	for (int k = 0; k < cell->n_prevs; k++)
		if (cell->prevs[k].value == feed)
			return cg_parse_wrong(p, position, "'%s' is a state or the output; give an equation of its own to the value that "
			                      "a product takes",
			                      cell->values[feed].name);
	for (int s = 1; s < p->stage; s++)
		if (cell->feeds[s - 1] == feed)
			return cg_parse_wrong(p, position, "the product of another stage takes '%s' already", cell->values[feed].name);
	if (cg_parse_argument(p, position, cell->values[feed].name))
		return -1;
	p->stages[p->stage] = position;
	cell->feeds[p->stage++ - 1] = feed;
	cell->n_stages = p->stage;
	return 0;
}

static int save(struct parser *p)
{
	struct cg_cell *cell = p->cell;

	do {
		int k;

		if (full(p, cell->n_saves, CG_SAVES_MAX, "saved values") || (k = value(p, "a value to save")) < 0)
			return -1;
		for (int j = 0; j < cell->n_saves; j++)
			if (cell->saves[j] == k)
				return cg_parse_wrong(p, p->at, "'%s' is saved already", cell->values[k].name);
		cell->saves[cell->n_saves++] = k;
	} while (!cg_parse_line_end(p));
	return 0;
}

static int equation(struct parser *p, const char *start, const char *name)
{
	struct cg_cell *cell = p->cell;
	struct cg_equation *v = &cell->values[cell->n_values];
	size_t n = 0;

	if (full(p, cell->n_values, CG_VALUES_MAX, "equations") || (v->term = cg_parse_sum(p)) < 0)
		return -1;
	cg_parse_skip(p);
	if (!cg_parse_line_end(p))
		return cg_parse_expected(p, "an operator or the end of the line");
	strcpy(v->name, name);
	v->stage = p->stage;
	/* Kernels quote the equation as written, up to CG_LINE_MAX characters, with blanks folded and comments dropped. */
	for (const char *s = start; s < p->at && n < CG_LINE_MAX; s++) {
		if (*s == '#')
			s += strcspn(s, "\n") - 1;
		else if (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r')
			n += n && v->line[n - 1] != ' ' ? (v->line[n] = ' ', 1) : 0;
		else
			v->line[n++] = *s;
	}
	while (n && v->line[n - 1] == ' ')
		n--;
	v->line[n] = 0;
	if (cg_parse_declare(p, start, name, CG_SYMBOL_VALUE, cell->n_values))
		return -1;
	for (int k = 0; k < cell->n_prevs; k++)
		if (!strncmp(cell->prevs[k].name, name, strlen(name)) && !strcmp(cell->prevs[k].name + strlen(name), "_prev"))
			cell->prevs[k].value = cell->n_values;
	cell->n_values++;
	return 0;
}

static int name_cell(struct parser *p)
{
	if (p->cell->name[0])
		return cg_parse_wrong(p, p->at - strlen("cell"), "a file holds one cell");
	if (cg_parse_word(p, p->cell->name, "the cell's name"))
		return -1;
	p->cell_position = p->at - strlen(p->cell->name);
	return cg_parse_free_word(p, p->cell_position, p->cell->name);
}

static int whole_gates(struct parser *p) { return gates(p, 0, OF_X | OF_H); }
static int split_gates(struct parser *p) { return gates(p, 1, OF_H); }
static int input_gates(struct parser *p) { return gates(p, 0, OF_X); }
static int states(struct parser *p)      { return prevs(p, 0); }
static int output(struct parser *p)      { return prevs(p, 1); }

/* The declarations.  note: what a message adds to the word; "": nothing.  is_free: an equation may have the word as the name of its value,
 * as in cells that are older than the declaration. */
static const struct { const char *word; int (*read)(struct parser *); const char *note; int is_free; } declarations[] = {
	{ "cell", name_cell, "", 0 }, { "gates", whole_gates, "", 0 }, { "split", split_gates, " (of h alone)", 0 },
	{ "input", input_gates, " (of x alone)", 1 }, { "state", states, "", 0 },
	{ "output", output, "", 0 }, { "option", option, " (per-unit weights)", 0 }, { "weight", weights, " (per unit)", 1 },
	{ "scalar", scalars, " (learnt)", 1 }, { "param", params, " (constant)", 0 }, { "stage", stage, "", 0 }, { "save", save, "", 0 },
};
enum { DECLARATIONS = sizeof declarations / sizeof *declarations };

static int no_declaration(struct parser *p, const char *start, const char *name)
{
	const char *words[DECLARATIONS], *near;
	char all[200] = "";

	for (int k = 0; k < DECLARATIONS; k++) {
		words[k] = declarations[k].word;
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s%s", k ? ", " : "", words[k], declarations[k].note);
	}
	near = cg_nearest(name, words, DECLARATIONS);
	if (near)
		return cg_parse_wrong(p, start, "there is no declaration '%s'; did you mean '%s'?", name, near);
	if (cg_is_letter(*p->at))
		return cg_parse_wrong(p, start, "there is no declaration '%s': there are %s; an equation has '=' here", name, all);
	return cg_parse_wrong(p, p->at, "expected '=' after '%s'", name);
}

/* Does '=' follow the name that has been read? */
static int is_equation(struct parser *p)
{
	cg_parse_skip(p);
	return *p->at == '=';
}

static int line(struct parser *p)
{
	char name[CG_NAME_MAX + 1];
	const char *start = p->at;

	if (cg_parse_word(p, name, "a declaration or an equation"))
		return -1;
	if (!p->cell->name[0] && strcmp(name, "cell"))
		return cg_parse_wrong(p, start, "expected 'cell NAME' first");
	for (int k = 0; k < DECLARATIONS; k++)
		if (!strcmp(name, declarations[k].word) && !(declarations[k].is_free && is_equation(p)))
			return declarations[k].read(p);
	cg_parse_skip(p);
	if (*p->at == '=') {
		p->at++;
		return equation(p, start, name);
	}
	if (!*p->at || *p->at == '\n')
		return cg_parse_wrong(p, p->at, "expected '=' after '%s'", name);
	return no_declaration(p, start, name);
}

/* ---- checks of the whole cell ---- */

/* Reports an unused name, at the place where the cell declares it. */
static int unused(struct parser *p, const char *what, const char *name)
{
	return cg_parse_wrong(p, cg_parse_find(p, name)->position, "%s '%s' is not used", what, name);
}

/* Is an equation's value used: by another equation, the next step, a product or the gradient? */
static int is_taken(const struct parser *p, int value)
{
	const struct cg_cell *cell = p->cell;
	int is_used = p->used[CG_SYMBOL_VALUE][value];

	for (int k = 0; k < cell->n_prevs; k++)
		is_used |= cell->prevs[k].value == value;
	for (int k = 0; k < cell->n_stages - 1; k++)
		is_used |= cell->feeds[k] == value;
	for (int k = 0; k < cell->n_saves; k++)
		is_used |= cell->saves[k] == value;
	return is_used;
}

static int all_used(struct parser *p)
{
	const struct cg_cell *cell = p->cell;

	for (int k = 0; k < cell->n_gates; k++)
		if (!p->used[CG_SYMBOL_GATE][k])
			return unused(p, "gate", cell->gates[k].name);
	for (int k = 0; k < cell->n_weights; k++)
		if (!p->used[CG_SYMBOL_WEIGHT][k])
			return unused(p, "per-unit weight", cell->weights[k].name);
	for (int k = 0; k < cell->n_scalars; k++)
		if (!p->used[CG_SYMBOL_SCALAR][k])
			return unused(p, "scalar", cell->scalars[k].name);
	for (int k = 0; k < cell->n_params; k++)
		if (!p->used[CG_SYMBOL_PARAM][k])
			return unused(p, "param", cell->params[k].name);
	for (int k = 0; k < cell->n_values; k++)
		if (!is_taken(p, k))
			return unused(p, "equation", cell->values[k].name);
	return 0;
}

/* The index of the gate of the same stage whose recurrent part a split gate is; -1: there is none. The two gates, as q_n and a_n, have
 * equal names from the first _ on. */
static int whole_of(const struct cg_cell *cell, const struct cg_gate *split)
{
	const char *end = strchr(split->name, '_'), *other;

	for (int k = 0; k < cell->n_gates && end; k++) {
		other = strchr(cell->gates[k].name, '_');
		if (cell->gates[k].parts == (OF_X | OF_H) && cell->gates[k].stage == split->stage && other && !strcmp(end, other))
			return k;
	}
	return -1;
}

/* Finds, for each split gate, the gate whose recurrent part it is, and removes that part from the parts of the gate found. */
static void pair_gates(struct cg_cell *cell)
{
	for (int k = 0; k < cell->n_gates; k++)
		if (cell->gates[k].split)
			cell->gates[k].whole = whole_of(cell, &cell->gates[k]);
	for (int k = 0; k < cell->n_gates; k++)
		if (cell->gates[k].whole >= 0)
			cell->gates[cell->gates[k].whole].parts &= OF_X;
}

int cg_has_product(const struct cg_cell *cell, int stage)
{
	int any = 0;

	for (int k = 0; k < cell->n_gates; k++)
		any |= cell->gates[k].stage == stage && (cell->gates[k].parts & 1 << CG_PART_R);
	return any;
}

unsigned cg_gate_weights(const struct cg_cell *cell, int gate)
{
	unsigned parts = cell->gates[gate].parts;

	for (int k = 0; k < cell->n_gates; k++)
		if (cell->gates[k].whole == gate)
			parts |= cell->gates[k].parts;
	return parts;
}

/* Refuses means of means of more than CG_MEANS_MAX levels, at the equation that has one more. */
static int check_means(struct parser *p)
{
	const struct cg_cell *cell = p->cell;
	signed char *levels = cg_arena_alloc(&p->cell->memory, (size_t)cell->n_terms + 1);
	int n = 0;

	if (!levels)
		return -1;
	for (int k = 0; k < cell->n_values; k++)
		for (; n <= cell->values[k].term; n++) {
			const struct cg_term *t = &cell->terms[n];
			int is_value = t->code == CG_TERM_SYMBOL && t->a == CG_SYMBOL_VALUE, is_leaf = t->code == CG_TERM_SYMBOL || t->code == CG_OP_CONST;

			levels[n] = is_value ? levels[cell->values[t->b].term] : is_leaf ? 0 : levels[t->a];
			if (!is_leaf && t->b >= 0 && levels[t->b] > levels[n])
				levels[n] = levels[t->b];
			levels[n] = (signed char)(levels[n] + (t->code == CG_OP_MEAN));
			if (levels[n] > CG_MEANS_MAX)
				return cg_parse_wrong(p, cg_parse_find(p, cell->values[k].name)->position, "'%s' has means of means of more than %d levels",
				                      cell->values[k].name, CG_MEANS_MAX);
		}
	return 0;
}

static int whole(struct parser *p)
{
	struct cg_cell *cell = p->cell;
	int output = 0;

	if (!cell->name[0])
		return cg_parse_wrong(p, p->at, "expected 'cell NAME', got the end of the text");
	pair_gates(cell);
	if (!cell->n_gates)
		return cg_parse_wrong(p, p->cell_position, "cell '%s' has no gates: expected a line 'gates' or 'input', through which the "
		                      "cell gets its input", cell->name);
	for (int k = 0; k < cell->n_prevs; k++) {
		const struct cg_prev *prev = &cell->prevs[k];

		output |= prev->output;
		if (prev->value < 0)
			return cg_parse_wrong(p, cg_parse_find(p, prev->name)->position, "no equation computes %s '%.*s'",
			                      prev->output ? "the output" : "state", (int)strlen(prev->name) - 5, prev->name);
	}
	if (!output)
		return cg_parse_wrong(p, p->cell_position, "cell '%s' has no 'output'", cell->name);
	for (int s = 1; s < cell->n_stages; s++)
		if (!cg_has_product(cell, s + 1))
			return cg_parse_wrong(p, p->stages[s],
			                      "stage %d has no gate for its product: expected a line 'gates' or 'split' below", s + 1);
	return all_used(p) || check_means(p) ? -1 : 0;
}

static int lines(struct parser *p)
{
	for (;;) {
		cg_parse_skip(p);
		if (*p->at == '\n') {
			p->at++;
		} else if (!*p->at) {
			return whole(p);
		} else if (line(p)) {
			return -1;
		} else if (!cg_parse_line_end(p)) {
			return cg_parse_expected(p, "the end of the line");
		}
	}
}

/* Copies a text into the cell's memory. */
static const char *keep(struct cg_cell *cell, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *own = cg_arena_alloc(&cell->memory, bytes);

	return own ? memcpy(own, text, bytes) : NULL;
}

static int parse(struct cg_cell *cell, struct parser *p, const char *text, const char *name_in_errors)
{
	cell->n_stages = p->stage = 1;
	cell->text = p->at = keep(cell, text);
	cell->file = keep(cell, name_in_errors);
	p->cell = cell;
	return cell->text && cell->file && !lines(p) && !cell->memory.failed ? 0 : -1;
}

struct cg_cell *cg_parse(const char *text, const char *name_in_errors, cg_resize *resize, struct cg_mistake *mistake)
{
	size_t bytes = strlen(text);
	struct cg_cell *cell;
	struct parser *p;
	int failed = -1;

	mistake->text[0] = 0;
	if (bytes > CG_TEXT_MAX) {
		snprintf(mistake->text, sizeof mistake->text, "%s: a cell has at most %d bytes, this one %zu", name_in_errors,
		         CG_TEXT_MAX, bytes);
		return NULL;
	}
	cell = resize(NULL, sizeof *cell);
	p = resize(NULL, sizeof *p);
	if (cell)
		*cell = (struct cg_cell){ .memory.resize = resize };
	if (cell && p) {
		memset(p, 0, sizeof *p);
		p->mistake = mistake;
		failed = parse(cell, p, text, name_in_errors);
	}
	if (p)
		resize(p, 0);
	if (!failed)
		return cell;
	cg_parse_free(cell);
	return NULL;
}

void cg_parse_free(struct cg_cell *cell)
{
	if (cell) {
		cg_resize *resize = cell->memory.resize;

		cg_arena_free(&cell->memory);
		resize(cell, 0);
	}
}

int cg_check_split(const struct cg_cell *cell, struct cg_mistake *mistake)
{
	char words[CG_LINE_MAX];

	for (int k = 0; k < cell->n_gates; k++) {
		const struct cg_gate *gate = &cell->gates[k];
		int before = 0;

		while (before < k && cell->gates[before].whole != gate->whole)
			before++;
		if (gate->whole < 0 || before == k)
			continue;
		snprintf(words, sizeof words, "split gate '%s' would be the recurrent part of gate '%s', which has the split gate '%s' already", gate->name,
		         cell->gates[gate->whole].name, cell->gates[before].name);
		cg_mistake_at(mistake, cell, gate->position, words);
		return -1;
	}
	return 0;
}

int cg_has_weight(const struct cg_weight *weight, int options)
{
	return weight->option < 0 || (options >> weight->option & 1);
}

int cg_saves_output(const struct cg_cell *cell)
{
	for (int k = 0; k < cell->n_prevs; k++)
		for (int j = 0; j < cell->n_saves && cell->prevs[k].output; j++)
			if (cell->saves[j] == cell->prevs[k].value)
				return 1;
	return 0;
}

int cg_parse_options(const struct cg_cell *cell, const char *names, struct cg_mistake *mistake)
{
	int bits = 0;

	while (names && *names) {
		size_t n = strcspn(names, ",");
		int k = 0;

		while (k < cell->n_options && (strlen(cell->options[k].name) != n || memcmp(cell->options[k].name, names, n)))
			k++;
		if (k == cell->n_options) {
			snprintf(mistake->text, sizeof mistake->text, "cell %s has no option '%.*s'%s%s", cell->name,
			         n < 60 ? (int)n : 60, names, cell->n_options ? "; it has " : "",
			         cell->n_options ? cell->options[0].name : "");
			for (k = 1; k < cell->n_options; k++) {
				size_t used = strlen(mistake->text);

				snprintf(mistake->text + used, sizeof mistake->text - used, ", %s", cell->options[k].name);
			}
			return -1;
		}
		bits |= 1 << k;
		names += n + (names[n] == ',');
	}
	return bits;
}
