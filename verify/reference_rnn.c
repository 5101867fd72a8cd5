/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CudnnRNN family forward in long double: layers, directions, lengths, projection, dropout, with the bound of bound.h beside each
 * value.  The formulas are those of cuDNN's documents.  The gradient is in reference_rnn_grad.c, the layout of params in
 * reference_rnn_params.c.
 *
 * Whole sequences add these rules to the error model of bound.h:
 *
 *  a. h is rounded to real at every step: the output, the operand of the next step and the value that the gradient reads are one
 *     number.  c stays in acc, and so do the gradients that pass from step to step; but dh may be stored in real before the products of
 *     the projection.
 *  b. The forward pass may store in real what the gradient reads: gates, R h + bR of the GRU's candidate, m = o * tanh(c) before the
 *     projection, and tanh(c).  c itself is saved in acc.
 *  c. What one layer passes to another may be stored in real, before dropout's factor and after it, forward and backward; so may each
 *     direction's part of the gradient of x.
 *  d. Each weight gradient is one sum over all steps and rows; the old value that accumulate adds to is one of its terms.
 *  e. Where the error of relu's argument leaves its sign uncertain, the gradient may pass or not.
 *
 * cuDNN (by_vendor) computes a network in kernels that pass all values through memory, so its networks add these rules:
 *
 *  f. In f16 and bf16 whatever passes from kernel to kernel and from step to step is read back (rule 7 of bound.h), in addition to what
 *     rules a to c name.  In the forward pass x W and R h are read back before their biases are added in acc (a skipped input is in real
 *     already), and so is c.  In the gradient dgates are read back, as always, and so are the product that gives the gradient of h_prev,
 *     the gradient of the output before a projection, and dc.
 *     The term of h_prev's gradient that passes no matrix is read back, too.  Either the product, or the kernel that reads product and
 *     term, may add the two, and the bound allows either.  A caller gets the final states and the gradients of the initial states, whose
 *     bounds include no error of storing.
 *  g. sigmoid and tanh have the errors that rule 5 of bound.h gives for a vendor.
 *  h. In f16 and bf16 several products may add to the gradient of a matrix; each product may be rounded before it is added, and the sum
 *     so far is read back before the next product adds to it.  The gradient of W has one product.  Where all rows have equal lengths
 *     the gradient of R has two products: one for all first steps, whose h_prev is the caller's, and one for all others.  Where rows
 *     have unequal lengths the gradient of R has more products, at most two for each step, in any order.
 */
#include <stdlib.h>

#include "verify/reference_rnn.h"

static const int gates[] = { [REF_LSTM] = 4, [REF_GRU] = 3, [REF_RNN_TANH] = 1, [REF_RNN_RELU] = 1 };

enum { LSTM_I, LSTM_F, LSTM_G, LSTM_O };
enum { GRU_R, GRU_Z, GRU_N };

struct val *ref_stack_alloc(struct stack *s, int64_t n)
{
	void **arrays = realloc(s->arrays, (s->n_arrays + 1) * sizeof(*arrays));

	if (!arrays)
		return NULL;
	s->arrays = arrays;
	arrays[s->n_arrays] = calloc(n + 1, sizeof(struct val));
	return arrays[s->n_arrays++];
}

void ref_stack_close(struct stack *s)
{
	for (int j = 0; j < s->n_arrays; j++)
		free(s->arrays[j]);
	free(s->arrays);
	free(s->x);
	free(s->pseudo);
}

struct val ref_dropout_factor(const struct stack *s, int64_t layer, int64_t t, int64_t b, int64_t unit)
{
	const struct ref_rnn *p = s->p;
	uint64_t key;
	struct val scale;

	if (!p->is_training || p->dropout == 0)
		return (struct val){ 1, 0 };
	key = ref_dropout_layer_key(p->key, p->call, layer);
	if (ref_dropout_drops(ref_dropout_word(key, p->first_step + t, b, unit), p->dropout))
		return (struct val){ 0, 0 };
	scale.v = 1 / (1 - (long double)p->dropout);
	scale.e = 2 * s->k->u * scale.v;
	return scale;
}

/* Adds to a sum row u of a matrix, of length n, times the vector x: n terms, or, by rule f, one stored product. */
static void plus_product(const struct stack *s, struct sum *a, int64_t matrix, int64_t u, int64_t n, const struct val *x)
{
	struct sum apart = { 0 }, *to = s->k->keeps ? &apart : a;

	for (int64_t j = 0; j < n; j++)
		plus_mul(to, s->params[matrix + u * n + j], x[j]);
	if (s->k->keeps)
		plus(a, handed(s->k, total(s->k, &apart)));
}

