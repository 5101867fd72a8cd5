/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the cuda backend and its calls of the driver: the launches and products that each op enqueues; kernels compiled once, for the
 * device or for the newest architecture that the compiler supports; a caller's own context, stream and memory; stream capture; wrong
 * arguments; and no device.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "backends/cuda/cuda.h"
#include "runtime/op/op.h"
#include "tests/help/counted.h"
#include "tests/backends/cuda/cuda_watch.h"
#include "tests/help/shorten.h"

/* ---- what is enqueued ---- */

static long products(void)
{
	return seen.cublasGemmEx + seen.cublasLtMatmul;
}

/* Expects that a call made `launches` launches and `multiplied` products, and no copy, fill, wait, allocation, query or build, and created
   or set no object of a library. */
static void expect_calls(const char *what, long launches, long multiplied)
{
	long others = seen.cuMemcpyHtoDAsync_v2 + seen.cuMemcpyDtoHAsync_v2 + seen.cuMemcpyDtoDAsync_v2 + seen.cuMemsetD8Async +
	              seen.cuStreamSynchronize + seen.cuMemAlloc_v2 + seen.cuMemFree_v2 + seen.cuMemAllocAsync + seen.cuMemFreeAsync +
	              seen.cuModuleLoadData + seen.cuModuleGetFunction +
	              seen.cuFuncGetAttribute + seen.nvrtcCompileProgram + seen.cublasCreate_v2 + seen.cublasSetStream_v2 +
	              seen.cublasSetWorkspace_v2 + seen.cublasSetMathMode + seen.cublasLtMatmulAlgoGetHeuristic +
	              seen.cublasLtMatmulDescCreate +
	              seen.cublasLtMatrixLayoutCreate + seen.cuDeviceGetAttribute + seen.cuStreamCreate;

	if (seen.cuLaunchKernel != launches || products() != multiplied || others)
		fail_msg("%s: expected %ld launches, %ld products and nothing else, got %ld, %ld and %ld", what, launches, multiplied,
		         seen.cuLaunchKernel, products(), others);
	assert_int_equal(cg_memory_fail(0), 0);
	assert_int_equal(balance, 0);
}

/* The first call builds kernels; the second shows for how many products with a start other than their result's memory cublasLt has an
   algorithm: each such product without an algorithm takes one more launch, which copies the start to the result's memory. */
static void count(struct cg_stream *stream, block_call *call, const void *op, const struct commands *c)
{
	int has_blas = blas.GemmEx != NULL;
	long spread;

	assert_int_equal(call(stream, op), CG_OK);
	forget_calls();
	assert_int_equal(call(stream, op), CG_OK);
	spread = has_blas ? c->starts - seen.cublasLtMatmul : 0;
	assert_in_range(spread, 0, c->starts);
	forget_calls();
	cg_memory_fail(0);
	assert_int_equal(call(stream, op), CG_OK);
	expect_calls(c->what, c->launches + spread + (has_blas ? 0 : c->products), has_blas ? c->products : 0);
}

static unsigned no_algorithm(struct cublasLtContext *handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                             cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                             cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t *results, int *count)
{
	(void)handle, (void)desc, (void)a, (void)b, (void)c, (void)d, (void)preference, (void)most, (void)results;
	*count = 0;
	return CUBLAS_STATUS_NOT_SUPPORTED;
}

/* If cublasLt has no algorithm that adds a bias, one launch copies the bias to each row of the result, and a repeated call does not ask
   cublasLt again. */
static void test_no_bias(void **state)
{
	int has_blas = blas.GemmEx != NULL;
	struct tensors t;
	struct cg_lstm_block l;

	(void)state;
	if (!open_tensors(&t))
		return;
	if (lt.MatmulAlgoGetHeuristic) {
		cg_cublaslt.MatmulAlgoGetHeuristic = no_algorithm;
		l = lstm(&t, 0);
		count(t.stream, call_lstm_forward, &l, &(struct commands){ "lstm forward: two products, one point, and the bias", 1, 2, 1 });
		assert_int_equal(seen.cuLaunchKernel, has_blas ? 2 : 3);
	}
	free_tensors(&t);
}

