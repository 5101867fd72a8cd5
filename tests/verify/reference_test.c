/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the reference of LSTMBlockCell and GRUBlockCell: known vectors, the gradient of every input against central differences, and the
 * rounding of every dtype. The reference's error bound is tested in reference_bound_test.c.
 */
#include "tests/verify/reference_arrays.h"

static void save(int from, int to)
{
	memcpy(at[to].v, at[from].v, sizeof(at[to].v));
}

static void save_lstm(void)
{
#define SAVE(a, g, n) save(OUT_##g, IN_##a);
	LSTM_SAVED(SAVE)
#undef SAVE
}

static void save_gru(void)
{
#define SAVE(a, g, n) save(GRU_##g, GRU_##a);
	GRU_SAVED(SAVE)
#undef SAVE
}

/* Fills an array with the numbers from which the known vectors were computed. */
static void fill(int a, int s)
{
	for (int64_t k = 0; k < at[a].n; k++)
		at[a].v[k] = ((7 * k + s) % 13 - 6) / 10.0L;
}

/* Compares an array, from element n on, with numbers that were printed with nine digits behind the point. */
#define expect(a, n, ...) \
	same(a, n, sizeof((double[]){ __VA_ARGS__ }) / sizeof(double), (double[]){ __VA_ARGS__ }, 6e-10L)
static void same(int a, int64_t from, int64_t n, const double *want, long double tolerance)
{
	for (int64_t k = 0; k < n; k++)
		if (!(fabsl(at[a].v[from + k] - want[k]) <= tolerance))
			fail_msg("%s[%d]: %.12Lf, not %.12f", at[a].name, (int)(from + k), at[a].v[from + k], want[k]);
}

static void run_vectors(int use_peephole, double cell_clip)
{
	static const struct { int a, tag; } tags[] = {
		{ IN_x, 1 }, { IN_cs_prev, 2 }, { IN_h_prev, 3 }, { IN_w, 4 }, { IN_wci, 5 }, { IN_wcf, 6 },
		{ IN_wco, 7 }, { IN_b, 8 }, { IN_cs_grad, 9 }, { IN_h_grad, 10 },
	};

	L = (struct ref_lstm_block){ .dtype = REF_F64, .use_peephole = use_peephole, .forget_bias = 1,
		.cell_clip = cell_clip };
	bind_lstm(2, 2, 2, 1);
	for (size_t j = 0; j < sizeof(tags) / sizeof(*tags); j++)
		fill(tags[j].a, tags[j].tag);
	assert_int_equal(ref_lstm_block_forward(&L), 0);
	save_lstm();
	assert_int_equal(ref_lstm_block_grad(&L), 0);
}

static void vectors_6_1(void **state)
{
	(void)state;
	run_vectors(0, 3);
	expect(OUT_i_out, 0, 0.509998667, 0.361236825, 0.517492858, 0.372852234);
	expect(OUT_cs_out, 0, -0.092575016, 0.068589502, -0.030005361, 0.168560786);
	expect(OUT_f_out, 0, 0.830616103, 0.775564014, 0.827783608, 0.775564014);
	expect(OUT_o_out, 0, 0.661503159, 0.450166003, 0.665966927, 0.428003867);
	expect(OUT_ci_out, 0, 0.469945199, -0.454216433, 0.421899005, -0.379948962);
	expect(OUT_co_out, 0, -0.092311460, 0.068482144, -0.029996359, 0.166982299);
	expect(OUT_h_out, 0, -0.061064322, 0.030828333, -0.019976583, 0.071469070);
	expect(OUT_dgates, 0, 0.066041588, 0.040834374, 0.223457505, -0.111705019, -0.031647284, -0.020345228,
		-0.008268032, -0.003390093, 0.077185057, 0.021465518, 0.311668884, -0.077079109, -0.031334963,
		-0.016822077, -0.003336420, -0.004088003);
	expect(OUT_cs_prev_grad, 0, 0.467094049, -0.302168242, 0.606503682, -0.187381679);
	for (int u = 0; u < 2; u++)
		assert_true(at[OUT_wci_grad].v[u] == 0 && at[OUT_wcf_grad].v[u] == 0 && at[OUT_wco_grad].v[u] == 0 &&
			at[OUT_wci_grad].e[u] == 0 && at[OUT_wcf_grad].e[u] == 0 && at[OUT_wco_grad].e[u] == 0);

	for (int c = 0; c < 2; c++) {
		run_vectors(1, c ? 0.1 : 3);
		expect(OUT_i_out, 0, 0.519989340, 0.403717301, 0.524979187, 0.430453776);
		expect(OUT_f_out, 0, 0.830616103, 0.742690545, 0.827783608, 0.731058579);
		expect(OUT_cs_out, 0, -0.087879947, 0.039432131, -0.026846886, c ? 0.1 : 0.128872966);
		expect(OUT_co_out, 0, -0.087654415, 0.039411707, -0.026840437, c ? 0.099667995 : 0.128164223);
		expect(OUT_o_out, 0, 0.659532596, 0.445290898, 0.665369439, c ? 0.415809477 : 0.412307001);
		expect(OUT_h_out, 0, -0.057810944, 0.017549674, -0.017858807, c ? 0.041442897 : 0.052843006);
		expect(OUT_dgates, 0, 0.065804327, 0.042419357, 0.227288923, -0.124307844, -0.031571439,
			-0.022241115, -0.007873097, -0.001946993, 0.077030207, c ? 0.022351921 : 0.022262805,
			0.315945659, c ? -0.088379405 : -0.088027040, -0.031311971, c ? -0.018871393 : -0.018796153,
			-0.002988051, c ? -0.002421055 : -0.003105546);
		expect(OUT_cs_prev_grad, 0, 0.459394184, -0.249327803, 0.598355640, c ? -0.150688904 : -0.150088114);
		expect(OUT_wci_grad, 0, -0.049430793, c ? 0.021666575 : 0.021630929);
		expect(OUT_wcf_grad, 0, 0.022022167, c ? -0.014220892 : -0.014190796);
		expect(OUT_wco_grad, 0, 0.000772107, c ? -0.000318880 : -0.000476995);
	}
}

