/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts calls of more steps than cuDNN takes at once into ranges of steps, which run one after the other.  The final states of a range are
 * the initial states of the next; training saves them behind the reserve spaces of all ranges.  The backward pass goes through the ranges
 * from the last to the first.  A bidirectional network's call of more steps than cuDNN takes at once cannot be cut in this way: the call
 * runs on route composed, or fails if the caller named route cudnn.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"

/* The number of ranges into which a call of T steps is cut.  T = 0 gives one range without steps. */
static int64_t count(int64_t T)
{
	return T <= CG_DNN_STEPS ? 1 : (T + CG_DNN_STEPS - 1) / CG_DNN_STEPS;
}

int cg_dnn_declines(const struct cg_net *net, int64_t T, char why[CG_WHY_NOT])
{
	if (T <= CG_DNN_STEPS || net->rnn->directions == 1)
		return 0;
	snprintf(why, CG_WHY_NOT, "more than %d steps in both directions", CG_DNN_STEPS);
	return 1;
}

/* ---- a range ---- */

static int64_t first_of(int64_t k)
{
	return k * CG_DNN_STEPS;
}

static int64_t steps_of(int64_t T, int64_t k)
{
	return T - first_of(k) < CG_DNN_STEPS ? T - first_of(k) : CG_DNN_STEPS;
}

/* Makes the k-th range of a call.  scratch: memory [B] for the lengths within the range. */
static struct cg_dnn_range range_of(const struct cg_net *net, int64_t T, int64_t B, const int32_t *lengths, int64_t k,
                                    int32_t *scratch)
{
	int64_t first = first_of(k), steps = steps_of(T, k);
	struct cg_dnn_range range = { .T = steps, .B = B, .lengths = lengths, .whole = steps };

	if (count(T) > 1 && !net->rnn->time_major) {
		range.first = first;
		range.whole = T;
	}
	for (int64_t b = 0; b < B && scratch; b++)
		scratch[b] = (int32_t)(lengths[b] <= first ? 0 : lengths[b] - first < steps ? lengths[b] - first : steps);
	if (scratch)
		range.lengths = scratch;
	return range;
}

/* Allocates scratch for the lengths of ranges.  The scratch stays NULL if a call has no lengths or no rows, or has one range, whose lengths
 * are those of the call. */
static int open_lengths(int64_t T, int64_t B, const int32_t *lengths, int32_t **scratch)
{
	*scratch = NULL;
	if (!lengths || !B || count(T) == 1)
		return CG_OK;
	*scratch = cg_memory(NULL, (size_t)B * sizeof **scratch);
	return *scratch ? CG_OK : CG_NO_MEMORY;
}

/* ---- memory ---- */

static int is_lstm(const struct cg_net *net)
{
	return net->cell == CUDNN_LSTM;
}

struct states { struct cg_mem h, c; };

/* The states between two ranges, in the caller's layout. */
static struct states carve_states(const struct cg_net *net, int64_t B, struct cg_work *work)
{
	size_t bytes = cg_dtype_bytes(net->rnn->dtype);
	struct states s = { .h = cg_work_alloc(work, cg_dnn_states(net->rnn) * B, net->rnn->H, bytes) };

	if (is_lstm(net))
		s.c = cg_work_alloc(work, cg_dnn_states(net->rnn) * B, net->rnn->U, bytes);
	return s;
}

/* The number of sets of states between ranges; in the backward pass these are sets of gradients of states.  One set is at the beginning of
 * a range, the other at the range's end, and the sets swap their roles from range to range. */
enum { TURNS = 2 };

static struct cg_mem carve_bytes(struct cg_work *work, size_t bytes)
{
	return cg_work_alloc(work, 1, (int64_t)bytes, 1);
}

/* ---- the amount of memory ---- */

static size_t most(size_t a, size_t b)
{
	return a > b ? a : b;
}

static void add(size_t *sum, size_t bytes)
{
	if (__builtin_add_overflow(*sum, bytes, sum))
		*sum = SIZE_MAX;
}

/* Adds the bytes of the states between ranges, which lie behind the reserve spaces of all ranges, and behind the workspace of one range. */
static void add_states(const struct cg_net *net, int64_t T, int64_t B, struct cg_net_sizes *sizes)
{
	struct cg_work one = { .used = 0 };

	if (count(T) == 1)
		return;
	carve_states(net, B, &one);
	for (int64_t k = 1; k < count(T) && net->rnn->training; k++)
		add(&sizes->reserve, one.used);
	for (int k = 0; k < TURNS; k++) {
		add(&sizes->forward, one.used);
		add(&sizes->backward, net->rnn->training ? one.used : 0);
	}
}

