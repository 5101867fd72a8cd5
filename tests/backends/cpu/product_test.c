/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests matrix products of the cpu: the library's own, small and large, with every instruction set that runs here, and the backend's
 * product with b packed beforehand, where the backend packs b. Except in test_bits and test_tiles all numbers are small integers, so that
 * one answer is right, to the bit.
 */
#include <math.h>
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

enum { GAP = 3, OUTSIDE = 99 };          /* GAP: elements between the rows of a matrix, with value OUTSIDE, which must not change */

/* A product c += a b of [m, k] and [k, n]; ta, tb: 1 if a or b is stored transposed; c: the values of c before the product; right: the
   right values of c after it. */
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

/* Tests products of 1 to 13 rows, 1 to 130 columns and k from 1 to 515, in f32 and f64, in all four transpositions, and with b packed
   beforehand if a is not transposed. */
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

/* Multiplies a problem in a dtype by the backend, which decides whether to pack b; with b packed or not, the product must be right.
   Returns 1 if b was packed. */
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
		if (stream->context->device->isa->panels[dtype]->steps == 1)
			assert_true(packed[dtype] >= 8);
		else                             /* bf16 operands that are multiplied unconverted are not packed */
			assert_int_equal(packed[dtype], 0);
	cg_stream_close(stream);
	cg_close(context);
}

/* ---- big products ---- */

/* What the sums of a product start from: 0, a row or a matrix in the operands' dtype or in the dtype of sums (acc), or c itself. */
enum start { NOTHING, ROW_REAL, ROW_ACC, MATRIX_REAL, MATRIX_ACC, ITSELF, STARTS };

static struct cg_queue queue_of(struct cg_dev *device, const struct cg_isa *isa, int threads)
{
	static const struct cg_openblas none;
	struct cg_queue queue = { .device = device };

	*device = (struct cg_dev){ .isa = isa, .blas = &none, .threads = threads };
	assert_int_equal(cg_team_open(threads, &queue.team), CG_OK);
	return queue;
}

static void close_queue(struct cg_queue *queue)
{
	cg_team_close(queue->team);
	cg_memory(queue->scratch, 0);
}

/* Returns the number `whole`, an integer, rounded to a dtype. */
static double rounded(int dtype, double whole)
{
	static const int bits[CG_DTYPE_COUNT] = { [CG_F16] = 11, [CG_BF16] = 8, [CG_F32] = 24, [CG_F64] = 53 };
	double last = whole ? scalbn(1, ilogb(whole) + 1 - bits[dtype]) : 1;

	return rint(whole / last) * last;
}

/* Changes p->right from the result of a product that begins with c to that of a product with the start `start`, rounded to the dtype. */
static void expect(struct problem *p, enum start start, int dtype)
{
	int64_t ldc = p->n + GAP;

	for (int64_t i = 0; i < p->m; i++)
		for (int64_t j = 0; j < p->n; j++) {
			double *right = &p->right[i * ldc + j];

			if (start == NOTHING)
				*right -= p->c[i * ldc + j];
			if (start == ROW_REAL || start == ROW_ACC)
				*right += p->c[j] - p->c[i * ldc + j];
			*right = rounded(dtype, *right);
		}
}

/* Runs and judges a product by cg_cpu_blocked_gemm() with operands of the dtype; c is in the dtype of sums if to_acc is 1, else in the
   operands' dtype. */
static void multiply_big(struct cg_queue *queue, int dtype, int to_acc, enum start start, int64_t m, int64_t n, int64_t k, int form)
{
	int acc = dtype == CG_F64 ? CG_F64 : CG_F32, of_c = to_acc ? acc : dtype, of_start;
	struct cg_gemm g = { .dtype = dtype, .m = m, .n = n, .k = k, .transpose_a = form & 1, .transpose_b = form >> 1 };
	struct problem p;
	void *a, *b, *c, *from;

	pose(&p, m, n, k, form & 1, form >> 1);
	of_start = start == ITSELF ? of_c : start == ROW_ACC || start == MATRIX_ACC ? acc : dtype;
	a = as(dtype, p.a, (p.ta ? k : m) * p.lda);
	b = as(dtype, p.b, (p.tb ? n : k) * p.ldb);
	c = as(of_c, p.c, m * (n + GAP));
	from = as(of_start, p.c, m * (n + GAP));
	g.a = (struct cg_matrix){ mem_of(a, SIZE_MAX), p.lda, 0 };
	g.b = (struct cg_matrix){ mem_of(b, SIZE_MAX), p.ldb, 0 };
	g.c = (struct cg_matrix){ mem_of(c, SIZE_MAX), n + GAP, to_acc };
	if (start != NOTHING)
		g.start = (struct cg_matrix){ mem_of(start == ITSELF ? c : from, SIZE_MAX),
		                              start == ROW_REAL || start == ROW_ACC ? 0 : n + GAP, of_start == acc };
	assert_int_equal(cg_cpu_blocked_gemm(queue, &g), CG_OK);
	expect(&p, start, of_c);
	judge(&p, queue->device->isa->name, of_c, c);
	forget(&p);
	free(a);
	free(b);
	free(c);
	free(from);
}

