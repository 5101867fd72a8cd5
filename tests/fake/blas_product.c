/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, with sums in double, or in f32 in another order; the products are queued on a stream, and their results rounded when
   they are stored. */
#include <stdlib.h>
#include <string.h>

#include "blas.h"

int fake_status(int code)
{
	if (code == NOT_INITIALIZED || code == INVALID_CONTEXT)
		return BLAS_NOT_INITIALIZED;
	return code > 16 ? BLAS_EXECUTION_FAILED : code;
}

/* ---- types ---- */

int fake_types(unsigned a, unsigned b, unsigned c, unsigned compute)
{
	int wide = compute == COMPUTE_64F || compute == COMPUTE_64F_PEDANTIC;
	int sums = compute == COMPUTE_32F || compute == COMPUTE_32F_PEDANTIC || compute == COMPUTE_32F_FAST_TF32;

	if (a != b)
		return BLAS_NOT_SUPPORTED;
	/* CELLGRAD_FAKE_BF16 is the status that a call of a product in bf16 returns, as on sm_75, where the call returns one of two statuses,
	   by the version of cuBLAS. */
	if (a == R_16BF && fake_setting("BF16", 0))
		return (int)fake_setting("BF16", 0);
	if (wide)
		return a == R_64F && c == R_64F ? 0 : BLAS_NOT_SUPPORTED;
	if (!sums || a == R_64F)
		return BLAS_NOT_SUPPORTED;
	return c == R_32F || (c == a && (a == R_16F || a == R_16BF)) ? 0 : BLAS_NOT_SUPPORTED;
}

double fake_factor(const void *factor, unsigned type)
{
	double wide;
	float narrow;

	if (type == R_64F)
		return memcpy(&wide, factor, sizeof wide), wide;
	return memcpy(&narrow, factor, sizeof narrow), (double)narrow;
}

/* ---- the work ---- */

/* Checks each column of a matrix [rows, columns]: that it can be read, and was written, or that it can be written, as `how` says. */
static int reach(const struct product *p, uint64_t at, int64_t rows, int64_t columns, int64_t ld, int type, int how)
{
	size_t bytes = fake_type_bytes((unsigned)type);
	int code = 0;

	for (int64_t j = 0; j < columns && !code; j++)
		code = fake_reach(p->call, at + (uint64_t)(j * ld) * bytes, (size_t)rows * bytes, how);
	return code;
}

/* Returns a matrix [rows, columns] as doubles, rounded to TF32 if p->narrow is 1, one column after the other; transpose: the matrix lies in
   memory as [columns, rows]. */
static double *widen(const struct product *p, uint64_t at, int64_t rows, int64_t columns, int64_t ld, int transpose)
{
	double *to = malloc((size_t)(rows * columns + 1) * sizeof *to);
	const char *from = fake_data(at);

	if (!to)
		abort();
	for (int64_t j = 0; j < columns; j++)
		for (int64_t i = 0; i < rows; i++) {
			double x = fake_load(from, (size_t)(transpose ? i * ld + j : j * ld + i), p->type);

			to[j * rows + i] = p->narrow ? fake_rounded(x, 10, -126) : x;
		}
	return to;
}

/* Returns how many bytes of the workspace a product writes. */
static size_t scribbled(const struct product *p)
{
	return p->workspace_bytes < 4096 ? p->workspace_bytes : 4096;
}

/*
 * A bias of cublasLt's epilogue is read 16 bytes at a time: the preferences of cublasLt give the alignments of A, B, C and D but not that
 * of the bias, so that the algorithm may assume an alignment of the bias.  An algorithm that assumes an alignment of the bias was seen on
 * a GTX 1660 Ti with CUDA 13.3: pytorch/pytorch#194497.
 */
static int check_bias(const struct product *p)
{
	if (p->bias % 16 == 0)
		return 0;
	fake_report("%s: the bias of the epilogue is no multiple of 16: %#llx", p->call, (unsigned long long)p->bias);
	return MISALIGNED_ADDRESS;
}

static int reach_all(const struct product *p)
{
	int code = check_bias(p);

	if (!code && p->k) {
		code = reach(p, p->a, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, p->lda, p->type, READ_WRITTEN);
		if (!code)
			code = reach(p, p->b, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, p->ldb, p->type, READ_WRITTEN);
	}
	if (!code && p->beta != 0)
		code = reach(p, p->c, p->m, p->n, p->ldc, p->type_c, READ_WRITTEN);
	if (!code && p->bias)
		code = reach(p, p->bias, p->m, 1, p->m, p->type_c, READ_WRITTEN);
	if (!code)
		code = reach(p, p->d, p->m, p->n, p->ldd, p->type_c, WRITE);
	if (!code && p->workspace_bytes)
		code = fake_reach(p->call, p->workspace, scribbled(p), WRITE);
	return code;
}