static int needs_of_all(struct cg_net *net, int64_t T, int64_t B, const int32_t *lengths, int32_t *scratch, struct cg_net_sizes *sizes)
{
	memset(sizes, 0, sizeof *sizes);
	for (int64_t k = 0; k < count(T); k++) {
		struct cg_dnn_range range = range_of(net, T, B, lengths, k, scratch);
		struct cg_net_sizes one = { .forward = 0 };

		CG_TRY(cg_dnn_range_needs(net, &range, &one));
		sizes->forward = most(sizes->forward, one.forward);
		sizes->backward = most(sizes->backward, one.backward);
		add(&sizes->reserve, one.reserve);
	}
	add_states(net, T, B, sizes);
	return CG_OK;
}

static int needs(struct cg_net *net, int64_t T, int64_t B, const int32_t *lengths, struct cg_net_sizes *sizes)
{
	int32_t *scratch;
	int code;

	CG_TRY(open_lengths(T, B, lengths, &scratch));
	pthread_mutex_lock(net->device->lock);
	code = needs_of_all(net, T, B, lengths, scratch, sizes);
	pthread_mutex_unlock(net->device->lock);
	cg_memory(scratch, 0);
	return code;
}

int cg_dnn_needs(struct cg_net *net, int64_t T, int64_t B, const int32_t *lengths, struct cg_net_sizes *sizes)
{
	CU_INSIDE(net->device, needs(net, T, B, lengths, sizes));
}

/* ---- calls ---- */

struct split_call {
	struct cg_queue *queue;
	struct cg_net *net;
	const struct cg_rnn_call *call;          /* the whole call */
	int pass;
	int64_t n;                               /* the number of ranges */
	int32_t *scratch;
	struct cg_mem work;
	struct states turns[TURNS];
	/* offsets in the call's reserve space.  reserve: of the running range's own reserve space; saved: of the states between ranges */
	size_t reserve, saved;
};

/* Cuts time-major memory to the steps of a range. */
static struct cg_mem cut(const struct split_call *w, struct cg_mem mem, const struct cg_dnn_range *range, int64_t k, int64_t width)
{
	size_t step = (size_t)(range->B * width) * cg_dtype_bytes(w->net->rnn->dtype);

	if (!cg_present(mem) || !w->net->rnn->time_major)
		return mem;
	return cg_part(mem, (size_t)first_of(k) * step, (size_t)range->T * step);
}

/* The memory of the initial states of range k, which is at least 1: in the reserve space, or, without training, one of two sets in the
 * workspace. */
static struct states begins(const struct split_call *w, int64_t k)
{
	struct cg_work one = { .used = 0 }, saved = { .mem = w->call->reserve };

	if (!w->net->rnn->training)
		return w->turns[k % TURNS];
	carve_states(w->net, w->call->B, &one);
	saved.used = w->saved + (size_t)(k - 1) * one.used;
	return carve_states(w->net, w->call->B, &saved);
}

static struct cg_rnn_call call_of(struct split_call *w, const struct cg_dnn_range *range, int64_t k, size_t reserve_bytes)
{
	const struct cg_network *rnn = w->net->rnn;
	struct cg_rnn_call c = *w->call;
	int64_t wide = cg_dnn_wide(rnn);

	c.T = range->T;
	c.lengths = range->lengths;
	c.first_step += first_of(k);
	c.input = cut(w, c.input, range, k, rnn->I);
	c.output = cut(w, c.output, range, k, wide);
	c.output_backprop = cut(w, c.output_backprop, range, k, wide);
	c.input_backprop = cut(w, c.input_backprop, range, k, rnn->I);
	if (rnn->training)
		c.reserve = cg_part(c.reserve, w->reserve, reserve_bytes);
	if (k > 0) {
		c.input_h = begins(w, k).h;
		c.input_c = begins(w, k).c;
	}
	return c;
}

static void pass_on(struct split_call *w, int64_t k, struct cg_rnn_call *c)
{
	if (w->pass == CG_FORWARD && k + 1 < w->n) {
		c->output_h = begins(w, k + 1).h;
		c->output_c = begins(w, k + 1).c;
	}
	if (w->pass == CG_FORWARD)
		return;
	/* Backward runs the last range first: that range begins the gradient of the parameters, and every other range adds to the gradient. */
	c->accumulate |= k + 1 < w->n;
	if (k + 1 < w->n) {
		c->output_h_backprop = w->turns[(k + 1) % TURNS].h;
		c->output_c_backprop = w->turns[(k + 1) % TURNS].c;
	}
	if (k > 0) {
		c->input_h_backprop = w->turns[k % TURNS].h;
		c->input_c_backprop = w->turns[k % TURNS].c;
	}
}

