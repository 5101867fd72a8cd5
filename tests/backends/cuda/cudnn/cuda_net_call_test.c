/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests calls of networks on route cudnn: the number of calls of cuDNN and of the driver, and that a repeated training step creates,
 * queries and waits for nothing; stream capture; reserves that are spent, preserved, moved or of another route; memory at any address;
 * cuDNN's dropout masks and the library's; persistent algorithms that cuDNN refuses; a plan closed before its stream, and after it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "verify/promise.h"
#include "tests/help/counted.h"
#include "tests/backends/cuda/cuda_watch.h"
#include "tests/help/small_net.h"

enum { BEHIND = 256 };

static void begin(struct net *n, const struct tensors *t)
{
	net_begin(n, t->context, t->stream);
	n->place = CG_DEVICE;
	n->config.route = "cudnn";
}

static void open_net(struct net *n)
{
	if (net_open(n))
		fail_msg("%s", cg_message());
}

static void run(struct net *n)
{
	if (net_forward(n) || net_backward(n))
		fail_msg("%s", cg_message());
}

static uint64_t print(struct net *n)
{
	uint64_t sum;

	assert_int_equal(net_print(n, &sum), CG_OK);
	return sum;
}

/* Sets the layout of weights that the stand-in for cuDNN shows. */
static void lay_out(const char *permuted)
{
	setenv("CELLGRAD_FAKE_CUDNN_LAYOUT", permuted, 1);
}

/* ---- how many calls ---- */

static long runs(const struct calls *c)
{
	return c->cudnnRNNForward + c->cudnnRNNBackwardData_v8 + c->cudnnRNNBackwardWeights_v8;
}

static long ours(const struct calls *c)
{
	return c->cuLaunchKernel + c->cuMemsetD8Async + c->cuMemcpyDtoDAsync_v2 + c->cublasGemmEx + c->cublasLtMatmul;
}

/* Returns the number of waits, copies from or to the host, allocations, frees and builds, and of calls that make cuDNN's handle, set its
   stream or its masks, or build a network for cuDNN (cudnnBuildRNNDynamic). */
static long waits(const struct calls *c)
{
	return c->cuMemcpyHtoDAsync_v2 + c->cuMemcpyDtoHAsync_v2 + c->cuStreamSynchronize + c->cuMemAlloc_v2 + c->cuMemFree_v2 +
	       c->cuMemAllocAsync + c->cuMemFreeAsync + c->cuModuleLoadData + c->cuModuleGetFunction + c->nvrtcCompileProgram +
	       c->cudnnCreate + c->cudnnSetStream + c->cudnnSetDropoutDescriptor + c->cudnnBuildRNNDynamic;
}

/* Returns the number of calls that create, set or query something on the host alone. */
static long questions(const struct calls *c)
{
	return c->cudnnCreateTensorDescriptor + c->cudnnSetTensorNdDescriptor + c->cudnnCreateRNNDescriptor +
	       c->cudnnSetRNNDescriptor_v8 + c->cudnnCreateRNNDataDescriptor + c->cudnnSetRNNDataDescriptor +
	       c->cudnnGetRNNWeightParams + c->cudnnGetRNNWeightSpaceSize + c->cudnnGetRNNTempSpaceSizes +
	       c->cudnnCreateDropoutDescriptor + c->cudnnDropoutGetStatesSize;
}

static long others(const struct calls *c)
{
	return waits(c) + questions(c);
}

static const int32_t uneven[] = { 3, 2 }, one_of_none[] = { 3, 0 };

/* A training step that is repeated.  runs: the calls that runs() counts; ours: the commands of the library's own, which ours() counts:
   [0] where cuDNN's layout of parameters is the library's, [1] where it is not. */
