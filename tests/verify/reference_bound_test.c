/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the error bound of the reference of the block ops against plain arithmetic of the same precision: a second, naive implementation
 * of LSTMBlockCell, GRUBlockCell and BlockLSTM with their gradients, with sums in several orders and optional roundings. The values are
 * tested in reference_test.c and reference_block_lstm_test.c, implementations in the conformance suite.
 */
#include "tests/conformance/naive.h"
#include "tests/verify/reference_arrays.h"
#include "verify/sequence.h"

static double R(double x)
{
	return how.stores ? A(ref_round(how.dtype, x)) : x;
}

static double D(int a, int64_t n)
{
	return A(at[a].d[n]);
}

static void answer(int a, int64_t n, double x)
{
	at[a].unrounded[n] = x;
	at[a].naive[n] = ref_round(how.dtype, x);
}

/* Adds the terms of concat(x, h) @ w + b at row r and column n. a: the arrays x, w and b. */
static void row(const int *a, int64_t I, int64_t U, const double *h, int64_t r, int64_t N, int64_t n)
{
	for (int64_t j = 0; j < I; j++)
		term(D(a[0], r * I + j), D(a[1], j * N + n));
	for (int64_t j = 0; j < U; j++)
		term(h[r * U + j], D(a[1], (I + j) * N + n));
	term(D(a[2], n), 1);
}

static void sum_rows(int dw, int db, int w_old, int b_old, int accumulate, int64_t B, int x, int64_t I, int64_t U,
	const double *h, const double *d, int64_t N)
{
	for (int64_t m = 0; m < (I + U + 1) * N; m++) {
		int64_t j = m / N, n = m % N;

		if (accumulate)
			term(j < I + U ? D(w_old, m) : D(b_old, n), 1);
		for (int64_t r = 0; r < B; r++)
			term(j < I ? D(x, r * I + j) : j < I + U ? h[r * U + j - I] : 1, d[r * N + n]);
		if (j < I + U)
			answer(dw, m, sum());
		else
			answer(db, n, sum());
	}
}

static double h_of[MAX], d_of[MAX], more[MAX];

static double lstm_gate(int64_t n, int block, double forget_bias, int wc, double c)
{
	static const int a[] = { IN_x, IN_w, IN_b };

	row(a, L.I, L.U, h_of, n / L.U, 4 * L.U, block * L.U + n % L.U);
	term(forget_bias, 1);
	if (L.use_peephole && wc != IN_x)
		term(c, D(wc, n % L.U));
	return sum();
}

static void naive_lstm_forward(void)
{
	double most = ref_round(how.dtype, L.cell_clip), old, i, ci, f, cs, co, o;

	for (int64_t n = 0; n < L.B * L.U; n++)
		h_of[n] = D(IN_h_prev, n);
	for (int64_t n = 0; n < L.B * L.U; n++) {
		old = D(IN_cs_prev, n);
		i = sigmoid(lstm_gate(n, 0, 0, IN_wci, old));
		ci = A(tanh(lstm_gate(n, L.gates == REF_ICFO ? 1 : 2, 0, IN_x, 0)));
		f = sigmoid(lstm_gate(n, L.gates == REF_ICFO ? 2 : 1, ref_round(how.dtype, L.forget_bias), IN_wcf, old));
		term(i, ci);
		term(f, old);
		cs = sum();
		cs = most > 0 && cs > most ? most : most > 0 && cs < -most ? -most : cs;
		co = A(tanh(cs));
		o = sigmoid(lstm_gate(n, 3, 0, IN_wco, cs));
		answer(OUT_i_out, n, i);
		answer(OUT_ci_out, n, ci);
		answer(OUT_f_out, n, f);
		answer(OUT_cs_out, n, cs);
		answer(OUT_co_out, n, co);
		answer(OUT_o_out, n, o);
		answer(OUT_h_out, n, A(o * co));
	}
}

