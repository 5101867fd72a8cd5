/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the network whose weights a file holds: the one of the candidate networks of fit.c that fits. If no candidate fits, the message
 * is about the candidate that fits best.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verify/field.h"
#include "command/run/metadata.h"
#include "command/convert/network.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

/* ---- attributes ---- */

#define WORD(field) offsetof(struct network_attributes, field)
#define SIZES "0 2147483647"

static const char *const biases[] = { "recurrent", "input", "halves", "none", NULL };
enum { BIAS_NONE = CG_BIASES };

static const struct cg_attribute attributes[] = {
	{ .name = "rnn_mode",    .kind = CG_WORD, .words = cg_rnn_modes,      .at = WORD(rnn_mode)   },
	{ .name = "cell",        .kind = CG_TEXT, .at = WORD(cell)    },
	{ .name = "options",     .kind = CG_TEXT, .at = WORD(options) },
	{ .name = "values",      .kind = CG_TEXT, .at = WORD(values)  },
	{ .name = "num_layers",  .kind = CG_INTEGER, .range = SIZES, .at = WORD(num_layers) },
	{ .name = "num_units",   .kind = CG_INTEGER, .range = "0",   .at = WORD(num_units)  },
	{ .name = "input_size",  .kind = CG_INTEGER, .range = "0",   .at = WORD(input_size) },
	{ .name = "num_proj",    .kind = CG_INTEGER, .range = "0",   .fallback = -1, .at = WORD(num_proj) },
	{ .name = "direction",   .kind = CG_WORD, .words = cg_rnn_directions, .at = WORD(direction)  },
	{ .name = "input_mode",  .kind = CG_WORD, .words = cg_rnn_inputs,     .at = WORD(input_mode) },
	{ .name = "forget_bias", .kind = CG_REAL, .at = WORD(forget_bias) },
	{ .name = "cell_clip",   .kind = CG_REAL, .at = WORD(cell_clip)   },
	{ .name = "use_peephole", .kind = CG_BOOL, .at = WORD(use_peephole) },
	{ .name = "linear_before_reset", .kind = CG_INTEGER, .range = "0 1", .fallback = -1, .at = WORD(linear_before_reset) },
	{ .name = "bias",        .kind = CG_WORD, .words = biases, .at = WORD(bias) },
	{ .name = "names",       .kind = CG_TEXT, .at = WORD(names) },
	{ .name = "weights_format", .kind = CG_TEXT, .at = WORD(weights_format) },
	{ .name = NULL }
};
static const struct cg_dim no_dims[] = { { .symbol = NULL } };
static const struct cg_op row = { .name = "the network", .dims = no_dims, .attributes = attributes, .size = sizeof(struct network_attributes) };

static int begin(struct network *n, const struct cg_format *format, const char *prefix, int gradients)
{
	*n = (struct network){
		.format = format, .prefix = prefix ? prefix : "", .gradients = gradients,
		.attributes = { .rnn_mode = -1, .direction = -1, .input_mode = -1, .bias = -1, .use_peephole = -1, .num_proj = -1,
		           .linear_before_reset = -1, .forget_bias = NAN, .cell_clip = NAN },
	};
	n->call = (struct call){ .row = &row, .name = "convert", .op = &n->attributes, .no_files = 1 };
	if (strlen(n->prefix) > NETWORK_NAME / 2)
		return cg_fail(CG_BAD_ARGUMENT, "--from-prefix: expected at most %d bytes, got %zu", NETWORK_NAME / 2, strlen(n->prefix));
	return CG_OK;
}

int network_open(struct network *n, const struct cg_format *format, const char *path, const char *prefix, int gradients)
{
	CG_TRY(begin(n, format, prefix, gradients));
	CG_TRY(safetensors_open(&n->file, path));
	return network_index(n);
}

int network_parse(struct network *n, const struct cg_format *format, const char *path, const void *bytes, size_t length)
{
	CG_TRY(begin(n, format, NULL, 0));
	CG_TRY(safetensors_parse(&n->file, path, bytes, length));
	return network_index(n);
}