/* Adds to a sum the input's part W x + bW of the pre-activation of gate g, unit u. */
static void plus_input(const struct stack *s, const struct pseudo *l, struct sum *a, const struct val *x, int g, int64_t u)
{
	if (l->skip)
		plus(a, x[u]);
	else
		plus_product(s, a, l->w[g], u, l->in, x);
	plus(a, s->params[l->bw[g] + u]);
}

/* Adds to a sum the recurrent part R h + bR of a gate's pre-activation. */
static void plus_recurrent(const struct stack *s, const struct pseudo *l, struct sum *a, const struct val *h, int g,
	int64_t u)
{
	plus_product(s, a, l->r[g], u, s->H, h);
	plus(a, s->params[l->br[g] + u]);
}

/* One step of one row: pointers to what it reads and writes, in the arrays of struct pseudo. */
struct step {
	const struct val *x, *h_prev, *c_prev;
	struct val *gate, *q, *c, *m;
	struct val *h, *last_c;                 /* this step's h and c, not rounded */
};

static struct val lstm_gate(const struct stack *s, const struct pseudo *l, const struct step *a, int g, int64_t u, int vector,
	struct val c)
{
	struct sum z = { 0 };

	plus_input(s, l, &z, a->x, g, u);
	plus_recurrent(s, l, &z, a->h_prev, g, u);
	if (s->p->peephole && vector >= 0)
		plus_mul(&z, c, s->params[l->vector[vector] + u]);
	return total(s->k, &z);
}

static void lstm_step(const struct stack *s, const struct pseudo *l, const struct step *a)
{
	const struct kind *k = s->k;
	int64_t U = s->p->U;
	struct val i, f, g, o, c_prev, c, m;
	struct sum z;

	for (int64_t u = 0; u < U; u++) {
		c_prev = a->c_prev[u];
		i = sigmoid(k, lstm_gate(s, l, a, LSTM_I, u, 0, c_prev));
		f = sigmoid(k, lstm_gate(s, l, a, LSTM_F, u, 1, c_prev));
		g = hyperbolic(k, lstm_gate(s, l, a, LSTM_G, u, -1, c_prev));
		c = add(k, mul(k, f, c_prev), mul(k, i, g));
		o = sigmoid(k, lstm_gate(s, l, a, LSTM_O, u, 2, c));
		a->last_c[u] = c;
		a->c[u] = handed(k, c);
		a->gate[LSTM_I * U + u] = read_back(k, i);
		a->gate[LSTM_F * U + u] = read_back(k, f);
		a->gate[LSTM_G * U + u] = read_back(k, g);
		a->gate[LSTM_O * U + u] = read_back(k, o);
		m = mul(k, o, hyperbolic(k, c));
		a->m[u] = read_back(k, m);
		if (!s->p->P)
			a->h[u] = m;
	}
	for (int64_t j = 0; j < s->p->P; j++) {
		z = (struct sum){ 0 };
		for (int64_t u = 0; u < U; u++)
			plus_mul(&z, s->params[l->proj + j * U + u], a->m[u]);
		a->h[j] = total(k, &z);
	}
}

static void gru_step(const struct stack *s, const struct pseudo *l, const struct step *a)
{
	const struct kind *k = s->k;
	int64_t U = s->p->U;
	struct val gate[2], q, n, other;
	struct sum z;

	for (int64_t u = 0; u < U; u++) {
		for (int g = GRU_R; g <= GRU_Z; g++) {
			z = (struct sum){ 0 };
			plus_input(s, l, &z, a->x, g, u);
			plus_recurrent(s, l, &z, a->h_prev, g, u);
			gate[g] = sigmoid(k, total(k, &z));
			a->gate[g * U + u] = read_back(k, gate[g]);
		}
		z = (struct sum){ 0 };
		plus_recurrent(s, l, &z, a->h_prev, GRU_N, u);
		q = total(k, &z);
		a->q[u] = read_back(k, q);
		z = (struct sum){ 0 };
		plus_input(s, l, &z, a->x, GRU_N, u);
		plus_mul(&z, gate[GRU_R], q);
		n = hyperbolic(k, total(k, &z));
		a->gate[GRU_N * U + u] = read_back(k, n);
		a->h[u] = add(k, mul(k, one_minus(k, gate[GRU_Z]), n), mul(k, gate[GRU_Z], a->h_prev[u]));
		/* n + z (h_prev - n) is as right a form of h, so the bound allows either */
		other = add(k, mul(k, gate[GRU_Z], sub(k, a->h_prev[u], n)), n);
		a->h[u].e = fmaxl(a->h[u].e, other.e);
	}
}

