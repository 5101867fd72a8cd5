/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests matrix products of the cuda backend, one by one: every dtype, operands as they are and transposed, each kind of start, gaps between
 * rows, no rows, no k. Except in test_aligned_operands all numbers are whole and every sum is exact, so that one answer is right, to the
 * bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "verify/numbers.h"
#include "tests/help/counted.h"
#include "tests/backends/cuda/cuda_watch.h"
#include "runtime/op/op.h"

extern const struct cg_backend cg_backend_cuda;

enum { NONE, ROW, ITSELF, MATRIX, WIDE_ROW, WIDE_MATRIX, STARTS };
static const char *const start_names[] = { "none", "a row", "c itself", "a matrix", "a row in acc", "a matrix in acc" };
enum { MOST = 80, GAP = 3, OUTSIDE = 99 };

/* A matrix: its values, and its place in device memory. */
struct operand { int64_t rows, columns, stride; int dtype; float values[MOST * (MOST + GAP)]; struct cg_mem mem; };

static size_t bytes_of(const struct operand *x)
{
	return (size_t)(x->rows * x->stride) * cg_dtype_bytes(x->dtype);
}

static void encode(const struct operand *x, unsigned char *to)
{
	for (int64_t k = 0; k < x->rows * x->stride; k++)
		numbers_encode(x->dtype, x->values[k], to + (size_t)k * cg_dtype_bytes(x->dtype));
}

static unsigned char host[MOST * (MOST + GAP) * sizeof(double)];

/* Copies a matrix to device memory, at an offset of 0 to 3 elements. */
static void upload(struct tensors *t, struct operand *x)
{
	size_t offset = (size_t)(rand() % 4) * cg_dtype_bytes(x->dtype);

	encode(x, host);
	assert_int_equal(cg_alloc(t->context, bytes_of(x) + offset, &x->mem), CG_OK);
	x->mem.offset = offset;
	x->mem.bytes -= offset;
	assert_int_equal(cg_put(t->stream, x->mem, host, bytes_of(x)), CG_OK);
}

static void fill(struct tensors *t, struct operand *x, int64_t rows, int64_t columns, int dtype)
{
	*x = (struct operand){ .rows = rows, .columns = columns, .stride = columns + GAP, .dtype = dtype };
	for (int64_t k = 0; k < rows * x->stride; k++)
		x->values[k] = k % x->stride < columns ? (float)(rand() % 5 - 2) : OUTSIDE;
	if (!rows)
		return;
	upload(t, x);
}

static struct cg_matrix matrix(const struct operand *x, int acc)
{
	return (struct cg_matrix){ x->mem, x->stride, acc };
}

struct problem { int dtype, transpose_a, transpose_b, start, c_acc; int64_t m, n, k; };

static float at(const struct operand *x, int transposed, int64_t row, int64_t column)
{
	return transposed ? x->values[column * x->stride + row] : x->values[row * x->stride + column];
}

static void expect(const struct problem *p, const struct operand *a, const struct operand *b, const struct operand *start,
                   const struct operand *c)
{
	for (int64_t i = 0; i < p->m; i++)
		for (int64_t j = 0; j < c->stride; j++) {
			float right = OUTSIDE, got = (float)numbers_decode(c->dtype, host + (size_t)(i * c->stride + j) * cg_dtype_bytes(c->dtype));

			if (j < p->n) {
				right = start ? at(start, 0, start->rows == 1 ? 0 : i, j) : 0;
				for (int64_t k = 0; k < p->k; k++)
					right += at(a, p->transpose_a, i, k) * at(b, p->transpose_b, k, j);
			}
			if (got != right)
				fail_msg("%s [%lld %lld %lld]%s%s, start %s, c in %s: expected %g at %lld, %lld, got %g",
				         cg_dtype_name(p->dtype), (long long)p->m, (long long)p->n, (long long)p->k,
				         p->transpose_a ? " a'" : "", p->transpose_b ? " b'" : "", start_names[p->start],
				         p->c_acc ? "acc" : "real", right, (long long)i, (long long)j, got);
		}
}

static struct operand a, b, start, c;

static void solve(struct tensors *t, const struct problem *p)
{
	int acc = p->dtype == CG_F64 ? CG_F64 : CG_F32, wide = p->start == WIDE_ROW || p->start == WIDE_MATRIX;
	int row = p->start == ROW || p->start == WIDE_ROW;
	struct cg_gemm g = { .dtype = p->dtype, .m = p->m, .n = p->n, .k = p->k, .transpose_a = p->transpose_a,
	                     .transpose_b = p->transpose_b };
	struct operand *begin = p->start == NONE ? NULL : p->start == ITSELF ? &c : &start;

	fill(t, &a, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, p->dtype);
	fill(t, &b, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, p->dtype);
	fill(t, &start, row ? 1 : p->m, p->n, wide ? acc : p->dtype);
	fill(t, &c, p->m, p->n, p->c_acc ? acc : p->dtype);
	g.a = matrix(&a, 0);
	g.b = matrix(&b, 0);
	g.c = matrix(&c, p->c_acc);
	if (p->start == ITSELF)
		g.start = g.c;
	else if (begin)
		g.start = (struct cg_matrix){ start.mem, row ? 0 : start.stride, wide };
	if (cg_multiply(t->stream, &g))
		fail_msg("%s [%lld %lld %lld]: %s", cg_dtype_name(p->dtype), (long long)p->m, (long long)p->n, (long long)p->k, cg_message());
	if (p->m) {
		assert_int_equal(cg_get(t->stream, host, c.mem, bytes_of(&c)), CG_OK);
		expect(p, &a, &b, begin, &c);
	}
	cg_free(t->context, &a.mem);
	cg_free(t->context, &b.mem);
	cg_free(t->context, &start.mem);
	cg_free(t->context, &c.mem);
}

