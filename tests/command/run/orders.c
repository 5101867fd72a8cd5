/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/tensorflow/cudnn_rnn.h"
#include "tests/command/run/orders.h"

/* ---- cells, and the folder of all files ---- */

char folder[64] = "/tmp/cellgrad-orders-XXXXXX";

#define MINE(k) "cell mine\ngates a_x a_y\nstate c\noutput h\noption gain g\nparam k, m = " k "\nc = k * c_prev + tanh(a_x + g * c_prev)\n" \
                "h = m * sigmoid(a_y) * tanh(c)\nsave c h\n"
static const char *const cells[][2] = {
	{ "mine", MINE("1") }, { "copy", "# the same\n\n" MINE("1  # of it") }, { "other", MINE("2") },
};
enum { CELLS = sizeof cells / sizeof *cells };

static const char *path_of(const char *name, const char *end)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s%s", folder, name, end);
	return path;
}

static const char *file_of(int k)
{
	char name[2] = { (char)('0' + k), '\0' };

	return path_of(name, ".safetensors");
}

int folder_make(void)
{
	if (!mkdtemp(folder))
		return -1;
	for (int k = 0; k < CELLS; k++) {
		FILE *f = fopen(path_of(cells[k][0], ".cell"), "w");

		if (!f || fputs(cells[k][1], f) < 0 || fclose(f))
			return -1;
	}
	return 0;
}

int folder_remove(void)
{
	for (int k = 0; k < CELLS; k++)
		unlink(path_of(cells[k][0], ".cell"));
	for (int k = 0; k < FILES; k++)
		unlink(file_of(k));
	return rmdir(folder);
}

/* ---- words ---- */

#define SIZES "num_layers=2", "num_units=4", "input_size=3"
#define CALL  "dropout=0.5", "seed=3", "seed2=4", "is_training=true", "input_mode=linear_input"
const struct variant variants[] = {
	{ "block", 0, 0, 0, { "forget_bias=0.5", "cell_clip=0.25", "use_peephole=true", "seq_len_max=2", "num_units=4", "input_size=3" } },
	{ "mode", 1, 0, 0, { "rnn_mode=gru", "direction=bidirectional", "num_proj=0", "time_major=true", SIZES, CALL,
	                     "num_params=24", "num_params_weights=24", "num_params_biases=24" } },
	{ "projection", 1, 0, 1, { "rnn_mode=lstm", "direction=unidirectional", "num_proj=2", "time_major=false", SIZES, CALL,
	                           "num_params_weights=18", "num_params_biases=16" } },
	{ "built-in", 1, 1, 0, { "cell=lstm_block", "options=peephole", "values=forget_bias=0.5,cell_clip=0.25", "direction=bidirectional",
	                         "counter=5", "num_proj=0", "time_major=true", SIZES, CALL, "num_params_weights=44",
	                         "num_params_biases=32" } },
	{ "own", 1, 1, 0, { "cell=%s/mine.cell", "options=gain", "values=k=0.5", "direction=unidirectional", "counter=5", "first_step=3",
	                    "route=composed", "num_proj=0", "time_major=false", SIZES, CALL, "num_params_weights=10",
	                    "num_params_biases=8" } },
	{ .name = NULL }
};

const char *word_value(const struct word *w)
{
	return w->text + w->name + 1;
}

struct word *example_word(struct example *e, const char *name)
{
	int n = (int)strlen(name);

	for (int k = 0; k < e->n_words; k++)
		if (e->words[k].name == n && !strncmp(e->words[k].text, name, (size_t)n))
			return &e->words[k];
	return NULL;
}

struct word *example_add(struct example *e, const char *text, int attribute)
{
	struct word *w = &e->words[e->n_words++];

	assert_true(e->n_words <= WORDS && strlen(text) < WORD);
	*w = (struct word){ .name = (int)strcspn(text, "="), .attribute = attribute };
	strcpy(w->text, text);
	return w;
}

/* Adds a word NAME=VALUE if NAME is an attribute of the op, a fixed property of the op (then with the op's own value), or a size of a
   network; else adds nothing. */
static void add_word(struct example *e, const struct call *c, const char *text)
{
	const char *meaning;
	char name[32], own[WORD];

	snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
	meaning = metadata_meaning(c, name);
	if (example_word(e, name))
		return;
	if (attribute_find(c, name)) {
		example_add(e, text, 1);
	} else if (meaning) {
		snprintf(own, sizeof own, "%s=%.*s", name, (int)strcspn(meaning, " ,"), meaning);
		example_add(e, own, 0);
	} else if (!strcmp(name, "num_layers") || !strcmp(name, "num_units") || !strcmp(name, "input_size")) {
		example_add(e, text, 0);
	}
}