static const struct step {
	const char *name;
	const int32_t *lengths;
	int layers, time_major, spend, accumulate;
	double dropout;
	long runs, ours[2];
} steps[] = {
	/* The commands of the library: forward ends with a copy of the output. Backward begins with one command that copies the reserve
	 * space, unless spend_reserve is 1, and clears the gradients of parameters, unless new gradients are added to them. Where cuDNN's
	 * layout differs from the library's, each pass first converts the parameters, and backward at last converts their gradients. If
	 * gradients are added to old ones, backward also first converts the old ones: too many moves, together with the parameters, for one
	 * launch. */
	{ "whole rows",                   NULL,        2, 1, 0, 0, 0,    3, { 2, 4 } },
	{ "whole rows, reserve spent",    NULL,        2, 1, 1, 0, 0,    3, { 2, 4 } },
	{ "whole rows, added",            NULL,        2, 1, 1, 1, 0,    3, { 1, 5 } },
	{ "batch-major",                  NULL,        1, 0, 0, 0, 0,    3, { 2, 4 } },
	/* With lengths, the elements behind the end of each row are cleared, too, in the output and in the gradient of the input. */
	{ "lengths",                      uneven,      2, 1, 0, 0, 0,    3, { 3, 4 } },
	{ "batch-major, lengths",         uneven,      1, 0, 0, 0, 0,    3, { 3, 4 } },
	/* With batch-major states of several layers, or a batch row without a step, the states are gathered before each pass and scattered
	   after it; with such a row the sequences are, too. */
	{ "batch-major states",           NULL,        2, 0, 0, 0, 0,    3, { 4, 4 } },
	{ "a row without a step",         one_of_none, 2, 1, 0, 0, 0,    3, { 4, 4 } },
	/* With the library's own dropout masks cuDNN runs the layers one by one; in each pass one command of the library comes before each
	   layer, and one at the end. */
	{ "masks of ours",                NULL,        2, 1, 0, 0, 0.25, 6, { 6, 6 } },
	{ "masks of ours, lengths",       uneven,      3, 0, 0, 0, 0.25, 9, { 8, 8 } },
	{ "masks of ours, none of a row", one_of_none, 3, 1, 0, 1, 0.25, 9, { 8, 10 } },
};

static void count(const struct step *step, int permuted, const struct tensors *t)
{
	struct net n;

	begin(&n, t);
	n.config.layers = step->layers;
	n.config.time_major = step->time_major;
	n.config.dropout = step->dropout;
	n.call.lengths = step->lengths;
	n.call.spend_reserve = step->spend;
	n.call.accumulate = step->accumulate;
	open_net(&n);
	run(&n);
	forget_calls();
	cg_memory_fail(0);
	run(&n);
	if (runs(&seen) != step->runs || ours(&seen) != step->ours[permuted] || others(&seen) || cg_memory_fail(0))
		fail_msg("%s, layout %d: %ld calls of cuDNN, expected %ld; %ld calls of ours (%ld launches, %ld fills, %ld copies), expected %ld; "
		         "%ld others", step->name, permuted, runs(&seen), step->runs, ours(&seen), seen.cuLaunchKernel, seen.cuMemsetD8Async,
		         seen.cuMemcpyDtoDAsync_v2, step->ours[permuted], others(&seen));
	net_close(&n);
}

static void test_calls_of_each_step(void **state)
{
	struct tensors t;

	(void)state;
	/* The stand-in is tested with both layouts, a real cuDNN with its own layout alone. */
	for (int permuted = 0; permuted < (getenv("CELLGRAD_FAKE_CUDA") ? 2 : 1); permuted++) {
		lay_out(permuted ? "1" : "0");
		if (!open_with_cudnn(&t))
			return;
		for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
			count(&steps[k], permuted, &t);
		free_tensors(&t);
	}
}

/* ---- capture ---- */

static unsigned capturing(struct CUstream_st *stream, unsigned *status)
{
	(void)stream;
	*status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return 0;
}

static void expect_captured(struct net *n)
{
	forget();
	cg_memory_fail(0);
	cg_cu.StreamIsCapturing = capturing;
	run(n);
	assert_int_equal(others(&seen), 0);
	assert_int_equal(cg_memory_fail(0), 0);
	assert_int_equal(runs(&seen), 3);
	forget();
}

