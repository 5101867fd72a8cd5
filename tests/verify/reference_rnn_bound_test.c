/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the error bounds of the CudnnRNN family's reference, that for route cudnn and that for the other routes, against plain arithmetic
 * of the same precision: a second, naive implementation, step by step over the whole batch, with sums in several orders and optional
 * roundings. The values are tested in reference_rnn_test.c and reference_rnn_equal_test.c.
 */
#include "tests/conformance/naive.h"
#include "tests/verify/sequence_arrays.h"

static double real(double x)
{
	return A(ref_round(R.dtype, x));
}

static double S(double x)
{
	return how.stores ? real(x) : x;
}

/* V() rounds x to the dtype where cuDNN passes a value from kernel to kernel in f16 or bf16 (rule f of reference_rnn.c). squashed() and
   gated() are tanh and sigmoid; if R.by_vendor is set, tanh in f16, and sigmoid in every dtype but f64, have cuDNN's errors (rule g). */
static double V(double x)
{
	return R.by_vendor && (R.dtype == REF_F16 || R.dtype == REF_BF16) ? real(x) : x;
}

static double squashed(double x)
{
	return A(R.by_vendor && R.dtype == REF_F16 ? tanh(x) * (1 - 0x1p-11) : tanh(x));
}

static double gated(double x)
{
	return R.by_vendor && how.single ? A(1 / A(1 + A(exp2(A(-1.44269502f * x))))) : sigmoid(x);
}

static double D(int a, int64_t n)
{
	return A(at[a].d[n]);
}

static void answer(int a, int64_t n, double x)
{
	at[a].unrounded[n] = x;
	at[a].naive[n] = ref_round(R.dtype, x);
}

enum { CAPACITY = 512, LAYERS = 3, MOST_UNITS = 8 };

/* One direction of one layer as the naive implementation computes it: its values and gradients, [T, B, .], and its regions of params. */
static struct naive {
	double gate[4][CAPACITY], q[CAPACITY], c[CAPACITY], m[CAPACITY], h[CAPACITY], h_prev[CAPACITY], c_prev[CAPACITY];
	double da[4][CAPACITY], dq[CAPACITY], dh[CAPACITY];
	struct ref_region w[4], r[4], bw[4], br[4], proj, p[3];
} layers[LAYERS][2];
static double x_of[LAYERS][2 * CAPACITY], dy[2 * CAPACITY]; /* the input of each layer; the gradient of the current layer's output */
static int64_t directions, H, G;

static int64_t width(int64_t layer)
{
	return layer ? directions * H : R.I;
}

static int live(int64_t t, int64_t b)
{
	return !R.lengths || t < R.lengths[b];
}

/* seq() returns the index of an element in a sequence of the caller, sta() in a state of the caller; R.time_major decides their layouts. */
static int64_t seq(int64_t t, int64_t b, int64_t n, int64_t wide)
{
	return R.time_major ? (t * R.B + b) * wide + n : (b * R.T + t) * wide + n;
}

static int64_t sta(int64_t l, int64_t d, int64_t b, int64_t n, int64_t wide)
{
	int64_t k = l * directions + d;

	return R.time_major ? (k * R.B + b) * wide + n : (b * R.L * directions + k) * wide + n;
}

static double factor(int64_t layer, int64_t t, int64_t b, int64_t unit)
{
	uint64_t key = ref_dropout_layer_key(R.key, R.call, layer);

	if (!R.is_training || R.dropout == 0)
		return 1;
	if (ref_dropout_drops(ref_dropout_word(key, R.first_step + t, b, unit), R.dropout))
		return 0;
	return A(1 / (1 - R.dropout));
}

static void find_regions(struct naive *l, int64_t at_layer)
{
	for (int g = 0; g < G; g++) {
		l->w[g] = ref_rnn_region(&R, at_layer, g, REF_WEIGHT);
		l->r[g] = ref_rnn_region(&R, at_layer, (int)G + g, REF_WEIGHT);
		l->bw[g] = ref_rnn_region(&R, at_layer, g, REF_BIAS);
		l->br[g] = ref_rnn_region(&R, at_layer, (int)G + g, REF_BIAS);
	}
	l->proj = ref_rnn_region(&R, at_layer, 2 * (int)G, REF_WEIGHT);
	for (int v = 0; v < 3; v++)
		l->p[v] = ref_rnn_region(&R, at_layer, 2 * (int)G + 1 + v, REF_VECTOR);
}

