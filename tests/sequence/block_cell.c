/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network of the block cell, TensorFlow's BlockLSTM, and calls of the block cell's ops step by step: the answers of both lie within the
 * reference's bounds of BlockLSTM. The test is in f32 and f64, in which a state is not rounded from step to step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/op/op.h"
#include "runtime/core/core.h"
#include "verify/numbers.h"
#include "verify/sequence.h"
#include "tests/sequence/suite.h"

enum { G = 4, SAVED = 7, VECTORS = 3 };

/* Arguments of the ops in the ops' layouts: w [I + U, 4U], b [4U], peephole vectors [U]; saved: what each step of the reference saves,
   [T, B, U], with error bounds in saved_e. */
struct block {
	int64_t T, B, I, U;
	double *w, *b, *vectors[VECTORS];
	long double *saved[SAVED], *saved_e[SAVED];              /* the values i cs f o ci co h, and their error bounds */
	struct ref_out w_grad, b_grad, vector_grads[VECTORS];
};

static void *alloc(int64_t n, size_t size)
{
	void *p = calloc((size_t)n + 1, size);

	assert_non_null(p);
	return p;
}

static struct ref_out out(int64_t n)
{
	long double *v = alloc(2 * n, sizeof *v);

	return (struct ref_out){ v, v + n };
}

/* The index in params of an element of w: gate g of unit u, row j of w, where the rows for h follow those for x. */
static int64_t weight_at(const struct network *net, int64_t j, int g, int64_t u)
{
	int64_t I = net->config.input;
	struct cg_rnn_region r;

	assert_int_equal(cg_rnn_region(net->rnn, 0, j < I ? g : G + g, 0, &r), CG_OK);
	return r.offset + u * r.columns + (j < I ? j : j - I);
}

static int64_t bias_at(const struct network *net, int recurrent, int g, int64_t u)
{
	struct cg_rnn_region r;

	assert_int_equal(cg_rnn_region(net->rnn, 0, recurrent * G + g, 1, &r), CG_OK);
	return r.offset + u;
}

static int64_t vector_at(const struct network *net, int k, int64_t u)
{
	struct cg_rnn_region r;

	assert_int_equal(cg_rnn_region(net->rnn, 0, 2 * G + 1 + k, 0, &r), CG_OK);
	return r.offset + u;
}

static void open_block(struct block *s, struct network *net)
{
	int64_t I = net->config.input, U = net->config.units, n = net->T * net->B * U;

	*s = (struct block){ .T = net->T, .B = net->B, .I = I, .U = U };
	s->w = alloc((I + U) * G * U, sizeof(double));
	s->b = alloc(G * U, sizeof(double));
	for (int g = 0; g < G; g++)
		for (int64_t u = 0; u < U; u++) {
			for (int64_t j = 0; j < I + U; j++)
				s->w[j * G * U + g * U + u] = net->at[PARAMS][weight_at(net, j, g, u)];
			/* the op has one bias for each gate, params have two: the recurrent bias in params is set to 0 */
			net->at[PARAMS][bias_at(net, 1, g, u)] = 0;
			s->b[g * U + u] = net->at[PARAMS][bias_at(net, 0, g, u)];
		}
	for (int k = 0; k < VECTORS; k++) {
		s->vectors[k] = alloc(U, sizeof(double));
		s->vector_grads[k] = out(U);
		for (int64_t u = 0; u < U && net->config.options; u++)
			s->vectors[k][u] = net->at[PARAMS][vector_at(net, k, u)];
	}
	for (int k = 0; k < SAVED; k++) {
		s->saved[k] = alloc(2 * n, sizeof(long double));
		s->saved_e[k] = s->saved[k] + n;
	}
	s->w_grad = out((I + U) * G * U);
	s->b_grad = out(G * U);
}

static void close_block(struct block *s)
{
	free(s->w);
	free(s->b);
	free(s->w_grad.v);
	free(s->b_grad.v);
	for (int k = 0; k < VECTORS; k++) {
		free(s->vectors[k]);
		free(s->vector_grads[k].v);
	}
	for (int k = 0; k < SAVED; k++)
		free(s->saved[k]);
}

/* ---- the reference ---- */

