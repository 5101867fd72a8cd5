/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts: applies a format to one network.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/rnn/rnn.h"
#include "runtime/weights/format.h"

/* ---- rows of the format, for one network ---- */

static const char *gates_of(const struct cg_layout *l, const struct cg_template *t)
{
	if (t->gates)
		return t->gates;
	if (strchr(t->parts, 'v'))
		return l->vectors;
	return l->form->gates ? l->form->gates : l->gates;
}

/* The number of tensors that one format row yields per group. */
static int count_tensors(const struct cg_layout *l, const struct cg_template *t)
{
	if ((strchr(t->parts, 'P') && !l->network.P) || (strchr(t->parts, 'v') && !l->network.n_vectors))
		return 0;
	return t->flags & CG_EACH ? (int)strlen(gates_of(l, t)) : 1;
}

/* The number of gates that one tensor of a format row holds. */
static int64_t gates_per_tensor(const struct cg_layout *l, const struct cg_template *t)
{
	return t->flags & CG_EACH ? 1 : (int64_t)strlen(gates_of(l, t));
}

static int64_t stack_of(const struct cg_layout *l)
{
	return l->format->stacked ? l->network.directions : 1;
}

/* Finds the format row of tensor k, its group, and, for a row with one tensor per gate, the number of its gate. */
static const struct cg_template *row_of(const struct cg_layout *l, int k, int *group, int *gate)
{
	const struct cg_template *t = l->form->templates;
	int rest = k % l->each;

	for (; rest >= count_tensors(l, t); t++)
		rest -= count_tensors(l, t);
	*group = k / l->each;
	*gate = rest;
	return t;
}

/* ---- checks ---- */

const struct cg_form *cg_form_of(const struct cg_format *format, const struct cg_cell *cell)
{
	/* Cell lstm computes what cell lstm_block computes with forget_bias 0 and no clip. */
	static const char *const same[] = { "lstm", "lstm_block" };
	const struct cg_gate_codes *codes = cg_find_gate_codes(cell);
	const struct cg_form *k = format->forms;
	const char *other = NULL;

	if (!k->cell)
		return k;
	if (!codes)
		return NULL;
	for (; k->templates; k++)
		if (!strcmp(k->cell, codes->cell))
			return k;
	for (int s = 0; s < 2; s++)
		if (!strcmp(codes->cell, same[s]))
			other = same[!s];
	for (k = format->forms; other && k->templates; k++)
		if (!strcmp(k->cell, other))
			return k;
	return NULL;
}

static int fail_no_form(const struct cg_layout *l)
{
	char list[128] = "";

	for (const struct cg_form *k = l->format->forms; k->templates; k++)
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "", k->cell);
	return cg_fail(CG_UNSUPPORTED, "format %s: cell: expected %s, got %s%s; lstm and lstm_block stand for each other, and format "
	               "cellgrad holds any cell", l->format->name, list, cg_is_listed(l->network.cell) ? "" : "a cell of your own, ",
	               l->network.cell->name);
}

/* Checks that forget_bias and cell_clip, if the format does not store them, have values without effect. */
static int check_params(const struct cg_layout *l)
{
	static const struct { const char *name; unsigned has; const char *expected; } params[] = {
		{ "forget_bias", CG_HAS_FORGET_BIAS, "0" }, { "cell_clip", CG_HAS_CELL_CLIP, "0 or less" },
	};
	const struct cg_cell *cell = l->network.cell;

	for (int p = 0; l->form->cell && p < cell->n_params; p++)
		for (size_t k = 0; k < sizeof params / sizeof *params; k++) {
			double value = l->values[p];
			int idle = params[k].has == CG_HAS_CELL_CLIP ? value <= 0 : value == 0;

			if (!strcmp(params[k].name, cell->params[p].name) && !(l->form->params & params[k].has) && !idle)
				return cg_fail(CG_UNSUPPORTED, "format %s: %s: expected %s, since the format does not store it, got %g", l->format->name,
				               params[k].name, params[k].expected, value);
		}
	return CG_OK;
}

static int has_part(const struct cg_form *form, char part)
{
	for (const struct cg_template *t = form->templates; t->name; t++)
		if (t->flags & CG_BUFFER || strchr(t->parts, part))
			return 1;
	return 0;
}

