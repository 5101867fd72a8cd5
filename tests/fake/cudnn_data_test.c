/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of the stand-in for libcudnn, compared with independent numbers: known vectors, known sums, and PyTorch's answers. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/cellgrad.h"
#include "command/safetensors.h"
#include "tests/fake/dnn_stand_in.h"

/* ---- vectors ---- */

static void expect_near(const char *what, int64_t k, double got, double expected, double within)
{
	if (!(fabs(got - expected) <= within))
		fprintf(stderr, "# %s[%lld]: %.17g, expected %.17g\n", what, (long long)k, got, expected);
	EXPECT(fabs(got - expected) <= within);
}

/* Numbers of an independent program, to nine digits; sum: the sum of the elements of params' gradient; weighted: their sum with element k
   counted k + 1 times. */
struct vector { int cell; double output[6], d_input[6], sum, weighted; };
static const struct vector vectors[] = {
	{ LSTM, { -0.196443835, 0.022589225, -0.175308704, 0.040928977, -0.224184354, -0.059052521 },
	  { 0.009245733, -0.040110167, 0.038570173, -0.124817707, -0.000663646, -0.040582980 }, 0.577220839, 23.841895668 },
	{ GRU, { -0.178291051, 0.355797284, -0.154634802, 0.399458356, -0.164073056, 0.313536284 },
	  { -0.039403714, 0.019075285, 0.002046730, -0.049923327, 0.001180000, -0.060292959 }, 0.630109666, 17.159960315 },
	{ TANH, { 0.430084211, -0.641076961, 0.405321309, -0.635148952, 0.815972691, -0.066355451 },
	  { -0.007319129, -0.041788722, -0.087170759, 0.113524380, 0.002993448, -0.181713087 }, 0.043674362, -1.496748119 },
	{ RELU, { 0.46, 0, 0.43, 0, 0.76, 0 }, { -0.04, 0.1, -0.14, 0.35, -0.14, 0.35 }, 3.692, 35.66 },
};

/* within: the tolerance of each element; that of the sum is 10 times, that of the weighted sum 200 times as large. */
static void check_vector(const struct vector *v, int type, double within)
{
	struct net n = a_net();
	double *y, *dx, *dparams, sum = 0, weighted = 0;
	int64_t params;

	n.cell = v->cell;
	n.type = type;
	net_open(&n);
	net_train(&n);
	y = get_array(&n, n.y);
	dx = get_array(&n, n.dx);
	dparams = get_dparams(&n);
	params = count_params(&n);
	for (int k = 0; k < 6; k++) {
		expect_near("output", k, y[k], v->output[k], within);
		expect_near("d_input", k, dx[k], v->d_input[k], within);
	}
	EXPECT(y[6] == 0 && y[7] == 0 && isnan(dx[6]) && isnan(dx[7]));
	for (int64_t k = 0; k < params; k++) {
		sum += dparams[k];
		weighted += (double)(k + 1) * dparams[k];
	}
	expect_near("sum", 0, sum, v->sum, within * 10);
	expect_near("weighted sum", 0, weighted, v->weighted, within * 200);
	free(y);
	free(dx);
	free(dparams);
	net_close(&n);
}

static void known_vectors(void)
{
	static const struct { int type; double within; } types[] = { { DOUBLE, 1e-9 }, { FLOAT, 2e-7 }, { HALF, 2e-3 }, { BFLOAT16, 1.6e-2 } };

	dnn_begin();
	for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++)
		for (size_t t = 0; t < sizeof types / sizeof *types - (dnn.GetVersion() < 91300); t++)
			check_vector(&vectors[k], types[t].type, types[t].within);
	dnn_end();
}

/* ---- sums that TensorFlow's tests expect ---- */

static void fill_with(const struct net *n, struct array a, double x)
{
	double *from = malloc((size_t)a.n * sizeof *from);

	EXPECT(from);
	for (int64_t k = 0; k < a.n; k++)
		from[k] = x;
	put_array(n, a, from);
	free(from);
}

