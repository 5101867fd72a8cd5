/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the reference of BlockLSTM and its gradient: the forward pass equals seq_len_max calls of the cell; the gradient of every input
 * equals differences; both orders of gates give the same answers, and so do two calls in place of one; inputs beyond seq_len_max have no
 * effect. The reference's error bound is tested in reference_bound_test.c, TensorFlow's answers in data_test.c.
 */
#include "tests/verify/reference_arrays.h"
#include "verify/sequence.h"

enum { ARRAYS = LSTM_ARRAYS };

static struct ref_block_lstm P;
static long double h_saved[MAX];

/* Binds all arrays for T steps. cs_prev, h_prev and their gradients, which are no sequences, use only the first B of the T * B rows. */
static void bind(int64_t T, int64_t B, int64_t I, int64_t U, int exact)
{
	bind_lstm(T * B, I, U, exact);
	at[IN_cs_prev].n = at[IN_h_prev].n = at[OUT_cs_prev_grad].n = at[OUT_h_prev_grad].n = B * U;
	L.B = B;
	P = (struct ref_block_lstm){ .cell = L, .T = T, .seq_len_max = T, .h = { NULL, h_saved, NULL } };
}

static void poison(void)
{
	for (int a = 0; a < ARRAYS; a++)
		for (int64_t n = 0; n < at[a].n && at[a].is_out; n++)
			at[a].v[n] = at[a].e[n] = NAN;
}

static void forward(void)
{
	assert_int_equal(ref_block_lstm_forward(&P), 0);
}

static void save(void)
{
#define SAVE(a, g, n) memcpy(at[IN_##a].v, at[OUT_##g].v, sizeof(at[0].v));
	LSTM_SAVED(SAVE)
#undef SAVE
	memcpy(h_saved, at[OUT_h_out].v, sizeof(h_saved));
}

static void run(void)
{
	poison();
	forward();
	save();
	assert_int_equal(ref_block_lstm_grad(&P), 0);
}

static long double kept[ARRAYS][MAX], saved_h[MAX];

static void keep(void)
{
	for (int a = 0; a < ARRAYS; a++)
		memcpy(kept[a], at[a].v, sizeof(kept[a]));
	memcpy(saved_h, h_saved, sizeof(saved_h));
}

static void agree(int a, int64_t n, long double want, const char *what)
{
	if (!(fabsl(at[a].v[n] - want) <= 1e-15L * (1 + fabsl(want))))
		fail_msg("%s: %s[%d] is %.15Lg, not %.15Lg", what, at[a].name, (int)n, at[a].v[n], want);
}

static void agree_all(const char *what)
{
	for (int a = 0; a < ARRAYS; a++)
		for (int64_t n = 0; n < at[a].n && at[a].is_out; n++)
			agree(a, n, kept[a][n], what);
}

/* Sets up a case with random numbers, whose sizes and options c chooses. */
static void choose(int c, int dtype)
{
	L = (struct ref_lstm_block){ .dtype = dtype, .gates = c & 1, .use_peephole = c >> 1 & 1, .accumulate = c >> 2 & 1,
		.forget_bias = c & 1 ? 0 : 0.75, .cell_clip = c >> 3 & 1 ? 0.25 : 0 };
	bind(1 + c % 5, 1 + c % 3, 2, 3, 1);
	P.seq_len_max = c % 4 ? P.T : P.T / 2;
	draw(ARRAYS, dtype, 1);
}

/* The outputs of forward have the same bits, of values and of bounds, as seq_len_max calls of the cell, each of which reads the stored
 * states of the call before; in later steps they are zeros. */
