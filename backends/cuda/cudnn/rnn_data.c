/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes what depends on the sizes of a call: cuDNN's descriptors, the sizes of its memory, and index arrays that map steps, states and
 * batch rows.  cuDNN refuses a batch row without a step; if a call has such rows, cuDNN gets the other rows, gathered.  The steps of
 * sequences in batch-major order are gathered for a persistent algorithm, which needs time-major order.
 */
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"

enum { NO_DEVICE_LENGTHS_SINCE = 8901 };

int64_t cg_dnn_rows(const struct cg_dnn_shape *s)
{
	return s->T * s->live;
}

static int32_t length(const struct cg_dnn_shape *s, int64_t b)
{
	return s->lengths ? s->lengths[b] : (int32_t)s->T;
}

/* ---- which algorithm ---- */

/*
 * The functions from timed_cell() to choose_algorithm() decide whether one of cuDNN's persistent algorithms is faster than the standard
 * one.  A persistent algorithm keeps the recurrent weights in registers, for small networks or for some shapes in f16, and needs batch rows
 * of equal length.
 */

/* The cell whose measured times apply to the network: RNN_TANH also for RNN_RELU, which takes the same time. */
static unsigned timed_cell(const struct cg_net *net)
{
	return net->cell == CUDNN_RNN_RELU ? CUDNN_RNN_TANH : net->cell;
}

static int is_stacked(const struct cg_net *net)
{
	return net->rnn->layers > 1 || net->rnn->directions > 1;
}

/* Is the static algorithm faster than the standard one on a device of compute capability 8?  By PyTorch's measurements. */
static int suits_static_8(const struct cg_net *net, const struct cg_dnn_shape *s)
{
	int64_t U = net->rnn->U;

	if (net->device->minor == 6 || net->cell == CUDNN_GRU || is_stacked(net))
		return 0;
	if (U > 1024 || U % 128 || net->rnn->I % 128 || s->live % 8 || s->live > 128)
		return 0;
	return net->cell == CUDNN_LSTM || s->live < 96 || U < 896;
}

/*
 * Up to how many batch rows the static algorithm is faster than the standard one on a device of compute capability 9 or later.  The number
 * of batch rows is that of the first entry with the network's cell, with the network's `stacked` (1: several layers, or two directions),
 * and with at least as many units as the network has.  In addition, a number of batch rows above 8 must be a multiple of 8, and the units a
 * multiple of 32, or in a GRU of 128: the static algorithm takes several times as long for other sizes.  The numbers are from the table
 * `algorithms` of a report on an H200, tests/reports/2026-11-27-cuda-NVIDIA-H200-fast.md.
 */
static const struct { unsigned cell; int stacked; int64_t units, rows; } suited[] = {
	{ CUDNN_LSTM,     0, 1024, 128 }, { CUDNN_LSTM,     0, 1536, 16 }, { CUDNN_LSTM,     1, 512,  64 }, { CUDNN_LSTM,     1, 1024, 32 },
	{ CUDNN_GRU,      0, 256,  8   }, { CUDNN_GRU,      0, 1536, 16 }, { CUDNN_GRU,      1, 1024, 16 },
	{ CUDNN_RNN_TANH, 0, 895,  128 }, { CUDNN_RNN_TANH, 0, 1024, 88 }, { CUDNN_RNN_TANH, 0, 1536, 16 }, { CUDNN_RNN_TANH, 1, 1024, 128 },
};

static int suits_static_9(const struct cg_net *net, const struct cg_dnn_shape *s)
{
	int64_t U = net->rnn->U;

	if ((s->live > 8 && s->live % 8) || U % (net->cell == CUDNN_GRU ? 128 : 32))
		return 0;
	for (size_t k = 0; k < sizeof suited / sizeof *suited; k++)
		if (suited[k].cell == timed_cell(net) && suited[k].stacked == is_stacked(net) && U <= suited[k].units)
			return s->live <= suited[k].rows;
	return 0;
}