/* Ends a product, whose terms begin at number `from`. For cuDNN, whose kernels store products, the product's terms become one term, the
 * stored sum of the product. */
static void end_product(int from)
{
	double s;

	if (!R.by_vendor || terms == from)
		return;
	s = sum_from(from);
	term(V(s), 1);
}

static void terms_x(const struct naive *l, int g, int64_t u, const double *x, int64_t in)
{
	int from = terms;

	for (int64_t j = 0; j < in && l->w[g].rows; j++)
		term(D(RNN_params, l->w[g].offset + u * in + j), x[j]);
	if (!l->w[g].rows)
		term(x[u], 1);
	else
		end_product(from);
	term(D(RNN_params, l->bw[g].offset + u), 1);
}

static void terms_h(const struct naive *l, int g, int64_t u, const double *h)
{
	int from = terms;

	for (int64_t j = 0; j < H; j++)
		term(D(RNN_params, l->r[g].offset + u * H + j), h[j]);
	end_product(from);
	term(D(RNN_params, l->br[g].offset + u), 1);
}

/* Computes unit u of one row at one step, and returns its h before the projection. n: the unit's index in [T, B, U]. */
static double unit(struct naive *l, int64_t u, const double *x, int64_t in, const double *h, double c, int64_t n)
{
	double a[4], q, co;

	for (int g = 0; g < G - (R.mode == REF_GRU || R.mode == REF_LSTM); g++) {
		terms_x(l, g, u, x, in);
		terms_h(l, g, u, h);
		if (R.mode == REF_LSTM && R.peephole && g < 2)
			term(c, D(RNN_params, l->p[g].offset + u));
		a[g] = sum();
	}
	switch (R.mode) {
	case REF_LSTM:
		a[0] = gated(a[0]);
		a[1] = gated(a[1]);
		a[2] = squashed(a[2]);
		l->c[n] = how.order == 3 ? A(fma(a[1], c, A(a[0] * a[2]))) : A(A(a[1] * c) + A(a[0] * a[2]));
		terms_x(l, 3, u, x, in);
		terms_h(l, 3, u, h);
		if (R.peephole)
			term(l->c[n], D(RNN_params, l->p[2].offset + u));
		a[3] = gated(sum());
		co = squashed(l->c[n]);
		for (int g = 0; g < 4; g++)
			l->gate[g][n] = S(a[g]);
		return A(a[3] * co);
	case REF_GRU:
		a[0] = gated(a[0]);
		a[1] = gated(a[1]);
		terms_h(l, 2, u, h);
		q = sum();
		terms_x(l, 2, u, x, in);
		term(a[0], q);
		a[2] = squashed(sum());
		for (int g = 0; g < 3; g++)
			l->gate[g][n] = S(a[g]);
		l->q[n] = S(q);
		if (how.order & 1)
			return A(A(A(1 - a[1]) * a[2]) + A(a[1] * h[u]));
		return A(A(a[1] * A(h[u] - a[2])) + a[2]);
	case REF_RNN_TANH:
		return squashed(a[0]);
	default:
		return a[0] > 0 ? a[0] : how.order == 1 && isnan(a[0]) ? a[0] : 0;
	}
}

static void forward_step(int64_t at_layer, int64_t d, int64_t t, double *h_state, double *c_state)
{
	struct naive *l = &layers[at_layer][d];
	int64_t U = R.U, in = width(at_layer), b, j, n;
	double h[MOST_UNITS], new_h[MOST_UNITS];

	for (b = 0; b < R.B; b++) {
		if (!live(t, b))
			continue;
		n = t * R.B + b;
		memcpy(l->h_prev + n * H, h_state + b * H, H * sizeof(*h));
		memcpy(l->c_prev + n * U, c_state + b * U, U * sizeof(*h));
		for (j = 0; j < U; j++)
			h[j] = unit(l, j, x_of[at_layer] + n * in, in, h_state + b * H, c_state[b * U + j], n * U + j);
		for (j = 0; j < U; j++)
			l->m[n * U + j] = S(h[j]);
		for (j = 0; j < H; j++) {
			for (int64_t u = 0; u < U && R.P; u++)
				term(D(RNN_params, l->proj.offset + j * U + u), l->m[n * U + u]);
			new_h[j] = R.P ? sum() : h[j];
			answer(RNN_output_h, sta(at_layer, d, b, j, H), new_h[j]);
			if (at_layer == R.L - 1)
				answer(RNN_output, seq(t, b, d * H + j, directions * H), new_h[j]);
			h_state[b * H + j] = l->h[n * H + j] = real(new_h[j]);
		}
		for (j = 0; j < U && R.mode == REF_LSTM; j++) {
			answer(RNN_output_c, sta(at_layer, d, b, j, U), l->c[n * U + j]);
			c_state[b * U + j] = l->c[n * U + j] = V(l->c[n * U + j]);
		}
	}
}

