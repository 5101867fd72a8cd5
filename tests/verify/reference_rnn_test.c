/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the reference of the CudnnRNN family: known vectors and sums, the layout of the parameters, and some elements of the gradient of
 * each input against differences. Calls that must agree are in reference_rnn_equal_test.c, the error bound in
 * reference_rnn_bound_test.c, the masks in reference_dropout_test.c.
 */
#include "tests/verify/sequence_arrays.h"

static const char *const mode_name[] = { [REF_LSTM] = "lstm", [REF_GRU] = "gru", [REF_RNN_TANH] = "rnn_tanh",
	[REF_RNN_RELU] = "rnn_relu" };

/* Fills an array with the numbers from which the known vectors were computed. */
static void fill(int a, int s)
{
	for (int64_t k = 0; k < at[a].n; k++)
		at[a].v[k] = ((7 * k + s) % 13 - 6) / 10.0L;
}

static void run(void)
{
	assert_int_equal(ref_rnn_forward(&R), 0);
	assert_int_equal(ref_rnn_backward(&R), 0);
}

/* ---- vectors and golden numbers ---- */

#define expect(a, n, ...) same(a, n, sizeof((double[]){ __VA_ARGS__ }) / sizeof(double), (double[]){ __VA_ARGS__ })
static void same(int a, int64_t from, int64_t n, const double *want)
{
	for (int64_t k = 0; k < n; k++)
		if (!(fabsl(at[a].v[from + k] - want[k]) <= 6e-10L))
			fail_msg("%s[%d]: %.12Lf, not %.12f", at[a].name, (int)(from + k), at[a].v[from + k], want[k]);
}

static void expect_sums(double sum, double wsum)
{
	long double s = 0, w = 0;

	for (int64_t k = 0; k < at[RNN_params_backprop].n; k++) {
		s += at[RNN_params_backprop].v[k];
		w += (k + 1) * at[RNN_params_backprop].v[k];
	}
	if (!(fabsl(s - sum) <= 6e-10L && fabsl(w - wsum) <= 6e-10L))
		fail_msg("params_backprop: sum %.12Lf, not %.9f; wsum %.12Lf, not %.9f", s, sum, w, wsum);
}

static void run_vector(int mode)
{
	static const struct { int a, tag; } tags[] = {
		{ RNN_input, 1 }, { RNN_input_h, 3 }, { RNN_input_c, 2 }, { RNN_params, 4 }, { RNN_output_backprop, 8 },
		{ RNN_output_h_backprop, 9 }, { RNN_output_c_backprop, 10 },
	};

	lengths[0] = 2;
	lengths[1] = 1;
	R = (struct ref_rnn){ .T = 2, .B = 2, .I = 2, .U = 2, .L = 1, .mode = mode, .dtype = REF_F64, .time_major = 1,
		.is_training = 1, .lengths = lengths };
	bind_rnn(1);
	for (size_t j = 0; j < sizeof(tags) / sizeof(*tags); j++)
		fill(tags[j].a, tags[j].tag);
	run();
	for (int j = 0; j < 2; j++) {
		assert_true(at[RNN_output].v[6 + j] == 0 && at[RNN_output].e[6 + j] == 0);
		assert_true(at[RNN_input_backprop].v[6 + j] == 0 && at[RNN_input_backprop].e[6 + j] == 0);
		assert_true(at[RNN_output_h].v[j] == at[RNN_output].v[4 + j]);
		assert_true(at[RNN_output_h].v[2 + j] == at[RNN_output].v[2 + j]);
	}
}