static struct ref_block_lstm problem(const struct network *net, struct block *s)
{
	struct ref_block_lstm p = { .T = s->T, .seq_len_max = s->T };
	struct ref_lstm_block *c = &p.cell;
	struct ref_in *ins[SAVED] = { &c->i, &c->cs, &c->f, &c->o, &c->ci, &c->co, &p.h };
	struct ref_out *outs[SAVED] = { &c->i_out, &c->cs_out, &c->f_out, &c->o_out, &c->ci_out, &c->co_out, &c->h_out };

	*c = (struct ref_lstm_block){
		.B = s->B, .I = s->I, .U = s->U, .dtype = net->config.dtype, .gates = REF_ICFO, .use_peephole = net->config.options != NULL,
		.forget_bias = net->values[0].value, .cell_clip = net->values[1].value, .x = { .d = net->at[INPUT] },
		.cs_prev = { .d = net->at[INPUT_C] }, .h_prev = { .d = net->at[INPUT_H] }, .w = { .d = s->w }, .b = { .d = s->b },
		.wci = { .d = s->vectors[0] }, .wcf = { .d = s->vectors[1] }, .wco = { .d = s->vectors[2] },
		.h_grad = { .d = net->at[OUTPUT_BACKPROP] }, .w_grad = s->w_grad, .b_grad = s->b_grad,
		.wci_grad = s->vector_grads[0], .wcf_grad = s->vector_grads[1], .wco_grad = s->vector_grads[2],
	};
	for (int k = 0; k < SAVED; k++) {
		*ins[k] = (struct ref_in){ NULL, s->saved[k], s->saved_e[k] };
		*outs[k] = (struct ref_out){ s->saved[k], s->saved_e[k] };
	}
	return p;
}

/* The upstream gradients of cs for all steps: those of the final cell states at the last step, zeros before. */
static double *whole_cs_grad(const struct network *net, int64_t n, int64_t T)
{
	double *cs_grad = alloc(T * n, sizeof *cs_grad);

	memcpy(cs_grad + (T - 1) * n, net->at[OUTPUT_C_BACKPROP], (size_t)n * sizeof *cs_grad);
	return cs_grad;
}

static void copy_answer(struct answers *to, int a, const long double *v, const long double *e, int64_t n)
{
	memcpy(to->v[a], v, (size_t)n * sizeof *v);
	memcpy(to->e[a], e, (size_t)n * sizeof *e);
}

static void put_params(const struct network *net, const struct block *s, struct answers *to)
{
	const int a = PARAMS_BACKPROP;

	for (int g = 0; g < G; g++)
		for (int64_t u = 0; u < s->U; u++) {
			for (int64_t j = 0; j < s->I + s->U; j++) {
				to->v[a][weight_at(net, j, g, u)] = s->w_grad.v[j * G * s->U + g * s->U + u];
				to->e[a][weight_at(net, j, g, u)] = s->w_grad.e[j * G * s->U + g * s->U + u];
			}
			for (int recurrent = 0; recurrent < 2; recurrent++) {
				to->v[a][bias_at(net, recurrent, g, u)] = s->b_grad.v[g * s->U + u];
				to->e[a][bias_at(net, recurrent, g, u)] = s->b_grad.e[g * s->U + u];
			}
		}
	for (int k = 0; k < VECTORS && net->config.options; k++)
		for (int64_t u = 0; u < s->U; u++) {
			to->v[a][vector_at(net, k, u)] = s->vector_grads[k].v[u];
			to->e[a][vector_at(net, k, u)] = s->vector_grads[k].e[u];
		}
}

/* Computes the reference's answer for the whole sequence. */
static void answer(const struct network *net, struct block *s, struct answers *to)
{
	int64_t n = s->B * s->U, last = (s->T - 1) * n;
	struct ref_block_lstm p = problem(net, s);
	double *cs_grad = whole_cs_grad(net, n, s->T);

	assert_int_equal(ref_block_lstm_forward(&p), 0);
	copy_answer(to, OUTPUT, s->saved[6], s->saved_e[6], s->T * n);
	copy_answer(to, OUTPUT_H, s->saved[6] + last, s->saved_e[6] + last, n);
	copy_answer(to, OUTPUT_C, s->saved[1] + last, s->saved_e[1] + last, n);
	for (int k = 0; k < SAVED; k++)
		ref_read_back(net->config.dtype, s->T * n, (struct ref_out){ s->saved[k], s->saved_e[k] });
	p.cell.cs_grad.d = cs_grad;
	p.cell.x_grad = (struct ref_out){ to->v[INPUT_BACKPROP], to->e[INPUT_BACKPROP] };
	p.cell.h_prev_grad = (struct ref_out){ to->v[INPUT_H_BACKPROP], to->e[INPUT_H_BACKPROP] };
	p.cell.cs_prev_grad = (struct ref_out){ to->v[INPUT_C_BACKPROP], to->e[INPUT_C_BACKPROP] };
	assert_int_equal(ref_block_lstm_grad(&p), 0);
	put_params(net, s, to);
	free(cs_grad);
}