static void naive_lstm_grad(void)
{
	int64_t B = L.B, I = L.I, U = L.U, N = 4 * U, c = L.gates == REF_ICFO ? 1 : 2, f = 3 - c;

	for (int64_t n = 0; n < B * U; n++) {
		double *d = d_of + n / U * N + n % U, gh = D(IN_h_grad, n), dcs;

		d[3 * U] = through_s(D(IN_o, n), gh, D(IN_co, n));
		term(through_t(D(IN_co, n), gh, D(IN_o, n)), 1);
		term(D(IN_cs_grad, n), 1);
		if (L.use_peephole)
			term(d[3 * U], D(IN_wco, n % U));
		dcs = sum();
		d[0] = through_s(D(IN_i, n), dcs, D(IN_ci, n));
		d[c * U] = through_t(D(IN_ci, n), dcs, D(IN_i, n));
		d[f * U] = through_s(D(IN_f, n), dcs, D(IN_cs_prev, n));
		term(dcs, D(IN_f, n));
		if (L.use_peephole) {
			term(d[0], D(IN_wci, n % U));
			term(d[f * U], D(IN_wcf, n % U));
		}
		answer(OUT_cs_prev_grad, n, sum());
	}
	for (int64_t n = 0; n < B * N; n++) {
		answer(OUT_dgates, n, d_of[n]);
		d_of[n] = R(d_of[n]);
	}
	for (int64_t n = 0; n < B * (I + U); n++) {
		int64_t r = n / (I + U), j = n % (I + U);

		for (int64_t l = 0; l < N; l++)
			term(d_of[r * N + l], D(IN_w, j * N + l));
		if (j < I)
			answer(OUT_x_grad, r * I + j, sum());
		else
			answer(OUT_h_prev_grad, r * U + j - I, sum());
	}
}

/* Computes the weight gradients from B rows of d_of, the gradients of the gates, and of h_of, h before the step. */
static void naive_lstm_sums(int64_t B)
{
	int64_t I = L.I, U = L.U, N = 4 * U, f = L.gates == REF_ICFO ? 2 : 1;

	sum_rows(OUT_w_grad, OUT_b_grad, IN_w_grad_old, IN_b_grad_old, L.accumulate, B, IN_x, I, U, h_of, d_of, N);
	for (int64_t n = 0; n < 3 * U; n++) {
		static const int old[] = { IN_wci_grad_old, IN_wcf_grad_old, IN_wco_grad_old };
		static const int to[] = { OUT_wci_grad, OUT_wcf_grad, OUT_wco_grad };
		int64_t g = n / U, u = n % U;

		if (L.accumulate)
			term(D(old[g], u), 1);
		for (int64_t r = 0; r < B && L.use_peephole; r++)
			term(D(g == 2 ? IN_cs : IN_cs_prev, r * U + u), d_of[r * N + (g == 0 ? 0 : g == 1 ? f : 3) * U + u]);
		answer(to[g], u, sum());
	}
}

static void naive_gru_forward(void)
{
	static const int ru[] = { GRU_x, GRU_w_ru, GRU_b_ru }, wc[] = { GRU_x, GRU_w_c, GRU_b_c };
	int64_t I = G.I, U = G.U;
	double r, c;

	for (int64_t n = 0; n < G.B * U; n++)
		h_of[n] = D(GRU_h_prev, n);
	for (int64_t n = 0; n < G.B * U; n++) {
		row(ru, I, U, h_of, n / U, 2 * U, n % U);
		r = sigmoid(sum());
		answer(GRU_r_out, n, r);
		more[n] = R(A(h_of[n] * R(r)));
		row(ru, I, U, h_of, n / U, 2 * U, U + n % U);
		d_of[n] = sigmoid(sum());
		answer(GRU_u_out, n, d_of[n]);
		d_of[n] = R(d_of[n]);
	}
	for (int64_t n = 0; n < G.B * U; n++) {
		row(wc, I, U, more, n / U, U, n % U);
		c = A(tanh(sum()));
		answer(GRU_c_out, n, c);
		if (how.order & 1)
			answer(GRU_h_out, n, A(A(d_of[n] * A(h_of[n] - c)) + c));
		else
			answer(GRU_h_out, n, A(A(d_of[n] * h_of[n]) + A(A(1 - d_of[n]) * c)));
	}
}

