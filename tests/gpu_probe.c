/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what a GPU and CUDA's libraries are, and measures what they can do at most: the parts of a report that need neither a test nor a
 * bench.
 *
 *	gpu_probe library NVRTC|CUBLAS|CUDNN   the library's version and path; if it cannot be loaded, exit 1 and the reason
 *	gpu_probe facts                        versions of the driver and of these libraries, and attributes of the device
 *	gpu_probe ceilings                     the rates of copies of 2 GB and of products of 8192^3, in f64 of 4096^3, in Markdown
 *	gpu_probe compile                      the time NVRTC takes for each text of the first calls of four networks, in Markdown
 *	gpu_probe micro FILE                   the measurements of gpu_micro.c, with the kernels in FILE
 *
 * NET_SMALL: if the variable is set, `ceilings` measures smaller sizes, which a stand-in for CUDA's libraries can compute.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/op/op.h"
#include "runtime/core/core.h"
#include "tests/gpu_micro.h"
#include "tests/gpu_time.h"

enum { TURNS = 10, TEXTS_MAX = 256, WORKSPACE = 32 << 20 };

static int fail(const char *message)
{
	printf("%s\n", message);
	return 1;
}

/* ---- libraries ---- */

static const struct { const char *name; int library; } names[] = {
	{ "NVRTC", CG_CUDA_NVRTC }, { "CUBLAS", CG_CUDA_CUBLAS }, { "CUDNN", CG_CUDA_CUDNN }
};

/* A part of the version of cuBLAS, by a call that needs no handle and so no context; 0: cuBLAS is too old for this call. */
static int cublas_part(int part)
{
	void *cublas = dlopen(cg_cuda_path(CG_CUDA_CUBLAS), RTLD_NOW | RTLD_LOCAL), *at = cublas ? dlsym(cublas, "cublasGetProperty") : NULL;
	unsigned (*get)(unsigned part, int *value);
	int value = 0;

	memcpy(&get, &at, sizeof get);
	return get && !get((unsigned)part, &value) ? value : 0;
}

static void print_library(int library)
{
	int major = 0, minor = 0;

	if (library == CG_CUDA_NVRTC && !cg_nvrtc.Version(&major, &minor))
		printf("%d.%d", major, minor);
	else if (library == CG_CUDA_CUBLAS && cublas_part(0))
		printf("%d.%d.%d", cublas_part(0), cublas_part(1), cublas_part(2));
	else if (library == CG_CUDA_CUBLAS)
		printf("of a version that it does not say");
	else if (library == CG_CUDA_CUDNN)
		printf("%d.%d.%d for CUDA %d.%d", CUDNN_PARTS(cg_cudnn_version()), (int)(cg_cudnn.GetCudartVersion() / 1000),
		       (int)(cg_cudnn.GetCudartVersion() % 1000 / 10));
	printf(" at %s\n", cg_cuda_path(library));
}

static int print_one(const char *name)
{
	for (size_t k = 0; k < sizeof names / sizeof *names; k++)
		if (!strcmp(names[k].name, name)) {
			if (cg_cuda_load(CG_CUDA_DRIVER) || cg_cuda_load(names[k].library))
				return fail(cg_message());
			print_library(names[k].library);
			return 0;
		}
	return fail("expected NVRTC, CUBLAS or CUDNN");
}

/* ---- facts ---- */

static const struct { const char *what; unsigned attribute; } attributes[] = {
	{ "multiprocessors", 16 }, { "clock, kHz", 13 }, { "memory clock, kHz", 36 }, { "memory bus, bits", 37 }, { "L2, bytes", 38 },
	{ "shared memory of a block at most, bytes", 97 }, { "ECC", 32 }, { "compute mode", 20 }, { "cooperative launch", 95 },
	{ "cluster launch", 120 }, { "memory pools", 115 },
};

