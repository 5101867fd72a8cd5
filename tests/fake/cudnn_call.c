/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcudnn: the three calls that compute, and the checks of their arguments. */
#include <stdlib.h>
#include <string.h>

#include "cudnn.h"

/* The arguments that all three calls have. */
struct given {
	const char *call;
	struct dnn *handle;
	struct rnn *rnn;
	struct data *x, *y;
	struct tensor *h, *c;
	const void *lengths, *weights, *work, *reserve;
	size_t weight_bytes, work_bytes, reserve_bytes;
	int training, backward, without_c;
};

/* ---- descriptors ---- */

static int has_c(const struct given *g)
{
	return g->rnn->model.cell == LSTM && !g->without_c;
}

static int check_descriptors(const struct given *g)
{
	const char *call = g->call;

	if (!fake_dnn_handle(call, g->handle) || !fake_dnn_set(call, DNN_RNN, g->rnn) || !fake_dnn_set(call, DNN_DATA, g->x) ||
	    !fake_dnn_set(call, DNN_DATA, g->y) || !fake_dnn_set(call, DNN_TENSOR, g->h) ||
	    !fake_dnn_set(call, DNN_DROPOUT, g->rnn->dropout) || !fake_stream(call, g->handle->stream))
		return fake_dnn_bad(call);
	return has_c(g) && !fake_dnn_set(call, DNN_TENSOR, g->c) ? fake_dnn_bad(call) : 0;
}

static int is_ragged(const struct data *x)
{
	int n = 0;

	for (int b = 0; b < x->B; b++)
		n += x->lengths[b] != x->T;
	return n != 0;
}

static int check_data(const struct given *g)
{
	const struct data *x = g->x, *y = g->y;
	const struct model *m = &g->rnn->model;

	if (x->type != g->rnn->dnn_type || y->type != x->type || x->width != m->I || y->width != m->D * m->H)
		return fake_dnn_wrong(g->call, "x of type %d and width %d, y of type %d and width %d, for type %d, %lld and %lld", x->type,
		                      x->width, y->type, y->width, g->rnn->dnn_type, (long long)m->I, (long long)(m->D * m->H));
	if (x->layout != y->layout || x->T != y->T || x->B != y->B || memcmp(x->lengths, y->lengths, (size_t)x->B * sizeof *x->lengths))
		return fake_dnn_wrong(g->call, "x and y differ in layout, steps, rows or lengths");
	if (m->skip && x->width != m->U)
		return fake_dnn_wrong(g->call, "an input of %d that is to skip to %lld units", x->width, (long long)m->U);
	if ((x->layout == BATCH_MAJOR_UNPACKED || (x->layout != SEQ_MAJOR_PACKED && is_ragged(x))) && !(g->rnn->flags & PADDED_IO))
		return fake_dnn_wrong(g->call, "padding in x and y without CUDNN_RNN_PADDED_IO_ENABLED");
	return 0;
}

static int check_state(const struct given *g, const char *name, const struct tensor *t, int64_t width)
{
	const struct model *m = &g->rnn->model;
	int64_t layers = m->L * m->D, B = g->x->B;

	if (t->type == g->rnn->dnn_type && t->n == 3 && t->dims[0] == layers && t->dims[1] == B && t->dims[2] == width &&
	    t->strides[0] == B * width && t->strides[1] == width && t->strides[2] == 1)
		return 0;
	return fake_dnn_wrong(g->call, "%s: type %d, %d dimensions %d %d %d by %d %d %d, expected type %d and %lld %lld %lld, packed", name,
	                      t->type, t->n, t->dims[0], t->dims[1], t->dims[2], t->strides[0], t->strides[1], t->strides[2],
	                      g->rnn->dnn_type, (long long)layers, (long long)B, (long long)width);
}

/* ---- memory ---- */

/* Checks a buffer of the caller's: it has the needed size and alignment, belongs to the context and is not freed. */
static int check_memory(const struct given *g, const char *what, const void *at, size_t given, size_t needed, size_t alignment)
{
	if (!at || given < needed)
		return fake_dnn_wrong(g->call, "%s: %zu bytes at %p, expected %zu", what, given, at, needed);
	if ((uintptr_t)at % alignment)
		return fake_dnn_wrong(g->call, "%s: %p is no multiple of %zu", what, at, alignment);
	return fake_owned(g->call, what, g->handle->context, (uintptr_t)at, needed) ? fake_dnn_bad(g->call) : 0;
}

