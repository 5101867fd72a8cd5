/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of `cellgrad run` for networks alone: finds the cell and the values of its params, makes ports for lists of tensors, and
 * checks which network a reserve space belongs to.
 */
#include <stdio.h>
#include <string.h>

#include "command/command.h"
#include "verify/field.h"
#include "command/run/metadata.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

struct call_plan {
	struct cg_cell *parsed;                  /* the cell, if it is from a .cell file; NULL: the cell is the library's */
	struct cg_value values[CG_PARAMS_MAX];
	char *text;                              /* the memory of the names in `values` */
	struct cg_op *wide;                      /* the op's row, with a port for each tensor of a list */
	char route[64];
};

/* The metadata key for the route, in a file with a reserve space. */
static const char route_key[] = "route";

/* ---- the cell ---- */

static int mode_of(const char *cell)
{
	int mode = 0;

	while (cg_rnn_modes[mode] && strcmp(cg_rnn_modes[mode], cell))
		mode++;
	return cg_rnn_modes[mode] ? mode : -1;
}

int plan_find_cell(const struct call *c, const char *cell, int mode, const char **word)
{
	int by_mode = attribute_is_given(c, "rnn_mode"), by_cell = attribute_is_given(c, "cell");

	if (by_mode && by_cell)
		return cg_fail(CG_BAD_ARGUMENT, "%s: attribute rnn_mode names a cell, and so does attribute cell: expected at most one of them, "
		               "got both", c->name);
	*word = by_cell ? cell : by_mode ? cg_rnn_modes[mode] : NULL;
	return CG_OK;
}

static int read_cell(struct call *c, struct cg_rnn_op *op)
{
	struct metadata_cell m = { .options = op->options, .values = op->values_text };
	const char *word;
	int code;

	CG_TRY(plan_find_cell(c, op->cell_name, op->rnn_mode, &word));
	code = metadata_find_cell(c, word, &m);
	c->plan->parsed = m.parsed;
	CG_TRY(code);
	op->options = m.options && *m.options ? m.options : NULL;
	op->values_text = m.values && *m.values ? m.values : NULL;
	if (!m.name)
		return CG_OK;
	if (!attribute_is_given(c, "cell") && mode_of(m.name) >= 0) {
		op->rnn_mode = mode_of(m.name);
		return CG_OK;
	}
	op->cell_name = m.name;
	op->cell = m.cell;
	return CG_OK;
}

static int read_values(struct call *c, struct cg_rnn_op *op)
{
	op->values = c->plan->values;
	return op->values_text ? values_read(op->values_text, &c->plan->text, c->plan->values, &op->n_values) : CG_OK;
}

int plan_check_values(const struct call *c)
{
	const struct cg_rnn_op *op = c->op;

	return c->plan ? metadata_values(c, cg_rnn_op_cell(op), op->dtype, op->values_text, attribute_is_given(c, "values")) : CG_OK;
}

int plan_warn_recurrence(const struct call *c, const char *command)
{
	const struct cg_rnn_op *op = c->op;

	return c->plan ? command_warn_recurrence(command, cg_rnn_op_cell(op), op->options, "options=") : CG_OK;
}

/* ---- params of another set of options ---- */

/* The number of elements of params that the network would have with these options; 0: there is no such network. */
static int64_t params_with(const struct call *c, const char *options)
{
	struct cg_rnn_op other = *(const struct cg_rnn_op *)c->op;
	unsigned all = ~0u;

	other.options = options;
	return c->row->infer(c->row, &other, &all) ? 0 : other.params;
}

int plan_explain_misfit(const struct call *c, int code, int port)
{
	const struct cg_cell *cell = c->plan && c->row->infer ? cg_rnn_op_cell(c->op) : NULL;
	const struct call_argument *a = &c->arguments[port];
	char text[CG_MESSAGE_MAX], options[CELL_OPTIONS];

	if (!cell || strcmp(c->row->ports[port].shape, "params") || a->tensor->rank != 1)
		return code;
	snprintf(text, sizeof text, "%s", cg_message());
	for (int set = 0; set < 1 << cell->n_options; set++)
		if (params_with(c, cell_options(cell, set, ",", options)) == a->tensor->shape[0])
			return cg_fail(code, "%s; the tensor is as long as params of the same network %s%s", text,
			               *options ? "with options=" : "without options", options);
	return cg_fail(code, "%s", text);
}

/* ---- lists ---- */

/* Makes a port for each tensor of a list of tensors. The number of tensors in a list follows from attributes alone. */
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
	return c->row->infer(c->row, c->op, bound);
}

