/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares every file of an op in tests/data with the independent reference: a framework's answers must lie within the reference's
 * tolerance, or, in f16, within 4 % of the largest element. The files step-*, of examples/step.c, are left out. Tests of the command
 * compare the library's answers with the same files.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/cellgrad.h"
#include "command/run/compare.h"
#include "command/safetensors.h"
#include "verify/sequence.h"

/* An argument of an op: its name in the files, and its offset in the reference's struct of the op. */
struct field {
	const char *name;
	size_t at;
};

#define IN(a) { #a, offsetof(struct ref_lstm_block, a) }
static const struct field lstm_in[] = {
	IN(x), IN(cs_prev), IN(h_prev), IN(w), IN(wci), IN(wcf), IN(wco), IN(b), IN(i), IN(cs), IN(f), IN(o), IN(ci), IN(co),
	IN(cs_grad), IN(h_grad), { NULL, 0 },
};
#undef IN
#define OUT(a) { #a, offsetof(struct ref_lstm_block, a##_out) }
#define GRAD(a) { #a, offsetof(struct ref_lstm_block, a) }
static const struct field lstm_out[] = {
	OUT(i), OUT(cs), OUT(f), OUT(o), OUT(ci), OUT(co), OUT(h), { NULL, 0 },
};
static const struct field lstm_grad[] = {
	GRAD(x_grad), GRAD(cs_prev_grad), GRAD(h_prev_grad), GRAD(w_grad), GRAD(wci_grad), GRAD(wcf_grad), GRAD(wco_grad),
	GRAD(b_grad), { "dicfo", offsetof(struct ref_lstm_block, dgates) }, { NULL, 0 },
};
#undef OUT
#undef GRAD
#define GRU(a) { #a, offsetof(struct ref_gru_block, a) }
#define OUT(a) { #a, offsetof(struct ref_gru_block, a##_out) }
static const struct field gru_in[] = {
	GRU(x), GRU(h_prev), GRU(w_ru), GRU(w_c), GRU(b_ru), GRU(b_c), GRU(r), GRU(u), GRU(c), GRU(d_h), { NULL, 0 },
};
static const struct field gru_out[] = { OUT(r), OUT(u), OUT(c), OUT(h), { NULL, 0 } };
static const struct field gru_grad[] = {
	GRU(d_x), GRU(d_h_prev), GRU(d_c_bar), GRU(d_r_bar_u_bar), GRU(d_w_ru), GRU(d_w_c), GRU(d_b_ru), GRU(d_b_c), { NULL, 0 },
};
#undef OUT
#undef GRU
#define RNN(a) { #a, offsetof(struct ref_rnn, a) }
static const struct field rnn_in[] = {
	RNN(input), RNN(input_h), RNN(input_c), RNN(params), RNN(output_backprop), RNN(output_h_backprop),
	RNN(output_c_backprop), { NULL, 0 },
};
static const struct field rnn_out[] = {
	RNN(output), RNN(output_h), RNN(output_c), RNN(input_backprop), RNN(input_h_backprop), RNN(input_c_backprop),
	RNN(params_backprop), { NULL, 0 },
};
#undef RNN

static const struct safetensors *given;         /* arguments of the current case */
static const char *at_hand;                     /* the name of the current case's file */

static const struct safetensors_tensor *tensor(const char *name)
{
	const struct safetensors_tensor *t = safetensors_find(given, name);

	if (!t)
		fail_msg("%s: has no %s", at_hand, name);
	return t;
}

static int64_t dimension(const char *name, int d)
{
	assert_true(d < tensor(name)->rank);
	return tensor(name)->shape[d];
}

static const char *attribute(const char *name, const char *otherwise)
{
	const char *value = safetensors_metadata(given, name);

	if (!value && !otherwise)
		fail_msg("%s: has no attribute %s", at_hand, name);
	return value ? value : otherwise;
}

static int is(const char *name, const char *value, const char *otherwise)
{
	return strcmp(attribute(name, otherwise), value) == 0;
}

static int64_t elements(const struct safetensors_tensor *t)
{
	int64_t n = 1;

	for (int d = 0; d < t->rank; d++)
		n *= t->shape[d];
	return n;
}

static void *arrays[128];
static int n_arrays;