/* Checks weights, a workspace or a reserve: the memory must have all bytes that the caller promised, even if the call needs fewer. */
static int check_space(const struct given *g, const char *what, const void *at, size_t given, size_t needed, size_t alignment)
{
	int code = check_memory(g, what, at, given, needed, alignment);

	if (!code && fake_owned(g->call, what, g->handle->context, (uintptr_t)at, given))
		code = fake_dnn_bad(g->call);
	return code;
}

/* Since cuDNN 8.9.1 the device's copy of the lengths may be absent. */
static int check_lengths(const struct given *g)
{
	size_t bytes = (size_t)g->x->B * sizeof(int32_t);

	if (!g->lengths && fake_dnn_version() >= 80901)
		return 0;
	return check_memory(g, "the device's lengths", g->lengths, bytes, bytes, sizeof(int32_t));
}

static int check(const struct given *g)
{
	const struct model *m;
	int code = check_descriptors(g);

	if (code)
		return code;
	m = &g->rnn->model;
	code = check_data(g);
	if (!code)
		code = check_state(g, "h", g->h, m->H);
	if (!code && has_c(g))
		code = check_state(g, "c", g->c, m->U);
	if (!code)
		code = fake_persists(g->call, g->rnn, g->x, g->backward);
	if (!code)
		code = check_lengths(g);
	if (!code)
		code = check_space(g, "weights", g->weights, g->weight_bytes, fake_weight_bytes(m), fake_type_bytes((unsigned)m->type));
	if (!code)
		code = check_space(g, "work", g->work, g->work_bytes, fake_work_bytes(m, g->x), WORK_ALIGNMENT);
	if (!code && g->training)
		code = check_space(g, "reserve", g->reserve, g->reserve_bytes, fake_reserve_bytes(m, g->x->T, g->x->B), WORK_ALIGNMENT);
	return code;
}

/* ---- the work that is queued ---- */

static struct sequence sequence_of(const struct data *data, const void *at)
{
	return (struct sequence){ (uintptr_t)at, data->layout, data->fills, data->width, data->fill };
}

static struct net *net_of(const struct given *g)
{
	size_t bytes = (size_t)g->x->B * sizeof(int);
	struct net *net = calloc(1, sizeof *net + bytes);

	if (!net)
		abort();
	*net = (struct net){
		.call = g->call, .m = g->rnn->model, .training = g->training, .backward = g->backward,
		.destroys = fake_dnn_chance("DESTROY", CHANCE_DESTROY), .nan_first = fake_dnn_chance("NAN", CHANCE_NAN),
		.T = g->x->T, .B = g->x->B,
		.lengths_at = fake_dnn_version() < 80901 ? (uintptr_t)g->lengths : 0,
		.work = (uintptr_t)g->work, .work_bytes = fake_work_bytes(&g->rnn->model, g->x),
		.reserve = g->training ? (uintptr_t)g->reserve : 0, .reserve_bytes = fake_reserve_bytes(&g->rnn->model, g->x->T, g->x->B),
	};
	memcpy(net->lengths, g->x->lengths, bytes);
	if (g->training && net->m.L > 1 && g->rnn->dropout->rate > 0) {
		net->rate = g->rnn->dropout->rate;
		net->states = g->rnn->dropout->states;
	}
	return net;
}

/* check_sequence() and check_states() check, at the call, the memory of a sequence and of states; a state may be absent. */
static int check_sequence(const struct given *g, const char *what, const struct data *data, const void *at)
{
	size_t rows = 0, element = fake_type_bytes((unsigned)g->rnn->model.type);

	for (int b = 0; b < data->B; b++)
		rows += (size_t)(data->layout == SEQ_MAJOR_PACKED ? data->lengths[b] : data->T);
	rows *= (size_t)data->width * element;
	return check_memory(g, what, at, rows, rows, element);
}

struct state { const char *name; const void *at; int64_t width; };