/* The static algorithm is for f16, and needs many multiprocessors, which hold a part of the recurrent weights each. */
static int suits_static(const struct cg_net *net, const struct cg_dnn_shape *s)
{
	const struct cg_dev *d = net->device;

	if (net->rnn->dtype != CG_F16 || d->major < 8 || d->units < 98)
		return 0;
	return d->major == 8 ? suits_static_8(net, s) : suits_static_9(net, s);
}

/* Is the algorithm for few units the fastest?  For a single batch row the static algorithm, where it suits, is faster than the algorithm
 * for few units, except in a GRU. */
static int suits_small(const struct cg_net *net, const struct cg_dnn_shape *s)
{
	int64_t most = net->rnn->training ? 128 : 192;

	if (s->live == 1 && net->cell != CUDNN_GRU && suits_static(net, s))
		return 0;
	return net->device->major >= 6 && net->rnn->U <= (timed_cell(net) == CUDNN_RNN_TANH ? 2 * most : most);
}

/* Are the states of each layer aligned?  If each layer is a call of cuDNN, a persistent algorithm needs each layer's states, which lie one
 * behind the other, at a multiple of 16 bytes. */
static int suits_states(const struct cg_net *net, const struct cg_dnn_shape *s)
{
	return net->n_segments == 1 || net->rnn->directions * s->live * net->rnn->U * (int64_t)cg_dtype_bytes(net->rnn->dtype) % 16 == 0;
}

static int choose_algorithm(const struct cg_net *net, const struct cg_dnn_shape *s)
{
	if (!suits_states(net, s))
		return 0;
	for (int k = net->segments[0].n_algorithms - 1; k > 0 && s->whole; k--) {
		unsigned algorithm = net->segments[0].algorithms[k].algorithm;

		if (net->n_segments > 1 && (net->segments[1].n_algorithms <= k || net->segments[1].algorithms[k].algorithm != algorithm))
			continue;
		if (algorithm == CUDNN_RNN_ALGO_PERSIST_STATIC ? suits_static(net, s) : suits_small(net, s))
			return k;
	}
	return 0;
}

/* ---- descriptors ---- */

static int make_data(const struct cg_net *net, const struct cg_dnn_shape *s, int64_t width, const int32_t *lengths, int is_output,
                     struct cudnnRNNDataStruct **data)
{
	int batch_major = !net->rnn->time_major && !s->compact;
	uint64_t zero = 0;

	CUDNN_TRY(CreateRNNDataDescriptor, data);
	CUDNN_TRY(SetRNNDataDescriptor, *data, net->type,
	          batch_major ? CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED : CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, (int)s->T,
	          (int)s->live, (int)width, lengths, is_output ? &zero : NULL);
	return CG_OK;
}

static int make_state(const struct cg_net *net, const struct cg_dnn_shape *s, int64_t width, struct cudnnTensorStruct **tensor)
{
	int states = net->segments[0].layers * net->rnn->directions;
	const int dims[] = { states, (int)s->live, (int)width }, strides[] = { (int)(s->live * width), (int)width, 1 };

	if (s->live * width > INT_MAX)
		return cg_fail(CG_UNSUPPORTED, "cuda: cudnn: expected states of fewer than 2^31 elements in each layer and direction, got %lld "
		               "rows of %lld elements", (long long)s->live, (long long)width);
	CUDNN_TRY(CreateTensorDescriptor, tensor);
	CUDNN_TRY(SetTensorNdDescriptor, *tensor, net->type, 3, dims, strides);
	return CG_OK;
}

static int make_all(const struct cg_net *net, struct cg_dnn_shape *s, const int32_t *lengths)
{
	int64_t wide = net->rnn->directions * net->rnn->H;

	CG_TRY(make_data(net, s, net->rnn->I, lengths, 0, &s->x[0]));
	if (net->n_segments > 1)
		CG_TRY(make_data(net, s, wide, lengths, 0, &s->x[1]));
	CG_TRY(make_data(net, s, wide, lengths, 1, &s->y));
	CG_TRY(make_state(net, s, net->rnn->H, &s->h));
	return make_state(net, s, net->rnn->U, &s->c);
}

