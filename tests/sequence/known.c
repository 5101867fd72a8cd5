/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers known from elsewhere: check vectors, which PyTorch gives to the last digit, sizes of params, and numbers from TensorFlow's own
 * tests.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sequence/suite.h"

/* ---- check vectors: T = B = I = U = 2, lengths 2 and 1 ---- */

enum { STATE = 4, SEQUENCE = 8 };

static const struct vector {
	const char *cell;
	double output[6], output_c[STATE];               /* output: the elements of valid steps; the padding is 0 */
	double input_backprop[6], input_h_backprop[STATE], input_c_backprop[STATE];
	/* sum: that of the elements of params_backprop; weighted: the sum of each element times its number, counted from 1. */
	double sum, weighted;
} vectors[] = {
	{ "lstm",
	  { -0.196443835, 0.022589225, -0.175308704, 0.040928977, -0.224184354, -0.059052521 },
	  { -0.572127820, -0.132201012, -0.366147526, 0.110917169 },
	  { 0.009245733, -0.040110167, 0.038570173, -0.124817707, -0.000663646, -0.040582980 },
	  { -0.049364712, 0.028143424, -0.115737937, 0.095204429 },
	  { 0.325794074, -0.131460709, 0.560230400, -0.116300671 }, 0.577220839, 23.841895668 },
	{ "gru",
	  { -0.178291051, 0.355797284, -0.154634802, 0.399458356, -0.164073056, 0.313536284 }, { 0 },
	  { -0.039403714, 0.019075285, 0.002046730, -0.049923327, 0.001180000, -0.060292959 },
	  { 0.186686200, -0.357545443, 0.261931577, -0.255164346 }, { 0 }, 0.630109666, 17.159960315 },
	{ "rnn_tanh",
	  { 0.430084211, -0.641076961, 0.405321309, -0.635148952, 0.815972691, -0.066355451 }, { 0 },
	  { -0.007319129, -0.041788722, -0.087170759, 0.113524380, 0.002993448, -0.181713087 },
	  { -0.017167584, 0.012377781, -0.029829290, -0.201853695 }, { 0 }, 0.043674362, -1.496748119 },
	{ "rnn_relu",
	  { 0.46, 0, 0.43, 0, 0.76, 0 }, { 0 },
	  { -0.04, 0.1, -0.14, 0.35, -0.14, 0.35 },
	  { 0, -0.12, 0, -0.42 }, { 0 }, 3.692, 35.66 },
};

/* The gradients of the gru's biases bR; those of bW are the same except for the candidate. */
static const double gru_bR[] = { 0.105938213, 0.034242679, -0.038634795, -0.049768859, 0.483767534, -0.350288391 };
static const double gru_bW[] = { 0.105938213, 0.034242679, -0.038634795, -0.049768859, 1.096546042, -0.752991319 };

/* Expects numbers within half a unit, and a little, of the ninth decimal, which is the last one given. */
static void expect(const struct network *net, const char *name, const double *right, const double *got, int64_t n)
{
	for (int64_t k = 0; k < n; k++)
		if (!(fabs(got[k] - right[k]) <= 0.51e-9))
			network_fail(net, "%s[%lld]: expected %.9f, got %.12f", name, (long long)k, right[k], got[k]);
}

static void expect_sums(const struct network *net, const struct vector *v)
{
	double sums[2] = { 0, 0 };

	for (int64_t k = 0; k < net->n[PARAMS_BACKPROP]; k++) {
		sums[0] += net->at[PARAMS_BACKPROP][k];
		sums[1] += net->at[PARAMS_BACKPROP][k] * (double)(k + 1);
	}
	expect(net, "sum and weighted sum of params_backprop", &v->sum, &sums[0], 1);
	expect(net, "sum and weighted sum of params_backprop", &v->weighted, &sums[1], 1);
	if (!strcmp(v->cell, "gru")) {
		expect(net, "bW", gru_bW, net->at[PARAMS_BACKPROP] + 24, 6);
		expect(net, "bR", gru_bR, net->at[PARAMS_BACKPROP] + 30, 6);
	}
}