/* relu: max(0, a).  No document says what relu makes of a NaN, so the bound allows any answer then. */
static struct val rectified(struct val a)
{
	if (isnan(a.v) || !isfinite(a.e))
		return (struct val){ 0, INFINITY };
	if (a.v < 0)
		return (struct val){ 0, fmaxl(0, a.v + a.e) };
	return a;
}

static void plain_step(const struct stack *s, const struct pseudo *l, const struct step *a)
{
	struct val z;
	struct sum sum;

	for (int64_t u = 0; u < s->p->U; u++) {
		sum = (struct sum){ 0 };
		plus_input(s, l, &sum, a->x, 0, u);
		plus_recurrent(s, l, &sum, a->h_prev, 0, u);
		z = total(s->k, &sum);
		a->q[u] = read_back(s->k, z);
		a->h[u] = s->p->mode == REF_RNN_RELU ? rectified(z) : hyperbolic(s->k, z);
	}
}

static void (*const step_of[])(const struct stack *, const struct pseudo *, const struct step *) = {
	[REF_LSTM] = lstm_step, [REF_GRU] = gru_step, [REF_RNN_TANH] = plain_step, [REF_RNN_RELU] = plain_step,
};

/* Writes the last states of row b, h [H] and c [U], which are not rounded, except that a row without steps returns its initial states. */
static void put_states(const struct stack *s, const struct pseudo *l, int64_t b, const struct val *h, const struct val *c)
{
	for (int64_t j = 0; j < s->H; j++)
		put(&s->p->output_h, in_state(s->p, l->at, b, s->H, j), h[j]);
	for (int64_t u = 0; u < s->p->U && s->p->mode == REF_LSTM; u++)
		put(&s->p->output_c, in_state(s->p, l->at, b, s->p->U, u), c[u]);
}

static struct val handed_up(const struct stack *s, int64_t layer, int64_t t, int64_t b, int64_t unit, struct val h)
{
	struct val drop = ref_dropout_factor(s, layer, t, b, unit);

	if (drop.v == 0)
		return drop;
	return drop.v == 1 ? h : read_back(s->k, mul(s->k, h, drop));
}

/* Computes all steps of row b in one direction of a layer.  h [H] and c [U] are scratch memory for the unrounded states; up [T, B, D*H]
 * is the next layer's input, or NULL. */
static void run_row(const struct stack *s, const struct pseudo *l, int64_t b, struct val *h, struct val *c, struct val *up)
{
	const struct ref_rnn *p = s->p;
	int64_t n = valid(p, b), B = p->B, U = p->U, H = s->H, unit;
	const struct val *h_prev = l->h_first + b * H, *c_prev = l->c_first + b * U;

	for (int64_t step = 0; step < n; step++) {
		int64_t t = time_of(p, l->d, step, n), row = t * B + b;
		struct step a = { l->x + row * l->in, h_prev, c_prev, l->gate + row * s->G * U, l->q + row * U, l->c + row * U,
			l->m + row * U, h, c };

		step_of[p->mode](s, l, &a);
		for (int64_t j = 0; j < H; j++) {
			unit = l->d * H + j;
			l->h[row * H + j] = read_back(s->k, h[j]);
			if (up)
				up[row * s->D * H + unit] = handed_up(s, l->layer, t, b, unit, l->h[row * H + j]);
			else
				put(&p->output, in_sequence(p, t, b, s->D * H, unit), h[j]);
		}
		h_prev = l->h + row * H;
		c_prev = l->c + row * U;
	}
	put_states(s, l, b, n ? h : h_prev, n ? c : c_prev);
	for (int64_t t = n; t < p->T && !up; t++)
		for (int64_t j = 0; j < H; j++)
			put(&p->output, in_sequence(p, t, b, s->D * H, l->d * H + j), (struct val){ 0, 0 });
}

