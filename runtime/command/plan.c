/*
 * What `cellgrad run` does for networks beyond what it does for every op: the cell that was named and its values, lists of tensors
 * as ports, and whose a reserve is.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/command/call.h"
#include "runtime/command/field.h"
#include "runtime/command/print.h"
#include "runtime/rnn.h"

struct call_plan {
	struct cg_cell *parsed;                  /* of a file; NULL: built in */
	struct cg_value values[CG_PARAMS_MAX];
	char *text;                              /* their names are in it */
	struct cg_op *wide;                      /* the row with a port for each tensor of a list */
	char route[64];
};

/* In the metadata of a file that has a reserve. */
static const char route_key[] = "route";

/* ---- the cell ---- */

static const struct cg_attribute *find(const struct call *c, const char *name)
{
	const struct cg_attribute *a = c->row->attributes;

	while (a->name && strcmp(a->name, name))
		a++;
	return a->name ? a : NULL;
}

static int is_given(const struct call *c, const char *name)
{
	const struct cg_attribute *a = find(c, name);

	return a && c->attributes >> (a - c->row->attributes) & 1;
}

static int read_cell(struct call *c, struct cg_rnn_op *op)
{
	if (!op->cell_name)
		return CG_OK;
	if (is_given(c, "rnn_mode") && is_given(c, "cell"))
		return cg_fail(CG_BAD_ARGUMENT, "%s: rnn_mode names a cell, and so does cell: expected one of them", c->name);
	/* What is said here is stronger than what the files say. */
	if (is_given(c, "rnn_mode")) {
		op->cell_name = NULL;
		return CG_OK;
	}
	return file_cell(op->cell_name, is_given(c, "cell"), &op->cell, &c->plan->parsed) ? cg_fail_in(CG_BAD_ARGUMENT, "cell") : CG_OK;
}

int plan_values(const char *text, char **memory, struct cg_value values[], int *n)
{
	char *word, *rest, *equals, shown[PRINT_NAME];

	*memory = cg_memory(NULL, strlen(text) + 1);
	if (!*memory)
		return CG_NO_MEMORY;
	for (rest = strcpy(*memory, text); (word = strtok_r(rest, ",", &rest)); ++*n) {
		equals = strchr(word, '=');
		if (*n == CG_PARAMS_MAX)
			return cg_fail(CG_BAD_ARGUMENT, "values: expected at most %d", CG_PARAMS_MAX);
		if (!equals || field_real(equals + 1, &values[*n].value))
			return cg_fail(CG_BAD_ARGUMENT, "values: expected NAME=NUMBER with commas between, got \"%s\"", print_name(shown, word));
		*equals = '\0';
		values[*n].name = word;
	}
	return CG_OK;
}

static int read_values(struct call *c, struct cg_rnn_op *op)
{
	op->values = c->plan->values;
	return op->values_text ? plan_values(op->values_text, &c->plan->text, c->plan->values, &op->n_values) : CG_OK;
}

/* ---- lists ---- */

/* What the lists hold follows from attributes alone. */
static int widen(struct call *c, unsigned *bound)
{
	struct call_argument *arguments;
	int n = 0;

	if (!c->row->items)
		return CG_OK;
	CG_TRY(cg_op_widen(c->row, &c->op, &c->plan->wide));
	c->row = c->plan->wide;
	while (c->row->ports[n].name)
		n++;
	arguments = cg_memory(c->arguments, (size_t)n * sizeof *arguments);
	if (!arguments)
		return CG_NO_MEMORY;
	memset(arguments, 0, (size_t)n * sizeof *arguments);
	c->arguments = arguments;
	c->n = n;
	return c->row->settle(c->row, c->op, bound);
}

int plan_bind(struct call *c, unsigned *bound)
{
	if (!c->row->plan)
		return CG_OK;
	c->plan = cg_memory(NULL, sizeof *c->plan);
	if (!c->plan)
		return CG_NO_MEMORY;
	*c->plan = (struct call_plan){ .parsed = NULL };
	CG_TRY(read_cell(c, c->op));
	CG_TRY(read_values(c, c->op));
	return widen(c, bound);
}