static void fill(struct network *net)
{
	static const struct { int array, tag; } tags[] = {
		{ INPUT, 1 }, { INPUT_H, 3 }, { INPUT_C, 2 }, { PARAMS, 4 }, { OUTPUT_BACKPROP, 8 }, { OUTPUT_H_BACKPROP, 9 },
		{ OUTPUT_C_BACKPROP, 10 },
	};

	for (size_t n = 0; n < sizeof tags / sizeof *tags; n++)
		for (int64_t k = 0; k < net->n[tags[n].array]; k++)
			net->at[tags[n].array][k] = (double)((7 * k + tags[n].tag) % 13 - 6) / 10;
}

static void try_vector(const struct vector *v, int number, int memory)
{
	static const double zeros[2];
	unsigned long long state;
	struct network net;

	network_case("check vectors", number, &state);
	network_init(&net);
	net.config.cell = cg_cell_find(v->cell);
	net.config.input = net.config.units = net.T = net.B = 2;
	net.ragged = 1;
	net.lengths[0] = 2;
	net.lengths[1] = 1;
	net.memory = memory;
	network_open(&net);
	fill(&net);
	network_forward(&net);
	expect(&net, "output", v->output, net.at[OUTPUT], 6);
	expect(&net, "output", zeros, net.at[OUTPUT] + 6, 2);
	expect(&net, "output_h", v->output + 4, net.at[OUTPUT_H], 2);
	expect(&net, "output_h", v->output + 2, net.at[OUTPUT_H] + 2, 2);
	expect(&net, "output_c", v->output_c, net.at[OUTPUT_C], net.n[OUTPUT_C]);
	network_backward(&net);
	expect(&net, "input_backprop", v->input_backprop, net.at[INPUT_BACKPROP], 6);
	expect(&net, "input_backprop", zeros, net.at[INPUT_BACKPROP] + 6, 2);
	expect(&net, "input_h_backprop", v->input_h_backprop, net.at[INPUT_H_BACKPROP], STATE);
	expect(&net, "input_c_backprop", v->input_c_backprop, net.at[INPUT_C_BACKPROP], net.n[INPUT_C_BACKPROP]);
	expect_sums(&net, v);
	network_close(&net);
}

static int lacks_f64(void)
{
	if (network_has(CG_F64))
		return 0;
	print_message("# the device has no f64\n");
	skip();
	return 1;
}

void test_vectors(void **nothing)
{
	(void)nothing;
	if (lacks_f64())
		return;
	for (int memory = AREA_HOST; memory < AREA_MEMORIES; memory++)
		for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++)
			try_vector(&vectors[k], (int)k, memory);
}

/* ---- single facts: sizes, a gru whose parameters are 0 ---- */

void test_sizes(void **nothing)
{
	static const struct { const char *cell; int64_t I, U, P; int layers, bidirectional, skip; size_t elements; } sizes[] = {
		{ "gru", 300, 76, 0, 1, 0, 0, 86184 }, { "lstm", 1, 1, 0, 1, 0, 0, 16 }, { "lstm", 3, 4, 2, 2, 1, 0, 512 },
		{ "gru", 100, 100, 0, 1, 1, 1, 61200 },
	};
	struct network net;

	(void)nothing;
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		network_init(&net);
		net.config.cell = cg_cell_find(sizes[k].cell);
		net.config.dtype = CG_F32;
		net.config.input = sizes[k].I;
		net.config.units = sizes[k].U;
		net.config.proj = sizes[k].P;
		net.config.layers = sizes[k].layers;
		net.config.bidirectional = sizes[k].bidirectional;
		net.config.input_mode = sizes[k].skip ? CG_SKIP : CG_LINEAR;
		network_open(&net);
		assert_int_equal(net.sizes.params, sizes[k].elements * sizeof(float));
		network_close(&net);
	}
	/* (1 - sigmoid(1)) tanh(1) */
	network_init(&net);
	net.config.cell = cg_cell_find("gru");
	net.config.dtype = CG_F32;
	net.config.input_mode = CG_SKIP;
	net.config.input = net.config.units = net.T = net.B = 1;
	network_open(&net);
	net.at[INPUT][0] = 1;
	network_forward(&net);
	assert_true(fabs(net.at[OUTPUT][0] - 0.20482421480982513) < 1e-7);
	network_close(&net);
}