static void forward_layer(int64_t at_layer, int64_t d)
{
	double h[CAPACITY], c[CAPACITY] = { 0 };

	find_regions(&layers[at_layer][d], at_layer * directions + d);
	for (int64_t b = 0; b < R.B; b++) {
		for (int64_t j = 0; j < H; j++)
			answer(RNN_output_h, sta(at_layer, d, b, j, H), h[b * H + j] = D(RNN_input_h, sta(at_layer, d, b, j, H)));
		for (int64_t j = 0; j < R.U && R.mode == REF_LSTM; j++)
			answer(RNN_output_c, sta(at_layer, d, b, j, R.U), c[b * R.U + j] = D(RNN_input_c, sta(at_layer, d, b, j, R.U)));
	}
	for (int64_t s = 0; s < R.T; s++)
		forward_step(at_layer, d, d ? R.T - 1 - s : s, h, c);
}

static void hand_up(int64_t at_layer)
{
	double f, h;

	for (int64_t n = 0; n < R.T * R.B * directions * H; n++) {
		int64_t row = n / (directions * H), j = n % (directions * H);

		f = factor(at_layer, row / R.B, row % R.B, j);
		h = layers[at_layer][j / H].h[row * H + j % H];
		x_of[at_layer + 1][n] = f == 0 ? 0 : f == 1 ? h : S(A(h * f));
	}
}

static void naive_forward(void)
{
	directions = 1 + R.bidirectional;
	H = R.P ? R.P : R.U;
	G = R.mode == REF_LSTM ? 4 : R.mode == REF_GRU ? 3 : 1;
	memset(layers, 0, sizeof(layers));
	for (int64_t n = 0; n < at[RNN_output].n; n++)
		answer(RNN_output, n, 0);
	for (int64_t n = 0; n < R.T * R.B * R.I; n++)
		x_of[0][n] = D(RNN_input, seq(n / R.I / R.B, n / R.I % R.B, n % R.I, R.I));
	for (int64_t l = 0; l < R.L; l++) {
		for (int64_t d = 0; d < directions; d++)
			forward_layer(l, d);
		if (l + 1 < R.L)
			hand_up(l);
	}
}

/* The gradient of the recurrent product R h of gate g, at index n of [T, B, U]. */
static double dq_of(const struct naive *l, int g, int64_t n)
{
	return R.mode == REF_GRU && g == 2 ? l->dq[n] : l->da[g][n];
}

/* Computes the gradients of the gates of unit u, at index n of [T, B, U]; dh is the gradient of h before the projection. In an LSTM *dc,
 * the gradient of c, becomes that of c_prev. Returns the part of h_prev's gradient that passes no matrix. */
static double unit_grad(struct naive *l, int64_t u, int64_t n, double dh, double *dc)
{
	double i = l->gate[0][n], f = l->gate[1][n], g = l->gate[2][n], o = l->gate[3][n], t, dct, a[4], direct = 0;

	switch (R.mode) {
	case REF_LSTM:
		t = S(A(tanh(l->c[n])));
		a[3] = through_s(o, dh, t);
		term(through_t(t, dh, o), 1);
		term(*dc, 1);
		if (R.peephole)
			term(a[3], D(RNN_params, l->p[2].offset + u));
		dct = sum();
		a[0] = through_s(i, dct, g);
		a[1] = through_s(f, dct, l->c_prev[n]);
		a[2] = through_t(g, dct, i);
		term(dct, f);
		for (int v = 0; v < 2 && R.peephole; v++)
			term(a[v], D(RNN_params, l->p[v].offset + u));
		*dc = sum();
		break;
	case REF_GRU:
		a[2] = through_t(g, dh, A(1 - f));
		a[1] = through_s(f, dh, A(l->h_prev[n] - g));
		a[0] = through_s(i, a[2], l->q[n]);
		l->dq[n] = S(A(a[2] * i));
		direct = V(A(dh * f));
		break;
	case REF_RNN_TANH:
		a[0] = through_t(l->h[n], dh, 1);
		break;
	default:
		a[0] = l->h[n] > 0 ? dh : 0;
	}
	for (int k = 0; k < G; k++)
		l->da[k][n] = S(a[k]);
	return direct;
}