static void naive_gru_grad(void)
{
	static double dc[MAX], d_hr[MAX];
	int64_t B = G.B, I = G.I, U = G.U;

	for (int64_t n = 0; n < B * U; n++) {
		double u = D(GRU_u, n), c = D(GRU_c, n), g = D(GRU_d_h, n);

		dc[n] = A(A(g * A(1 - u)) * A(1 - A(c * c)));
		answer(GRU_d_c_bar, n, dc[n]);
		dc[n] = R(dc[n]);
		d_of[n / U * 2 * U + U + n % U] = through_s(u, g, A(h_of[n] - c));
	}
	for (int64_t n = 0; n < B * U; n++) {
		double r = D(GRU_r, n);

		for (int64_t l = 0; l < U; l++)
			term(dc[n / U * U + l], D(GRU_w_c, (I + n % U) * U + l));
		d_hr[n] = sum();
		d_of[n / U * 2 * U + n % U] = through_s(r, d_hr[n], h_of[n]);
		more[n] = R(A(h_of[n] * r));
	}
	for (int64_t n = 0; n < B * 2 * U; n++) {
		answer(GRU_d_r_bar_u_bar, n, d_of[n]);
		d_of[n] = R(d_of[n]);
	}
	for (int64_t n = 0; n < B * (I + U); n++) {
		int64_t b = n / (I + U), j = n % (I + U), m = b * U + j - I;

		for (int64_t l = 0; l < 2 * U; l++)
			term(d_of[b * 2 * U + l], D(GRU_w_ru, j * 2 * U + l));
		for (int64_t l = 0; l < U && j < I; l++)
			term(dc[b * U + l], D(GRU_w_c, j * U + l));
		if (j >= I) {
			term(d_hr[m], D(GRU_r, m));
			term(D(GRU_d_h, m), D(GRU_u, m));
			answer(GRU_d_h_prev, m, sum());
		} else {
			answer(GRU_d_x, b * I + j, sum());
		}
	}
	sum_rows(GRU_d_w_ru, GRU_d_b_ru, GRU_d_w_ru_old, GRU_d_b_ru_old, G.accumulate, B, GRU_x, I, U, h_of, d_of, 2 * U);
	sum_rows(GRU_d_w_c, GRU_d_b_c, GRU_d_w_c_old, GRU_d_b_c_old, G.accumulate, B, GRU_x, I, U, more, dc, U);
}

static const char *const dtype_name[] = { [REF_F32] = "f32", [REF_F64] = "f64", [REF_F16] = "f16", [REF_BF16] = "bf16" };

/* Fails the test unless every element of every output is within the tolerance; keeps each array's largest errors, `ratio` and `inner`. */
static void compare(int arrays, int c)
{
	long double t, off;

	for (int a = 0; a < arrays; a++) {
		for (int64_t n = 0; n < at[a].n && at[a].is_out; n++) {
			t = ref_tolerance(how.dtype, at[a].v[n], at[a].e[n]);
			off = fabsl(at[a].naive[n] - at[a].v[n]);
			if (!ref_within(how.dtype, at[a].v[n], at[a].e[n], at[a].naive[n]))
				fail_msg("%s %s[%d]: %.9g, not %.9Lg +- %.3Lg (case %d, order %d, flush %d)", dtype_name[how.dtype],
					at[a].name, (int)n, at[a].naive[n], at[a].v[n], t, c, how.order, how.flush);
			if (isfinite(off) && isfinite(t) && t > 0)
				at[a].ratio = fmaxl(at[a].ratio, off / t);
			off = fabsl(at[a].unrounded[n] - at[a].v[n]);
			if (isfinite(off) && isfinite(t) && at[a].e[n] > 0)
				at[a].inner = fmaxl(at[a].inner, off / (2 * at[a].e[n]));
		}
	}
}

/* Sets, at times, one element of one input to a rare value. */
static void poison(int arrays)
{
	static const double rare[] = { NAN, INFINITY, -INFINITY, 65504, 0x1.fep127, 0x1p-149, 0x1p-24, 0, -0.0, 1e300 };
	int a = below(arrays);

	if (below(3) == 0 && !at[a].is_out && at[a].n > 0)
		at[a].d[below((int)at[a].n)] = ref_round(how.dtype, rare[below(10)]);
}

static void choose(int dtype)
{
	how.dtype = dtype;
	how.single = dtype != REF_F64;
	how.order = below(4);
	how.flush = how.single && below(2);
	how.stores = below(2);
}

static void reset(int arrays)
{
	for (int a = 0; a < arrays; a++)
		at[a].ratio = at[a].inner = 0;
}

static void print_ratios(const char *op, int arrays)
{
	int t = -1, h = -1, l = -1;

	for (int a = 0; a < arrays; a++) {
		if (!at[a].is_out)
			continue;
		t = t < 0 || at[a].ratio > at[t].ratio ? a : t;
		h = h < 0 || at[a].inner > at[h].inner ? a : h;
		l = l < 0 || at[a].inner < at[l].inner ? a : l;
	}
	print_message("# %-4s %s: largest error / tolerance %.3Lf (%s); before the last rounding / 2 bound: "
		"%.3Lf (%s), of the loosest output %.3Lf (%s)\n", dtype_name[how.dtype], op, at[t].ratio, at[t].name,
		at[h].inner, at[h].name, at[l].inner, at[l].name);
	assert_true(at[t].ratio <= 1 && at[h].inner <= 1 && at[l].inner > 0.05L);
}

static const double scales[] = { 1, 1, 1, 0.01, 5, 1e-15, 1e-19, 1e-30 };

