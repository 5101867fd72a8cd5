/*
 * Products of the cpu: our own, of every instruction set that runs here, and the backend's with b packed beforehand.  All numbers
 * are small integers, so that there is one right answer, to the bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "verify/numbers.h"
#include "runtime/device/device.h"
#include "runtime/op/op.h"

extern const struct cg_backend cg_backend_cpu;

enum { GAP = 3, OUTSIDE = 99 };          /* what stands between rows, and must stay */

/* What a product is of: op(a) [m k], op(b) [k n], c as it begins and as it should end. */
struct problem {
	int64_t m, n, k;
	int ta, tb;
	int64_t lda, ldb;
	double *a, *b, *c, *right;
};

static double *matrix(int64_t rows, int64_t columns, int64_t stride)
{
	double *x = malloc((size_t)(rows * stride) * sizeof *x);

	assert_non_null(x);
	for (int64_t k = 0; k < rows * stride; k++)
		x[k] = k % stride < columns ? rand() % 5 - 2 : OUTSIDE;
	return x;
}

static void pose(struct problem *p, int64_t m, int64_t n, int64_t k, int ta, int tb)
{
	*p = (struct problem){ m, n, k, ta, tb, .lda = (ta ? m : k) + GAP, .ldb = (tb ? k : n) + GAP };
	p->a = matrix(ta ? k : m, ta ? m : k, p->lda);
	p->b = matrix(tb ? n : k, tb ? k : n, p->ldb);
	p->c = matrix(m, n, n + GAP);
	p->right = malloc((size_t)(m * (n + GAP)) * sizeof *p->right);
	assert_non_null(p->right);
	memcpy(p->right, p->c, (size_t)(m * (n + GAP)) * sizeof *p->right);
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++)
			for (int64_t q = 0; q < k; q++)
				p->right[i * (n + GAP) + j] += p->a[ta ? q * p->lda + i : i * p->lda + q] * p->b[tb ? j * p->ldb + q : q * p->ldb + j];
}

static void forget(struct problem *p)
{
	free(p->a);
	free(p->b);
	free(p->c);
	free(p->right);
}

static void *as(int dtype, const double *x, int64_t n)
{
	unsigned char *to = malloc((size_t)n * cg_dtype_bytes(dtype) + 1);

	assert_non_null(to);
	for (int64_t k = 0; k < n; k++)
		numbers_encode(dtype, x[k], to + (size_t)k * cg_dtype_bytes(dtype));
	return to;
}

static void judge(const struct problem *p, const char *who, int dtype, const void *c)
{
	for (int64_t k = 0; k < p->m * (p->n + GAP); k++) {
		double got = numbers_decode(dtype, (const unsigned char *)c + (size_t)k * cg_dtype_bytes(dtype));

		if (got != p->right[k])
			fail_msg("%s %s [%lld %lld %lld]%s%s: expected %g at %lld, %lld, got %g", who, cg_dtype_name(dtype), (long long)p->m,
			         (long long)p->n, (long long)p->k, p->ta ? " a'" : "", p->tb ? " b'" : "", p->right[k],
			         (long long)(k / (p->n + GAP)), (long long)(k % (p->n + GAP)), got);
	}
}

#define DEFINE_OWN(t, type, dtype) \
static void own_##t(const struct cg_isa *isa, const struct problem *p) \
{ \
	const struct cg_product_##t *own = isa->product_##t; \
	int64_t ldc = p->n + GAP, across = own->columns, panels = (p->n + across - 1) / across; \
	type *a = as(dtype, p->a, (p->ta ? p->k : p->m) * p->lda), *b = as(dtype, p->b, (p->tb ? p->n : p->k) * p->ldb); \
	type *c = as(dtype, p->c, p->m * ldc), *same = as(dtype, p->c, p->m * ldc); \
	type *packed = malloc((size_t)(panels * across * p->k) * sizeof *packed); \
\
	assert_non_null(packed); \
	own->multiply(p->ta, p->tb, p->m, p->n, p->k, a, p->lda, b, p->ldb, c, ldc); \
	judge(p, isa->name, dtype, c); \
	for (int64_t j = 0; j < p->n; j += across) \
		own->pack(p->tb, p->k, p->n - j < across ? p->n - j : across, b + j * (p->tb ? p->ldb : 1), p->ldb, packed + j * p->k); \
	if (!p->ta) { \
		own->multiply_packed(p->m, p->n, p->k, a, p->lda, packed, across * p->k, same, ldc); \
		judge(p, "packed", dtype, same); \
	} \
	free(a); \
	free(b); \
	free(c); \
	free(same); \
	free(packed); \
}
DEFINE_OWN(f32, float, CG_F32)
DEFINE_OWN(f64, double, CG_F64)