/* The gradient of h as cuDNN adds it up: the direct part and the product, if there is one, are added either by the product or
 * by the kernel that reads both. */
static double reach_by_vendor(double above, double direct, int is_first, int has_product)
{
	double s;

	if (how.order & 1 && R.mode == REF_GRU)
		return A(above + A(V(sum()) + direct));
	term(direct, 1);
	s = sum();
	return A(above + (is_first || !has_product ? s : V(s)));
}

/* The gradient of element j of h: the sum of `above` (upstream), `direct` (by no matrix) and a product of the gradients of the gates in row
 * `later` of [T B], the next step (-1: there is none). */
static double reach(const struct naive *l, int64_t later, int64_t j, double above, double direct, int is_first)
{
	double s;

	if (!R.by_vendor && how.order & 1)
		term(above, 1);
	for (int g = 0; g < G && later >= 0; g++)
		for (int64_t u = 0; u < R.U; u++)
			term(D(RNN_params, l->r[g].offset + u * H + j), dq_of(l, g, later * R.U + u));
	if (R.by_vendor)
		return reach_by_vendor(above, direct, is_first, later >= 0);
	if (how.order & 1) {
		term(direct, 1);
		return sum();
	}
	s = A(sum() + direct);
	return A(above + s);
}

static void backward_layer(int64_t at_layer, int64_t d)
{
	struct naive *l = &layers[at_layer][d];
	int64_t U = R.U, later[MAX_ROWS];
	double direct[CAPACITY], dc[CAPACITY] = { 0 }, carried, dm;

	for (int64_t b = 0; b < R.B; b++) {
		later[b] = -1;
		for (int64_t j = 0; j < H; j++)
			direct[b * H + j] = D(RNN_output_h_backprop, sta(at_layer, d, b, j, H));
		for (int64_t j = 0; j < U && R.mode == REF_LSTM; j++)
			dc[b * U + j] = D(RNN_output_c_backprop, sta(at_layer, d, b, j, U));
	}
	for (int64_t s = 0; s < R.T; s++) {
		int64_t t = d ? s : R.T - 1 - s;

		for (int64_t b = 0; b < R.B; b++) {
			int64_t n = t * R.B + b;

			if (!live(t, b))
				continue;
			for (int64_t j = 0; j < H; j++) {
				l->dh[n * H + j] = reach(l, later[b], j, dy[n * directions * H + d * H + j], direct[b * H + j], 0);
				if (R.P)
					l->dh[n * H + j] = S(l->dh[n * H + j]);
			}
			memset(direct + b * H, 0, H * sizeof(*direct));
			for (int64_t u = 0; u < U; u++) {
				for (int64_t j = 0; j < H && R.P; j++)
					term(D(RNN_params, l->proj.offset + j * U + u), l->dh[n * H + j]);
				dm = R.P ? V(sum()) : l->dh[n * H + u];
				carried = later[b] < 0 ? dc[b * U + u] : V(dc[b * U + u]);
				dm = unit_grad(l, u, n * U + u, dm, &carried);
				dc[b * U + u] = carried;
				if (R.mode != REF_LSTM)
					direct[b * H + u] = dm;
			}
			later[b] = n;
		}
	}
	for (int64_t b = 0; b < R.B; b++) {
		for (int64_t j = 0; j < H; j++)
			answer(RNN_input_h_backprop, sta(at_layer, d, b, j, H), reach(l, later[b], j, 0, direct[b * H + j], 1));
		for (int64_t j = 0; j < U && R.mode == REF_LSTM; j++)
			answer(RNN_input_c_backprop, sta(at_layer, d, b, j, U), dc[b * U + j]);
	}
}

static void sum_one(int64_t n)
{
	if (R.accumulate)
		left[terms] = D(RNN_params_backprop_old, n), right[terms++] = 1;
}

