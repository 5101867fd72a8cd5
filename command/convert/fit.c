/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the networks whose weights a file may hold: the networks that the attributes allow are laid out in the format and compared
 * with the file. If no attribute gives the number of layers, only 1 and the largest possible number are tried. Sizes that the attributes do
 * not give are inferred from the shapes of the file's tensors.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command/convert/network.h"
#include "runtime/device/inspect.h"

/* ---- tensors of the file and of the format ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct safetensors_tensor *const *)a)->name, (*(const struct safetensors_tensor *const *)b)->name);
}

int network_index(struct network *n)
{
	n->index = cg_memory(NULL, (n->file.n + 1) * sizeof(struct safetensors_tensor *));
	if (!n->index)
		return CG_NO_MEMORY;
	for (size_t k = 0; k < n->file.n; k++)
		n->index[k] = &n->file.tensors[k];
	qsort(n->index, n->file.n, sizeof *n->index, by_name);
	return CG_OK;
}

const struct safetensors_tensor *network_tensor(const struct network *n, const char *name)
{
	const struct safetensors_tensor key = { .name = name }, *p = &key;
	const struct safetensors_tensor **found =
		n->file.n ? bsearch(&p, n->index, n->file.n, sizeof *n->index, by_name) : NULL;

	return found ? *found : NULL;
}

/* Finds, in a list with commas, the prefix of group number `group`, which is a layer or one direction of a layer; returns the length of
 * that prefix. */
static int given_name(const char *names, int group, const char **name)
{
	for (*name = names; group-- > 0; *name += **name == ',')
		*name += strcspn(*name, ",");
	return (int)strcspn(*name, ",");
}

static int n_names(const struct network *n)
{
	int names = 1;

	for (const char *at = n->attributes.names; at && *at; at++)
		names += *at == ',';
	return names;
}

int network_is_buffer(const struct cg_format *format)
{
	return format->forms->templates->flags & CG_BUFFER;
}

/* Tensor k of the layout, and the name that it has in the file. */
void network_name(const struct network *n, const struct cg_layout *l, int k, char name[NETWORK_NAME], struct cg_tensor *tensor)
{
	const char *leaf, *given;
	int group, length;

	cg_layout_tensor(l, k, tensor, &group, &leaf);
	if (!n->attributes.names) {
		snprintf(name, NETWORK_NAME, "%s%s", n->prefix, tensor->name);
		return;
	}
	length = given_name(n->attributes.names, group, &given);
	snprintf(name, NETWORK_NAME, "%s%.*s%s", n->prefix, length, given, leaf);
}

/* The value of size number `which` that a tensor's dimension implies, if the other sizes in that dimension are known; 0: the dimension
 * implies none. */
static int64_t size_in(struct cg_extent e, int64_t dimension, int64_t *const sizes[3], int which)
{
	const int64_t of[3] = { e.I, e.U, e.P };
	int64_t rest = dimension - e.one, known;

	for (int s = 0; s < 3; s++) {
		if (s == which || !of[s])
			continue;
		if (!*sizes[s] || __builtin_mul_overflow(of[s], *sizes[s], &known) || known > rest)
			return 0;
		rest -= known;
	}
	return of[which] && rest > 0 && rest % of[which] == 0 ? rest / of[which] : 0;
}

/* Of the values that dimensions of tensors imply for a size of the network, sets the size to the one that more than half of these
 * dimensions imply; without such a majority, to one of the values; to 0 if no dimension implies one. */
static void vote(const struct network *n, const struct cg_layout *l, int64_t *const sizes[3], int which)
{
	struct cg_extent e[CG_TENSOR_RANK];
	char name[NETWORK_NAME];
	struct cg_tensor tensor;
	int64_t winner = 0, votes = 0;

	for (int k = 0; k < l->n; k++) {
		const struct safetensors_tensor *t;
		int rank = cg_layout_extents(l, k, e);

		network_name(n, l, k, name, &tensor);
		t = network_tensor(n, name);
		for (int d = 0; t && t->rank == rank && d < rank; d++) {
			int64_t size = size_in(e[d], t->shape[d], sizes, which);

			if (size && !votes)
				winner = size;
			if (size)
				votes += size == winner ? 1 : -1;
		}
	}
	*sizes[which] = winner;
}

