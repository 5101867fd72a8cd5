/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains a network in the program's own OpenCL context, queue and memory.  Forward and backward run on the program's cl_mems, and the
 * program's own kernels compute the loss after a forward pass and update the weights after a backward pass.  No call of the first HELD
 * steps waits for the device: the queue is blocked while these steps are enqueued, so that a call that waited would never return.  The
 * network learns to output its input of LATE time steps earlier.
 *
 * Exit status 77: there is no OpenCL loader that has the functions below, or no OpenCL device.
 */
#include <cellgrad.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 20, B = 16, U = 16, LAYERS = 2, LATE = 1, STEPS = 301, EACH = 30, HELD = 3, N = T * B * U, MEMS = 16 };

/* ---- OpenCL: the functions that this program calls, declared so that the program needs no CL/cl.h and no -lOpenCL ---- */

#define CALLS \
	CALL(int, clGetPlatformIDs, (unsigned room, void **platforms, unsigned *n)) \
	CALL(int, clGetDeviceIDs, (void *platform, uint64_t type, unsigned room, void **devices, unsigned *n)) \
	CALL(void *, clCreateContext, (const intptr_t *, unsigned n, void **devices, void *, void *, int *error)) \
	CALL(void *, clCreateCommandQueue, (void *context, void *device, uint64_t properties, int *error)) \
	CALL(void *, clCreateBuffer, (void *context, uint64_t flags, size_t bytes, void *data, int *error)) \
	CALL(void *, clCreateProgramWithSource, (void *context, unsigned n, const char **text, const size_t *, int *error)) \
	CALL(int, clBuildProgram, (void *program, unsigned n, void **devices, const char *options, void *, void *)) \
	CALL(void *, clCreateKernel, (void *program, const char *name, int *error)) \
	CALL(int, clSetKernelArg, (void *kernel, unsigned k, size_t bytes, const void *value)) \
	CALL(int, clEnqueueNDRangeKernel, (void *queue, void *kernel, unsigned dimensions, const size_t *, const size_t *items, \
	                                   const size_t *, unsigned, void **, void **)) \
	CALL(void *, clCreateUserEvent, (void *context, int *error)) \
	CALL(int, clSetUserEventStatus, (void *event, int status)) \
	CALL(int, clEnqueueBarrierWithWaitList, (void *queue, unsigned n, void **events, void **)) \
	CALL(int, clEnqueueReadBuffer, (void *queue, void *mem, unsigned wait, size_t at, size_t bytes, void *, unsigned, void **, \
	                                void **)) \
	CALL(int, clReleaseEvent, (void *event)) \
	CALL(int, clReleaseKernel, (void *kernel)) \
	CALL(int, clReleaseProgram, (void *program)) \
	CALL(int, clReleaseMemObject, (void *mem)) \
	CALL(int, clReleaseCommandQueue, (void *queue)) \
	CALL(int, clReleaseContext, (void *context))

#define CALL(type, name, arguments) static type (*name) arguments;
CALLS
#undef CALL

enum { ANY_DEVICE = -1, COPY_HOST = 1 << 5, COMPLETE = 0 };

static void *context, *device, *queue, *program;
static struct cg_mem mems[MEMS];                /* all buffers, to be freed at the end */

static void stop(int status, const char *what)
{
	fprintf(stderr, "device_memory: %s\n", what);
	exit(status);
}

static void check(int error)                    /* error: a code of OpenCL or of cellgrad; 0 is success */
{
	if (error)
		stop(1, *cg_message() ? cg_message() : "a call of OpenCL failed");
}