int network_word(struct network *n, const char *word)
{
	return call_attribute(&n->call, word);
}

void network_close(struct network *n)
{
	cg_memory(n->at, 0);
	cg_memory(n->index, 0);
	cg_memory(n->text, 0);
	cg_cell_close(n->parsed);
	if (n->file.path)
		safetensors_close(&n->file);
}

/* Checks linear_before_reset, which tells one GRU from the other: 1 is gru, 0 is gru_block. */
static int check_reset(const struct network *n, const char *cell)
{
	const struct network_attributes *w = &n->attributes;
	int linear = cell && strcmp(cell, "gru_block") != 0;

	if (!cell || strncmp(cell, "gru", 3) || file_is_cell(cell) || w->linear_before_reset < 0 || w->linear_before_reset == linear)
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "linear_before_reset: expected %d for cell %.40s, got %d", linear, cell, (int)w->linear_before_reset);
}

static int read_cell(struct network *n)
{
	struct network_attributes *w = &n->attributes;
	struct metadata_cell m = { .options = w->options, .values = w->values };
	const char *word;
	int code;

	CG_TRY(plan_find_cell(&n->call, w->cell, w->rnn_mode < 0 ? 0 : w->rnn_mode, &word));
	code = metadata_find_cell(&n->call, word, &m);
	n->parsed = m.parsed;
	CG_TRY(code);
	w->options = m.options;
	w->values = m.values && *m.values ? m.values : NULL;
	/* In ONNX's attributes rnn_mode=gru may mean either GRU, until linear_before_reset has been read. */
	if (m.name && attribute_is_given(&n->call, "rnn_mode"))
		return CG_OK;
	w->cell = m.name;
	return check_reset(n, w->cell);
}

static int read_words(struct network *n)
{
	struct network_attributes *w = &n->attributes;

	n->call.files = &n->file;
	n->call.n_files = 1;
	CG_TRY(metadata_attributes(&n->call));
	for (const struct cg_attribute *a = attributes; a->name; a++)
		if (a->kind == CG_INTEGER)
			CG_TRY(cg_attribute_check(&row, a, w, 0));
	if (w->weights_format && strcmp(w->weights_format, n->format->name))
		return metadata_differ(&n->call, "weights_format", (struct statement){ attribute_is_given(&n->call, "weights_format") ? by_attribute : n->file.path, w->weights_format },
		                       (struct statement){ "--from", n->format->name });
	CG_TRY(read_cell(n));
	if (w->options && *w->options && !w->use_peephole)
		return cg_fail(CG_BAD_ARGUMENT, "use_peephole is false, but options are %.40s", w->options);
	return w->values ? values_read(w->values, &n->text, n->values, &n->config.n_values) : CG_OK;
}

/* ---- messages about a misfit ---- */

/* Suggests --from-prefix in a message, if the name of a tensor in the file ends with a name of the network; returns 0 where no name
 * does. */
static int suggest(const struct network *n, const char *name)
{
	char shown[PRINT_NAME];
	size_t length = strlen(name);

	for (size_t k = 0; k < n->file.n; k++) {
		const char *there = n->index[k]->name;
		size_t l = strlen(there);

		if (l > length && !strcmp(there + l - length, name))
			return cg_fail(CG_BAD_ARGUMENT, "%s: %s: missing, but there is %s: --from-prefix %.*s", n->file.path, name,
			               print_name(shown, there), (int)(l - length), there);
	}
	return 0;
}

/* A hint for the message about layers whose names differ from the format's, such as those of a second model in one session of Keras; "":
 * no hint. */