/* Infers from the shapes of tensors the sizes that the attributes do not give; a size that no shape implies is set to 1. */
static void infer_sizes(const struct network *n, struct network_trial *t)
{
	const struct network_attributes *w = &n->attributes;
	int64_t I = w->input_size, U = w->num_units, P = t->config.proj ? w->num_proj : 0, *sizes[3] = { &I, &U, &P };

	P = P < 0 ? 0 : P;
	for (int round = 0; round < 2; round++)
		for (int s = 1; s < 4; s++)
			if (!*sizes[s % 3] && (s % 3 != 2 || t->config.proj))
				vote(n, &t->layout, sizes, s % 3);
	t->config.input = I ? I : 1;
	t->config.units = U ? U : 1;
	t->config.proj = t->config.proj ? P ? P : 1 : 0;
}

int network_same_shape(const struct safetensors_tensor *t, const struct cg_tensor *tensor)
{
	return t->rank == tensor->rank && !memcmp(t->shape, tensor->shape, (size_t)tensor->rank * sizeof *t->shape);
}

/* Counts the tensors in the file whose names have the prefix, less the `matched` ones that are the network's. */
static int others(const struct network *n, int matched)
{
	int inside = 0;

	for (size_t k = 0; k < n->file.n; k++)
		inside += !strncmp(n->file.tensors[k].name, n->prefix, strlen(n->prefix));
	return inside - matched;
}

static void compare_with(const struct network *n, struct network_trial *t)
{
	char name[NETWORK_NAME];
	struct cg_tensor tensor;
	int biases = 0;

	for (int k = 0; k < t->layout.n; k++) {
		network_name(n, &t->layout, k, name, &tensor);
		biases += cg_layout_is_bias(&t->layout, k) && network_tensor(n, name);
	}
	t->no_biases = n->format->optional_biases && !biases;
	for (int k = 0; k < t->layout.n; k++) {
		const struct safetensors_tensor *there;

		if (t->no_biases && cg_layout_is_bias(&t->layout, k))
			continue;
		network_name(n, &t->layout, k, name, &tensor);
		there = network_tensor(n, name);
		t->matched += !!there;
		t->problems += !there || !network_same_shape(there, &tensor);
	}
	t->extra = others(n, t->matched);
	t->problems += t->extra;
}

/* If attribute `names` is given, checks that it has a prefix for each group, a layer or one direction of a layer. */
static int check_names(const struct network *n, const struct network_trial *t)
{
	if (n->attributes.names && n_names(n) != t->layout.groups)
		return cg_fail(CG_BAD_ARGUMENT, "names: expected %d prefixes, got %d", t->layout.groups, n_names(n));
	return CG_OK;
}

/* A network's configuration for use before its sizes are known: the smallest sizes with which input mode auto_select does not skip the
 * input matrices. */
static struct cg_rnn_config small_of(const struct network_trial *t)
{
	struct cg_rnn_config config = t->config;

	config.units = 1;
	config.input = config.input_mode == CG_AUTO ? 2 : 1;
	config.proj = !!config.proj;
	return config;
}

static void try(const struct network *n, struct network_trial *t)
{
	struct cg_rnn_config small = small_of(t);

	t->refused = cg_layout_open(&t->layout, n->format, &small, n->gradients);
	if (!t->refused)
		t->refused = check_names(n, t);
	if (t->refused)
		return;
	infer_sizes(n, t);
	t->refused = cg_layout_open(&t->layout, n->format, &t->config, n->gradients);
	if (!t->refused)
		compare_with(n, t);
}

/* ---- the candidates ---- */

/* If the network has `layers` layers, does the file have a tensor of the last one? For two layers a tensor of either layer is enough,
 * since the names may differ from those of a network with one layer. */
