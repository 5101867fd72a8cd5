/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The op table, and what is read from it: shapes, needs, names. The loops of this file read the rows of the table, so that a new row is
 * tested as soon as it exists; the expected contents are written here a second time, from TensorFlow's signatures and the formulas.
 * check_test.c tests what is rejected.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/op/run.h"
#include "runtime/op/shape.h"
#include "tests/help/args.h"

/* ---- the rows ---- */

static void row_is_sound(const struct cg_op *row)
{
	const struct cg_port *p, *q;
	union args a;
	int state = 0, n = 0;

	assert_true(row->size <= CG_OP_BYTES);
	for (p = row->ports; p->name; p++, n++) {
		int now = p->flow == CG_IN ? 0 : p->extra ? 2 : 1;
		int64_t shape[CG_RANK];

		assert_true(now >= state);                       /* the order: inputs, TensorFlow's outputs, the library's own outputs */
		state = now;
		assert_true(p->at + sizeof(struct cg_mem) <= row->size && p->at > row->work_at);
		assert_true(p->flow == CG_IN || !p->need);
		assert_true(p->flow != CG_IN || !p->extra);
		for (q = row->ports; q < p; q++)
			assert_true(q->at != p->at && strcmp(q->name, p->name));

		fill(row, &a);                                   /* in ops without a plan a shape has 1 to 3 dimensions, of sizes with the symbols T, B, I and U */
		assert_in_range(cg_op_shape(row, p, &a, shape), 1, 3);
		assert_true(strspn(p->shape, "0123456789*+ TBIU") == strlen(p->shape));
	}
	for (n = 0; row->dims[n].symbol; n++)
		assert_true(n < 8 && row->dims[n].at < row->work_at);
}

/* Expects that a row has memory for its parsed texts, and at most CG_PORTS_MAX ports, CG_ATTRIBUTES_MAX attributes and CG_DIMS_MAX
 * sizes. */
static void check_row_size(const struct cg_op *row)
{
	int n = 0;

	assert_non_null(row->readings);
	assert_non_null(row->ranges);
	while (row->ports[n].name)
		n++;
	assert_true(n <= CG_PORTS_MAX);
	for (n = 0; row->attributes[n].name;)
		n++;
	assert_true(n <= CG_ATTRIBUTES_MAX);
	for (n = 0; row->dims[n].symbol;)
		n++;
	assert_true(n <= CG_DIMS_MAX);
}

/* Expects that the words in `need` of an op's arguments are names of outputs or of boolean attributes. */
static void needs_are_names(const struct cg_op *row)
{
	const struct cg_attribute *t;
	const struct cg_port *p, *q;
	char text[256], *word;

	for (p = row->ports; p->name; p++) {
		snprintf(text, sizeof text, "%s", p->need ? p->need : "");
		for (word = strtok(text, " "); word; word = strtok(NULL, " ")) {
			int known = 0;

			for (q = row->ports; q->name; q++)
				known |= q->flow != CG_IN && !strcmp(q->name, word);
			for (t = row->attributes; t->name; t++)
				known |= t->kind == CG_BOOL && !strcmp(t->name, word);
			if (!known)
				fail_msg("%s: %s needs %s", row->name, p->name, word);
		}
	}
}

/* Expects that every symbol in a shape is a size of the op: the library's code reads sizes there without another check. */
static void shapes_are_of_sizes(const struct cg_op *row)
{
	for (const struct cg_port *p = row->ports; p->name; p++) {
		struct cg_reading storage;
		const struct cg_reading *reading = cg_find_reading(row, p, &storage);

		for (int k = 0; k < reading->rank; k++)
			for (int j = 0; j < reading->dimensions[k].n; j++)
				if (reading->dimensions[k].of[j].dim < 0)
					fail_msg("%s: %s: no such size in %s", row->name, p->name, p->shape);
	}
}

static void test_rows_are_sound(void **state)
{
	const struct cg_op *row;

	(void)state;
	for (row = NULL; (row = plain_row(row));) {
		row_is_sound(row);
		needs_are_names(row);
	}
	for (row = NULL; (row = cg_op_next(row));) {
		check_row_size(row);
		shapes_are_of_sizes(row);
	}
}

/* ---- texts are read once ---- */

enum { THREADS = 4 };
static struct cg_op fresh;
static pthread_barrier_t start;
static union args valid;

static void *check_fresh(void *code)
{
	pthread_barrier_wait(&start);
	*(int *)code = cg_op_check(&fresh, &valid);
	return NULL;
}