static int check(const struct cg_layout *l)
{
	const char *name = l->format->name;

	CG_TRY(check_params(l));
	if (l->network.P && !has_part(l->form, 'P'))
		return cg_fail(CG_UNSUPPORTED, "format %s: proj: expected 0, since the format holds no projection, got %lld; formats cellgrad, "
		               "canonical and pytorch hold one", name,
		               (long long)l->network.P);
	if (l->network.n_vectors && !has_part(l->form, 'v'))
		return cg_fail(CG_UNSUPPORTED, "format %s: options: expected none, since the format holds no per-unit weights of cell %s, got %s",
		               name,
		               l->network.cell->name, l->text.options);
	for (int part = 0; part < CG_GATE_PARTS; part++)
		if (l->network.n_parts[part] != l->network.n_weights && !(l->form->templates->flags & CG_BUFFER))
			return cg_fail(CG_UNSUPPORTED,
			               "format %s: cell: expected gates that each have both matrices, W and R, and both biases, which cell %s does not "
			               "have; format cellgrad holds it", name, l->network.cell->name);
	if (l->network.n_scalars && !has_part(l->form, 's'))
		return cg_fail(CG_UNSUPPORTED, "format %s: cell: expected no learnt scalars, since the format holds none, got %d of "
		               "cell %s; format cellgrad holds them", name, l->network.n_scalars, l->network.cell->name);
	if (l->network.skip && !l->format->skips)
		return cg_fail(CG_UNSUPPORTED, "format %s: input_mode: expected linear_input, got skip_input, which formats cellgrad and canonical "
		               "hold", name);
	return CG_OK;
}

/* ---- opening ---- */

/* Sets the codes of gates, vectors and scalars; those of a cell that is not built-in are the characters from '0' on. */
static void set_gate_codes(struct cg_layout *l)
{
	const struct cg_gate_codes *known = cg_find_gate_codes(l->network.cell);

	for (int k = 0; k < l->network.n_weights; k++)
		l->gates[k] = known ? known->gates[k] : (char)('0' + k);
	for (int k = 0; k < l->network.n_vectors; k++)
		l->vectors[k] = known ? known->vectors[k] : (char)('0' + k);
	for (int k = 0; k < l->network.n_scalars; k++)
		l->scalars[k] = (char)('0' + k);
}

static int set_network(struct cg_layout *l, const struct cg_rnn_config *config)
{
	struct cg_rnn rnn;

	CG_TRY(cg_rnn_describe(config, &rnn));
	l->network = rnn.net;
	l->text = rnn.text;
	memcpy(l->values, rnn.values, sizeof l->values);
	return CG_OK;
}

int cg_layout_open(struct cg_layout *l, const struct cg_format *format, const struct cg_rnn_config *config, int gradients)
{
	int64_t n;

	*l = (struct cg_layout){ .format = format, .gradients = gradients };
	CG_TRY(set_network(l, config));
	set_gate_codes(l);
	l->form = cg_form_of(format, l->network.cell);
	if (!l->form)
		return fail_no_form(l);
	CG_TRY(check(l));
	for (const struct cg_template *t = l->form->templates; t->name; t++)
		l->each += count_tensors(l, t);
	l->groups = l->form->templates->flags & CG_BUFFER ? 1 : (int)(l->network.layers * l->network.directions / stack_of(l));
	n = (int64_t)l->each * l->groups;
	if (n > CG_ITEMS_MAX)
		return cg_fail(CG_UNSUPPORTED, "format %s: layers: expected at most %d tensors in all layers together, got %lld", format->name, CG_ITEMS_MAX,
		               (long long)n);
	l->n = (int)n;
	return CG_OK;
}

/* ---- names ---- */

/* The number of a tensor among all with the same name, ordered by pseudo-layer, then by row. */
static int64_t number_tensor(const struct cg_layout *l, const struct cg_template *row, int group, int gate)
{
	int64_t alike = 0, before = 0;

	for (const struct cg_template *t = l->form->templates; t->name; t++) {
		if (strcmp(t->name, row->name))
			continue;
		before += t < row ? count_tensors(l, t) : 0;
		alike += count_tensors(l, t);
	}
	return group * alike + before + gate;
}