static void vectors_6_3(void **state)
{
	(void)state;
	run_vector(REF_LSTM);
	assert_int_equal(at[RNN_params].n, 48);
	expect(RNN_output, 0, -0.196443835, 0.022589225, -0.175308704, 0.040928977, -0.224184354, -0.059052521);
	expect(RNN_output_c, 0, -0.572127820, -0.132201012, -0.366147526, 0.110917169);
	expect(RNN_input_backprop, 0, 0.009245733, -0.040110167, 0.038570173, -0.124817707, -0.000663646, -0.040582980);
	expect(RNN_input_h_backprop, 0, -0.049364712, 0.028143424, -0.115737937, 0.095204429);
	expect(RNN_input_c_backprop, 0, 0.325794074, -0.131460709, 0.560230400, -0.116300671);
	expect_sums(0.577220839, 23.841895668);

	run_vector(REF_GRU);
	assert_int_equal(at[RNN_params].n, 36);
	expect(RNN_output, 0, -0.178291051, 0.355797284, -0.154634802, 0.399458356, -0.164073056, 0.313536284);
	expect(RNN_input_backprop, 0, -0.039403714, 0.019075285, 0.002046730, -0.049923327, 0.001180000, -0.060292959);
	expect(RNN_input_h_backprop, 0, 0.186686200, -0.357545443, 0.261931577, -0.255164346);
	expect(RNN_params_backprop, 24, 0.105938213, 0.034242679, -0.038634795, -0.049768859, 1.096546042, -0.752991319,
		0.105938213, 0.034242679, -0.038634795, -0.049768859, 0.483767534, -0.350288391);
	expect_sums(0.630109666, 17.159960315);

	run_vector(REF_RNN_TANH);
	assert_int_equal(at[RNN_params].n, 12);
	expect(RNN_output, 0, 0.430084211, -0.641076961, 0.405321309, -0.635148952, 0.815972691, -0.066355451);
	expect(RNN_input_backprop, 0, -0.007319129, -0.041788722, -0.087170759, 0.113524380, 0.002993448, -0.181713087);
	expect(RNN_input_h_backprop, 0, -0.017167584, 0.012377781, -0.029829290, -0.201853695);
	expect_sums(0.043674362, -1.496748119);

	run_vector(REF_RNN_RELU);
	expect(RNN_output, 0, 0.46, 0, 0.43, 0, 0.76, 0);
	expect(RNN_input_backprop, 0, -0.04, 0.1, -0.14, 0.35, -0.14, 0.35);
	expect(RNN_input_h_backprop, 0, 0, -0.12, 0, -0.42);
	expect_sums(3.692, 35.66);
}

/* A GRU of one unit, with skip_input or auto_select and all parameters 0, has the output that tensorflow#8311 names. */
static void skip_input_8311(void **state)
{
	(void)state;
	R = (struct ref_rnn){ .T = 1, .B = 1, .I = 1, .U = 1, .L = 1, .mode = REF_GRU, .dtype = REF_F64, .time_major = 1,
		.input_mode = REF_SKIP };
	bind_rnn(1);
	for (int a = 0; a < RNN_ARRAYS; a++)
		memset(at[a].v, 0, sizeof(at[a].v));
	at[RNN_input].v[0] = 1;
	assert_int_equal(ref_rnn_forward(&R), 0);
	assert_true(fabsl(at[RNN_output].v[0] - 0.20482421480982513L) < 1e-16L);
	at[RNN_output].v[0] = 0;
	R.input_mode = REF_AUTO;
	assert_int_equal(ref_rnn_forward(&R), 0);
	assert_true(fabsl(at[RNN_output].v[0] - 0.20482421480982513L) < 1e-16L);
}

/* The gradient through relu at an argument of 0 is 0. If relu's argument may have a rounding error, the gradient may also be the whole
   upstream gradient, and the bound allows this. */
static void corner(void **state)
{
	(void)state;
	for (int open = 0; open < 2; open++) {
		R = (struct ref_rnn){ .T = 1, .B = 1, .I = 1, .U = 1, .L = 1, .mode = REF_RNN_RELU, .dtype = REF_F32, .time_major = 1 };
		bind_rnn(1);
		for (int a = 0; a < RNN_ARRAYS; a++)
			memset(at[a].v, 0, sizeof(at[a].v));
		at[RNN_output_backprop].v[0] = 3;
		at[RNN_input].v[0] = 1;
		at[RNN_params].v[0] = open;             /* params[0]: the weight W; params[2]: a bias that cancels W */
		at[RNN_params].v[2] = -open;
		run();
		assert_true(at[RNN_output].v[0] == 0 && at[RNN_params_backprop].v[2] == 0 && at[RNN_params_backprop].v[0] == 0);
		assert_true(open ? at[RNN_params_backprop].e[2] >= 3 : at[RNN_params_backprop].e[2] == 0);
	}
}

/* After a step whose output overflows f16, relu's argument may be infinity minus infinity, so the bound of its gradient is infinite. */
static void beyond(void **state)
{
	(void)state;
	R = (struct ref_rnn){ .T = 2, .B = 1, .I = 1, .U = 1, .L = 1, .mode = REF_RNN_RELU, .dtype = REF_F16, .time_major = 1 };
	bind_rnn(1);
	for (int a = 0; a < RNN_ARRAYS; a++)
		memset(at[a].v, 0, sizeof(at[a].v));
	at[RNN_output_backprop].v[1] = 3;
	at[RNN_input].v[0] = 60000;
	at[RNN_params].v[0] = 2;                        /* the weight W */
	at[RNN_params].v[1] = -1;                       /* the weight R */
	run();
	assert_true(isinf(at[RNN_input_backprop].e[1]));
}

