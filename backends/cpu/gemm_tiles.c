/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes matrix products on the cpu, except those of all_steps.c and those for which is_blocked() chooses blocked_gemm.c.  The products
 * of this file are cut into tiles by their shape alone, so the number of threads changes no bit.  A tile is computed by OpenBLAS, or by
 * the library's own code if OpenBLAS is not in use, there are few rows, a size exceeds an int, b is packed, or sums must be in order.  f16
 * and bf16 operands are widened to f32; their products are summed in f32 and, unless c is in acc, rounded once.
 */
#include <limits.h>
#include <string.h>

#include "backends/cpu/cpu.h"

enum { TILE_M = 256, TILE_N = 512, TILE_K = 1024, LINE = 16 };   /* LINE: floats of a cache line */
enum { TILES = 8, NARROW = 128 };        /* a product of fewer than TILES tiles gets narrower tiles, so that threads can share it */

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };          /* cblas's values */

static char *at(struct cg_matrix x, int64_t row, int64_t column, size_t bytes)
{
	return (char *)x.mem.data + x.mem.offset + (size_t)(row * x.stride + column) * bytes;
}

/* The BLAS that may compute this product: none if each sum must add its terms in the order of k. */
static const struct cg_openblas *library_for(const struct cg_dev *d, const struct cg_gemm *g)
{
	static const struct cg_openblas none;

	return g->in_order ? &none : d->blas;
}

/* Has the product so few rows that packing the operand b, as a BLAS and the panels do, would take longer than multiplying?  is_few()
 * returns 0 if the operand a is transposed, or if b is transposed and field takes_blas of the instruction set is 1. */
static int is_few(const struct cg_dev *d, const struct cg_gemm *g, int64_t m)
{
	return !g->transpose_a && (!g->transpose_b || !d->isa->takes_blas) && m <= d->isa->few;
}

/* Does the instruction set multiply elements of this 16-bit dtype without widening them to f32?  has_own_product() returns 0 for f32 and
 * f64. */
static int has_own_product(const struct cg_dev *d, int dtype)
{
	return !cg_is_plain(dtype) && d->isa->panels[dtype]->bytes == cg_dtype_bytes(dtype);
}

/* Does blocked_gemm.c compute the product?  blocked_gemm.c computes big products for which there is no BLAS, and every product of bf16 with
 * k > 0 that needs no widening, since the other code for single products widens bf16. */
static int is_blocked(const struct cg_dev *d, const struct cg_gemm *g)
{
	if (has_own_product(d, g->dtype))
		return g->k > 0;
	return g->m && g->n && g->k && !g->packed.data && !is_few(d, g, g->m) && !cg_cpu_has_product(library_for(d, g), g->dtype);
}