/* Writes the text that a letter after % stands for in the name of a tensor or of a group. */
static void expand(const struct cg_layout *l, char letter, int layer, int direction, int64_t number, char *text, size_t capacity)
{
	static const char *const suffixes[] = { "", "_reverse" }, *const ways[] = { "fw", "bw" }, *const words[] = { "forward", "backward" };

	switch (letter) {
	case 'l': snprintf(text, capacity, "%d", layer); break;
	case 'u': if (layer) snprintf(text, capacity, "_%d", layer); break;
	case 'L': if (l->network.layers > 1) snprintf(text, capacity, "layer_%d/", layer); break;
	case 'r': snprintf(text, capacity, "%s", suffixes[direction]); break;
	case 'd': snprintf(text, capacity, "%s", ways[direction]); break;
	case 'w': snprintf(text, capacity, "%s", words[direction]); break;
	case 's': snprintf(text, capacity, "%s", l->form->prefix); break;
	case 'c': snprintf(text, capacity, "%s", l->form->word); break;
	case 'g': snprintf(text, capacity, "%s", l->gradients ? "_backprop" : ""); break;
	case 'n': snprintf(text, capacity, "%lld", (long long)number); break;
	}
}

static void append(const struct cg_layout *l, const char *pattern, int group, int64_t number, char name[CG_TENSOR_NAME])
{
	int D = l->format->stacked ? 1 : l->network.directions;
	size_t at = strlen(name);

	for (; *pattern && at < CG_TENSOR_NAME - 1; pattern++)
		if (*pattern == '%') {
			expand(l, *++pattern, group / D, group % D, number, name + at, CG_TENSOR_NAME - at);
			at += strlen(name + at);
		} else {
			name[at++] = *pattern;
			name[at] = '\0';
		}
}

/* ---- shapes ---- */

static struct cg_extent width_of(const struct cg_layout *l, int layer, char part)
{
	int64_t wide = part == 'R' ? 1 : l->network.directions;

	if (part == 'P')
		return (struct cg_extent){ .U = 1 };
	if (part == 'W' && !layer)
		return (struct cg_extent){ .I = !l->network.skip };
	return l->network.P ? (struct cg_extent){ .P = wide } : (struct cg_extent){ .U = wide };
}

static struct cg_extent add_extents(struct cg_extent a, struct cg_extent b)
{
	return (struct cg_extent){ a.one + b.one, a.I + b.I, a.U + b.U, a.P + b.P };
}

/* The sum of the widths of a row's matrix parts before `end`. */
static struct cg_extent add_widths(const struct cg_layout *l, const struct cg_template *t, int layer, const char *end)
{
	struct cg_extent sum = { 0 };

	for (const char *part = t->parts; part < end; part++)
		sum = add_extents(sum, width_of(l, layer, *part));
	return sum;
}

static int is_matrix(const struct cg_template *t)
{
	return strchr("WRP", *t->parts) != NULL;
}

int cg_layout_extents(const struct cg_layout *l, int k, struct cg_extent e[CG_TENSOR_RANK])
{
	int group, gate, rank = 0;
	const struct cg_template *t = row_of(l, k, &group, &gate);
	int64_t parts = (int64_t)strlen(t->parts), n = gates_per_tensor(l, t);
	int layer = l->format->stacked ? group : group / l->network.directions;

	if (t->flags & CG_BUFFER) {
		e[rank++] = (struct cg_extent){ .one = l->network.params };
		return rank;
	}
	if (l->format->stacked)
		e[rank++] = (struct cg_extent){ .one = l->network.directions };
	if (is_matrix(t)) {
		struct cg_extent in = add_widths(l, t, layer, t->parts + parts);
		struct cg_extent out = *t->parts == 'P' ? (struct cg_extent){ .P = 1 } : (struct cg_extent){ .U = n };

		e[rank++] = t->flags & CG_ACROSS ? in : out;
		e[rank++] = t->flags & CG_ACROSS ? out : in;
		return rank;
	}
	if (t->flags & CG_PAIR)
		e[rank++] = (struct cg_extent){ .one = parts };
	e[rank++] = (struct cg_extent){ .U = t->flags & CG_PAIR ? n : parts * n };
	return rank;
}

static int64_t value_of(const struct cg_layout *l, struct cg_extent e)
{
	return e.one + e.I * l->network.I + e.U * l->network.U + e.P * l->network.P;
}

int64_t cg_layout_elements(const struct cg_layout *l, int k)
{
	struct cg_extent e[CG_TENSOR_RANK];
	int rank = cg_layout_extents(l, k, e);
	int64_t n = 1;

	for (int d = 0; d < rank; d++)
		n *= value_of(l, e[d]);
	return n;
}