static void *space(int64_t n, size_t size)
{
	assert_true(n_arrays < 128);
	arrays[n_arrays] = calloc(n + 1, size);
	assert_non_null(arrays[n_arrays]);
	return arrays[n_arrays++];
}

static void free_arrays(void)
{
	while (n_arrays > 0)
		free(arrays[--n_arrays]);
}

static double *numbers(const struct safetensors_tensor *t)
{
	double *d = space(elements(t), sizeof(*d));

	if (t->cg < 0)
		fail_msg("%s: %s is %s", at_hand, t->name, t->dtype);
	for (int64_t k = 0; k < elements(t); k++)
		d[k] = compare_element(t->cg, t->data, k);
	return d;
}

/* Sets those inputs of an op that `given`, the file of arguments, has. */
static void read_in(void *op, const struct field *f)
{
	for (; f->name; f++) {
		const struct safetensors_tensor *t = safetensors_find(given, f->name);

		if (t)
			((struct ref_in *)((char *)op + f->at))->d = numbers(t);
	}
}

/* Allocates the outputs that the expected answer has. */
static void make_out(void *op, const struct field *f, const struct safetensors *answer)
{
	for (; f->name; f++) {
		const struct safetensors_tensor *t = safetensors_find(answer, f->name);
		struct ref_out *a = (struct ref_out *)((char *)op + f->at);

		if (!t)
			continue;
		a->v = space(elements(t), sizeof(*a->v));
		a->e = space(elements(t), sizeof(*a->e));
		for (int64_t k = 0; k < elements(t); k++)
			a->v[k] = a->e[k] = NAN;
	}
}

static long double worst[4];                    /* by dtype: the largest error, divided by the allowed one */

/* TensorFlow's half rounds after every operation, which costs up to 4e-2 of a tensor's largest element. */
static const long double half_rounded = 4e-2L;

static void compare_tensor(const struct safetensors_tensor *t, struct ref_out a, int dtype)
{
	long double largest = 0, allowed, off;
	const double *got = numbers(t);

	for (int64_t k = 0; k < elements(t); k++)
		largest = fmaxl(largest, fabsl(a.v[k]));
	for (int64_t k = 0; k < elements(t); k++) {
		off = fabsl(got[k] - a.v[k]);
		allowed = dtype == REF_F16 ? half_rounded * largest : ref_tolerance(dtype, a.v[k], a.e[k]);
		if (!(off <= allowed && isfinite(allowed)))
			fail_msg("%s: %s[%d]: %.17g, not %.17Lg +- %.3Lg", at_hand, t->name, (int)k, got[k], a.v[k], allowed);
		if (allowed > 0)
			worst[dtype] = fmaxl(worst[dtype], off / allowed);
	}
}

static int n_compared;

/* Compares every tensor of the answer with an output. A file with arguments and answers also has tensors that are not outputs. */
static void compare_out(void *op, const struct field *f, const struct safetensors *answer, int dtype)
{
	size_t found = 0;

	for (; f->name; f++) {
		const struct safetensors_tensor *t = safetensors_find(answer, f->name);

		if (!t)
			continue;
		compare_tensor(t, *(struct ref_out *)((char *)op + f->at), dtype);
		found++;
	}
	if (found == 0 || (answer != given && found != answer->n))
		fail_msg("%s: of %d answers %d are known", at_hand, (int)answer->n, (int)found);
	n_compared++;
}

static struct ref_lstm_block lstm_of(int dtype, const char *op)
{
	struct ref_lstm_block p = { .dtype = dtype, .gates = strstr(op, "V2") ? REF_IFCO : REF_ICFO, .B = dimension("cs_prev", 0),
		.U = dimension("cs_prev", 1), .use_peephole = is("use_peephole", "true", NULL),
		.forget_bias = atof(attribute("forget_bias", "0")), .cell_clip = atof(attribute("cell_clip", "0")) };

	p.I = dimension("x", tensor("x")->rank - 1);
	read_in(&p, lstm_in);
	return p;
}

static void lstm_cell(const char *op, int dtype, const struct safetensors *answer)
{
	struct ref_lstm_block p = lstm_of(dtype, op);

	make_out(&p, lstm_out, answer);
	assert_int_equal(ref_lstm_block_forward(&p), 0);
	compare_out(&p, lstm_out, answer, dtype);
}

