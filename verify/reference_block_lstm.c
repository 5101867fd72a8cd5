/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BlockLSTM and BlockLSTMV2 in long double, with the bound of bound.h. Each step is one of reference.c and reads the states of the
 * step before, rounded to the dtype.
 */
#include <stdlib.h>

#include "verify/bound.h"
#include "verify/sequence.h"

static struct ref_in in_from(struct ref_in a, int64_t n)
{
	return (struct ref_in){ a.d ? a.d + n : NULL, a.v ? a.v + n : NULL, a.e ? a.e + n : NULL };
}

static struct ref_out out_from(struct ref_out a, int64_t n)
{
	return (struct ref_out){ a.v ? a.v + n : NULL, a.e ? a.e + n : NULL };
}

static void zero(const struct ref_out *a, int64_t from, int64_t to)
{
	for (int64_t n = from; n < to; n++)
		put(a, n, (struct val){ 0, 0 });
}

static int given(const struct ref_in *a)
{
	return a->d || a->v;
}

/* Allocates n values and their bounds in one zeroed block; free .v. */
static struct ref_out space(int64_t n)
{
	long double *v = calloc(2 * n + 1, sizeof(*v));

	return (struct ref_out){ v, v ? v + n : NULL };
}

static struct ref_in read_from(struct ref_out a, int64_t n)
{
	return (struct ref_in){ NULL, a.v + n, a.e + n };
}

/* The arguments of the cell at step t, as far as forward and grad both have them. */
static struct ref_lstm_block step_arguments(const struct ref_block_lstm *p, int64_t t)
{
	struct ref_lstm_block s = p->cell;

	s.x = in_from(s.x, t * s.B * s.I);
	s.accumulate = 0;
	return s;
}

int ref_block_lstm_forward(const struct ref_block_lstm *p)
{
	const struct ref_lstm_block *c = &p->cell;
	const struct ref_out *out[] = { &c->i_out, &c->cs_out, &c->f_out, &c->o_out, &c->ci_out, &c->co_out, &c->h_out };
	int64_t n = c->B * c->U;
	struct ref_out was = space(2 * n), is = space(2 * n);   /* the states before and after a step: first cs, then h */
	int bad = !was.v || !is.v;

	for (int64_t t = 0; t < p->seq_len_max && !bad; t++) {
		struct ref_lstm_block s = step_arguments(p, t);

		if (t) {
			s.cs_prev = read_from(was, 0);
			s.h_prev = read_from(was, n);
		}
		s.i_out = out_from(s.i_out, t * n);
		s.f_out = out_from(s.f_out, t * n);
		s.o_out = out_from(s.o_out, t * n);
		s.ci_out = out_from(s.ci_out, t * n);
		s.co_out = out_from(s.co_out, t * n);
		s.cs_out = is;
		s.h_out = out_from(is, n);
		bad = ref_lstm_block_forward(&s);
		for (int64_t j = 0; j < n; j++) {
			put(&c->cs_out, t * n + j, (struct val){ is.v[j], is.e[j] });
			put(&c->h_out, t * n + j, (struct val){ is.v[n + j], is.e[n + j] });
		}
		ref_read_back(c->dtype, 2 * n, is);
		for (int64_t j = 0; j < 2 * n; j++)
			put(&was, j, (struct val){ is.v[j], is.e[j] });
	}
	for (int j = 0; j < 7; j++)
		zero(out[j], p->seq_len_max * n, p->T * n);
	free(was.v);
	free(is.v);
	return bad ? -1 : 0;
}

/* Scratch memory of a gradient over all steps. d: the dgates of all steps, with the error of storing them. */
struct steps {
	struct ref_out c_prev, h_prev;          /* [seq_len_max, B, U] */
	struct ref_out dgates;                  /* [B, 4U], dgates of the current step */
	struct val *d;                          /* [seq_len_max, B, 4U] */
	struct ref_out c_grad, h_grad;          /* [B, U], gradients of the states that a step leaves */
};

static int open_steps(struct steps *w, int64_t n, int64_t steps)
{
	w->c_prev = space(steps * n);
	w->h_prev = space(steps * n);
	w->dgates = space(4 * n);
	w->c_grad = space(n);
	w->h_grad = space(n);
	w->d = malloc((4 * steps * n + 1) * sizeof(*w->d));
	return w->c_prev.v && w->h_prev.v && w->dgates.v && w->c_grad.v && w->h_grad.v && w->d ? 0 : -1;
}

static void close_steps(struct steps *w)
{
	free(w->c_prev.v);
	free(w->h_prev.v);
	free(w->dgates.v);
	free(w->c_grad.v);
	free(w->h_grad.v);
	free(w->d);
}