static int64_t offset(const struct stack *s, const struct pseudo *l, int64_t id, int part)
{
	return ref_rnn_region(s->p, l->at, (int)id, part).offset;
}

static int open_pseudo(struct stack *s, struct pseudo *l, int64_t layer, int64_t d)
{
	const struct ref_rnn *p = s->p;
	int64_t rows = p->T * p->B;

	l->layer = layer;
	l->d = d;
	l->at = layer * s->D + d;
	l->in = layer ? s->D * s->H : p->I;
	l->skip = ref_rnn_region(p, l->at, 0, REF_WEIGHT).rows == 0;
	for (int64_t g = 0; g < s->G; g++) {
		l->w[g] = offset(s, l, g, REF_WEIGHT);
		l->r[g] = offset(s, l, s->G + g, REF_WEIGHT);
		l->bw[g] = offset(s, l, g, REF_BIAS);
		l->br[g] = offset(s, l, s->G + g, REF_BIAS);
	}
	l->proj = offset(s, l, 2 * s->G, REF_WEIGHT);
	for (int v = 0; v < 3; v++)
		l->vector[v] = offset(s, l, 2 * s->G + 1 + v, REF_VECTOR);
	l->x = s->x[layer];
	l->gate = ref_stack_alloc(s, rows * s->G * p->U);
	l->q = ref_stack_alloc(s, rows * p->U);
	l->c = ref_stack_alloc(s, rows * p->U);
	l->m = ref_stack_alloc(s, rows * p->U);
	l->h = ref_stack_alloc(s, rows * s->H);
	l->h_first = ref_stack_alloc(s, p->B * s->H);
	l->c_first = ref_stack_alloc(s, p->B * p->U);
	if (!l->gate || !l->q || !l->c || !l->m || !l->h || !l->h_first || !l->c_first)
		return -1;
	for (int64_t n = 0; n < p->B * s->H; n++)
		l->h_first[n] = get(s->k, &p->input_h, in_state(p, l->at, n / s->H, s->H, n % s->H));
	for (int64_t n = 0; n < p->B * p->U && p->mode == REF_LSTM; n++)
		l->c_first[n] = get(s->k, &p->input_c, in_state(p, l->at, n / p->U, p->U, n % p->U));
	return 0;
}

static int open_stack(struct stack *s, const struct ref_rnn *p)
{
	int64_t size = ref_rnn_size(p), rows = p->T * p->B;

	*s = (struct stack){ .p = p, .k = p->by_vendor ? &ref_vendor_kinds[p->dtype] : &ref_kinds[p->dtype],
		.D = 1 + !!p->bidirectional, .H = p->P ? p->P : p->U, .G = gates[p->mode] };
	s->x = calloc(p->L, sizeof(*s->x));
	s->pseudo = calloc(p->L * s->D, sizeof(*s->pseudo));
	s->params = ref_stack_alloc(s, size);
	if (!s->x || !s->pseudo || !s->params)
		return -1;
	for (int64_t n = 0; n < size; n++)
		s->params[n] = get(s->k, &p->params, n);
	for (int64_t l = 0; l < p->L; l++) {
		s->x[l] = ref_stack_alloc(s, rows * (l ? s->D * s->H : p->I));
		if (!s->x[l])
			return -1;
		for (int64_t d = 0; d < s->D; d++)
			if (open_pseudo(s, &s->pseudo[l * s->D + d], l, d))
				return -1;
	}
	for (int64_t b = 0; b < p->B; b++)
		for (int64_t t = 0; t < valid(p, b); t++)
			for (int64_t j = 0; j < p->I; j++)
				s->x[0][(t * p->B + b) * p->I + j] = get(s->k, &p->input, in_sequence(p, t, b, p->I, j));
	return 0;
}

int ref_stack_run(struct stack *s, const struct ref_rnn *p)
{
	struct val *h, *c;

	if (open_stack(s, p) || !(h = ref_stack_alloc(s, s->H)) || !(c = ref_stack_alloc(s, p->U)))
		return -1;
	for (int64_t at = 0; at < p->L * s->D; at++)
		for (int64_t b = 0; b < p->B; b++)
			run_row(s, &s->pseudo[at], b, h, c, at / s->D + 1 < p->L ? s->x[at / s->D + 1] : NULL);
	return 0;
}

int ref_rnn_forward(const struct ref_rnn *p)
{
	struct stack s;
	int bad = ref_stack_run(&s, p);

	ref_stack_close(&s);
	return bad;
}