/* Computes the weight gradients of one direction of a layer: for each region of params, the sums of the region's products. */
static void sum_weights(int64_t at_layer, int64_t d)
{
	struct naive *l = &layers[at_layer][d];
	int64_t U = R.U, in = width(at_layer), N = R.T * R.B;

#define SUM_REGION(region, a, b) \
	for (int64_t m = 0; m < (region).rows * (region).columns; m++) { \
		int64_t u = m / (region).columns, j = m % (region).columns; \
		sum_one((region).offset + m); \
		for (int64_t n = 0; n < N; n++) \
			if (live(n / R.B, n % R.B)) \
				term(a, b); \
		answer(RNN_params_backprop, (region).offset + m, sum()); \
		(void)u; \
		(void)j; \
	}
	for (int g = 0; g < G; g++) {
		SUM_REGION(l->w[g], l->da[g][n * U + u], x_of[at_layer][n * in + j])
		SUM_REGION(l->r[g], dq_of(l, g, n * U + u), l->h_prev[n * H + j])
		SUM_REGION(l->bw[g], l->da[g][n * U + j], 1)
		SUM_REGION(l->br[g], dq_of(l, g, n * U + j), 1)
	}
	SUM_REGION(l->proj, l->dh[n * H + u], l->m[n * U + j])
	SUM_REGION(l->p[0], l->da[0][n * U + j], l->c_prev[n * U + j])
	SUM_REGION(l->p[1], l->da[1][n * U + j], l->c_prev[n * U + j])
	SUM_REGION(l->p[2], l->da[3][n * U + j], l->c[n * U + j])
}

static double dx(int64_t at_layer, int64_t n, int64_t j)
{
	double first = 0;

	for (int64_t d = 0; d < directions; d++) {
		const struct naive *l = &layers[at_layer][d];

		for (int g = 0; g < G; g++) {
			if (!l->w[g].rows)
				term(l->da[g][n * R.U + j], 1);
			for (int64_t u = 0; u < R.U && l->w[g].rows; u++)
				term(D(RNN_params, l->w[g].offset + u * width(at_layer) + j), l->da[g][n * R.U + u]);
		}
		if (how.stores && d + 1 < directions)
			first = S(sum());
	}
	if (how.stores && directions > 1)
		term(first, 1);
	return sum();
}

static void naive_backward(void)
{
	double f;

	for (int64_t l = R.L - 1; l >= 0; l--) {
		int64_t wide = directions * H;

		for (int64_t n = 0; n < R.T * R.B * wide; n++) {
			int64_t row = n / wide, t = row / R.B, b = row % R.B;

			if (!live(t, b))
				continue;
			if (l == R.L - 1) {
				dy[n] = D(RNN_output_backprop, seq(t, b, n % wide, wide));
				continue;
			}
			f = factor(l, t, b, n % wide);
			dy[n] = f == 0 ? 0 : S(dx(l + 1, row, n % wide));
			dy[n] = f == 0 || f == 1 ? dy[n] : S(A(dy[n] * f));
		}
		for (int64_t d = 0; d < directions; d++) {
			backward_layer(l, d);
			sum_weights(l, d);
		}
	}
	for (int64_t n = 0; n < R.T * R.B * R.I; n++) {
		int64_t t = n / R.I / R.B, b = n / R.I % R.B;

		answer(RNN_input_backprop, seq(t, b, n % R.I, R.I), live(t, b) ? dx(0, n / R.I, n % R.I) : 0);
	}
}

static const char *const dtype_name[] = { [REF_F32] = "f32", [REF_F64] = "f64", [REF_F16] = "f16", [REF_BF16] = "bf16" };
static const char *const mode_name[] = { [REF_LSTM] = "lstm", [REF_GRU] = "gru", [REF_RNN_TANH] = "rnn_tanh",
	[REF_RNN_RELU] = "rnn_relu" };
static int64_t promised, unbounded;

static void compare(int c)
{
	long double t, off;

	for (int a = 0; a < RNN_ARRAYS; a++) {
		if (!at[a].is_out || (R.mode != REF_LSTM && (a == RNN_output_c || a == RNN_input_c_backprop)))
			continue;
		for (int64_t n = 0; n < at[a].n; n++) {
			t = ref_tolerance(R.dtype, at[a].v[n], at[a].e[n]);
			off = fabsl(at[a].naive[n] - at[a].v[n]);
			if (!ref_within(R.dtype, at[a].v[n], at[a].e[n], at[a].naive[n]))
				fail_msg("%s %s: %s[%d]: %.9g, not %.9Lg +- %.3Lg (case %d, by_vendor %d, order %d, flush %d, stores %d)", dtype_name[R.dtype],
					mode_name[R.mode], at[a].name, (int)n, at[a].naive[n], at[a].v[n], t, c, R.by_vendor, how.order, how.flush, how.stores);
			promised += isfinite(t);
			unbounded += !isfinite(t);
			if (isfinite(off) && isfinite(t) && t > 0)
				at[a].ratio = fmaxl(at[a].ratio, off / t);
			off = fabsl(at[a].unrounded[n] - at[a].v[n]);
			if (isfinite(off) && isfinite(t) && at[a].e[n] > 0)
				at[a].inner = fmaxl(at[a].inner, off / (2 * at[a].e[n]));
		}
	}
}