static int has_layers(const struct network *n, const struct network_trial *t, int layers)
{
	struct cg_rnn_config config = small_of(t);
	struct cg_layout l;
	struct cg_tensor tensor;
	char name[NETWORK_NAME];

	config.layers = layers;
	if (cg_layout_open(&l, n->format, &config, n->gradients))
		return 0;
	for (int k = layers == 2 ? 0 : l.n - l.n / layers; k < l.n; k++) {
		network_name(n, &l, k, name, &tensor);
		if (network_tensor(n, name))
			return 1;
	}
	return 0;
}

/* Does the file have all tensors of the network in their shapes? The file may have other tensors, too. */
static int is_whole(const struct network_trial *t)
{
	return !t->refused && t->problems == t->extra;
}

static void consider(struct network_search *s, struct network_trial *t)
{
	int better;

	try(s->n, t);
	better = !s->tried || (s->best.refused && !t->refused) || (!t->refused && t->problems < s->best.problems);
	if (better) {
		s->best = *t;
		s->fits = is_whole(t);
	} else if (s->fits && is_whole(t) && t->problems == s->best.problems) {
		s->other = *t;
		s->fits++;
	}
	s->tried++;
}

static void by_layers(struct network_search *s, struct network_trial t)
{
	const struct network_attributes *w = &s->n->attributes;
	int groups = n_names(s->n), most = 1;
	struct network_trial deep = t;

	if (w->num_layers || w->names || network_is_buffer(s->n->format)) {
		t.config.layers = w->num_layers ? (int)w->num_layers : groups / (s->n->format->stacked ? 1 : 1 + t.config.bidirectional);
		t.config.layers = t.config.layers ? t.config.layers : 1;
		consider(s, &t);
		return;
	}
	while ((size_t)most < s->n->file.n && has_layers(s->n, &deep, most + 1))
		most++;
	consider(s, &t);
	deep.config.layers = most;
	if (most > 1)
		consider(s, &deep);
}

static int has_option(const struct cg_cell *cell, const char *name)
{
	for (int k = 0; k < cell->n_options; k++)
		if (!strcmp(cell->options[k].name, name))
			return 1;
	return 0;
}

static void by_options(struct network_search *s, struct network_trial t)
{
	const struct network_attributes *w = &s->n->attributes;
	int may = has_option(t.config.cell, "peephole") && !network_is_buffer(s->n->format);

	t.config.options = w->use_peephole == 1 ? "peephole" : w->options;
	by_layers(s, t);
	if (!w->options && w->use_peephole < 0 && may) {
		t.config.options = "peephole";
		by_layers(s, t);
	}
}

static void by_directions(struct network_search *s, struct network_trial t)
{
	const struct network_attributes *w = &s->n->attributes;
	int whole = network_is_buffer(s->n->format);

	for (int d = 0; d < 2; d++)
		for (int p = 0; p < 2; p++) {
			if (w->direction >= 0 ? d != w->direction : d && whole)
				continue;
			if (w->num_proj >= 0 ? p != (w->num_proj > 0) : p && (whole || t.config.cell->n_prevs < 2))
				continue;
			t.config.bidirectional = d;
			t.config.proj = p;
			by_options(s, t);
		}
}

/* ---- cells ---- */

static int has_word(const struct cg_format *format, unsigned word)
{
	unsigned has = 0;

	for (const struct cg_form *form = format->forms; form->templates; form++)
		has |= form->params;
	return (has & word) != 0;
}

/* Checks forget_bias and cell_clip: if the format does not have the attribute, the value must be one that changes nothing. */
static int check_words(const struct network *n)
{
	const char *format = n->format->name, *instead = n->format->forms->cell ? "" : "; values=NAME=NUMBER sets a param of the cell";
	double bias = n->attributes.forget_bias, clip = n->attributes.cell_clip;

	if (bias != 0 && !isnan(bias) && !has_word(n->format, CG_HAS_FORGET_BIAS))
		return cg_fail(CG_BAD_ARGUMENT, "forget_bias: expected 0, since format %s has no forget_bias, got %g%s", format, bias, instead);
	if (clip > 0 && !has_word(n->format, CG_HAS_CELL_CLIP))
		return cg_fail(CG_BAD_ARGUMENT, "cell_clip: expected 0 or less, since format %s has no cell_clip, got %g%s", format, clip, instead);
	return CG_OK;
}

