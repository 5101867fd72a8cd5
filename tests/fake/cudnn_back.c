/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in for libcudnn: gradients of data and of weights, in double, rounded where a kernel of cuDNN stores them: in f16 and
 * bf16 by the standard algorithm these are dgates, dh, dc and the gradient of the layer below.
 */
#include <stdlib.h>
#include <string.h>

#include "cudnn_net.h"

static int is_other(const struct net *net, const char *what, uint64_t was, uint64_t is)
{
	if (was != is)
		fake_report("%s: %s is not what cudnnRNNForward was given", net->call, what);
	return was != is;
}

/* Opens the reserve, which must be of a forward of the same network, sizes and lengths, and in the stage that the call needs. */
static int open_reserve(const struct net *net, int stage, struct saved *saved)
{
	struct stamp *stamp = fake_data(net->reserve);

	if (stamp->mark != DNN_MARK || stamp->model != fake_stamp_of(net)) {
		fake_report("%s: the reserve is of no forward, or of another one", net->call);
		return LAUNCH_FAILED;
	}
	if (stamp->stage != stage && !(stage == FORWARD_DONE && !net->destroys)) {
		fake_report(stage == DATA_DONE ? "%s: before cudnnRNNBackwardData_v8" : "%s: a second time from one reserve", net->call);
		return LAUNCH_FAILED;
	}
	fake_saved_open(saved, &net->m, net->T, net->B, stamp);
	return 0;
}

/* Reads h of the last layer from y, as cuDNN reads some values from y. */
static void read_y(const struct net *net, const struct saved *saved)
{
	int64_t H = net->m.H, top = (net->m.L - 1) * net->m.D;

	for (int64_t b = 0; b < net->B; b++)
		for (int64_t t = 0; t < net->lengths[b]; t++)
			for (int64_t k = 0; k < net->m.D * H; k++)
				saved->pseudo[top + k / H].h[(t * net->B + b) * H + k % H] = fake_get(net, fake_step_address(net, &net->y, t, b), k);
}

/* dh [H] is the gradient of h of the step on entry, and that of the previous step on return. */
static void back_step(const struct layer_run *w, int64_t s, int64_t b, double *dh, double *dc, double *d_in, double *scratch)
{
	const struct model *m = &w->net->m;
	int64_t row = fake_time(w->d, s, w->net->lengths[b]) * w->net->B + b, GU = m->gates * m->U;
	double *dm = scratch, *direct = scratch + m->U, *da = w->p->da + row * GU, *dq = w->p->dq + row * GU;
	struct step step = fake_step(w, s, b);

	if (m->P)
		fake_hand(m, dh, m->H);
	memcpy(w->p->dh + row * m->H, dh, (size_t)m->H * sizeof *dh);
	memset(dm, 0, (size_t)m->U * sizeof *dm);
	if (m->P)
		fake_add_product(m, m->U, m->P, dh, w->w.p, dm);
	else
		memcpy(dm, dh, (size_t)m->U * sizeof *dm);
	if (m->P)
		fake_hand(m, dm, m->U);
	fake_cell_back(m, &step, dm, dc, da, dq, direct);
	fake_hand(m, da, GU);
	fake_hand(m, dq, GU);
	fake_hand(m, dc, m->U);
	fake_hand(m, direct, m->U);
	for (int64_t j = 0; j < m->H; j++)
		dh[j] = m->P ? 0 : direct[j];
	fake_add_product(m, m->H, GU, dq, w->w.r, dh);
	fake_hand(m, dh, m->H);
	if (m->skip && !w->layer)
		for (int64_t k = 0; k < GU; k++)
			d_in[row * w->in + k % m->U] += da[k];
	else
		fake_add_product(m, w->in, GU, da, w->w.w, d_in + row * w->in);
}

/* dy [T B, D H] is the gradient of the layer's output; the gradient of its input is added to d_in. */
static void back_layer(const struct net *net, const struct saved *saved, int64_t layer, int64_t d, const double *dy, double *d_in)
{
	struct layer_run w = fake_start(net, saved, layer, d);
	int64_t at = layer * net->m.D + d, H = net->m.H, U = net->m.U;
	double *dh = fake_alloc(H), *dc = fake_alloc(U), *scratch = fake_alloc(2 * U);

	for (int64_t b = 0; b < net->B; b++) {
		for (int64_t j = 0; j < H; j++)
			dh[j] = fake_get(net, net->dhy, (at * net->B + b) * H + j);
		for (int64_t u = 0; u < U; u++)
			dc[u] = fake_get(net, net->dcy, (at * net->B + b) * U + u);
		for (int64_t s = net->lengths[b] - 1; s >= 0; s--) {
			int64_t row = fake_time(d, s, net->lengths[b]) * net->B + b;

			for (int64_t j = 0; j < H; j++)
				dh[j] += dy[row * net->m.D * H + d * H + j];
			back_step(&w, s, b, dh, dc, d_in, scratch);
		}
		for (int64_t j = 0; j < H; j++)
			fake_put(net, net->dhx, (at * net->B + b) * H + j, dh[j]);
		for (int64_t u = 0; u < U; u++)
			fake_put(net, net->dcx, (at * net->B + b) * U + u, dc[u]);
	}
	free(dh);
	free(dc);
	free(scratch);
	fake_finish(&w);
}