/* Several threads are the first to use a row, at the same time: the op's check passes in each; afterwards the row is not parsed again. */
static void test_texts_are_read_once(void **state)
{
	static struct cg_reading readings[CG_PORTS_MAX];
	static struct cg_range ranges[CG_ATTRIBUTES_MAX];
	pthread_t threads[THREADS];
	int codes[THREADS], n = 0;

	(void)state;
	fresh = *row_of("block_lstm_grad");
	fresh.readings = readings;
	fresh.ranges = ranges;
	fill(&fresh, &valid);
	valid.lstm.seq_len_max = valid.lstm.T;
	pthread_barrier_init(&start, NULL, THREADS);
	for (int k = 0; k < THREADS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, check_fresh, &codes[k]), 0);
	for (int k = 0; k < THREADS; k++)
		assert_int_equal(pthread_join(threads[k], NULL), 0);
	pthread_barrier_destroy(&start);
	for (int k = 0; k < THREADS; k++)
		assert_int_equal(codes[k], CG_OK);
	for (; fresh.ports[n].name; n++)
		assert_int_equal(readings[n].state, 2);
	assert_int_equal(ranges[0].state, 2);

	/* The library parses the texts of a row of the op table only once: later calls read the parsed form that this test changes. */
	readings[0].rank = 0;
	assert_int_equal(cg_op_check(&fresh, &valid), CG_BAD_ARGUMENT);
	ranges[0].most.number = 0;
	ranges[0].most.dim = -1;
	assert_int_equal(cg_op_check(&fresh, &valid), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), "block_lstm_grad: seq_len_max: expected -1 or 0 to 0, got 3");
	/* If a row of the op table has no memory for its parsed texts, each call parses the texts again. */
	fresh.readings = NULL;
	fresh.ranges = NULL;
	assert_int_equal(cg_op_check(&fresh, &valid), CG_OK);
}

/* The rows of networks. The default of an attribute whose values are words is the index of a word. */
#define NETWORK_IN    "input[T B I] input_h[L*D B H] input_c[L*D B U] params[params]"
#define NETWORK_OUT   "output[T B D*H] output_h[L*D B H] output_c[L*D B C] reserve_space[reserve]"
#define NETWORK_BACK  "output[T B D*H] output_h[L*D B H] output_c[L*D B U] output_backprop[T B D*H] output_h_backprop[L*D B H]" \
                      " output_c_backprop[L*D B U] reserve_space[reserve]"
#define NETWORK_GRAD  "input_backprop[T B I] input_h_backprop[L*D B H] input_c_backprop[L*D B C] params_backprop[params]+"
#define STATES_IN     " | input_s2[L*D B U] input_s3[L*D B U] input_s4[L*D B U]"
#define STATES_OUT    " | output_s2[L*D B U] output_s3[L*D B U] output_s4[L*D B U]"
#define STATES_BACK   " output_s2_backprop[L*D B U] output_s3_backprop[L*D B U] output_s4_backprop[L*D B U]"
#define STATES_GRAD   " | input_s2_backprop[L*D B U] input_s3_backprop[L*D B U] input_s4_backprop[L*D B U]"
#define NETWORK       "rnn_mode=2 input_mode=0 direction=0 dropout=0 seed=0 seed2=0"
#define NETWORK_SIZES "num_layers:1 2147483647 num_units:1 input_size:1"
#define CELL          " cell=0 options=0 values=0"

/* The rows as TensorFlow registers the ops; a scalar input has its range; after "|" the library's own arguments, or attributes; "+": an
   output to which accumulate adds; "*": a list. */
#define SEQUENCE_GRAD \
	" x[T B I] cs_prev[B U] h_prev[B U] w[I+U 4*U] wci[U] wcf[U] wco[U] b[4*U]" \
	" i[T B U] cs[T B U] f[T B U] o[T B U] ci[T B U] co[T B U] h[T B U] cs_grad[T B U] h_grad[T B U]) ->" \
	" x_grad[T B I] cs_prev_grad[B U] h_prev_grad[B U] w_grad[I+U 4*U]+ wci_grad[U]+ wcf_grad[U]+ wco_grad[U]+ b_grad[4*U]+ |" \
	" dgates[T B 4*U] {use_peephole}"
