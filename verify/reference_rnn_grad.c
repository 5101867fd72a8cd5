/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of the CudnnRNN family in long double, with the bound of bound.h. The formulas are derived by hand from those of
 * reference_rnn.c, which also has the error rules for whole sequences and runs the forward pass that is read here.
 */
#include <stddef.h>

#include "verify/reference_rnn.h"

enum { LSTM_I, LSTM_F, LSTM_G, LSTM_O };
enum { GRU_R, GRU_Z, GRU_N };

/* The gradients in one direction of one layer, with the error of storing them; their padding is unused. */
struct grads {
	struct val *da;                 /* [T, B, G, U], gradient of W x + bW */
	struct val *dq;                 /* [T, B, U], gru: gradient of the candidate's R h + bR; that of other gates is da */
	struct val *dh;                 /* [T, B, H], gradient of h, with a projection */
	struct val *direct;             /* [H], gru only: the term z * dh of the gradient of h_prev, which passes no matrix */
	struct val *dc, *last_dc;       /* [U], gradients of the previous step's c; last_dc: without the error of storing */
};

/* Pointers to one step of one row in the arrays of struct pseudo and struct grads. */
struct row {
	const struct val *gate, *q, *c, *h, *h_prev, *c_prev;
	const struct val *dh;           /* [H], the whole gradient of h */
	struct val *da, *dq;
};

/* The gradient of the output of unit u before the projection. */
static struct val before_projection(const struct stack *s, const struct pseudo *l, const struct row *a, int64_t u)
{
	struct sum z = { 0 };

	if (!s->p->P)
		return a->dh[u];
	for (int64_t j = 0; j < s->H; j++)
		plus_mul(&z, s->params[l->proj + j * s->p->U + u], a->dh[j]);
	return handed(s->k, total(s->k, &z));
}

/* Computes the gradient of an LSTM's step. dc [U]: on entry the gradient of c by later steps and the upstream gradient; on return the
 * gradient of c_prev. */
static void lstm_step(const struct stack *s, const struct pseudo *l, const struct row *a, const struct grads *w)
{
	const struct kind *k = s->k;
	int64_t U = s->p->U;
	struct val i, f, g, o, t, dm, dct, d_i, d_f, d_g, d_o;
	struct sum z;

	for (int64_t u = 0; u < U; u++) {
		const struct val *vector[3];

		for (int v = 0; v < 3; v++)
			vector[v] = &s->params[l->vector[v] + u];
		i = a->gate[LSTM_I * U + u];
		f = a->gate[LSTM_F * U + u];
		g = a->gate[LSTM_G * U + u];
		o = a->gate[LSTM_O * U + u];
		t = read_back(k, hyperbolic(k, a->c[u]));
		dm = before_projection(s, l, a, u);
		d_o = mul(k, dm, t, o, one_minus(k, o));
		z = (struct sum){ 0 };
		plus(&z, w->dc[u]);
		plus(&z, mul(k, dm, o, one_minus(k, mul(k, t, t))));
		if (s->p->peephole)
			plus_mul(&z, d_o, *vector[2]);
		dct = total(k, &z);
		d_i = mul(k, dct, g, i, one_minus(k, i));
		d_f = mul(k, dct, a->c_prev[u], f, one_minus(k, f));
		d_g = mul(k, dct, i, one_minus(k, mul(k, g, g)));
		z = (struct sum){ 0 };
		plus_mul(&z, dct, f);
		if (s->p->peephole) {
			plus_mul(&z, d_i, *vector[0]);
			plus_mul(&z, d_f, *vector[1]);
		}
		w->last_dc[u] = total(k, &z);
		w->dc[u] = handed(k, w->last_dc[u]);
		a->da[LSTM_I * U + u] = read_back(k, d_i);
		a->da[LSTM_F * U + u] = read_back(k, d_f);
		a->da[LSTM_G * U + u] = read_back(k, d_g);
		a->da[LSTM_O * U + u] = read_back(k, d_o);
	}
}

