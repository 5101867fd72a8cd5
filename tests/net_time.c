/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a training step of a network costs beyond cuDNN: the three calls of cuDNN's alone, with descriptors, weights, workspace and reserve
 * space of their own, and our forward and backward by route cudnn, taken in turn on one stream of the cuda backend.  The two times of a
 * turn are compared, so that clocks that drift do not count: the median of the turns' ratios, and the band that holds eight in ten.
 *
 *	net_time [--most PERCENT] [--least US] [DTYPE]...    a table in Markdown; exit 1 if, with setting "favourable", ours is slower by more
 *	                                                     than both.  With "favourable" calls set accumulate and spend_reserve, with
 *	                                                     "default" neither, and the times of "default" have no limit
 *	net_time --census N [DTYPE]...                       how many of N repeats on route cudnn have other bits than the first
 *	net_time --algorithms [DTYPE]...                     cuDNN alone with each of its algorithms but the persistent dynamic one:
 *	                                                     milliseconds, or cuDNN's refusal, and how far the algorithm's output is from
 *	                                                     the standard algorithm's; the replayed step, from a CUDA graph, takes no time
 *	                                                     of the host's
 *	net_time --composed [DTYPE]...                       route composed, for each step: kernels, products, and microseconds to the end of
 *	                                                     the work, to the return of the call, and replayed from a CUDA graph
 *
 * NET_TIME: seconds for each row; default 1.  NET_SMALL: any value selects sizes small enough for a stand-in.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/op/op.h"
#include "runtime/core/core.h"
#include "tests/timed_net.h"
#include "verify/numbers.h"

enum { TURNS_MAX = 4096 };

static const struct size large[] = {
	{ 100, 64, 512, 512, 1, 1 }, { 50, 128, 1024, 1024, 2, 1 }, { 200, 16, 256, 256, 1, 1 }
}, small[] = { { 4, 3, 5, 6, 1, 1 }, { 3, 2, 4, 4, 2, 1 } };
static const struct size step_sizes[] = { { 1024, 16, 768, 768, 1, 1 }, { 100, 32, 512, 512, 1, 1 } };
static const struct size small_step_sizes[] = { { 4, 3, 5, 6, 1, 1 } };
static const struct size algorithm_sizes[] = {
	{ 1024, 16, 768, 768, 1, 1 }, { 40, 16, 64, 64, 1, 1 }, { 40, 64, 64, 64, 1, 1 }, { 40, 1, 128, 128, 1, 1 },
	{ 40, 16, 128, 128, 1, 1 }, { 40, 64, 128, 128, 1, 1 }, { 40, 128, 128, 128, 1, 1 }, { 40, 1, 256, 256, 1, 1 },
	{ 40, 4, 256, 256, 1, 1 }, { 40, 8, 256, 256, 1, 1 }, { 40, 16, 256, 256, 1, 1 }, { 40, 64, 256, 256, 1, 1 },
	{ 40, 128, 256, 256, 1, 1 }, { 40, 8, 320, 320, 1, 1 }, { 40, 16, 320, 320, 1, 1 }, { 40, 1, 512, 512, 1, 1 },
	{ 40, 5, 512, 512, 1, 1 }, { 40, 8, 512, 512, 1, 1 }, { 40, 12, 512, 512, 1, 1 }, { 40, 16, 512, 512, 1, 1 },
	{ 40, 24, 512, 512, 1, 1 }, { 40, 32, 512, 512, 1, 1 }, { 40, 48, 512, 512, 1, 1 }, { 40, 64, 512, 512, 1, 1 },
	{ 40, 96, 512, 512, 1, 1 }, { 40, 128, 512, 512, 1, 1 }, { 40, 1, 1024, 1024, 1, 1 }, { 40, 8, 1024, 1024, 1, 1 },
	{ 40, 16, 1024, 1024, 1, 1 }, { 40, 32, 1024, 1024, 1, 1 }, { 40, 64, 1024, 1024, 1, 1 }, { 40, 96, 1024, 1024, 1, 1 },
	{ 40, 128, 1024, 1024, 1, 1 }, { 40, 16, 1280, 1280, 1, 1 }, { 40, 8, 1536, 1536, 1, 1 }, { 40, 16, 77, 256, 1, 1 },
	{ 40, 1, 512, 512, 4, 1 }, { 40, 8, 512, 512, 2, 1 }, { 40, 16, 512, 512, 2, 1 }, { 40, 32, 512, 512, 2, 1 },
	{ 40, 48, 512, 512, 2, 1 }, { 40, 64, 512, 512, 2, 1 }, { 40, 32, 1024, 1024, 2, 1 }, { 40, 64, 1024, 1024, 2, 1 },
	{ 40, 1, 512, 512, 1, 2 }, { 40, 8, 512, 512, 1, 2 }, { 40, 16, 512, 512, 1, 2 }, { 40, 32, 512, 512, 1, 2 },
	{ 40, 64, 512, 512, 1, 2 }, { 40, 32, 1024, 1024, 1, 2 }, { 40, 8, 256, 256, 3, 2 }
};
static const struct size repeated = { 20, 32, 256, 256, 1, 1 }, small_repeated = { 3, 2, 4, 4, 1, 1 };
static const char *const algorithms[] = { "standard", "persistent, static", "persistent, dynamic", "persistent, small" };