static long double *ones(int64_t n)
{
	long double *v = malloc(n * sizeof(*v));

	assert_non_null(v);
	for (int64_t k = 0; k < n; k++)
		v[k] = 1;
	return v;
}

/* Returns the sum of all outputs of a network whose inputs and params are all 1. All rows are equal: one is computed, and counts B
 * times. */
static long double golden(int mode, int64_t L, int64_t U, int64_t I, int64_t B, int64_t T, double dropout)
{
	enum { ROWS = 1 };
	struct ref_rnn p = { .T = T, .B = ROWS, .I = I, .U = U, .L = L, .mode = mode, .dtype = REF_F64, .time_major = 1,
		.dropout = dropout, .key = 5 };
	int64_t states = L * ROWS * U, n = T * ROWS * U + 2 * states, size = ref_rnn_size(&p);
	long double *one = ones(size > T * ROWS * I ? size : T * ROWS * I), *out = calloc(n, sizeof(*out)), sum = 0;

	assert_non_null(out);
	assert_true(states <= size);
	p.input.v = p.input_h.v = p.input_c.v = p.params.v = one;
	p.output.v = out;
	p.output_h.v = out + T * ROWS * U;
	p.output_c.v = out + T * ROWS * U + states;
	assert_int_equal(ref_rnn_forward(&p), 0);
	for (int64_t k = 0; k < n; k++)
		sum += out[k];
	free(one);
	free(out);
	return sum * B / ROWS;
}

static void golden_4_3(void **state)
{
	static const double dropout[] = { 0, 0.5, 1 };
	long double lstm;

	(void)state;
	for (int j = 0; j < 3; j++)
		assert_true(fabsl(golden(REF_RNN_RELU, 2, 8, 4, 4, 2, dropout[j]) - 130688) < 1e-9L);
	lstm = golden(REF_LSTM, 4, 200, 200, 20, 10, 0.5);
	if (!(fabsl(lstm - 231833.22650L) < 6e-6L && fabsl(lstm - 231833.22L) < 1e-2L))
		fail_msg("lstm: %.9Lf", lstm);
	assert_true(fabsl(golden(REF_GRU, 4, 200, 200, 20, 10, 1) - 56000) < 1e-9L);
	assert_true(fabsl(golden(REF_RNN_TANH, 4, 200, 200, 20, 10, 0) - 56000) < 1e-9L);
}

/* ---- the parameters ---- */

static void params_size(void **state)
{
	static const struct { struct ref_rnn p; int64_t size; } sizes[] = {
		{ { .mode = REF_GRU, .L = 1, .U = 76, .I = 300 }, 86184 },
		{ { .mode = REF_LSTM, .L = 1, .U = 1, .I = 1 }, 16 },
		{ { .mode = REF_LSTM, .L = 2, .bidirectional = 1, .I = 3, .U = 4, .P = 2 }, 512 },
		{ { .mode = REF_GRU, .L = 1, .bidirectional = 1, .I = 100, .U = 100, .input_mode = REF_SKIP }, 61200 },
		{ { .mode = REF_GRU, .L = 1, .bidirectional = 1, .I = 100, .U = 100, .input_mode = REF_AUTO }, 61200 },
		{ { .mode = REF_GRU, .L = 1, .U = 76, .I = 300, .input_mode = REF_AUTO }, 86184 },
		{ { .mode = REF_LSTM, .L = 2, .bidirectional = 1, .I = 3, .U = 4, .P = 2, .peephole = 1 }, 512 + 4 * 3 * 4 },
	};

	(void)state;
	for (size_t j = 0; j < sizeof(sizes) / sizeof(*sizes); j++)
		assert_int_equal(ref_rnn_size(&sizes[j].p), sizes[j].size);
	/* The number of params is at least what TensorFlow's own tests demand. */
	for (int64_t c = 0; c < 3 * 4 * 4; c++) {
		int64_t L = 1 + c % 3, U = 1 + c / 3 % 4, I = 1 + c / 12;
		struct ref_rnn p = { .mode = REF_LSTM, .L = L, .U = U, .I = I };

		assert_true(ref_rnn_size(&p) >= 4 * U * (U + I) + 8 * (L - 1) * U * U + 8 * L * U);
		p.bidirectional = 1;
		assert_true(ref_rnn_size(&p) >= 2 * (4 * U * (U + I) + (L - 1) * (8 * U * U + 4 * U * U) + 8 * L * U));
	}
}