static void expect_uncaptured(struct net *n, const char *text)
{
	forget();
	cg_cu.StreamIsCapturing = capturing;
	expect_refused(net_forward(n), CG_UNSUPPORTED, text);
	expect_refused(net_backward(n), CG_UNSUPPORTED, text);
	assert_int_equal(runs(&seen) + ours(&seen) + waits(&seen), 0);
	forget();
}

static void test_captured(void **state)
{
	struct CUctx_st *popped, *native;
	struct CUstream_st *stream;
	struct tensors first, t = { .n = 0 };
	struct cg_rnn_sizes others;
	struct net n;

	(void)state;
	lay_out("0");
	if (!open_with_cudnn(&first))
		return;
	assert_int_equal(driver.DevicePrimaryCtxRetain(&native, 0), 0);
	assert_int_equal(driver.CtxPushCurrent_v2(native), 0);
	assert_int_equal(driver.StreamCreate(&stream, 0), 0);
	assert_int_equal(driver.CtxPopCurrent_v2(&popped), 0);
	assert_int_equal(cg_adopt("cuda", native, NULL, &t.context), CG_OK);
	assert_int_equal(cg_stream_open(t.context, stream, &t.stream), CG_OK);
	begin(&n, &t);
	/* open_net() makes memory for calls without lengths. The workspace is enlarged for calls with lengths, since a real cuDNN needs some
	   megabytes. */
	open_net(&n);
	n.call.lengths = uneven;
	assert_int_equal(cg_rnn_sizes(n.rnn, n.call.T, n.call.B, uneven, &others), CG_OK);
	others.work += n.call.work.bytes;
	net_free(&n, &n.call.work);
	assert_int_equal(cg_alloc(t.context, others.work, &n.call.work), CG_OK);
	expect_uncaptured(&n, "the stream is being captured: a network's first call on a stream is not allowed");
	run(&n);
	expect_captured(&n);
	n.call.lengths = one_of_none;
	expect_uncaptured(&n, "the stream is being captured: a copy from the host's memory is not allowed");
	n.call.lengths = NULL;
	run(&n);
	expect_captured(&n);
	n.call.lengths = uneven;                   /* batches of few rows: their lengths need no copy from the host */
	expect_captured(&n);
	net_close(&n);
	free_tensors(&t);
	driver.CtxPushCurrent_v2(native);
	driver.StreamDestroy_v2(stream);
	driver.CtxPopCurrent_v2(&popped);
	driver.DevicePrimaryCtxRelease_v2(0);
	free_tensors(&first);
	unsetenv("CELLGRAD_FAKE_CUDNN_LAYOUT");
}

/* ---- reserves ---- */

static uint64_t print_of(struct net *n, struct cg_mem mem)
{
	uint64_t sum = 0xcbf29ce484222325u;
	unsigned char *bytes = malloc(mem.bytes);

	assert_non_null(bytes);
	assert_int_equal(cg_get(n->stream, bytes, mem, mem.bytes), CG_OK);
	for (size_t k = 0; k < mem.bytes; k++)
		sum = (sum ^ bytes[k]) * 0x100000001b3u;
	free(bytes);
	return sum;
}