static struct cg_dnn_range range_at(const struct split_call *w, int64_t k)
{
	return range_of(w->net, w->call->T, w->call->B, w->call->B ? w->call->lengths : NULL, k, w->scratch);
}

static int sizes_of(const struct split_call *w, int64_t k, struct cg_net_sizes *sizes)
{
	struct cg_dnn_range s = range_at(w, k);
	int code;

	pthread_mutex_lock(w->net->device->lock);
	code = cg_dnn_range_needs(w->net, &s, sizes);
	pthread_mutex_unlock(w->net->device->lock);
	return code;
}

static int run_range(struct split_call *w, int64_t k)
{
	struct cg_net_sizes sizes;
	struct cg_dnn_range s;
	struct cg_rnn_call c;

	CG_TRY(sizes_of(w, k, &sizes));
	s = range_at(w, k);
	if (w->pass != CG_FORWARD)
		w->reserve -= sizes.reserve;
	c = call_of(w, &s, k, sizes.reserve);
	pass_on(w, k, &c);
	CG_TRY(cg_dnn_range_run(w->queue, w->net, w->pass, &s, &c, w->work));
	if (w->pass == CG_FORWARD)
		w->reserve += sizes.reserve;
	return CG_OK;
}

/* Lays out the states between ranges: behind the workspace of a range the two sets that swap roles, behind the reserve spaces of all
 * ranges the saved states. */
static int lay_out_states(struct split_call *w, struct cg_mem work)
{
	struct cg_work carved = { .mem = work };
	size_t bytes = 0;

	for (int64_t k = 0; k < w->n; k++) {
		struct cg_net_sizes one;

		CG_TRY(sizes_of(w, k, &one));
		bytes = most(bytes, w->pass == CG_FORWARD ? one.forward : one.backward);
		w->saved += one.reserve;
	}
	w->work = carve_bytes(&carved, bytes);
	for (int k = 0; k < TURNS; k++)
		w->turns[k] = carve_states(w->net, w->call->B, &carved);
	w->reserve = w->pass == CG_FORWARD ? 0 : w->saved;
	return CG_OK;
}

/* Clears the memory of the saved states with the gaps between them, so that equal calls leave equal reserve spaces. */
static int clear_saved(struct split_call *w)
{
	struct cg_work one = { .used = 0 };
	struct cg_mem all;

	carve_states(w->net, w->call->B, &one);
	all = cg_part(w->call->reserve, w->saved, (size_t)(w->n - 1) * one.used);
	CU_TRY(w->queue->device, MemsetD8Async, cg_cu_address(all), 0, all.bytes, w->queue->stream);
	return CG_OK;
}

static int run_ranges(struct split_call *w, struct cg_mem work)
{
	CG_TRY(lay_out_states(w, work));
	if (w->pass == CG_FORWARD && w->net->rnn->training)
		CG_TRY(clear_saved(w));
	for (int64_t k = 0; k < w->n; k++)
		CG_TRY(run_range(w, w->pass == CG_FORWARD ? k : w->n - 1 - k));
	return CG_OK;
}

static int run_call(struct cg_queue *queue, struct cg_net *net, int pass, const struct cg_rnn_call *call, struct cg_mem work)
{
	struct split_call w = { .queue = queue, .net = net, .call = call, .pass = pass, .n = count(call->T) };
	struct cg_dnn_range all = range_at(&w, 0);
	int code;

	if (w.n == 1)
		return cg_dnn_range_run(queue, net, pass, &all, call, work);
	CG_TRY(open_lengths(call->T, call->B, call->lengths, &w.scratch));
	code = run_ranges(&w, work);
	cg_memory(w.scratch, 0);
	return code;
}

int cg_dnn_forward(struct cg_queue *queue, struct cg_net *net, const struct cg_rnn_call *call, struct cg_mem work)
{
	CU_INSIDE(queue->device, run_call(queue, net, CG_FORWARD, call, work));
}

int cg_dnn_backward(struct cg_queue *queue, struct cg_net *net, const struct cg_rnn_call *call, struct cg_mem work)
{
	CU_INSIDE(queue->device, run_call(queue, net, CG_GRAD, call, work));
}