static void lstm_bound(void **state)
{
	(void)state;
	for (int dtype = 0; dtype < 4; dtype++) {
		reset(LSTM_ARRAYS);
		for (int c = 0; c < 4000; c++) {
			choose(dtype);
			L = (struct ref_lstm_block){ .dtype = dtype, .gates = below(2), .use_peephole = below(2),
				.accumulate = below(2), .forget_bias = uniform(), .cell_clip = uniform() };
			bind_lstm(below(7), 1 + below(c % 20 ? 6 : 60), 1 + below(6), 0);
			draw(LSTM_ARRAYS, dtype, scales[below(8)]);
			poison(LSTM_ARRAYS);
			naive_lstm_forward();
#define SAVE(a, g, n) memcpy(at[IN_##a].d, at[OUT_##g].naive, sizeof(at[0].d));
			LSTM_SAVED(SAVE)
#undef SAVE
			poison(LSTM_ARRAYS);
			naive_lstm_forward();
			naive_lstm_grad();
			naive_lstm_sums(L.B);
			assert_int_equal(ref_lstm_block_forward(&L), 0);
			assert_int_equal(ref_lstm_block_grad(&L), 0);
			compare(LSTM_ARRAYS, c);
		}
		print_ratios("lstm_block", LSTM_ARRAYS);
	}
}

static void gru_bound(void **state)
{
	(void)state;
	for (int dtype = 0; dtype < 4; dtype++) {
		reset(GRU_ARRAYS);
		for (int c = 0; c < 4000; c++) {
			choose(dtype);
			G = (struct ref_gru_block){ .dtype = dtype, .accumulate = below(2) };
			bind_gru(below(7), 1 + below(c % 20 ? 6 : 60), 1 + below(6), 0);
			draw(GRU_ARRAYS, dtype, scales[below(8)]);
			poison(GRU_ARRAYS);
			naive_gru_forward();
#define SAVE(a, g, n) memcpy(at[GRU_##a].d, at[GRU_##g].naive, sizeof(at[0].d));
			GRU_SAVED(SAVE)
#undef SAVE
			poison(GRU_ARRAYS);
			naive_gru_forward();
			naive_gru_grad();
			assert_int_equal(ref_gru_block_forward(&G), 0);
			assert_int_equal(ref_gru_block_grad(&G), 0);
			compare(GRU_ARRAYS, c);
		}
		print_ratios("gru_block", GRU_ARRAYS);
	}
}

/* ---- BlockLSTM: the naive code of the cell, step by step on slices of the whole ---- */

static struct ref_block_lstm P;
static double whole[LSTM_ARRAYS][MAX], whole_naive[LSTM_ARRAYS][MAX], whole_h[MAX], whole_d[MAX];

/* The arrays that have a slice for each of T steps. */
#define BOTH(a, g, n) IN_##a, OUT_##g,
static const int stepped[] = { IN_x, OUT_x_grad, LSTM_SAVED(BOTH) OUT_h_out, IN_cs_grad, IN_h_grad, OUT_dgates };
#undef BOTH
enum { STEPPED = sizeof(stepped) / sizeof(*stepped) };

static int of_grad(int a)
{
	return a == OUT_x_grad || a == OUT_dgates;
}

static void keep_whole(void)
{
	for (int a = 0; a < LSTM_ARRAYS; a++) {
		memcpy(whole[a], at[a].is_out ? at[a].unrounded : at[a].d, sizeof(whole[a]));
		memcpy(whole_naive[a], at[a].naive, sizeof(whole_naive[a]));
	}
}

static void run_step(int64_t t)
{
	for (int j = 0; j < STEPPED; j++) {
		int a = stepped[j];

		if (!at[a].is_out)
			memcpy(at[a].d, whole[a] + t * (at[a].n / P.T), at[a].n / P.T * sizeof(double));
	}
}

/* Copies the naive code's answers of step t, of forward or with `grad` of the gradient: rounded to whole_naive, and as they are before the
   last rounding to whole. */
static void give_step(int64_t t, int grad)
{
	for (int j = 0; j < STEPPED; j++) {
		int a = stepped[j];
		int64_t n = at[a].n / P.T;

		if (!at[a].is_out || of_grad(a) != grad)
			continue;
		memcpy(whole_naive[a] + t * n, at[a].naive, n * sizeof(double));
		memcpy(whole[a] + t * n, at[a].unrounded, n * sizeof(double));
	}
}