/* ---- cuDNN alone and the library in turn ---- */

/* The time of a training step by the host's clock, and by the driver's events, which is -1 without events. */
struct turn { double ms, device_ms; };

static int time_one(struct net *n, int (*step)(struct net *), struct turn *turn)
{
	double began = cg_milliseconds();

	gpu_timer_start(&n->timer, n->stream->queue);
	CG_TRY(step(n));
	gpu_timer_stop(&n->timer, n->stream->queue);
	CG_TRY(cg_stream_sync(n->stream));
	turn->ms = cg_milliseconds() - began;
	turn->device_ms = gpu_timer_ms(&n->timer);
	return CG_OK;
}

/* Times of bare cuDNN and of the library; ratio: the library's time over bare cuDNN's in one turn. time_both() sorts each of the four
   arrays at its end. */
struct times { double ms[2][TURNS_MAX], ratio[TURNS_MAX], device_ratio[TURNS_MAX]; int turns; };

static void sort_times(struct times *t)
{
	double *const all[] = { t->ms[0], t->ms[1], t->ratio, t->device_ratio };

	for (size_t k = 0; k < sizeof all / sizeof *all; k++)
		qsort(all[k], (size_t)t->turns, sizeof **all, gpu_compare);
}

/* The first two turns are warm-ups; bare cuDNN goes first in one turn and second in the next. */
static int time_both(struct net *n, double seconds, struct times *t)
{
	double until = 0;

	for (int k = -2; k < TURNS_MAX; k++) {
		struct turn one[2];

		CG_TRY(time_one(n, k & 1 ? net_step_ours : net_step_bare, &one[k & 1]));
		CG_TRY(time_one(n, k & 1 ? net_step_bare : net_step_ours, &one[!(k & 1)]));
		if (k < 0) {
			until = cg_milliseconds() + seconds * 1000;
			continue;
		}
		t->ms[0][k] = one[0].ms;
		t->ms[1][k] = one[1].ms;
		t->ratio[k] = one[1].ms / one[0].ms;
		t->device_ratio[k] = one[0].device_ms > 0 ? one[1].device_ms / one[0].device_ms : -1;
		t->turns = k + 1;
		if (k > 3 && cg_milliseconds() > until)
			break;
	}
	sort_times(t);
	return CG_OK;
}

/* The limit beyond bare cuDNN: the larger of a share in percent and of microseconds; percent < 0: none. */
struct allowed { double percent, us; };

static int is_slow(const struct times *t, const struct allowed *a)
{
	double bare = gpu_share(t->ms[0], t->turns, 0.5), more = bare * (gpu_share(t->ratio, t->turns, 0.5) - 1);

	return a->percent >= 0 && more > bare * a->percent / 100 && more * 1000 > a->us;
}

static void print_row(const struct net *n, const char *setting, const struct times *t, int slow)
{
	double device = gpu_share(t->device_ratio, t->turns, 0.5);
	char by_events[32] = "none";

	if (device > 0)
		snprintf(by_events, sizeof by_events, "%.4f", device);
	printf("| %s | %s | %d | %d | %d | %d | %d | %s | %s | %d | %.4f | %.4f | %.4f | %.4f-%.4f | %s |%s\n", net_cells[n->cell].cell,
	       cg_dtype_name(n->config.dtype), n->size.T, n->size.B, n->size.I, n->size.U, n->size.layers, algorithms[net_algorithm & 3], setting,
	       t->turns, gpu_share(t->ms[0], t->turns, 0.5), gpu_share(t->ms[1], t->turns, 0.5), gpu_share(t->ratio, t->turns, 0.5),
	       gpu_share(t->ratio, t->turns, 0.1), gpu_share(t->ratio, t->turns, 0.9), by_events, slow ? " **slow** |" : " |");
}