static void steps_of_the_cell(void **state)
{
	static const int from[] = { OUT_i_out, OUT_cs_out, OUT_f_out, OUT_o_out, OUT_ci_out, OUT_co_out, OUT_h_out };
	static long double v[7][MAX], e[7][MAX];

	(void)state;
	for (int dtype = 0; dtype < 4; dtype++) {
		for (int c = 0; c < 64; c++) {
			struct ref_lstm_block s;
			int64_t n;

			choose(c, dtype);
			poison();
			forward();
			n = P.cell.B * P.cell.U;
			s = P.cell;
			s.i_out = (struct ref_out){ v[0], e[0] };
			s.cs_out = (struct ref_out){ v[1], e[1] };
			s.f_out = (struct ref_out){ v[2], e[2] };
			s.o_out = (struct ref_out){ v[3], e[3] };
			s.ci_out = (struct ref_out){ v[4], e[4] };
			s.co_out = (struct ref_out){ v[5], e[5] };
			s.h_out = (struct ref_out){ v[6], e[6] };
			for (int64_t t = 0; t < P.T; t++) {
				static long double cs[2][MAX], h[2][MAX];
				int live = t < P.seq_len_max;

				if (live)
					assert_int_equal(ref_lstm_block_forward(&s), 0);
				for (int j = 0; j < 7; j++)
					for (int64_t k = 0; k < n; k++)
						assert_true(at[from[j]].v[t * n + k] == (live ? v[j][k] : 0) &&
							at[from[j]].e[t * n + k] == (live ? e[j][k] : 0));
				ref_read_back(dtype, n, s.cs_out);
				ref_read_back(dtype, n, s.h_out);
				memcpy(cs[0], v[1], sizeof(cs[0]));
				memcpy(cs[1], e[1], sizeof(cs[1]));
				memcpy(h[0], v[6], sizeof(h[0]));
				memcpy(h[1], e[6], sizeof(h[1]));
				s.cs_prev = (struct ref_in){ NULL, cs[0], cs[1] };
				s.h_prev = (struct ref_in){ NULL, h[0], h[1] };
				s.x.v += s.B * s.I;
			}
		}
	}
}

static long double loss(void)
{
	long double s = 0;

	forward();
	for (int64_t n = 0; n < P.seq_len_max * P.cell.B * P.cell.U; n++)
		s += at[IN_cs_grad].v[n] * at[OUT_cs_out].v[n] + at[IN_h_grad].v[n] * at[OUT_h_out].v[n];
	return s;
}

static long double worst;

static void difference(int a, int g)
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
		off = fabsl(slope - at[g].v[n]) / (1 + fabsl(slope));
		worst = fmaxl(worst, off);
		if (!(off <= 1e-10L))
			fail_msg("%s[%d]: %.15Lg, by difference %.15Lg", at[g].name, (int)n, at[g].v[n], slope);
	}
}

static void differences(void **state)
{
	(void)state;
	for (int c = 0; c < 60; c++) {
		choose(c & ~12, REF_F64);
		P.seq_len_max = c / 4 % 2 ? P.T : P.T / 2;
		run();
#define DIFFERENCE(a, g, n) difference(IN_##a, OUT_##g);
		LSTM_WRT(DIFFERENCE)
#undef DIFFERENCE
	}
	print_message("# block_lstm: largest difference over 1 + its slope: %.1Le\n", worst);
}

/* Swaps the second and the third of the four column blocks of array a, [rows, 4U]. */
static void exchange(int a)
{
	int64_t U = P.cell.U;
	long double was;

	for (int64_t n = 0; n < at[a].n; n++) {
		if (n / U % 4 == 1) {
			was = at[a].v[n];
			at[a].v[n] = at[a].v[n + U];
			at[a].v[n + U] = was;
		}
	}
}

static void both_orders(void **state)
{
	static const int by_gate[] = { IN_w, IN_b, IN_w_grad_old, IN_b_grad_old };

	(void)state;
	for (int c = 0; c < 64; c++) {
		choose(c & ~1, REF_F64);
		P.cell.forget_bias = 0;
		run();
		keep();
		P.cell.gates = REF_IFCO;
		for (int j = 0; j < 4; j++)
			exchange(by_gate[j]);
		run();
		exchange(OUT_w_grad);
		exchange(OUT_b_grad);
		exchange(OUT_dgates);
		agree_all("IFCO");
	}
}