static void gru_step(const struct stack *s, const struct pseudo *l, const struct row *a, const struct grads *w)
{
	const struct kind *k = s->k;
	int64_t U = s->p->U;
	struct val r, z, n, dh, dn, dz, dr;

	(void)l;
	for (int64_t u = 0; u < U; u++) {
		r = a->gate[GRU_R * U + u];
		z = a->gate[GRU_Z * U + u];
		n = a->gate[GRU_N * U + u];
		dh = a->dh[u];
		dn = mul(k, dh, one_minus(k, z), one_minus(k, mul(k, n, n)));
		dz = mul(k, dh, sub(k, a->h_prev[u], n), z, one_minus(k, z));
		dr = mul(k, dn, a->q[u], r, one_minus(k, r));
		w->direct[u] = handed(k, mul(k, dh, z));
		a->da[GRU_R * U + u] = read_back(k, dr);
		a->da[GRU_Z * U + u] = read_back(k, dz);
		a->da[GRU_N * U + u] = read_back(k, dn);
		a->dq[u] = read_back(k, mul(k, dn, r));
	}
}

static void tanh_step(const struct stack *s, const struct pseudo *l, const struct row *a, const struct grads *w)
{
	(void)l;
	(void)w;
	for (int64_t u = 0; u < s->p->U; u++)
		a->da[u] = read_back(s->k, mul(s->k, a->dh[u], one_minus(s->k, mul(s->k, a->h[u], a->h[u]))));
}

/*
 * Computes the gradient of a relu network's step. The slope of relu at 0 is 0. Where the sign of relu's argument is uncertain, either dh
 * or 0 is right. Nothing is promised for an infinity or NaN times the slope 0, nor for the slope at a NaN, to which an overflow may lead.
 */
static void relu_step(const struct stack *s, const struct pseudo *l, const struct row *a, const struct grads *w)
{
	(void)l;
	(void)w;
	for (int64_t u = 0; u < s->p->U; u++) {
		struct val dh = a->dh[u], z = a->q[u];

		a->da[u] = z.v > 0 ? dh : (struct val){ 0, 0 };
		if (!(z.v > 0 && sure(z)) && (isnan(z.v) || !isfinite(z.e) || !isfinite(dh.v) || !isfinite(dh.e)))
			a->da[u] = (struct val){ 0, INFINITY };
		else if (!sure(z))
			a->da[u].e = fabsl(dh.v) + dh.e;
		a->da[u] = read_back(s->k, a->da[u]);
	}
}

static void (*const step_of[])(const struct stack *, const struct pseudo *, const struct row *, const struct grads *) = {
	[REF_LSTM] = lstm_step, [REF_GRU] = gru_step, [REF_RNN_TANH] = tanh_step, [REF_RNN_RELU] = relu_step,
};

/* The gradient of gate g's R h + bR at unit u, for time t and row b of the batch; n = t * B + b. */
static struct val recurrent(const struct stack *s, const struct grads *w, int64_t n, int64_t g, int64_t u)
{
	int64_t U = s->p->U;

	return s->p->mode == REF_GRU && g == GRU_N ? w->dq[n * U + u] : w->da[(n * s->G + g) * U + u];
}

/* Adds to a sum element j of transpose(R) times the gradients of R h at n = t * B + b. */
static void plus_product(const struct stack *s, const struct pseudo *l, const struct grads *w, int64_t n, int64_t j,
	struct sum *z)
{
	for (int64_t g = 0; g < s->G; g++)
		for (int64_t u = 0; u < s->p->U; u++)
			plus_mul(z, recurrent(s, w, n, g, u), s->params[l->r[g] + u * s->H + j]);
}

/* Adds to a sum element j of the gradient that the step of n = t * B + b passes back to h_prev: the product and, for gru, the direct
 * term. */