static void lstm_cell_grad(const char *op, int dtype, const struct safetensors *answer)
{
	struct ref_lstm_block p = lstm_of(dtype, op);

	make_out(&p, lstm_grad, answer);
	assert_int_equal(ref_lstm_block_grad(&p), 0);
	compare_out(&p, lstm_grad, answer, dtype);
}

static struct ref_block_lstm block_lstm_of(int dtype, const char *op)
{
	struct ref_block_lstm p = { .cell = lstm_of(dtype, op), .T = dimension("x", 0) };
	const struct safetensors_tensor *steps = tensor("seq_len_max"), *h = safetensors_find(given, "h");

	assert_true(strcmp(steps->dtype, "I64") == 0 && steps->rank == 0);
	memcpy(&p.seq_len_max, steps->data, sizeof(p.seq_len_max));
	if (h)
		p.h.d = numbers(h);
	return p;
}

static void block_lstm(const char *op, int dtype, const struct safetensors *answer)
{
	struct ref_block_lstm p = block_lstm_of(dtype, op);

	make_out(&p.cell, lstm_out, answer);
	assert_int_equal(ref_block_lstm_forward(&p), 0);
	compare_out(&p.cell, lstm_out, answer, dtype);
}

static void block_lstm_grad(const char *op, int dtype, const struct safetensors *answer)
{
	struct ref_block_lstm p = block_lstm_of(dtype, op);

	make_out(&p.cell, lstm_grad, answer);
	assert_int_equal(ref_block_lstm_grad(&p), 0);
	compare_out(&p.cell, lstm_grad, answer, dtype);
}

static struct ref_gru_block gru_of(int dtype)
{
	struct ref_gru_block p = { .dtype = dtype, .B = dimension("x", 0), .I = dimension("x", 1), .U = dimension("h_prev", 1) };

	read_in(&p, gru_in);
	return p;
}

static void gru_cell(const char *op, int dtype, const struct safetensors *answer)
{
	struct ref_gru_block p = gru_of(dtype);

	(void)op;
	make_out(&p, gru_out, answer);
	assert_int_equal(ref_gru_block_forward(&p), 0);
	compare_out(&p, gru_out, answer, dtype);
}

static void gru_cell_grad(const char *op, int dtype, const struct safetensors *answer)
{
	struct ref_gru_block p = gru_of(dtype);

	(void)op;
	make_out(&p, gru_grad, answer);
	assert_int_equal(ref_gru_block_grad(&p), 0);
	compare_out(&p, gru_grad, answer, dtype);
}

static int mode_of(const char *name)
{
	static const char *const modes[] = { [REF_LSTM] = "lstm", [REF_GRU] = "gru", [REF_RNN_TANH] = "rnn_tanh",
		[REF_RNN_RELU] = "rnn_relu" };
	int mode = REF_LSTM;

	while (mode < REF_RNN_RELU && strcmp(name, modes[mode]))
		mode++;
	assert_string_equal(name, modes[mode]);
	return mode;
}

static void rnn(const char *op, int dtype, const struct safetensors *answer)
{
	struct ref_rnn p = { .mode = mode_of(attribute("rnn_mode", NULL)), .dtype = dtype, .is_training = 1,
		.bidirectional = is("direction", "bidirectional", NULL), .input_mode = is("input_mode", "skip_input", NULL),
		.time_major = is("time_major", "true", NULL), .P = atoi(attribute("num_proj", NULL)), .I = dimension("input", 2) };
	const struct safetensors_tensor *steps = tensor("sequence_lengths");
	int32_t lengths[64];

	(void)op;
	p.T = dimension("input", !p.time_major);
	p.B = dimension("input", p.time_major);
	p.L = dimension("input_h", !p.time_major) / (1 + p.bidirectional);
	p.U = dimension(p.mode == REF_LSTM ? "input_c" : "input_h", 2);
	assert_true(strcmp(steps->dtype, "I32") == 0 && steps->rank == 1 && steps->shape[0] == p.B && p.B <= 64);
	memcpy(lengths, steps->data, p.B * sizeof(*lengths));
	p.lengths = lengths;
	assert_int_equal(ref_rnn_size(&p), elements(tensor("params")));
	read_in(&p, rnn_in);
	make_out(&p, rnn_out, answer);
	assert_int_equal(ref_rnn_forward(&p), 0);
	assert_int_equal(ref_rnn_backward(&p), 0);
	compare_out(&p, rnn_out, answer, dtype);
}