static const char *const signatures[] = {
	"LSTMBlockCell(x[B I] cs_prev[B U] h_prev[B U] w[I+U 4*U] wci[U] wcf[U] wco[U] b[4*U]) ->"
	" i[B U] cs[B U] f[B U] o[B U] ci[B U] co[B U] h[B U] {forget_bias=1 cell_clip=3 use_peephole=0}",
	"LSTMBlockCellGrad(x[B I] cs_prev[B U] h_prev[B U] w[I+U 4*U] wci[U] wcf[U] wco[U] b[4*U]"
	" i[B U] cs[B U] f[B U] o[B U] ci[B U] co[B U] cs_grad[B U] h_grad[B U]) ->"
	" cs_prev_grad[B U] dicfo[B 4*U] wci_grad[U]+ wcf_grad[U]+ wco_grad[U]+ |"
	" x_grad[B I] h_prev_grad[B U] w_grad[I+U 4*U]+ b_grad[4*U]+ {use_peephole}",
	"GRUBlockCell(x[B I] h_prev[B U] w_ru[I+U 2*U] w_c[I+U U] b_ru[2*U] b_c[U]) -> r[B U] u[B U] c[B U] h[B U] {}",
	"GRUBlockCellGrad(x[B I] h_prev[B U] w_ru[I+U 2*U] w_c[I+U U] b_ru[2*U] b_c[U] r[B U] u[B U] c[B U] d_h[B U]) ->"
	" d_x[B I] d_h_prev[B U] d_c_bar[B U] d_r_bar_u_bar[B 2*U] |"
	" d_w_ru[I+U 2*U]+ d_w_c[I+U U]+ d_b_ru[2*U]+ d_b_c[U]+ {}",
	"BlockLSTM(seq_len_max:0 T x[T B I] cs_prev[B U] h_prev[B U] w[I+U 4*U] wci[U] wcf[U] wco[U] b[4*U]) ->"
	" i[T B U] cs[T B U] f[T B U] o[T B U] ci[T B U] co[T B U] h[T B U] {forget_bias=1 cell_clip=3 use_peephole=0}",
	"BlockLSTMGrad(seq_len_max:0 T" SEQUENCE_GRAD,
	"BlockLSTMV2(seq_len_max:0 T x[T B I] cs_prev[B U] h_prev[B U] w[I+U 4*U] wci[U] wcf[U] wco[U] b[4*U]) ->"
	" i[T B U] cs[T B U] f[T B U] o[T B U] ci[T B U] co[T B U] h[T B U] {cell_clip=0 use_peephole=0}",
	"BlockLSTMGradV2(seq_len_max:0 T" SEQUENCE_GRAD,
	"CudnnRNNV3(" NETWORK_IN " sequence_lengths[B]:int32" STATES_IN ") -> " NETWORK_OUT " host_reserved[]:int8" STATES_OUT
	" {" NETWORK " num_proj=0 is_training=1 time_major=1 |" CELL " num_layers=0 num_units=0 counter=0 first_step=0 no_dropout=0 reverse=0 states_major=0 route=0 strict_rounding=0}",
	"CudnnRNNV2(" NETWORK_IN ") -> " NETWORK_OUT " host_reserved[]:int8 {" NETWORK " is_training=1}",
	"CudnnRNN(" NETWORK_IN ") -> " NETWORK_OUT " {" NETWORK " is_training=1}",
	"CudnnRNNBackpropV3(" NETWORK_IN " sequence_lengths[B]:int32 " NETWORK_BACK " host_reserved[]:int8" STATES_IN STATES_BACK ") -> "
	NETWORK_GRAD STATES_GRAD
	" {" NETWORK " num_proj=0 time_major=1 |" CELL " num_layers=0 num_units=0 counter=0 first_step=0 no_dropout=0 reverse=0 states_major=0 route=0 strict_rounding=0}",
	"CudnnRNNBackpropV2(" NETWORK_IN " " NETWORK_BACK " host_reserved[]:int8) -> " NETWORK_GRAD " {" NETWORK "}",
	"CudnnRNNBackprop(" NETWORK_IN " " NETWORK_BACK ") -> " NETWORK_GRAD " {" NETWORK "}",
	"CudnnRNNParamsSize(" NETWORK_SIZES ") -> params_size[one]:int32 {S=0 " NETWORK " num_proj=0 |" CELL "}",
	"CudnnRNNParamsToCanonicalV2(" NETWORK_SIZES " params[params]) -> weights* biases*"
	" {num_params_weights num_params_biases " NETWORK " num_proj=0 |" CELL "}",
	"CudnnRNNParamsToCanonical(" NETWORK_SIZES " params[params]) -> weights* biases* {num_params " NETWORK "}",
	"CudnnRNNCanonicalToParamsV2(" NETWORK_SIZES " weights* biases*) -> params[params]"
	" {num_params_weights num_params_biases " NETWORK " num_proj=0 |" CELL "}",
	"CudnnRNNCanonicalToParams(" NETWORK_SIZES " weights* biases*) -> params[params] {num_params " NETWORK "}"
};

static void append(char *s, size_t capacity, const char *a, const char *b, const char *c)
{
	size_t n = strlen(s);

	snprintf(s + n, capacity - n, "%s%s%s", a, b, c);
}