static void plus_back(const struct stack *s, const struct pseudo *l, const struct grads *w, int64_t n, int64_t j,
	struct sum *z)
{
	if (s->p->mode == REF_GRU)
		plus(z, w->direct[j]);
	plus_product(s, l, w, n, j, z);
}

/* The sum of plus_back() as a finished value: stored for the step before, or, at a row's first step (is_first), not stored, as the caller
 * gets it. */
static struct val handed_back(const struct stack *s, const struct pseudo *l, const struct grads *w, int64_t n, int64_t j, int is_first)
{
	const struct kind *k = s->k;
	struct sum all = { 0 }, product = { 0 };
	struct val r, other;

	plus_back(s, l, w, n, j, &all);
	r = total(k, &all);
	if (!is_first)
		r = handed(k, r);
	if (s->p->mode == REF_GRU && k->keeps) {
		plus_product(s, l, w, n, j, &product);
		other = add(k, w->direct[j], handed(k, total(k, &product)));
		r.e = fmaxl(r.e, other.e);
	}
	return r;
}

/* Writes the gradients of the initial states of row b. */
static void put_first(const struct stack *s, const struct pseudo *l, const struct grads *w, int64_t b)
{
	const struct ref_rnn *p = s->p;
	int64_t n = valid(p, b), row = time_of(p, l->d, 0, n) * p->B + b, at;

	for (int64_t j = 0; j < s->H; j++) {
		at = in_state(p, l->at, b, s->H, j);
		put(&p->input_h_backprop, at, n ? handed_back(s, l, w, row, j, 1) : get(s->k, &p->output_h_backprop, at));
	}
	for (int64_t u = 0; u < p->U && p->mode == REF_LSTM; u++)
		put(&p->input_c_backprop, in_state(p, l->at, b, p->U, u), w->last_dc[u]);
}

/* Computes the gradients of all steps of row b, from the last step to the first. dy [T, B, D*H] is the gradient of the layer's output; dh
 * [H] is scratch memory. */
static void back_row(const struct stack *s, const struct pseudo *l, const struct grads *w, const struct val *dy, int64_t b,
	struct val *dh)
{
	const struct ref_rnn *p = s->p;
	int64_t n = valid(p, b), B = p->B, U = p->U, H = s->H, later = -1;
	struct sum z;

	for (int64_t u = 0; u < U && p->mode == REF_LSTM; u++)
		w->dc[u] = w->last_dc[u] = get(s->k, &p->output_c_backprop, in_state(p, l->at, b, U, u));
	for (int64_t step = n - 1; step >= 0; step--) {
		int64_t row = time_of(p, l->d, step, n) * B + b, before = step ? time_of(p, l->d, step - 1, n) * B + b : -1;
		struct row a = { l->gate + row * s->G * U, l->q + row * U, l->c + row * U, l->h + row * H,
			step ? l->h + before * H : l->h_first + b * H, step ? l->c + before * U : l->c_first + b * U,
			dh, w->da + row * s->G * U, w->dq + row * U };

		for (int64_t j = 0; j < H; j++) {
			z = (struct sum){ 0 };
			if (later < 0)
				plus(&z, get(s->k, &p->output_h_backprop, in_state(p, l->at, b, H, j)));
			else if (s->k->keeps)
				plus(&z, handed_back(s, l, w, later, j, 0));
			else
				plus_back(s, l, w, later, j, &z);
			plus(&z, dy[row * s->D * H + l->d * H + j]);
			dh[j] = total(s->k, &z);
			if (p->P)
				w->dh[row * H + j] = dh[j] = read_back(s->k, dh[j]);
		}
		step_of[p->mode](s, l, &a, w);
		later = row;
	}
	put_first(s, l, w, b);
}

/* The element of params whose gradient is summed. */
struct weight {
	const struct stack *s;
	const struct pseudo *l;
	const struct grads *w;
	int64_t g, u, j;                /* g: gate, or number of the vector; u, j: row and column in its region of params */
};