/* cuDNN's backward overwrites the reserve space that it reads; the stand-in's overwrites it so that a second backward would be wrong. */
static void test_reserve(void **state)
{
	uint64_t kept, right;
	struct tensors t;
	struct net n;

	(void)state;
	setenv("CELLGRAD_FAKE_CUDNN_DESTROY", "1", 1);
	if (!open_with_cudnn(&t))
		return;
	for (int dropout = 0; dropout < 2; dropout++) {
		begin(&n, &t);
		n.config.dropout = dropout * 0.25;
		open_net(&n);
		assert_int_equal(net_forward(&n), CG_OK);
		kept = print_of(&n, n.call.reserve);
		for (int k = 0; k < 3; k++) {
			assert_int_equal(net_backward(&n), CG_OK);
			right = k ? right : print(&n);
			assert_true(print(&n) == right || !promises_bits("cudnn"));
			assert_true(print_of(&n, n.call.reserve) == kept);
		}
		n.call.spend_reserve = 1;
		assert_int_equal(net_backward(&n), CG_OK);
		assert_true(print(&n) == right || !promises_bits("cudnn"));
		/* With spend_reserve=1 backward of the stand-in changes the reserve space; a real cuDNN may change the reserve space or not. */
		assert_true(!getenv("CELLGRAD_FAKE_CUDA") || print_of(&n, n.call.reserve) != kept);
		net_close(&n);
	}
	unsetenv("CELLGRAD_FAKE_CUDNN_DESTROY");
	free_tensors(&t);
}

/* The most numbers that forward and backward write, without the reserve space. */
enum { NUMBERS = 2048 };
static size_t fetch(struct net *n, float numbers[NUMBERS])
{
	size_t count = 0;

	for (int k = 0; k < NET_PORTS; k++) {
		const struct net_port *p = &net_ports[k];
		struct cg_mem *mem = net_mem(n, p);

		if ((p->forward != NET_OUT && p->backward != NET_OUT) || mem == &n->call.reserve)
			continue;
		assert_true(mem->bytes / sizeof *numbers <= NUMBERS - count);
		assert_int_equal(cg_get(n->stream, numbers + count, *mem, mem->bytes), CG_OK);
		count += mem->bytes / sizeof *numbers;
	}
	return count;
}

/* A reserve at multiples of 4 bytes, and at another offset in backward, gives the same numbers to 1e-5.  cuDNN writes the last layer's
   output to the reserve: at multiples of 16 bytes the bits are the same; elsewhere cuDNN may add in another order. */
static void test_reserve_moved(void **state)
{
	static const size_t offsets[][2] = { { 0, 0 }, { 4, 0 }, { 0, 64 }, { 60, 192 }, { 16, 0 }, { 48, 240 } };
	static float numbers[NUMBERS], right_numbers[NUMBERS];
	uint64_t right = 0;
	struct tensors t;

	(void)state;
	if (!open_with_cudnn(&t))
		return;
	for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++) {
		struct cg_mem whole[2], own;
		size_t count;
		unsigned char *bytes;
		struct net n;

		begin(&n, &t);
		open_net(&n);
		own = n.call.reserve;
		bytes = malloc(own.bytes);
		for (int p = 0; p < 2; p++) {
			assert_int_equal(cg_alloc(t.context, own.bytes + BEHIND, &whole[p]), CG_OK);
			n.call.reserve = (struct cg_mem){ whole[p].data, offsets[k][p], own.bytes, CG_DEVICE };
			if (p)
				assert_int_equal(cg_put(t.stream, n.call.reserve, bytes, own.bytes), CG_OK);
			assert_int_equal((p ? net_backward : net_forward)(&n), CG_OK);
			if (!p)
				assert_int_equal(cg_get(t.stream, bytes, n.call.reserve, own.bytes), CG_OK);
		}
		n.call.reserve = own;
		right = k ? right : print(&n);
		count = fetch(&n, k ? numbers : right_numbers);
		for (size_t j = 0; k && j < count; j++)
			assert_true(fabsf(numbers[j] - right_numbers[j]) <= 1e-5f * (1 + fabsf(right_numbers[j])));
		if (promises_bits("cudnn") && (offsets[k][0] | offsets[k][1]) % 16 == 0)
			assert_true(print(&n) == right);
		free(bytes);
		cg_free(t.context, &whole[0]);
		cg_free(t.context, &whole[1]);
		net_close(&n);
	}
	free_tensors(&t);
}

/* ---- memory at any address ---- */