static double seconds_each(void)
{
	const char *seconds = getenv("NET_TIME");

	return seconds ? strtod(seconds, NULL) : 1;
}

static int measure_parity(struct net *n, const void *allowed, int *bad)
{
	static const char *const settings[] = { "favourable", "default" };
	static struct times t;

	CG_TRY(net_try_ours(n));
	CG_TRY(net_open_bare(n, net_algorithm));
	for (int plain = 0; plain < 2; plain++) {
		int slow;

		n->call.spend_reserve = n->call.accumulate = !plain;
		CG_TRY(time_both(n, seconds_each(), &t));
		slow = !plain && is_slow(&t, allowed);
		print_row(n, settings[plain], &t, slow);
		*bad |= slow;
	}
	return CG_OK;
}

/* ---- algorithms of cuDNN ---- */

/* Measures medians of the times of a pass, until its call returns and until its work is done. */
static int time_steps(struct net *n, int (*step)(struct net *), double *host_ms, double *ms)
{
	static double host[TURNS_MAX], whole[TURNS_MAX];
	double until = cg_milliseconds() + seconds_each() * 1000;
	int turns = 0;

	do {
		double began = cg_milliseconds();

		CG_TRY(step(n));
		host[turns] = cg_milliseconds() - began;
		CG_TRY(cg_stream_sync(n->stream));
		whole[turns++] = cg_milliseconds() - began;
	} while (turns < TURNS_MAX && (turns < 5 || cg_milliseconds() < until));
	qsort(host, (size_t)turns, sizeof *host, gpu_compare);
	qsort(whole, (size_t)turns, sizeof *whole, gpu_compare);
	*host_ms = gpu_share(host, turns, 0.5);
	*ms = gpu_share(whole, turns, 0.5);
	return CG_OK;
}

/* The largest difference of two outputs, divided by the largest magnitude of the first. */
static double farthest(const unsigned char *a, const unsigned char *b, size_t elements, int dtype)
{
	size_t each = cg_dtype_bytes(dtype);
	double far = 0, most = 0;

	for (size_t k = 0; k < elements; k++) {
		double one = numbers_decode(dtype, a + k * each), difference = fabs(numbers_decode(dtype, b + k * each) - one);

		most = fmax(most, fabs(one));
		far = difference <= far ? far : difference;      /* not fmax, which would ignore NaN */
	}
	return far / most;
}

static int step_graph(struct net *n)
{
	return gpu_graph_launch(n->graph, n->stream->queue);
}

/* Measures a pass that is replayed from a CUDA graph, so that the host's launches do not count; -1 without graphs. */
static int time_graph(struct net *n, int (*step)(struct net *), double *ms)
{
	double host_ms;
	int code;

	*ms = -1;
	gpu_graph_begin(n->stream->queue);
	code = step(n);
	n->graph = gpu_graph_end(n->stream->queue);
	if (!n->graph)
		return CG_OK;
	if (!code)
		code = time_steps(n, step_graph, &host_ms, ms);
	gpu_graph_close(n->graph);
	return code;
}

/* Measures one algorithm, and copies its output to `to`; from: the standard algorithm's output, NULL for that algorithm itself. */
static int measure_algorithm(struct net *n, unsigned algorithm, const unsigned char *from, unsigned char *to)
{
	/* Only a few steps are compared: with these random weights the network is chaotic, so that a rounding error grows from step to
	 * step. */
	size_t compared = (size_t)n->size.B * (size_t)(n->size.directions * n->size.U) * (n->size.T < 4 ? (size_t)n->size.T : 4);
	double host_ms, forward_ms, both_ms, graph_ms;

	n->noise = 0;                            /* all algorithms get the same weights */
	CG_TRY(net_open_bare(n, algorithm));
	CG_TRY(net_step_bare(n));
	CG_TRY(cg_get(n->stream, to, n->call.output, n->call.output.bytes));
	CG_TRY(time_steps(n, net_forward_bare, &host_ms, &forward_ms));
	CG_TRY(time_steps(n, net_step_bare, &host_ms, &both_ms));
	CG_TRY(time_graph(n, net_step_bare, &graph_ms));
	printf(graph_ms < 0 ? " %.4f | %.4f | |" : " %.4f | %.4f | %.4f |", forward_ms, both_ms, graph_ms);
	printf(" %.2g |\n", from ? farthest(from, to, compared, n->config.dtype) : 0);
	return CG_OK;
}