static void vectors_6_2(void **state)
{
	static const int a[] = { GRU_x, GRU_h_prev, GRU_w_ru, GRU_w_c, GRU_b_ru, GRU_b_c, GRU_d_h };
	static const int tag[] = { 1, 3, 4, 5, 6, 7, 8 };

	(void)state;
	G = (struct ref_gru_block){ .dtype = REF_F64 };
	bind_gru(2, 2, 2, 1);
	for (int j = 0; j < 7; j++)
		fill(a[j], tag[j]);
	assert_int_equal(ref_gru_block_forward(&G), 0);
	save_gru();
	assert_int_equal(ref_gru_block_grad(&G), 0);
	expect(GRU_r_out, 0, 0.549833997, 0.282924715, 0.559713649, 0.268941421);
	expect(GRU_u_out, 0, 0.569546224, 0.299432858, 0.589040434, 0.293177779);
	expect(GRU_c_out, 0, 0.154882353, -0.707815703, 0.154453769, -0.724863021);
	expect(GRU_h_out, 0, -0.104194173, -0.376099282, -0.054333833, -0.365760401);
	expect(GRU_d_x, 0, -0.141730556, 0.124605247, -0.111751299, 0.092084264);
	expect(GRU_d_h_prev, 0, 0.174642844, -0.104556993, 0.223588334, -0.078404183);
	expect(GRU_d_c_bar, 0, 0.084025563, -0.139832341, 0.120346718, -0.100631750);
	expect(GRU_d_r_bar_u_bar, 0, -0.005815555, 0.005902789, -0.022304094, -0.092955850, -0.003073062,
		0.006323241, -0.025740979, -0.076146513);
}

static void golden_4_1(void **state)
{
	static const double want[] = { 0.68967271, 0.44848421, 0.39897051, 0.24024698 };

	(void)state;
	L = (struct ref_lstm_block){ .dtype = REF_F64, .forget_bias = 1, .cell_clip = -1 };
	bind_lstm(1, 2, 2, 1);
	memset(at, 0, sizeof(at));
	bind_lstm(1, 2, 2, 1);
	for (int k = 0; k < 32; k++)
		at[IN_w].v[k] = 0.5L;
	for (int layer = 0; layer < 2; layer++) {
		for (int u = 0; u < 2; u++) {
			at[IN_x].v[u] = layer ? at[OUT_h_out].v[u] : 1;
			at[IN_cs_prev].v[u] = at[IN_h_prev].v[u] = 0.1L;
		}
		ref_lstm_block_forward(&L);
		for (int u = 0; u < 2; u++) {
			same(OUT_cs_out, u, 1, want + 2 * layer, 1e-6L);
			same(OUT_h_out, u, 1, want + 2 * layer + 1, 1e-6L);
		}
	}
}