/* Compares some regions of the params of two networks with regions that are written here: an LSTM with two layers, both directions,
 * projection and peepholes; a GRU with skip_input, whose first layer has no input matrices. */
static void regions(void **state)
{
	struct ref_rnn p = { .mode = REF_LSTM, .L = 2, .bidirectional = 1, .I = 3, .U = 4, .P = 2, .peephole = 1 };
	static const struct { int64_t pseudo_layer; int id, part; struct ref_region at; } want[] = {
		{ 0, 0, REF_WEIGHT, { 0, 4, 3 } },      { 0, 3, REF_WEIGHT, { 36, 4, 3 } },
		{ 0, 4, REF_WEIGHT, { 48, 4, 2 } },     { 0, 7, REF_WEIGHT, { 72, 4, 2 } },
		{ 0, 8, REF_WEIGHT, { 80, 2, 4 } },     { 1, 0, REF_WEIGHT, { 88, 4, 3 } },
		{ 1, 8, REF_WEIGHT, { 168, 2, 4 } },    { 2, 0, REF_WEIGHT, { 176, 4, 4 } },
		{ 2, 4, REF_WEIGHT, { 240, 4, 2 } },    { 3, 8, REF_WEIGHT, { 376, 2, 4 } },
		{ 0, 0, REF_BIAS, { 384, 1, 4 } },      { 0, 4, REF_BIAS, { 400, 1, 4 } },
		{ 1, 7, REF_BIAS, { 444, 1, 4 } },      { 3, 7, REF_BIAS, { 508, 1, 4 } },
		{ 0, 9, REF_VECTOR, { 512, 1, 4 } },    { 0, 11, REF_VECTOR, { 520, 1, 4 } },
		{ 1, 9, REF_VECTOR, { 524, 1, 4 } },    { 3, 11, REF_VECTOR, { 556, 1, 4 } },
	};
	struct ref_region r;

	(void)state;
	for (size_t j = 0; j < sizeof(want) / sizeof(*want); j++) {
		r = ref_rnn_region(&p, want[j].pseudo_layer, want[j].id, want[j].part);
		if (r.offset != want[j].at.offset || r.rows != want[j].at.rows || r.columns != want[j].at.columns)
			fail_msg("pseudo-layer %d, id %d: %d [%d, %d]", (int)want[j].pseudo_layer, want[j].id, (int)r.offset,
				(int)r.rows, (int)r.columns);
	}
	p = (struct ref_rnn){ .mode = REF_GRU, .L = 2, .I = 2, .U = 2, .input_mode = REF_SKIP };
	r = ref_rnn_region(&p, 0, 1, REF_WEIGHT);
	assert_true(r.rows == 0 && r.columns == 0);
	assert_int_equal(ref_rnn_region(&p, 0, 3, REF_WEIGHT).offset, 0);
	assert_int_equal(ref_rnn_region(&p, 1, 0, REF_WEIGHT).offset, 12);
}

/* TensorFlow's canonical lists, without peepholes: each number of params is in one tensor, and ref_rnn_from_canonical() restores params. */
static void canonical(void **state)
{
	enum { LISTED = 64 };
	static double params[MAX], back[MAX], tensor[2][LISTED][256];
	double *list[2][LISTED];
	int64_t count[2];

	(void)state;
	for (int c = 0; c < 4 * 2 * 2 * 2 * 2; c++) {
		struct ref_rnn p = { .mode = c & 3, .bidirectional = c >> 2 & 1, .input_mode = c >> 3 & 1 ? REF_SKIP : REF_LINEAR,
			.L = 1 + (c >> 4 & 1), .I = 3, .U = 3, .P = (c & 3) == REF_LSTM && c >> 5 ? 2 : 0 };
		int64_t size = ref_rnn_size(&p), G = p.mode == REF_LSTM ? 4 : p.mode == REF_GRU ? 3 : 1, listed = 0;

		for (int64_t k = 0; k < size; k++)
			params[k] = (double)k;
		for (int part = REF_WEIGHT; part <= REF_BIAS; part++) {
			count[part] = ref_rnn_canonical_count(&p, part);
			assert_int_equal(count[part], p.L * (1 + p.bidirectional) * (2 * G + (part == REF_WEIGHT && p.P > 0)));
			for (int64_t n = 0; n < count[part]; n++) {
				struct ref_region r = ref_rnn_canonical(&p, n, part);

				/* the list of weights and that of biases are in the order of params, and together have all of params */
				assert_int_equal(r.offset, listed);
				listed += r.rows * r.columns;
				list[part][n] = tensor[part][n];
			}
		}
		assert_int_equal(listed, size);
		ref_rnn_to_canonical(&p, params, list[REF_WEIGHT], list[REF_BIAS]);
		assert_true(tensor[REF_BIAS][0][2] == (double)(size - count[REF_BIAS] * p.U + 2));
		memset(back, -1, sizeof(back));
		ref_rnn_from_canonical(&p, (const double *const *)list[REF_WEIGHT], (const double *const *)list[REF_BIAS], back);
		assert_memory_equal(back, params, size * sizeof(*params));
	}
}