static int measure_algorithms(struct net *n, const void *unused, int *bad)
{
	static const unsigned tried[] = { CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H };
	unsigned char *outputs;
	int code = CG_OK;

	(void)unused;
	(void)bad;                               /* it is no failure if cuDNN refuses a persistent algorithm */
	CG_TRY(net_open_ours(n));
	outputs = malloc(2 * n->call.output.bytes);
	if (!outputs)
		return cg_fail(CG_NO_MEMORY, "%zu bytes", 2 * n->call.output.bytes);
	for (size_t k = 0; k < sizeof tried / sizeof *tried && !code; k++) {
		int n_buffers = n->n_buffers;

		printf("| %s | %s | %d | %d | %d | %d | %d | %d | %s |", net_cells[n->cell].cell, cg_dtype_name(n->config.dtype), n->size.T, n->size.B,
		       n->size.I, n->size.U, n->size.layers, n->size.directions, algorithms[tried[k]]);
		fflush(stdout);                  /* the row's beginning is printed even if cuDNN aborts the process */
		code = measure_algorithm(n, tried[k], k ? outputs : NULL, outputs + (k ? n->call.output.bytes : 0));
		net_close_bare(&n->bare);
		n->bare = (struct bare){ .handle = NULL };
		while (n->n_buffers > n_buffers)
			cg_free(n->context, &n->buffers[--n->n_buffers]);
		if (code && k) {
			printf(" refused: %s | | | |\n", cg_message());
			code = CG_OK;
		}
	}
	free(outputs);
	return code;
}

/* ---- whether repeats have the same bits ---- */

/* The bytes of the output and of the gradients of input and params, which get_answers copies one after the other. */
static size_t answers_bytes(const struct net *n)
{
	return n->call.output.bytes + n->call.input_backprop.bytes + n->call.params_backprop.bytes;
}

static int get_answers(struct net *n, unsigned char *to)
{
	const struct cg_mem *const all[] = { &n->call.output, &n->call.input_backprop, &n->call.params_backprop };

	n->call.accumulate = 0;
	CG_TRY(net_step_ours(n));
	for (size_t k = 0; k < sizeof all / sizeof *all; to += all[k++]->bytes)
		CG_TRY(cg_get(n->stream, to, *all[k], all[k]->bytes));
	return CG_OK;
}

static int measure_census(struct net *n, const void *repeats, int *bad)
{
	unsigned char *first, *other;
	int differ = 0, code, count = *(const int *)repeats;

	(void)bad;                               /* other bits are no failure: cuDNN does not promise equal ones */
	CG_TRY(net_try_ours(n));
	first = malloc(2 * answers_bytes(n));
	if (!first)
		return cg_fail(CG_NO_MEMORY, "%zu bytes", answers_bytes(n));
	other = first + answers_bytes(n);
	code = get_answers(n, first);
	for (int k = 0; k < count && !code; k++) {
		code = get_answers(n, other);
		differ += !code && memcmp(first, other, answers_bytes(n));
	}
	free(first);
	if (!code)
		printf("| %s | %s | %d | %d | %d | %s | %s | %d | %d |\n", net_cells[n->cell].cell, cg_dtype_name(n->config.dtype), n->size.T, n->size.B,
		       n->size.U, n->ragged ? "different" : "equal", algorithms[net_algorithm & 3], count, differ);
	return code;
}

/* ---- route composed, step by step ---- */

static struct cg_cu driver_calls;
static struct cg_cublas cublas_calls;
static struct cg_cublaslt cublaslt_calls;
static int launches, products;

static unsigned see_launch(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                           unsigned block_z, unsigned shared_bytes, struct CUstream_st *stream, void **parameters, void **extra)
{
	launches++;
	return driver_calls.LaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra);
}

