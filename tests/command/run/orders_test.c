/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that the order of the files of `cellgrad run` does not matter. For every op of the table, by both of its names: the tensors and
 * metadata of a correct call are distributed over four files, and each subset of the files gives the same answer or the same refusal in
 * all orders. Other tests plant one contradiction at a time, between two files or between a file and NAME=VALUE.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/command/run/orders.h"

static struct cg_context *context;
static const char *const none[] = { NULL };
static int examples, refusals;

/* ---- orders ---- */

/* Runs the op on a set of files in all orders; the results must be equal, and *o is the result. */
static void in_all_orders(const char *op, const char *const *words, int *files, int n, int at, struct outcome *o)
{
	struct outcome this;

	if (at < n) {
		for (int k = at; k < n; k++) {
			int file = files[k];

			files[k] = files[at];
			files[at] = file;
			in_all_orders(op, words, files, n, at + 1, o);
			files[at] = files[k];
			files[k] = file;
		}
		return;
	}
	example_run(op, words, files, n, context, &this);
	if (!*o->facts && !o->answers)
		*o = this;
	if (this.code != o->code || this.answers != o->answers || this.metadata != o->metadata || strcmp(this.facts, o->facts))
		fail_msg("%s: files %d %d %d %d, of which %d: %s; in another order %s", op, files[0], files[1], files[2], files[3], n,
		         *this.facts ? this.facts : "other answers", *o->facts ? o->facts : "answers");
}

static void in_all_orders_of(const char *op, const char *const *words, unsigned set, struct outcome *o)
{
	int files[FILES] = { 0 }, n = 0;

	*o = (struct outcome){ 0 };
	for (int k = 0; k < FILES; k++)
		if (set >> k & 1)
			files[n++] = k;
	in_all_orders(op, words, files, n, 0, o);
}

enum { ALL = (1 << FILES) - 1 };

/* Expects a refusal in every order of the files, with these words in the message; NULL follows the last word. */
__attribute__((sentinel))
static void is_refused(const struct example *e, const char *const *words, ...)
{
	struct outcome o;
	const char *fact;
	va_list facts;

	example_write(e);
	in_all_orders_of(e->op, words, ALL, &o);
	if (o.code != CG_BAD_ARGUMENT)
		fail_msg("%s: expected a refusal, got %d", e->op, o.code);
	va_start(facts, words);
	while ((fact = va_arg(facts, const char *)))
		if (!strstr(o.facts, fact))
			fail_msg("%s: \"%s\" is not in: %s", e->op, fact, o.facts);
	va_end(facts);
	refusals++;
}

/* ---- every op ---- */

static void with_name(const char *op, void (*test)(struct example *))
{
	static struct example e;

	for (const struct variant *v = variants; v->name; v++)
		for (int with = 0; with < 2; with++)
			if (example_make(&e, op, v, with, context)) {
				test(&e);
				example_free(&e);
				examples++;
			}
}

static void each(void (*test)(struct example *))
{
	examples = refusals = 0;
	for (const struct cg_op *row = NULL; (row = cg_op_next(row));) {
		int before = examples;

		with_name(row->name, test);
		with_name(row->tensorflow, test);
		if (examples < before + 2)
			fail_msg("%s: there is no example", row->name);
	}
	print_message("# %d calls, %d refusals\n", examples, refusals);
}

/* The checksum of the answers of an example. */
static uint64_t answers(struct example *e)
{
	struct outcome plain;

	example_plain(e, context, &plain);
	if (plain.code)
		fail_msg("%s: %s", e->op, plain.facts);
	return plain.answers;
}

static void answers_are(const struct example *e, uint64_t want)
{
	struct outcome o;

	example_write(e);
	in_all_orders_of(e->op, none, ALL, &o);
	if (o.code || o.answers != want)
		fail_msg("%s: expected the answers of one file, got %s", e->op, o.code ? o.facts : "others");
}

static void subsets(struct example *e)
{
	uint64_t want = answers(e);
	struct outcome o;

	for (unsigned seed = 1; seed <= 2; seed++) {
		example_deal(e, seed, 0);
		example_write(e);
		for (unsigned set = 1; set < ALL; set++)
			in_all_orders_of(e->op, none, set, &o);
		answers_are(e, want);
		/* With `some` = 1 several files may have the same tensors and words. */
		example_deal(e, seed, 1);
		answers_are(e, want);
	}
}

static void test_subsets(void **state)
{
	(void)state;
	each(subsets);
}

/* ---- contradictions of a word ---- */