/* ---- the threads of a launch ---- */

static struct { unsigned x, y, wide, tall; } last;           /* the last launch: x, y: blocks of the grid; wide, tall: threads of a block */

static unsigned note_launch(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared_bytes, struct CUstream_st *stream,
                            void **parameters, void **extra)
{
	last.x = grid_x, last.y = grid_y, last.wide = block_x, last.tall = block_y;
	return driver.LaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra);
}

/* Launches a kernel with one of its outputs present; all its other arguments are absent. */
static void launch_kernel(struct tensors *t, const struct cg_kernel *kernel, const struct cg_pass_plan *plan, int64_t rows, int64_t units)
{
	struct cg_arg args[4 * CG_SLOTS_MAX];
	struct cg_mem out = { .bytes = 0 };
	int n = 0;

	for (int p = 0; p < plan->n_functions; p++)
		for (int k = 2; k < plan->functions[p].n_arguments; k++) {
			const struct cg_argument *a = &plan->functions[p].arguments[k];
			int point = plan->functions[p].shape == CG_FUNCTION_POINT, known = 0;

			for (int j = 0; j < n; j++)
				known |= !strcmp(args[j].name, a->name);
			if (known || point != (kernel->shape == CG_POINT) || a->kind == CG_KIND_SCRATCH)
				continue;
			args[n] = (struct cg_arg){ .name = a->name, .stride = units };
			if (a->out && !out.data) {
				assert_int_equal(cg_alloc(t->context, (size_t)((point ? rows : 1) * units) * 8, &out), CG_OK);
				args[n].mem = out;
			}
			n++;
		}
	if (cg_kernel_run(t->stream, kernel, rows, units, args, n) || cg_stream_sync(t->stream))
		fail_msg("%s", cg_message());
	cg_free(t->context, &out);
}

/* Expects one unit per thread just below the number of rows where the launch changes its form, and runs of units from that number on; and,
   for ROWS rows, at least one block for each multiprocessor, or blocks of SMALLEST threads. */
static void expect_forms(struct tensors *t, const struct cg_kernel *kernel, const struct cg_pass_plan *plan)
{
	enum { ROWS = 16, UNITS = 768, SMALLEST = 64 };
	int64_t multiprocessors = t->context->device->units, run = cg_run_units(plan, &plan->functions[0]), runs = (UNITS + run - 1) / run;
	int64_t change = (256 * multiprocessors + runs - 1) / runs;

	launch_kernel(t, kernel, plan, ROWS, UNITS);
	if (last.x * last.wide < UNITS || last.wide * last.tall < SMALLEST ||
	    (last.x * last.y < multiprocessors && last.wide * last.tall > SMALLEST))
		fail_msg("%s [%d, %d]: %u x %u blocks of %u x %u on %d multiprocessors", plan->functions[0].key, ROWS, UNITS, last.x, last.y,
		         last.wide, last.tall, (int)multiprocessors);
	launch_kernel(t, kernel, plan, change - 1, UNITS);
	if (last.x * last.wide < UNITS)
		fail_msg("%s [%d, %d]: not one unit a thread", plan->functions[0].key, (int)change - 1, UNITS);
	launch_kernel(t, kernel, plan, change, UNITS);
	if (run > 1 && last.x * last.wide >= UNITS)
		fail_msg("%s [%d, %d]: not runs of units", plan->functions[0].key, (int)change, UNITS);
}

/* Calls expect_forms() for forward and gradient of each built-in cell in each dtype, on a device of 132 multiprocessors if the device is
   the stand-in. */
static void test_forms(void **state)
{
	static const int passes[] = { CG_FORWARD, CG_GRAD };
	struct tensors t;
	int opened;

	(void)state;
	setenv("CELLGRAD_FAKE_MULTIPROCESSORS", "132", 1);
	opened = open_tensors(&t);
	unsetenv("CELLGRAD_FAKE_MULTIPROCESSORS");
	if (!opened)
		return;
	if (strstr(cg_describe(t.context), "stand-in"))
		assert_int_equal(t.context->device->units, 132);
	cg_cu.LaunchKernel = note_launch;
	for (int c = 0; cg_cell_name(c); c++)
		for (int p = 0; p < 2; p++)
			for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++) {
				struct cg_kernel kernel = { cg_cell_find(cg_cell_name(c)), NULL, 1, passes[p], dtype, CG_POINT };
				struct cg_mistake mistake;
				struct cg_pass_plan *plan = cg_plan(kernel.cell, 0, kernel.pass, kernel.cell->n_stages > 1, dtype, cg_memory, &mistake);

				assert_non_null(plan);
				expect_forms(&t, &kernel, plan);
				cg_plan_free(plan);
			}
	free_tensors(&t);
}

