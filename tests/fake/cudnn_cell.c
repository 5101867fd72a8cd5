/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcudnn: one step of each cell in double, forward and backward, and products. */
#include <math.h>

#include "cudnn.h"

double fake_handed(const struct model *m, double x)
{
	double stored = 0;

	if (!m->in_halves)
		return x;
	fake_store(&stored, 0, x, m->type);
	return fake_load(&stored, 0, m->type);
}

void fake_hand(const struct model *m, double *x, int64_t n)
{
	for (int64_t k = 0; k < n; k++)
		x[k] = fake_handed(m, x[k]);
}

/*
 * The sigmoid with f32 arithmetic is RCP(1 + EX2(-1.44269502 x)), also for x below 0: seen in cuDNN 9.26, libcudnn_adv.so.9 for
 * sm_90a, elemWiseRNNcell<float, float, float, ...>. The product of x and -1.44269502 is rounded to f32.
 */
static double sigmoid(const struct model *m, double x)
{
	if (m->type == R_64F)
		return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
	return 1 / (1 + exp2f(-1.44269502f * (float)x));
}

static double squashed(const struct model *m, double x)
{
	return m->coarse_tanh ? fake_rounded(tanh(x), 10, -126) : tanh(x);
}

void fake_add_product(const struct model *m, int64_t n, int64_t k, const double *restrict a, const double *restrict matrix,
                      double *restrict out)
{
	for (int64_t turn = 0; turn < k; turn++) {
		int64_t l = fake_turn(m->order, turn, k);
		double x = m->narrow ? fake_rounded(a[l], 10, -126) : a[l];

		for (int64_t j = 0; j < n; j++)
			out[j] = fake_sum(m->order, out[j] + x * matrix[l * n + j], m->type);
	}
}

static void lstm(const struct model *m, const struct step *s, const double *a, const double *r)
{
	int64_t U = m->U;
	double *i = s->gate, *f = i + U, *g = f + U, *o = g + U;

	for (int64_t u = 0; u < U; u++) {
		i[u] = sigmoid(m, a[u] + r[u]);
		f[u] = sigmoid(m, a[U + u] + r[U + u]);
		g[u] = squashed(m, a[2 * U + u] + r[2 * U + u]);
		o[u] = sigmoid(m, a[3 * U + u] + r[3 * U + u]);
		s->c[u] = f[u] * s->c_prev[u] + i[u] * g[u];
		s->m[u] = o[u] * squashed(m, s->c[u]);
	}
}

/* The reset gate multiplies the sum of R h and the recurrent bias. */
static void gru(const struct model *m, const struct step *s, const double *a, const double *q)
{
	int64_t U = m->U;
	double *r = s->gate, *z = r + U, *n = z + U;

	for (int64_t u = 0; u < U; u++) {
		r[u] = sigmoid(m, a[u] + q[u]);
		z[u] = sigmoid(m, a[U + u] + q[U + u]);
		s->q[u] = q[2 * U + u];
		n[u] = squashed(m, a[2 * U + u] + r[u] * s->q[u]);
		s->m[u] = (1 - z[u]) * n[u] + z[u] * s->h_prev[u];
	}
}

void fake_cell(const struct model *m, const struct step *s, const double *a, const double *r)
{
	switch (m->cell) {
	case LSTM:
		lstm(m, s, a, r);
		return;
	case GRU:
		gru(m, s, a, r);
		return;
	}
	for (int64_t u = 0; u < m->U; u++) {
		double x = a[u] + r[u];

		s->m[u] = m->cell == TANH ? squashed(m, x) : x < 0 ? 0 : x;
	}
}

static void lstm_back(const struct model *m, const struct step *s, const double *dm, double *dc, double *da)
{
	int64_t U = m->U;
	const double *i = s->gate, *f = i + U, *g = f + U, *o = g + U;

	for (int64_t u = 0; u < U; u++) {
		double t = squashed(m, s->c[u]), all = dc[u] + dm[u] * o[u] * (1 - t * t);

		da[u] = all * g[u] * i[u] * (1 - i[u]);
		da[U + u] = all * s->c_prev[u] * f[u] * (1 - f[u]);
		da[2 * U + u] = all * i[u] * (1 - g[u] * g[u]);
		da[3 * U + u] = dm[u] * t * o[u] * (1 - o[u]);
		dc[u] = all * f[u];
	}
}

static void gru_back(int64_t U, const struct step *s, const double *dm, double *da, double *dr, double *direct)
{
	const double *r = s->gate, *z = r + U, *n = z + U;

	for (int64_t u = 0; u < U; u++) {
		double dn = dm[u] * (1 - z[u]) * (1 - n[u] * n[u]);

		da[u] = dr[u] = dn * s->q[u] * r[u] * (1 - r[u]);
		da[U + u] = dr[U + u] = dm[u] * (s->h_prev[u] - n[u]) * z[u] * (1 - z[u]);
		da[2 * U + u] = dn;
		dr[2 * U + u] = dn * r[u];
		direct[u] = dm[u] * z[u];
	}
}

void fake_cell_back(const struct model *m, const struct step *s, const double *dm, double *dc, double *da, double *dr, double *direct)
{
	for (int64_t u = 0; u < m->U; u++)
		direct[u] = 0;
	if (m->cell == GRU) {
		gru_back(m->U, s, dm, da, dr, direct);
		return;
	}
	if (m->cell == LSTM)
		lstm_back(m, s, dm, dc, da);
	for (int64_t u = 0; u < m->U && m->cell <= TANH; u++)
		da[u] = m->cell == TANH ? dm[u] * (1 - s->m[u] * s->m[u]) : s->m[u] > 0 ? dm[u] : 0;
	for (int64_t k = 0; k < m->gates * m->U; k++)
		dr[k] = da[k];
}