/* Makes cuDNN's descriptors of the sequences and states, with the lengths of the batch rows that have a step. */
static int describe(const struct cg_net *net, struct cg_dnn_shape *s)
{
	int32_t *lengths = cg_memory(NULL, (size_t)s->live * sizeof *lengths);
	int64_t n = 0;
	int code;

	if (!lengths)
		return CG_NO_MEMORY;
	for (int64_t b = 0; b < s->B; b++)
		if (length(s, b))
			lengths[n++] = length(s, b);
	code = make_all(net, s, lengths);
	cg_memory(lengths, 0);
	return code;
}

/* ---- how much memory ---- */

/* Raises the shape's sizes of memory to those that an algorithm needs: they must suffice for every algorithm that the call may use, since
 * only the call shows which algorithm works. */
static int measure(const struct cg_net *net, struct cg_dnn_shape *s, int n, int algorithm)
{
	unsigned mode = net->rnn->training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
	size_t work = 0, reserve = 0;

	CUDNN_TRY(GetRNNTempSpaceSizes, net->device->dnn, net->segments[n].algorithms[algorithm].rnn, mode, s->x[n], &work, &reserve);
	if (s->work < work)
		s->work = work;
	if (s->reserve[n] < reserve)
		s->reserve[n] = reserve;
	return CG_OK;
}

/* Measures the memory of the first segment and that of each other one.  Drops a persistent algorithm that cuDNN refuses for these sizes. */
static int measure_all(const struct cg_net *net, struct cg_dnn_shape *s)
{
	int code = CG_OK;

	for (int n = 0; n < 1 + (net->n_segments > 1); n++) {
		CG_TRY(measure(net, s, n, 0));
		if (!s->algorithm)
			continue;
		code = measure(net, s, n, s->algorithm);
		if (code == CG_UNSUPPORTED)
			s->algorithm = 0;
		else
			CG_TRY(code);
	}
	return CG_OK;
}

/* ---- a shape ---- */

static void count(const struct cg_net *net, struct cg_dnn_shape *s)
{
	int64_t states = (int64_t)net->rnn->layers * net->rnn->directions;

	for (int64_t b = 0; b < s->B; b++) {
		s->N += length(s, b);
		s->live += length(s, b) > 0;
	}
	s->whole = s->N == s->T * s->B;
	s->algorithm = choose_algorithm(net, s);
	s->compact = s->live < s->B || s->steps != s->T || (s->algorithm && !net->rnn->time_major);
	s->moves = s->compact || (!net->rnn->states_major && states > 1 && s->live > 1);
}

static int fill(const struct cg_net *net, struct cg_dnn_shape *s, const struct cg_dnn_range *range)
{
	const int32_t *lengths = range->lengths;
	int64_t B = range->B;

	s->T = range->T;
	s->B = B;
	s->first = range->first;
	s->steps = range->whole;
	if (B > INT_MAX)
		return cg_fail(CG_UNSUPPORTED, "rnn: B: expected at most %d on route cudnn, got %lld", INT_MAX, (long long)B);
	if (lengths) {
		s->lengths = cg_memory(NULL, (size_t)B * sizeof *lengths);
		if (!s->lengths)
			return CG_NO_MEMORY;
		memcpy(s->lengths, lengths, (size_t)B * sizeof *lengths);
	}
	count(net, s);
	if (!s->live)
		return CG_OK;
	CG_TRY(describe(net, s));
	return measure_all(net, s);
}

void cg_dnn_release_shape(struct cg_dev *device, struct cg_queue *queue, struct cg_dnn_shape *s)
{
	if (!s)
		return;
	for (int k = 0; k < 2; k++)
		if (s->x[k])
			cg_cudnn.DestroyRNNDataDescriptor(s->x[k]);
	if (s->y)
		cg_cudnn.DestroyRNNDataDescriptor(s->y);
	if (s->h)
		cg_cudnn.DestroyTensorDescriptor(s->h);
	if (s->c)
		cg_cudnn.DestroyTensorDescriptor(s->c);
	if (s->device)
		cg_cu_free(device, queue, s->device);
	cg_memory(s->host, 0);
	cg_memory(s->lengths, 0);
	cg_memory(s, 0);
}