static unsigned see_gemm(struct cublasContext *handle, unsigned op_a, unsigned op_b, int m, int n, int k, const void *alpha, const void *a,
                         unsigned type_a, int lda, const void *b, unsigned type_b, int ldb, const void *beta, void *c, unsigned type_c, int ldc,
                         unsigned compute, int algorithm)
{
	products++;
	return cublas_calls.GemmEx(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, compute, algorithm);
}

static unsigned see_matmul(struct cublasLtContext *handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                           cublasLtMatrixLayout_t layout_a, const void *b, cublasLtMatrixLayout_t layout_b, const void *beta, const void *c,
                           cublasLtMatrixLayout_t layout_c, void *d, cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *algorithm,
                           void *workspace, size_t workspace_bytes, struct CUstream_st *stream)
{
	products++;
	return cublaslt_calls.Matmul(handle, desc, alpha, a, layout_a, b, layout_b, beta, c, layout_c, d, layout_d, algorithm, workspace,
	                             workspace_bytes, stream);
}

/* Runs a pass once, and counts its launches of kernels and its products. */
static int count_calls(struct net *n, int (*step)(struct net *))
{
	int code;

	driver_calls = cg_cu;
	cublas_calls = cg_cublas;
	cublaslt_calls = cg_cublaslt;
	cg_cu.LaunchKernel = see_launch;
	cg_cublas.GemmEx = see_gemm;
	cg_cublaslt.Matmul = see_matmul;
	launches = products = 0;
	code = step(n);
	cg_cu = driver_calls;
	cg_cublas = cublas_calls;
	cg_cublaslt = cublaslt_calls;
	return code ? code : cg_stream_sync(n->stream);
}

static int step_forward(struct net *n)
{
	return cg_rnn_forward(n->stream, n->rnn, &n->call);
}

static int measure_steps(struct net *n, const void *unused, int *bad)
{
	static const struct { const char *name; int (*step)(struct net *); } passes[] = { { "forward", step_forward }, { "both", net_step_ours } };
	double T = n->size.T;

	(void)unused;
	(void)bad;
	CG_TRY(net_open_ours(n));
	n->call.accumulate = 0;
	CG_TRY(net_step_ours(n));
	for (size_t k = 0; k < sizeof passes / sizeof *passes; k++) {
		double host_ms, ms, graph_ms;
		char replayed[32] = "";

		CG_TRY(count_calls(n, passes[k].step));
		CG_TRY(time_steps(n, passes[k].step, &host_ms, &ms));
		CG_TRY(time_graph(n, passes[k].step, &graph_ms));
		if (graph_ms >= 0)
			snprintf(replayed, sizeof replayed, "%.3f", graph_ms * 1000 / T);
		printf("| %s | %s | %s | %d | %d | %d | %.4f | %.3f | %.3f | %s | %.2f | %.2f |\n", net_cells[n->cell].cell,
		       cg_dtype_name(n->config.dtype), passes[k].name, n->size.T, n->size.B, n->size.U, ms, ms * 1000 / T, host_ms * 1000 / T,
		       replayed, launches / T, products / T);
	}
	return CG_OK;
}

/* ---- tables ---- */

struct what {
	const char *route, *head, *rule;
	int (*measure)(struct net *, const void *how, int *bad);
	const struct size *large, *small;
	int n_large, n_small, ragged;            /* ragged: the table also has networks on sequences of different lengths */
};
static const struct what parity = { "cudnn",
	"| network | dtype | T | B | I | U | layers | algorithm | setting | turns | cuDNN alone, ms | ours, ms | median of ratios | 10 %-90 % | by events | |",
	"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|", measure_parity, large, small, 3, 2, 0 };
static const struct what census = { "cudnn", "| network | dtype | T | B | U | lengths | algorithm | repeats | with other bits |",
	"|---|---|---|---|---|---|---|---|---|", measure_census, &repeated, &small_repeated, 1, 1, 1 };
static const struct what by_algorithm = { "cudnn",
	"| network | dtype | T | B | I | U | layers | directions | algorithm | forward, ms | both, ms | both, replayed, ms | off by |", "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
	measure_algorithms, algorithm_sizes, small, sizeof algorithm_sizes / sizeof *algorithm_sizes, 2, 0 };
