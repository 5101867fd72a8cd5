/*
 * Products on the cpu: cut into tiles by the shape alone, so that the bits do not depend on how many threads there are, each tile
 * by OpenBLAS or by our own product.  f16 and bf16 panels are widened to f32, summed there, and rounded once.
 */
#include <limits.h>
#include <string.h>

#include "backends/cpu/cpu.h"

enum { TILE_M = 256, TILE_N = 512, TILE_K = 1024 };

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };          /* cblas's */

static char *at(struct cg_matrix x, int64_t row, int64_t column, size_t bytes)
{
	return (char *)x.mem.data + x.mem.offset + (size_t)(row * x.stride + column) * bytes;
}

static void product_f32(const struct cg_device *d, int ta, int tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                        const float *b, int64_t ldb, float *c, int64_t ldc)
{
	if (d->blas->sgemm && k <= INT_MAX && lda <= INT_MAX && ldb <= INT_MAX && ldc <= INT_MAX)
		d->blas->sgemm(ROW_MAJOR, ta ? TRANSPOSED : PLAIN, tb ? TRANSPOSED : PLAIN, (int)m, (int)n, (int)k, 1, a, (int)lda, b,
		               (int)ldb, 1, c, (int)ldc);
	else
		d->isa->product_f32(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
}

static void product_f64(const struct cg_device *d, int ta, int tb, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                        const double *b, int64_t ldb, double *c, int64_t ldc)
{
	if (d->blas->dgemm && k <= INT_MAX && lda <= INT_MAX && ldb <= INT_MAX && ldc <= INT_MAX)
		d->blas->dgemm(ROW_MAJOR, ta ? TRANSPOSED : PLAIN, tb ? TRANSPOSED : PLAIN, (int)m, (int)n, (int)k, 1, a, (int)lda, b,
		               (int)ldb, 1, c, (int)ldc);
	else
		d->isa->product_f64(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
}

/* Puts the start of a tile of sums into c: nothing, a repeated row, or a matrix, which may be c itself. */
static void begin(const struct cg_gemm *g, const struct cg_isa *isa, int64_t i, int64_t j, int64_t m, int64_t n, char *c,
                  int64_t ldc, size_t acc)
{
	size_t real = g->dtype == CG_F64 ? 8 : g->dtype == CG_F32 ? 4 : 2;

	for (int64_t r = 0; r < m; r++) {
		char *to = c + (size_t)(r * ldc) * acc;

		if (!g->start.mem.data)
			memset(to, 0, (size_t)n * acc);
		else if (g->start.acc || real == acc)
			memmove(to, at(g->start, i + r, j, acc), (size_t)n * acc);
		else
			isa->widen[g->dtype](n, at(g->start, i + r, j, real), (float *)to);
	}
}

/* A tile whose operands and result are what arithmetic uses already. */
static void plain_tile(struct cg_queue *q, const struct cg_gemm *g, int64_t i, int64_t j, int64_t m, int64_t n)
{
	size_t acc = g->dtype == CG_F64 ? 8 : 4;
	char *c = at(g->c, i, j, acc), *a, *b;

	begin(g, q->device->isa, i, j, m, n, c, g->c.stride, acc);
	if (!g->k)
		return;                          /* a and b may be absent then */
	a = at(g->a, g->transpose_a ? 0 : i, g->transpose_a ? i : 0, acc);
	b = at(g->b, g->transpose_b ? j : 0, g->transpose_b ? 0 : j, acc);
	if (g->dtype == CG_F64)
		product_f64(q->device, g->transpose_a, g->transpose_b, m, n, g->k, (double *)(void *)a, g->a.stride,
		            (double *)(void *)b, g->b.stride, (double *)(void *)c, g->c.stride);
	else
		product_f32(q->device, g->transpose_a, g->transpose_b, m, n, g->k, (float *)(void *)a, g->a.stride,
		            (float *)(void *)b, g->b.stride, (float *)(void *)c, g->c.stride);
}

/* Widens rows by columns of a real matrix. */
static void widen(const struct cg_isa *isa, int dtype, struct cg_matrix x, int64_t row, int64_t column, int64_t rows,
                  int64_t columns, float *to)
{
	for (int64_t r = 0; r < rows; r++)
		isa->widen[dtype](columns, at(x, row + r, column, 2), to + r * columns);
}

/* A tile of f16 or bf16: panels of operands in f32, sums in f32, one rounding. */
static void narrow_tile(struct cg_queue *q, const struct cg_gemm *g, int64_t i, int64_t j, int64_t m, int64_t n, float *scratch)
{
	const struct cg_isa *isa = q->device->isa;
	float *a = scratch, *b = a + TILE_M * TILE_K, *sums = b + TILE_K * TILE_N;
	float *c = g->c.acc ? (float *)(void *)at(g->c, i, j, 4) : sums;
	int64_t ldc = g->c.acc ? g->c.stride : n;

	begin(g, isa, i, j, m, n, (char *)c, ldc, 4);
	for (int64_t p = 0; p < g->k; p += TILE_K) {
		int64_t k = g->k - p < TILE_K ? g->k - p : TILE_K;

		if (g->transpose_a)
			widen(isa, g->dtype, g->a, p, i, k, m, a);
		else
			widen(isa, g->dtype, g->a, i, p, m, k, a);
		if (g->transpose_b)
			widen(isa, g->dtype, g->b, j, p, n, k, b);
		else
			widen(isa, g->dtype, g->b, p, j, k, n, b);
		product_f32(q->device, g->transpose_a, g->transpose_b, m, n, k, a, g->transpose_a ? m : k, b,
		            g->transpose_b ? k : n, c, ldc);
	}
	if (!g->c.acc)
		for (int64_t r = 0; r < m; r++)
			isa->narrow[g->dtype](n, sums + r * n, at(g->c, i + r, j, 2));
}

int cg_cpu_gemm(struct cg_queue *queue, const struct cg_gemm *g)
{
	int narrow = g->dtype == CG_F16 || g->dtype == CG_BF16;
	struct cg_float_state state;
	float *scratch = NULL;

	if (narrow) {
		scratch = cg_cpu_scratch(queue, sizeof(float) * (TILE_M * TILE_K + TILE_K * TILE_N + TILE_M * TILE_N));
		if (!scratch)
			return CG_NO_MEMORY;
	}
	state = cg_float_enter(g->dtype);
	for (int64_t i = 0; i < g->m; i += TILE_M)
		for (int64_t j = 0; j < g->n; j += TILE_N) {
			int64_t m = g->m - i < TILE_M ? g->m - i : TILE_M, n = g->n - j < TILE_N ? g->n - j : TILE_N;

			if (narrow)
				narrow_tile(queue, g, i, j, m, n, scratch);
			else
				plain_tile(queue, g, i, j, m, n);
		}
	cg_float_leave(state);
	return CG_OK;
}
