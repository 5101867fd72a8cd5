/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "runtime/core/core.h"
#include "tests/gpu_time.h"

void *gpu_call(const char *name)
{
	void *driver = dlopen(cg_cuda_path(CG_CUDA_DRIVER), RTLD_NOW | RTLD_LOCAL);

	return driver ? dlsym(driver, name) : NULL;
}

static struct {
	unsigned (*create)(void **, unsigned);
	unsigned (*record)(void *, struct CUstream_st *);
	unsigned (*elapsed)(float *, void *, void *);
	unsigned (*destroy)(void *);
} events;

static void find(const char *name, void *to)
{
	void *call = gpu_call(name);

	memcpy(to, &call, sizeof call);
}

void gpu_timer_open(struct gpu_timer *t)
{
	t->from = t->to = NULL;
	find("cuEventCreate", &events.create);
	find("cuEventRecord", &events.record);
	find("cuEventElapsedTime", &events.elapsed);
	find("cuEventDestroy_v2", &events.destroy);
	if (!events.create || !events.record || !events.elapsed || !events.destroy)
		return;
	if (events.create(&t->from, 0) || events.create(&t->to, 0))
		gpu_timer_close(t);
}

void gpu_timer_close(struct gpu_timer *t)
{
	if (t->from)
		events.destroy(t->from);
	if (t->to)
		events.destroy(t->to);
	t->from = t->to = NULL;
}

void gpu_timer_start(const struct gpu_timer *t, struct cg_queue *queue)
{
	if (t->to)
		events.record(t->from, queue->stream);
}

void gpu_timer_stop(const struct gpu_timer *t, struct cg_queue *queue)
{
	if (t->to)
		events.record(t->to, queue->stream);
}

double gpu_timer_ms(const struct gpu_timer *t)
{
	float ms;

	return t->to && !events.elapsed(&ms, t->from, t->to) ? (double)ms : -1;
}

static struct {
	unsigned (*begin)(struct CUstream_st *, unsigned mode);
	unsigned (*end)(struct CUstream_st *, void **graph);
	unsigned (*instantiate)(void **exec, void *graph, unsigned long long flags);
	unsigned (*launch)(void *exec, struct CUstream_st *);
	unsigned (*destroy)(void *graph);
	unsigned (*close)(void *exec);
} graphs;

enum { CAPTURE_MODE_RELAXED = 2 };

void gpu_graph_begin(struct cg_queue *queue)
{
	find("cuStreamBeginCapture_v2", &graphs.begin);
	find("cuStreamEndCapture", &graphs.end);
	find("cuGraphInstantiateWithFlags", &graphs.instantiate);
	find("cuGraphLaunch", &graphs.launch);
	find("cuGraphDestroy", &graphs.destroy);
	find("cuGraphExecDestroy", &graphs.close);
	if (graphs.begin)
		graphs.begin(queue->stream, CAPTURE_MODE_RELAXED);
}

void *gpu_graph_end(struct cg_queue *queue)
{
	void *graph = NULL, *exec = NULL;

	if (!graphs.end || graphs.end(queue->stream, &graph) || !graph)
		return NULL;
	if (!graphs.instantiate || graphs.instantiate(&exec, graph, 0))
		exec = NULL;
	graphs.destroy(graph);
	return exec;
}

int gpu_graph_launch(void *graph, struct cg_queue *queue)
{
	return graphs.launch(graph, queue->stream) ? cg_fail(CG_DRIVER, "cuGraphLaunch failed") : CG_OK;
}

void gpu_graph_close(void *graph)
{
	if (graph)
		graphs.close(graph);
}

void gpu_noise(void *to, size_t elements, int dtype, unsigned long long *state)
{
	/* base: the bits of 1/16; drawn: the bits that are random besides the sign; bytes: the size of an element. */
	static const struct { uint64_t base, drawn; int bytes; } forms[] = {
		[CG_F32] = { 0x3d800000, 0x7fffff, 4 }, [CG_F64] = { 0x3fb0000000000000, 0xfffffffffffff, 8 },
		[CG_F16] = { 0x2c00, 0x3ff, 2 }, [CG_BF16] = { 0x3d80, 0x7f, 2 },
	};
	unsigned char *at = to;

	for (size_t k = 0; k < elements; k++, at += forms[dtype].bytes) {
		uint64_t bits;

		*state = *state * 6364136223846793005u + 1442695040888963407u;
		bits = forms[dtype].base | (*state >> 11 & forms[dtype].drawn) | (*state >> 63) << (8 * forms[dtype].bytes - 1);
		/* The machine is little-endian, like every machine with a driver of CUDA. */
		memcpy(at, &bits, (size_t)forms[dtype].bytes);
	}
}

int gpu_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double gpu_share(const double *sorted, int n, double share)
{
	return sorted[(int)(share * (n - 1) + 0.5)];
}