static void test_signatures_are_tensorflows(void **state)
{
	const struct cg_op *row = NULL;
	const struct cg_attribute *t;
	const struct cg_port *p;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof signatures / sizeof *signatures; i++) {
		row = cg_op_next(row);
		char s[2048] = "", value[32];
		int flow = CG_IN, extra = 0, first = 1;

		append(s, sizeof s, row->tensorflow, "(", "");
		for (t = row->attributes; t->name; t++)
			if (t->scalar) {
				append(s, sizeof s, first ? "" : " ", t->name, ":");
				append(s, sizeof s, t->range, "", "");
				first = 0;
			}
		for (p = row->ports; p->name; p++, first = 0) {

			if (flow == CG_IN && p->flow != CG_IN)
				append(s, sizeof s, ") ->", "", "");
			if (p->extra && !extra)
				append(s, sizeof s, " |", "", "");
			append(s, sizeof s, first ? "" : " ", p->name, "");
			if (p->flags & CG_LIST)
				append(s, sizeof s, "*", "", "");
			else
				append(s, sizeof s, "[", p->shape, p->flow == CG_OUT_SUM ? "]+" : "]");
			if (p->type)
				append(s, sizeof s, ":", p->type == CG_INT8 ? "int8" : "int32", "");
			flow = p->flow;
			extra = p->extra;
		}
		append(s, sizeof s, " {", "", "");
		for (t = row->attributes, first = 1, extra = 0; t->name; t++) {
			if (t->scalar)
				continue;
			snprintf(value, sizeof value, "=%g", t->fallback);
			append(s, sizeof s, first ? "" : " ", t->extra && extra >= 0 ? "| " : "", t->name);
			append(s, sizeof s, t->required ? "" : value, "", "");
			first = 0;
			extra = t->extra ? -1 : 0;
		}
		append(s, sizeof s, "}", "", "");
		assert_string_equal(s, signatures[i]);
	}
	assert_null(cg_op_next(row));
}

/* An op's struct, the name of a port, and the offset of the field that the port must have. */
#define L(port, field) { "cg_lstm_block", port, offsetof(struct cg_lstm_block, field) }
#define G(port, field) { "cg_gru_block", port, offsetof(struct cg_gru_block, field) }

static const struct { const char *type, *port; size_t at; } fields[] = {
	L("x", x), L("cs_prev", cs_prev), L("h_prev", h_prev), L("w", w), L("wci", wci), L("wcf", wcf), L("wco", wco),
	L("b", b), L("i", i), L("cs", cs), L("f", f), L("o", o), L("ci", ci), L("co", co), L("h", h),
	L("cs_grad", cs_grad), L("h_grad", h_grad), L("cs_prev_grad", cs_prev_grad), L("dicfo", dgates), L("wci_grad", wci_grad),
	L("wcf_grad", wcf_grad), L("wco_grad", wco_grad), L("x_grad", x_grad), L("h_prev_grad", h_prev_grad),
	L("w_grad", w_grad), L("b_grad", b_grad), L("dgates", dgates),
	G("x", x), G("h_prev", h_prev), G("w_ru", w_ru), G("w_c", w_c), G("b_ru", b_ru), G("b_c", b_c), G("r", r),
	G("u", u), G("c", c), G("h", h), G("d_h", d_h), G("d_x", d_x), G("d_h_prev", d_h_prev), G("d_c_bar", d_c_bar),
	G("d_r_bar_u_bar", d_r_bar_u_bar), G("d_w_ru", d_w_ru), G("d_w_c", d_w_c), G("d_b_ru", d_b_ru), G("d_b_c", d_b_c)
};

static void test_ports_are_their_fields(void **state)
{
	const struct cg_op *row;
	const struct cg_port *p;
	size_t i, found;

	(void)state;
	for (row = NULL; (row = plain_row(row));)
		for (p = row->ports; p->name; p++) {
			for (i = found = 0; i < sizeof fields / sizeof *fields; i++)
				if (!strcmp(row->type, fields[i].type) && !strcmp(p->name, fields[i].port)) {
					assert_int_equal(p->at, fields[i].at);
					found++;
				}
			assert_int_equal(found, 1);
		}
}

static void test_rows_call_their_functions(void **state)
{
	const struct cg_op *row;
	union args a;
	size_t bytes = 0;

	(void)state;
	for (row = NULL; (row = plain_row(row));) {
		int lstm = !!strstr(row->name, "lstm"), grad = !!strstr(row->name, "grad");
		enum cg_pass pass = grad ? CG_GRAD : CG_FORWARD;
		char text[128];
		size_t want = 0;

		fill(row, &a);
		assert_int_equal(row->size, lstm ? sizeof a.lstm : sizeof a.gru);
		assert_string_equal(row->type, lstm ? "cg_lstm_block" : "cg_gru_block");
		assert_int_equal(row->work(&a, &bytes), CG_OK);
		if (lstm)
			cg_lstm_block_work(&a.lstm, pass, &want);
		else
			cg_gru_block_work(&a.gru, pass, &want);
		assert_int_equal(bytes, want);
		snprintf(text, sizeof text, "%s: context or stream: expected a pointer, got NULL", row->name);
		assert_int_equal(row->call(NULL, &a), CG_BAD_ARGUMENT);
		assert_string_equal(cg_message(), text);
	}
}