/* ---- the ops of the block cell ---- */

enum { ALLOCATED_MAX = 256 };
static void *allocated[ALLOCATED_MAX];
static int n_allocated;

/* Allocates host memory with these numbers, or with zeros for NULL; free_all frees it. */
static struct cg_mem give(const struct network *net, const double *numbers, int64_t n)
{
	size_t each = cg_dtype_bytes(net->config.dtype);
	struct cg_mem mem = { .data = alloc(n, each), .bytes = (size_t)n * each };

	for (int64_t k = 0; numbers && k < n; k++)
		numbers_encode(net->config.dtype, numbers[k], (char *)mem.data + (size_t)k * each);
	assert_true(n_allocated < ALLOCATED_MAX);
	return allocated[n_allocated++] = mem.data, mem;
}

static void free_all(void)
{
	while (n_allocated)
		free(allocated[--n_allocated]);
}

static void read_back(const struct network *net, struct cg_mem mem, double *numbers)
{
	size_t each = cg_dtype_bytes(net->config.dtype);

	for (size_t k = 0; k < mem.bytes / each; k++)
		numbers[k] = numbers_decode(net->config.dtype, (char *)mem.data + k * each);
}

static void read_sums(const struct network *net, struct cg_mem mem, const struct ref_out *to)
{
	double *numbers = alloc((int64_t)mem.bytes, sizeof *numbers);

	read_back(net, mem, numbers);
	for (size_t k = 0; k < mem.bytes / cg_dtype_bytes(net->config.dtype); k++)
		to->v[k] = numbers[k];
	free(numbers);
}

static void fill(struct cg_lstm_block *op, const struct network *net, const struct block *s)
{
	struct cg_mem *vectors[] = { &op->wci, &op->wcf, &op->wco, &op->wci_grad, &op->wcf_grad, &op->wco_grad };

	cg_lstm_block_init(op, sizeof *op);
	op->B = s->B;
	op->I = s->I;
	op->U = s->U;
	op->dtype = net->config.dtype;
	op->use_peephole = net->config.options != NULL;
	op->forget_bias = net->values[0].value;
	op->cell_clip = net->values[1].value;
	op->w = give(net, s->w, (s->I + s->U) * G * s->U);
	op->b = give(net, s->b, G * s->U);
	op->w_grad = give(net, NULL, (s->I + s->U) * G * s->U);
	op->b_grad = give(net, NULL, G * s->U);
	for (int k = 0; k < 2 * VECTORS && op->use_peephole; k++)
		*vectors[k] = give(net, k < VECTORS ? s->vectors[k] : NULL, s->U);
}

static void check(const struct network *net, int code)
{
	if (code)
		network_fail(net, "%s", cg_message());
}

static void ops_forward(struct network *net, const struct block *s, struct cg_lstm_block *steps)
{
	for (int64_t t = 0; t < s->T; t++) {
		struct cg_lstm_block *op = &steps[t];
		struct cg_mem *saved[SAVED] = { &op->i, &op->cs, &op->f, &op->o, &op->ci, &op->co, &op->h };

		op->x = give(net, network_step(net, INPUT, t, 0), s->B * s->I);
		op->cs_prev = t ? steps[t - 1].cs : give(net, net->at[INPUT_C], s->B * s->U);
		op->h_prev = t ? steps[t - 1].h : give(net, net->at[INPUT_H], s->B * s->U);
		for (int k = 0; k < SAVED; k++)
			*saved[k] = give(net, NULL, s->B * s->U);
		check(net, cg_lstm_block_forward(side.stream, op));
		read_back(net, op->h, network_step(net, OUTPUT, t, 0));
		read_back(net, op->h, net->at[OUTPUT_H]);
		read_back(net, op->cs, net->at[OUTPUT_C]);
	}
}