static void add_words(struct example *e, const struct call *c, const struct variant *v)
{
	char text[WORD];

	for (const char *const *at = v->words; *at; at++) {
		const char *where = strstr(*at, "%s");

		snprintf(text, sizeof text, "%.*s%s%s", where ? (int)(where - *at) : WORD, *at, where ? folder : "", where ? where + 2 : "");
		add_word(e, c, text);
	}
	for (const char *at = c->row->means; at && *at; at += strcspn(at, " "), at += *at == ' ') {
		snprintf(text, sizeof text, "%.*s", (int)strcspn(at, " "), at);
		add_word(e, c, text);
	}
}

/* ---- tensors ---- */

static struct tensor *add_tensor(struct example *e, const char *name, const char *dtype, const int64_t *shape, int rank, size_t width)
{
	struct tensor *t = &e->tensors[e->n_tensors++];

	assert_true(e->n_tensors <= TENSORS);
	*t = (struct tensor){ .dtype = dtype, .rank = rank, .bytes = width };
	snprintf(t->name, sizeof t->name, "%s", name);
	for (int d = 0; d < rank; d++)
		t->bytes *= (size_t)(t->shape[d] = shape[d]);
	t->data = malloc(t->bytes + 1);
	assert_non_null(t->data);
	return t;
}

