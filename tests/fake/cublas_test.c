/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-ins for libcublas and libcublasLt: the products are right, and wrong calls are reported. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fake/stand_in.h"

static int (*create)(void **), (*destroy)(void *), (*set_stream)(void *, void *), (*set_workspace)(void *, void *, size_t);
static int (*set_mode)(void *, unsigned);
static int (*gemm)(void *, unsigned, unsigned, int, int, int, const void *, const void *, unsigned, int, const void *, unsigned,
                   int, const void *, void *, unsigned, int, unsigned, int);
static void *handle;
static uint64_t workspace;

enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14, SUMS_32F = 68, SUMS_64F = 70, TF32 = 3, WORKSPACE = 8192 };

static void begin_blas(void)
{
	const char *version = getenv("CELLGRAD_FAKE_CUDA");
	void *library;

	begin();
	library = load_library(!version || !strncmp(version, "13", 2) ? "libcublas.so.13"
	                       : !strncmp(version, "12", 2)           ? "libcublas.so.12"
	                                                              : "libcublas.so.11");
	find(library, "cublas", "Create_v2", &create);
	find(library, "cublas", "Destroy_v2", &destroy);
	find(library, "cublas", "SetStream_v2", &set_stream);
	find(library, "cublas", "SetWorkspace_v2", &set_workspace);
	find(library, "cublas", "SetMathMode", &set_mode);
	find(library, "cublas", "GemmEx", &gemm);
	CHECK(create(&handle));
	CHECK(set_stream(handle, stream));
	CHECK(cu.MemAlloc_v2(&workspace, WORKSPACE));
	CHECK(set_workspace(handle, (void *)(uintptr_t)workspace, WORKSPACE));
}

static void end_blas(void)
{
	CHECK(cu.StreamSynchronize(stream));
	CHECK(cu.MemFree_v2(workspace));
	CHECK(destroy(handle));
	end();
}

/* The columns of a [2, 3], b [3, 2] and c [2, 2] are 4 elements apart; c is unwritten. */
enum { M = 2, NN = 2, K = 3, LD = 4, FLOATS = 16 };
struct three { uint64_t a, b, c; };
static float a_host[FLOATS], b_host[FLOATS], c_host[FLOATS];

static uint64_t device_copy(const void *from, size_t bytes)
{
	uint64_t at;

	CHECK(cu.MemAlloc_v2(&at, bytes));
	CHECK(cu.MemcpyHtoDAsync_v2(at, from, bytes, stream));
	CHECK(cu.StreamSynchronize(stream));
	return at;
}

static struct three make_three(void)
{
	struct three t;

	for (int k = 0; k < FLOATS; k++) {
		a_host[k] = (float)(k + 1);
		b_host[k] = (float)(2 * k - 5);
	}
	t.a = device_copy(a_host, sizeof a_host);
	t.b = device_copy(b_host, sizeof b_host);
	CHECK(cu.MemAlloc_v2(&t.c, sizeof c_host));
	return t;
}

static void free_three(struct three t)
{
	CHECK(cu.StreamSynchronize(stream));
	CHECK(cu.MemFree_v2(t.a));
	CHECK(cu.MemFree_v2(t.b));
	CHECK(cu.MemFree_v2(t.c));
}

static int multiply(struct three t, unsigned op_a, unsigned op_b, float beta)
{
	const float one = 1;

	return gemm(handle, op_a, op_b, M, NN, K, &one, (void *)(uintptr_t)t.a, R_32F, LD, (void *)(uintptr_t)t.b, R_32F, LD, &beta,
	            (void *)(uintptr_t)t.c, R_32F, LD, SUMS_32F, -1);
}

/* ---- what is right ---- */

static void products(void)
{
	struct three t;

	begin_blas();
	t = make_three();
	for (int turn = 0; turn < 4; turn++) {
		CHECK(multiply(t, turn & 1, turn >> 1, 0));
		CHECK(multiply(t, turn & 1, turn >> 1, 1));
		CHECK(cu.MemcpyDtoHAsync_v2(c_host, t.c, sizeof c_host, stream));
		CHECK(cu.StreamSynchronize(stream));
		for (int j = 0; j < NN; j++)
			for (int i = 0; i < M; i++) {
				float sum = 0;

				for (int l = 0; l < K; l++)
					sum += a_host[turn & 1 ? i * LD + l : l * LD + i] * b_host[turn >> 1 ? l * LD + j : j * LD + l];
				EXPECT(c_host[j * LD + i] == 2 * sum);
			}
		EXPECT(isnan(c_host[M]));
	}
	free_three(t);
	end_blas();
}

