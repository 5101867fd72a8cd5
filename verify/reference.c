/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of the block ops and its gradient in long double, with the bound of bound.h beside each value.
 * The formulas are those of TensorFlow's LSTMBlockCell, GRUBlockCell and their gradients.
 * reference_block_lstm.c and reference_rnn.c compute sequences of steps.
 */
#include <stdlib.h>

#include "verify/bound.h"

/* Row b of concat(x, h) times column n of w [I+U, N]. The returned sum is unfinished: the caller adds further terms. */
static struct sum row_times(const struct kind *k, const struct ref_in *x, int64_t I, const struct ref_in *h,
	int64_t U, int64_t b, const struct ref_in *w, int64_t N, int64_t n)
{
	struct sum s = { 0 };

	plus_products(k, &s, I, x, b * I, 1, w, n, N);
	plus_products(k, &s, U, h, b * U, 1, w, I * N + n, N);
	return s;
}

/* Adds row b of d [B, N] times row n of w [., N] to s: one element of d @ transpose(w). */
static void plus_row_row(const struct kind *k, struct sum *s, const struct val *d, int64_t b,
	const struct ref_in *w, int64_t N, int64_t n)
{
	plus_val_products(k, s, N, d + b * N, 1, w, n * N, 1);
}

static struct val row_times_row(const struct kind *k, const struct val *d, int64_t b,
	const struct ref_in *w, int64_t N, int64_t n)
{
	struct sum s = { 0 };

	plus_row_row(k, &s, d, b, w, N, n);
	return total(k, &s);
}

/* Computes old + sum_b a[b, m] * d[b, n], with the matrices a [B, M] and d [B, N]; a = NULL: all its elements are 1. */
static struct val column_times(const struct kind *k, const struct ref_in *old, int64_t at, int64_t B,
	const struct ref_in *a, int64_t M, int64_t m, const struct val *d, int64_t N, int64_t n)
{
	struct sum s = { 0 };

	if (old)
		plus(&s, get(k, old, at));
	if (a)
		plus_val_products(k, &s, B, d + n, N, a, m, M);
	for (int64_t b = 0; !a && b < B; b++)
		plus(&s, d[b * N + n]);
	if (old && s.n == 1)
		return get(k, old, at);
	return total(k, &s);
}

/* Computes the weight gradients dw [I+U, N] = transpose(concat(x, h)) @ d and db [N] = sum_b d, where d is [B, N]. With `accumulate` the
 * old values are added to dw and db. */
static void weight_grads(const struct kind *k, int accumulate, int64_t B, const struct ref_in *x, int64_t I,
	const struct ref_in *h, int64_t U, const struct val *d, int64_t N, const struct ref_in *w_old,
	const struct ref_in *b_old, const struct ref_out *dw, const struct ref_out *db)
{
	if (!accumulate)
		w_old = b_old = NULL;
	for (int64_t n = 0; n < N; n++) {
		for (int64_t j = 0; j < I; j++)
			put(dw, j * N + n, column_times(k, w_old, j * N + n, B, x, I, j, d, N, n));
		for (int64_t j = 0; j < U; j++)
			put(dw, (I + j) * N + n, column_times(k, w_old, (I + j) * N + n, B, h, U, j, d, N, n));
		put(db, n, column_times(k, b_old, n, B, NULL, 0, 0, d, N, n));
	}
}

enum { GI, GC, GF, GO };

static const int block[][4] = {
	[REF_ICFO] = { [GI] = 0, [GC] = 1, [GF] = 2, [GO] = 3 },
	[REF_IFCO] = { [GI] = 0, [GF] = 1, [GC] = 2, [GO] = 3 },
};

/* The pre-activation of one gate at element n of [B, U]. wc [U]: the peephole; c: the cell state that it reads; wc = NULL: the gate has
 * no peephole. */