/* Sets, at times, one element of one input to a rare value; returns whether it did. */
static int poison(void)
{
	static const double rare[] = { NAN, INFINITY, -INFINITY, 65504, 0x1.fep127, 0x1p-149, 0x1p-24, 0, -0.0, 1e300 };
	int a = below(RNN_ARRAYS);

	if (below(6) || at[a].is_out || at[a].n == 0)
		return 0;
	at[a].d[below((int)at[a].n)] = ref_round(R.dtype, rare[below(10)]);
	return 1;
}

static void choose(int mode, int dtype, int by_vendor)
{
	static const double scales[] = { 1, 1, 1, 0.1, 3, 1e-15, 1e-30 };

	how.single = dtype != REF_F64;
	how.order = below(4);
	how.flush = how.single && below(2);
	how.stores = below(2) || by_vendor;
	R = (struct ref_rnn){ .mode = mode, .dtype = dtype, .T = below(5), .B = 1 + below(3), .I = 1 + below(5), .U = 1 + below(5),
		.L = 1 + below(LAYERS), .bidirectional = below(2), .time_major = below(2), .is_training = below(4) > 0,
		.accumulate = below(2), .key = 7, .call = below(9), .dropout = below(2) ? 0.3 : 0, .by_vendor = by_vendor };
	if (below(3) == 0)
		R.I = R.U, R.input_mode = REF_SKIP;
	if (mode == REF_LSTM) {
		R.P = below(2) ? 1 + below((int)R.U) : 0;
		R.peephole = below(2) && !by_vendor;
	}
	if (below(2))
		draw_lengths();
	bind_rnn(0);
	draw(scales[below(7)]);
}

static void reset(void)
{
	promised = unbounded = 0;
	for (int a = 0; a < RNN_ARRAYS; a++)
		at[a].ratio = at[a].inner = 0;
}

static void print_ratios(int mode, int dtype)
{
	int t = -1, h = -1, l = -1;

	for (int a = 0; a < RNN_ARRAYS; a++) {
		if (!at[a].is_out || (mode != REF_LSTM && (a == RNN_output_c || a == RNN_input_c_backprop)))
			continue;
		t = t < 0 || at[a].ratio > at[t].ratio ? a : t;
		h = h < 0 || at[a].inner > at[h].inner ? a : h;
		l = l < 0 || at[a].inner < at[l].inner ? a : l;
	}
	print_message("# %-4s %-8s%s: largest error / tolerance %.3Lf (%s); before the last rounding / 2 bound: %.3Lf (%s), of the "
		"loosest output %.3Lf (%s); %.2f%% unbounded\n", dtype_name[dtype], mode_name[mode], R.by_vendor ? " by cuDNN" : "",
		at[t].ratio, at[t].name, at[h].inner, at[h].name, at[l].inner, at[l].name,
		100.0 * (double)unbounded / (double)(promised + unbounded));
	assert_true(at[t].ratio <= 1 && at[h].inner <= 1 && at[l].inner > 0.05L && unbounded < promised / 4);
}

static void each(int by_vendor)
{
	for (int dtype = 0; dtype < 4; dtype++) {
		for (int mode = REF_LSTM; mode <= REF_RNN_RELU; mode++) {
			reset();
			for (int c = 0; c < 1000; c++) {
				choose(mode, dtype, by_vendor);
				poison();
				assert_int_equal(ref_rnn_forward(&R), 0);
				assert_int_equal(ref_rnn_backward(&R), 0);
				naive_forward();
				naive_backward();
				compare(c);
			}
			print_ratios(mode, dtype);
		}
	}
}

static void bound(void **state)
{
	(void)state;
	each(0);
}

static void bound_by_vendor(void **state)
{
	(void)state;
	each(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bound), cmocka_unit_test(bound_by_vendor),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