/* ---- TensorFlow's golden sums and cells ---- */

static void fill_with(struct network *net, int array, double value)
{
	for (int64_t k = 0; k < net->n[array]; k++)
		net->at[array][k] = value;
}

static double sum_of(const struct network *net)
{
	double sum = 0;

	for (int a = OUTPUT; a <= OUTPUT_C; a++)
		for (int64_t k = 0; k < net->n[a]; k++)
			sum += net->at[a][k];
	return sum;
}

/* All inputs, states and params are 1; outside training dropout has no effect. The networks are in f32; `sum` has more digits than f32,
   the tolerance is TensorFlow's. */
void test_golden_sums(void **nothing)
{
	static const struct { const char *cell; int layers; int64_t U, I, B, T; double sum; } golden[] = {
		{ "lstm",     4, 200, 200, 20, 10, 231833.22650 }, { "gru",      4, 200, 200, 20, 10, 56000 },
		{ "rnn_tanh", 4, 200, 200, 20, 10, 56000 },        { "rnn_relu", 2, 8, 4, 4, 2, 130688 },
	};
	static const double rates[] = { 0, 0.5, 1 };
	unsigned long long state;
	struct network net;

	(void)nothing;
	for (int k = 0; k < 12; k++) {
		network_case("golden sums", k, &state);
		network_init(&net);
		net.config.cell = cg_cell_find(golden[k / 3].cell);
		net.config.dtype = CG_F32;
		net.config.layers = golden[k / 3].layers;
		net.config.units = golden[k / 3].U;
		net.config.input = golden[k / 3].I;
		net.config.dropout = rates[k % 3];
		net.config.training = 0;
		net.T = golden[k / 3].T;
		net.B = golden[k / 3].B;
		network_open(&net);
		for (int a = INPUT; a <= PARAMS; a++)
			fill_with(&net, a, 1);
		network_forward(&net);
		if (!(fabs(sum_of(&net) - golden[k / 3].sum) < 1e-2))
			network_fail(&net, "expected %.5f, got %.5f", golden[k / 3].sum, sum_of(&net));
		network_close(&net);
	}
}

/* Two layers of block cells, compared to 1e-6 with numbers of eight digits from TensorFlow's own test. */
void test_golden_cells(void **nothing)
{
	static const double golden_c[] = { 0.68967271, 0.39897051 }, golden_h[] = { 0.44848421, 0.24024698 };
	unsigned long long state;
	struct cg_rnn_region r;
	struct network net;

	(void)nothing;
	network_case("golden cells", 0, &state);
	network_init(&net);
	net.config.cell = cg_cell_find("lstm_block");
	net.config.dtype = CG_F32;
	net.config.layers = 2;
	net.config.input = net.config.units = 2;
	net.T = net.B = 1;
	network_open(&net);
	fill_with(&net, INPUT, 1);
	fill_with(&net, INPUT_H, 0.1);
	fill_with(&net, INPUT_C, 0.1);
	for (int layer = 0; layer < 2; layer++)
		for (int id = 0; id < 8; id++) {
			assert_int_equal(cg_rnn_region(net.rnn, layer, id, 0, &r), CG_OK);
			for (int64_t k = 0; k < r.rows * r.columns; k++)
				net.at[PARAMS][r.offset + k] = 0.5;
		}
	network_forward(&net);
	for (int k = 0; k < 4; k++) {
		assert_true(fabs(net.at[OUTPUT_C][k] - golden_c[k / 2]) < 1e-6);
		assert_true(fabs(net.at[OUTPUT_H][k] - golden_h[k / 2]) < 1e-6);
	}
	network_close(&net);
}