/* The kernel that sums the gradients of an lstm's biases has a row of blocks for each of the four gates. */
static void test_sums(void **state)
{
	struct tensors t;
	struct cg_kernel kernel = { cg_cell_find("lstm"), NULL, 1, CG_GRAD, CG_F32, CG_SUM };
	struct cg_pass_plan *plan;
	struct cg_mistake mistake;

	(void)state;
	if (!open_tensors(&t))
		return;
	plan = cg_plan(kernel.cell, 0, kernel.pass, 0, kernel.dtype, cg_memory, &mistake);
	assert_non_null(plan);
	cg_cu.LaunchKernel = note_launch;
	for (int64_t units = 1; units < 1000; units *= 7) {
		launch_kernel(&t, &kernel, plan, 130, units);
		assert_int_equal(last.tall, 1);
		assert_int_equal(last.y, 4);
		assert_true((int64_t)last.x * last.wide >= units);
	}
	cg_plan_free(plan);
	free_tensors(&t);
}

/* ---- the compiler ---- */

static char options[256];

static unsigned note_options(struct _nvrtcProgram *program, int count, const char *const *given)
{
	options[0] = 0;
	for (int k = 0; k < count; k++) {
		strcat(options, given[k]);
		strcat(options, " ");
	}
	return compiler.CompileProgram(program, count, given);
}

static unsigned one_arch(int *count)
{
	*count = 1;
	return 0;
}

static int known_arch;

static unsigned that_arch(int *archs)
{
	*archs = known_arch;
	return 0;
}

static unsigned bad_text(struct _nvrtcProgram **program, const char *text, const char *name, int count, const char *const *headers,
                         const char *const *names)
{
	(void)text;
	return compiler.CreateProgram(program, "#error nonsense\n", name, count, headers, names);
}

static void test_compiler(void **state)
{
	char own[64];
	struct tensors t;
	struct cg_lstm_block l;
	const char *sm;

	(void)state;
	if (!open_tensors(&t))
		return;
	l = lstm(&t, 0);
	l.dgates = some(&t, B * 4 * U);
	cg_nvrtc.CompileProgram = note_options;
	assert_int_equal(cg_lstm_block_grad(t.stream, &l), CG_OK);
	sm = strstr(cg_describe(t.context), "sm_");
	assert_non_null(sm);
	snprintf(own, sizeof own, "--gpu-architecture=%.*s -fmad=false -ftz=true ", (int)strcspn(sm, ","), sm);
	assert_string_equal(options, own);
	assert_true(seen.nvrtcGetCUBIN > 0 && !seen.nvrtcGetPTX);

	/* If the device is newer than the compiler, NVRTC makes PTX.  In f64 no option makes kernels flush subnormals. */
	cg_nvrtc.GetNumSupportedArchs = one_arch;
	cg_nvrtc.GetSupportedArchs = that_arch;
	known_arch = 50;
	l.B = 1, l.U = 2, l.I = 1, l.dtype = CG_F64;
	shorten(cg_op_find("lstm_block_cell_grad", NULL), &l);
	seen.nvrtcGetCUBIN = 0;
	(void)cg_lstm_block_grad(t.stream, &l);          /* the call may fail: the driver need not accept this PTX */
	assert_string_equal(options, "--gpu-architecture=compute_50 -fmad=false ");
	assert_false(seen.nvrtcGetCUBIN);

	known_arch = 990;
	l.dtype = CG_F16;
	shorten(cg_op_find("lstm_block_cell_grad", NULL), &l);
	expect_refused(cg_lstm_block_grad(t.stream, &l), CG_BUILD, "compiles for sm_990 and later, but the device is sm_");
	forget();

	cg_nvrtc.CreateProgram = bad_text;
	expect_refused(cg_lstm_block_grad(t.stream, &l), CG_BUILD, "cuda: nvrtcCompileProgram: NVRTC_ERROR_COMPILATION (6)");
	assert_non_null(strstr(cg_message(), "cg_lstm_block_f16_grad"));
	assert_non_null(strstr(cg_message(), "nonsense"));
	forget();
	assert_int_equal(cg_lstm_block_grad(t.stream, &l), CG_OK);
	free_tensors(&t);
}