/* In a format of TensorFlow's block ops, sets the values of the cell's params from the attributes forget_bias and cell_clip. */
static int infer_params(const struct network *n, struct network_trial *t)
{
	const struct cg_form *form = cg_form_of(n->format, t->config.cell);
	const struct network_attributes *w = &n->attributes;
	double bias = isnan(w->forget_bias) ? n->format->forget_bias : w->forget_bias;
	double clip = isnan(w->cell_clip) ? n->format->cell_clip : w->cell_clip;
	int block = !strcmp(t->config.cell->name, "lstm_block");

	if (!form || !form->params)
		return CG_OK;
	if (t->config.n_values)
		return cg_fail(CG_BAD_ARGUMENT, "values: expected none, since format %s has the attributes forget_bias and cell_clip",
		               n->format->name);
	if (!block && !w->cell && w->rnn_mode < 0 && clip > 0)
		t->config.cell = cg_cell_find("lstm_block");
	else if (!block && (bias != 0 || clip > 0))
		return cg_fail(CG_BAD_ARGUMENT, "format %s: expected a forget_bias of 0 and a cell_clip of 0 or less, since cell lstm has neither, "
		               "got %g and %g", n->format->name, bias, clip);
	t->values[0] = (struct cg_value){ "forget_bias", bias };
	t->values[1] = (struct cg_value){ "cell_clip", clip };
	return CG_OK;
}

static int with_cell(struct network_search *s, const struct cg_cell *cell)
{
	struct network *n = s->n;
	struct network_trial t = { .config = n->config };

	t.config.cell = cell;
	t.config.values = n->values;
	CG_TRY(infer_params(n, &t));
	if (t.values[0].name && !strcmp(t.config.cell->name, "lstm_block")) {
		/* The values are copied to the network, since the config that points to them outlives the trial. */
		memcpy(n->values, t.values, sizeof t.values);
		t.config.values = n->values;
		t.config.n_values = 2;
	}
	by_directions(s, t);
	return CG_OK;
}

/* Returns the cell, or cell gru_block in place of cell gru if linear_before_reset is 0 and no attribute `cell` is given. */
static const struct cg_cell *other_reset(const struct network *n, const struct cg_cell *cell)
{
	int64_t linear = n->attributes.linear_before_reset;

	if (linear < 0 || n->attributes.cell)
		return cell;
	return !strcmp(cell->name, "gru") && !linear ? cg_cell_find("gru_block") : cell;
}

static int by_cells(struct network_search *s)
{
	struct network *n = s->n;
	const struct network_attributes *w = &n->attributes;
	int64_t linear = w->linear_before_reset;

	if (n->parsed)
		return with_cell(s, n->parsed);
	if (w->cell)
		return with_cell(s, cg_cell_find(w->cell));
	if (w->rnn_mode >= 0)
		return with_cell(s, other_reset(n, cg_cell_find(cg_rnn_modes[w->rnn_mode])));
	if (network_is_buffer(n->format))
		return cg_fail(CG_BAD_ARGUMENT, "%s: neither NAME=VALUE nor metadata that is read names the cell of the network: expected "
		               "rnn_mode=MODE or cell=CELL", n->file.path);
	for (int k = 0; n->format->forms->cell ? n->format->forms[k].templates != NULL : cg_rnn_modes[k] != NULL; k++) {
		const char *name = n->format->forms->cell ? n->format->forms[k].cell : cg_rnn_modes[k];

		if (linear >= 0 && !strncmp(name, "gru", 3) && (linear == 1) != !strcmp(name, "gru"))
			continue;
		CG_TRY(with_cell(s, cg_cell_find(name)));
	}
	return CG_OK;
}

int network_try_all(struct network *n, struct network_search *s)
{
	*s = (struct network_search){ .n = n };
	CG_TRY(check_words(n));
	CG_TRY(by_cells(s));
	if (!s->best.refused)
		return CG_OK;
	try(n, &s->best);                        /* the best network is tried again, since the message must be about it */
	return s->best.refused;
}