/* ---- what is needed ---- */

/* The arguments that one output needs; "^" and "~" are the peephole vectors if use_peephole is on, and then in a cell's gradient "~" is
 * cs, too. */
static const struct { const char *op, *output, *needs; } needs[] = {
	{ "lstm_block_cell", "i",  "x cs_prev h_prev w ~ b" },
	{ "lstm_block_cell", "h",  "x cs_prev h_prev w ~ b" },
	{ "lstm_block_cell_grad", "cs_prev_grad", "cs_prev i f o ci co ~" },
	{ "lstm_block_cell_grad", "dicfo",        "cs_prev i f o ci co ~" },
	{ "lstm_block_cell_grad", "wci_grad",     "cs_prev i f o ci co ~" },
	{ "lstm_block_cell_grad", "wcf_grad",     "cs_prev i f o ci co ~" },
	{ "lstm_block_cell_grad", "wco_grad",     "cs_prev i f o ci co ~" },
	{ "lstm_block_cell_grad", "b_grad",       "cs_prev i f o ci co ~" },
	{ "lstm_block_cell_grad", "x_grad",       "cs_prev w i f o ci co ~" },
	{ "lstm_block_cell_grad", "h_prev_grad",  "cs_prev w i f o ci co ~" },
	{ "lstm_block_cell_grad", "w_grad",       "x cs_prev h_prev i f o ci co ~" },
	{ "block_lstm", "cs",                     "x cs_prev h_prev w ^ b" },
	{ "block_lstm_v2", "h",                   "x cs_prev h_prev w ^ b" },
	{ "block_lstm_grad", "x_grad",            "cs_prev w i cs f o ci co ^" },
	{ "block_lstm_grad", "cs_prev_grad",      "cs_prev w i cs f o ci co ^" },
	{ "block_lstm_grad", "wco_grad",          "cs_prev w i cs f o ci co ^" },
	{ "block_lstm_grad", "b_grad",            "cs_prev w i cs f o ci co ^" },
	{ "block_lstm_grad", "w_grad",            "x cs_prev h_prev w i cs f o ci co h ^" },
	{ "block_lstm_grad_v2", "w_grad",         "x cs_prev h_prev w i cs f o ci co h ^" },
	{ "block_lstm_grad_v2", "dgates",         "cs_prev w i cs f o ci co ^" },
	{ "gru_block_cell", "r", "x h_prev w_ru w_c b_ru b_c" },
	{ "gru_block_cell", "h", "x h_prev w_ru w_c b_ru b_c" },
	{ "gru_block_cell_grad", "d_c_bar",       "h_prev u c" },
	{ "gru_block_cell_grad", "d_b_c",         "h_prev u c" },
	{ "gru_block_cell_grad", "d_w_c",         "x h_prev r u c" },
	{ "gru_block_cell_grad", "d_r_bar_u_bar", "h_prev w_c r u c" },
	{ "gru_block_cell_grad", "d_b_ru",        "h_prev w_c r u c" },
	{ "gru_block_cell_grad", "d_w_ru",        "x h_prev w_c r u c" },
	{ "gru_block_cell_grad", "d_x",           "h_prev w_ru w_c r u c" },
	{ "gru_block_cell_grad", "d_h_prev",      "h_prev w_ru w_c r u c" }
};

static int among(const char *name, const char *list)
{
	size_t n = strlen(name);
	const char *s;

	for (s = list; *s; s += strcspn(s, " "), s += strspn(s, " "))
		if (strcspn(s, " ") == n && !memcmp(s, name, n))
			return 1;
	return 0;
}

static void test_needs_follow_the_formulas(void **state)
{
	union args a;
	size_t i;
	int peephole;

	(void)state;
	for (i = 0; i < sizeof needs / sizeof *needs; i++)
		for (peephole = 0; peephole < 2; peephole++) {
			const struct cg_op *row = row_of(needs[i].op);
			const char *vectors = strstr(row->name, "cell_grad") ? "wci wcf wco cs" : "wci wcf wco";
			const char *more = peephole && (among("~", needs[i].needs) || among("^", needs[i].needs)) ? vectors : "";
			const struct cg_port *p;

			fill(row, &a);
			set_bools(row, &a, peephole);
			for (p = row->ports; p->name; p++)
				if (p->flow != CG_IN && strcmp(p->name, needs[i].output))
					remove_argument(&a, p->at);
			for (p = row->ports; p->name; p++)
				if (cg_op_needs(row, p, &a) != (among(p->name, needs[i].needs) || among(p->name, more)))
					fail_msg("%s: %s for %s with use_peephole=%d", row->name, p->name, needs[i].output,
					         peephole);
		}
}