static void open_opencl(void)
{
	void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *platforms[16];
	unsigned n = 0, found = 0;
	int error;

	if (!library)
		stop(77, "there is no libOpenCL.so.1");
#define CALL(type, name, arguments) \
	if (!(*(void **)&name = dlsym(library, #name))) \
		stop(77, "libOpenCL.so.1 has no " #name);
	CALLS
#undef CALL
	clGetPlatformIDs(16, platforms, &n);
	for (unsigned k = 0; k < n && k < 16 && !found; k++)
		if (clGetDeviceIDs(platforms[k], (uint32_t)ANY_DEVICE, 1, &device, &found))
			found = 0;
	if (!found)
		stop(77, "there is no OpenCL device");
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	check(error);
	queue = clCreateCommandQueue(context, device, 0, &error);
	check(error);
}

/* ---- the program's own memory and kernels ---- */

/* Makes a buffer of n floats: random numbers from -scale to scale, or zeros if scale is 0. */
static struct cg_mem buffer(size_t n, float scale)
{
	static int made;
	float *data = calloc(n, sizeof *data);
	struct cg_mem mem = { NULL, 0, n * sizeof *data, CG_DEVICE };
	int error;

	if (!data || made == MEMS)
		stop(1, "no memory");
	for (size_t k = 0; k < n && scale > 0; k++)
		data[k] = scale * (2 * (float)rand() / (float)RAND_MAX - 1);
	mem.data = clCreateBuffer(context, COPY_HOST, mem.bytes, data, &error);
	check(error);
	free(data);
	return mems[made++] = mem;
}

static const char text[] =
	"kernel void compare(global const float *x, global const float *y, global float *dy, global float *loss, int step)\n"
	"{\n"
	"	int b = get_global_id(0);\n"
	"	float sum = 0;\n"
	"	for (int t = 0; t < T; t++)\n"
	"		for (int u = 0; u < U; u++) {\n"
	"			float right = t < LATE ? 0 : x[((t - LATE) * B + b) * U + u], off = y[(t * B + b) * U + u] - right;\n"
	"			dy[(t * B + b) * U + u] = off / (T * B * U);\n"
	"			sum += off * off;\n"
	"		}\n"
	"	loss[step * B + b] = sum;\n"
	"}\n"
	"kernel void descend(global float *weights, global const float *gradient, global float *mean, global float *square)\n"
	"{\n"
	"	int k = get_global_id(0);\n"
	"	float g = gradient[k];\n"
	"	mean[k] += 0.1f * (g - mean[k]);\n"
	"	square[k] += 0.01f * (g * g - square[k]);\n"
	"	weights[k] -= 0.02f * mean[k] / (sqrt(square[k]) + 1e-6f);\n"
	"}\n";

static void build(void)
{
	const char *source = text;
	char options[64];
	int error;

	snprintf(options, sizeof options, "-DT=%d -DB=%d -DU=%d -DLATE=%d", T, B, U, LATE);
	program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
	check(error);
	check(clBuildProgram(program, 1, &device, options, NULL, NULL));
}

static void *kernel(const char *name, const struct cg_mem *arguments, unsigned n)
{
	int error;
	void *k = clCreateKernel(program, name, &error);

	check(error);
	for (unsigned a = 0; a < n; a++)
		check(clSetKernelArg(k, a, sizeof arguments[a].data, &arguments[a].data));
	return k;
}

static void launch(void *kernel, size_t items)
{
	check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
}

/* ---- the network ---- */

static struct cg_rnn *open_network(struct cg_context *cg, struct cg_rnn_sizes *sizes)
{
	struct cg_rnn_config config;
	struct cg_rnn *rnn;

	cg_rnn_config_init(&config, sizeof config);
	config.layers = LAYERS;
	config.input = config.units = U;
	check(cg_rnn_open(cg, &config, &rnn));
	check(cg_rnn_sizes(rnn, T, B, NULL, sizes));
	return rnn;
}

static struct cg_rnn_call call_of(const struct cg_rnn_sizes *sizes)
{
	struct cg_rnn_call call;

	cg_rnn_call_init(&call, sizeof call);
	call.T = T;
	call.B = B;
	call.input = buffer(N, 0.8f);
	call.params = buffer(sizes->params / sizeof(float), 0.4f);
	call.params_backprop = buffer(sizes->params / sizeof(float), 0);
	call.output = buffer(N, 0);
	call.output_backprop = buffer(N, 0);
	call.reserve = buffer(sizes->reserve / sizeof(float), 0);
	call.work = buffer((sizes->work + 3) / sizeof(float), 0);
	return call;
}

static void train(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_sizes *sizes, float losses[STEPS][B])
{
	struct cg_rnn_call call = call_of(sizes);
	size_t weights = sizes->params / sizeof(float);
	struct cg_mem loss = buffer(STEPS * B, 0), mean = buffer(weights, 0), square = buffer(weights, 0);
	void *compare = kernel("compare", (struct cg_mem[]){ call.input, call.output, call.output_backprop, loss }, 4);
	void *descend = kernel("descend", (struct cg_mem[]){ call.params, call.params_backprop, mean, square }, 4), *gate;
	int error;

	gate = clCreateUserEvent(context, &error);
	check(error);
	check(clEnqueueBarrierWithWaitList(queue, 1, &gate, NULL));
	for (int step = 0; step < STEPS; step++) {
		check(cg_rnn_forward(stream, rnn, &call));
		check(clSetKernelArg(compare, 4, sizeof step, &step));
		launch(compare, B);
		check(cg_rnn_backward(stream, rnn, &call));
		launch(descend, weights);
		if (step == HELD - 1) {
			printf("%d steps are in the queue, and none has begun\n", HELD);
			check(clSetUserEventStatus(gate, COMPLETE));
		}
	}
	check(clEnqueueReadBuffer(queue, loss.data, 1, 0, loss.bytes, losses, 0, NULL, NULL));
	clReleaseEvent(gate);
	clReleaseKernel(descend);
	clReleaseKernel(compare);
}

int main(void)
{
	static float losses[STEPS][B];
	struct cg_context *cg;
	struct cg_stream *stream;
	struct cg_rnn_sizes sizes;
	struct cg_rnn *rnn;

	open_opencl();
	build();
	check(cg_adopt("opencl", context, device, &cg));
	check(cg_stream_open(cg, queue, &stream));
	rnn = open_network(cg, &sizes);
	train(stream, rnn, &sizes, losses);
	for (int step = 0; step < STEPS; step += EACH) {
		double sum = 0;

		for (int b = 0; b < B; b++)
			sum += losses[step][b];
		printf("step %3d  loss %.6f\n", step, sum / N);
	}
	cg_rnn_close(rnn);
	cg_stream_close(stream);
	cg_close(cg);
	for (int k = 0; k < MEMS && mems[k].data; k++)
		clReleaseMemObject(mems[k].data);
	clReleaseProgram(program);
	clReleaseCommandQueue(queue);
	clReleaseContext(context);
	return 0;
}