/* Products of f16 into f32 and f16, and of bf16 into bf16, are rounded to the type of the result. */
static void narrow_types(void)
{
	static const uint16_t halves[] = { 0x3c00, 0x1000, 0x0001, 0xc200 }, brains[] = { 0x3f80, 0x3b80, 0x3f80, 0x4040 };
	const float one = 1, none = 0;
	uint64_t a, b, c;
	uint16_t out[2];
	float wide;

	begin_blas();
	a = device_copy(halves, sizeof halves);
	b = device_copy(brains, sizeof brains);
	CHECK(cu.MemAlloc_v2(&c, 4));
	/* f32 holds 1 + 2^-22, f16 does not. */
	CHECK(gemm(handle, 1, 0, 1, 1, 2, &one, (void *)(uintptr_t)a, R_16F, 2, (void *)(uintptr_t)a, R_16F, 2, &none,
	           (void *)(uintptr_t)c, R_32F, 1, SUMS_32F, -1));
	CHECK(cu.MemcpyDtoHAsync_v2(&wide, c, 4, stream));
	CHECK(cu.StreamSynchronize(stream));
	EXPECT(wide == 1 + 0x1p-22f);
	CHECK(gemm(handle, 1, 0, 1, 1, 2, &one, (void *)(uintptr_t)(a + 4), R_16F, 2, (void *)(uintptr_t)(a + 4), R_16F, 2, &none,
	           (void *)(uintptr_t)c, R_16F, 1, SUMS_32F, -1));
	CHECK(cu.MemcpyDtoHAsync_v2(out, c, 2, stream));
	CHECK(cu.StreamSynchronize(stream));
	EXPECT(out[0] == 0x4880);
	CHECK(gemm(handle, 1, 0, 1, 1, 2, &one, (void *)(uintptr_t)b, R_16BF, 2, (void *)(uintptr_t)(b + 4), R_16BF, 2, &none,
	           (void *)(uintptr_t)c, R_16BF, 1, SUMS_32F, -1));
	CHECK(cu.MemcpyDtoHAsync_v2(out, c, 2, stream));
	CHECK(cu.StreamSynchronize(stream));
	/* 1 + 3 / 256, to 8 bits: a tie goes to even. */
	EXPECT(out[0] == 0x3f82);
	CHECK(cu.MemFree_v2(a));
	CHECK(cu.MemFree_v2(b));
	CHECK(cu.MemFree_v2(c));
	end_blas();
}

static void tf32_when_asked(void)
{
	struct three t;

	begin_blas();
	t = make_three();
	a_host[0] = 1 + 0x1p-12f;
	CHECK(cu.MemcpyHtoDAsync_v2(t.a, a_host, 4, stream));
	for (int asked = 0; asked < 2; asked++) {
		CHECK(set_mode(handle, asked ? TF32 : 0));
		CHECK(multiply(t, 0, 0, 0));
		CHECK(cu.MemcpyDtoHAsync_v2(c_host, t.c, 4, stream));
		CHECK(cu.StreamSynchronize(stream));
		EXPECT(c_host[0] == (asked ? -29 : (float)(-5 * (1 + 0x1p-12) - 15 - 9)));
	}
	free_three(t);
	end_blas();
}

/* 1 + 2^-25 - 1 is 2^-25 if the stand-in adds in double in the usual order; it is 0 if the stand-in adds in f32 in another order, as it
   does if a is aligned to 4 bytes only. */
