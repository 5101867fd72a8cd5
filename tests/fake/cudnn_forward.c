/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in for libcudnn: forward in double, rounded where a kernel of cuDNN stores: h at every step, and in f16 and bf16 by the
 * standard algorithm also x W, R h and all that a step saves.
 */
#include <stdlib.h>
#include <string.h>

#include "cudnn_net.h"

/* Rounds the values of a step that the next step, a projection and the gradient read, if kernels pass on numbers of 16 bits. */
static void leave_step(const struct model *m, const struct step *s)
{
	if (m->cell == LSTM)
		fake_hand(m, s->c, m->U);
	if (m->cell == GRU)
		fake_hand(m, s->q, m->U);
	if (m->cell == LSTM || m->cell == GRU)
		fake_hand(m, s->gate, m->gates * m->U);
	fake_hand(m, s->m, m->U);
}

static void forward_step(const struct layer_run *w, int64_t s, int64_t b)
{
	const struct model *m = &w->net->m;
	int64_t row = fake_time(w->d, s, w->net->lengths[b]) * w->net->B + b, GU = m->gates * m->U;
	const double *x = w->saved->in[w->layer] + row * w->in;
	struct step step = fake_step(w, s, b);
	double *h = w->p->h + row * m->H;

	memset(w->a, 0, (size_t)GU * sizeof *w->a);
	memset(w->r, 0, (size_t)GU * sizeof *w->r);
	if (m->skip && !w->layer)
		for (int64_t k = 0; k < GU; k++)
			w->a[k] = x[k % m->U];
	else
		fake_add_product(m, GU, w->in, x, w->w.w_turned, w->a);
	fake_add_product(m, GU, m->H, step.h_prev, w->w.r_turned, w->r);
	fake_hand(m, w->a, GU);
	fake_hand(m, w->r, GU);
	for (int64_t k = 0; k < GU; k++) {
		w->a[k] += w->w.b_input[k];
		w->r[k] += w->w.b_recurrent[k];
	}
	fake_cell(m, &step, w->a, w->r);
	leave_step(m, &step);
	memset(h, 0, (size_t)m->H * sizeof *h);
	if (m->P)
		fake_add_product(m, m->P, m->U, step.m, w->w.p_turned, h);
	else
		memcpy(h, step.m, (size_t)m->H * sizeof *h);
	for (int64_t j = 0; j < m->H; j++)
		h[j] = fake_as_stored(w->net, h[j]);
}

/* Gives the output of a step to the layer above, or stores it in y where the layer is the last. */
static void hand_on(const struct layer_run *w, int64_t t, int64_t b)
{
	const struct net *net = w->net;
	int64_t row = t * net->B + b, H = net->m.H, width = net->m.D * H;
	const double *h = w->p->h + row * H;

	for (int64_t j = 0; j < H; j++) {
		int64_t k = w->d * H + j;

		if (w->layer + 1 == net->m.L)
			fake_put(net, fake_step_address(net, &net->y, t, b), k, h[j]);
		else
			w->saved->in[w->layer + 1][row * width + k] =
				net->rate > 0 ? fake_as_stored(net, h[j] * w->saved->factor[w->layer + 1][row * width + k]) : h[j];
	}
}

static void forward_layer(const struct net *net, const struct saved *saved, int64_t layer, int64_t d)
{
	struct layer_run w = fake_start(net, saved, layer, d);
	int64_t at = layer * net->m.D + d, H = net->m.H, U = net->m.U;

	for (int64_t b = 0; b < net->B; b++) {
		int64_t n = net->lengths[b], last = fake_time(d, n - 1, n) * net->B + b;

		for (int64_t j = 0; j < H; j++)
			w.p->h_first[b * H + j] = fake_get(net, net->hx, (at * net->B + b) * H + j);
		for (int64_t u = 0; u < U; u++)
			w.p->c_first[b * U + u] = fake_get(net, net->cx, (at * net->B + b) * U + u);
		for (int64_t s = 0; s < n; s++) {
			forward_step(&w, s, b);
			hand_on(&w, fake_time(d, s, n), b);
		}
		for (int64_t j = 0; j < H; j++)
			fake_put(net, net->hy, (at * net->B + b) * H + j, w.p->h[last * H + j]);
		for (int64_t u = 0; u < U; u++)
			fake_put(net, net->cy, (at * net->B + b) * U + u, w.p->c[last * U + u]);
	}
	fake_finish(&w);
}

static const double one_in_two_24 = 1.0 / (1 << 24);

/* The counter in the states of dropout grows from call to call; elements in the padding are counted, too. */
static void draw_masks(const struct net *net, const struct saved *saved)
{
	uint64_t state;

	memcpy(&state, fake_data(net->states), sizeof state);
	for (int64_t l = 1; l < net->m.L; l++)
		for (int64_t k = 0; k < net->T * net->B * net->m.D * net->m.H; k++) {
			uint64_t word = state += UINT64_C(0x9e3779b97f4a7c15);

			word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
			word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
			saved->factor[l][k] = (double)(word >> 40) * one_in_two_24 < net->rate ? 0 : 1 / (1 - net->rate);
		}
	memcpy(fake_data(net->states), &state, sizeof state);
}

static int reach_forward(const struct net *net)
{
	int code = fake_reach_lengths(net);

	if (!code)
		code = fake_reach_sequence(net, &net->x, READ_WRITTEN);
	if (!code)
		code = fake_reach_weights(net, net->weights, READ_WRITTEN);
	if (!code)
		code = fake_reach_state(net, net->hx, net->m.H, READ_WRITTEN);
	if (!code)
		code = fake_reach_state(net, net->cx, net->m.U, READ_WRITTEN);
	if (!code && net->states)
		code = fake_reach(net->call, net->states, sizeof(uint64_t), READ_WRITTEN);
	if (!code)
		code = fake_reach_work(net);
	if (!code && net->reserve)
		code = fake_reach(net->call, net->reserve, net->reserve_bytes, WRITE);
	if (!code)
		code = fake_reach_sequence(net, &net->y, WRITE);
	if (!code)
		code = fake_reach_state(net, net->hy, net->m.H, WRITE);
	return code ? code : fake_reach_state(net, net->cy, net->m.U, WRITE);
}

int fake_net_forward(void *data)
{
	const struct net *net = data;
	int code = reach_forward(net);
	struct saved saved;
	void *memory;

	if (code)
		return code;
	memory = net->reserve ? fake_data(net->reserve) : malloc(net->reserve_bytes);
	if (!memory)
		abort();
	if (net->nan_first)
		memset(memory, 0xff, net->reserve_bytes);
	fake_saved_open(&saved, &net->m, net->T, net->B, memory);
	*saved.stamp = (struct stamp){
		DNN_MARK, fake_stamp_of(net), fake_sequence_sum(net, &net->x), fake_bytes_sum(net->hx, fake_state_bytes(net, net->m.H)),
		fake_bytes_sum(net->cx, fake_state_bytes(net, net->m.U)), fake_weights_sum(net), FORWARD_DONE, net->rate > 0, { 0 },
	};
	fake_read_sequence(net, &net->x, saved.in[0]);
	if (net->rate > 0)
		draw_masks(net, &saved);
	for (int64_t p = 0; p < net->m.L * net->m.D; p++)
		forward_layer(net, &saved, p / net->m.D, p % net->m.D);
	fake_fill_padding(net, &net->y, net->y.fills);
	fake_saved_close(&saved);
	if (!net->reserve)
		free(memory);
	return 0;
}