/* ---- what a caller brings ---- */

struct native { struct cg_context *first; struct CUctx_st *context; struct CUstream_st *stream; };

/* Makes the device's context and a stream of it, as a caller has them; the context is not current afterwards. */
static int open_native(struct native *native)
{
	struct CUctx_st *popped;

	if (!opens(&native->first))
		return 0;
	assert_int_equal(driver.DevicePrimaryCtxRetain(&native->context, 0), 0);
	assert_int_equal(driver.CtxPushCurrent_v2(native->context), 0);
	assert_int_equal(driver.StreamCreate(&native->stream, 0), 0);
	assert_int_equal(driver.CtxPopCurrent_v2(&popped), 0);
	return 1;
}

static void close_native(struct native *native)
{
	struct CUctx_st *popped;

	driver.CtxPushCurrent_v2(native->context);
	driver.StreamSynchronize(native->stream);
	driver.StreamDestroy_v2(native->stream);
	driver.CtxPopCurrent_v2(&popped);
	driver.DevicePrimaryCtxRelease_v2(0);
	cg_close(native->first);
}

static void expect_no_context(void)
{
	int device;

	assert_int_not_equal(driver.CtxGetDevice(&device), 0);
}

/* Runs forward and gradient in the caller's context, through the caller's stream, without a wait; h and dgates are the cpu's to 1e-6. */
static void test_adopted(void **state)
{
	struct native native;
	struct tensors t = { .n = 0 }, u = { .n = 0 };
	struct cg_lstm_block l, m;
	float h[2][B * U], d[2][B * 4 * U];

	(void)state;
	if (!open_native(&native))
		return;
	assert_int_equal(cg_adopt("cuda", native.context, NULL, &t.context), CG_OK);
	assert_int_equal(cg_stream_open(t.context, native.stream, &t.stream), CG_OK);
	l = lstm(&t, 1);
	l.dgates = some(&t, B * 4 * U);
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);
	assert_int_equal(cg_lstm_block_grad(t.stream, &l), CG_OK);
	forget();
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);
	assert_int_equal(cg_lstm_block_grad(t.stream, &l), CG_OK);
	assert_int_equal(seen.cuStreamSynchronize, 0);
	assert_int_equal(seen.cuLaunchKernel + products(), 4);
	expect_no_context();
	assert_int_equal(cg_get(t.stream, h[0], l.h, sizeof h[0]), CG_OK);
	assert_int_equal(cg_get(t.stream, d[0], l.dgates, sizeof d[0]), CG_OK);

	assert_int_equal(cg_open("cpu", &u.context), CG_OK);
	assert_int_equal(cg_stream_open(u.context, NULL, &u.stream), CG_OK);
	m = lstm(&u, 1);
	m.dgates = some(&u, B * 4 * U);
	assert_int_equal(cg_lstm_block_forward(u.stream, &m), CG_OK);
	assert_int_equal(cg_lstm_block_grad(u.stream, &m), CG_OK);
	assert_int_equal(cg_get(u.stream, h[1], m.h, sizeof h[1]), CG_OK);
	assert_int_equal(cg_get(u.stream, d[1], m.dgates, sizeof d[1]), CG_OK);
	for (int k = 0; k < B * U; k++)
		assert_true(h[0][k] - h[1][k] < 1e-6f && h[1][k] - h[0][k] < 1e-6f);
	for (int k = 0; k < B * 4 * U; k++)
		assert_true(d[0][k] - d[1][k] < 1e-6f && d[1][k] - d[0][k] < 1e-6f);
	free_tensors(&u);
	free_tensors(&t);
	expect_no_context();
	close_native(&native);
}