static struct val before(const struct stack *s, const struct pseudo *l, const struct val *all, const struct val *first,
	int64_t width, int64_t t, int64_t b, int64_t j)
{
	int64_t n = valid(s->p, b), from = l->d || s->p->reverse ? t + 1 : t - 1;

	return from < 0 || from >= n ? first[b * width + j] : all[(from * s->p->B + b) * width + j];
}

static void term_w(const struct weight *a, int64_t t, int64_t b, struct sum *z)
{
	int64_t n = t * a->s->p->B + b;

	plus_mul(z, a->w->da[(n * a->s->G + a->g) * a->s->p->U + a->u], a->l->x[n * a->l->in + a->j]);
}

static void term_r(const struct weight *a, int64_t t, int64_t b, struct sum *z)
{
	plus_mul(z, recurrent(a->s, a->w, t * a->s->p->B + b, a->g, a->u),
		before(a->s, a->l, a->l->h, a->l->h_first, a->s->H, t, b, a->j));
}

static void term_bw(const struct weight *a, int64_t t, int64_t b, struct sum *z)
{
	plus(z, a->w->da[((t * a->s->p->B + b) * a->s->G + a->g) * a->s->p->U + a->j]);
}

static void term_br(const struct weight *a, int64_t t, int64_t b, struct sum *z)
{
	plus(z, recurrent(a->s, a->w, t * a->s->p->B + b, a->g, a->j));
}

static void term_proj(const struct weight *a, int64_t t, int64_t b, struct sum *z)
{
	int64_t n = t * a->s->p->B + b;

	plus_mul(z, a->w->dh[n * a->s->H + a->u], a->l->m[n * a->s->p->U + a->j]);
}

static void term_vector(const struct weight *a, int64_t t, int64_t b, struct sum *z)
{
	static const int gate[] = { LSTM_I, LSTM_F, LSTM_O };
	int64_t U = a->s->p->U, n = t * a->s->p->B + b;

	plus_mul(z, a->w->da[(n * a->s->G + gate[a->g]) * U + a->j],
		a->g == 2 ? a->l->c[n * U + a->j] : before(a->s, a->l, a->l->c, a->l->c_first, U, t, b, a->j));
}

/* Is t the first step of row b, in the order of the direction? */
static int is_first_step(const struct weight *a, int64_t t, int64_t b)
{
	return t == (a->l->d || a->s->p->reverse ? valid(a->s->p, b) - 1 : 0);
}

typedef void term_of(const struct weight *, int64_t t, int64_t b, struct sum *);

/* ---- rule h ---- */

/* The number of products whose sum is a weight's gradient. For R there are two, of all first steps and of all others, or, where rows have
 * unequal lengths, two for each step. For every matrix but R there is one product. */
static int64_t count_products(const struct weight *a, term_of *term)
{
	const struct ref_rnn *p = a->s->p;

	if (term != term_r)
		return 1;
	for (int64_t b = 1; b < p->B; b++)
		if (valid(p, b) != valid(p, 0))
			return 2 * p->T;
	return 2;
}

/* Computes product k of the n products of count_products(), and its number of terms. */
static struct val product_of(const struct weight *a, term_of *term, int64_t k, int64_t n, int64_t *terms)
{
	struct sum z = { 0 };

	for (int64_t b = 0; b < a->s->p->B; b++)
		for (int64_t t = 0; t < valid(a->s->p, b); t++)
			if (n == 1 || (k % 2 != is_first_step(a, t, b) && (n == 2 || t == k / 2)))
				term(a, t, b, &z);
	*terms = z.n;
	return total(a->s->k, &z);
}

/* Adds the error of storing a value whose magnitude is at most `most`. */
static struct val read_back_below(const struct kind *k, struct val a, long double most)
{
	a.e += rounding(k, most);
	if (isfinite(most) && !(most + a.e <= k->max_real))
		a.e = INFINITY;
	return a;
}