static const char *other_names(const struct network *n, const struct cg_layout *l, char hint[NETWORK_LINE])
{
	size_t before = strlen(n->prefix), length;
	char list[PRINT_NAME * 3] = "", prefix[PRINT_NAME], shown[PRINT_NAME], first[NETWORK_NAME];
	const char *leaf;
	struct cg_tensor tensor;
	int found = 0;

	hint[0] = '\0';
	network_name(n, l, 0, first, &tensor);
	if (n->attributes.names || network_tensor(n, first))
		return hint;
	cg_layout_tensor(l, 0, &tensor, NULL, &leaf);
	length = strlen(leaf);
	for (size_t k = 0; k < n->file.n && found < 3; k++) {
		const char *name = n->index[k]->name;
		size_t all = strlen(name);

		if (all <= before + length || strncmp(name, n->prefix, before) || name[all - length - 1] != '/' || strcmp(name + all - length, leaf) ||
		    snprintf(prefix, sizeof prefix, "%.*s", (int)(all - length - before), name + before) >= PRINT_NAME)
			continue;
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", found++ ? ", " : "", print_name(shown, prefix));
	}
	if (found == 1)
		snprintf(hint, NETWORK_LINE, "; names=%s says that this is the prefix of the layer", list);
	else if (found)
		snprintf(hint, NETWORK_LINE, "; names=A/,B/ says which prefixes the layers have: there are %s", list);
	return hint;
}

static int nothing(const struct network *n, const struct cg_layout *l, const char *name)
{
	char shown[PRINT_NAME], list[PRINT_NAME * 4] = "", hint[NETWORK_LINE];

	for (size_t k = 0; k < n->file.n && k < 3; k++)
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", k ? ", " : "", print_name(shown, n->index[k]->name));
	CG_TRY(suggest(n, name));
	return cg_fail(CG_BAD_ARGUMENT, "%s: expected tensors of format %s, such as %s, got %s%s%s", n->file.path, n->format->name, name,
	               *list ? list : "none", n->file.n > 3 ? ", ..." : "", other_names(n, l, hint));
}

/* Reports a tensor of the file whose name has the prefix and that is not the network's, if the file has such a tensor. */
static int extra(const struct network *n, const struct network_trial *t)
{
	char name[NETWORK_NAME], shown[PRINT_NAME], line[NETWORK_LINE], *known = cg_memory(NULL, n->file.n + 1);
	struct cg_tensor tensor;
	int code = CG_OK;

	if (!known)
		return CG_NO_MEMORY;
	for (size_t f = 0; f < n->file.n; f++)
		known[f] = strncmp(n->file.tensors[f].name, n->prefix, strlen(n->prefix)) != 0;
	for (int k = 0; k < t->layout.n; k++) {
		const struct safetensors_tensor *there;

		network_name(n, &t->layout, k, name, &tensor);
		there = network_tensor(n, name);
		if (there)
			known[there - n->file.tensors] = 1;
	}
	for (size_t f = 0; f < n->file.n && !code; f++)
		if (!known[f])
			code = cg_fail(CG_BAD_ARGUMENT, "%s: %s: this tensor does not belong to the network %s in format %s; --ignore-extra leaves it "
			               "out", n->file.path,
			               print_name(shown, n->file.tensors[f].name), network_line(&t->layout, line), n->format->name);
	cg_memory(known, 0);
	return code;
}

static int report(const struct network *n, const struct network_trial *t, int ignore)
{
	char name[NETWORK_NAME], shown[PRINT_NAME], want[PRINT_SHAPE], got[PRINT_SHAPE], hint[NETWORK_LINE];
	struct cg_tensor tensor;

	for (int k = 0; k < t->layout.n; k++) {
		const struct safetensors_tensor *there;

		if (t->no_biases && cg_layout_is_bias(&t->layout, k))
			continue;
		network_name(n, &t->layout, k, name, &tensor);
		there = network_tensor(n, name);
		if (!t->matched)
			return nothing(n, &t->layout, name);
		print_shape(want, tensor.shape, tensor.rank);
		if (!there)
			return cg_fail(CG_BAD_ARGUMENT, "%s: %s: missing; expected %s%s", n->file.path, print_name(shown, name), want,
			               other_names(n, &t->layout, hint));
		if (!network_same_shape(there, &tensor))
			return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected %s, got %s", n->file.path, print_name(shown, name), want,
			               print_shape(got, there->shape, there->rank));
	}
	return ignore ? CG_OK : extra(n, t);
}