/* Moves memory to an address that is a multiple of `offset` and of no larger power of two. */
static void shift(struct net *n, struct cg_mem *mem, size_t offset)
{
	struct cg_mem moved;
	unsigned char *bytes;

	if (!mem->bytes)
		return;
	bytes = malloc(mem->bytes);
	assert_non_null(bytes);
	assert_int_equal(cg_alloc(n->context, mem->bytes + offset, &moved), CG_OK);
	moved.offset = offset;
	moved.bytes = mem->bytes;
	assert_int_equal(cg_get(n->stream, bytes, *mem, mem->bytes), CG_OK);
	assert_int_equal(cg_put(n->stream, moved, bytes, mem->bytes), CG_OK);
	net_free(n, mem);
	*mem = moved;
	free(bytes);
}

/*
 * Memory for persistent algorithms is aligned to 16 bytes, whatever the caller's alignment, and the bits are those of aligned memory;
 * the standard algorithm gets the caller's memory.  The device has many multiprocessors, since the library takes the static algorithm only
 * on such devices.
 */
static const struct alignment_case {
	const char *name;
	int dtype;
	int64_t size, B;                         /* size: the width of the input, and the number of units */
	int layers, time_major, accumulate;
	double dropout;
	unsigned algorithm;
	size_t offset;
	long ours;                               /* the library's own commands, if no memory need be moved; 0: not compared */
} alignment_case[] = {
	{ "static",           CG_F16, 256, 8, 1, 1, 0, 0,    CUDNN_RNN_ALGO_PERSIST_STATIC,         2, 0 },
	{ "static, added",    CG_F16, 256, 8, 1, 1, 1, 0,    CUDNN_RNN_ALGO_PERSIST_STATIC,         4, 0 },
	{ "small",            CG_F16, 8,   2, 2, 1, 0, 0,    CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, 2, 0 },
	{ "small, masks",     CG_F16, 8,   2, 2, 1, 0, 0.25, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, 8, 0 },
	{ "small, odd masks", CG_F16, 3,   1, 2, 1, 0, 0.25, CUDNN_RNN_ALGO_STANDARD,               2, 0 },
	{ "small, by rows",   CG_F16, 8,   2, 1, 0, 0, 0,    CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, 2, 0 },
	{ "standard",         CG_F32, 8,   2, 1, 0, 0, 0,    CUDNN_RNN_ALGO_STANDARD,               4, 2 },
};

/* The algorithm of the last forward; described: which algorithm was set in which descriptor. */
static unsigned algorithm_of_forward;
static struct { struct cudnnRNNStruct *rnn; unsigned algorithm; } described[64];
static int n_described;

static unsigned note_algorithm(struct cudnnRNNStruct *rnn, unsigned algorithm, unsigned cell, unsigned bias, unsigned direction,
                               unsigned input, unsigned type, unsigned precision, unsigned math, int32_t input_size,
                               int32_t hidden_size, int32_t projection_size, int32_t layers, struct cudnnDropoutStruct *dropout,
                               uint32_t flags)
{
	if (n_described < 64) {
		described[n_described].rnn = rnn;
		described[n_described++].algorithm = algorithm;
	}
	return dnn.SetRNNDescriptor_v8(rnn, algorithm, cell, bias, direction, input, type, precision, math, input_size, hidden_size,
	                               projection_size, layers, dropout, flags);
}

static unsigned note_forward(struct cudnnContext *handle, struct cudnnRNNStruct *rnn, unsigned mode, const int32_t *lengths,
                             struct cudnnRNNDataStruct *x_data, const void *x, struct cudnnRNNDataStruct *y_data, void *y,
                             struct cudnnTensorStruct *h, const void *hx, void *hy, struct cudnnTensorStruct *c, const void *cx,
                             void *cy, size_t weight_bytes, const void *weights, size_t work_bytes, void *work,
                             size_t reserve_bytes, void *reserve)
{
	for (int k = 0; k < n_described; k++)
		if (described[k].rnn == rnn)
			algorithm_of_forward = described[k].algorithm;
	return dnn.RNNForward(handle, rnn, mode, lengths, x_data, x, y_data, y, h, hx, hy, c, cx, cy, weight_bytes, weights, work_bytes,
	                      work, reserve_bytes, reserve);
}