static struct CUctx_st *of_another(void)
{
	static int another;

	return (struct CUctx_st *)(void *)&another;
}

static unsigned another_context(struct CUstream_st *stream, struct CUctx_st **context)
{
	(void)stream;
	*context = of_another();
	return 0;
}

static unsigned another_memory(void *value, unsigned attribute, CUdeviceptr at)
{
	unsigned code = driver.PointerGetAttribute(value, attribute, at);

	if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
		*(struct CUctx_st **)value = of_another();
	return code;
}

/* Plays a driver whose answers about memory are: no context, as for a pool's memory, and device 7. */
static unsigned another_device(void *value, unsigned attribute, CUdeviceptr at)
{
	(void)at;
	if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
		*(struct CUctx_st **)value = NULL;
	else
		*(int *)value = 7;
	return 0;
}

static void test_adopted_context(void **state)
{
	struct native native;
	struct tensors t = { .n = 0 };
	struct cg_lstm_block l;
	struct cg_context *context;
	struct cg_stream *stream;
	float host[B * I] = { 0 };

	(void)state;
	if (!open_native(&native))
		return;
	expect_refused(cg_adopt("cuda", native.context, native.context, &context), CG_BAD_ARGUMENT, "cg_adopt: device: expected NULL");
	expect_refused(cg_adopt("cdua", native.context, NULL, &context), CG_BAD_ARGUMENT, "cuda");
	expect_refused(cg_adopt("cuda", NULL, NULL, &context), CG_BAD_ARGUMENT, "native: expected a pointer, got NULL");
	cg_cu.StreamGetCtx = another_context;
	expect_refused(cg_stream_open(native.first, native.stream, &stream), CG_BAD_ARGUMENT, "belongs to another CUcontext");
	forget();

	t.context = native.first;
	assert_int_equal(cg_stream_open(t.context, NULL, &t.stream), CG_OK);
	l = lstm(&t, 0);
	l.h.bytes *= 2;
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_BAD_ARGUMENT, "lstm_block_cell: h: expected [B=3, U=5] f32, 60 bytes, got 120");
	l.h.bytes /= 2;
	l.h.offset = 4;
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_BAD_ARGUMENT, "lstm_block_cell: h: expected memory of at least 60 bytes");
	l.h.offset = 0;
	cg_cu.PointerGetAttribute = another_memory;
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_BAD_ARGUMENT, "lstm_block_cell: x: the memory belongs to another CUcontext");
	cg_cu.PointerGetAttribute = another_device;
	expect_refused(cg_put(t.stream, l.x, host, 4), CG_BAD_ARGUMENT, "cg_put: to: the memory belongs to device 7");
	forget();
	l.x = (struct cg_mem){ host, 0, sizeof host, CG_DEVICE };
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_BAD_ARGUMENT, "lstm_block_cell: x: expected memory of the device");
	while (t.n)
		cg_free(t.context, &t.mem[--t.n]);
	cg_stream_close(t.stream);
	close_native(&native);

	expect_refused(cg_open("cuda:99", &context), CG_NO_DEVICE, "there is no device 99: expected 0 to ");
	expect_refused(cg_open("cuda:x", &context), CG_BAD_ARGUMENT, "expected a device number");
	expect_refused(cg_open("cuda:-1", &context), CG_BAD_ARGUMENT, "expected a device number");
	expect_refused(cg_open("cuda:0x", &context), CG_BAD_ARGUMENT, "expected a device number");
	expect_refused(cg_open("cdua", &context), CG_BAD_ARGUMENT, "did you mean 'cuda'");
}

/* ---- no device ---- */

static unsigned none(int *n)
{
	*n = 0;
	return 0;
}