/* Computes an element of a gradient by adding its products one after the other. More than two products may be added in any
 * order. */
static struct val add_products(const struct weight *a, term_of *term, int has_start, struct val start)
{
	const struct kind *k = a->s->k;
	int64_t n = count_products(a, term), terms, added = 0;
	struct val sum = start, product;
	long double most = fabsl(start.v);

	for (int64_t j = 0; j < n; j++) {
		product = product_of(a, term, j, n, &terms);
		if (!terms)
			continue;
		if (added)
			sum = read_back_below(k, sum, n > 2 ? most : fabsl(sum.v));
		sum = added || has_start ? add(k, sum, read_back(k, product)) : product;
		most += fabsl(product.v);
		added++;
	}
	return sum;
}

static int is_product(term_of *term)
{
	return term == term_w || term == term_r || term == term_proj;
}

static void sum_region(struct weight a, struct ref_region r, term_of *term)
{
	const struct ref_rnn *p = a.s->p;
	int64_t n = r.offset;
	struct sum z;

	for (int64_t m = 0; m < r.rows * r.columns; m++, n++) {
		a.u = m / r.columns;
		a.j = m % r.columns;
		if (a.s->k->keeps && is_product(term)) {
			put(&p->params_backprop, n, add_products(&a, term, p->accumulate, p->accumulate ? get(a.s->k, &p->params_backprop_old, n) :
			                                                                                  (struct val){ 0, 0 }));
			continue;
		}
		z = (struct sum){ 0 };
		if (p->accumulate)
			plus(&z, get(a.s->k, &p->params_backprop_old, n));
		for (int64_t b = 0; b < p->B; b++)
			for (int64_t t = 0; t < valid(p, b); t++)
				term(&a, t, b, &z);
		put(&p->params_backprop, n, p->accumulate && z.n == 1 ? get(a.s->k, &p->params_backprop_old, n) :
			total(a.s->k, &z));
	}
}

static void sum_weights(const struct stack *s, const struct pseudo *l, const struct grads *w)
{
	struct weight a = { .s = s, .l = l, .w = w };

	for (a.g = 0; a.g < s->G; a.g++) {
		sum_region(a, ref_rnn_region(s->p, l->at, (int)a.g, REF_WEIGHT), term_w);
		sum_region(a, ref_rnn_region(s->p, l->at, (int)(s->G + a.g), REF_WEIGHT), term_r);
		sum_region(a, ref_rnn_region(s->p, l->at, (int)a.g, REF_BIAS), term_bw);
		sum_region(a, ref_rnn_region(s->p, l->at, (int)(s->G + a.g), REF_BIAS), term_br);
	}
	sum_region(a, ref_rnn_region(s->p, l->at, (int)(2 * s->G), REF_WEIGHT), term_proj);
	for (a.g = 0; a.g < 3; a.g++)
		sum_region(a, ref_rnn_region(s->p, l->at, (int)(2 * s->G + 1 + a.g), REF_VECTOR), term_vector);
}

/* Adds to a sum one direction's part of the gradient of element j of its layer's input, at n = t * B + b. */
static void plus_dx(const struct stack *s, const struct pseudo *l, const struct grads *w, int64_t n, int64_t j, struct sum *z)
{
	for (int64_t g = 0; g < s->G; g++) {
		const struct val *da = w->da + (n * s->G + g) * s->p->U;

		if (l->skip)
			plus(z, da[j]);
		for (int64_t u = 0; u < s->p->U && !l->skip; u++)
			plus_mul(z, da[u], s->params[l->w[g] + u * l->in + j]);
	}
}

static struct val dx_of(const struct stack *s, const struct pseudo *l, const struct grads *w, int64_t n, int64_t j)
{
	long double stored = 0;
	struct sum all = { 0 };
	struct val x;