static uint64_t print_alignment_case(const struct alignment_case *p, const struct tensors *t, size_t offset)
{
	uint64_t sum;
	struct net n;

	begin(&n, t);
	n.config.dtype = p->dtype;
	n.config.layers = p->layers;
	n.config.time_major = p->time_major;
	n.config.input = n.config.units = p->size;
	n.config.dropout = p->dropout;
	n.call.B = p->B;
	n.call.accumulate = p->accumulate;
	n_described = 0;
	cg_cudnn.SetRNNDescriptor_v8 = note_algorithm;
	cg_cudnn.RNNForward = note_forward;
	open_net(&n);
	for (int k = 0; k < NET_PORTS && offset; k++)
		shift(&n, net_mem(&n, &net_ports[k]), &n.call.reserve == net_mem(&n, &net_ports[k]) && offset < 4 ? 4 : offset);
	run(&n);
	sum = print(&n);
	if (algorithm_of_forward != p->algorithm && getenv("CELLGRAD_FAKE_CUDA"))
		fail_msg("%s: by algorithm %u, expected %u", p->name, algorithm_of_forward, p->algorithm);
	forget_calls();
	run(&n);
	if (p->ours && ours(&seen) != p->ours)
		fail_msg("%s: %ld calls of ours, expected %ld", p->name, ours(&seen), p->ours);
	net_close(&n);
	forget();
	return sum;
}

static void test_aligned_addresses(void **state)
{
	struct tensors t;

	(void)state;
	setenv("CELLGRAD_FAKE_MULTIPROCESSORS", "108", 1);
	setenv("CELLGRAD_FAKE_ARCH", "80", 1);
	lay_out("0");
	if (!open_with_cudnn(&t))
		return;
	for (size_t k = 0; k < sizeof alignment_case / sizeof *alignment_case; k++) {
		const struct alignment_case *a = &alignment_case[k];
		uint64_t right = print_alignment_case(a, &t, 0), got = print_alignment_case(a, &t, a->offset);

		if (got != right && a->algorithm != CUDNN_RNN_ALGO_STANDARD && promises_bits("cudnn"))
			fail_msg("%s: other bits from addresses that are multiples of %zu", a->name, a->offset);
	}
	free_tensors(&t);
	unsetenv("CELLGRAD_FAKE_MULTIPROCESSORS");
	unsetenv("CELLGRAD_FAKE_ARCH");
	unsetenv("CELLGRAD_FAKE_CUDNN_LAYOUT");
}

/* ---- the same again ---- */

/* Runs a network `runs` times; returns how many runs have other bits than the first. Expects that all results are close to those of the
   first run. */
static int others_of(int runs, const struct tensors *t)
{
	static float numbers[NUMBERS], first[NUMBERS];
	int others = 0;
	size_t count;
	struct net n;

	begin(&n, t);
	open_net(&n);
	for (int k = 0; k < runs; k++) {
		run(&n);
		count = fetch(&n, k ? numbers : first);
		others += k && memcmp(numbers, first, count * sizeof *first);
		for (size_t j = 0; k && j < count; j++)
			assert_true(fabsf(numbers[j] - first[j]) <= 1e-5f * (1 + fabsf(first[j])));
	}
	net_close(&n);
	return others;
}

/* On the stand-in for cuDNN, which reads CUBLAS_WORKSPACE_CONFIG at every call, 20 runs with :16:8 have the same bits, and without it some
   have others, as docs/numerics.md says of cuDNN. */