/* If there is no device, or none with the requested number, the message has CUDA_VISIBLE_DEVICES if that is set. */
static void test_no_device(void **state)
{
	static const char variable[] = "CUDA_VISIBLE_DEVICES";
	const char *given = getenv(variable);
	char *before = given ? strdup(given) : NULL;
	struct cg_context *context;

	(void)state;
	if (!opens(&context)) {
		free(before);
		return;
	}
	cg_close(context);
	unsetenv(variable);
	expect_refused(cg_open("cuda:99", &context), CG_NO_DEVICE, "there is no device 99: expected 0 to ");
	assert_null(strstr(cg_message(), variable));
	setenv(variable, "1,0", 1);
	expect_refused(cg_open("cuda:99", &context), CG_NO_DEVICE, "; CUDA_VISIBLE_DEVICES is '1,0'");
	cg_cu.DeviceGetCount = none;
	expect_refused(cg_open("cuda", &context), CG_NO_DEVICE, " counts 0 devices; CUDA_VISIBLE_DEVICES is '1,0'");
	unsetenv(variable);
	expect_refused(cg_open("cuda", &context), CG_NO_DEVICE, " counts 0 devices");
	assert_null(strstr(cg_message(), variable));
	forget();
	if (before)
		setenv(variable, before, 1);
	free(before);
}

/* ---- a stream that is captured ---- */

static unsigned capturing(struct CUstream_st *stream, unsigned *status)
{
	(void)stream;
	*status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return 0;
}

static void test_captured(void **state)
{
	float host[B * I] = { 0 };
	struct native native;
	struct tensors t = { .n = 0 };
	struct cg_lstm_block l, given;

	(void)state;
	if (!open_native(&native))
		return;
	assert_int_equal(cg_adopt("cuda", native.context, NULL, &t.context), CG_OK);
	assert_int_equal(cg_stream_open(t.context, native.stream, &t.stream), CG_OK);
	given = l = lstm(&t, 0);
	cg_cu.StreamIsCapturing = capturing;
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_UNSUPPORTED, "first");
	forget();
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);

	forget();
	cg_memory_fail(0);
	cg_cu.StreamIsCapturing = capturing;
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);
	expect_calls("a captured forward", blas.GemmEx ? 1 : 3, blas.GemmEx ? 2 : 0);
	expect_refused(cg_stream_sync(t.stream), CG_UNSUPPORTED, "the stream is being captured: a wait is not allowed");
	expect_refused(cg_put(t.stream, l.x, host, 4), CG_UNSUPPORTED, "the stream is being captured: a copy");
	expect_refused(cg_get(t.stream, host, l.x, 4), CG_UNSUPPORTED, "the stream is being captured: a copy");
	l.work = (struct cg_mem){ .bytes = 0 };
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_UNSUPPORTED, "the stream is being captured: an allocation");
	l = given;
	l.x = (struct cg_mem){ host, 0, sizeof host, CG_HOST };
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_UNSUPPORTED);
	assert_int_equal(seen.cuMemcpyHtoDAsync_v2 + seen.cuMemcpyDtoHAsync_v2 + seen.cuStreamSynchronize, 0);
	forget();
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);
	free_tensors(&t);
	close_native(&native);
}

/* ---- graphs, as the driver makes them ---- */

static struct {
	int (*StreamBeginCapture_v2)(void *, unsigned), (*StreamEndCapture)(void *, void **);
	int (*GraphInstantiateWithFlags)(void **, void *, unsigned long long), (*GraphLaunch)(void *, void *);
	int (*GraphExecDestroy)(void *), (*GraphDestroy)(void *), (*MemcpyDtoH_v2)(void *, CUdeviceptr, size_t);
} graphs;

/* Looks up the driver's functions for graphs, in the library that the backend has loaded. */
static void find_graphs(void)
{
	static const struct { const char *name; void *to; } all[] = {
		{ "cuStreamBeginCapture_v2", &graphs.StreamBeginCapture_v2 }, { "cuStreamEndCapture", &graphs.StreamEndCapture },
		{ "cuGraphInstantiateWithFlags", &graphs.GraphInstantiateWithFlags }, { "cuGraphLaunch", &graphs.GraphLaunch },
		{ "cuGraphExecDestroy", &graphs.GraphExecDestroy }, { "cuGraphDestroy", &graphs.GraphDestroy },
		{ "cuMemcpyDtoH_v2", &graphs.MemcpyDtoH_v2 },
	};
	void *library = dlopen(cg_cuda_path(CG_CUDA_DRIVER), RTLD_NOW);

	assert_non_null(library);
	for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
		void *call = dlsym(library, all[k].name);

		assert_non_null(call);
		memcpy(all[k].to, &call, sizeof call);
	}
	dlclose(library);
}