int plan_bind(struct call *c, unsigned *bound)
{
	struct metadata_cell none = { .name = NULL };

	if (!c->row->plan)
		return metadata_meaning(c, "cell") ? metadata_find_cell(c, NULL, &none) : CG_OK;
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

/* ---- the network of a reserve space ---- */

/* The input file that contains the reserve space, or NULL. */
static const struct safetensors *reserve_file(const struct call *c)
{
	for (int k = 0; k < c->n; k++)
		if (c->row->ports[k].flow == CG_IN && c->arguments[k].tensor && !strcmp(c->row->ports[k].name, "reserve_space"))
			return c->arguments[k].file;
	return NULL;
}

static int foreign(const struct safetensors *file, const char *text)
{
	return cg_fail(CG_BAD_ARGUMENT, "%s: reserve_space: %s", file->path, text);
}

int plan_read_reserve(const struct call *c)
{
	const struct safetensors *file = c->plan ? reserve_file(c) : NULL;
	const char *training = file ? metadata_of(c, file, "is_training") : NULL;

	if (training && !strcmp(training, "false"))
		return foreign(file, "expected one of a forward with is_training=true, got one of a forward with is_training=false, "
		               "which keeps nothing for a gradient");
	return CG_OK;
}

/* Copies the sizes found in shapes of tensors to attributes, since the output file may lack the params that show them. */
static void set_sizes(struct cg_rnn_op *op)
{
	op->num_layers = op->L;
	op->num_units = op->U;
}

/* Keeps, in the call's plan, the name for the format of the reserve space that the call's route makes. The first word of the route's text
 * names the route; the rest, which says why no other route was taken, does not matter for a reserve space. */
static void read_route(const struct call *c)
{
	const char *route = c->row->route(c->op);
	char name[sizeof c->plan->route];

	snprintf(name, sizeof name, "%.*s", (int)strcspn(route, " "), route);
	snprintf(c->plan->route, sizeof c->plan->route, "%s", cg_rnn_route_of_reserve(name));
}

int plan_check_route(struct call *c)
{
	const struct safetensors *file = c->plan ? reserve_file(c) : NULL;
	const char *route = file ? metadata_of(c, file, route_key) : NULL;
	char text[256];

	if (!c->plan)
		return CG_OK;
	set_sizes(c->op);
	read_route(c);
	if (!route || !strcmp(route, c->plan->route))
		return CG_OK;
	snprintf(text, sizeof text, "expected a reserve space made with route=%s, got one made with route=%.64s", c->plan->route, route);
	return foreign(file, text);
}

/* Appends an attribute to a list, such as "dropout=0.5"; if the attribute's value is empty, "no options". */
static void append_attribute(char *list, size_t capacity, const char *name, const char *value)
{
	char shown[PRINT_NAME];
	size_t at = strlen(list);
	const char *and = at ? " and " : "";

	if (*value)
		snprintf(list + at, capacity - at, "%s%s=%s", and, name, print_name(shown, value));
	else
		snprintf(list + at, capacity - at, "%sno %s", and, name);
}

/* Explains why a reserve space of another call is refused: by the attributes that differ, if the metadata of its file has them. */
int plan_explain_failure(const struct call *c, int code)
{
	static const char refusal[] = "rnn: reserve: ";
	const struct safetensors *file = c->plan ? reserve_file(c) : NULL;
	char text[CG_ATTRIBUTE_TEXT], want[512] = "", got[512] = "";
	const char *route;

	if (!file || code != CG_BAD_ARGUMENT || strncmp(cg_message(), refusal, strlen(refusal)))
		return code;
	set_sizes(c->op);
	for (const struct cg_attribute *a = c->row->attributes; a->name; a++) {
		const char *theirs = metadata_of(c, file, a->name), *ours = cg_attribute_text(a, c->op, text);

		if (!theirs || !strcmp(a->name, route_key) || metadata_alike(theirs, ours))
			continue;
		append_attribute(got, sizeof got, a->name, theirs);
		append_attribute(want, sizeof want, a->name, ours);
	}
	route = metadata_of(c, file, route_key);
	read_route(c);
	if (route && strcmp(route, c->plan->route)) {
		append_attribute(got, sizeof got, route_key, route);
		append_attribute(want, sizeof want, route_key, c->plan->route);
	}
	if (!*got)
		return cg_fail_in(code, "%s: reserve_space", file->path);
	return cg_fail(code, "%s: reserve_space: expected one that was made with %s, got one that was made with %s", file->path, want, got);
}

int plan_add_metadata(const struct call *c, json_t *all)
{
	const struct cg_rnn_op *op = c->op;
	char size[32], digest[METADATA_DIGEST];

	if (c->row->plan && json_object_set_new(all, "cell_digest", json_string(metadata_digest(cg_rnn_op_cell(op), digest))))
		return -1;
	snprintf(size, sizeof size, "%lld", c->row->route ? (long long)op->I : 0);
	if (c->row->route && json_object_set_new(all, "input_size", json_string(size)))
		return -1;
	for (const struct cg_port *p = c->row->ports; p->name; p++)
		if (c->plan && p->flow != CG_IN && !strcmp(p->name, "reserve_space"))
			return json_object_set_new(all, route_key, json_string(c->plan->route));
	return 0;
}