static int print_facts(void)
{
	struct cg_context *context = NULL;

	if (cg_cuda_load(CG_CUDA_DRIVER))
		return fail(cg_message());
	printf("driver: for CUDA %d.%d at %s\n", cg_cuda_version() / 1000, cg_cuda_version() % 1000 / 10, cg_cuda_path(CG_CUDA_DRIVER));
	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		printf("%s: ", names[k].name);
		if (cg_cuda_load(names[k].library))
			printf("%s\n", cg_message());
		else
			print_library(names[k].library);
	}
	if (cg_open("cuda", &context))
		return fail(cg_message());
	printf("device: %s\ncompute capability: %d.%d\n", cg_describe(context), context->device->major, context->device->minor);
	for (size_t k = 0; k < sizeof attributes / sizeof *attributes; k++) {
		int value;

		if (cg_cu.DeviceGetAttribute(&value, attributes[k].attribute, context->device->id))
			printf("%s: not known to this driver\n", attributes[k].what);
		else
			printf("%s: %d\n", attributes[k].what, value);
	}
	cg_close(context);
	return 0;
}

/* ---- ceilings ---- */

struct probe {
	struct cg_context *context;
	struct cg_stream *stream;
	struct gpu_timer timer;
	struct cg_mem a, b, c, workspace;
	struct cublasContext *handle;
};

/* Measures the median of a few times of a call, by the driver's events, or without them by the host's clock; the first two calls are
   warm-ups. */
static int time_median(struct probe *p, int (*call)(struct probe *, const void *), const void *how, double *ms)
{
	double all[TURNS];

	for (int k = -2; k < TURNS; k++) {
		double began = cg_milliseconds(), device;

		gpu_timer_start(&p->timer, p->stream->queue);
		CG_TRY(call(p, how));
		gpu_timer_stop(&p->timer, p->stream->queue);
		CG_TRY(cg_stream_sync(p->stream));
		device = gpu_timer_ms(&p->timer);
		if (k >= 0)
			all[k] = device > 0 ? device : cg_milliseconds() - began;
	}
	qsort(all, TURNS, sizeof *all, gpu_compare);
	*ms = gpu_share(all, TURNS, 0.5);
	return CG_OK;
}

static void *at(struct cg_mem mem)
{
	return (void *)(uintptr_t)cg_cu_address(mem);
}

static int copy_once(struct probe *p, const void *bytes)
{
	CU_TRY(p->context->device, MemcpyDtoDAsync_v2, cg_cu_address(p->b), cg_cu_address(p->a), *(const size_t *)bytes, p->stream->queue->stream);
	return CG_OK;
}

struct product { const char *name; int dtype, n; unsigned type, compute; };

static int multiply_once(struct probe *p, const void *how)
{
	static const double one = 1, zero = 0;
	static const float one_float = 1, zero_float = 0;
	const struct product *m = how;
	const void *alpha = m->dtype == CG_F64 ? (const void *)&one : &one_float, *beta = m->dtype == CG_F64 ? (const void *)&zero : &zero_float;

	CUBLAS_TRY(GemmEx, p->handle, CUBLAS_OP_N, CUBLAS_OP_N, m->n, m->n, m->n, alpha, at(p->a), m->type, m->n, at(p->b), m->type, m->n, beta,
	           at(p->c), m->type, m->n, m->compute, CUBLAS_GEMM_DEFAULT);
	return CG_OK;
}

static int alloc(struct probe *p, size_t bytes, struct cg_mem *mem)
{
	CG_TRY(cg_alloc(p->context, bytes, mem));
	return p->context->backend->zero(p->stream->queue, *mem, bytes);
}

/* Fills memory with repeats of at most 4 MiB of random numbers: times with zeros would be too short. */
static int fill(struct probe *p, struct cg_mem mem, int dtype)
{
	static unsigned long long state = 1;
	size_t chunk = mem.bytes < 1 << 22 ? mem.bytes : 1 << 22;
	void *noise = malloc(chunk);
	int code = noise ? CG_OK : CG_NO_MEMORY;

	if (noise)
		gpu_noise(noise, chunk / cg_dtype_bytes(dtype), dtype, &state);
	for (size_t done = 0; done < mem.bytes && !code; done += chunk) {
		struct cg_mem part = mem;

		part.offset += done;
		part.bytes = mem.bytes - done < chunk ? mem.bytes - done : chunk;
		code = cg_put(p->stream, part, noise, part.bytes);
	}
	free(noise);
	return code;
}