static void product_f32(const struct cg_dev *d, const struct cg_gemm *g, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                        const float *b, int64_t ldb, float *c, int64_t ldc)
{
	const struct cg_openblas *blas = library_for(d, g);
	int ta = g->transpose_a, tb = g->transpose_b;

	if (blas->sgemm && !is_few(d, g, m) && k <= INT_MAX && lda <= INT_MAX && ldb <= INT_MAX && ldc <= INT_MAX)
		blas->sgemm(ROW_MAJOR, ta ? TRANSPOSED : PLAIN, tb ? TRANSPOSED : PLAIN, (int)m, (int)n, (int)k, 1, a, (int)lda, b,
		            (int)ldb, 1, c, (int)ldc);
	else
		d->isa->product_f32->multiply(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
}

static void product_f64(const struct cg_dev *d, const struct cg_gemm *g, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                        const double *b, int64_t ldb, double *c, int64_t ldc)
{
	const struct cg_openblas *blas = library_for(d, g);
	int ta = g->transpose_a, tb = g->transpose_b;

	if (blas->dgemm && !is_few(d, g, m) && k <= INT_MAX && lda <= INT_MAX && ldb <= INT_MAX && ldc <= INT_MAX)
		blas->dgemm(ROW_MAJOR, ta ? TRANSPOSED : PLAIN, tb ? TRANSPOSED : PLAIN, (int)m, (int)n, (int)k, 1, a, (int)lda, b,
		            (int)ldb, 1, c, (int)ldc);
	else
		d->isa->product_f64->multiply(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
}

/* Copies bytes; does nothing if source and destination are the same, as when a product's sums start from the values in its c. */
static void copy(char *to, const char *from, size_t bytes)
{
	if (to != from)
		memmove(to, from, bytes);
}

/* Puts the values from which a tile's sums start into c: zeros, a repeated row, or a matrix, which may be c itself. */
static void begin(const struct cg_gemm *g, const struct cg_isa *isa, int64_t i, int64_t j, int64_t m, int64_t n, char *c,
                  int64_t ldc, size_t acc)
{
	size_t real = cg_dtype_bytes(g->dtype);

	for (int64_t r = 0; r < m; r++) {
		char *to = c + (size_t)(r * ldc) * acc;

		if (!g->start.mem.data)
			memset(to, 0, (size_t)n * acc);
		else if (g->start.acc || real == acc)
			copy(to, at(g->start, i + r, j, acc), (size_t)n * acc);
		else
			isa->widen[g->dtype](n, at(g->start, i + r, j, real), to);
	}
}

/* The number of columns of a panel of the packed operand b; the function panel() returns the panel that begins at column j. */
static int64_t panel_columns(const struct cg_dev *d, int dtype)
{
	return dtype == CG_F64 ? d->isa->product_f64->columns : d->isa->product_f32->columns;
}

static void *panel(const struct cg_gemm *g, int64_t j)
{
	return (char *)g->packed.data + g->packed.offset + (size_t)(j * g->k) * cg_acc_bytes(g->dtype);
}

/* Computes a tile of an f32 or f64 product, whose operands and result have the type acc. */
static void plain_tile(const struct cg_dev *d, const struct cg_gemm *g, int64_t i, int64_t j, int64_t m, int64_t n)
{
	size_t acc = cg_acc_bytes(g->dtype);
	char *c = at(g->c, i, j, acc), *a, *b;

	begin(g, d->isa, i, j, m, n, c, g->c.stride, acc);
	if (!g->k)
		return;                          /* if k is 0, the operands a and b may be absent */
	a = at(g->a, g->transpose_a ? 0 : i, g->transpose_a ? i : 0, acc);
	if (g->packed.data) {
		int64_t stride = g->k * panel_columns(d, g->dtype);

		if (g->dtype == CG_F64)
			d->isa->product_f64->multiply_packed(m, n, g->k, (double *)(void *)a, g->a.stride, panel(g, j), stride,
			                                     (double *)(void *)c, g->c.stride);
		else
			d->isa->product_f32->multiply_packed(m, n, g->k, (float *)(void *)a, g->a.stride, panel(g, j), stride,
			                                     (float *)(void *)c, g->c.stride);
		return;
	}
	b = at(g->b, g->transpose_b ? j : 0, g->transpose_b ? 0 : j, acc);
	if (g->dtype == CG_F64)
		product_f64(d, g, m, n, g->k, (double *)(void *)a, g->a.stride, (double *)(void *)b, g->b.stride, (double *)(void *)c, g->c.stride);
	else
		product_f32(d, g, m, n, g->k, (float *)(void *)a, g->a.stride, (float *)(void *)b, g->b.stride, (float *)(void *)c, g->c.stride);
}

/* Converts some rows and columns of a matrix from the dtype to f32. */
static void widen(const struct cg_isa *isa, int dtype, struct cg_matrix x, int64_t row, int64_t column, int64_t rows,
                  int64_t columns, float *to)
{
	for (int64_t r = 0; r < rows; r++)
		isa->widen[dtype](columns, at(x, row + r, column, cg_dtype_bytes(dtype)), to + r * columns);
}

/* The number of columns of a tile.  A tile's size depends on the product's shape alone, so the number of threads changes no bit. */
static int64_t tile_columns(const struct cg_gemm *g)
{
	int64_t columns = TILE_N, down = (g->m + TILE_M - 1) / TILE_M;

	while (columns > NARROW && down * ((g->n + columns - 1) / columns) < TILES)
		columns /= 2;
	return columns;
}

/* The size of a product's largest tile: m rows, n columns, k steps at a time.  The function floats() gives the number of floats that the
 * operands and sums of the largest tile take in f32, in whole cache lines. */
struct tile_size { int64_t m, n, k; };

static struct tile_size tile_size_of(const struct cg_gemm *g)
{
	int64_t columns = tile_columns(g);

	return (struct tile_size){ g->m < TILE_M ? g->m : TILE_M, g->n < columns ? g->n : columns, g->k < TILE_K ? g->k : TILE_K };
}

static size_t floats(struct tile_size r)
{
	return (size_t)(r.m * r.k + r.k * r.n + r.m * r.n + LINE - 1) / LINE * LINE;
}

/* Computes a tile of an f16 or bf16 product: its operands are widened to f32, and each sum in f32 is, unless c is in acc, rounded once, at
 * the end. */
static void narrow_tile(const struct cg_dev *d, const struct cg_gemm *g, int64_t i, int64_t j, int64_t m, int64_t n,
                        float *scratch)
{
	const struct cg_isa *isa = d->isa;
	struct tile_size r = tile_size_of(g);
	float *a = scratch, *b = a + r.m * r.k, *sums = b + r.k * r.n;
	float *c = g->c.acc ? (float *)(void *)at(g->c, i, j, 4) : sums;
	int64_t ldc = g->c.acc ? g->c.stride : n, across = isa->product_f32->columns;

	begin(g, isa, i, j, m, n, (char *)c, ldc, 4);
	for (int64_t p = 0; p < g->k; p += TILE_K) {
		int64_t k = g->k - p < TILE_K ? g->k - p : TILE_K;

		if (g->transpose_a)
			widen(isa, g->dtype, g->a, p, i, k, m, a);
		else
			widen(isa, g->dtype, g->a, i, p, m, k, a);
		if (g->packed.data) {
			isa->product_f32->multiply_packed(m, n, k, a, k, (float *)panel(g, j) + p * across, g->k * across, c, ldc);
			continue;
		}
		if (g->transpose_b)
			widen(isa, g->dtype, g->b, j, p, n, k, b);
		else
			widen(isa, g->dtype, g->b, p, j, k, n, b);
		product_f32(d, g, m, n, k, a, g->transpose_a ? m : k, b, g->transpose_b ? k : n, c, ldc);
	}
	if (!g->c.acc)
		for (int64_t row = 0; row < m; row++)
			isa->narrow[g->dtype](n, sums + row * n, at(g->c, i + row, j, cg_dtype_bytes(g->dtype)));
}

struct product {
	const struct cg_dev *device;
	const struct cg_gemm *g;
	int64_t columns, across;                 /* columns: the number of columns of a tile; across: the number of tiles side by side */
	float *scratch;                          /* for f16 and bf16: memory for the widened operands and the sums of a tile, for each thread */
};

static void tile(void *context, int64_t t, int thread)
{
	const struct product *p = context;
	const struct cg_gemm *g = p->g;
	int64_t i = t / p->across * TILE_M, j = t % p->across * p->columns;
	int64_t m = g->m - i < TILE_M ? g->m - i : TILE_M, n = g->n - j < p->columns ? g->n - j : p->columns;
	struct cg_float_state state = cg_float_enter(g->dtype);

	if (p->scratch)
		narrow_tile(p->device, g, i, j, m, n, p->scratch + (size_t)thread * floats(tile_size_of(g)));
	else
		plain_tile(p->device, g, i, j, m, n);
	cg_float_leave(state);
}

int cg_cpu_gemm(struct cg_queue *queue, const struct cg_gemm *g, int *left)
{
	int64_t columns = tile_columns(g);
	struct product p = { queue->device, g, columns, (g->n + columns - 1) / columns, NULL };
	int64_t tiles = (g->m + TILE_M - 1) / TILE_M * p.across;

	*left = CG_LEFT_NOTHING;
	if (is_blocked(queue->device, g))
		return cg_cpu_blocked_gemm(queue, g);
	if (!cg_is_plain(g->dtype)) {
		int threads = cg_team_threads(queue->team);

		if (tiles < threads)
			threads = (int)tiles;
		p.scratch = cg_cpu_scratch(queue, (size_t)threads * floats(tile_size_of(g)) * sizeof(float));
		if (!p.scratch)
			return CG_NO_MEMORY;
	}
	cg_team_run(queue->team, tiles, tile, &p);
	return CG_OK;
}

/* ---- b packed for many products ---- */

enum { LEAST = 5 };                      /* if there is a BLAS, the least rows for which b of f32 or f64 is packed */

size_t cg_cpu_packed(const struct cg_dev *d, const struct cg_gemm *g)
{
	int64_t across = panel_columns(d, g->dtype), columns = (g->n + across - 1) / across * across;
	int is_plain = cg_is_plain(g->dtype);
	int has_blas = cg_cpu_has_product(d->blas, g->dtype);
	size_t bytes;

	if (has_own_product(d, g->dtype) || g->transpose_a || g->m > TILE_M || (is_plain && has_blas && g->m < LEAST) ||
	    __builtin_mul_overflow(columns, g->k * (int64_t)cg_acc_bytes(g->dtype), &bytes))
		return 0;
	return bytes;
}

struct packing {
	const struct cg_dev *device;
	const struct cg_gemm *g;
};

/* Packs a panel of an f16 or bf16 operand b: widens it to f32, DEEP steps of k at a time. */
static void pack_narrow(const struct cg_isa *isa, const struct cg_gemm *g, int64_t j, int64_t width, float *to)
{
	enum { DEEP = 64, WIDEST = 64 };
	int64_t across = isa->product_f32->columns;
	float part[WIDEST * DEEP];

	for (int64_t p = 0; p < g->k; p += DEEP) {
		int64_t k = g->k - p < DEEP ? g->k - p : DEEP;

		if (g->transpose_b)
			widen(isa, g->dtype, g->b, j, p, width, k, part);
		else
			widen(isa, g->dtype, g->b, p, j, k, width, part);
		isa->product_f32->pack(g->transpose_b, k, width, part, g->transpose_b ? k : width, to + p * across);
	}
}

static void pack_panel(void *context, int64_t t, int thread)
{
	const struct packing *w = context;
	const struct cg_gemm *g = w->g;
	const struct cg_isa *isa = w->device->isa;
	int64_t across = panel_columns(w->device, g->dtype), j = t * across, width = g->n - j < across ? g->n - j : across;
	char *b = at(g->b, g->transpose_b ? j : 0, g->transpose_b ? 0 : j, cg_acc_bytes(g->dtype));

	(void)thread;
	if (g->dtype == CG_F64)
		isa->product_f64->pack(g->transpose_b, g->k, width, (double *)(void *)b, g->b.stride, panel(g, j));
	else if (g->dtype == CG_F32)
		isa->product_f32->pack(g->transpose_b, g->k, width, (float *)(void *)b, g->b.stride, panel(g, j));
	else
		pack_narrow(isa, g, j, width, panel(g, j));
}

int cg_cpu_pack(struct cg_queue *queue, const struct cg_gemm *g)
{
	struct packing p = { queue->device, g };
	int64_t across = panel_columns(queue->device, g->dtype);

	cg_team_run(queue->team, (g->n + across - 1) / across, pack_panel, &p);
	return CG_OK;
}