static void orders(void)
{
	static const float terms[] = { 1, 0x1p-25f, -1, 0 };
	static const uint64_t offsets[] = { 0, 16, 4 };
	struct three t;

	begin_blas();
	t = make_three();
	CHECK(cu.MemFree_v2(t.a));
	CHECK(cu.MemAlloc_v2(&t.a, sizeof a_host + 16));
	for (int l = 0; l < FLOATS; l++)
		b_host[l] = 1;
	CHECK(cu.MemcpyHtoDAsync_v2(t.b, b_host, sizeof b_host, stream));
	for (int k = 0; k < 3; k++) {
		struct three other = t;

		other.a += offsets[k];
		for (int l = 0; l < FLOATS; l++)
			a_host[l] = terms[l / LD];
		CHECK(cu.MemcpyHtoDAsync_v2(other.a, a_host, sizeof a_host, stream));
		CHECK(multiply(other, 0, 0, 0));
		CHECK(cu.MemcpyDtoHAsync_v2(c_host, t.c, 4, stream));
		CHECK(cu.StreamSynchronize(stream));
		EXPECT(c_host[0] == (k < 2 ? 0x1p-25f : 0));
	}
	free_three(t);
	end_blas();
}

static void test_products(void **state)
{
	static const struct trial trials[] = {
		{ "products", products, NULL, 0 }, { "narrow types", narrow_types, NULL, 0 }, { "TF32 when asked for", tf32_when_asked, NULL, 0 },
		{ "orders of adding", orders, NULL, 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- what is wrong ---- */

static void reads_unwritten(void)
{
	begin_blas();
	CHECK(multiply(make_three(), 0, 0, 1));
	EXPECT(cu.StreamSynchronize(stream) == 700);
	exit(0);
}

static void short_matrix(void)
{
	struct three t;

	begin_blas();
	t = make_three();
	t.a += 4 * (FLOATS - 10 + 1);
	EXPECT(multiply(t, 0, 0, 0) == 7);
	exit(0);
}

static void short_columns(void)
{
	const float one = 1;
	struct three t;

	begin_blas();
	t = make_three();
	EXPECT(gemm(handle, 0, 0, M, NN, K, &one, (void *)(uintptr_t)t.a, R_32F, 1, (void *)(uintptr_t)t.b, R_32F, LD, &one,
	            (void *)(uintptr_t)t.c, R_32F, LD, SUMS_32F, -1) == 7);
	exit(0);
}

static void mixed_types(void)
{
	const float one = 1;
	struct three t;

	begin_blas();
	t = make_three();
	EXPECT(gemm(handle, 0, 0, M, NN, K, &one, (void *)(uintptr_t)t.a, R_32F, LD, (void *)(uintptr_t)t.b, R_16F, LD, &one,
	            (void *)(uintptr_t)t.c, R_32F, LD, SUMS_32F, -1) == 15);
	exit(0);
}

static void workspace_forgotten(void)
{
	struct three t;

	begin_blas();
	t = make_three();
	CHECK(set_stream(handle, stream));
	CHECK(multiply(t, 0, 0, 0));
	free_three(t);
	end_blas();
}

static void workspace_freed(void)
{
	struct three t;

	begin_blas();
	t = make_three();
	CHECK(cu.MemFree_v2(workspace));
	EXPECT(multiply(t, 0, 0, 0) == 7);
	exit(0);
}

static void workspace_misplaced(void)
{
	begin_blas();
	EXPECT(set_workspace(handle, (void *)(uintptr_t)(workspace + 128), 1024) == 7);
	end_blas();
}

static void handle_left(void)
{
	begin_blas();
	CHECK(cu.MemFree_v2(workspace));
	end();
}

static void handle_gone(void)
{
	struct three t;

	begin_blas();
	t = make_three();
	CHECK(destroy(handle));
	EXPECT(multiply(t, 0, 0, 0) == 1);
	exit(0);
}

static void test_mistakes(void **state)
{
	static const struct trial trials[] = {
		{ "c that nobody wrote", reads_unwritten, "cublasGemmEx: reads what nobody wrote: byte 0 of 64 bytes", 0 },
		{ "a matrix too short", short_matrix, "cublasGemmEx: a: 40 bytes at byte 0 behind 64 bytes", 0 },
		{ "columns too near each other", short_columns, "cublasGemmEx: a: 1 elements from column to column, where a column has 2", 0 },
		{ "types that do not go together", mixed_types, "cublasGemmEx: types 0 2 0 with sums of 68: there is no such product", 0 },
		{ "no workspace", workspace_forgotten, "cublasGemmEx: no workspace since cublasSetStream", 0 },
		{ "a workspace that is gone", workspace_freed, "cublasGemmEx: the workspace: 8192 bytes at byte 0 of freed 8192 bytes", 0 },
		{ "a misaligned workspace", workspace_misplaced, "cublasSetWorkspace: expected a multiple of 256", 0 },
		{ "a handle left", handle_left, "at exit: a handle of cuBLAS was not destroyed, 1 of them", 0 },
		{ "a handle that is gone", handle_gone, "cublasGemmEx: got a handle of cuBLAS that was destroyed", 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- cublasLt ---- */

struct algorithm { uint64_t data[8]; };
struct choice { struct algorithm algorithm; size_t workspace; unsigned status; float waves; int reserved[4]; };
static int (*lt_create)(void **), (*lt_destroy)(void *), (*make_desc)(void **, unsigned, unsigned);
static int (*set_desc)(void *, unsigned, const void *, size_t), (*make_layout)(void **, unsigned, uint64_t, uint64_t, int64_t);
static int (*make_preference)(void **), (*set_preference)(void *, unsigned, const void *, size_t);
static int (*destroy_desc)(void *), (*destroy_layout)(void *), (*destroy_preference)(void *);
static int (*choose)(void *, void *, void *, void *, void *, void *, void *, int, struct choice *, int *);
static int (*lt_multiply)(void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *,
                          void *, void *, void *, const struct algorithm *, void *, size_t, void *);
static void *lt, *desc, *layouts[3];

enum { EPILOGUE = 7, BIAS_POINTER = 8, BIAS = 4, MAX_WORKSPACE = 1, ALIGNMENT_A = 5 };

static void begin_lt(unsigned type, unsigned sums)
{
	const char *version = getenv("CELLGRAD_FAKE_CUDA");
	unsigned bias = BIAS;
	void *library;

	begin_blas();
	library = load_library(!version || !strncmp(version, "13", 2) ? "libcublasLt.so.13"
	                       : !strncmp(version, "12", 2)           ? "libcublasLt.so.12"
	                                                              : "libcublasLt.so.11");
	find(library, "cublasLt", "Create", &lt_create);
	find(library, "cublasLt", "Destroy", &lt_destroy);
	find(library, "cublasLt", "MatmulDescCreate", &make_desc);
	find(library, "cublasLt", "MatmulDescDestroy", &destroy_desc);
	find(library, "cublasLt", "MatmulDescSetAttribute", &set_desc);
	find(library, "cublasLt", "MatrixLayoutCreate", &make_layout);
	find(library, "cublasLt", "MatrixLayoutDestroy", &destroy_layout);
	find(library, "cublasLt", "MatmulPreferenceCreate", &make_preference);
	find(library, "cublasLt", "MatmulPreferenceDestroy", &destroy_preference);
	find(library, "cublasLt", "MatmulPreferenceSetAttribute", &set_preference);
	find(library, "cublasLt", "MatmulAlgoGetHeuristic", &choose);
	find(library, "cublasLt", "Matmul", &lt_multiply);
	CHECK(lt_create(&lt));
	CHECK(make_desc(&desc, sums, type));
	CHECK(set_desc(desc, EPILOGUE, &bias, sizeof bias));
	CHECK(make_layout(&layouts[0], type, M, K, LD));
	CHECK(make_layout(&layouts[1], type, K, NN, LD));
	CHECK(make_layout(&layouts[2], type, M, NN, LD));
}

static void end_lt(void)
{
	for (int k = 0; k < 3; k++)
		CHECK(destroy_layout(layouts[k]));
	CHECK(destroy_desc(desc));
	CHECK(lt_destroy(lt));
	end_blas();
}

/* Requests an algorithm for operands at multiples of `alignment` bytes; returns whether the stand-in for cublasLt has one, which is
   random. */
static int chosen(unsigned alignment, struct choice *choice)
{
	uint64_t most = WORKSPACE;
	void *preference;
	int n = 0, code;

	CHECK(make_preference(&preference));
	CHECK(set_preference(preference, MAX_WORKSPACE, &most, sizeof most));
	for (unsigned k = 0; k < 4; k++)
		CHECK(set_preference(preference, ALIGNMENT_A + k, &alignment, sizeof alignment));
	code = choose(lt, desc, layouts[0], layouts[1], layouts[2], layouts[2], preference, 1, choice, &n);
	EXPECT(code == 15 || (!code && n == 1 && choice->workspace <= most));
	CHECK(destroy_preference(preference));
	return !code;
}

static int multiply_lt(struct three t, const struct choice *choice)
{
	const float one = 1, none = 0;
	void *c = (void *)(uintptr_t)t.c;

	return lt_multiply(lt, desc, &one, (void *)(uintptr_t)t.a, layouts[0], (void *)(uintptr_t)t.b, layouts[1], &none, c, layouts[2], c,
	                   layouts[2], &choice->algorithm, (void *)(uintptr_t)workspace, WORKSPACE, stream);
}

static void biased(void)
{
	static const float bias[] = { 100, 200 };
	struct choice choice;
	struct three t;
	uint64_t at;

	begin_lt(R_32F, SUMS_32F);
	t = make_three();
	at = device_copy(bias, sizeof bias);
	while (!chosen(4, &choice))
		;
	CHECK(set_desc(desc, BIAS_POINTER, &at, sizeof at));
	CHECK(multiply_lt(t, &choice));
	CHECK(cu.MemcpyDtoHAsync_v2(c_host, t.c, sizeof c_host, stream));
	free_three(t);
	CHECK(cu.MemFree_v2(at));
	for (int j = 0; j < NN; j++)
		for (int i = 0; i < M; i++) {
			float sum = bias[i];

			for (int l = 0; l < K; l++)
				sum += a_host[l * LD + i] * b_host[j * LD + l];
			EXPECT(c_host[j * LD + i] == sum);
		}
	end_lt();
}

/* After a misaligned bias the context is lost, as on a real GPU. */
static void misaligned_bias(void)
{
	static const float bias[] = { 1, 100, 200 };
	struct choice choice;
	struct three t;
	uint64_t at;

	begin_lt(R_32F, SUMS_32F);
	t = make_three();
	at = device_copy(bias, sizeof bias) + sizeof *bias;
	while (!chosen(4, &choice))
		;
	CHECK(set_desc(desc, BIAS_POINTER, &at, sizeof at));
	CHECK(multiply_lt(t, &choice));
	EXPECT(cu.StreamSynchronize(stream) == 716);
	EXPECT(cu.StreamSynchronize(stream) == 716);
	exit(0);
}

static void doubles_sometimes(void)
{
	struct choice choice;
	int n = 0;

	begin_lt(R_64F, SUMS_64F);
	for (int k = 0; k < 64; k++)
		n += chosen(8, &choice);
	EXPECT(n > 16 && n < 48);
	end_lt();
}

static void other_problem(void)
{
	struct choice choice;
	struct three t;

	begin_lt(R_32F, SUMS_32F);
	t = make_three();
	while (!chosen(4, &choice))
		;
	CHECK(destroy_layout(layouts[1]));
	CHECK(make_layout(&layouts[1], R_32F, K, NN, K));
	EXPECT(multiply_lt(t, &choice) == 7);
	exit(0);
}

static void other_alignment(void)
{
	struct choice choice;
	struct three t;

	begin_lt(R_32F, SUMS_32F);
	t = make_three();
	while (!chosen(16, &choice))
		;
	t.b += 4;
	EXPECT(multiply_lt(t, &choice) == 7);
	exit(0);
}

static void test_lt(void **state)
{
	static const struct trial trials[] = {
		{ "a bias", biased, NULL, 0 }, { "a bias in double, sometimes", doubles_sometimes, NULL, 0 },
		{ "a misaligned bias", misaligned_bias, "cublasLtMatmul: the bias of the epilogue is no multiple of 16", 0 },
		{ "another problem's algorithm", other_problem, "cublasLtMatmul: the algorithm was not chosen for this problem", 0 },
		{ "less aligned than was said", other_alignment, "cublasLtMatmul: b is no multiple of 16, as was said", 0 },
	};

	(void)state;
	RUN(trials);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_products), cmocka_unit_test(test_mistakes), cmocka_unit_test(test_lt)
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("products on the stand-ins", tests, NULL, NULL);
}