static void test_repeats(void **state)
{
	const char *before = getenv("CUBLAS_WORKSPACE_CONFIG");
	char *kept = before ? strdup(before) : NULL;
	struct tensors t;

	(void)state;
	if (!open_with_cudnn(&t))
		return;
	if (promises_bits("cudnn"))
		assert_int_equal(others_of(20, &t), 0);
	if (getenv("CELLGRAD_FAKE_CUDA")) {
		setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
		assert_int_equal(others_of(20, &t), 0);
		unsetenv("CUBLAS_WORKSPACE_CONFIG");
		assert_true(others_of(20, &t) > 0);
	}
	if (kept)
		setenv("CUBLAS_WORKSPACE_CONFIG", kept, 1);
	free(kept);
	free_tensors(&t);
}

static void test_reserve_of_another_route(void **state)
{
	struct cg_rnn *composed, *cudnn;
	struct tensors t;
	struct net n;

	(void)state;
	if (!open_with_cudnn(&t))
		return;
	/* The memory of a reserve space of route cudnn is large enough for a reserve space of route composed. */
	begin(&n, &t);
	n.place = CG_HOST;
	open_net(&n);
	cudnn = n.rnn;
	n.config.route = "composed";
	assert_int_equal(cg_rnn_open(t.context, &n.config, &composed), CG_OK);
	n.rnn = composed;
	net_free(&n, &n.call.work);
	assert_true(net_bytes(&n, &net_ports[10]) <= n.call.reserve.bytes);
	assert_int_equal(net_forward(&n), CG_OK);
	n.rnn = cudnn;
	expect_refused(net_backward(&n), CG_BAD_ARGUMENT,
	               "rnn: reserve: expected a reserve space of this plan, got one of a plan that differs, for example in network, "
	               "dropout, seed or route");
	assert_int_equal(net_forward(&n), CG_OK);
	n.rnn = composed;
	expect_refused(net_backward(&n), CG_BAD_ARGUMENT,
	               "rnn: reserve: expected a reserve space of this plan, got one of a plan that differs, for example in network, "
	               "dropout, seed or route");
	n.rnn = cudnn;
	assert_int_equal(net_backward(&n), CG_OK);
	cg_rnn_close(composed);
	net_close(&n);
	free_tensors(&t);
}

/* ---- masks ---- */

/* The library's dropout masks are the same in a repeated call; cuDNN's masks, if they are allowed, advance from call to call. */
static void test_masks(void **state)
{
	struct tensors t;
	struct net n;

	(void)state;
	if (!open_with_cudnn(&t))
		return;
	for (int vendor = 0; vendor < 2; vendor++) {
		uint64_t first, second;

		begin(&n, &t);
		n.config.dropout = 0.5;
		n.config.allow_vendor_dropout = vendor;
		n.config.seed = 7;
		open_net(&n);
		forget_calls();
		run(&n);
		assert_int_equal(runs(&seen), vendor ? 3 : 6);
		assert_int_equal(seen.cudnnSetDropoutDescriptor, vendor);
		first = print(&n);
		run(&n);
		second = print(&n);
		if (promises_bits("cudnn") || vendor)
			assert_int_equal(first == second, !vendor);
		n.call.counter = 1;
		run(&n);
		assert_true(print(&n) != second);
		net_close(&n);
	}
	/* With a rate of 1 the masks are the library's even if cuDNN's are allowed, so that nothing is multiplied by 1 / 0. */
	begin(&n, &t);
	n.config.dropout = n.config.allow_vendor_dropout = 1;
	open_net(&n);
	forget_calls();
	run(&n);
	assert_int_equal(runs(&seen), 6);
	assert_int_equal(seen.cudnnSetDropoutDescriptor, 0);
	net_close(&n);
	/* cuDNN makes masks only at a rate between 0 and 1; only at such a rate no_dropout=1 is refused with allow_vendor_dropout=1. */
	for (int k = 0; k < 3; k++) {
		static const double rates[] = { 0, 0.5, 1 };

		begin(&n, &t);
		n.config.dropout = rates[k];
		n.config.allow_vendor_dropout = n.call.no_dropout = 1;
		open_net(&n);
		assert_int_equal(net_forward(&n), k == 1 ? CG_UNSUPPORTED : CG_OK);
		if (k == 1)
			assert_non_null(strstr(cg_message(), "rnn: no_dropout: expected 0 on route cudnn with allow_vendor_dropout"));
		else
			run(&n);
		net_close(&n);
	}
	free_tensors(&t);
}

