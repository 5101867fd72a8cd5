/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage for every argument of the CudnnRNN family, by name, and random models for it; for tests of the reference.
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

/* Every array of an op: name and length. Inputs with a gradient come first, each with that gradient. */
#define RNN_WRT(_) _(input, input_backprop, T * B * I) _(input_h, input_h_backprop, states * H) \
	_(input_c, input_c_backprop, states * U) _(params, params_backprop, ref_rnn_size(&R))
#define RNN_IN(_) _(output_backprop, T * B * D * H) _(output_h_backprop, states * H) _(output_c_backprop, states * U) \
	_(params_backprop_old, ref_rnn_size(&R))
#define RNN_OUT(_) _(output, T * B * D * H) _(output_h, states * H) _(output_c, states * U)

#define FIELD2(a, g, n) RNN_##a, RNN_##g,
#define FIELD1(a, n) RNN_##a,
enum rnn_array { RNN_WRT(FIELD2) RNN_IN(FIELD1) RNN_OUT(FIELD1) RNN_ARRAYS };

/* Numbers of inputs in d or v, values and bounds of outputs in v and e, the naive code's answers, and the largest error over its
 * tolerance. */
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

/* Points every argument of R, whose sizes and options are set, at its storage: inputs at v where exact, else at d. */
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

/* Draws all inputs: v as drawn, d rounded to the dtype. */
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