/* ---- shapes ---- */

static void test_shapes(void **state)
{
	const struct cg_op *row = row_of("lstm_block_cell");
	int64_t shape[CG_RANK];
	union args a;
	size_t bytes = 0;

	(void)state;
	fill(row, &a);
	assert_int_equal(cg_op_shape(row, port_of(row, "w"), &a, shape), 2);
	assert_int_equal(shape[0], 7);
	assert_int_equal(shape[1], 16);
	assert_int_equal(cg_op_shape(row, port_of(row, "b"), &a, shape), 1);
	assert_int_equal(shape[0], 16);
	a.lstm.dtype = CG_F64;
	assert_int_equal(cg_op_bytes(row, port_of(row, "w"), &a, &bytes), CG_OK);
	assert_int_equal(bytes, 7 * 16 * 8);
	a.lstm.U = INT64_MAX / 2;
	assert_int_equal(cg_op_shape(row, port_of(row, "b"), &a, shape), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), sizeof(size_t) == 8 ? "lstm_block_cell: b: [4*U] f64 is more than 9223372036854775807 bytes" :
	                                                        "lstm_block_cell: b: [4*U] f64 is more than 4294967295 bytes");
}

static int bind(const char *port, union args *a, unsigned *bound, int rank, int64_t d0, int64_t d1)
{
	const struct cg_op *row = row_of("lstm_block_cell_grad");
	int64_t shape[] = { d0, d1, 1, 1, 1, 1, 1, 1, 1, 1 };

	return cg_op_bind(row, port_of(row, port), a, bound, shape, rank);
}

static void unbound(int line, const char *port, union args *a, unsigned *bound, int rank, int64_t d0, int64_t d1,
                    const char *text)
{
	union args kept = *a;
	unsigned was = *bound;

	_assert_int_equal((LargestIntegralType)bind(port, a, bound, rank, d0, d1), (LargestIntegralType)CG_BAD_ARGUMENT,
	                  __FILE__, line);
	_assert_string_equal(cg_message(), text, __FILE__, line);
	_assert_memory_equal(a, &kept, sizeof kept, __FILE__, line);
	_assert_int_equal(*bound, was, __FILE__, line);
}

#define UNBOUND(...) unbound(__LINE__, __VA_ARGS__)

static void test_bind(void **state)
{
	unsigned bound = 0;
	union args a;

	(void)state;
	memset(&a, 0, sizeof a);
	UNBOUND("x", &a, &bound, 1, 2, 0, "lstm_block_cell_grad: x: expected [B, I], got [2]");
	UNBOUND("x", &a, &bound, 3, 2, 3, "lstm_block_cell_grad: x: expected [B, I], got [2, 3, 1]");
	UNBOUND("x", &a, &bound, 0, 2, 3, "lstm_block_cell_grad: x: expected [B, I], got []");
	UNBOUND("x", &a, &bound, 2, 2, -3, "lstm_block_cell_grad: x: expected [B, I], got [2, -3]");
	UNBOUND("b", &a, &bound, 1, 15, 0, "lstm_block_cell_grad: b: expected [4*U], got [15]");
	assert_int_equal(bind("x", &a, &bound, 2, 2, 3), CG_OK);
	UNBOUND("cs_prev", &a, &bound, 2, 3, 4, "lstm_block_cell_grad: cs_prev: expected [B=2, U], got [3, 4]");
	UNBOUND("h_prev", &a, &bound, 9, 2, 4,
	        "lstm_block_cell_grad: h_prev: expected [B=2, U], got [2, 4, 1, 1, 1, 1, 1, 1, ...]");
	assert_int_equal(bind("cs_prev", &a, &bound, 2, 2, 4), CG_OK);
	assert_int_equal(a.lstm.B, 2);
	assert_int_equal(a.lstm.I, 3);
	assert_int_equal(a.lstm.U, 4);
	assert_int_equal(bind("w", &a, &bound, 2, 7, 16), CG_OK);
	UNBOUND("w", &a, &bound, 2, 7, 12, "lstm_block_cell_grad: w: expected [I+U=7, 4*U=16], got [7, 12]");
	UNBOUND("w", &a, &bound, 2, 8, 16, "lstm_block_cell_grad: w: expected [I+U=7, 4*U=16], got [8, 16]");
	UNBOUND("wci", &a, &bound, 2, 4, 1, "lstm_block_cell_grad: wci: expected [U=4], got [4, 1]");
	UNBOUND("dicfo", &a, &bound, 2, 2, 15, "lstm_block_cell_grad: dicfo: expected [B=2, 4*U=16], got [2, 15]");
}

