/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cellgrad convert`: converts a network's weights, or their gradients, from one format's tensors into another's. network.c finds
 * the network; the library finds the place of each tensor. Tensors are converted and written one at a time.
 */
#include <string.h>

#include "command/command.h"
#include "verify/field.h"
#include "command/run/metadata.h"
#include "command/convert/network.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

enum { FROM = OPTION_FIRST, TO, FROM_PREFIX, TO_PREFIX, GRADIENTS, FORCE, DTYPE, IGNORE_EXTRA, IGNORE_METADATA };

static const struct poptOption table[] = {
	OPTION_VALUE("from", '\0', FROM, "the format of IN", "FORMAT"),
	OPTION_VALUE("to", '\0', TO, "the format of OUT", "FORMAT"),
	OPTION_VALUE("from-prefix", '\0', FROM_PREFIX, "prefix of all names in IN; tensors without it are left out", "TEXT"),
	OPTION_VALUE("to-prefix", '\0', TO_PREFIX, "prefix to add to all names in OUT", "TEXT"),
	OPTION_VALUE("dtype", '\0', DTYPE, "write " CG_DTYPES_TEXT " in place of IN's dtype", "DTYPE"),
	OPTION_FLAG("gradients", '\0', GRADIENTS, "the tensors are gradients of weights: no bias is halved"),
	OPTION_FLAG("force", '\0', FORCE, "convert even if OUT cannot hold all; print what is lost"),
	OPTION_FLAG("ignore-extra", '\0', IGNORE_EXTRA, "leave out tensors in IN that do not belong to the network"),
	OPTION_FLAG("ignore-metadata", '\0', IGNORE_METADATA, "ignore the metadata of IN"),
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "--from FORMAT --to FORMAT IN OUT [NAME=VALUE]... [OPTION]...";
static const char text[] =
	"IN and OUT are safetensors files.  FORMATs, most with the order of the gates:\n"
	"\n"
	"  cellgrad    params: the single buffer of weights that cellgrad's networks take\n"
	"  canonical   weights_0 ..., biases_0 ...: cuDNN's matrices and biases, each one\n"
	"              tensor, in the order of CudnnRNNParamsToCanonicalV2\n"
	"  pytorch     weight_ih_l0, ...: a state_dict; i f g o, r z n\n"
	"  keras       lstm/lstm_cell/kernel, ...: LSTM i f c o, GRU z r h, SimpleRNN\n"
	"  block       w, b, wci, wcf, wco of TensorFlow's LSTMBlockCell and BlockLSTM,\n"
	"              i c f o; w_ru, b_ru, w_c, b_c of its GRUBlockCell\n"
	"  block_v2    w, b, wci, wcf, wco of BlockLSTMV2, i f c o\n"
	"  checkpoint  rnn/multi_rnn_cell/cell_0/...: TensorFlow's cuDNN layers as its\n"
	"              checkpoints keep them\n"
	"  onnx        W, R, B, P of LSTM i o f c, GRU z r h and RNN\n"
	"\n"
	"cellgrad-weights(7) describes every name and shape.  The network follows from the\n"
	"tensors, from the metadata of IN and from NAME=VALUE.  A NAME=VALUE that\n"
	"contradicts the metadata about the cell, options, values, sizes, direction or\n"
	"input_mode is rejected without --ignore-metadata; otherwise NAME=VALUE decides.\n"
	"\n"
	"  rnn_mode=lstm            or gru, rnn_tanh, rnn_relu; or cell=CELL with\n"
	"                           options=peephole and values=NAME=NUMBER,...\n"
	"  num_layers=N  num_units=N  input_size=N  num_proj=N\n"
	"  direction=bidirectional  or unidirectional; input_mode=skip_input\n"
	"  forget_bias=X            and cell_clip=X, attributes of the block formats: by\n"
	"                           default 1 and 3 in block, 0 and 0 in block_v2\n"
	"  use_peephole=true        the LSTM has peepholes\n"
	"  linear_before_reset=1    tells which cell a GRU is: 1 is gru, 0 is gru_block\n"
	"  bias=recurrent           or input, halves: the bias of OUT that gets the bias of\n"
	"                           IN if IN has one where OUT has two; none: no biases\n"
	"  names=A/,B/              the prefixes of the tensor names in IN, one for each\n"
	"                           layer or direction, in place of those of the format\n"
	"\n"
	"What OUT cannot hold is printed, and without --force OUT is not written: a sum of\n"
	"two biases that cannot be restored, peepholes that are not 0, a forget_bias added\n"
	"to a bias, a cell_clip left out, numbers that --dtype rounds, gradients of two\n"
	"biases that differ.\n"
	"If OUT holds all of IN, the conversion of OUT back to the format and the dtype of\n"
	"IN gives the same bits of the network's tensors, but may leave out peepholes that\n"
	"are 0.  A conversion that would drop a projection, skip_input or the kind of a\n"
	"cell is an error, even with --force.\n"
	"\n"
	"Python saves the tensors of PyTorch, and arrays of NumPy by their names, in a\n"
	"safetensors file; docs/weights.md has Keras and TensorFlow, too:\n"
	"  safetensors.torch.save_file(model.state_dict(), \"model.safetensors\")\n"
	"  safetensors.numpy.save_file({\"w\": w, \"b\": b}, \"model.safetensors\")\n"
	"\n"
	"Examples:\n"
	"  cellgrad convert --from pytorch --to cellgrad model.safetensors params.safetensors\n"
	"  cellgrad convert --from cellgrad --to pytorch params.safetensors model.safetensors\n"
	"  cellgrad convert --from keras --to onnx --from-prefix sequential/ in out\n"
	"  cellgrad convert --from block --to pytorch --force forget_bias=1 cell_clip=0 in out\n"
	"\n"
	"Exit status: 0 success; 1 the conversion failed; 2 the call was rejected before\n"
	"any work.\n";

enum { LOSSES = 8, LOSS = 200 };

struct convert {
	struct network in;
	struct cg_rnn_config config;             /* of OUT */
	struct cg_layout out;
	const char *prefix;
	struct file file;
	struct cg_conversion conversion;
	int dtype, force, no_biases, bias;
	char lost[LOSSES][LOSS];
	int n_lost;
	struct safetensors_tensor *tensors;      /* [n]: the tensors of OUT, in OUT's order */
	size_t n;
	char *names;                             /* the name in OUT of each tensor of the layout */
};

/* ---- arguments ---- */

static int read_format(const struct options *o, int option, const char *name, const struct cg_format **format)
{
	if (!o->value[option])
		return cg_fail(CG_BAD_ARGUMENT, "--%s: missing; --help lists the formats", name);
	*format = cg_format_find(o->value[option]);
	return *format ? CG_OK : cg_fail_in(CG_BAD_ARGUMENT, "--%s", name);
}

static int is_word(const char *word)
{
	size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyzT_");

	return n && word[n] == '=';
}

/* Finds the paths IN and OUT among the words of the command line; all other words are attributes. */
static int read_paths(const struct options *o, const char *paths[2])
{
	int n = 0;

	for (const char **word = o->operands; *word; word++) {
		if (is_word(*word))
			continue;
		if (n == 2)
			return cg_fail(CG_BAD_ARGUMENT, "expected IN and OUT, got a third file, %s", *word);
		paths[n++] = *word;
	}
	if (n < 2)
		return cg_fail(CG_BAD_ARGUMENT, "expected IN and OUT, got %s", n ? "one file" : "none");
	return CG_OK;
}

static int read_words(struct convert *c, const struct options *o)
{
	const struct cg_format *from, *to;
	const char *paths[2];

	CG_TRY(read_format(o, FROM, "from", &from));
	CG_TRY(read_format(o, TO, "to", &to));
	c->out.format = to;
	c->force = !!o->value[FORCE];
	c->prefix = o->value[TO_PREFIX] ? o->value[TO_PREFIX] : "";
	if (strlen(c->prefix) > NETWORK_NAME / 2)
		return cg_fail(CG_BAD_ARGUMENT, "--to-prefix: expected at most %d bytes, got %zu", NETWORK_NAME / 2, strlen(c->prefix));
	c->dtype = -1;
	if (o->value[DTYPE]) {
		c->dtype = cg_dtype_find(o->value[DTYPE]);
		if (c->dtype < 0)
			return command_reword(CG_BAD_ARGUMENT, "--dtype");
	}
	CG_TRY(read_paths(o, paths));
	CG_TRY(network_open(&c->in, from, paths[0], o->value[FROM_PREFIX], !!o->value[GRADIENTS]));
	for (const char **word = o->operands; *word; word++)
		if (is_word(*word))
			CG_TRY(network_word(&c->in, *word));
	c->in.call.ignore_metadata = !!o->value[IGNORE_METADATA];
	CG_TRY(file_check(&c->file, paths[1]));
	return network_find(&c->in, !!o->value[IGNORE_EXTRA]);
}

/* ---- what OUT can hold ---- */

#define LOSE(c, ...) snprintf((c)->lost[(c)->n_lost++], LOSS, __VA_ARGS__)

static double param(const struct cg_layout *l, const char *name)
{
	for (int p = 0; p < l->network.cell->n_params; p++)
		if (!strcmp(l->network.cell->params[p].name, name))
			return l->values[p];
	return 0;
}

/* Chooses the cell of OUT for a network of lstm_block, in a format whose forms name cells: lstm_block if that is the format's cell or OUT
 * keeps a cell_clip; else lstm. If the tensors are weights, not gradients, a forget_bias or a cell_clip that OUT has no place for is listed
 * as lost. */
static void choose_cell(struct convert *c, struct cg_value values[2])
{
	const struct cg_layout *l = &c->in.layout;
	const struct cg_form *form = cg_form_of(c->out.format, l->network.cell);
	double bias = param(l, "forget_bias"), clip = param(l, "cell_clip");
	unsigned has = form ? form->params : 0;

	if (!form || !form->cell || !cg_find_gate_codes(l->network.cell) || strcmp(l->network.cell->name, "lstm_block"))
		return;
	if (bias != 0 && !(has & CG_HAS_FORGET_BIAS) && !c->in.gradients) {
		LOSE(c, "forget_bias=%g is added to the bias of gate f: format %s has no place for it", bias, c->out.format->name);
		c->conversion.forget_bias = bias;
	}
	if (clip > 0 && !(has & CG_HAS_CELL_CLIP) && !c->in.gradients)
		LOSE(c, "cell_clip=%g is left out: format %s has no place for it", clip, c->out.format->name);
	values[0] = (struct cg_value){ "forget_bias", has & CG_HAS_FORGET_BIAS ? bias : 0 };
	values[1] = (struct cg_value){ "cell_clip", has & CG_HAS_CELL_CLIP ? clip : 0 };
	if (strcmp(form->cell, "lstm_block") && values[1].value <= 0) {
		c->config.cell = cg_cell_find("lstm");
		c->config.n_values = 0;
		return;
	}
	c->config.values = values;
	c->config.n_values = 2;
}

static int has_vectors(const struct cg_form *form)
{
	for (const struct cg_template *t = form->templates; t->name; t++)
		if (t->flags & CG_BUFFER || strchr(t->parts, 'v'))
			return 1;
	return 0;
}

static void list_losses(struct convert *c, const struct cg_losses *l)
{
	if (l->biases && c->in.gradients)
		LOSE(c, "the gradients of bW and bR differ in %lld of %lld elements: those of bW are written", (long long)l->biases,
		     (long long)l->of_biases);
	else if (l->biases)
		LOSE(c, "bW + bR is one bias in format %s: %lld of %lld elements could not be taken apart again", c->out.format->name,
		     (long long)l->biases,
		     (long long)l->of_biases);
	if (l->vectors)
		LOSE(c, "peepholes are left out: %lld of their weights are not 0", (long long)l->vectors);
	if (l->rounded)
		LOSE(c, "%lld number%s rounded to %s", (long long)l->rounded, l->rounded == 1 ? " is" : "s are", cg_dtype_name(c->dtype));
}

/* Chooses the layout of OUT, and lists what of the network OUT cannot hold. */
static int fit(struct convert *c, struct cg_value values[2])
{
	const struct cg_form *form;
	struct cg_losses losses;

	c->config = c->in.config;
	c->dtype = c->dtype < 0 ? c->in.dtype : c->dtype;
	c->config.dtype = c->dtype;
	choose_cell(c, values);
	form = cg_form_of(c->out.format, c->config.cell);
	if (form && c->in.layout.network.n_vectors && !has_vectors(form))
		c->config.options = NULL;
	CG_TRY(cg_layout_open(&c->out, c->out.format, &c->config, c->in.gradients));
	c->conversion.from = (struct cg_tensors){ &c->in.layout, c->in.dtype, 0, c->in.at };
	c->conversion.to = (struct cg_tensors){ &c->out, c->dtype, 0, NULL };
	c->conversion.bias = c->in.bias;
	cg_count_losses(&c->conversion, c->out.format->bias, &losses);
	list_losses(c, &losses);
	c->bias = losses.bias;
	c->no_biases = c->in.no_biases && !cg_count_biases(&c->conversion);
	return CG_OK;
}

static int allow(const struct convert *c)
{
	char all[LOSSES * LOSS] = "";

	if (!c->n_lost || c->force)
		return CG_OK;
	for (int k = 0; k < c->n_lost; k++)
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", k ? "; " : "", c->lost[k]);
	return cg_fail(CG_BAD_ARGUMENT, "%s: this would be lost: %s; --force allows it", c->in.file.path, all);
}

/* ---- OUT ---- */

static int number(json_t *all, const char *name, int64_t value)
{
	char digits[24];

	snprintf(digits, sizeof digits, "%lld", (long long)value);
	return json_object_set_new(all, name, json_string(digits));
}

static int word(json_t *all, const char *name, const char *value)
{
	return value && *value ? json_object_set_new(all, name, json_string(value)) : 0;
}

static int is_mode(const char *cell)
{
	for (int k = 0; cg_rnn_modes[k]; k++)
		if (!strcmp(cell, cg_rnn_modes[k]))
			return 1;
	return 0;
}

/* Adds to the metadata the cell, by TensorFlow's word, by the library's name or by the path of its file, and its digest, options and
 * values. */
static int add_lost_cell(const struct convert *c, json_t *all)
{
	const struct cg_layout *l = &c->out;
	char digits[32], digest[METADATA_DIGEST];
	int failed;

	if (c->in.parsed)
		failed = word(all, "cell", c->in.attributes.cell);
	else
		failed = word(all, is_mode(l->network.cell->name) ? "rnn_mode" : "cell", l->network.cell->name);
	failed |= word(all, "cell_digest", metadata_digest(l->network.cell, digest)) | word(all, "options", l->text.options);
	if (!c->out.form->params)
		return failed | word(all, "values", l->text.values);
	failed |= word(all, "use_peephole", *l->text.options ? "true" : "false");
	if (c->out.form->params & CG_HAS_FORGET_BIAS)
		failed |= word(all, "forget_bias", field_digits(digits, param(l, "forget_bias")));
	return failed | word(all, "cell_clip", field_digits(digits, param(l, "cell_clip")));
}

static int add_lost_bias(const struct convert *c, json_t *all)
{
	static const char *const words[] = { [CG_BIAS_RECURRENT] = "recurrent", [CG_BIAS_INPUT] = "input", [CG_BIAS_HALVES] = "halves" };

	if (c->no_biases)
		return word(all, "bias", "none");
	return c->bias == c->out.format->bias || c->in.gradients ? 0 : word(all, "bias", words[c->bias]);
}

static json_t *metadata(const struct convert *c)
{
	const struct cg_layout *l = &c->out;
	json_t *all = json_object();
	int failed;

	if (!all)
		return NULL;
	failed = word(all, "weights_format", c->out.format->name) | add_lost_cell(c, all) | add_lost_bias(c, all);
	failed |= number(all, "num_layers", l->network.layers) | number(all, "num_units", l->network.U) | number(all, "input_size", l->network.I);
	failed |= number(all, "num_proj", l->network.P) | word(all, "direction", cg_rnn_directions[l->network.directions - 1]);
	failed |= word(all, "input_mode", cg_rnn_inputs[l->network.skip]);
	if (failed) {
		json_decref(all);
		return NULL;
	}
	return all;
}

static size_t stride_of(const struct convert *c)
{
	return strlen(c->prefix) + CG_TENSOR_NAME;
}

/* Lists the tensors of OUT with names, dtypes and shapes, but without data. */
static int list_tensors(struct convert *c)
{
	size_t stride = stride_of(c);

	c->tensors = cg_memory(NULL, (size_t)c->out.n * sizeof *c->tensors);
	c->names = cg_memory(NULL, (size_t)c->out.n * stride);
	if (!c->tensors || !c->names)
		return CG_NO_MEMORY;
	for (int k = 0; k < c->out.n; k++) {
		struct safetensors_tensor *t = &c->tensors[c->n];
		struct cg_tensor tensor;

		if (c->no_biases && c->out.format->optional_biases && cg_layout_is_bias(&c->out, k))
			continue;
		cg_layout_tensor(&c->out, k, &tensor, NULL, NULL);
		*t = (struct safetensors_tensor){ .name = c->names + (size_t)k * stride, .cg = c->dtype, .rank = tensor.rank };
		memcpy(t->shape, tensor.shape, (size_t)tensor.rank * sizeof *t->shape);
		t->bytes = (size_t)cg_layout_elements(&c->out, k) * cg_dtype_bytes(c->dtype);
		snprintf(c->names + (size_t)k * stride, stride, "%s%s", c->prefix, tensor.name);
		c->n++;
	}
	return CG_OK;
}

/* Converts and writes tensor by tensor, so that memory for the largest tensor is enough. */
static int put_tensors(struct convert *c)
{
	size_t most = 1;
	unsigned char *buffer;
	int code = CG_OK;

	for (size_t t = 0; t < c->n; t++)
		most = c->tensors[t].bytes > most ? c->tensors[t].bytes : most;
	buffer = cg_memory(NULL, most);
	if (!buffer)
		return CG_NO_MEMORY;
	for (size_t t = 0; t < c->n && !code; t++) {
		int k = (int)((size_t)(c->tensors[t].name - c->names) / stride_of(c));

		c->conversion.to.first = k;
		c->conversion.to.at = &buffer;
		cg_convert_into(&c->conversion, k);
		code = file_put(&c->file, buffer, c->tensors[t].bytes);
	}
	cg_memory(buffer, 0);
	return code;
}

static int write(struct convert *c, int *working)
{
	unsigned lost = print_json_lost();
	json_t *about;
	int code;

	CG_TRY(list_tensors(c));
	about = metadata(c);
	if (!about || print_json_lost() != lost) {
		json_decref(about);
		return cg_fail(CG_NO_MEMORY, "no memory for metadata");
	}
	*working = 1;
	code = safetensors_begin(&c->file, c->tensors, c->n, about);
	json_decref(about);
	if (!code)
		code = put_tensors(c);
	if (!code)
		code = file_end(&c->file);
	if (code)
		file_discard(&c->file);
	return code;
}

/* ---- the report ---- */

static int report(const struct convert *c, int json)
{
	json_t *lost = json ? json_array() : NULL;
	char line[NETWORK_LINE];

	for (int k = 0; k < c->n_lost; k++) {
		if (json)
			json_array_append_new(lost, json_string(c->lost[k]));
		else
			fprintf(stderr, "cellgrad convert: lost: %s\n", c->lost[k]);
	}
	network_line(&c->out, line);
	if (json)
		return print_json(json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:o}", "network", line, "dtype", cg_dtype_name(c->dtype),
		                            "from", c->in.format->name, "to", c->out.format->name, "read", c->in.layout.n,
		                            "written", (json_int_t)c->n, "lost", lost));
	printf("%s, %s: %d tensor%s of format %s converted to %zu of format %s\n", line, cg_dtype_name(c->dtype), c->in.layout.n,
	       c->in.layout.n == 1 ? "" : "s", c->in.format->name, c->n, c->out.format->name);
	return CG_OK;
}

int command_convert(int argc, const char **argv)
{
	struct convert c = { .file = { .fd = -1 } };
	struct cg_value values[2];
	int code, working = 0;
	struct options o;

	code = options_open(&o, "convert", argc, argv, table);
	if (!code && o.value[OPTION_HELP]) {
		options_help(&o, usage, text);
		options_close(&o);
		return EXIT_OK;
	}
	if (!code)
		code = read_words(&c, &o);
	if (!code)
		code = fit(&c, values);
	if (!code)
		code = allow(&c);
	if (!code)
		code = write(&c, &working);
	if (!code)
		code = report(&c, !!o.value[OPTION_JSON]);
	cg_memory(c.tensors, 0);
	cg_memory(c.names, 0);
	network_close(&c.in);
	options_close(&o);
	return code ? command_fail("convert", code, working) : EXIT_OK;
}