static int reach_data(const struct net *net)
{
	int code = fake_reach_lengths(net);

	if (!code)
		code = fake_reach_sequence(net, &net->y, READ_WRITTEN);
	if (!code)
		code = fake_reach_sequence(net, &net->dy, READ_WRITTEN);
	if (!code)
		code = fake_reach_weights(net, net->weights, READ_WRITTEN);
	for (int k = 0; k < 4 && !code; k++)
		code = fake_reach_state(net, (uint64_t[]){ net->hx, net->dhy, net->cx, net->dcy }[k], k < 2 ? net->m.H : net->m.U, READ_WRITTEN);
	if (!code)
		code = fake_reach(net->call, net->reserve, net->reserve_bytes, READ_WRITTEN);
	if (!code)
		code = fake_reach_work(net);
	if (!code)
		code = fake_reach_sequence(net, &net->dx, WRITE);
	if (!code)
		code = fake_reach_state(net, net->dhx, net->m.H, WRITE);
	return code ? code : fake_reach_state(net, net->dcx, net->m.U, WRITE);
}

int fake_net_data(void *data)
{
	const struct net *net = data;
	int code = reach_data(net);
	struct saved saved;
	double *dy;

	if (!code)
		code = open_reserve(net, FORWARD_DONE, &saved);
	if (code)
		return code;
	is_other(net, "weights", saved.stamp->weights, fake_weights_sum(net));
	is_other(net, "hx", saved.stamp->hx, fake_bytes_sum(net->hx, fake_state_bytes(net, net->m.H)));
	is_other(net, "cx", saved.stamp->cx, fake_bytes_sum(net->cx, fake_state_bytes(net, net->m.U)));
	read_y(net, &saved);
	dy = fake_alloc(net->T * net->B * net->dy.width);
	fake_read_sequence(net, &net->dy, dy);
	for (int64_t l = net->m.L - 1; l >= 0; l--) {
		double *d_in = fake_alloc(net->T * net->B * fake_width(&net->m, l));

		for (int64_t d = 0; d < net->m.D; d++) {
			back_layer(net, &saved, l, d, dy, d_in);
			fake_hand(&net->m, d_in, net->T * net->B * fake_width(&net->m, l));
		}
		for (int64_t k = 0; l && saved.stamp->dropped && k < net->T * net->B * net->dy.width; k++)
			d_in[k] = fake_handed(&net->m, d_in[k] * saved.factor[l][k]);
		free(dy);
		dy = d_in;
	}
	for (int64_t b = 0; b < net->B; b++)
		for (int64_t t = 0; t < net->lengths[b]; t++)
			for (int64_t j = 0; j < net->dx.width; j++)
				fake_put(net, fake_step_address(net, &net->dx, t, b), j, dy[(t * net->B + b) * net->dx.width + j]);
	fake_fill_padding(net, &net->dx, 0);
	free(dy);
	saved.stamp->stage = DATA_DONE;
	fake_saved_close(&saved);
	return 0;
}

/* ---- the gradient of weights ---- */

static double operand(const struct net *net, double x)
{
	return net->m.narrow ? fake_rounded(x, 10, -126) : x;
}

/* Adds the products of a [rows] and b [columns] to the matrix `to` [rows, columns]: to[j, k] += a[j] b[k]. */
static void add_outer(const struct net *net, int64_t rows, int64_t columns, const double *a, const double *b, double *to)
{
	for (int64_t j = 0; j < rows; j++) {
		double x = operand(net, a[j]);

		for (int64_t k = 0; k < columns; k++)
			to[j * columns + k] += x * operand(net, b[k]);
	}
}

