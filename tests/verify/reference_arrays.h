/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage for every argument of ref_lstm_block and ref_gru_block, by name, and random numbers for the inputs; for tests of the
 * reference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "verify/reference.h"

enum { MAX = 2048 };

/* These lists have the name and the length of every array of an op: _WRT the inputs that have a gradient, each with that gradient; _SAVED
 * what forward saves, as an input of the gradient and as an output of forward; _IN the other inputs, _OUT the other outputs. */
#define LSTM_WRT(_) _(x, x_grad, B * I) _(cs_prev, cs_prev_grad, B * U) _(h_prev, h_prev_grad, B * U) \
	_(w, w_grad, (I + U) * 4 * U) _(wci, wci_grad, U) _(wcf, wcf_grad, U) _(wco, wco_grad, U) _(b, b_grad, 4 * U)
#define LSTM_SAVED(_) _(i, i_out, B * U) _(cs, cs_out, B * U) _(f, f_out, B * U) _(o, o_out, B * U) \
	_(ci, ci_out, B * U) _(co, co_out, B * U)
#define LSTM_IN(_) _(cs_grad, B * U) _(h_grad, B * U) _(w_grad_old, (I + U) * 4 * U) _(wci_grad_old, U) \
	_(wcf_grad_old, U) _(wco_grad_old, U) _(b_grad_old, 4 * U)
#define LSTM_OUT(_) _(h_out, B * U) _(dgates, B * 4 * U)
#define GRU_WRT(_) _(x, d_x, B * I) _(h_prev, d_h_prev, B * U) _(w_ru, d_w_ru, (I + U) * 2 * U) \
	_(w_c, d_w_c, (I + U) * U) _(b_ru, d_b_ru, 2 * U) _(b_c, d_b_c, U)
#define GRU_SAVED(_) _(r, r_out, B * U) _(u, u_out, B * U) _(c, c_out, B * U)
#define GRU_IN(_) _(d_h, B * U) _(d_w_ru_old, (I + U) * 2 * U) _(d_w_c_old, (I + U) * U) _(d_b_ru_old, 2 * U) \
	_(d_b_c_old, U)
#define GRU_OUT(_) _(h_out, B * U) _(d_c_bar, B * U) _(d_r_bar_u_bar, B * 2 * U)

#define FIELD2(a, g, n) IN_##a, OUT_##g,
#define FIELD_IN(a, n) IN_##a,
#define FIELD_OUT(g, n) OUT_##g,
enum lstm_array { LSTM_WRT(FIELD2) LSTM_SAVED(FIELD2) LSTM_IN(FIELD_IN) LSTM_OUT(FIELD_OUT) LSTM_ARRAYS };
#undef FIELD2
#undef FIELD_IN
#undef FIELD_OUT
#define FIELD2(a, g, n) GRU_##a, GRU_##g,
#define FIELD_IN(a, n) GRU_##a,
#define FIELD_OUT(g, n) GRU_##g,
enum gru_array { GRU_WRT(FIELD2) GRU_SAVED(FIELD2) GRU_IN(FIELD_IN) GRU_OUT(FIELD_OUT) GRU_ARRAYS };

/*
 * The arrays of both ops share this storage. d or v has an input's numbers; v and e have an output's values and bounds; naive and
 * unrounded have the naive code's answers, after and before their rounding to the dtype. ratio is the largest error of naive divided by the
 * tolerance, inner the largest error of unrounded divided by 2 * bound.
 */
static struct store {
	double d[MAX], naive[MAX], unrounded[MAX];
	long double v[MAX], e[MAX], ratio, inner;
	int64_t n;
	const char *name;
	int is_out;
} at[LSTM_ARRAYS];

static struct ref_lstm_block L;
static struct ref_gru_block G;

/* Gives array a its name and length, and returns an input that reads at[a].v if `exact`, else at[a].d, which has numbers of the dtype. */
static struct ref_in in(int a, const char *name, int64_t n, int exact)
{
	assert_true(n <= MAX);
	at[a].n = n;
	at[a].name = name;
	at[a].is_out = 0;
	return exact ? (struct ref_in){ NULL, at[a].v, NULL } : (struct ref_in){ at[a].d, NULL, NULL };
}

static struct ref_out out(int a, const char *name, int64_t n)
{
	assert_true(n <= MAX);
	at[a].n = n;
	at[a].name = name;
	at[a].is_out = 1;
	return (struct ref_out){ at[a].v, at[a].e };
}

static inline void bind_lstm(int64_t B, int64_t I, int64_t U, int exact)
{
	L.B = B;
	L.I = I;
	L.U = U;
#define BIND2(a, g, n) L.a = in(IN_##a, #a, n, exact); L.g = out(OUT_##g, #g, n);
#define BIND_IN(a, n) L.a = in(IN_##a, #a, n, exact);
#define BIND_OUT(g, n) L.g = out(OUT_##g, #g, n);
	LSTM_WRT(BIND2) LSTM_SAVED(BIND2) LSTM_IN(BIND_IN) LSTM_OUT(BIND_OUT)
#undef BIND2
#undef BIND_IN
#undef BIND_OUT
}

static inline void bind_gru(int64_t B, int64_t I, int64_t U, int exact)
{
	G.B = B;
	G.I = I;
	G.U = U;
#define BIND2(a, g, n) G.a = in(GRU_##a, #a, n, exact); G.g = out(GRU_##g, #g, n);
#define BIND_IN(a, n) G.a = in(GRU_##a, #a, n, exact);
#define BIND_OUT(g, n) G.g = out(GRU_##g, #g, n);
	GRU_WRT(BIND2) GRU_SAVED(BIND2) GRU_IN(BIND_IN) GRU_OUT(BIND_OUT)
}

static uint64_t seed = 20240229;

static double uniform(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(seed >> 11) * 0x1p-52 - 1;
}

static inline int below(int n)
{
	return (int)((uniform() + 1) / 2 * n);
}

/* Draws the numbers of all inputs: v has them as drawn, d rounded to the dtype. */
static inline void draw(int arrays, int dtype, double scale)
{
	for (int a = 0; a < arrays; a++) {
		for (int64_t n = 0; n < at[a].n && !at[a].is_out; n++) {
			at[a].v[n] = scale * uniform();
			at[a].d[n] = ref_round(dtype, (double)at[a].v[n]);
		}
	}
}