static long double lstm_loss(void)
{
	long double s = 0;

	ref_lstm_block_forward(&L);
	for (int64_t n = 0; n < L.B * L.U; n++)
		s += at[IN_cs_grad].v[n] * at[OUT_cs_out].v[n] + at[IN_h_grad].v[n] * at[OUT_h_out].v[n];
	return s;
}

static long double gru_loss(void)
{
	long double s = 0;

	ref_gru_block_forward(&G);
	for (int64_t n = 0; n < G.B * G.U; n++)
		s += at[GRU_d_h].v[n] * at[GRU_h_out].v[n];
	return s;
}

static long double worst;

/* Compares array g, the gradient of a loss by input a, with central differences of the loss in every element. */
static void difference(int a, int g, long double (*loss)(void))
{
	const long double step = 1e-6L;
	long double keep, up, slope, off;

	for (int64_t n = 0; n < at[a].n; n++) {
		keep = at[a].v[n];
		at[a].v[n] = keep + step;
		up = loss();
		at[a].v[n] = keep - step;
		slope = (up - loss()) / (2 * step);
		at[a].v[n] = keep;
		off = fabsl(slope - at[g].v[n]);
		worst = fmaxl(worst, off);
		if (!(off <= 1e-10L + 1e-9L * fabsl(slope)))
			fail_msg("%s[%d]: %.15Lg, by difference %.15Lg", at[g].name, (int)n, at[g].v[n], slope);
	}
}

static void lstm_differences(void **state)
{
	static const int64_t size[] = { 1, 2, 3, 5 };

	(void)state;
	worst = 0;
	for (int c = 0; c < 4 * 4 * 4 * 4; c++) {
		L = (struct ref_lstm_block){ .dtype = REF_F64, .use_peephole = c >> 6 & 1, .gates = c >> 7,
			.forget_bias = 0.75, .cell_clip = c & 1 ? 100 : 0 };
		bind_lstm(size[c & 3], size[c >> 2 & 3], size[c >> 4 & 3], 1);
		draw(LSTM_ARRAYS, REF_F64, 1);
		lstm_loss();
		save_lstm();
		ref_lstm_block_grad(&L);
#define DIFFERENCE(a, g, n) difference(IN_##a, OUT_##g, lstm_loss);
		LSTM_WRT(DIFFERENCE)
#undef DIFFERENCE
	}
	print_message("# lstm_block: largest difference %.1Le\n", worst);
}

static void gru_differences(void **state)
{
	static const int64_t size[] = { 1, 2, 3, 5 };

	(void)state;
	worst = 0;
	for (int c = 0; c < 4 * 4 * 4; c++) {
		G = (struct ref_gru_block){ .dtype = REF_F64 };
		bind_gru(size[c & 3], size[c >> 2 & 3], size[c >> 4 & 3], 1);
		draw(GRU_ARRAYS, REF_F64, 1);
		gru_loss();
		save_gru();
		ref_gru_block_grad(&G);
#define DIFFERENCE(a, g, n) difference(GRU_##a, GRU_##g, gru_loss);
		GRU_WRT(DIFFERENCE)
#undef DIFFERENCE
	}
	print_message("# gru_block: largest difference %.1Le\n", worst);
}

static long double shift;

/* The loss of one clipped unit, with the clip replaced by a constant shift: the straight-through gradient is its derivative. */
static long double shifted_loss(void)
{
	long double z[4], i, f, o, cs, old = at[IN_cs_prev].v[0];

	for (int j = 0; j < 4; j++)
		z[j] = at[IN_x].v[0] * at[IN_w].v[j] + at[IN_h_prev].v[0] * at[IN_w].v[4 + j] + at[IN_b].v[j];
	i = 1 / (1 + expl(-z[0] - old * at[IN_wci].v[0]));
	f = 1 / (1 + expl(-z[2] - 1 - old * at[IN_wcf].v[0]));
	cs = i * tanhl(z[1]) + f * old + shift;
	o = 1 / (1 + expl(-z[3] - cs * at[IN_wco].v[0]));
	return at[IN_cs_grad].v[0] * cs + at[IN_h_grad].v[0] * o * tanhl(cs);
}

static void clip_is_straight_through(void **state)
{
	int clipped = 0;

	(void)state;
	for (int c = 0; c < 200; c++) {
		L = (struct ref_lstm_block){ .dtype = REF_F64, .use_peephole = 1, .forget_bias = 1 };
		bind_lstm(1, 1, 1, 1);
		draw(LSTM_ARRAYS, REF_F64, 1);
		lstm_loss();
		shift = -at[OUT_cs_out].v[0];
		L.cell_clip = 0.25;
		lstm_loss();
		shift += at[OUT_cs_out].v[0];
		clipped += shift != 0;
		save_lstm();
		ref_lstm_block_grad(&L);
#define DIFFERENCE(a, g, n) difference(IN_##a, OUT_##g, shifted_loss);
		LSTM_WRT(DIFFERENCE)
	}
	assert_true(clipped > 50 && clipped < 200);
}