static void add_region(const struct net *net, int pseudo_layer, int id, int part, const double *sums)
{
	struct region r = fake_region(&net->m, pseudo_layer, id, part);

	for (int64_t k = 0; k < r.rows * r.columns; k++)
		fake_put(net, net->dweights, r.offset + k, fake_get(net, net->dweights, r.offset + k) + sums[k]);
}

/* Sums the gradients of a layer's weights over all steps and rows; `first`: the part of R's gradient from the first step of each row, whose
   previous h is the caller's. */
static void sum_layer(const struct layer_run *w, struct weights *sums, double *first)
{
	const struct net *net = w->net;
	int64_t GU = net->m.gates * net->m.U;

	for (int64_t b = 0; b < net->B; b++)
		for (int64_t s = 0; s < net->lengths[b]; s++) {
			int64_t row = fake_time(w->d, s, net->lengths[b]) * net->B + b;
			const double *da = w->p->da + row * GU, *dq = w->p->dq + row * GU;
			struct step step = fake_step(w, s, b);

			add_outer(net, GU, w->in, da, w->saved->in[w->layer] + row * w->in, sums->w);
			add_outer(net, GU, net->m.H, dq, step.h_prev, s ? sums->r : first);
			add_outer(net, net->m.P, net->m.U, w->p->dh + row * net->m.H, step.m, sums->p);
			for (int64_t k = 0; k < GU; k++) {
				sums->b_input[k] += da[k];
				sums->b_recurrent[k] += dq[k];
			}
		}
}

static void weights_of_layer(const struct net *net, const struct saved *saved, int64_t layer, int64_t d)
{
	struct layer_run w = fake_start(net, saved, layer, d);
	int64_t GU = net->m.gates * net->m.U, U = net->m.U, H = net->m.H, in = w.in;
	int at = (int)(layer * net->m.D + d), G = net->m.gates;
	struct weights sums = { .w = fake_alloc(GU * in), .r = fake_alloc(GU * H), .p = fake_alloc(net->m.P * U), .b_input = fake_alloc(GU),
		.b_recurrent = fake_alloc(GU) };
	double *first = fake_alloc(GU * H);

	sum_layer(&w, &sums, first);
	/* The two parts of R's gradient are rounded, and then added to dweights one after the other. */
	for (int64_t k = 0; k < GU * H; k++) {
		first[k] = fake_as_stored(net, first[k]);
		sums.r[k] = fake_as_stored(net, sums.r[k]);
	}
	for (int g = 0; g < G; g++) {
		if (layer || !net->m.skip)
			add_region(net, at, g, MATRIX, sums.w + g * U * in);
		add_region(net, at, G + g, MATRIX, first + g * U * H);
		add_region(net, at, G + g, MATRIX, sums.r + g * U * H);
		add_region(net, at, g, BIAS, sums.b_input + g * U);
		add_region(net, at, G + g, BIAS, sums.b_recurrent + g * U);
	}
	if (net->m.P)
		add_region(net, at, 2 * G, MATRIX, sums.p);
	free(sums.w);
	free(sums.r);
	free(first);
	free(sums.p);
	free(sums.b_input);
	free(sums.b_recurrent);
	fake_finish(&w);
}

static int reach_weights(const struct net *net)
{
	int code = fake_reach_lengths(net);

	if (!code)
		code = fake_reach_sequence(net, &net->x, READ_WRITTEN);
	if (!code)
		code = fake_reach_sequence(net, &net->y, READ_WRITTEN);
	if (!code)
		code = fake_reach_state(net, net->hx, net->m.H, READ_WRITTEN);
	if (!code)
		code = fake_reach(net->call, net->reserve, net->reserve_bytes, READ_WRITTEN);
	if (!code)
		code = fake_reach_work(net);
	/* The gradients are added to dweights, which must have been written. */
	return code ? code : fake_reach_weights(net, net->dweights, READ_WRITTEN);
}

int fake_net_weights(void *data)
{
	const struct net *net = data;
	int code = reach_weights(net);
	struct saved saved;

	if (!code)
		code = open_reserve(net, DATA_DONE, &saved);
	if (code)
		return code;
	is_other(net, "x", saved.stamp->x, fake_sequence_sum(net, &net->x));
	is_other(net, "hx", saved.stamp->hx, fake_bytes_sum(net->hx, fake_state_bytes(net, net->m.H)));
	read_y(net, &saved);
	for (int64_t p = 0; p < net->m.L * net->m.D; p++)
		weights_of_layer(net, &saved, p / net->m.D, p % net->m.D);
	fake_saved_close(&saved);
	if (net->destroys)
		memset(fake_data(net->reserve), 0xff, net->reserve_bytes);
	return 0;
}