/* Fills a tensor with numbers between -1 and 1, which depend on its name. */
static void fill(struct tensor *t)
{
	uint32_t state = 7;

	for (const char *at = t->name; *at; at++)
		state = state * 31 + (unsigned char)*at;
	for (size_t k = 0; k < t->bytes / sizeof(float); k++) {
		float value = (float)((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;

		memcpy(t->data + k * sizeof value, &value, sizeof value);
	}
}

static void add_input(struct example *e, const struct call *c, const struct cg_port *port)
{
	static const int32_t lengths[] = { 3, 1 };
	int64_t shape[CG_RANK];
	int rank = cg_op_shape(c->row, port, c->op, shape);
	struct tensor *t = add_tensor(e, port->name, port->type ? "I32" : "F32", shape, rank, 4);

	if (port->type)
		memcpy(t->data, lengths, t->bytes);
	else
		fill(t);
}

/* Adds tensors for scalar inputs, which NAME=VALUE could also give. */
static void add_scalars(struct example *e, const struct call *c)
{
	for (const struct cg_attribute *a = c->row->attributes; a->name; a++) {
		const struct word *w = a->scalar ? example_word(e, a->name) : NULL;
		struct tensor *t = w ? add_tensor(e, a->name, "I64", NULL, 0, 8) : NULL;
		int64_t value = w ? atoll(word_value(w)) : 0;

		if (!t)
			continue;
		t->scalar = 1;
		memcpy(t->data, &value, sizeof value);
	}
}

/* ---- the call ---- */

/* Sets the sizes that the command would read from the tensors' shapes. */
static unsigned set_sizes(struct call *c, int projection, int directions)
{
	const struct { const char *symbol; int64_t size; } sizes[] = {
		{ "T", 3 }, { "B", 2 }, { "I", 3 }, { "U", 4 }, { "H", projection ? 2 : 4 }, { "L*D", 2 * directions },
	};
	unsigned bound = 0;

	for (int d = 0; c->row->dims[d].symbol; d++)
		for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
			if (!strcmp(c->row->dims[d].symbol, sizes[k].symbol) && !c->row->dims[d].only && !(c->row->dims[d].flags & CG_INFERRED)) {
				*(int64_t *)(void *)((char *)c->op + c->row->dims[d].at) = sizes[k].size;
				bound |= 1u << d;
			}
	return bound;
}

/* Opens a call of the example's op, sets the op's attributes by the variant's words, sets the op's sizes, and makes a struct cg_port for
   each tensor of a list. */
static void open_call(struct example *e, struct call *c, const struct variant *v)
{
	unsigned bound;

	if (call_open(c, e->op))
		fail_msg("%s: %s", e->op, cg_message());
	add_words(e, c, v);
	for (int k = 0; k < e->n_words; k++)
		if (e->words[k].attribute && call_attribute(c, e->words[k].text))
			fail_msg("%s: %s", e->op, cg_message());
	bound = attribute_sizes(c);
	if (plan_bind(c, &bound))
		fail_msg("%s: %s", e->op, cg_message());
	bound |= set_sizes(c, v->v3, strstr(v->name, "mode") || strstr(v->name, "built") ? 2 : 1);
	if (c->row->infer && !c->row->items && c->row->infer(c->row, c->op, &bound))
		fail_msg("%s: %s", e->op, cg_message());
	if (c->row->plan) {
		char text[WORD] = "cell_digest=";

		metadata_digest(cg_rnn_op_cell(c->op), text + strlen(text));
		example_add(e, text, 0);
	}
}

/* The name of the forward op whose reserve space a backward op reads, or NULL. */
static const char *forward_of(const struct call *c)
{
	static char name[64];
	const char *end = strstr(c->row->name, "_backprop");
	const struct cg_op *row;

	if (!end)
		return NULL;
	snprintf(name, sizeof name, "%.*s%s", (int)(end - c->row->name), c->row->name, end + strlen("_backprop"));
	row = cg_op_find(name, NULL);
	return row && c->theirs ? row->tensorflow : row ? row->name : NULL;
}

static void read_answers(struct example *e, const struct call *forward)
{
	const char *key;
	json_t *all = call_metadata(forward), *value;
	struct call c;

	assert_int_equal(call_open(&c, e->op), CG_OK);
	for (int k = 0; k < forward->n; k++) {
		const struct call_argument *a = &forward->arguments[k];
		const char *name = forward->row->ports[k].name;

		for (const struct cg_port *p = c.row->ports; p->name; p++)
			if (a->answer && a->bytes && p->flow == CG_IN && !strcmp(p->name, name) && p->type != CG_INT8) {
				struct tensor *t = add_tensor(e, name, call_code(forward, k), a->shape, a->rank, 4);

				memcpy(t->data, a->answer, t->bytes);
			}
	}
	json_object_foreach(all, key, value) {
		char text[WORD];

		snprintf(text, sizeof text, "%s=%s", key, json_string_value(value));
		if (strcmp(json_string_value(value), "0"))
			add_word(e, &c, text);
	}
	json_decref(all);
	call_close(&c);
}

/* ---- files ---- */

static int is_of_cell(const struct word *w)
{
	static const char *const names[] = { "rnn_mode", "cell", "cell_digest", "options", "values" };

	for (size_t k = 0; k < sizeof names / sizeof *names; k++)
		if ((int)strlen(names[k]) == w->name && !strncmp(names[k], w->text, (size_t)w->name))
			return 1;
	return 0;
}

void example_deal(struct example *e, unsigned seed, int some)
{
	uint32_t state = seed * 2654435761u + 1;
	unsigned cell = 0;

#define DRAW (state = state * 1664525u + 1013904223u, state >> 16)
	for (int k = 0; k < e->n_tensors; k++)
		e->tensors[k].in = some ? 1 + DRAW % 15 : 1u << DRAW % FILES;
	for (int k = 0; k < e->n_words; k++) {
		unsigned in = some ? 1 + DRAW % 15 : 1u << DRAW % FILES;

		cell = cell || !is_of_cell(&e->words[k]) ? cell : in;
		e->words[k].in = is_of_cell(&e->words[k]) && example_word(e, "cell_digest") ? cell : in;
	}
}

static void add(char **to, const char *end, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	*to += vsnprintf(*to, (size_t)(end - *to), format, list);
	va_end(list);
	assert_true(*to < end);
}

static void write_file(const struct example *e, int file)
{
	static char header[1 << 15];
	const char *end = header + sizeof header - 8, *comma = "";
	char *to = header;
	size_t at = 0;
	uint64_t length;
	FILE *f = fopen(file_of(file), "w");

	assert_non_null(f);
	add(&to, end, "{\"__metadata__\":{");
	for (int k = 0; k < e->n_words; k++) {
		const struct word *w = &e->words[k];

		if (w->in >> file & 1)
			add(&to, end, "%s\"%.*s\":\"%s\"", comma, w->name, w->text, word_value(w)), comma = ",";
	}
	add(&to, end, "}");
	for (int k = 0; k < e->n_tensors; k++) {
		const struct tensor *t = &e->tensors[k];

		if (!(t->in >> file & 1))
			continue;
		add(&to, end, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, t->dtype);
		for (int d = 0; d < t->rank; d++)
			add(&to, end, "%s%" PRId64, d ? "," : "", t->shape[d]);
		add(&to, end, "],\"data_offsets\":[%zu,%zu]}", at, at + t->bytes);
		at += t->bytes;
	}
	add(&to, end, "}");
	length = (uint64_t)(to - header);
	assert_int_equal(fwrite(&length, 1, sizeof length, f) + fwrite(header, 1, length, f), length + 8);
	for (int k = 0; k < e->n_tensors; k++)
		if (e->tensors[k].in >> file & 1)
			assert_int_equal(fwrite(e->tensors[k].data, 1, e->tensors[k].bytes, f), e->tensors[k].bytes);
	assert_int_equal(fclose(f), 0);
}

void example_write(const struct example *e)
{
	for (int k = 0; k < FILES; k++)
		write_file(e, k);
}

/* ---- results ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The words of a message, sorted, so that the order of names does not matter. */
static void collect_facts(char facts[FACTS])
{
	char *words[512], text[FACTS], *rest = text, *word;
	size_t n = 0;

	snprintf(text, sizeof text, "%s", cg_message());
	while (n < 512 && (word = strtok_r(rest, " ,;:", &rest)))
		words[n++] = word;
	qsort(words, n, sizeof *words, by_text);
	*facts = '\0';
	for (size_t k = 0; k < n; k++)
		snprintf(facts + strlen(facts), FACTS - strlen(facts), "%s ", words[k]);
}

static void collect_answers(const struct call *c, struct outcome *o)
{
	json_t *all = call_metadata(c);
	char *text = json_dumps(all, JSON_SORT_KEYS);

	assert_non_null(text);
	o->metadata = cg_fingerprint(CG_FINGERPRINT, text, strlen(text));
	o->answers = CG_FINGERPRINT;
	for (int k = 0; k < c->n; k++)
		if (c->arguments[k].answer)
			o->answers = cg_fingerprint(o->answers, c->arguments[k].answer, c->arguments[k].bytes);
	cg_memory(text, 0);
	json_decref(all);
}

static int compute(struct call *c, const char *const *words, const int *order, int n, struct cg_context *context)
{
	int working = 0;

	while (*words)
		CG_TRY(call_attribute(c, *words++));
	for (int k = 0; k < n; k++)
		CG_TRY(call_file(c, file_of(order[k])));
	CG_TRY(call_bind(c, 0));
	CG_TRY(call_compute(c, context, &working));
	return CG_OK;
}

void example_run(const char *op, const char *const *words, const int *order, int n, struct cg_context *context, struct outcome *o)
{
	struct call c;

	memset(o, 0, sizeof *o);
	o->code = call_open(&c, op);
	assert_int_equal(o->code, CG_OK);
	o->code = compute(&c, words, order, n, context);
	if (o->code)
		collect_facts(o->facts);
	else
		collect_answers(&c, o);
	call_close(&c);
}

void example_plain(struct example *e, struct cg_context *context, struct outcome *o)
{
	static const int first = 0;
	const char *words[WORDS + 1];
	int n = 0;

	for (int k = 0; k < e->n_tensors; k++)
		e->tensors[k].in = 1;
	for (int k = 0; k < e->n_words; k++) {
		e->words[k].in = 0;
		if (e->words[k].attribute)
			words[n++] = e->words[k].text;
	}
	words[n] = NULL;
	example_write(e);
	example_run(e->op, words, &first, 1, context, o);
}

/* ---- all of it ---- */

static void add_reserve(struct example *e, const struct call *c, const struct variant *v, struct cg_context *context)
{
	struct example *forward = calloc(1, sizeof *forward);
	static const int first = 0;
	const char *words[WORDS + 1];
	struct call of;
	int n = 0;

	assert_non_null(forward);
	assert_true(example_make(forward, forward_of(c), v, 0, context));
	for (int k = 0; k < forward->n_tensors; k++)
		forward->tensors[k].in = 1;
	for (int k = 0; k < forward->n_words; k++)
		if (forward->words[k].attribute)
			words[n++] = forward->words[k].text;
	words[n] = NULL;
	example_write(forward);
	assert_int_equal(call_open(&of, forward->op), CG_OK);
	if (compute(&of, words, &first, 1, context))
		fail_msg("%s: %s", forward->op, cg_message());
	read_answers(e, &of);
	call_close(&of);
	example_free(forward);
	free(forward);
}

int example_make(struct example *e, const char *op, const struct variant *v, int with, struct cg_context *context)
{
	struct call c;
	int fits;

	*e = (struct example){ .op = op };
	assert_int_equal(call_open(&c, op), CG_OK);
	fits = c.row->plan == v->network && (!v->any_cell || attribute_find(&c, "cell")) && (!v->v3 || attribute_find(&c, "num_proj")) &&
	       (!with || forward_of(&c));
	call_close(&c);
	if (!fits)
		return 0;
	open_call(e, &c, v);
	for (int k = 0; k < c.n; k++) {
		const struct cg_port *port = &c.row->ports[k];

		if (port->flow == CG_IN && !(port->flags & CG_MAY_LACK) && (!c.row->reads || c.row->reads(c.row, port, c.op)))
			add_input(e, &c, port);
	}
	add_scalars(e, &c);
	if (with)
		add_reserve(e, &c, v, context);
	call_close(&c);
	return 1;
}

void example_free(struct example *e)
{
	for (int k = 0; k < e->n_tensors; k++)
		free(e->tensors[k].data);
	e->n_tensors = 0;
}