static int make(const struct cg_net *net, const struct cg_dnn_range *range, struct cg_dnn_shape **result)
{
	struct cg_dnn_shape *s = cg_memory(NULL, sizeof *s);
	int code;

	if (!s)
		return CG_NO_MEMORY;
	memset(s, 0, sizeof *s);
	code = fill(net, s, range);
	if (code)
		cg_dnn_release_shape(net->device, NULL, s);
	else
		*result = s;
	return code;
}

static int is_of(const struct cg_dnn_shape *s, const struct cg_dnn_range *range)
{
	return s->T == range->T && s->B == range->B && s->first == range->first && s->steps == range->whole &&
	       !s->lengths == !range->lengths && (!s->lengths || !memcmp(s->lengths, range->lengths, (size_t)s->B * sizeof *s->lengths));
}

static struct cg_dnn_shape *find(struct cg_dnn_shape *const *shapes, int n, const struct cg_dnn_range *range)
{
	for (int k = 0; k < n; k++)
		if (shapes[k] && is_of(shapes[k], range))
			return shapes[k];
	return NULL;
}

int cg_dnn_find_sizes(struct cg_net *net, const struct cg_dnn_range *range, const struct cg_dnn_shape **result)
{
	enum { MOST = sizeof net->sizes / sizeof *net->sizes };
	struct cg_dnn_shape *s = find(net->sizes, MOST, range);

	if (!s) {
		CG_TRY(make(net, range, &s));
		cg_dnn_release_shape(net->device, NULL, net->sizes[net->oldest]);
		net->sizes[net->oldest] = s;
		net->oldest = (net->oldest + 1) % MOST;
	}
	*result = s;
	return CG_OK;
}

/* ---- arrays ---- */

/* The index arrays of a shape, in their order in memory.  lay_out() sets the place of each array on the device and returns the number of
 * elements of all arrays. */
struct arrays { int64_t *from, *rows, *t, *b, *states, *dead, *padding, *lengths; };

static size_t lay_out(const struct cg_net *net, struct cg_dnn_shape *s, int64_t *base, struct arrays *a)
{
	const struct cg_network *rnn = net->rnn;
	int64_t states = (int64_t)rnn->layers * rnn->directions;
	int by_masks = net->n_segments > 1, ordered = s->whole && rnn->time_major;
	int64_t masked = by_masks && !ordered ? s->N : 0, handed = s->compact || (!s->whole && rnn->training) ? s->N : masked;
	const struct { int64_t **array, elements; struct cg_mem *mem; } list[] = {
		{ &a->from, s->compact ? s->N : 0, &s->from }, { &a->rows, handed, &s->rows },
		{ &a->t, masked, &s->t }, { &a->b, masked, &s->b }, { &a->states, s->moves ? states * s->live : 0, &s->states },
		{ &a->dead, states * (s->B - s->live), &s->dead }, { &a->padding, s->T * s->B - s->N, &s->padding },
		{ &a->lengths, net->version < NO_DEVICE_LENGTHS_SINCE ? (s->live + 1) / 2 : 0, &s->device_lengths },
	};
	size_t at = 0;

	for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
		struct cg_mem all = { (void *)(uintptr_t)s->device, at * sizeof *base, (size_t)list[k].elements * sizeof *base, CG_DEVICE };

		*list[k].array = base && list[k].elements ? base + at : NULL;
		*list[k].mem = list[k].elements ? all : (struct cg_mem){ .bytes = 0 };
		at += (size_t)list[k].elements;
	}
	return at;
}

