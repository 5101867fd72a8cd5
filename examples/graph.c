/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training step as a CUDA graph: the forward and backward pass of a network are captured once, on the program's own stream and memory,
 * and then launched repeatedly, each time with other numbers.  Before the capture STEPS steps run without a graph, since the first of them
 * compiles kernels and allocates memory, which is not allowed in a capture.  The program checks that the results of the graph have the same
 * bits as those of the steps without a graph.
 *
 * Exit status 77: there is no CUDA driver that has the functions below, or no device, or cellgrad's cuda backend does not open on it.
 */
#define _GNU_SOURCE                             /* declares setenv */
#include <cellgrad.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 20, B = 8, U = 16, LAYERS = 2, STEPS = 3, N = T * B * U, MEMS = 16 };

/* ---- CUDA: the functions that this program calls, declared so that the program needs no cuda.h and no -lcuda ---- */

typedef unsigned long long address;

#define CALLS \
	CALL(cuInit, (unsigned flags)) \
	CALL(cuDevicePrimaryCtxRetain, (void **context, int device)) \
	CALL(cuDevicePrimaryCtxRelease_v2, (int device)) \
	CALL(cuCtxPushCurrent_v2, (void *context)) \
	CALL(cuCtxPopCurrent_v2, (void **context)) \
	CALL(cuStreamCreate, (void **stream, unsigned flags)) \
	CALL(cuStreamDestroy_v2, (void *stream)) \
	CALL(cuStreamSynchronize, (void *stream)) \
	CALL(cuStreamBeginCapture_v2, (void *stream, unsigned mode)) \
	CALL(cuStreamEndCapture, (void *stream, void **graph)) \
	CALL(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags)) \
	CALL(cuGraphLaunch, (void *exec, void *stream)) \
	CALL(cuGraphExecDestroy, (void *exec)) \
	CALL(cuGraphDestroy, (void *graph)) \
	CALL(cuMemAlloc_v2, (address *at, size_t bytes)) \
	CALL(cuMemFree_v2, (address at)) \
	CALL(cuMemcpyHtoDAsync_v2, (address to, const void *from, size_t bytes, void *stream)) \
	CALL(cuMemcpyDtoHAsync_v2, (void *to, address from, size_t bytes, void *stream))

#define CALL(name, arguments) static int (*name) arguments;
CALLS
#undef CALL

enum { NON_BLOCKING = 1, GLOBAL = 0 };

static void *context, *stream;
static struct cg_mem mems[MEMS];                /* all buffers, to be freed at the end */

static void stop(int status, const char *what)
{
	fprintf(stderr, "graph: %s\n", what);
	exit(status);
}

static void check(int error)                    /* error: a code of CUDA or of cellgrad; 0 is success */
{
	if (error)
		stop(1, *cg_message() ? cg_message() : "a call of CUDA failed");
}