static int measure_copy(struct probe *p, size_t bytes)
{
	double ms;

	CG_TRY(alloc(p, bytes, &p->a));
	CG_TRY(alloc(p, bytes, &p->b));
	CG_TRY(time_median(p, copy_once, &bytes, &ms));
	printf("| copy | | %zu bytes | %.4f | %.1f GB/s, read and written |\n", bytes, ms, 2 * (double)bytes / ms / 1e6);
	return CG_OK;
}

static int measure_product(struct probe *p, const struct product *m)
{
	size_t bytes = (size_t)m->n * (size_t)m->n * cg_dtype_bytes(m->dtype);
	double ms;

	CG_TRY(alloc(p, bytes, &p->a));
	CG_TRY(alloc(p, bytes, &p->b));
	CG_TRY(alloc(p, bytes, &p->c));
	CG_TRY(fill(p, p->a, m->dtype));
	CG_TRY(fill(p, p->b, m->dtype));
	CG_TRY(time_median(p, multiply_once, m, &ms));
	printf("| product | %s | %d^3 | %.4f | %.1f TFLOP/s |\n", m->name, m->n, ms, 2.0 * m->n * m->n * m->n / ms / 1e9);
	return CG_OK;
}

static void give_back(struct probe *p)
{
	cg_stream_sync(p->stream);
	cg_free(p->context, &p->a);
	cg_free(p->context, &p->b);
	cg_free(p->context, &p->c);
}

static int measure_ceilings(struct probe *p)
{
	int small = getenv("NET_SMALL") != NULL, n = small ? 32 : 8192, code;
	const struct product products[] = {
		{ "f16", CG_F16, n, CUDA_R_16F, CUBLAS_COMPUTE_32F }, { "bf16", CG_BF16, n, CUDA_R_16BF, CUBLAS_COMPUTE_32F },
		{ "f32", CG_F32, n, CUDA_R_32F, CUBLAS_COMPUTE_32F }, { "f64", CG_F64, small ? n : n / 2, CUDA_R_64F, CUBLAS_COMPUTE_64F },
	};

	printf("| what | dtype | size | median ms | rate |\n|---|---|---|---|---|\n");
	code = measure_copy(p, small ? 1 << 16 : (size_t)2000000000);
	give_back(p);
	CG_TRY(code);
	CG_TRY(cg_cuda_load(CG_CUDA_CUBLAS));
	CUBLAS_TRY(Create_v2, &p->handle);
	CUBLAS_TRY(SetStream_v2, p->handle, p->stream->queue->stream);
	CG_TRY(cg_alloc(p->context, WORKSPACE, &p->workspace));
	CUBLAS_TRY(SetWorkspace_v2, p->handle, at(p->workspace), p->workspace.bytes);
	for (size_t k = 0; k < sizeof products / sizeof *products && !code; k++) {
		code = measure_product(p, &products[k]);
		give_back(p);
	}
	return code;
}

/* Measures on a stream of the device, while its context is the current one, as direct calls of the driver need. */
static int on_device(int (*measure)(struct probe *))
{
	struct probe p = { .context = NULL };
	int code = cg_open("cuda", &p.context);

	if (!code)
		code = cg_stream_open(p.context, NULL, &p.stream);
	if (!code && !(code = cg_cu_enter(p.context->device))) {
		gpu_timer_open(&p.timer);
		code = measure(&p);
		gpu_timer_close(&p.timer);
		if (p.handle)
			cg_cublas.Destroy_v2(p.handle);
		code = cg_cu_leave(p.context->device, code);
	}
	if (code)
		printf("\n%s\n", cg_message());
	if (p.stream)
		give_back(&p);
	cg_free(p.context, &p.workspace);
	cg_stream_close(p.stream);
	cg_close(p.context);
	return code != CG_OK;
}

/* ---- NVRTC ---- */

static struct cg_nvrtc really;
static struct { char name[80]; double ms; } texts[TEXTS_MAX];
static int n_texts;