static const struct {
	const char *name;
	void (*run)(const char *op, int dtype, const struct safetensors *answer);
	int whole;                                      /* not 0: one file has both arguments and answers */
} ops[] = {
	{ "LSTMBlockCell", lstm_cell, 0 },        { "LSTMBlockCellGrad", lstm_cell_grad, 0 },
	{ "lstm_block_cell_grad", lstm_cell_grad, 0 },
	{ "GRUBlockCell", gru_cell, 0 },          { "GRUBlockCellGrad", gru_cell_grad, 0 },
	{ "gru_block_cell_grad", gru_cell_grad, 0 },
	{ "BlockLSTM", block_lstm, 0 },           { "BlockLSTMGrad", block_lstm_grad, 0 },
	{ "BlockLSTMV2", block_lstm, 0 },         { "BlockLSTMGradV2", block_lstm_grad, 0 },
	{ "CudnnRNNV3", rnn, 1 },
};
enum { OPS = sizeof(ops) / sizeof(*ops) };

static int dtype_of(const struct safetensors_tensor *t)
{
	assert_true(t->cg == CG_F32 || t->cg == CG_F64 || t->cg == CG_F16);
	return t->cg == CG_F32 ? REF_F32 : t->cg == CG_F64 ? REF_F64 : REF_F16;
}

static int n_files;

static int open_file(struct safetensors *s, const char *folder, const char *name)
{
	char path[4096];
	FILE *there;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	there = fopen(path, "r");
	if (!there)
		return 0;
	fclose(there);
	if (safetensors_open(s, path))
		fail_msg("%s", cg_message());
	n_files++;
	return 1;
}

/* Tests the case whose arguments are in file `name`, with each of its files of answers, which may be in another dtype. */
static void one_case(const char *folder, const char *name)
{
	static const char *const ends[] = { ".expect.safetensors", ".expect32.safetensors" };
	int prefix = (int)(strlen(name) - strlen(".safetensors")), op = 0, answers = 0;
	struct safetensors arguments, answer;
	char other[256];

	assert_true(open_file(&arguments, folder, name));
	given = &arguments;
	at_hand = name;
	while (op < OPS && strcmp(attribute("op", NULL), ops[op].name))
		op++;
	if (op == OPS)
		fail_msg("%s: nobody here knows the op %s", name, attribute("op", NULL));
	if (ops[op].whole) {
		ops[op].run(ops[op].name, dtype_of(tensor("input")), &arguments);
		free_arrays();
		answers++;
	}
	for (int j = 0; j < 2 && !ops[op].whole; j++) {
		snprintf(other, sizeof(other), "%.*s%s", prefix, name, ends[j]);
		if (!open_file(&answer, folder, other))
			continue;
		at_hand = other;
		ops[op].run(ops[op].name, j ? REF_F32 : dtype_of(tensor("x")), &answer);
		free_arrays();
		safetensors_close(&answer);
		answers++;
	}
	assert_true(answers > 0);
	safetensors_close(&arguments);
}

static int ends_with(const char *s, const char *end)
{
	return strlen(s) >= strlen(end) && strcmp(s + strlen(s) - strlen(end), end) == 0;
}

static void every_file(void **state)
{
	const char *top = getenv("srcdir");
	char folder[4000];
	struct dirent *entry;
	int there = 0;
	DIR *d;

	(void)state;
	snprintf(folder, sizeof(folder), "%s/tests/data", top ? top : ".");
	d = opendir(folder);
	if (!d)
		fail_msg("%s is no folder", folder);
	while ((entry = readdir(d))) {
		if (!strncmp(entry->d_name, "step-", 5))
			continue;
		there += ends_with(entry->d_name, ".safetensors");
		if (ends_with(entry->d_name, ".safetensors") && !strstr(entry->d_name, ".expect"))
			one_case(folder, entry->d_name);
	}
	closedir(d);
	print_message("# %d answers of %d files; largest error over what is allowed: f32 %.3Lf, f64 %.3Lf, half's own %.3Lf\n",
		n_compared, n_files, worst[REF_F32], worst[REF_F64], worst[REF_F16]);
	assert_int_equal(there, n_files);
	assert_true(there > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_file),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