/* ---- differences ---- */

static long double loss(void)
{
	static const int out[] = { RNN_output, RNN_output_h, RNN_output_c };
	static const int up[] = { RNN_output_backprop, RNN_output_h_backprop, RNN_output_c_backprop };
	long double s = 0;

	assert_int_equal(ref_rnn_forward(&R), 0);
	for (int j = 0; j < 2 + (R.mode == REF_LSTM); j++)
		for (int64_t n = 0; n < at[out[j]].n; n++)
			s += at[up[j]].v[n] * at[out[j]].v[n];
	return s;
}

static long double worst;

static long double off_by(int a, int g, int64_t n, long double step)
{
	long double keep = at[a].v[n], up, slope;

	at[a].v[n] = keep + step;
	up = loss();
	at[a].v[n] = keep - step;
	slope = (up - loss()) / (2 * step);
	at[a].v[n] = keep;
	return fabsl(slope - at[g].v[n]) / (1 + fabsl(slope));
}

/* Compares gradients by some elements of each input with central differences. For relu a second, smaller step may be tried, since its kink
   may lie within the first. */
static void differences_of(int c)
{
	static const struct { int a, g; } wrt[] = {
		{ RNN_input, RNN_input_backprop }, { RNN_input_h, RNN_input_h_backprop },
		{ RNN_input_c, RNN_input_c_backprop }, { RNN_params, RNN_params_backprop },
	};
	long double off;

	for (int j = 0; j < 4; j++) {
		int64_t n = at[wrt[j].a].n, stride = 1 + n / 9;

		if (wrt[j].a == RNN_input_c && R.mode != REF_LSTM)
			continue;
		for (int64_t m = below((int)stride); m < n; m += stride) {
			off = off_by(wrt[j].a, wrt[j].g, m, 1e-6L);
			if (off > 1e-10L && R.mode == REF_RNN_RELU)
				off = off_by(wrt[j].a, wrt[j].g, m, 1e-9L);
			worst = fmaxl(worst, off);
			if (!(off <= 1e-10L))
				fail_msg("%s, case %d: %s[%d] is off by %.3Lg", mode_name[R.mode], c, at[wrt[j].g].name, (int)m, off);
		}
	}
}

/* Sets up a model with random numbers, whose sizes and options c chooses. */
static void choose(int mode, int c)
{
	R = (struct ref_rnn){ .mode = mode, .dtype = REF_F64, .T = 3 + (c & 1), .B = 3, .I = 2, .U = 3, .L = 1 + (c & 1) + (c >> 6 & 1),
		.bidirectional = c >> 1 & 1, .time_major = c >> 2 & 1, .is_training = 1, .key = 77 + c, .call = 3 };
	if (c >> 3 & 1)
		draw_lengths();
	if (c >> 4 & 1)
		R.dropout = 0.4;
	if (c >> 5 & 1) {
		R.input_mode = REF_SKIP;
		R.I = R.U;
	}
	if (mode == REF_LSTM) {
		R.P = (c & 3) == 1 ? 2 : (c & 3) == 2 ? 3 : 0;
		R.peephole = c % 3 == 0;
	}
	bind_rnn(1);
	draw(1);
}

static void differences(void **state)
{
	(void)state;
	worst = 0;
	for (int mode = REF_LSTM; mode <= REF_RNN_RELU; mode++) {
		for (int c = 0; c < 128; c++) {
			choose(mode, c);
			run();
			differences_of(c);
		}
	}
	print_message("# largest difference over 1 + its slope: %.1Le\n", worst);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_6_3),
		cmocka_unit_test(skip_input_8311),
		cmocka_unit_test(corner),
		cmocka_unit_test(beyond),
		cmocka_unit_test(golden_4_3),
		cmocka_unit_test(params_size),
		cmocka_unit_test(regions),
		cmocka_unit_test(canonical),
		cmocka_unit_test(differences),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
