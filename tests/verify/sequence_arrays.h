/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage for every argument of ref_rnn, by name, and random numbers and lengths to fill it; for tests of the reference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "verify/sequence.h"

enum { MAX = 8192, MAX_ROWS = 16 };

/* These lists have the name and the length of every array of ref_rnn: RNN_WRT the inputs that have a gradient, each with that gradient;
 * RNN_IN the other inputs; RNN_OUT the other outputs. */
#define RNN_WRT(_) _(input, input_backprop, T * B * I) _(input_h, input_h_backprop, states * H) \
	_(input_c, input_c_backprop, states * U) _(params, params_backprop, ref_rnn_size(&R))
#define RNN_IN(_) _(output_backprop, T * B * D * H) _(output_h_backprop, states * H) _(output_c_backprop, states * U) \
	_(params_backprop_old, ref_rnn_size(&R))
#define RNN_OUT(_) _(output, T * B * D * H) _(output_h, states * H) _(output_c, states * U)

#define FIELD2(a, g, n) RNN_##a, RNN_##g,
#define FIELD1(a, n) RNN_##a,
enum rnn_array { RNN_WRT(FIELD2) RNN_IN(FIELD1) RNN_OUT(FIELD1) RNN_ARRAYS };

/* d or v has an input's numbers; v and e have an output's values and bounds; naive and unrounded have the naive code's answers, after and
 * before their rounding to the dtype. ratio is the largest error of naive divided by the tolerance, inner the largest error of unrounded
 * divided by 2 * bound. */
static struct store {
	double d[MAX], naive[MAX], unrounded[MAX];
	long double v[MAX], e[MAX], ratio, inner;
	int64_t n;
	const char *name;
	int is_out;
} at[RNN_ARRAYS];

static struct ref_rnn R;
static int32_t lengths[MAX_ROWS];

static void name_array(int a, const char *name, int64_t n, int is_out)
{
	assert_true(n <= MAX);
	at[a].n = n;
	at[a].name = name;
	at[a].is_out = is_out;
}

/* Points every array of R at its storage: inputs at v if `exact`, else at d. The caller has set the sizes and options of R. */
static inline void bind_rnn(int exact)
{
	int64_t T = R.T, B = R.B, I = R.I, U = R.U, D = 1 + R.bidirectional, H = R.P ? R.P : R.U, states = R.L * D * B;
	struct ref_in given;

#define GIVEN(a) (given.d = exact ? NULL : at[RNN_##a].d, given.v = exact ? at[RNN_##a].v : NULL, given.e = NULL, given)
#define BIND_IN(a, n) name_array(RNN_##a, #a, n, 0); R.a = GIVEN(a);
#define BIND_OUT(a, n) name_array(RNN_##a, #a, n, 1); R.a = (struct ref_out){ at[RNN_##a].v, at[RNN_##a].e };
#define BIND2(a, g, n) BIND_IN(a, n) BIND_OUT(g, n)
	RNN_WRT(BIND2) RNN_IN(BIND_IN) RNN_OUT(BIND_OUT)
#undef BIND2
#undef BIND_IN
#undef BIND_OUT
}

static uint64_t seed = 20240229;

static inline double uniform(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(seed >> 11) * 0x1p-52 - 1;
}

static inline int below(int n)
{
	return (int)((uniform() + 1) / 2 * n);
}

/* Draws the numbers of all inputs: v has them as drawn, d rounded to the dtype. */
static inline void draw(double scale)
{
	for (int a = 0; a < RNN_ARRAYS; a++) {
		for (int64_t n = 0; n < at[a].n && !at[a].is_out; n++) {
			at[a].v[n] = scale * uniform();
			at[a].d[n] = ref_round(R.dtype, (double)at[a].v[n]);
		}
	}
}

static inline void draw_lengths(void)
{
	for (int64_t b = 0; b < R.B; b++)
		lengths[b] = below((int)R.T + 1);
	R.lengths = lengths;
}