/* The size of a symbol in a sum, such as I in I+U, is computed from the shape if no other symbol of the sum is unknown. */
static void test_bind_solves_for_one_symbol(void **state)
{
	unsigned bound = 0;
	union args a;

	(void)state;
	memset(&a, 0, sizeof a);
	assert_int_equal(bind("w", &a, &bound, 2, 7, 16), CG_OK);        /* I+U has two unknowns and is passed over; 4*U = 16 gives U */
	assert_int_equal(a.lstm.U, 4);
	assert_int_equal(a.lstm.I, 0);
	assert_int_equal(bind("w", &a, &bound, 2, 7, 16), CG_OK);        /* with U known, I+U = 7 gives I */
	assert_int_equal(a.lstm.I, 3);
	UNBOUND("x", &a, &bound, 2, 5, 4, "lstm_block_cell_grad: x: expected [B, I=3], got [5, 4]");

	bound = 0;
	assert_int_equal(bind("wci", &a, &bound, 1, 4, 0), CG_OK);
	UNBOUND("w", &a, &bound, 2, 3, 16, "lstm_block_cell_grad: w: expected [I+U, 4*U=16], got [3, 16]");
}

/* ---- names ---- */

static void test_find(void **state)
{
	const struct cg_op *row;
	int theirs = -1;

	(void)state;
	for (row = NULL; (row = cg_op_next(row));) {
		assert_ptr_equal(cg_op_find(row->name, &theirs), row);
		assert_int_equal(theirs, 0);
		assert_ptr_equal(cg_op_find(row->tensorflow, &theirs), row);
		assert_int_equal(theirs, 1);
		assert_ptr_equal(cg_op_find(row->name, NULL), row);
	}
	theirs = -1;
	assert_null(cg_op_find("lstm_blok_cell", &theirs));
	assert_string_equal(cg_message(),
	                    "lstm_blok_cell: no such op: the nearest is lstm_block_cell; cellgrad info lists the ops");
	assert_null(cg_op_find("GRUBlockGrad", &theirs));
	assert_string_equal(cg_message(),
	                    "GRUBlockGrad: no such op: the nearest is GRUBlockCellGrad; cellgrad info lists the ops");
	assert_null(cg_op_find("Conv2D", &theirs));
	assert_string_equal(cg_message(), "Conv2D: no such op; cellgrad info lists the ops");
	assert_null(cg_op_find("", &theirs));
	assert_string_equal(cg_message(), ": no such op; cellgrad info lists the ops");
	assert_null(cg_op_find(NULL, &theirs));
	assert_string_equal(cg_message(), "op: expected a name, got NULL");
	assert_int_equal(theirs, -1);
}

/* ---- what is said to people ---- */

/* Every size of an op and every attribute of kind CG_TEXT has an explanation; so has every list and params, but not their gradients. */
static void test_explanations(void **state)
{
	(void)state;
	for (const struct cg_op *row = NULL; (row = cg_op_next(row));) {
		for (const struct cg_dim *d = row->dims; d->symbol; d++)
			if (!d->about || !*d->about)
				fail_msg("%s: %s is not explained", row->name, d->symbol);
		for (const struct cg_port *p = row->ports; p->name; p++)
			if ((p->flags & CG_LIST || !strcmp(p->shape, "params")) && !p->about && !strstr(p->name, "backprop"))
				fail_msg("%s: %s is not explained", row->name, p->name);
		for (const struct cg_attribute *a = row->attributes; a->name; a++)
			if (a->kind == CG_TEXT && !a->about)
				fail_msg("%s: %s is not explained", row->name, a->name);
	}
}

/* The order of gates that a row of the op table documents is the default order in the struct of the op. */
static void test_gates(void **state)
{
	int lstms = 0, grus = 0;

	(void)state;
	for (const struct cg_op *row = NULL; (row = cg_op_next(row));) {
		struct cg_lstm_block op;

		if (!strcmp(row->type, "cg_lstm_block")) {
			row->init(&op, sizeof op);
			assert_string_equal(row->gates, op.gates == CG_IFCO ? "i f ci o" : "i ci f o");
			lstms++;
		} else if (!strcmp(row->type, "cg_gru_block")) {
			assert_string_equal(row->gates, "r u");
			grus++;
		} else {
			assert_null(row->gates);
		}
	}
	assert_true(lstms == 6 && grus == 2);
}