/* enter makes the device's context the thread's current context; leave makes the earlier one current again. */
static void enter(const struct native *native)
{
	assert_int_equal(driver.CtxPushCurrent_v2(native->context), 0);
}

static void leave(void)
{
	struct CUctx_st *popped;

	assert_int_equal(driver.CtxPopCurrent_v2(&popped), 0);
}

static void begin_capture(const struct native *native, unsigned mode)
{
	enter(native);
	assert_int_equal(graphs.StreamBeginCapture_v2(native->stream, mode), 0);
	leave();
}

/* Ends a capture, which must be valid, and returns its graph. */
static void *end_capture(const struct native *native)
{
	void *graph = NULL;

	enter(native);
	assert_int_equal(graphs.StreamEndCapture(native->stream, &graph), 0);
	leave();
	assert_non_null(graph);
	return graph;
}

static void destroy_graph(const struct native *native, void *graph)
{
	enter(native);
	assert_int_equal(graphs.GraphDestroy(graph), 0);
	leave();
}

/* A context in which nothing is built yet, with the caller's stream and one of the library's own. */
struct pair { struct native native; struct tensors t; struct cg_stream *adopted; };

static int open_pair(struct pair *p)
{
	p->t = (struct tensors){ .n = 0 };
	if (!open_native(&p->native))
		return 0;
	find_graphs();
	assert_int_equal(cg_adopt("cuda", p->native.context, NULL, &p->t.context), CG_OK);
	assert_int_equal(cg_stream_open(p->t.context, NULL, &p->t.stream), CG_OK);
	assert_int_equal(cg_stream_open(p->t.context, p->native.stream, &p->adopted), CG_OK);
	return 1;
}

static void close_pair(struct pair *p)
{
	cg_stream_close(p->adopted);
	free_tensors(&p->t);
	close_native(&p->native);
}

/* In every mode of capture, the first forward on either stream, an allocation and the opening of a plan are refused, and the capture stays
   valid; afterwards a plan opens and a forward succeeds. */
static void test_first_use_captured(void **state)
{
	enum { GLOBAL, THREAD_LOCAL, RELAXED, MODES };
	static const char spoils[] = "a stream of the context is being captured";

	(void)state;
	for (unsigned mode = GLOBAL; mode < MODES; mode++) {
		struct cg_rnn_config config;
		struct cg_rnn *rnn = NULL;
		struct cg_lstm_block l;
		struct cg_mem mem;
		struct pair p;

		if (!open_pair(&p))
			return;
		l = lstm(&p.t, 0);
		cg_rnn_config_init(&config, sizeof config);
		config.input = config.units = 3;
		begin_capture(&p.native, mode);
		expect_refused(cg_lstm_block_forward(p.t.stream, &l), CG_UNSUPPORTED, spoils);
		expect_refused(cg_lstm_block_forward(p.adopted, &l), CG_UNSUPPORTED, "captured");
		expect_refused(cg_alloc(p.t.context, 64, &mem), CG_UNSUPPORTED, spoils);
		expect_refused(cg_rnn_open(p.t.context, &config, &rnn), CG_UNSUPPORTED, spoils);
		destroy_graph(&p.native, end_capture(&p.native));
		assert_int_equal(cg_rnn_open(p.t.context, &config, &rnn), CG_OK);
		cg_rnn_close(rnn);
		assert_int_equal(cg_lstm_block_forward(p.t.stream, &l), CG_OK);
		/* Kernels built for one stream serve all streams; for its first product each stream needs a handle of cuBLAS of its own. */
		begin_capture(&p.native, mode);
		if (blas.GemmEx)
			expect_refused(cg_lstm_block_forward(p.adopted, &l), CG_UNSUPPORTED, "first product");
		assert_int_equal(cg_lstm_block_forward(p.t.stream, &l), CG_OK);
		destroy_graph(&p.native, end_capture(&p.native));
		close_pair(&p);
	}
}