/* NaN in the inputs of step seq_len_max and later steps has no effect, and all outputs of these steps are zeros. */
static void beyond_the_end(void **state)
{
	static const int in[] = { IN_x, IN_i, IN_cs, IN_f, IN_o, IN_ci, IN_co, IN_cs_grad, IN_h_grad };
	static const int zero[] = { OUT_i_out, OUT_cs_out, OUT_f_out, OUT_o_out, OUT_ci_out, OUT_co_out, OUT_h_out, OUT_x_grad,
		OUT_dgates };

	(void)state;
	for (int c = 0; c < 64; c++) {
		choose(c, REF_F32);
		P.seq_len_max = P.T * (c % 3) / 3;
		run();
		keep();
		for (int j = 0; j < 9; j++)
			for (int64_t n = at[in[j]].n / P.T * P.seq_len_max; n < at[in[j]].n; n++)
				at[in[j]].v[n] = NAN;
		for (int64_t n = P.seq_len_max * P.cell.B * P.cell.U; n < MAX; n++)
			h_saved[n] = NAN;
		poison();
		forward();
		assert_int_equal(ref_block_lstm_grad(&P), 0);
		agree_all("NaN beyond the end");
		for (int j = 0; j < 9; j++)
			for (int64_t n = at[zero[j]].n / P.T * P.seq_len_max; n < at[zero[j]].n; n++)
				assert_true(at[zero[j]].v[n] == 0 && at[zero[j]].e[n] == 0);
		if (P.seq_len_max > 0)
			continue;
		for (int64_t n = 0; n < P.cell.B * P.cell.U; n++)
			assert_true(at[OUT_cs_prev_grad].v[n] == 0 && at[OUT_h_prev_grad].v[n] == 0 &&
				at[OUT_h_prev_grad].e[n] == 0);
		for (int64_t n = 0; n < at[OUT_w_grad].n; n++)
			assert_true(at[OUT_w_grad].v[n] == P.cell.accumulate * at[IN_w_grad_old].v[n] && at[OUT_w_grad].e[n] == 0);
	}
}

/* Without steps (T = 0) or rows (B = 0) b_grad is zeros or, with `accumulate`, the old values; the gradients of cs_prev and h_prev are
   zeros. */
static void none(void **state)
{
	(void)state;
	for (int c = 0; c < 4; c++) {
		L = (struct ref_lstm_block){ .dtype = REF_F16, .use_peephole = 1, .accumulate = c & 1 };
		bind(c & 2 ? 0 : 3, c & 2 ? 2 : 0, 2, 3, 1);
		draw(ARRAYS, REF_F16, 1);
		run();
		for (int64_t n = 0; n < at[OUT_b_grad].n; n++)
			assert_true(at[OUT_b_grad].v[n] == (c & 1) * at[IN_b_grad_old].v[n] && at[OUT_b_grad].e[n] == 0);
		for (int64_t n = 0; n < at[OUT_cs_prev_grad].n; n++)
			assert_true(at[OUT_cs_prev_grad].v[n] == 0 && at[OUT_h_prev_grad].v[n] == 0);
	}
}

/* Returns an array from its element n on. */
static struct ref_in in_on(struct ref_in a, int64_t n)
{
	return (struct ref_in){ NULL, a.v + n, NULL };
}

static struct ref_out out_on(struct ref_out a, int64_t n)
{
	return (struct ref_out){ a.v + n, a.e + n };
}

static void move(struct ref_block_lstm *p, int64_t t)
{
	struct ref_lstm_block *c = &p->cell;
	int64_t n = c->B * c->U * t;

	c->x = in_on(c->x, c->B * c->I * t);
	c->x_grad = out_on(c->x_grad, c->B * c->I * t);
	p->h = in_on(p->h, n);
#define MOVE(a, g, m) c->a = in_on(c->a, n); c->g = out_on(c->g, n);
	LSTM_SAVED(MOVE)
#undef MOVE
	c->h_out = out_on(c->h_out, n);
	c->cs_grad = in_on(c->cs_grad, n);
	c->h_grad = in_on(c->h_grad, n);
	c->dgates = out_on(c->dgates, 4 * n);
	c->cs_prev = in_on(p->cell.cs, -c->B * c->U);
	c->h_prev = in_on(p->h, -c->B * c->U);
}