static void solve_all(struct tensors *t)
{
	static const int64_t sizes[][3] = {
		{ 1, 1, 1 }, { 5, 7, 3 }, { 33, 20, 17 }, { 70, 66, 20 }, { 3, 4, 0 }, { 0, 3, 2 }, { 1, 65, 9 }
	};

	for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
		for (int form = 0; form < 4; form++)
			for (int from = 0; from < STARTS; from++)
				for (int c_acc = 0; c_acc < 2; c_acc++)
					for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
						solve(t, &(struct problem){ dtype, form & 1, form >> 1, from, c_acc, sizes[s][0], sizes[s][1],
						                            sizes[s][2] });
}

static void test_products(void **state)
{
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	srand(5);
	solve_all(&t);
	free_tensors(&t);
}

/* With a backend that has neither slot `gemm` nor slot `rows`, generated kernels give the right products. */
static void test_without_slots(void **state)
{
	const struct cg_backend *whole;
	struct cg_backend least;
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	whole = t.context->backend;
	least = *whole;
	least.gemm = NULL;
	assert_null(least.rows);
	t.context->backend = &least;
	srand(9);
	solve_all(&t);
	assert_int_equal(seen.cublasGemmEx + seen.cublasLtMatmul, 0);
	t.context->backend = whole;
	free_tensors(&t);
}

/* Tests products in f16 and bf16 with a start in f32 that the dtype cannot hold: if the start were rounded, the sum would differ. */
static void test_rounded_once(void **state)
{
	static const struct { int dtype; float start; } rows[] = { { CG_F16, 2049 }, { CG_BF16, 257 } };
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		struct cg_gemm g = { .dtype = rows[k].dtype, .m = 1, .n = 1, .k = 1 };

		a = b = c = (struct operand){ .rows = 1, .columns = 1, .stride = 1, .dtype = rows[k].dtype, .values = { 1 } };
		start = (struct operand){ .rows = 1, .columns = 1, .stride = 1, .dtype = CG_F32, .values = { rows[k].start } };
		upload(&t, &a);
		upload(&t, &b);
		upload(&t, &c);
		upload(&t, &start);
		g.a = matrix(&a, 0);
		g.b = matrix(&b, 0);
		g.c = matrix(&c, 0);
		g.start = matrix(&start, 1);
		assert_int_equal(cg_multiply(t.stream, &g), CG_OK);
		assert_int_equal(cg_get(t.stream, host, c.mem, bytes_of(&c)), CG_OK);
		assert_true((float)numbers_decode(c.dtype, host) == rows[k].start + 1);
		cg_free(t.context, &a.mem);
		cg_free(t.context, &b.mem);
		cg_free(t.context, &c.mem);
		cg_free(t.context, &start.mem);
	}
	free_tensors(&t);
}

/* Plays a cublasLt that has no algorithm. Without an algorithm, or without cublasLtMatmul, the library calls cublasGemmEx instead, and all
   products are right. */
static unsigned no_algorithm(struct cublasLtContext *handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t x,
                             cublasLtMatrixLayout_t y, cublasLtMatrixLayout_t z, cublasLtMatrixLayout_t d,
                             cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t *results, int *count)
{
	(void)handle, (void)desc, (void)x, (void)y, (void)z, (void)d, (void)preference, (void)most, (void)results;
	*count = 0;
	return CUBLAS_STATUS_NOT_SUPPORTED;
}

static void test_without_bias(void **state)
{
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	if (lt.Create) {
		cg_cublaslt.MatmulAlgoGetHeuristic = no_algorithm;
		solve_all(&t);
	}
	free_tensors(&t);
	if (lt.Create) {
		assert_true(open_tensors(&t));
		cg_cublaslt.Matmul = NULL;
		solve_all(&t);
		free_tensors(&t);
	}
	forget();
}

/* ---- at other places ---- */

static void put_at(struct tensors *t, struct operand *x, size_t offset)
{
	encode(x, host);
	assert_int_equal(cg_alloc(t->context, bytes_of(x) + offset, &x->mem), CG_OK);
	x->mem.offset = offset;
	x->mem.bytes -= offset;
	assert_int_equal(cg_put(t->stream, x->mem, host, bytes_of(x)), CG_OK);
}