/*
 * Computes into c_grad and h_grad the gradient of the states after step t (t = -1: of the initial states): the upstream gradients of step
 * t plus the gradients that step t + 1 passes back. Each of the two gradients is one sum, since a product may start from the value to
 * which it is added. The gradients of both states, and the cs_prev_grad of each step, pass between steps, so they are rounded to the
 * dtype, as h and cs are in the forward pass; the gradient of c is rounded only if there is a cs_grad.
 */
static void reach(const struct ref_block_lstm *p, struct steps *w, int64_t t)
{
	const struct kind *k = &ref_kinds[p->cell.dtype];
	int64_t B = p->cell.B, I = p->cell.I, U = p->cell.U;
	struct sum c, h;

	for (int64_t n = 0; n < B * U; n++) {
		int passes = t >= 0 && t + 1 < p->seq_len_max;

		c = h = (struct sum){ 0 };
		if (t + 1 < p->seq_len_max) {
			const struct val *d = w->d + ((t + 1) * B * U + n / U * U) * 4;

			plus(&c, (struct val){ w->c_grad.v[n], w->c_grad.e[n] });
			plus_val_products(k, &h, 4 * U, d, 1, &p->cell.w, (I + n % U) * 4 * U, 1);
		}
		if (t >= 0) {
			plus(&c, get(k, &p->cell.cs_grad, t * B * U + n));
			plus(&h, get(k, &p->cell.h_grad, t * B * U + n));
			put(&w->c_grad, n, passes && given(&p->cell.cs_grad) ? read_back(k, total(k, &c)) : total(k, &c));
		}
		put(&w->h_grad, n, passes ? read_back(k, total(k, &h)) : total(k, &h));
	}
}

static int step_grad(const struct ref_block_lstm *p, struct steps *w, int64_t t)
{
	struct ref_lstm_block s = step_arguments(p, t);
	int64_t n = s.B * s.U;
	int bad;

	reach(p, w, t);
	s.cs_prev = read_from(w->c_prev, t * n);
	s.i = in_from(s.i, t * n);
	s.cs = in_from(s.cs, t * n);
	s.f = in_from(s.f, t * n);
	s.o = in_from(s.o, t * n);
	s.ci = in_from(s.ci, t * n);
	s.co = in_from(s.co, t * n);
	s.cs_grad = read_from(w->c_grad, 0);
	s.h_grad = read_from(w->h_grad, 0);
	s.x_grad = out_from(s.x_grad, t * s.B * s.I);
	s.cs_prev_grad = w->c_grad;             /* each element is read before it is written */
	s.h_prev_grad = (struct ref_out){ NULL, NULL };
	s.dgates = w->dgates;
	s.w_grad = s.b_grad = s.wci_grad = s.wcf_grad = s.wco_grad = (struct ref_out){ NULL, NULL };
	bad = ref_lstm_block_grad(&s);
	if (t > 0)
		ref_read_back(s.dtype, n, w->c_grad);
	for (int64_t j = 0; j < 4 * n; j++) {
		struct val d = { w->dgates.v[j], w->dgates.e[j] };

		put(&p->cell.dgates, t * 4 * n + j, d);
		w->d[t * 4 * n + j] = read_back(&ref_kinds[s.dtype], d);
	}
	return bad;
}

int ref_block_lstm_grad(const struct ref_block_lstm *p)
{
	const struct kind *k = &ref_kinds[p->cell.dtype];
	struct ref_lstm_block all = p->cell;
	int64_t n = all.B * all.U, m = p->seq_len_max;
	struct steps w;
	int bad = open_steps(&w, n, m);

	for (int64_t j = 0; j < m * n && !bad; j++) {
		put(&w.c_prev, j, j < n ? get(k, &all.cs_prev, j) : get(k, &all.cs, j - n));
		put(&w.h_prev, j, j < n ? get(k, &all.h_prev, j) : get(k, &p->h, j - n));
	}
	for (int64_t t = m - 1; t >= 0 && !bad; t--)
		bad = step_grad(p, &w, t);
	if (!bad) {
		reach(p, &w, -1);
		for (int64_t j = 0; j < n; j++) {
			put(&p->cell.cs_prev_grad, j, (struct val){ w.c_grad.v[j], w.c_grad.e[j] });
			put(&p->cell.h_prev_grad, j, (struct val){ w.h_grad.v[j], w.h_grad.e[j] });
		}
		/* the weight gradients take the rows of all steps as one batch */
		all.B *= m;
		all.cs_prev = read_from(w.c_prev, 0);
		all.h_prev = read_from(w.h_prev, 0);
		ref_lstm_block_sums(&all, w.d);
	}
	zero(&p->cell.x_grad, m * all.I * p->cell.B, p->T * all.I * p->cell.B);
	zero(&p->cell.dgates, m * 4 * n, p->T * 4 * n);
	close_steps(&w);
	return bad;
}