static int two(const struct network *n, const struct network_search *s)
{
	char line[NETWORK_LINE], other[NETWORK_LINE];

	return cg_fail(CG_BAD_ARGUMENT, "%s: the tensors fit several networks, such as %s; and %s; NAME=VALUE chooses one",
	               n->file.path, network_line(&s->best.layout, line), network_line(&s->other.layout, other));
}

/* ---- the file and its network ---- */

static int bind_tensors(struct network *n, const struct network_trial *t)
{
	const struct safetensors_tensor *first = NULL;
	char name[NETWORK_NAME], shown[PRINT_NAME], other[PRINT_NAME];
	struct cg_tensor tensor;

	n->at = cg_memory(NULL, ((size_t)t->layout.n + 1) * sizeof *n->at);
	if (!n->at)
		return CG_NO_MEMORY;
	for (int k = 0; k < t->layout.n; k++) {
		const struct safetensors_tensor *there;

		network_name(n, &t->layout, k, name, &tensor);
		there = network_tensor(n, name);
		n->at[k] = there ? (unsigned char *)(uintptr_t)there->data : NULL;
		if (!there)
			continue;
		first = first ? first : there;
		if (there->cg < 0)
			return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected " CG_DTYPES_CODES ", got %s", n->file.path, print_name(shown, name),
			               print_name(other, there->dtype));
		if (there->cg != first->cg)
			return cg_fail(CG_BAD_ARGUMENT, "%s: expected one dtype, got %s of tensor %s and %s of tensor %s", n->file.path,
			               safetensors_dtype(first), print_name(other, first->name), safetensors_dtype(there), print_name(shown, name));
	}
	n->dtype = first ? first->cg : CG_F32;
	return metadata_type(&n->call, n->dtype);
}

static int set_network(struct network *n, const struct network_trial *t)
{
	int bias = n->attributes.bias;

	CG_TRY(bind_tensors(n, t));
	n->no_biases = t->no_biases || bias == BIAS_NONE;
	n->bias = bias < 0 || bias == BIAS_NONE ? n->format->bias : bias;
	n->config = t->config;
	n->config.dtype = n->dtype;
	CG_TRY(metadata_values(&n->call, n->config.cell, n->dtype, n->attributes.values, attribute_is_given(&n->call, "values")));
	return cg_layout_open(&n->layout, n->format, &n->config, n->gradients);
}

/* In cellgrad's format, a single buffer whose shape gives no sizes, checks that num_units and input_size are given. */
static int check_whole(const struct network *n)
{
	if (!network_is_buffer(n->format))
		return CG_OK;
	if (!n->attributes.num_units || !n->attributes.input_size)
		return cg_fail(CG_BAD_ARGUMENT, "%s: expected %s=N, which neither the shape of the tensor params nor metadata that is read gives",
		               n->file.path,
		               n->attributes.num_units ? "input_size" : "num_units");
	return CG_OK;
}

int network_find(struct network *n, int ignore)
{
	struct network_search s;

	cg_rnn_config_init(&n->config, sizeof n->config);
	CG_TRY(read_words(n));
	n->config.input_mode = n->attributes.input_mode < 0 ? CG_LINEAR : n->attributes.input_mode;
	CG_TRY(network_try_all(n, &s));
	CG_TRY(check_whole(n));
	if (s.fits > 1 && (ignore || !s.best.problems))
		return two(n, &s);
	if (s.best.problems)
		CG_TRY(report(n, &s.best, ignore));
	return set_network(n, &s.best);
}

const char *network_line(const struct cg_layout *l, char line[NETWORK_LINE])
{
	char proj[32] = "";

	if (l->network.P)
		snprintf(proj, sizeof proj, ", num_proj=%lld", (long long)l->network.P);
	snprintf(line, NETWORK_LINE, "%s%s%s, num_layers=%d, %s, input_size=%lld, num_units=%lld%s%s", l->text.cell, *l->text.options ? " " : "",
	         l->text.options, l->network.layers, cg_rnn_directions[l->network.directions - 1], (long long)l->network.I, (long long)l->network.U, proj,
	         l->network.skip ? ", skip_input" : "");
	return line;
}