	for (int64_t d = 0; d < s->D; d++) {
		struct sum part = { 0 };

		plus_dx(s, &l[d], &w[d], n, j, &all);
		plus_dx(s, &l[d], &w[d], n, j, &part);
		x = total(s->k, &part);
		if (s->D > 1)
			stored = fmaxl(stored, read_back(s->k, x).e - x.e);
	}
	x = total(s->k, &all);
	if (isfinite(x.v) && !isnan(stored))
		x.e += stored;
	return x;
}

/* Fills dy [T, B, D*H], the gradient of a layer's output, from the gradient of the next layer's input; l NULL: from the upstream
 * gradient of the network. */
static void fill_dy(const struct stack *s, const struct pseudo *l, const struct grads *w, int64_t layer, struct val *dy)
{
	const struct ref_rnn *p = s->p;
	int64_t width = s->D * s->H;
	struct val drop;

	for (int64_t b = 0; b < p->B; b++) {
		for (int64_t m = 0; m < valid(p, b) * width; m++) {
			int64_t t = m / width, j = m % width, n = (t * p->B + b) * width + j;

			if (!l) {
				dy[n] = get(s->k, &p->output_backprop, in_sequence(p, t, b, width, j));
				continue;
			}
			drop = ref_dropout_factor(s, layer, t, b, j);
			dy[n] = drop;
			if (drop.v != 0)
				dy[n] = read_back(s->k, dx_of(s, l, w, t * p->B + b, j));
			if (drop.v != 0 && drop.v != 1)
				dy[n] = read_back(s->k, mul(s->k, dy[n], drop));
		}
	}
}

static void put_input_grad(const struct stack *s, const struct grads *w)
{
	const struct ref_rnn *p = s->p;

	for (int64_t b = 0; b < p->B; b++)
		for (int64_t t = 0; t < p->T; t++)
			for (int64_t j = 0; j < p->I; j++)
				put(&p->input_backprop, in_sequence(p, t, b, p->I, j),
					t < valid(p, b) ? dx_of(s, s->pseudo, w, t * p->B + b, j) : (struct val){ 0, 0 });
}

static int open_grads(struct stack *s, struct grads *w)
{
	int64_t rows = s->p->T * s->p->B;

	w->da = ref_stack_alloc(s, rows * s->G * s->p->U);
	w->dq = ref_stack_alloc(s, rows * s->p->U);
	w->dh = ref_stack_alloc(s, rows * s->H);
	w->direct = ref_stack_alloc(s, s->H);
	w->dc = ref_stack_alloc(s, s->p->U);
	w->last_dc = ref_stack_alloc(s, s->p->U);
	return w->da && w->dq && w->dh && w->direct && w->dc && w->last_dc ? 0 : -1;
}

static int back(struct stack *s)
{
	const struct ref_rnn *p = s->p;
	struct grads w[2] = { { 0 } };
	struct val *dy = ref_stack_alloc(s, p->T * p->B * s->D * s->H), *dh = ref_stack_alloc(s, s->H);

	if (!dy || !dh)
		return -1;
	for (int64_t d = 0; d < s->D; d++)
		if (open_grads(s, &w[d]))
			return -1;
	for (int64_t layer = p->L - 1; layer >= 0; layer--) {
		struct pseudo *l = &s->pseudo[layer * s->D];

		fill_dy(s, layer + 1 < p->L ? l + s->D : NULL, w, layer, dy);
		for (int64_t d = 0; d < s->D; d++) {
			for (int64_t b = 0; b < p->B; b++)
				back_row(s, &l[d], &w[d], dy, b, dh);
			sum_weights(s, &l[d], &w[d]);
		}
	}
	put_input_grad(s, w);
	return 0;
}

int ref_rnn_backward(const struct ref_rnn *p)
{
	static const struct ref_out unwanted;
	struct ref_rnn q = *p;
	struct stack s;
	int bad;

	q.output = q.output_h = q.output_c = unwanted;
	bad = ref_stack_run(&s, &q) || back(&s);
	ref_stack_close(&s);
	return bad ? -1 : 0;
}