/* Tests each of `sizes` with every dtype and start, with c in the operands' dtype and in that of sums, and with the four transpositions in
   turn; tests each of `large` in f32 and bf16 with one start. */
static void test_big(void **state)
{
	static const int64_t sizes[][3] = {
		{ 1, 1, 1 }, { 13, 33, 17 }, { 25, 49, 40 }, { 7, 41, 30 }, { 61, 70, 530 }, { 250, 100, 40 }, { 30, 16, 2100 }
	};
	static const int64_t large[][3] = { { 30, 4200, 600 }, { 520, 4200, 9 } };
	enum { SIZES = sizeof sizes / sizeof *sizes, ALL = SIZES * STARTS * CG_DTYPE_COUNT * 2 };
	struct cg_dev device;

	(void)state;
	for (const struct cg_isa *isa = cg_isas; isa->name; isa++) {
		struct cg_queue queue;

		if (!isa->runs_here())
			continue;
		queue = queue_of(&device, isa, 3);
		for (int k = 0; k < ALL; k++) {
			const int64_t *size = sizes[k % SIZES];
			int dtype = k / SIZES % CG_DTYPE_COUNT, to_acc = k / (SIZES * CG_DTYPE_COUNT) % 2;

			multiply_big(&queue, dtype, to_acc, k / (SIZES * CG_DTYPE_COUNT * 2), size[0], size[1], size[2], k % 4);
		}
		for (int k = 0; k < 4; k++)
			multiply_big(&queue, k % 2 ? CG_BF16 : CG_F32, 0, k < 2 ? MATRIX_REAL : ITSELF, large[k / 2][0], large[k / 2][1],
			             large[k / 2][2], 3 - k);
		close_queue(&queue);
	}
}

/* Computes rows `from` to from + m - 1 of c = a b, on the queue's threads. */
static void multiply_rows(struct cg_queue *queue, const float *a, const float *b, int64_t from, int64_t m, int64_t n, int64_t k, float *c)
{
	struct cg_gemm g = { .dtype = CG_F32, .m = m, .n = n, .k = k };

	g.a = (struct cg_matrix){ mem_of((float *)a + from * k, SIZE_MAX), k, 0 };
	g.b = (struct cg_matrix){ mem_of((float *)b, SIZE_MAX), n, 0 };
	g.c = (struct cg_matrix){ mem_of(c + from * n, SIZE_MAX), n, 0 };
	assert_int_equal(cg_cpu_blocked_gemm(queue, &g), CG_OK);
}

/* A product in f32 has the same bits on one thread and on three, by two calls for a part of the rows each, and by product_f32, the
   library's product for few rows. */
static void test_bits(void **state)
{
	enum { M = 130, N = 100, K = 1100 };
	static float a[M * K], b[K * N], c[4][M * N];
	struct cg_dev device;

	(void)state;
	for (int k = 0; k < M * K; k++)
		a[k] = (float)rand() / (float)RAND_MAX - 0.5f;
	for (int k = 0; k < K * N; k++)
		b[k] = (float)rand() / (float)RAND_MAX - 0.5f;
	for (const struct cg_isa *isa = cg_isas; isa->name; isa++) {
		if (!isa->runs_here())
			continue;
		for (int threads = 1; threads <= 3; threads += 2) {
			struct cg_queue queue = queue_of(&device, isa, threads);

			multiply_rows(&queue, a, b, 0, M, N, K, c[threads / 2]);
			multiply_rows(&queue, a, b, 0, 37, N, K, c[2]);
			multiply_rows(&queue, a, b, 37, M - 37, N, K, c[2]);
			close_queue(&queue);
		}
		memset(c[3], 0, sizeof c[3]);
		isa->product_f32->multiply(0, 0, M, N, K, a, K, b, N, c[3], N);
		for (int other = 1; other < 4; other++)
			assert_memory_equal(c[0], c[other], sizeof c[0]);
	}
}

/* ---- tiles ---- */

/* element_of returns the dtype of the operands of a dtype's tiles; sum_of returns the dtype of the sums that the products are added to. */
static int element_of(const struct cg_isa *isa, int dtype)
{
	return isa->tiles[dtype]->bytes == cg_dtype_bytes(dtype) ? dtype : CG_F32;
}

static int sum_of(int dtype)
{
	return dtype == CG_F64 ? CG_F64 : CG_F32;
}

/* Returns matrix a in the dtype `element`, with zeros behind each row up to a multiple of tiles->steps elements, since tiles read these. */
static void *operand_of(const struct cg_tiles *tiles, int element, const struct problem *p, int64_t *lda)
{
	double *wide;
	void *a;

	*lda = (p->k + tiles->steps - 1) / tiles->steps * tiles->steps;
	wide = calloc((size_t)(p->m * *lda), sizeof *wide);
	assert_non_null(wide);
	for (int64_t i = 0; i < p->m; i++)
		memcpy(wide + i * *lda, p->a + i * p->lda, (size_t)p->k * sizeof *wide);
	a = as(element, wide, p->m * *lda);
	free(wide);
	return a;
}