static unsigned see_create(struct _nvrtcProgram **program, const char *text, const char *name, int n, const char *const *headers,
                           const char *const *header_names)
{
	snprintf(texts[n_texts % TEXTS_MAX].name, sizeof texts->name, "%s", name ? name : "");
	return really.CreateProgram(program, text, name, n, headers, header_names);
}

static unsigned see_compile(struct _nvrtcProgram *program, int n, const char *const *options)
{
	double began = cg_milliseconds();
	unsigned code = really.CompileProgram(program, n, options);

	texts[n_texts++ % TEXTS_MAX].ms = cg_milliseconds() - began;
	return code;
}

static int first_call(const char *cell, int dtype, double *ms)
{
	double began = cg_milliseconds();
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_rnn *rnn = NULL;
	struct cg_rnn_config config;
	struct cg_rnn_sizes sizes;
	struct cg_rnn_call call;
	static double memory[1 << 16];
	int code;

	cg_rnn_config_init(&config, sizeof config);
	config.cell = cg_cell_find(cell);
	config.dtype = dtype;
	config.input = config.units = 8;
	config.route = "composed";
	cg_rnn_call_init(&call, sizeof call);
	call.T = call.B = 2;
	code = cg_open("cuda", &context);
	if (!code && !(code = cg_stream_open(context, NULL, &stream)) && !(code = cg_rnn_open(context, &config, &rnn)) &&
	    !(code = cg_rnn_sizes(rnn, 2, 2, NULL, &sizes))) {
		struct cg_mem *const all[] = { &call.input, &call.output, &call.output_backprop, &call.params, &call.params_backprop, &call.reserve };
		size_t some = 32 * cg_dtype_bytes(dtype), bytes[] = { some, some, some, sizes.params, sizes.params, sizes.reserve }, used = 0;

		for (size_t k = 0; k < sizeof all / sizeof *all; used += (bytes[k++] + 63) / 64 * 64)
			*all[k] = (struct cg_mem){ (char *)memory + used, 0, bytes[k], CG_HOST };
		code = cg_rnn_forward(stream, rnn, &call);
		if (!code)
			code = cg_rnn_backward(stream, rnn, &call);
	}
	*ms = cg_milliseconds() - began;
	cg_rnn_close(rnn);
	cg_stream_close(stream);
	cg_close(context);
	return code;
}

static int print_compile(void)
{
	static const int dtypes[] = { CG_F32, CG_F16 };
	double nvrtc = 0;
	int said = 0;

	if (cg_cuda_load(CG_CUDA_DRIVER) || cg_cuda_load(CG_CUDA_NVRTC))
		return fail(cg_message());
	really = cg_nvrtc;
	cg_nvrtc.CreateProgram = see_create;
	cg_nvrtc.CompileProgram = see_compile;
	printf("| what | ms |\n|---|---|\n");
	for (int k = 0; k < 4; k++) {
		static const char *const cells[] = { "lstm", "gru" };
		double ms;

		if (first_call(cells[k / 2], dtypes[k % 2], &ms))
			return fail(cg_message());
		for (; said < n_texts && said < TEXTS_MAX; said++) {
			printf("| NVRTC: %s | %.1f |\n", texts[said].name, texts[said].ms);
			nvrtc += texts[said].ms;
		}
		printf("| **from opening the device to the end of a first forward and backward of %s in %s** | %.1f |\n", cells[k / 2],
		       cg_dtype_name(dtypes[k % 2]), ms);
	}
	printf("\n%d texts compiled, %.1f ms in all; the others were in the cache.\n", n_texts, nvrtc);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "library") && argc == 3)
		return print_one(argv[2]);
	if (!strcmp(what, "facts"))
		return print_facts();
	if (!strcmp(what, "ceilings"))
		return on_device(measure_ceilings);
	if (!strcmp(what, "compile"))
		return print_compile();
	if (!strcmp(what, "micro") && argc == 3)
		return gpu_micro(argv[2]);
	fprintf(stderr, "expected library NAME, facts, ceilings, compile or micro FILE\n");
	return 2;
}