static double sum_of(const struct net *n, struct array a)
{
	double *all = get_array(n, a), sum = 0;

	for (int64_t k = 0; k < a.n; k++)
		sum += all[k];
	free(all);
	return sum;
}

static void check_sum(int cell, int L, int U, int I, int B, int T, double expected)
{
	struct net n = a_net();
	int64_t params;
	double *ones;

	n = (struct net){ .cell = cell, .type = DOUBLE, .math = FMA_MATH, .bias = 2, .D = 1, .L = L, .T = T, .B = B, .I = I, .U = U, .flags = 1 };
	net_open(&n);
	params = count_params(&n);
	ones = malloc((size_t)params * sizeof *ones);
	EXPECT(ones);
	for (int64_t k = 0; k < params; k++)
		ones[k] = 1;
	put_params(&n, ones);
	free(ones);
	fill_with(&n, n.x, 1);
	fill_with(&n, n.hx, 1);
	fill_with(&n, n.cx, 1);
	CHECK(net_forward(&n, 0));
	expect_near("sum", 0, sum_of(&n, n.y) + sum_of(&n, n.hy) + (cell == LSTM ? sum_of(&n, n.cy) : 0), expected, 1e-4);
	net_close(&n);
}

static void known_sums(void)
{
	dnn_begin();
	check_sum(LSTM, 4, 200, 200, 20, 10, 231833.22650);
	check_sum(GRU, 4, 200, 200, 20, 10, 56000);
	check_sum(TANH, 4, 200, 200, 20, 10, 56000);
	check_sum(RELU, 2, 8, 4, 4, 2, 130688);
	dnn_end();
}

/* ---- PyTorch's answers ---- */

static const struct safetensors *file;

static const struct safetensors_tensor *tensor(const char *name)
{
	const struct safetensors_tensor *t = safetensors_find(file, name);

	if (!t)
		fprintf(stderr, "# %s has no %s\n", file->path, name);
	EXPECT(t);
	return t;
}

static int is(const char *attribute, const char *value)
{
	const char *given = safetensors_metadata(file, attribute);

	return given && !strcmp(given, value);
}

/* Returns a tensor of the file; turned: 1 for a state, which is [B, layers, width] in the file and is returned as [layers, B, width]. */
static double *in_layout(const struct net *n, const char *name, int64_t width, int turned)
{
	const struct safetensors_tensor *t = tensor(name);
	int64_t all = (int64_t)(t->bytes / sizeof(double)), layers = n->L * n->D;
	double *to = malloc(t->bytes + 1);

	EXPECT(to && t->cg == CG_F64);
	memcpy(to, t->data, t->bytes);
	for (int64_t k = 0; turned && k < all; k++) {
		int64_t j = k % width, b = k / width % n->B, l = k / width / n->B;

		memcpy(&to[k], t->data + (size_t)((b * layers + l) * width + j) * sizeof *to, sizeof *to);
	}
	return to;
}

static void put_named(const struct net *n, struct array a, const char *name, int64_t width, int turned)
{
	double *from = in_layout(n, name, width, turned);

	put_array(n, a, from);
	free(from);
}

static void check_all(const struct net *n, double *got, const char *name, int64_t elements, int64_t width, int turned)
{
	double *expected = in_layout(n, name, width, turned);

	for (int64_t k = 0; k < elements; k++)
		if (!isnan(got[k]) || expected[k] != 0 || strcmp(name, "input_backprop"))
			expect_near(name, k, got[k], expected[k], 1e-12 * (1 + fabs(expected[k])));
	free(expected);
	free(got);
}

static void check_named(const struct net *n, struct array a, const char *name, int64_t width, int turned)
{
	check_all(n, get_array(n, a), name, a.n, width, turned);
}

static struct net net_of_file(void)
{
	const struct safetensors_tensor *x = tensor("input"), *h = tensor("input_h"), *lengths = tensor("sequence_lengths");
	const char *proj = safetensors_metadata(file, "num_proj");
	int turned = is("time_major", "false"), lstm = is("rnn_mode", "lstm");
	struct net n = a_net();