void cg_layout_tensor(const struct cg_layout *l, int k, struct cg_tensor *tensor, int *of, const char **leaf)
{
	struct cg_extent e[CG_TENSOR_RANK];
	int group, gate;
	const struct cg_template *t = row_of(l, k, &group, &gate);

	*tensor = (struct cg_tensor){ .rank = cg_layout_extents(l, k, e) };
	for (int d = 0; d < tensor->rank; d++)
		tensor->shape[d] = value_of(l, e[d]);
	append(l, l->format->group[l->network.directions - 1], group, 0, tensor->name);
	if (leaf)
		*leaf = tensor->name + strlen(tensor->name);
	if (of)
		*of = group;
	append(l, t->name, group, number_tensor(l, t, group, gate), tensor->name);
}

int cg_layout_is_bias(const struct cg_layout *l, int k)
{
	int group, gate;

	return strchr("wrb", *row_of(l, k, &group, &gate)->parts) && !(l->form->templates->flags & CG_BUFFER);
}

/* ---- locations ---- */

struct cg_layer_range cg_layout_layers(const struct cg_layout *l, int k)
{
	int D = l->network.directions, group = k / l->each;

	if (l->form->templates->flags & CG_BUFFER)
		return (struct cg_layer_range){ 0, l->network.layers * D };
	if (l->format->stacked)
		return (struct cg_layer_range){ group * D, group * D + D };
	return (struct cg_layer_range){ group, group + 1 };
}

static char part_letter(enum cg_rnn_part part)
{
	static const char codes[] = { [CG_RNN_INPUT] = 'W', [CG_RNN_RECURRENT] = 'R', [CG_RNN_PROJECTION] = 'P',
	                                [CG_RNN_BIAS_W] = 'w', [CG_RNN_BIAS_R] = 'r', [CG_RNN_VECTOR] = 'v',
	                                [CG_RNN_SCALAR] = 's' };

	return codes[part];
}

/* Finds a part in a row's list of parts, in which b matches either bias; NULL: the part is not in the list. */
static const char *find_part(const struct cg_template *t, char part)
{
	const char *at = strchr(t->parts, part);

	return at || !strchr("wr", part) ? at : strchr(t->parts, 'b');
}

/* The region of a part in params. */
static struct cg_rnn_region region_of(const struct cg_layout *l, int pseudo_layer, enum cg_rnn_part part, char gate)
{
	const char *codes = part == CG_RNN_VECTOR ? l->vectors : part == CG_RNN_SCALAR ? l->scalars : l->gates, *at = strchr(codes, gate);

	return cg_network_part(&l->network, pseudo_layer, part, part == CG_RNN_PROJECTION ? 0 : (int)(at - codes));
}

static void locate_in_tensor(const struct cg_layout *l, const struct cg_template *t, const char *part, int which, int pseudo_layer,
                             struct cg_location *location)
{
	int64_t U = l->network.U, n = gates_per_tensor(l, t), gate = t->flags & CG_EACH ? 0 : which;
	int layer = pseudo_layer / l->network.directions, direction = pseudo_layer % l->network.directions;

	if (!is_matrix(t)) {
		location->offset = ((part - t->parts) * n + gate) * U;
		location->column = 1;
	} else if (t->flags & CG_ACROSS) {
		location->offset = value_of(l, add_widths(l, t, layer, part)) * n * U + gate * U;
		location->row = 1;
		location->column = n * U;
	} else {
		location->offset = gate * U * location->columns;
		location->row = location->columns;
		location->column = 1;
	}
	if (l->format->stacked)
		location->offset += direction * (cg_layout_elements(l, location->tensor) / l->network.directions);
}

struct cg_location cg_layout_locate(const struct cg_layout *l, int pseudo_layer, enum cg_rnn_part part, char gate)
{
	struct cg_rnn_region region = region_of(l, pseudo_layer, part, gate);
	struct cg_location location = { .tensor = -1, .rows = region.rows, .columns = region.columns };
	int group = l->format->stacked ? pseudo_layer / l->network.directions : pseudo_layer, before = 0;

	if (l->form->templates->flags & CG_BUFFER)
		return (struct cg_location){ 0, 0, region.offset, region.columns, 1, region.rows, region.columns };
	for (const struct cg_template *t = l->form->templates; t->name; before += count_tensors(l, t++)) {
		const char *at = find_part(t, part_letter(part));
		const char *gates = gates_of(l, t), *which = part == CG_RNN_PROJECTION ? gates : strchr(gates, gate);

		if (!at || !which || !count_tensors(l, t))
			continue;
		location.tensor = group * l->each + before + (t->flags & CG_EACH ? (int)(which - gates) : 0);
		location.shared = *at == 'b';
		locate_in_tensor(l, t, at, (int)(which - gates), pseudo_layer, &location);
		break;
	}
	return location;
}