/* Adds the terms of one column of the product to `sums`. */
static void add_products(const struct product *p, const double *restrict a, const double *restrict b, double *restrict sums)
{
	for (int64_t turn = 0; turn < p->k; turn++) {
		int64_t l = fake_turn(p->order, turn, p->k);

		for (int64_t i = 0; i < p->m; i++)
			sums[i] = fake_sum(p->order, sums[i] + a[l * p->m + i] * b[l], p->type);
	}
}

/* Kernels that add to a c of 16 bits first round the product to 16 bits, as nvjet_sm90_hsh_..._badd_NTT of cuBLAS 13.1 does on an H200. */
static double as_stored(double x, int type)
{
	double stored[1];

	if (type != R_16F && type != R_16BF)
		return x;
	fake_store(stored, 0, x, type);
	return fake_load(stored, 0, type);
}

static int run(void *data)
{
	const struct product *p = data;
	int code = reach_all(p);
	double *a, *b, *sums;

	if (code)
		return code;
	/* Fills the first bytes of the workspace with NaNs, since the workspace's contents are undefined. */
	if (p->workspace_bytes)
		memset(fake_data(p->workspace), 0xff, scribbled(p));
	a = widen(p, p->k ? p->a : p->d, p->m, p->k, p->lda, p->transpose_a);
	b = widen(p, p->k ? p->b : p->d, p->k, p->n, p->ldb, p->transpose_b);
	sums = malloc((size_t)(p->m + 1) * sizeof *sums);
	if (!sums)
		abort();
	for (int64_t j = 0; j < p->n; j++) {
		memset(sums, 0, (size_t)p->m * sizeof *sums);
		add_products(p, a, b + j * p->k, sums);
		for (int64_t i = 0; i < p->m; i++) {
			double x = p->alpha * sums[i];

			if (p->beta != 0)
				x = as_stored(x, p->type_c) + p->beta * fake_load(fake_data(p->c), (size_t)(j * p->ldc + i), p->type_c);
			if (p->bias)
				x += fake_load(fake_data(p->bias), (size_t)i, p->type_c);
			fake_store(fake_data(p->d), (size_t)(j * p->ldd + i), x, p->type_c);
		}
	}
	free(a);
	free(b);
	free(sums);
	return 0;
}

/* Checks a matrix at the call: its leading dimension, its alignment, and that its memory, from first to last element, is allocated. */
static int owned(const struct product *p, const char *what, struct stream *stream, uint64_t at, int64_t rows, int64_t columns,
                 int64_t ld, int type)
{
	size_t bytes = fake_type_bytes((unsigned)type);

	if (ld < (rows > 1 ? rows : 1)) {
		fake_report("%s: %s: %lld elements from column to column, where a column has %lld", p->call, what, (long long)ld,
		            (long long)rows);
		return BLAS_INVALID_VALUE;
	}
	if (at % bytes) {
		fake_report("%s: %s: misaligned: %#llx", p->call, what, (unsigned long long)at);
		return BLAS_INVALID_VALUE;
	}
	return fake_owned(p->call, what, stream->context, at, (size_t)((columns - 1) * ld + rows) * bytes) ? BLAS_INVALID_VALUE : 0;
}

int fake_multiply(struct product p, struct stream *stream)
{
	struct product *work;
	int code = 0;

	if (!p.m || !p.n)
		return 0;
	if (p.k) {
		code = owned(&p, "a", stream, p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.type);
		if (!code)
			code = owned(&p, "b", stream, p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.type);
	}
	if (!code && p.beta != 0)
		code = owned(&p, "c", stream, p.c, p.m, p.n, p.ldc, p.type_c);
	if (!code)
		code = owned(&p, "the result", stream, p.d, p.m, p.n, p.ldd, p.type_c);
	if (!code && p.bias)
		code = owned(&p, "the bias", stream, p.bias, p.m, 1, p.m, p.type_c);
	if (!code && p.workspace_bytes)
		code = fake_owned(p.call, "the workspace", stream->context, p.workspace, p.workspace_bytes) ? BLAS_INVALID_VALUE : 0;
	if (code)
		return code;
	work = malloc(sizeof *work);
	if (!work)
		abort();
	*work = p;
	fake_enqueue(p.call, stream, run, work);
	return 0;
}