static int check_states(const struct given *g, const struct state *states)
{
	const struct model *m = &g->rnn->model;
	size_t element = fake_type_bytes((unsigned)m->type);
	int code = 0;

	for (const struct state *s = states; s->name && !code; s++) {
		size_t bytes = (size_t)(m->L * m->D * g->x->B * s->width) * element;

		if (s->at)
			code = check_memory(g, s->name, s->at, bytes, bytes, element);
	}
	return code;
}

static uint64_t addresses(const struct net *n)
{
	return n->x.at | n->y.at | n->dy.at | n->dx.at | n->hx | n->hy | n->cx | n->cy | n->dhy | n->dhx | n->dcy | n->dcx | n->weights |
	       n->dweights;
}

/*
 * The cuBLAS inside cuDNN also chooses a kernel by the alignment of a product's operands. With the default workspaces of cuBLAS, from CUDA
 * 10.2 on, the sums of networks may not even repeat: NVIDIA's notes on cuDNN say so, and name two values of the variable
 * CUBLAS_WORKSPACE_CONFIG that make them repeat.
 */
static int order_of(const struct net *n)
{
	const char *config = getenv("CUBLAS_WORKSPACE_CONFIG");
	uint64_t all = addresses(n) | 16;

	if (config && (!strcmp(config, ":16:8") || !strcmp(config, ":4096:2")))
		return fake_order(all & -all);
	return fake_random(2) ? fake_order(all & -all) : fake_order(2);
}

/*
 * A static persistent kernel loads 16 bytes at a time without an alternative: ampere_lstm_tile16 has 24 LDG.E.128 and 9
 * LDG.E.128.STRONG.GPU in libcudnn_adv.so.9 of version 9.26, for sm_90a.  The kernels for small networks were not examined: the stand-in
 * assumes that they load 16 bytes at a time, too.
 */
static int is_misaligned(const struct net *n)
{
	return addresses(n) % 16 != 0;
}

static int misaligned(void *data)
{
	fake_report("%s: a persistent kernel was given memory that is no multiple of 16", ((const struct net *)data)->call);
	return MISALIGNED_ADDRESS;
}

static int enqueue(const struct given *g, int (*run)(void *), struct net *net)
{
	if ((g->rnn->algorithm == PERSIST_STATIC || g->rnn->algorithm == PERSIST_SMALL_H) && is_misaligned(net))
		run = misaligned;
	net->m.order = order_of(net);
	return fake_enqueue(g->call, fake_stream(g->call, g->handle->stream), run, net);
}

/* ---- the calls ---- */

FAKE_API int cudnnRNNForward(struct dnn *handle, struct rnn *rnn, unsigned mode, const int32_t *lengths, struct data *x_data,
                             const void *x, struct data *y_data, void *y, struct tensor *h, const void *hx, void *hy,
                             struct tensor *c, const void *cx, void *cy, size_t weight_bytes, const void *weights,
                             size_t work_bytes, void *work, size_t reserve_bytes, void *reserve)
{
	const struct given g = { "cudnnRNNForward", handle, rnn, x_data, y_data, h, c, lengths, weights, work, reserve, weight_bytes,
		work_bytes, reserve_bytes, mode == TRAINING, 0, 0 };
	struct net *net;
	int code, is_lstm;

	DNN_CALL(cudnnRNNForward, NEEDS_CONTEXT);
	if (mode > TRAINING)
		return fake_dnn_wrong(g.call, "mode %u", mode);
	code = check(&g);
	if (code)
		return code;
	is_lstm = rnn->model.cell == LSTM;
	code = check_sequence(&g, "x", x_data, x);
	if (!code)
		code = check_sequence(&g, "y", y_data, y);
	if (!code)
		code = check_states(&g, (struct state[]){ { "hx", hx, rnn->model.H }, { "hy", hy, rnn->model.H },
			{ "cx", is_lstm ? cx : NULL, rnn->model.U }, { "cy", is_lstm ? cy : NULL, rnn->model.U }, { NULL, NULL, 0 } });
	if (code)
		return code;
	net = net_of(&g);
	net->x = sequence_of(x_data, x);
	net->y = sequence_of(y_data, y);
	net->weights = (uintptr_t)weights;
	net->hx = (uintptr_t)hx;
	net->hy = (uintptr_t)hy;
	net->cx = is_lstm ? (uintptr_t)cx : 0;
	net->cy = is_lstm ? (uintptr_t)cy : 0;
	return enqueue(&g, fake_net_forward, net);
}