/* A graph of a captured forward, launched three times, gives each time the bits of a forward that was not captured. */
static void test_replayed(void **state)
{
	float eager[B * U], zeros[B * U] = { 0 }, got[B * U];
	struct cg_lstm_block l;
	struct pair p;
	void *graph, *exec;

	(void)state;
	if (!open_pair(&p))
		return;
	l = lstm(&p.t, 1);
	assert_int_equal(cg_lstm_block_forward(p.adopted, &l), CG_OK);
	assert_int_equal(cg_get(p.adopted, eager, l.h, sizeof eager), CG_OK);
	begin_capture(&p.native, 0);
	assert_int_equal(cg_lstm_block_forward(p.adopted, &l), CG_OK);
	graph = end_capture(&p.native);
	enter(&p.native);
	assert_int_equal(graphs.GraphInstantiateWithFlags(&exec, graph, 0), 0);
	leave();
	destroy_graph(&p.native, graph);
	for (int k = 0; k < 3; k++) {
		assert_int_equal(cg_put(p.adopted, l.h, zeros, sizeof zeros), CG_OK);
		enter(&p.native);
		assert_int_equal(graphs.GraphLaunch(exec, p.native.stream), 0);
		leave();
		assert_int_equal(cg_get(p.adopted, got, l.h, sizeof got), CG_OK);
		assert_memory_equal(got, eager, sizeof got);
	}
	enter(&p.native);
	assert_int_equal(graphs.GraphExecDestroy(exec), 0);
	leave();
	close_pair(&p);
}

/* A call on the default stream, CU_STREAM_LEGACY, does not wait; a copy that the caller makes by cuMemcpyDtoH after the call has the call's
   results. */
static void test_default_stream(void **state)
{
	struct cg_stream *of_default;
	struct cg_lstm_block l;
	float h[B * U], right[B * U], zeros[B * U] = { 0 };
	struct pair p;

	(void)state;
	if (!open_pair(&p))
		return;
	assert_int_equal(cg_stream_open(p.t.context, (void *)1, &of_default), CG_OK);
	l = lstm(&p.t, 0);
	assert_int_equal(cg_lstm_block_forward(p.t.stream, &l), CG_OK);
	assert_int_equal(cg_get(p.t.stream, right, l.h, sizeof right), CG_OK);
	for (int k = 0; k < 20; k++) {
		assert_int_equal(cg_put(p.t.stream, l.h, zeros, sizeof zeros), CG_OK);
		forget_calls();
		assert_int_equal(cg_lstm_block_forward(of_default, &l), CG_OK);
		assert_int_equal(seen.cuStreamSynchronize, 0);
		enter(&p.native);
		assert_int_equal(graphs.MemcpyDtoH_v2(h, (CUdeviceptr)(uintptr_t)l.h.data + l.h.offset, sizeof h), 0);
		leave();
		assert_memory_equal(h, right, sizeof h);
	}
	cg_stream_close(of_default);
	close_pair(&p);
}

/* ---- a forked child ---- */

static void test_child(void **state)
{
	struct cg_context *context, *other = NULL;
	int status = 0;
	pid_t child;

	(void)state;
	if (!opens(&context))
		return;
	child = fork();
	if (!child) {
		int code = cg_open("cuda", &other);

		_exit(code == CG_NO_DEVICE && strstr(cg_message(), "forked") && !other ? 42 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
	cg_close(context);
}

int main(void)
{
	static struct watched watched = { open_tensors, forget, count, &seen.nvrtcCompileProgram };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(test_commands, &watched), cmocka_unit_test_prestate(test_commands_of_sequences, &watched),
		cmocka_unit_test(test_no_bias), cmocka_unit_test_prestate(test_built_once, &watched),
		cmocka_unit_test(test_forms), cmocka_unit_test(test_sums),
		cmocka_unit_test(test_compiler), cmocka_unit_test(test_adopted), cmocka_unit_test(test_adopted_context),
		cmocka_unit_test(test_no_device),
		cmocka_unit_test(test_captured), cmocka_unit_test(test_first_use_captured), cmocka_unit_test(test_replayed),
		cmocka_unit_test(test_default_stream), cmocka_unit_test(test_child),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda", tests, set_up, NULL);
}