/* ---- persistent algorithms ---- */

/* The number of cuDNN's forward calls that the test still refuses. */
static int refusals;
static unsigned unsupported(struct cudnnContext *handle, struct cudnnRNNStruct *rnn, unsigned mode, const int32_t *lengths,
                            struct cudnnRNNDataStruct *x_data, const void *x, struct cudnnRNNDataStruct *y_data, void *y,
                            struct cudnnTensorStruct *h, const void *hx, void *hy, struct cudnnTensorStruct *c, const void *cx,
                            void *cy, size_t weight_bytes, const void *weights, size_t work_bytes, void *work,
                            size_t reserve_bytes, void *reserve)
{
	seen.cudnnRNNForward++;
	if (refusals-- > 0)
		return cg_cudnn_version() < CUDNN_9 ? 9 : 3000;
	return dnn.RNNForward(handle, rnn, mode, lengths, x_data, x, y_data, y, h, hx, hy, c, cx, cy, weight_bytes, weights, work_bytes,
	                      work, reserve_bytes, reserve);
}

static void test_persistent(void **state)
{
	struct tensors t;
	struct net n;

	(void)state;
	if (!open_with_cudnn(&t))
		return;
	begin(&n, &t);
	n.config.allow_tf32 = 1;
	open_net(&n);
	cg_cudnn.RNNForward = unsupported;
	forget_calls();
	refusals = 1;
	run(&n);                                 /* cuDNN refuses the persistent algorithm; the standard algorithm repeats the forward */
	assert_int_equal(seen.cudnnRNNForward, 2);
	forget_calls();
	run(&n);
	assert_int_equal(seen.cudnnRNNForward, 1);
	/* There is no further algorithm after the standard one. */
	refusals = 1;
	expect_refused(net_forward(&n), CG_UNSUPPORTED, "cuda: cudnnRNNForward: CUDNN_STATUS_NOT_SUPPORTED");
	run(&n);
	net_close(&n);

	/* An algorithm that has worked is never given up: reserve spaces that it wrote may exist. */
	begin(&n, &t);
	n.config.allow_tf32 = 1;
	open_net(&n);
	cg_cudnn.RNNForward = unsupported;
	refusals = 0;
	run(&n);
	refusals = 1;
	expect_refused(net_forward(&n), CG_UNSUPPORTED, "cuda: cudnnRNNForward: CUDNN_STATUS_NOT_SUPPORTED");
	forget();
	net_close(&n);
	free_tensors(&t);
}

/* ---- closed in any order ---- */

static void test_closed(void **state)
{
	struct tensors t;

	(void)state;
	if (!open_with_cudnn(&t))
		return;
	for (int plan_first = 0; plan_first < 2; plan_first++) {
		struct cg_stream *stream;
		struct net n, other;

		assert_int_equal(cg_stream_open(t.context, NULL, &stream), CG_OK);
		begin(&n, &t);
		n.stream = stream;
		n.call.lengths = uneven;
		n.config.dropout = 0.5;
		n.config.allow_vendor_dropout = plan_first;
		open_net(&n);
		run(&n);
		if (plan_first) {
			cg_rnn_close(n.rnn);
			n.rnn = NULL;
			/* Another network runs on the stream after the first one was closed. */
			begin(&other, &t);
			other.stream = stream;
			open_net(&other);
			run(&other);
			net_close(&other);
		}
		cg_stream_close(stream);
		net_close(&n);
	}
	free_tensors(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_of_each_step), cmocka_unit_test(test_captured), cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_reserve_moved), cmocka_unit_test(test_aligned_addresses), cmocka_unit_test(test_repeats),
		cmocka_unit_test(test_reserve_of_another_route), cmocka_unit_test(test_masks), cmocka_unit_test(test_persistent),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_net_call", tests, set_up, NULL);
}