static struct val lstm_gate(const struct kind *k, const struct ref_lstm_block *p, int64_t n, int gate,
	const struct ref_in *wc, struct val c)
{
	int64_t U = p->U, col = block[p->gates][gate] * U + n % U;
	struct sum s = row_times(k, &p->x, p->I, &p->h_prev, U, n / U, &p->w, 4 * U, col);

	plus(&s, get(k, &p->b, col));
	if (gate == GF)
		plus(&s, (struct val){ ref_round(p->dtype, p->forget_bias), 0 });
	if (p->use_peephole && wc)
		plus_mul(&s, c, get(k, wc, n % U));
	return total(k, &s);
}

int ref_lstm_block_forward(const struct ref_lstm_block *p)
{
	const struct kind *k = &ref_kinds[p->dtype];
	double cell_clip = ref_round(p->dtype, p->cell_clip);
	struct val i, ci, f, cs, co, o, cs_prev;

	for (int64_t n = 0; n < p->B * p->U; n++) {
		cs_prev = get(k, &p->cs_prev, n);
		i = sigmoid(k, lstm_gate(k, p, n, GI, &p->wci, cs_prev));
		ci = hyperbolic(k, lstm_gate(k, p, n, GC, NULL, cs_prev));
		f = sigmoid(k, lstm_gate(k, p, n, GF, &p->wcf, cs_prev));
		cs = clip(add(k, mul(k, i, ci), mul(k, f, cs_prev)), cell_clip);
		co = hyperbolic(k, cs);
		o = sigmoid(k, lstm_gate(k, p, n, GO, &p->wco, cs));
		put(&p->i_out, n, i);
		put(&p->cs_out, n, cs);
		put(&p->f_out, n, f);
		put(&p->o_out, n, o);
		put(&p->ci_out, n, ci);
		put(&p->co_out, n, co);
		put(&p->h_out, n, mul(k, o, co));
	}
	return 0;
}

/* Computes the gradient of LSTMBlockCell at element n of [B, U]. d [B, 4U] gets the gradients of the four gate pre-activations. */
static void lstm_unit_grad(const struct kind *k, const struct ref_lstm_block *p, int64_t n, struct val *d)
{
	int64_t U = p->U, u = n % U;
	struct val i = get(k, &p->i, n), f = get(k, &p->f, n), o = get(k, &p->o, n);
	struct val ci = get(k, &p->ci, n), co = get(k, &p->co, n), cs_prev = get(k, &p->cs_prev, n);
	struct val cs_grad = get(k, &p->cs_grad, n), h_grad = get(k, &p->h_grad, n);
	struct val d_o, dcs, d_ci, d_f, d_i;
	struct sum s = { 0 };

	d_o = mul(k, o, one_minus(k, o), h_grad, co);
	plus(&s, mul(k, one_minus(k, mul(k, co, co)), h_grad, o));
	plus(&s, cs_grad);
	if (p->use_peephole)
		plus_mul(&s, d_o, get(k, &p->wco, u));
	dcs = total(k, &s);
	d_ci = mul(k, one_minus(k, mul(k, ci, ci)), dcs, i);
	d_f = mul(k, f, one_minus(k, f), dcs, cs_prev);
	d_i = mul(k, i, one_minus(k, i), dcs, ci);

	s = (struct sum){ 0 };
	plus_mul(&s, dcs, f);
	if (p->use_peephole) {
		plus_mul(&s, d_i, get(k, &p->wci, u));
		plus_mul(&s, d_f, get(k, &p->wcf, u));
	}
	put(&p->cs_prev_grad, n, total(k, &s));

	d += n / U * 4 * U + u;
	d[block[p->gates][GI] * U] = d_i;
	d[block[p->gates][GC] * U] = d_ci;
	d[block[p->gates][GF] * U] = d_f;
	d[block[p->gates][GO] * U] = d_o;
}

/* Computes the gradient g [U] of a gate's peephole: old + sum_b d_gate * c, with the cell state c [B, U]. */
static void peephole_grad(const struct kind *k, const struct ref_lstm_block *p, int gate, const struct ref_in *c,
	const struct val *d, const struct ref_in *old, const struct ref_out *g)
{
	int64_t B = p->use_peephole ? p->B : 0, U = p->U;

	if (!p->accumulate)
		old = NULL;
	for (int64_t u = 0; u < U; u++)
		put(g, u, column_times(k, old, u, B, c, U, u, d, 4 * U, block[p->gates][gate] * U + u));
}

