/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcudnn: checked access to memory while work runs, and the steps of a layer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn_net.h"

/* ---- memory, when the work runs ---- */

static size_t element(const struct net *net)
{
	return fake_type_bytes((unsigned)net->m.type);
}

/* Checks access to a sequence: to the valid steps of an input or of a packed output, and to all steps, with the padding, of any other
   output. */
int fake_reach_sequence(const struct net *net, const struct sequence *s, int how)
{
	int code = 0;

	for (int64_t b = 0; b < net->B; b++) {
		int64_t n = how == WRITE && s->layout != SEQ_MAJOR_PACKED ? net->T : net->lengths[b];

		for (int64_t t = 0; t < n && !code; t++)
			code = fake_reach(net->call, fake_step_address(net, s, t, b), (size_t)s->width * element(net), how);
	}
	return code;
}

int fake_reach_state(const struct net *net, uint64_t at, int64_t width, int how)
{
	return at ? fake_reach(net->call, at, (size_t)(net->m.L * net->m.D * net->B * width) * element(net), how) : 0;
}

int fake_reach_weights(const struct net *net, uint64_t at, int how)
{
	int code = 0;

	for (int p = 0; p < net->m.L * net->m.D; p++)
		for (int k = 0; k < 2 * fake_ids(&net->m) && !code; k++) {
			struct region r = fake_region(&net->m, p, k / 2, k % 2);

			code = fake_reach(net->call, at + (size_t)r.offset * element(net), (size_t)(r.rows * r.columns) * element(net), how);
		}
	return code;
}

/* Checks the workspace and fills it with NaNs, since its contents are undefined. */
int fake_reach_work(const struct net *net)
{
	int code = fake_reach(net->call, net->work, net->work_bytes, WRITE);

	if (!code)
		memset(fake_data(net->work), 0xff, net->work_bytes);
	return code;
}

/* Checks the device's copy of the lengths, if this version of cuDNN reads it. */
int fake_reach_lengths(const struct net *net)
{
	size_t bytes = (size_t)net->B * sizeof *net->lengths;
	int code;

	if (!net->lengths_at)
		return 0;
	code = fake_reach(net->call, net->lengths_at, bytes, READ_WRITTEN);
	if (!code && memcmp(fake_data(net->lengths_at), net->lengths, bytes)) {
		fake_report("%s: the device's lengths are not those of the descriptors", net->call);
		code = LAUNCH_FAILED;
	}
	return code;
}

double fake_get(const struct net *net, uint64_t at, int64_t k)
{
	return at ? fake_load(fake_data(at), (size_t)k, net->m.type) : 0;
}

void fake_put(const struct net *net, uint64_t at, int64_t k, double x)
{
	if (at)
		fake_store(fake_data(at), (size_t)k, x, net->m.type);
}

double fake_as_stored(const struct net *net, double x)
{
	double stored = 0;

	fake_store(&stored, 0, x, net->m.type);
	return fake_load(&stored, 0, net->m.type);
}

double *fake_alloc(int64_t n)
{
	double *at = calloc((size_t)n + 1, sizeof *at);

	if (!at)
		abort();
	return at;
}

/* Fills padding with the fill value, or, without one, with NaNs, since the padding is then undefined. */
void fake_fill_padding(const struct net *net, const struct sequence *s, int fills)
{
	if (s->layout == SEQ_MAJOR_PACKED)
		return;
	for (int64_t b = 0; b < net->B; b++)
		for (int64_t t = net->lengths[b]; t < net->T; t++)
			for (int64_t j = 0; j < s->width; j++)
				fake_put(net, fake_step_address(net, s, t, b), j, fills ? s->fill : NAN);
}

void fake_read_sequence(const struct net *net, const struct sequence *s, double *to)
{
	for (int64_t b = 0; b < net->B; b++)
		for (int64_t t = 0; t < net->lengths[b]; t++)
			for (int64_t j = 0; j < s->width; j++)
				to[(t * net->B + b) * s->width + j] = fake_get(net, fake_step_address(net, s, t, b), j);
}

size_t fake_state_bytes(const struct net *net, int64_t width)
{
	return (size_t)(net->m.L * net->m.D * net->B * width) * element(net);
}

/* ---- one direction of one layer ---- */

struct layer_run fake_start(const struct net *net, const struct saved *saved, int64_t layer, int64_t d)
{
	int64_t at = layer * net->m.D + d, gates = net->m.gates * net->m.U;
	struct layer_run layer_run = {
		.net = net, .saved = saved, .p = &saved->pseudo[at], .layer = layer, .d = d, .in = fake_width(&net->m, layer)
	};

	if (net->weights)
		layer_run.w = fake_weights(net, (int)at);
	layer_run.a = fake_alloc(gates);
	layer_run.r = fake_alloc(gates);
	return layer_run;
}

void fake_finish(struct layer_run *layer_run)
{
	if (layer_run->net->weights)
		free(layer_run->w.w);
	free(layer_run->a);
	free(layer_run->r);
}

/* Returns pointers to the values of step s of row b, and to those of the step before it. */
struct step fake_step(const struct layer_run *w, int64_t s, int64_t b)
{
	const struct net *net = w->net;
	int64_t n = net->lengths[b], row = fake_time(w->d, s, n) * net->B + b, U = net->m.U;
	int64_t before = s ? fake_time(w->d, s - 1, n) * net->B + b : -1;

	return (struct step){
		w->p->gate + row * net->m.gates * U, w->p->q + row * U, w->p->c + row * U, w->p->m + row * U,
		s ? w->p->h + before * net->m.H : w->p->h_first + b * net->m.H, s ? w->p->c + before * U : w->p->c_first + b * U,
	};
}