/* Multiplies m rows by a tile of some vectors, which are adjacent or have 5 columns between them, all rows at once and each row alone: the
   bits must be equal, and the sums right to 1e-4.  `width`: the columns of the tile or, if the vectors are not adjacent, of each vector;
   `form`: 1 if b is transposed. */
static void multiply_tile(const struct cg_isa *isa, int dtype, int64_t m, int64_t k, int vectors, int is_beside, int64_t width, int form)
{
	const struct cg_tiles *tiles = isa->tiles[dtype];
	const int64_t lanes = tiles->lanes, apart = is_beside ? lanes : lanes + 5, step = is_beside ? lanes : 0, n = vectors * apart;
	const int element = element_of(isa, dtype), sum = sum_of(dtype);
	const size_t row = (size_t)(n + GAP) * cg_dtype_bytes(sum);
	struct cg_tile tile = { .vectors = vectors, .stored = vectors, .apart = apart, .width = width, .step = step };
	struct problem p;
	void *a, *b, *c, *alone;
	int64_t lda;

	pose(&p, m, n, k, 0, form);
	for (int64_t x = 0; x < m * p.lda; x++)
		p.a[x] /= 3;                     /* thirds, so that sums depend on the order of their terms */
	a = operand_of(tiles, element, &p, &lda);
	b = as(element, p.b, (p.tb ? n : k) * p.ldb);
	c = as(sum, p.c, m * (n + GAP));
	alone = as(sum, p.c, m * (n + GAP));
	assert_int_equal(posix_memalign(&tile.data, 64, (size_t)(lda * vectors * lanes) * tiles->bytes), 0);
	/* Bytes of 0xff are NaN in every dtype: an element that pack() does not write must not be multiplied, not even by zero. */
	memset(tile.data, 0xff, (size_t)(lda * vectors * lanes) * tiles->bytes);
	tiles->pack(&tile, form, k, b, p.ldb);
	if (tiles->enter)
		tiles->enter(m);
	tiles->multiply(&tile, m, k, a, lda, c, n + GAP);
	if (tiles->leave)
		tiles->leave();
	for (int64_t i = 0; i < m; i++) {
		if (tiles->enter)
			tiles->enter(1);
		tiles->multiply(&tile, 1, k, (char *)a + (size_t)(i * lda) * tiles->bytes, lda, (char *)alone + (size_t)i * row, n + GAP);
		if (tiles->leave)
			tiles->leave();
	}
	assert_memory_equal(c, alone, (size_t)m * row);
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n + GAP; j++) {
			const int64_t v = j / apart, wide = width - v * step < lanes ? width - v * step : lanes;
			const int is_ours = v < vectors && j % apart < wide;
			double got = numbers_decode(sum, (unsigned char *)c + (size_t)i * row + (size_t)j * cg_dtype_bytes(sum));
			double right = p.c[i * (n + GAP) + j];

			for (int64_t q = 0; q < k && is_ours; q++)
				right += numbers_decode(element, (unsigned char *)a + (size_t)(i * lda + q) * tiles->bytes) *
				         p.b[form ? j * p.ldb + q : q * p.ldb + j];
			if (is_ours ? !(fabs(got - right) <= 1e-4) : got != right)
				fail_msg("%s, dtype %d, form %d: c [%d %d] of [%d %d], k %d: %g, not %g", isa->name, dtype, form, (int)i, (int)j, (int)m, (int)n,
				         (int)k, got, right);
		}
	forget(&p);
	free(a);
	free(b);
	free(c);
	free(alone);
	free(tile.data);
}

/* Tests tiles of 1 to 4 vectors, with 1 to 70 rows and k from 1 to 80. In one of five tiles a column is missing: the last of the tile or,
   if the vectors are not adjacent, the last of each vector. */
static void test_tiles(void **state)
{
	static const int64_t rows[] = { 1, 6, 7, 16, 17, 32, 33, 70 }, steps[] = { 1, 31, 32, 33, 80 };

	(void)state;
	for (const struct cg_isa *isa = cg_isas; isa->name; isa++)
		for (int k = 0, lanes; k < 8 * 5 * 4 * CG_DTYPE_COUNT && isa->runs_here(); k++) {
			const int dtype = k % CG_DTYPE_COUNT, vectors = k / CG_DTYPE_COUNT % 4 + 1, is_beside = k % 3 == 0;

			lanes = isa->tiles[dtype]->lanes;
			multiply_tile(isa, dtype, rows[k / 16 % 8], steps[k / 128 % 5], vectors, is_beside,
			              (is_beside ? vectors * lanes : lanes) - (k % 5 == 0), k % 2);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_big),
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_tiles),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