static const struct { const char *name, *value, *other; } others[] = {
	{ "rnn_mode", NULL, "rnn_tanh" }, { "options", NULL, "" }, { "values", "k=0.5", "k=0.75" },
	{ "values", NULL, "forget_bias=0.5,cell_clip=0.75" }, { "direction", "bidirectional", "unidirectional" },
	{ "direction", NULL, "bidirectional" }, { "input_mode", NULL, "skip_input" }, { "weights_format", NULL, "onnx" },
	{ "route", NULL, "cudnn" }, { "cell_digest", NULL, "0123456789abcdef" }, { "true", NULL, "false" }, { "false", NULL, "true" },
};

static const char *value_of(const struct word *w)
{
	static char text[WORD];
	char name[32];

	snprintf(name, sizeof name, "%.*s", w->name, w->text);
	for (size_t k = 0; k < sizeof others / sizeof *others; k++)
		if ((!strcmp(others[k].name, name) && (!others[k].value || !strcmp(others[k].value, word_value(w)))) ||
		    !strcmp(others[k].name, word_value(w)))
			return others[k].other;
	if (!strcmp(name, "cell"))
		snprintf(text, sizeof text, "%s/other.cell", folder);
	else if (strchr(word_value(w), '.'))
		return "0.75";
	else
		snprintf(text, sizeof text, "%lld", atoll(word_value(w)) + 1);
	return text;
}

/* The first file of a set, by the name that messages use. */
static const char *file_in(unsigned in)
{
	static char names[2][96];
	static int which;
	int k = 0;

	while (!(in >> k & 1))
		k++;
	which = !which;
	snprintf(names[which], sizeof *names, "%s/%d.safetensors", folder, k);
	return names[which];
}

static unsigned next(unsigned in)
{
	return in << 1 & ALL ? in << 1 : 1;
}

/* Gives each tensor and word to one file; but no file gets the tensor of a scalar, since a word gives the scalar, too. */
static void deal(struct example *e, unsigned seed)
{
	example_deal(e, seed, 0);
	for (int k = 0; k < e->n_tensors; k++)
		e->tensors[k].in = e->tensors[k].scalar ? 0 : e->tensors[k].in;
}

static int is_name(const struct word *w, const char *name)
{
	return (int)strlen(name) == w->name && !strncmp(name, w->text, (size_t)w->name);
}

static void word_in_two_files(struct example *e)
{
	int n = e->n_words;

	for (int k = 0; k < n; k++) {
		const struct word *w = &e->words[k];
		char text[WORD], name[32];
		int cell = is_name(w, "cell") || is_name(w, "rnn_mode") || is_name(w, "cell_digest");
		unsigned to;

		deal(e, (unsigned)k);
		to = next(w->in);
		snprintf(name, sizeof name, "%.*s", w->name, w->text);
		snprintf(text, sizeof text, "%s=%s", name, value_of(w));
		example_add(e, text, 0)->in = to;
		/* A digest counts only beside its cell, so the file that gets the digest gets the cell's word, too. */
		if (is_name(w, "cell_digest"))
			example_add(e, example_word(e, example_word(e, "cell") ? "cell" : "rnn_mode")->text, 0)->in = to;
		/* If a word is no attribute, the message may name, instead of the first file, the op or the tensors, which contradict the second
		   file. */
		is_refused(e, none, cell ? "cell " : name, file_in(cell || w->attribute ? w->in : to), file_in(to), "--ignore-metadata", NULL);
		e->n_words = n;
	}
}

static void test_words_in_two_files(void **state)
{
	(void)state;
	each(word_in_two_files);
}

/* Another path, to a file with the same equations, names the same cell. */
static void copies(struct example *e)
{
	const struct word *cell = example_word(e, "cell");
	char text[WORD];
	uint64_t want;

	if (!cell || !strchr(word_value(cell), '/'))
		return;
	want = answers(e);
	deal(e, 5);
	snprintf(text, sizeof text, "cell=%s/copy.cell", folder);
	example_add(e, text, 0)->in = next(cell->in);
	answers_are(e, want);
	e->n_words--;
}

/* ---- contradictions between a word and NAME=VALUE ---- */

/* Is it a name for which NAME=VALUE does not override the metadata of files? */
static int is_fixed(const char *name)
{
	static const char *const names[] = { "rnn_mode", "cell", "options", "values", "num_layers", "num_units", "input_size", "num_proj",
	                                     "direction", "input_mode" };

	for (size_t k = 0; k < sizeof names / sizeof *names; k++)
		if (!strcmp(names[k], name))
			return 1;
	return 0;
}