void ref_lstm_block_sums(const struct ref_lstm_block *p, const struct val *d)
{
	const struct kind *k = &ref_kinds[p->dtype];

	weight_grads(k, p->accumulate, p->B, &p->x, p->I, &p->h_prev, p->U, d, 4 * p->U, &p->w_grad_old, &p->b_grad_old,
		&p->w_grad, &p->b_grad);
	peephole_grad(k, p, GI, &p->cs_prev, d, &p->wci_grad_old, &p->wci_grad);
	peephole_grad(k, p, GF, &p->cs_prev, d, &p->wcf_grad_old, &p->wcf_grad);
	peephole_grad(k, p, GO, &p->cs, d, &p->wco_grad_old, &p->wco_grad);
}

int ref_lstm_block_grad(const struct ref_lstm_block *p)
{
	const struct kind *k = &ref_kinds[p->dtype];
	int64_t B = p->B, I = p->I, U = p->U;
	struct val *d = malloc((B * 4 * U + 1) * sizeof(*d));

	if (!d)
		return -1;
	for (int64_t n = 0; n < B * U; n++)
		lstm_unit_grad(k, p, n, d);
	for (int64_t n = 0; n < B * 4 * U; n++) {
		put(&p->dgates, n, d[n]);
		d[n] = read_back(k, d[n]);
	}
	for (int64_t n = 0; n < B * I; n++)
		put(&p->x_grad, n, row_times_row(k, d, n / I, &p->w, 4 * U, n % I));
	for (int64_t n = 0; n < B * U; n++)
		put(&p->h_prev_grad, n, row_times_row(k, d, n / U, &p->w, 4 * U, I + n % U));
	ref_lstm_block_sums(p, d);
	free(d);
	return 0;
}

int ref_gru_block_forward(const struct ref_gru_block *p)
{
	const struct kind *k = &ref_kinds[p->dtype];
	int64_t B = p->B, I = p->I, U = p->U, n;
	struct val *upd = malloc((2 * B * U + 1) * sizeof(*upd));       /* [B, U] */
	long double *hr = (long double *)(upd + B * U);                 /* [B, U] values, [B, U] bounds */
	struct ref_in reset = { NULL, hr, hr + B * U };
	struct val h_prev, r, c, h, other;
	struct sum s;

	if (!upd)
		return -1;
	for (n = 0; n < B * U; n++) {
		s = row_times(k, &p->x, I, &p->h_prev, U, n / U, &p->w_ru, 2 * U, n % U);
		plus(&s, get(k, &p->b_ru, n % U));
		r = sigmoid(k, total(k, &s));
		put(&p->r_out, n, r);
		h = read_back(k, mul(k, get(k, &p->h_prev, n), read_back(k, r)));
		hr[n] = h.v;
		hr[B * U + n] = h.e;

		s = row_times(k, &p->x, I, &p->h_prev, U, n / U, &p->w_ru, 2 * U, U + n % U);
		plus(&s, get(k, &p->b_ru, U + n % U));
		upd[n] = sigmoid(k, total(k, &s));
		put(&p->u_out, n, upd[n]);
		upd[n] = read_back(k, upd[n]);
	}
	for (n = 0; n < B * U; n++) {
		s = row_times(k, &p->x, I, &reset, U, n / U, &p->w_c, U, n % U);
		plus(&s, get(k, &p->b_c, n % U));
		c = hyperbolic(k, total(k, &s));
		put(&p->c_out, n, c);
		h_prev = get(k, &p->h_prev, n);
		h = add(k, mul(k, upd[n], sub(k, h_prev, c)), c);
		/* h_prev u + c (1 - u) is as right a form of h, so the bound allows either */
		other = add(k, mul(k, upd[n], h_prev), mul(k, one_minus(k, upd[n]), c));
		h.e = fmaxl(h.e, other.e);
		put(&p->h_out, n, h);
	}
	free(upd);
	return 0;
}