static const struct what composed = { "composed",
	"| network | dtype | passes | T | B | U | ms | us a step | us of the host a step | replayed, us a step | kernels of ours a step | products a step |",
	"|---|---|---|---|---|---|---|---|---|---|---|---|", measure_steps, step_sizes, small_step_sizes, 2, 1, 0 };

static void close_net(struct net *n)
{
	cg_stream_sync(n->stream);
	if (!cg_cu_enter(n->context->device)) {
		gpu_timer_close(&n->timer);
		net_close_bare(&n->bare);
		cg_cu_leave(n->context->device, CG_OK);
	}
	cg_rnn_close(n->rnn);
	for (int k = 0; k < n->n_buffers; k++)
		cg_free(n->context, &n->buffers[k]);
}

static int row(const struct what *what, const struct net *like, const void *how, int *bad)
{
	struct net n = *like;
	int code;

	cg_rnn_config_init(&n.config, sizeof n.config);
	n.config.cell = cg_cell_find(net_cells[n.cell].cell);
	n.config.dtype = like->config.dtype;
	n.config.layers = n.size.layers;
	n.config.input = n.size.I;
	n.config.units = n.size.U;
	n.config.bidirectional = n.size.directions == 2;
	n.config.route = what->route;
	code = cg_cu_enter(n.context->device);
	if (!code) {
		gpu_timer_open(&n.timer);
		code = cg_cu_leave(n.context->device, what->measure(&n, how, bad));
	}
	close_net(&n);
	fflush(stdout);
	return code;
}

static int table(const struct what *what, struct net *n, const int *dtypes, int n_dtypes, const void *how, int *bad)
{
	int is_small = getenv("NET_SMALL") != NULL, rows = is_small ? what->n_small : what->n_large;

	printf("%s\n%s\n", what->head, what->rule);
	for (int d = 0; d < n_dtypes; d++)
		for (n->cell = 0; n->cell < 4; n->cell++)
			for (int s = 0; s < rows; s++)
				for (n->ragged = 0; n->ragged <= what->ragged; n->ragged++) {
					n->config.dtype = dtypes[d];
					n->size = is_small ? what->small[s] : what->large[s];
					CG_TRY(row(what, n, how, bad));
				}
	return CG_OK;
}

static int refuse(const char *message)
{
	fprintf(stderr, "net_time: %s\n", message);
	return 2;
}

struct wish { const struct what *what; struct allowed allowed; int repeats, dtypes[4], n; };

static int read_wish(int argc, char **argv, struct wish *w)
{
	for (int k = 1; k < argc; k++) {
		if (!strcmp(argv[k], "--most") && k + 1 < argc)
			w->allowed.percent = strtod(argv[++k], NULL);
		else if (!strcmp(argv[k], "--least") && k + 1 < argc)
			w->allowed.us = strtod(argv[++k], NULL);
		else if (!strcmp(argv[k], "--census") && k + 1 < argc && (w->repeats = atoi(argv[++k])) > 0)
			w->what = &census;
		else if (!strcmp(argv[k], "--algorithms"))
			w->what = &by_algorithm;
		else if (!strcmp(argv[k], "--composed"))
			w->what = &composed;
		else if (w->n < 4 && (w->dtypes[w->n] = cg_dtype_find(argv[k])) >= 0)
			w->n++;
		else
			return refuse("expected --most PERCENT, --least US, --census N, --algorithms, --composed and dtypes");
	}
	if (!w->n)
		w->dtypes[w->n++] = CG_F32, w->dtypes[w->n++] = CG_F16;
	return 0;
}

int main(int argc, char **argv)
{
	struct wish w = { .what = &parity, .allowed = { -1, 0 } };
	static struct net n;
	int bad = 0, code = read_wish(argc, argv, &w);

	if (code)
		return code;
	if (cg_cuda_load(CG_CUDA_DRIVER) || (w.what != &composed && cg_cuda_load(CG_CUDA_CUDNN)) || cg_open("cuda", &n.context))
		return refuse(cg_message());
	code = cg_stream_open(n.context, NULL, &n.stream);
	if (!code)
		code = table(w.what, &n, w.dtypes, w.n, w.what == &census ? (const void *)&w.repeats : &w.allowed, &bad);
	if (code)
		fprintf(stderr, "net_time: %s\n", cg_message());
	cg_stream_close(n.stream);
	cg_close(n.context);
	return code || bad;
}
