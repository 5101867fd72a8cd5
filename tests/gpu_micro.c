/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "tests/gpu_micro.h"
#include "tests/gpu_time.h"

enum { STEPS = 2000, COOPERATIVE_LAUNCH = 95, NON_PORTABLE_CLUSTERS = 14, PIECE = 24576, PIECES = 64, M = 16, N = 8, K = 16 };

/* The module, two functions of the driver that are needed to launch some of its kernels, and the device memory that the kernels use. */
struct micro {
	struct cg_context *context;
	struct cg_stream *stream;
	struct gpu_timer timer;
	struct CUmod_st *module;
	struct cg_mem memory;
	unsigned (*cooperative)(struct CUfunc_st *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, struct CUstream_st *, void **);
	unsigned (*set_attribute)(struct CUfunc_st *, unsigned, int);
};

static int device_has(const struct micro *m, unsigned attribute)
{
	int value = 0;

	return !cg_cu.DeviceGetAttribute(&value, attribute, m->context->device->id) && value;
}

/* ---- the module ---- */

static char *text_of(const char *path)
{
	FILE *file = fopen(path, "rb");
	char *text = calloc(1, 1 << 16);

	if (file && text && !fread(text, 1, (1 << 16) - 1, file)) {
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	else
		free(text);
	return file ? text : NULL;
}

static int compile(struct micro *m, struct _nvrtcProgram *program)
{
	char arch[40], *log, *cubin;
	const char *const options[] = { arch };
	size_t bytes = 0;
	unsigned error;
	int code;

	snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d%d", m->context->device->major, m->context->device->minor);
	error = cg_nvrtc.CompileProgram(program, 1, options);
	if (error) {
		if (!cg_nvrtc.GetProgramLogSize(program, &bytes) && (log = calloc(1, bytes + 1))) {
			cg_nvrtc.GetProgramLog(program, log);
			printf("%s\n", log);
			free(log);
		}
		return cg_nvrtc_error(error, "nvrtcCompileProgram");
	}
	NVRTC_TRY(GetCUBINSize, program, &bytes);
	cubin = malloc(bytes);
	if (!cubin)
		return CG_NO_MEMORY;
	code = cg_nvrtc_error(cg_nvrtc.GetCUBIN(program, cubin), "nvrtcGetCUBIN");
	if (!code)
		code = cg_cu_error(cg_cu.ModuleLoadData(&m->module, cubin), "cuModuleLoadData");
	free(cubin);
	return code;
}

static int build(struct micro *m, const char *path)
{
	struct _nvrtcProgram *program;
	char *text = text_of(path);
	int code;

	if (!text)
		return cg_fail(CG_FILE, "%s cannot be read", path);
	CG_TRY(cg_cuda_load(CG_CUDA_NVRTC));
	code = cg_nvrtc_error(cg_nvrtc.CreateProgram(&program, text, "gpu_micro.cu", 0, NULL, NULL), "nvrtcCreateProgram");
	free(text);
	CG_TRY(code);
	code = compile(m, program);
	cg_nvrtc.DestroyProgram(&program);
	return code;
}

/* Finds a kernel in the module; NULL: the module lacks the kernel, as when the kernel is for a later architecture. */
static struct CUfunc_st *function_of(const struct micro *m, const char *name)
{
	struct CUfunc_st *function = NULL;

	return cg_cu.ModuleGetFunction(&function, m->module, name) ? NULL : function;
}

/* ---- what is measured ---- */

static CUdeviceptr at(const struct micro *m, size_t offset)
{
	return cg_cu_address(m->memory) + offset;
}

static int clear(struct micro *m)
{
	return m->context->backend->zero(m->stream->queue, m->memory, m->memory.bytes);
}

/* Launches blocks of so many threads, waits for their end, and sets *ms; together: all blocks must run at the same time, else the launch
   fails. */
static int launch(struct micro *m, struct CUfunc_st *function, unsigned blocks, unsigned threads, int together, void **arguments, double *ms)
{
	struct CUstream_st *stream = m->stream->queue->stream;
	double began = cg_milliseconds();

	gpu_timer_start(&m->timer, m->stream->queue);
	if (together)
		CG_TRY(cg_cu_error(m->cooperative(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments), "cuLaunchCooperativeKernel"));
	else
		CU_TRY(m->context->device, LaunchKernel, function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL);
	gpu_timer_stop(&m->timer, m->stream->queue);
	CG_TRY(cg_stream_sync(m->stream));
	*ms = gpu_timer_ms(&m->timer);
	if (*ms <= 0)
		*ms = cg_milliseconds() - began;
	return CG_OK;
}

static int get_word(struct micro *m, size_t offset, unsigned *word)
{
	struct cg_mem part = m->memory;

	part.offset += offset;
	part.bytes = sizeof *word;
	return cg_get(m->stream, word, part, sizeof *word);
}

/* Prints a row of the table, with microseconds per step; sets *bad if a kernel set `broken`. */
static int print_steps(struct micro *m, const char *what, unsigned blocks, double ms, size_t broken_at, int *bad)
{
	unsigned broken;

	CG_TRY(get_word(m, broken_at, &broken));
	printf("| %s | %u | %d | %.4f |%s\n", what, blocks, STEPS, ms * 1000 / STEPS, broken ? " **broken** |" : " |");
	*bad |= broken != 0;
	return CG_OK;
}

static int measure_flags(struct micro *m, unsigned blocks, int *bad)
{
	struct CUfunc_st *function = function_of(m, "hand_over");
	CUdeviceptr flags = at(m, 0), words = at(m, 4096), broken = at(m, 65536);
	int steps = STEPS;
	void *arguments[] = { &flags, &words, &broken, &steps };
	double ms;

	if (!function || blocks > (unsigned)m->context->device->units)
		return CG_OK;
	CG_TRY(clear(m));
	CG_TRY(launch(m, function, blocks, 256, 1, arguments, &ms));
	return print_steps(m, "hand-over by flags", blocks, ms, 65536, bad);
}

static int measure_cluster(struct micro *m, const char *name, unsigned blocks, int *bad)
{
	struct CUfunc_st *function = function_of(m, name);
	CUdeviceptr broken = at(m, 65536);
	int steps = STEPS;
	void *arguments[] = { &broken, &steps };
	double ms;

	if (!function || (blocks > 8 && (!m->set_attribute || m->set_attribute(function, NON_PORTABLE_CLUSTERS, 1)))) {
		printf("| hand-over in a cluster | %u | | not on this device | |\n", blocks);
		return CG_OK;
	}
	CG_TRY(clear(m));
	CG_TRY(launch(m, function, blocks, 256, 0, arguments, &ms));
	return print_steps(m, "hand-over in a cluster", blocks, ms, 65536, bad);
}

static int measure_broadcast(struct micro *m, unsigned blocks)
{
	struct CUfunc_st *function = function_of(m, "broadcast");
	CUdeviceptr from = at(m, 0), sum = at(m, (size_t)PIECE * PIECES);
	int pieces = PIECES, turns = STEPS;
	void *arguments[] = { &from, &pieces, &turns, &sum };
	double ms;

	CG_TRY(clear(m));
	CG_TRY(launch(m, function, blocks, 256, 0, arguments, &ms));
	CG_TRY(launch(m, function, blocks, 256, 0, arguments, &ms));
	printf("| broadcast of 24 KB through L2, %.0f GB/s in all | %u | %d | %.4f | |\n", (double)PIECE * blocks * STEPS / ms / 1e6, blocks, STEPS,
	       ms * 1000 / STEPS);
	return CG_OK;
}

/* Returns the small whole number n in f16, which holds n exactly; sums of products of such numbers are exact in f32. */
static unsigned short half_of(int n)
{
	unsigned exponent = 15, bits;

	if (!n)
		return 0;
	for (bits = (unsigned)n; bits > 1; bits >>= 1)
		exponent++;
	return (unsigned short)(exponent << 10 | (((unsigned)n << 10 >> (exponent - 15)) & 0x3ff));
}

static int measure_layout(struct micro *m, int *bad)
{
	struct CUfunc_st *function = function_of(m, "layout");
	CUdeviceptr a_at = at(m, 0), b_at = at(m, 1024), c_at = at(m, 2048);
	void *arguments[] = { &a_at, &b_at, &c_at };
	struct { unsigned short a[M * K], pad_a[512 - M * K], b[K * N], pad_b[512 - K * N]; float c[M * N]; } all;
	struct cg_mem part = m->memory;
	int wrong = 0;
	double ms;

	if (!function) {
		printf("| layout of m16n8k16 | 1 | | not on this device | |\n");
		return CG_OK;
	}
	memset(&all, 0, sizeof all);
	for (int k = 0; k < M * K; k++)
		all.a[k] = half_of(k * 7 % 61);
	for (int k = 0; k < K * N; k++)
		all.b[k] = half_of(k * 5 % 53);
	part.bytes = sizeof all;
	CG_TRY(cg_put(m->stream, part, &all, sizeof all));
	CG_TRY(launch(m, function, 1, 32, 0, arguments, &ms));
	CG_TRY(cg_get(m->stream, &all, part, sizeof all));
	for (int i = 0; i < M * N; i++) {
		int sum = 0;

		for (int k = 0; k < K; k++)
			sum += (i / N * K + k) * 7 % 61 * ((k * N + i % N) * 5 % 53);
		wrong += all.c[i] != (float)sum;
	}
	printf("| layout of m16n8k16: %d of %d elements as documented | 1 | | |%s\n", M * N - wrong, M * N, wrong ? " **broken** |" : " |");
	*bad |= wrong != 0;
	return CG_OK;
}

static int measure_all(struct micro *m, const char *path, int *bad)
{
	CG_TRY(build(m, path));
	CG_TRY(cg_alloc(m->context, (size_t)PIECE * PIECES + 64, &m->memory));
	printf("| what | blocks | steps | us a step | |\n|---|---|---|---|---|\n");
	CG_TRY(measure_layout(m, bad));
	for (unsigned blocks = 8; blocks < (unsigned)m->context->device->units; blocks = blocks < 96 ? blocks * 2 > 96 ? 96 : blocks * 2 : 132)
		CG_TRY(measure_flags(m, blocks, bad));
	CG_TRY(measure_flags(m, (unsigned)m->context->device->units, bad));
	CG_TRY(measure_cluster(m, "cluster_8", 8, bad));
	CG_TRY(measure_cluster(m, "cluster_16", 16, bad));
	CG_TRY(measure_broadcast(m, 1));
	return measure_broadcast(m, (unsigned)m->context->device->units);
}

int gpu_micro(const char *path)
{
	struct micro m = { .context = NULL };
	void *call;
	int bad = 0, code = cg_open("cuda", &m.context);

	if (!code)
		code = cg_stream_open(m.context, NULL, &m.stream);
	call = code ? NULL : gpu_call("cuLaunchCooperativeKernel");
	memcpy(&m.cooperative, &call, sizeof call);
	call = code ? NULL : gpu_call("cuFuncSetAttribute");
	memcpy(&m.set_attribute, &call, sizeof call);
	if (!code && (!m.cooperative || !device_has(&m, COOPERATIVE_LAUNCH))) {
		printf("Not measured: this device has no cooperative launch.\n");
	} else if (!code && !(code = cg_cu_enter(m.context->device))) {
		gpu_timer_open(&m.timer);
		code = measure_all(&m, path, &bad);
		gpu_timer_close(&m.timer);
		cg_free(m.context, &m.memory);
		if (m.module)
			cg_cu.ModuleUnload(m.module);
		code = cg_cu_leave(m.context->device, code);
	}
	if (code)
		printf("\n%s\n", cg_message());
	cg_stream_close(m.stream);
	cg_close(m.context);
	return code || bad;
}