static void ops_backward(struct network *net, const struct block *s, struct cg_lstm_block *steps)
{
	int64_t n = s->B * s->U;
	double *h_grad = alloc(n, sizeof *h_grad);

	for (int64_t t = s->T - 1; t >= 0; t--) {
		struct cg_lstm_block *op = &steps[t];
		int is_last = t == s->T - 1;

		for (int64_t j = 0; j < n; j++)
			h_grad[j] = cg_round(net->config.dtype, network_step(net, OUTPUT_BACKPROP, t, 0)[j] +
			                     (is_last ? 0 : net->at[INPUT_H_BACKPROP][j]));
		op->accumulate = !is_last;
		op->h_grad = give(net, h_grad, n);
		op->cs_grad = give(net, net->at[is_last ? OUTPUT_C_BACKPROP : INPUT_C_BACKPROP], n);
		op->x_grad = give(net, NULL, s->B * s->I);
		op->h_prev_grad = give(net, NULL, n);
		op->cs_prev_grad = give(net, NULL, n);
		check(net, cg_lstm_block_grad(side.stream, op));
		read_back(net, op->x_grad, network_step(net, INPUT_BACKPROP, t, 0));
		read_back(net, op->h_prev_grad, net->at[INPUT_H_BACKPROP]);
		read_back(net, op->cs_prev_grad, net->at[INPUT_C_BACKPROP]);
	}
	free(h_grad);
}

/* Runs all steps by the ops and stores their answers as the network's. */
static void run_ops(struct network *net, struct block *s)
{
	struct cg_lstm_block steps[8];
	struct answers got;

	assert_true(s->T && s->T <= 8);
	fill(&steps[0], net, s);
	for (int64_t t = 1; t < s->T; t++)
		steps[t] = steps[0];
	ops_forward(net, s, steps);
	ops_backward(net, s, steps);
	read_sums(net, steps[0].w_grad, &s->w_grad);
	read_sums(net, steps[0].b_grad, &s->b_grad);
	read_sums(net, steps[0].wci_grad, &s->vector_grads[0]);
	read_sums(net, steps[0].wcf_grad, &s->vector_grads[1]);
	read_sums(net, steps[0].wco_grad, &s->vector_grads[2]);
	answers_alloc(net, &got);
	put_params(net, s, &got);
	for (int64_t j = 0; j < net->n[PARAMS]; j++)
		net->at[PARAMS_BACKPROP][j] = (double)got.v[PARAMS_BACKPROP][j];
	answers_free(&got);
	free_all();
}

/* ---- both ---- */

static void draw(struct network *net, unsigned long long *state)
{
	network_init(net);
	net->config.cell = cg_cell_find("lstm_block");
	net->config.options = numbers_below(state, 2) ? "peephole" : NULL;
	net->config.dtype = numbers_below(state, 2) && network_has(CG_F64) ? CG_F64 : CG_F32;
	net->config.input = 1 + numbers_below(state, 6);
	net->config.units = 1 + numbers_below(state, 6);
	net->config.n_values = 2;
	net->values[0] = (struct cg_value){ "forget_bias", numbers_below(state, 2) ? 0.5 : 0 };
	net->values[1] = (struct cg_value){ "cell_clip", numbers_below(state, 2) ? 0.375 : 0 };
	net->T = 1 + numbers_below(state, 6);
	net->B = 1 + numbers_below(state, 5);
	net->absent = 1 << OUTPUT_H_BACKPROP;    /* the op's one upstream gradient of h stands for OUTPUT_BACKPROP */
	net->memory = (int)numbers_below(state, 3);
}

void test_block_lstm(void **nothing)
{
	unsigned long long state;
	struct answers answers;
	struct network net;
	struct block s;

	(void)nothing;
	for (int k = 0; k < network_cases(160); k++) {
		network_case("steps of the block cell", k, &state);
		draw(&net, &state);
		network_open(&net);
		network_draw(&net, &state, 0.7);
		open_block(&s, &net);
		answers_alloc(&net, &answers);
		answer(&net, &s, &answers);
		network_forward(&net);
		network_backward(&net);
		answers_judge(&net, &answers, ALL_OUTPUTS);
		run_ops(&net, &s);
		answers_judge(&net, &answers, ALL_OUTPUTS);
		answers_free(&answers);
		close_block(&s);
		network_close(&net);
	}
	answers_print_worst("steps of the block cell");
}