static void test_pairs(void **state)
{
	static const char *const pairs[][2] = {
		{ "lstm_block_cell", "lstm_block_cell_grad" }, { "gru_block_cell", "gru_block_cell_grad" }, { "block_lstm", "block_lstm_grad" },
		{ "block_lstm_v2", "block_lstm_grad_v2" }, { "rnn", "rnn_backprop" }, { "rnn_v2", "rnn_backprop_v2" },
		{ "rnn_v1", "rnn_backprop_v1" },
	};
	int alone = 0, is_grad;

	(void)state;
	for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
		const struct cg_op *forward = cg_op_find(pairs[k][0], NULL), *grad = cg_op_find(pairs[k][1], NULL);

		assert_ptr_equal(cg_op_pair(forward, &is_grad), grad);
		assert_false(is_grad);
		assert_ptr_equal(cg_op_pair(grad, &is_grad), forward);
		assert_true(is_grad);
	}
	for (const struct cg_op *row = NULL; (row = cg_op_next(row));)
		alone += !cg_op_pair(row, &is_grad);
	assert_int_equal(alone, 5);              /* the ops that convert params or compute their size have no gradient */
}

static void test_dtypes(void **state)
{
	static const struct { int dtype; size_t bytes; const char *names[4]; } rows[] = {
		{ CG_F32, 4, { "f32", "F32", "float32", "float" } }, { CG_F64, 8, { "f64", "F64", "float64", "double" } },
		{ CG_F16, 2, { "f16", "F16", "float16", "half" } }, { CG_BF16, 2, { "bf16", "BF16", "bfloat16", "bf16" } }
	};
	size_t i, j;

	(void)state;
	for (i = 0; i < 4; i++) {
		assert_string_equal(cg_dtype_name(rows[i].dtype), rows[i].names[0]);
		assert_int_equal(cg_dtype_bytes(rows[i].dtype), rows[i].bytes);
		for (j = 0; j < 4; j++)
			assert_int_equal(cg_dtype_find(rows[i].names[j]), rows[i].dtype);
	}
	assert_string_equal(cg_dtype_name(-1), "?");
	assert_string_equal(cg_dtype_name(4), "?");
	assert_int_equal(cg_dtype_bytes(-1), 0);
	assert_int_equal(cg_dtype_bytes(4), 0);
	assert_int_equal(cg_dtype_find("int8"), -1);
	assert_string_equal(cg_message(), "dtype: expected f16, bf16, f32 or f64, got int8");
	assert_int_equal(cg_dtype_find(NULL), -1);
	assert_string_equal(cg_message(), "dtype: expected f16, bf16, f32 or f64, got NULL");
}

/* cg_round() rounds to nearest, ties to even; a number that would round to one beyond the largest becomes infinite. */
static void test_round(void **state)
{
	static const struct { int dtype; double x, rounded; } rows[] = {
		{ CG_F16, 1 + 0x1p-11, 1 }, { CG_F16, 1 + 0x1.8p-11, 1 + 0x1p-10 }, { CG_F16, 65519, 65504 }, { CG_F16, -65520, -INFINITY },
		{ CG_F16, 0x1p-24, 0x1p-24 }, { CG_F16, 0x1p-25, 0 }, { CG_F16, 0x1.8p-24, 0x1p-23 },
		{ CG_BF16, 1 + 0x1p-8, 1 }, { CG_BF16, 1 + 0x1.8p-8, 1 + 0x1p-7 }, { CG_BF16, 0x1.fep127, 0x1.fep127 },
		{ CG_BF16, 0x1.ffp127, INFINITY }, { CG_BF16, 0x1p-133, 0x1p-133 }, { CG_BF16, 0x1p-134, 0 },
		{ CG_F32, 1 + 0x1p-24, 1 }, { CG_F32, 1 + 0x1.8p-24, 1 + 0x1p-23 }, { CG_F32, 0x1p128, INFINITY }, { CG_F32, 0x1p-149, 0x1p-149 },
		{ CG_F32, 0x1p-150, 0 }, { CG_F64, 1 + 0x1p-52, 1 + 0x1p-52 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (cg_round(rows[i].dtype, rows[i].x) != rows[i].rounded)
			fail_msg("%s: %a: expected %a, got %a", cg_dtype_name(rows[i].dtype), rows[i].x, rows[i].rounded,
			         cg_round(rows[i].dtype, rows[i].x));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_sound),
		cmocka_unit_test(test_texts_are_read_once),
		cmocka_unit_test(test_signatures_are_tensorflows),
		cmocka_unit_test(test_ports_are_their_fields),
		cmocka_unit_test(test_rows_call_their_functions),
		cmocka_unit_test(test_needs_follow_the_formulas),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_bind),
		cmocka_unit_test(test_bind_solves_for_one_symbol),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_explanations),
		cmocka_unit_test(test_gates),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_dtypes), cmocka_unit_test(test_round)
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("op", tests, NULL, NULL);
}