static void word_on_the_line(struct example *e)
{
	for (int k = 0; k < e->n_words; k++) {
		struct word *w = &e->words[k], kept = *w;
		char text[WORD], name[32];
		const char *const words[] = { text, NULL };
		struct outcome plain, o;

		if (!w->attribute)
			continue;
		snprintf(name, sizeof name, "%.*s", w->name, w->text);
		snprintf(text, sizeof text, "%s=%s", name, value_of(w));
		deal(e, (unsigned)k);
		if (is_fixed(name)) {
			is_refused(e, words, strcmp(name, "rnn_mode") ? name : "cell", "command ", "line ", file_in(w->in), "--ignore-metadata", NULL);
			continue;
		}
		example_write(e);
		in_all_orders_of(e->op, words, ALL, &o);
		strcpy(w->text, text);
		example_plain(e, context, &plain);
		if (o.code != plain.code || o.answers != plain.answers)
			fail_msg("%s: %s: expected %s, got %s", e->op, text, plain.code ? plain.facts : "its answers", o.code ? o.facts : "others");
		*w = kept;
	}
}

static void test_words_on_the_line(void **state)
{
	(void)state;
	each(word_on_the_line);
}

/* ---- tensors ---- */

/* May the tensor differ between two files, since no answer of the op, or of TensorFlow's version of it, depends on the tensor? */
static int may_differ(const struct example *e, const char *name)
{
	static const char *const ours[] = { "b", "b_ru", "b_c", "output", "output_h", "output_c", NULL };
	static const char *const theirs[] = { "LSTMBlockCellGrad x", "LSTMBlockCellGrad h_prev", "LSTMBlockCellGrad w", "GRUBlockCellGrad x", NULL };
	char text[96];

	snprintf(text, sizeof text, "%s %s", e->op, name);
	for (const char *const *at = theirs; *at; at++)
		if (!strcmp(*at, text))
			return 1;
	for (const char *const *at = ours; *at; at++)
		if (!strcmp(*at, name))
			return strstr(e->op, "rad") || strstr(e->op, "ackprop");
	return 0;
}

static void tensor_in_two_files(struct example *e)
{
	uint64_t want = answers(e);
	int n = e->n_tensors;

	for (int k = 0; k < n; k++) {
		struct tensor *t = &e->tensors[k], *two = &e->tensors[n];
		static unsigned char bytes[1 << 16];

		/* of more than 30 tensors only every seventh is tried */
		if (t->scalar || (n > 30 && k % 7))
			continue;
		deal(e, (unsigned)k);
		assert_true(t->bytes && t->bytes <= sizeof bytes);
		*two = *t;
		two->data = memcpy(bytes, t->data, t->bytes);
		two->in = next(t->in);
		bytes[t->bytes - 1] ^= 0x80;
		e->n_tensors = n + 1;
		if (may_differ(e, t->name))
			answers_are(e, want);
		else
			is_refused(e, none, t->name, file_in(t->in), file_in(two->in), NULL);
		/* Another shape is refused even if the numbers may differ; the shape of a reserve space is not tried. */
		if (t->rank && !strstr(t->name, "reserve")) {
			two->rank = 1;
			two->shape[0] = 1;
			two->bytes = 4;
			is_refused(e, none, t->name, file_in(t->in), file_in(two->in), NULL);
		}
		e->n_tensors = n;
	}
}

static void test_tensors_in_two_files(void **state)
{
	(void)state;
	each(tensor_in_two_files);
}

/* ---- the dtype ---- */

static void dtypes(struct example *e)
{
	uint64_t want = answers(e);
	int tensors = 0;

	deal(e, 9);
	for (int k = 0; k < e->n_tensors; k++)
		tensors += !strcmp(e->tensors[k].dtype, "F32");
	example_add(e, "T=float", 0)->in = 1;
	answers_are(e, want);
	example_add(e, "T=DT_HALF", 0)->in = 4;
	is_refused(e, none, "T ", file_in(1), file_in(4), "float", "DT_HALF", NULL);
	e->words[e->n_words - 2].in = 0;
	if (tensors)
		is_refused(e, none, "T ", file_in(4), "DT_HALF", "f32", NULL);
	e->n_words -= 2;
}

static void test_dtypes(void **state)
{
	(void)state;
	each(dtypes);
}

static void test_copies(void **state)
{
	(void)state;
	each(copies);
}

static int begin(void **state)
{
	(void)state;
	return folder_make() || cg_open("cpu", &context);
}

static int end(void **state)
{
	(void)state;
	cg_close(context);
	return folder_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_subsets), cmocka_unit_test(test_words_in_two_files), cmocka_unit_test(test_copies),
		cmocka_unit_test(test_words_on_the_line), cmocka_unit_test(test_tensors_in_two_files), cmocka_unit_test(test_dtypes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("orders", tests, begin, end);
}