/* Without rows (B = 0) w_grad, wco_grad and d_b_c are zeros or, with `accumulate`, the old values. */
static void no_rows(void **state)
{
	(void)state;
	for (int accumulate = 0; accumulate < 2; accumulate++) {
		L = (struct ref_lstm_block){ .dtype = REF_F32, .use_peephole = 1, .accumulate = accumulate };
		bind_lstm(0, 2, 3, 0);
		draw(LSTM_ARRAYS, REF_F32, 1);
		assert_int_equal(ref_lstm_block_forward(&L), 0);
		assert_int_equal(ref_lstm_block_grad(&L), 0);
		for (int n = 0; n < 5 * 12; n++)
			assert_true(at[OUT_w_grad].v[n] == accumulate * at[IN_w_grad_old].d[n] && at[OUT_w_grad].e[n] == 0);
		for (int n = 0; n < 3; n++)
			assert_true(at[OUT_wco_grad].v[n] == accumulate * at[IN_wco_grad_old].d[n]);
		G = (struct ref_gru_block){ .dtype = REF_F32, .accumulate = accumulate };
		bind_gru(0, 2, 3, 0);
		draw(GRU_ARRAYS, REF_F32, 1);
		assert_int_equal(ref_gru_block_forward(&G), 0);
		assert_int_equal(ref_gru_block_grad(&G), 0);
		for (int n = 0; n < 3; n++)
			assert_true(at[GRU_d_b_c].v[n] == accumulate * at[GRU_d_b_c_old].d[n] && at[GRU_d_b_c].e[n] == 0);
	}
}

/* The value of 16 bits with m bits of mantissa, by the format's definition. */
static double decode(unsigned bits, int m)
{
	int e = (bits & 0x7fff) >> m, last = 0x7fff >> m, bias = last >> 1;
	double f = bits & ((1u << m) - 1), x;

	if (e == last)
		x = f != 0 ? (double)NAN : (double)INFINITY;
	else
		x = ldexp(e ? f + (1 << m) : f, (e ? e : 1) - bias - m);
	return bits & 0x8000 ? -x : x;
}

static void rounding(void **state)
{
	static const struct { int dtype, m; unsigned largest; } half[] = { { REF_F16, 10, 0x7bff }, { REF_BF16, 7, 0x7f7f } };
	double x, y, middle, r;

	(void)state;
	for (int k = 0; k < 2; k++) {
		for (unsigned bits = 0; bits < 65536; bits++) {
			x = decode(bits, half[k].m);
			r = ref_round(half[k].dtype, x);
			assert_true(isnan(x) ? isnan(r) : r == x && !signbit(r) == !signbit(x));
			if ((bits & 0x7fff) > half[k].largest)
				continue;
			/* y: the dtype's next number after x away from zero. Beyond the largest finite number y is infinite, but the middle between x
			   and y is computed as if numbers went on with the same spacing. */
			y = (bits & 0x7fff) == half[k].largest ? INFINITY : fabs(decode(bits + 1, half[k].m));
			middle = copysign(isinf(y) ? 2 * fabs(x) - fabs(decode(bits - 1, half[k].m)) : y, x);
			middle = x + (middle - x) / 2;
			y = copysign(y, x);
			assert_true(ref_round(half[k].dtype, middle) == (bits & 1 ? y : x));
			assert_true(ref_round(half[k].dtype, nextafter(middle, 0)) == x);
			assert_true(ref_round(half[k].dtype, nextafter(middle, y)) == y);
		}
	}
	for (int k = 0; k < 100000; k++) {
		x = ldexp(uniform(), below(290) - 155);
		assert_true(ref_round(REF_F32, x) == (double)(float)x && ref_round(REF_F64, x) == x);
		x = ldexp(floor(0x1p25 * uniform()) + 0.5, below(290) - 180);
		assert_true(ref_round(REF_F32, x) == (double)(float)x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_6_1),
		cmocka_unit_test(vectors_6_2),
		cmocka_unit_test(golden_4_1),
		cmocka_unit_test(lstm_differences),
		cmocka_unit_test(gru_differences),
		cmocka_unit_test(clip_is_straight_through),
		cmocka_unit_test(no_rows),
		cmocka_unit_test(rounding),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