static void open_cuda(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		stop(77, "there is no libcuda.so.1");
#define CALL(name, arguments) \
	if (!(*(void **)&name = dlsym(library, #name))) \
		stop(77, "libcuda.so.1 has no " #name);
	CALLS
#undef CALL
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0))
		stop(77, "there is no CUDA device");
	check(cuCtxPushCurrent_v2(context));
	check(cuStreamCreate(&stream, NON_BLOCKING));
}

/* ---- the program's own memory ---- */

static void put(struct cg_mem mem, unsigned seed, float scale)
{
	float *data = calloc(mem.bytes, 1);

	if (!data)
		stop(1, "no memory");
	srand(seed);
	for (size_t k = 0; k < mem.bytes / sizeof *data && scale > 0; k++)
		data[k] = scale * (2 * (float)rand() / (float)RAND_MAX - 1);
	check(cuMemcpyHtoDAsync_v2((address)(uintptr_t)mem.data, data, mem.bytes, stream));
	check(cuStreamSynchronize(stream));
	free(data);
}

static struct cg_mem buffer(size_t bytes, float scale)
{
	static int made;
	address at = 0;

	if (made == MEMS)
		stop(1, "no memory");
	check(cuMemAlloc_v2(&at, bytes));
	mems[made] = (struct cg_mem){ (void *)(uintptr_t)at, 0, bytes, CG_DEVICE };
	put(mems[made], 1 + (unsigned)made, scale);
	return mems[made++];
}

static void *fetch(struct cg_mem mem)
{
	void *data = malloc(mem.bytes);

	if (!data)
		stop(1, "no memory");
	check(cuMemcpyDtoHAsync_v2(data, (address)(uintptr_t)mem.data, mem.bytes, stream));
	check(cuStreamSynchronize(stream));
	return data;
}

/* ---- the network ---- */

static struct cg_rnn *open_network(struct cg_context *cg, struct cg_rnn_call *call)
{
	struct cg_rnn_config config;
	struct cg_rnn_sizes sizes;
	struct cg_rnn *rnn;

	cg_rnn_config_init(&config, sizeof config);
	config.layers = LAYERS;
	config.input = config.units = U;
	check(cg_rnn_open(cg, &config, &rnn));
	check(cg_rnn_sizes(rnn, T, B, NULL, &sizes));
	cg_rnn_call_init(call, sizeof *call);
	call->T = T;
	call->B = B;
	call->input = buffer(N * sizeof(float), 0.8f);
	call->params = buffer(sizes.params, 0.4f);
	call->params_backprop = buffer(sizes.params, 0);
	call->output = buffer(N * sizeof(float), 0);
	call->output_backprop = buffer(N * sizeof(float), 0.1f);
	call->input_backprop = buffer(N * sizeof(float), 0);
	call->reserve = buffer(sizes.reserve, 0);
	call->work = buffer(sizes.work, 0);             /* the program's workspace, since cellgrad cannot allocate one in a capture */
	return rnn;
}

static void step(struct cg_stream *cg, const struct cg_rnn *rnn, const struct cg_rnn_call *call)
{
	check(cg_rnn_forward(cg, rnn, call));
	check(cg_rnn_backward(cg, rnn, call));
}

static void *capture(struct cg_stream *cg, const struct cg_rnn *rnn, const struct cg_rnn_call *call)
{
	void *graph, *exec;

	check(cuStreamBeginCapture_v2(stream, GLOBAL));
	step(cg, rnn, call);
	check(cuStreamEndCapture(stream, &graph));
	check(cuGraphInstantiateWithFlags(&exec, graph, 0));
	check(cuGraphDestroy(graph));
	return exec;
}

/* The results of a training step, to be compared with those of another step. */
struct answer { void *output, *gradient; };

static struct answer answer_of(const struct cg_rnn_call *call)
{
	return (struct answer){ fetch(call->output), fetch(call->params_backprop) };
}

static int same(const struct cg_rnn_call *call, struct answer a, struct answer b)
{
	int is = !memcmp(a.output, b.output, call->output.bytes) && !memcmp(a.gradient, b.gradient, call->params_backprop.bytes);

	free(a.output), free(a.gradient), free(b.output), free(b.gradient);
	return is;
}

static int replay(struct cg_stream *cg, const struct cg_rnn *rnn, const struct cg_rnn_call *call)
{
	struct answer eager[STEPS], replayed;
	int equal = 0;
	void *exec;

	for (int k = 0; k < STEPS; k++) {
		put(call->input, 100 + (unsigned)k, 0.8f);
		step(cg, rnn, call);
		eager[k] = answer_of(call);
	}
	exec = capture(cg, rnn, call);
	for (int k = 0; k < STEPS; k++) {
		put(call->input, 100 + (unsigned)k, 0.8f);
		put(call->output, 0, 0);
		put(call->params_backprop, 0, 0);
		check(cuGraphLaunch(exec, stream));
		replayed = answer_of(call);
		equal += same(call, eager[k], replayed);
	}
	check(cuGraphExecDestroy(exec));
	return equal;
}

int main(void)
{
	struct cg_context *cg;
	struct cg_stream *cg_stream;
	struct cg_rnn_call call;
	struct cg_rnn *rnn;
	int equal;

	/* With CUBLAS_WORKSPACE_CONFIG=:4096:2 cuDNN's sums repeat to the bit.  CUBLAS_WORKSPACE_CONFIG must be set before any CUDA library is
	 * loaded. */
	setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2", 0);
	open_cuda();
	if (cg_adopt("cuda", context, NULL, &cg))
		stop(77, cg_message());
	check(cg_stream_open(cg, stream, &cg_stream));
	rnn = open_network(cg, &call);
	equal = replay(cg_stream, rnn, &call);
	printf("route %s: %d of %d steps from the graph have the same bits as the steps without it\n", cg_rnn_route(rnn), equal, STEPS);
	cg_rnn_close(rnn);
	cg_stream_close(cg_stream);
	cg_close(cg);
	for (int k = 0; k < MEMS && mems[k].data; k++)
		cuMemFree_v2((address)(uintptr_t)mems[k].data);
	check(cuStreamDestroy_v2(stream));
	check(cuCtxPopCurrent_v2(&context));
	check(cuDevicePrimaryCtxRelease_v2(0));
	return equal == STEPS ? 0 : 1;
}