/* Computes the gradient of GRUBlockCell in row b of the batch. dc [B, U] and dru [B, 2U] get the gradients of the gate pre-activations,
 * with the error of storing them. */
static void gru_row_grad(const struct kind *k, const struct ref_gru_block *p, int64_t b,
	struct val *dc, struct val *dru)
{
	int64_t I = p->I, U = p->U, n;
	struct val *row = dru + b * 2 * U;
	struct val r, u, c, h_prev, d_h;
	struct sum s;

	for (int64_t j = 0; j < U; j++) {
		n = b * U + j;
		u = get(k, &p->u, n);
		c = get(k, &p->c, n);
		h_prev = get(k, &p->h_prev, n);
		d_h = get(k, &p->d_h, n);
		dc[n] = mul(k, d_h, one_minus(k, u), one_minus(k, mul(k, c, c)));
		put(&p->d_c_bar, n, dc[n]);
		dc[n] = read_back(k, dc[n]);
		row[U + j] = mul(k, d_h, sub(k, h_prev, c), u, one_minus(k, u));
	}
	for (int64_t j = 0; j < U; j++) {
		r = get(k, &p->r, b * U + j);
		h_prev = get(k, &p->h_prev, b * U + j);
		row[j] = mul(k, row_times_row(k, dc, b, &p->w_c, U, I + j), h_prev, r, one_minus(k, r));
	}
	for (int64_t j = 0; j < 2 * U; j++) {
		put(&p->d_r_bar_u_bar, b * 2 * U + j, row[j]);
		row[j] = read_back(k, row[j]);
	}
	for (int64_t j = 0; j < I; j++) {
		s = (struct sum){ 0 };
		plus_row_row(k, &s, dru, b, &p->w_ru, 2 * U, j);
		plus_row_row(k, &s, dc, b, &p->w_c, U, j);
		put(&p->d_x, b * I + j, total(k, &s));
	}
	for (int64_t j = 0; j < U; j++) {
		n = b * U + j;
		s = (struct sum){ 0 };
		plus_row_row(k, &s, dru, b, &p->w_ru, 2 * U, I + j);
		plus_mul(&s, row_times_row(k, dc, b, &p->w_c, U, I + j), get(k, &p->r, n));
		plus_mul(&s, get(k, &p->d_h, n), get(k, &p->u, n));
		put(&p->d_h_prev, n, total(k, &s));
	}
}

int ref_gru_block_grad(const struct ref_gru_block *p)
{
	const struct kind *k = &ref_kinds[p->dtype];
	int64_t B = p->B, I = p->I, U = p->U;
	struct val *dc = malloc((4 * B * U + 1) * sizeof(*dc));         /* [B, U] */
	struct val *dru = dc + B * U;                                   /* [B, 2U] */
	long double *hr = (long double *)(dru + B * 2 * U);             /* [B, U] values, [B, U] bounds */
	struct ref_in reset = { NULL, hr, hr + B * U };
	struct val x;

	if (!dc)
		return -1;
	for (int64_t b = 0; b < B; b++)
		gru_row_grad(k, p, b, dc, dru);
	for (int64_t n = 0; n < B * U; n++) {
		x = read_back(k, mul(k, get(k, &p->h_prev, n), get(k, &p->r, n)));
		hr[n] = x.v;
		hr[B * U + n] = x.e;
	}
	weight_grads(k, p->accumulate, B, &p->x, I, &p->h_prev, U, dru, 2 * U, &p->d_w_ru_old, &p->d_b_ru_old,
		&p->d_w_ru, &p->d_b_ru);
	weight_grads(k, p->accumulate, B, &p->x, I, &reset, U, dc, U, &p->d_w_c_old, &p->d_b_c_old,
		&p->d_w_c, &p->d_b_c);
	free(dc);
	return 0;
}