	n.cell = lstm ? LSTM : is("rnn_mode", "gru") ? GRU : is("rnn_mode", "rnn_tanh") ? TANH : RELU;
	n.D = 1 + is("direction", "bidirectional");
	n.skip = is("input_mode", "skip_input");
	n.layout = turned ? 2 : 0;
	n.T = (int)x->shape[turned];
	n.B = (int)x->shape[!turned];
	n.I = (int)x->shape[2];
	n.L = (int)h->shape[turned] / n.D;
	n.P = proj ? atoi(proj) : 0;
	n.U = (int)(lstm ? tensor("input_c") : h)->shape[2];
	EXPECT(n.B <= MOST_ROWS && lengths->bytes == (size_t)n.B * sizeof(int32_t));
	memcpy(n.lengths, lengths->data, lengths->bytes);
	return n;
}

static void check_file(void)
{
	struct net n = net_of_file();
	int64_t H = net_h(&n), turned = is("time_major", "false");
	double *params;

	net_open(&n);
	EXPECT((size_t)count_params(&n) * sizeof *params == tensor("params")->bytes);
	params = in_layout(&n, "params", 1, 0);
	put_params(&n, params);
	free(params);
	put_named(&n, n.x, "input", 1, 0);
	put_named(&n, n.dy, "output_backprop", 1, 0);
	put_named(&n, n.hx, "input_h", H, (int)turned);
	put_named(&n, n.dhy, "output_h_backprop", H, (int)turned);
	if (n.cell == LSTM) {
		put_named(&n, n.cx, "input_c", n.U, (int)turned);
		put_named(&n, n.dcy, "output_c_backprop", n.U, (int)turned);
	}
	net_train(&n);
	check_named(&n, n.y, "output", 1, 0);
	check_named(&n, n.hy, "output_h", H, (int)turned);
	check_named(&n, n.dx, "input_backprop", 1, 0);
	check_named(&n, n.dhx, "input_h_backprop", H, (int)turned);
	if (n.cell == LSTM) {
		check_named(&n, n.cy, "output_c", n.U, (int)turned);
		check_named(&n, n.dcx, "input_c_backprop", n.U, (int)turned);
	}
	check_all(&n, get_dparams(&n), "params_backprop", count_params(&n), 1, 0);
	net_close(&n);
}

static int is_whole_sequence(const struct dirent *entry)
{
	return !strncmp(entry->d_name, "CudnnRNNV3-", 11);
}

static void every_file(void)
{
	const char *top = getenv("srcdir");
	struct dirent **names;
	char folder[400], path[700];
	int n;

	snprintf(folder, sizeof folder, "%s/tests/data", top ? top : ".");
	n = scandir(folder, &names, is_whole_sequence, alphasort);
	EXPECT(n >= 34);
	dnn_begin();
	for (int k = 0; k < n; k++) {
		struct safetensors opened;

		snprintf(path, sizeof path, "%s/%s", folder, names[k]->d_name);
		CHECK(safetensors_open(&opened, path));
		file = &opened;
		check_file();
		safetensors_close(&opened);
		free(names[k]);
	}
	free(names);
	dnn_end();
}

/* ---- in both layouts of weights, and with what else is by chance ---- */

static void test_answers(void **state)
{
	static const struct trial trials[] = {
		{ "vectors", known_vectors, NULL, 0 }, { "PyTorch's data", every_file, NULL, 0 }, { "sums", known_sums, NULL, 0 },
	};

	(void)state;
	for (int k = 0; k < 2; k++) {
		setenv("CELLGRAD_FAKE_CUDNN_LAYOUT", k ? "1" : "0", 1);
		setenv("CELLGRAD_FAKE_CUDNN_NAN", k ? "0" : "1", 1);
		setenv("CELLGRAD_FAKE_CUDNN_DESTROY", k ? "1" : "0", 1);
		run_trials(trials, k ? 2 : 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_answers) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("answers of the stand-in for cuDNN", tests, NULL, NULL);
}