/* A call for all steps but the last, and one for the last step from the states of that call, give the answers of one call for all steps. */
static void test_chunks(void **state)
{
	static long double cs_grad[MAX], h_grad[MAX];

	(void)state;
	for (int c = 0; c < 32; c++) {
		struct ref_block_lstm head, tail;
		int64_t cut, n;

		choose(c, REF_F64);
		P.seq_len_max = P.T;
		P.cell.accumulate = 0;
		run();
		keep();
		n = P.cell.B * P.cell.U;
		cut = P.T - 1;
		if (cut == 0)
			continue;
		head = tail = P;
		head.T = head.seq_len_max = cut;
		move(&tail, cut);
		tail.T = tail.seq_len_max = P.T - cut;
		poison();
		assert_int_equal(ref_block_lstm_forward(&head), 0);
		assert_int_equal(ref_block_lstm_forward(&tail), 0);
		assert_int_equal(ref_block_lstm_grad(&tail), 0);

		/* the second call's gradients of its initial states are added to the upstream gradients of the first call's last step, and
		 * the first call adds its weight gradients to those of the second */
		memcpy(cs_grad, at[IN_cs_grad].v, sizeof(cs_grad));
		memcpy(h_grad, at[IN_h_grad].v, sizeof(h_grad));
		for (int64_t k = 0; k < n; k++) {
			cs_grad[(cut - 1) * n + k] += at[OUT_cs_prev_grad].v[k];
			h_grad[(cut - 1) * n + k] += at[OUT_h_prev_grad].v[k];
		}
		head.cell.cs_grad.v = cs_grad;
		head.cell.h_grad.v = h_grad;
		head.cell.accumulate = 1;
		head.cell.w_grad_old.v = at[OUT_w_grad].v;
		head.cell.b_grad_old.v = at[OUT_b_grad].v;
		head.cell.wci_grad_old.v = at[OUT_wci_grad].v;
		head.cell.wcf_grad_old.v = at[OUT_wcf_grad].v;
		head.cell.wco_grad_old.v = at[OUT_wco_grad].v;
		assert_int_equal(ref_block_lstm_grad(&head), 0);
		agree_all("pieces");
	}
}

static void linear(void **state)
{
	static const int grads[] = { OUT_x_grad, OUT_cs_prev_grad, OUT_h_prev_grad, OUT_w_grad, OUT_wci_grad, OUT_wcf_grad,
		OUT_wco_grad, OUT_b_grad, OUT_dgates };
	static long double first[ARRAYS][MAX];

	(void)state;
	for (int c = 0; c < 64; c++) {
		choose(c & ~4, REF_F64);
		run();
		for (int a = 0; a < ARRAYS; a++)
			memcpy(first[a], at[a].v, sizeof(first[a]));
		for (int64_t n = 0; n < at[IN_h_grad].n; n++) {
			at[IN_h_grad].v[n] = uniform();
			at[IN_cs_grad].v[n] = uniform();
		}
		run();
		keep();
		for (int64_t n = 0; n < at[IN_h_grad].n; n++) {
			at[IN_h_grad].v[n] = 2 * first[IN_h_grad][n] - 3 * kept[IN_h_grad][n];
			at[IN_cs_grad].v[n] = 2 * first[IN_cs_grad][n] - 3 * kept[IN_cs_grad][n];
		}
		run();
		for (int j = 0; j < 9; j++)
			for (int64_t n = 0; n < at[grads[j]].n; n++)
				agree(grads[j], n, 2 * first[grads[j]][n] - 3 * kept[grads[j]][n], "linearity");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_of_the_cell),
		cmocka_unit_test(differences),
		cmocka_unit_test(both_orders),
		cmocka_unit_test(beyond_the_end),
		cmocka_unit_test(none),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(linear),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