void plan_close(struct call *c)
{
	if (!c->plan)
		return;
	cg_cell_close(c->plan->parsed);
	cg_memory(c->plan->text, 0);
	cg_memory(c->plan->wide, 0);
	c->plan = cg_memory(c->plan, 0);
}

/* ---- whose reserve ---- */

/* The file that the reserve is from, or NULL. */
static const struct safetensors *reserve_file(const struct call *c)
{
	for (int k = 0; k < c->n; k++)
		if (c->row->ports[k].flow == CG_IN && c->arguments[k].tensor && !strcmp(c->row->ports[k].name, "reserve_space"))
			return c->arguments[k].file;
	return NULL;
}

static int foreign(const struct safetensors *file, const char *words)
{
	return cg_fail(CG_BAD_ARGUMENT, "%s: reserve_space: %s", file->path, words);
}

int plan_reserve(const struct call *c)
{
	const struct safetensors *file = c->plan ? reserve_file(c) : NULL;
	const char *training = file ? safetensors_metadata(file, "is_training") : NULL;

	if (training && !strcmp(training, "false"))
		return foreign(file, "of a forward with is_training=false, which keeps nothing for a gradient");
	return CG_OK;
}

/* What the shapes said is said on: to who has the parameters' gradient without them. */
static void say_sizes(struct cg_rnn_op *op)
{
	op->num_layers = op->L;
	op->num_units = op->U;
}

int plan_opened(struct call *c)
{
	const struct safetensors *file = c->plan ? reserve_file(c) : NULL;
	const char *route = file ? safetensors_metadata(file, route_key) : NULL;
	struct cg_rnn_op *op = c->op;
	char words[256];

	if (!c->plan)
		return CG_OK;
	say_sizes(op);
	/* Its first word: why no other was taken makes no difference to a reserve. */
	snprintf(c->plan->route, sizeof c->plan->route, "%.*s", (int)strcspn(cg_rnn_route(op->rnn), " "), cg_rnn_route(op->rnn));
	if (!route || !strcmp(route, c->plan->route))
		return CG_OK;
	snprintf(words, sizeof words, "expected one of the route %s, got one of the route %.64s", c->plan->route, route);
	return foreign(file, words);
}

/* The attributes that the reserve was made with, where they are others than the call's. */
int plan_failed(const struct call *c, int code)
{
	const struct safetensors *file = c->plan ? reserve_file(c) : NULL;
	char text[CG_ATTRIBUTE_TEXT], shown[PRINT_NAME], words[512] = "";

	if (!file || code != CG_BAD_ARGUMENT || !safetensors_metadata(file, route_key))
		return code;
	say_sizes(c->op);
	for (const struct cg_attribute *a = c->row->attributes; a->name; a++) {
		const char *theirs = safetensors_metadata(file, a->name), *ours = cg_attribute_text(a, c->op, text);
		size_t n = strlen(words);

		if (theirs && strcmp(theirs, ours))
			snprintf(words + n, sizeof words - n, "%s%s=%s, not %s", *words ? "; " : "", a->name, print_name(shown, theirs), ours);
	}
	if (*words)
		return cg_fail_in(code, "%s: reserve_space was made with %s", file->path, words);
	return cg_fail_in(code, "%s: reserve_space", file->path);
}

int plan_metadata(const struct call *c, json_t *all)
{
	const struct cg_rnn_op *op = c->op;
	char size[32];

	snprintf(size, sizeof size, "%lld", c->row->route ? (long long)op->I : 0);
	if (c->row->route && json_object_set_new(all, "input_size", json_string(size)))
		return -1;
	for (const struct cg_port *p = c->row->ports; p->name; p++)
		if (c->plan && p->flow != CG_IN && !strcmp(p->name, "reserve_space"))
			return json_object_set_new(all, route_key, json_string(c->plan->route));
	return 0;
}