/* Copies whole and whole_naive back to the storage `at`, with zeros for the outputs beyond seq_len_max. */
static void give_whole(int grad)
{
	for (int j = 0; j < STEPPED; j++) {
		int a = stepped[j];

		for (int64_t n = at[a].n / P.T * P.seq_len_max; n < at[a].n && at[a].is_out && of_grad(a) == grad; n++)
			whole[a][n] = whole_naive[a][n] = 0;
		memcpy(at[a].is_out ? at[a].unrounded : at[a].d, whole[a], sizeof(whole[a]));
		memcpy(at[a].naive, whole_naive[a], sizeof(whole_naive[a]));
	}
	memcpy(at[IN_cs_prev].d, whole[IN_cs_prev], sizeof(at[0].d));
	memcpy(at[IN_h_prev].d, whole[IN_h_prev], sizeof(at[0].d));
}

static void naive_block_forward(void)
{
	keep_whole();
	for (int64_t t = 0; t < P.seq_len_max; t++) {
		run_step(t);
		if (t) {
			memcpy(at[IN_cs_prev].d, at[OUT_cs_out].naive, sizeof(at[0].d));
			memcpy(at[IN_h_prev].d, at[OUT_h_out].naive, sizeof(at[0].d));
		}
		naive_lstm_forward();
		give_step(t, 0);
	}
	give_whole(0);
}

static void naive_block_grad(void)
{
	int64_t n = L.B * L.U, m = P.seq_len_max;

	keep_whole();
	for (int64_t k = 0; k < n; k++) {
		answer(OUT_cs_prev_grad, k, 0);
		answer(OUT_h_prev_grad, k, 0);
	}
	for (int64_t t = m - 1; t >= 0; t--) {
		run_step(t);
		memcpy(at[IN_cs_prev].d, t ? whole[IN_cs] + (t - 1) * n : whole[IN_cs_prev], n * sizeof(double));
		for (int64_t k = 0; k < n; k++) {
			h_of[k] = A(t ? whole_h[(t - 1) * n + k] : whole[IN_h_prev][k]);
			at[IN_cs_grad].d[k] = A(D(IN_cs_grad, k) + at[OUT_cs_prev_grad].unrounded[k]);
			at[IN_h_grad].d[k] = A(D(IN_h_grad, k) + at[OUT_h_prev_grad].unrounded[k]);
		}
		naive_lstm_grad();
		memcpy(whole_d + t * 4 * n, d_of, 4 * n * sizeof(double));
		give_step(t, 1);
	}
	give_whole(1);
	/* for the sums the rows of all steps are one batch */
	for (int64_t k = 0; k < m * n; k++) {
		h_of[k] = A(k < n ? whole[IN_h_prev][k] : whole_h[k - n]);
		at[IN_cs_prev].d[k] = k < n ? whole[IN_cs_prev][k] : whole[IN_cs][k - n];
	}
	memcpy(d_of, whole_d, sizeof(d_of));
	naive_lstm_sums(m * L.B);
	memcpy(at[IN_cs_prev].d, whole[IN_cs_prev], sizeof(at[0].d));
}

static void block_lstm_bound(void **state)
{
	(void)state;
	for (int dtype = 0; dtype < 4; dtype++) {
		reset(LSTM_ARRAYS);
		for (int c = 0; c < 1500; c++) {
			int64_t T = 1 + below(5);

			choose(dtype);
			L = (struct ref_lstm_block){ .dtype = dtype, .gates = below(2), .use_peephole = below(2),
				.accumulate = below(2), .forget_bias = uniform(), .cell_clip = uniform() };
			L.B = 1 + below(4);
			bind_lstm(T * L.B, 1 + below(6), 1 + below(6), 0);
			L.B /= T;
			at[IN_cs_prev].n = at[IN_h_prev].n = at[OUT_cs_prev_grad].n = at[OUT_h_prev_grad].n = L.B * L.U;
			draw(LSTM_ARRAYS, dtype, scales[below(8)]);
			poison(LSTM_ARRAYS);
			P = (struct ref_block_lstm){ .cell = L, .T = T, .seq_len_max = below(4) ? T : below((int)T + 1),
				.h = { whole_h, NULL, NULL } };
			naive_block_forward();
#define SAVE(a, g, n) memcpy(at[IN_##a].d, at[OUT_##g].naive, sizeof(at[0].d));
			LSTM_SAVED(SAVE)
#undef SAVE
			memcpy(whole_h, at[OUT_h_out].naive, sizeof(whole_h));
			naive_block_grad();
			assert_int_equal(ref_block_lstm_forward(&P), 0);
			assert_int_equal(ref_block_lstm_grad(&P), 0);
			compare(LSTM_ARRAYS, c);
		}
		print_ratios("block_lstm", LSTM_ARRAYS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lstm_bound),
		cmocka_unit_test(gru_bound),
		cmocka_unit_test(block_lstm_bound),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