static void list_steps(const struct cg_net *net, const struct cg_dnn_shape *s, const struct arrays *a)
{
	int64_t n = 0, p = 0, live = 0;

	for (int64_t b = 0; b < s->B; b++) {
		for (int64_t t = 0; t < s->T; t++) {
			int64_t row = net->rnn->time_major ? t * s->B + b : b * s->steps + s->first + t;

			if (t >= length(s, b)) {
				if (a->padding)
					a->padding[p++] = row;
				continue;
			}
			if (a->from)
				a->from[n] = row;
			if (a->rows)
				a->rows[n] = s->compact ? t * s->live + live : row;
			if (a->t)
				a->t[n] = t;
			if (a->b)
				a->b[n] = b;
			n++;
		}
		live += length(s, b) > 0;
	}
}

static void list_states(const struct cg_net *net, const struct cg_dnn_shape *s, const struct arrays *a)
{
	int64_t states = (int64_t)net->rnn->layers * net->rnn->directions, n = 0, dead = 0;

	for (int64_t k = 0; k < states; k++)
		for (int64_t b = 0; b < s->B; b++) {
			int64_t row = net->rnn->states_major ? k * s->B + b : b * states + k;

			if (!length(s, b))
				a->dead[dead++] = row;
			else if (a->states)
				a->states[n++] = row;
		}
}

static void list_lengths(const struct cg_dnn_shape *s, const struct arrays *a)
{
	int64_t n = 0;

	for (int64_t b = 0; b < s->B && a->lengths; b++)
		if (length(s, b)) {
			int32_t one = length(s, b);

			memcpy((char *)a->lengths + (size_t)n++ * sizeof one, &one, sizeof one);
		}
}

/* Enqueues the copy of a shape's index arrays to the device.  The index arrays in host memory are kept, since the copy may run long after
 * this call. */
static int send(const struct cg_net *net, struct cg_queue *queue, struct cg_dnn_shape *s)
{
	struct arrays a;
	size_t elements = lay_out(net, s, NULL, &a);

	if (!elements)
		return CG_OK;
	CG_TRY(cg_cu_check_uncaptured(queue, "a copy from the host's memory"));
	s->host = cg_memory(NULL, elements * sizeof *s->host);
	if (!s->host)
		return CG_NO_MEMORY;
	memset(s->host, 0, elements * sizeof *s->host);
	CG_TRY(cg_cu_alloc(net->device, queue, elements * sizeof *s->host, &s->device));
	lay_out(net, s, s->host, &a);
	list_steps(net, s, &a);
	list_states(net, s, &a);
	list_lengths(s, &a);
	CU_TRY(net->device, MemcpyHtoDAsync_v2, s->device, s->host, elements * sizeof *s->host, queue->stream);
	return CG_OK;
}

/* ---- the shapes of a queue ---- */

static int make_for(struct cg_net *net, struct cg_dnn_state *state, const struct cg_dnn_range *range, struct cg_dnn_shape **result)
{
	struct cg_dnn_shape *s = NULL;
	int code;

	pthread_mutex_lock(net->device->lock);
	code = make(net, range, &s);
	pthread_mutex_unlock(net->device->lock);
	CG_TRY(code);
	code = send(net, state->queue, s);
	if (code) {
		cg_cu_finish(state->queue);
		cg_dnn_release_shape(net->device, state->queue, s);
		return code;
	}
	*result = s;
	return CG_OK;
}

int cg_dnn_find_shape(struct cg_net *net, struct cg_dnn_state *state, const struct cg_dnn_range *range,
                      const struct cg_dnn_shape **result)
{
	struct cg_dnn_shape *s = find(state->shapes, CG_DNN_SHAPES, range), **old = &state->shapes[state->oldest];

	if (!s) {
		int is_sent = *old && (*old)->host;

		if (is_sent)
			CG_TRY(cg_cu_check_uncaptured(state->queue, "a wait"));
		CG_TRY(make_for(net, state, range, &s));
		/* Enqueued work may still use or copy the index arrays of the shape that is replaced. */
		if (is_sent)
			cg_cu_finish(state->queue);
		cg_dnn_release_shape(net->device, state->queue, *old);
		*old = s;
		state->oldest = (state->oldest + 1) % CG_DNN_SHAPES;
	}
	*result = s;
	return CG_OK;
}