/* Rows up to two blocks and a part, columns about a panel's, k about what is read at a time. */
static void test_own(void **state)
{
	static const int64_t ms[] = { 1, 2, 3, 4, 5, 6, 7, 13 }, ns[] = { 1, 7, 16, 31, 64, 65, 130 }, ks[] = { 1, 15, 128, 131, 515 };
	enum { M = 8, N = 7, K = 5, FORMS = 4 };
	struct problem p;

	(void)state;
	for (int s = 0; s < M * N * K * FORMS; s++) {
		pose(&p, ms[s % M], ns[s / M % N], ks[s / (M * N) % K], s / (M * N * K) % 2, s / (M * N * K * 2));
		for (const struct cg_isa *isa = cg_isas; isa->name; isa++)
			if (isa->runs_here()) {
				own_f32(isa, &p);
				own_f64(isa, &p);
			}
		forget(&p);
	}
}

static struct cg_mem mem_of(void *data, size_t bytes)
{
	return (struct cg_mem){ .data = data, .bytes = bytes };
}

/* Every dtype, with tiles beside each other and panels that end within one; whether it packs is its business, and how is seen. */
static int pack_one(struct cg_stream *stream, int dtype, const struct problem *p)
{
	int acc = dtype == CG_F64 ? CG_F64 : CG_F32;
	struct cg_gemm g = { .dtype = dtype, .m = p->m, .n = p->n, .k = p->k, .transpose_a = p->ta, .transpose_b = p->tb };
	size_t bytes;
	void *a = as(dtype, p->a, (p->ta ? p->k : p->m) * p->lda), *b = as(dtype, p->b, (p->tb ? p->n : p->k) * p->ldb);
	void *c = as(acc, p->c, p->m * (p->n + GAP)), *packed;

	g.a = (struct cg_matrix){ mem_of(a, SIZE_MAX), p->lda, 0 };
	g.b = (struct cg_matrix){ mem_of(b, SIZE_MAX), p->ldb, 0 };
	g.c = g.start = (struct cg_matrix){ mem_of(c, SIZE_MAX), p->n + GAP, 1 };
	bytes = cg_backend_cpu.packed(stream->context->device, &g);
	packed = malloc(bytes + 1);
	assert_non_null(packed);
	((char *)packed)[bytes] = OUTSIDE;
	if (bytes) {
		g.packed = mem_of(packed, bytes);
		assert_int_equal(cg_backend_cpu.pack(stream->queue, &g), CG_OK);
		g.b.mem = mem_of(NULL, 0);
	}
	assert_int_equal(cg_multiply(stream, &g), CG_OK);
	judge(p, bytes ? "the backend, packed" : "the backend", acc, c);
	assert_int_equal(((char *)packed)[bytes], OUTSIDE);
	free(a);
	free(b);
	free(c);
	free(packed);
	return bytes > 0;
}

static void test_packed(void **state)
{
	static const int64_t sizes[][3] = {
		{ 1, 5, 3 }, { 5, 130, 70 }, { 8, 700, 1100 }, { 64, 300, 33 }, { 256, 65, 129 }, { 257, 70, 9 }
	};
	enum { SIZES = sizeof sizes / sizeof *sizes };
	int packed[4] = { 0 };
	struct cg_context *context;
	struct cg_stream *stream;
	struct problem p;

	(void)state;
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	for (int s = 0; s < SIZES; s++)
		for (int form = 0; form < 4; form++) {
			pose(&p, sizes[s][0], sizes[s][1], sizes[s][2], form & 1, form >> 1);
			for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
				packed[dtype] += pack_one(stream, dtype, &p);
			forget(&p);
		}
	for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
		assert_true(packed[dtype] >= 8);
	cg_stream_close(stream);
	cg_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_own), cmocka_unit_test(test_packed) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