/* Fills a matrix with fractions, whose sums depend on the order of the terms. */
static void draw(struct operand *x, int64_t rows, int64_t columns)
{
	*x = (struct operand){ .rows = rows, .columns = columns, .stride = columns, .dtype = CG_F32 };
	for (int64_t k = 0; k < rows * columns; k++)
		x->values[k] = (float)(rand() % 2001 - 1000) / 1000;
}

static void multiply_at(struct tensors *t, size_t offset, int kind, unsigned char result[])
{
	struct operand *all[] = { &a, &b, &start, &c };
	struct cg_gemm g = { .dtype = CG_F32, .m = 8, .n = 12, .k = 40 };

	for (int k = 0; k < 4; k++)
		put_at(t, all[k], offset);
	g.a = matrix(&a, 0);
	g.b = matrix(&b, 0);
	g.c = matrix(&c, 0);
	if (kind != NONE)
		g.start = (struct cg_matrix){ start.mem, kind == ROW ? 0 : start.stride, 0 };
	assert_int_equal(cg_multiply(t->stream, &g), CG_OK);
	assert_int_equal(cg_get(t->stream, result, c.mem, bytes_of(&c)), CG_OK);
	for (int k = 0; k < 4; k++)
		cg_free(t->context, &all[k]->mem);
}

/* A product in f32 has the same bits if all its operands lie 16, 32, 64 or 128 bytes further on: blocks of a workspace lie at any multiple
   of 16. */
static void test_aligned_operands(void **state)
{
	static unsigned char first[MOST * MOST * sizeof(float)], other[sizeof first];
	static const int kinds[] = { NONE, ROW, MATRIX };
	static const size_t offsets[] = { 16, 32, 64, 128 };
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	srand(7);
	draw(&a, 8, 40);
	draw(&b, 40, 12);
	draw(&start, 8, 12);
	draw(&c, 8, 12);
	for (int kind = 0; kind < 3; kind++) {
		multiply_at(&t, 0, kinds[kind], first);
		for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++) {
			multiply_at(&t, offsets[k], kinds[kind], other);
			if (memcmp(first, other, bytes_of(&c)))
				fail_msg("start %s: other bits %zu bytes on", start_names[kinds[kind]], offsets[k]);
		}
	}
	free_tensors(&t);
}

/* On a device for which cuBLAS has no product in bf16, reported by either of two codes, the products of all dtypes are right. */
static unsigned refusal;
static unsigned not_in_bf16(struct cublasContext *handle, unsigned op_a, unsigned op_b, int m, int n, int k, const void *alpha,
                            const void *x, unsigned type_x, int ldx, const void *y, unsigned type_y, int ldy, const void *beta,
                            void *z, unsigned type_z, int ldz, unsigned compute, int algorithm)
{
	return type_x == CUDA_R_16BF ? refusal
	       : blas.GemmEx(handle, op_a, op_b, m, n, k, alpha, x, type_x, ldx, y, type_y, ldy, beta, z, type_z, ldz, compute, algorithm);
}

static unsigned lt_without(struct cublasLtContext *handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *x,
                           cublasLtMatrixLayout_t layout_x, const void *y, cublasLtMatrixLayout_t layout_y, const void *beta,
                           const void *z, cublasLtMatrixLayout_t layout_z, void *d, cublasLtMatrixLayout_t layout_d,
                           const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes, struct CUstream_st *stream)
{
	(void)handle, (void)desc, (void)alpha, (void)x, (void)layout_x, (void)y, (void)layout_y, (void)beta, (void)z, (void)layout_z;
	(void)d, (void)layout_d, (void)algorithm, (void)workspace, (void)bytes, (void)stream;
	return refusal;
}

static void test_without_bf16(void **state)
{
	static const unsigned refusals[] = { CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_ARCH_MISMATCH };
	struct tensors t;

	(void)state;
	for (int k = 0; k < 4; k++) {
		char code[8];

		if (!open_tensors(&t))
			return;
		refusal = refusals[k % 2];
		snprintf(code, sizeof code, "%u", refusal);
		/* In all rounds the test's cublasGemmEx refuses products in bf16.  In rounds 0 and 1 the stand-in for cuBLAS refuses products in
		   bf16 by itself, too; in rounds 2 and 3 the test's cublasLtMatmul refuses every product. */
		if (k < 2)
			setenv("CELLGRAD_FAKE_BF16", code, 1);
		if (blas.GemmEx)
			cg_cublas.GemmEx = not_in_bf16;
		if (k >= 2 && lt.Matmul)
			cg_cublaslt.Matmul = lt_without;
		solve_all(&t);
		unsetenv("CELLGRAD_FAKE_BF16");
		free_tensors(&t);
		forget();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_products), cmocka_unit_test(test_without_slots), cmocka_unit_test(test_rounded_once),
		cmocka_unit_test(test_without_bias), cmocka_unit_test(test_without_bf16),
		cmocka_unit_test(test_aligned_operands),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_gemm", tests, set_up, NULL);
}