FAKE_API int cudnnRNNBackwardData_v8(struct dnn *handle, struct rnn *rnn, const int32_t *lengths, struct data *y_data, const void *y,
                                     const void *dy, struct data *x_data, void *dx, struct tensor *h, const void *hx,
                                     const void *dhy, void *dhx, struct tensor *c, const void *cx, const void *dcy, void *dcx,
                                     size_t weight_bytes, const void *weights, size_t work_bytes, void *work,
                                     size_t reserve_bytes, void *reserve)
{
	const struct given g = { "cudnnRNNBackwardData_v8", handle, rnn, x_data, y_data, h, c, lengths, weights, work, reserve,
		weight_bytes, work_bytes, reserve_bytes, 1, 1, 0 };
	struct net *net;
	int code, is_lstm;

	DNN_CALL(cudnnRNNBackwardData_v8, NEEDS_CONTEXT);
	code = check(&g);
	if (code)
		return code;
	is_lstm = rnn->model.cell == LSTM;
	code = check_sequence(&g, "y", y_data, y);
	if (!code)
		code = check_sequence(&g, "dy", y_data, dy);
	if (!code)
		code = check_sequence(&g, "dx", x_data, dx);
	if (!code)
		code = check_states(&g, (struct state[]){ { "hx", hx, rnn->model.H }, { "dhy", dhy, rnn->model.H },
			{ "dhx", dhx, rnn->model.H }, { "cx", is_lstm ? cx : NULL, rnn->model.U }, { "dcy", is_lstm ? dcy : NULL, rnn->model.U },
			{ "dcx", is_lstm ? dcx : NULL, rnn->model.U }, { NULL, NULL, 0 } });
	if (code)
		return code;
	net = net_of(&g);
	net->y = sequence_of(y_data, y);
	net->dy = sequence_of(y_data, dy);
	net->dx = sequence_of(x_data, dx);
	net->weights = (uintptr_t)weights;
	net->hx = (uintptr_t)hx;
	net->dhy = (uintptr_t)dhy;
	net->dhx = (uintptr_t)dhx;
	net->cx = is_lstm ? (uintptr_t)cx : 0;
	net->dcy = is_lstm ? (uintptr_t)dcy : 0;
	net->dcx = is_lstm ? (uintptr_t)dcx : 0;
	return enqueue(&g, fake_net_data, net);
}

/* cudnnRNNBackwardWeights_v8 has no argument for the cell state c. */
FAKE_API int cudnnRNNBackwardWeights_v8(struct dnn *handle, struct rnn *rnn, unsigned add, const int32_t *lengths, struct data *x_data,
                                        const void *x, struct tensor *h, const void *hx, struct data *y_data, const void *y,
                                        size_t weight_bytes, void *dweights, size_t work_bytes, void *work, size_t reserve_bytes,
                                        void *reserve)
{
	const struct given g = { "cudnnRNNBackwardWeights_v8", handle, rnn, x_data, y_data, h, NULL, lengths, dweights, work, reserve,
		weight_bytes, work_bytes, reserve_bytes, 1, 1, 1 };
	struct net *net;
	int code;

	DNN_CALL(cudnnRNNBackwardWeights_v8, NEEDS_CONTEXT);
	if (add) {
		fake_dnn_wrong(g.call, "mode %u, expected CUDNN_WGRAD_MODE_ADD", add);
		return fake_dnn_lacks(g.call, "mode %u", add);
	}
	code = check(&g);
	if (!code)
		code = check_sequence(&g, "x", x_data, x);
	if (!code)
		code = check_sequence(&g, "y", y_data, y);
	if (!code)
		code = check_states(&g, (struct state[]){ { "hx", hx, rnn->model.H }, { NULL, NULL, 0 } });
	if (code)
		return code;
	net = net_of(&g);
	net->x = sequence_of(x_data, x);
	net->y = sequence_of(y_data, y);
	net->hx = (uintptr_t)hx;
	net->dweights = (uintptr_t)dweights;
	return enqueue(&g, fake_net_weights, net);
}
