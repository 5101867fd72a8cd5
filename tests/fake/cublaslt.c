/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcublasLt: descriptions, layouts, preferences, the choice of an algorithm, and products with a bias epilogue or
   without. */
#include <stdlib.h>
#include <string.h>

#include "blas.h"

enum { TRANSA = 3, TRANSB = 4, EPILOGUE = 7, BIAS_POINTER = 8, POINTER_MODE = 2, BIAS_TYPE = 26 };
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_BIAS = 4 };
enum { MAX_WORKSPACE = 1, REDUCTION_MASK = 3, MIN_ALIGNMENT_A = 5, MIN_ALIGNMENT_D = 8 };
enum { LAYOUT_TYPE, LAYOUT_ORDER, LAYOUT_ROWS, LAYOUT_COLUMNS, LAYOUT_LD, ORDER_COLUMNS = 0 };

struct lt { struct handle handle; struct context *context; };
struct desc {
	struct handle handle;
	unsigned compute, scale, op[2], epilogue;
	uint64_t bias;
};
struct layout { struct handle handle; unsigned type; uint64_t rows, columns; int64_t ld; };
struct preference { struct handle handle; uint64_t workspace; uint32_t reduction, alignment[4]; };

/* An algorithm, with the number() of the problem for which it was chosen. */
struct algorithm { uint64_t mark, problem, workspace; uint32_t alignment[4]; uint64_t rest[3]; };
struct result { struct algorithm algorithm; size_t workspace; unsigned status; float waves; int reserved[4]; };
static const uint64_t mark = UINT64_C(0x66616b65616c676f);

FAKE_API int cublasLtCreate(struct lt **result)
{
	struct lt *lt;

	BLAS_CALL(cublasLtCreate);
	lt = fake_new(LT_HANDLE, sizeof *lt);
	lt->context = fake_current();
	*result = lt;
	return 0;
}

static int destroy(const char *call, int kind, void *handle)
{
	struct handle *h = fake_known(call, kind, handle);

	if (!h)
		return BLAS_INVALID_VALUE;
	h->dead = 1;
	return 0;
}

FAKE_API int cublasLtDestroy(struct lt *lt)
{
	BLAS_CALL(cublasLtDestroy);
	return destroy("cublasLtDestroy", LT_HANDLE, lt);
}

/* ---- descriptions, layouts, preferences ---- */

FAKE_API int cublasLtMatmulDescCreate(struct desc **result, unsigned compute, unsigned scale)
{
	BLAS_CALL(cublasLtMatmulDescCreate);
	*result = fake_new(LT_DESC, sizeof **result);
	(*result)->compute = compute;
	(*result)->scale = scale;
	(*result)->epilogue = EPILOGUE_DEFAULT;
	return 0;
}

FAKE_API int cublasLtMatmulDescDestroy(struct desc *desc)
{
	BLAS_CALL(cublasLtMatmulDescDestroy);
	return destroy("cublasLtMatmulDescDestroy", LT_DESC, desc);
}

/* Copies an attribute of `size` bytes to a description, a layout or a preference; reports a caller who gives another number of bytes. */
static int set(const char *call, void *to, size_t size, const void *from, size_t bytes)
{
	if (bytes == size) {
		memcpy(to, from, size);
		return 0;
	}
	fake_report("%s: an attribute of %zu bytes, got %zu", call, size, bytes);
	return BLAS_INVALID_VALUE;
}

FAKE_API int cublasLtMatmulDescSetAttribute(struct desc *desc, unsigned attribute, const void *from, size_t bytes)
{
	const char *call = "cublasLtMatmulDescSetAttribute";

	BLAS_CALL(cublasLtMatmulDescSetAttribute);
	if (!fake_known(call, LT_DESC, desc))
		return BLAS_INVALID_VALUE;
	switch (attribute) {
	case TRANSA:
	case TRANSB:
		return set(call, &desc->op[attribute - TRANSA], sizeof *desc->op, from, bytes);
	case EPILOGUE:
		return set(call, &desc->epilogue, sizeof desc->epilogue, from, bytes);
	case BIAS_POINTER:
		return set(call, &desc->bias, sizeof desc->bias, from, bytes);
	}
	fake_report("%s: the stand-in does not know attribute %u", call, attribute);
	return BLAS_INVALID_VALUE;
}

FAKE_API int cublasLtMatrixLayoutCreate(struct layout **result, unsigned type, uint64_t rows, uint64_t columns, int64_t ld)
{
	BLAS_CALL(cublasLtMatrixLayoutCreate);
	*result = fake_new(LT_LAYOUT, sizeof **result);
	(*result)->type = type;
	(*result)->rows = rows;
	(*result)->columns = columns;
	(*result)->ld = ld;
	return 0;
}

FAKE_API int cublasLtMatrixLayoutDestroy(struct layout *layout)
{
	BLAS_CALL(cublasLtMatrixLayoutDestroy);
	return destroy("cublasLtMatrixLayoutDestroy", LT_LAYOUT, layout);
}

FAKE_API int cublasLtMatrixLayoutSetAttribute(struct layout *layout, unsigned attribute, const void *from, size_t bytes)
{
	const char *call = "cublasLtMatrixLayoutSetAttribute";
	int order = ORDER_COLUMNS, code;

	BLAS_CALL(cublasLtMatrixLayoutSetAttribute);
	if (!fake_known(call, LT_LAYOUT, layout))
		return BLAS_INVALID_VALUE;
	switch (attribute) {
	case LAYOUT_TYPE:
		return set(call, &layout->type, sizeof layout->type, from, bytes);
	case LAYOUT_ORDER:
		code = set(call, &order, sizeof order, from, bytes);
		return code ? code : order == ORDER_COLUMNS ? 0 : BLAS_NOT_SUPPORTED;
	case LAYOUT_ROWS:
		return set(call, &layout->rows, sizeof layout->rows, from, bytes);
	case LAYOUT_COLUMNS:
		return set(call, &layout->columns, sizeof layout->columns, from, bytes);
	case LAYOUT_LD:
		return set(call, &layout->ld, sizeof layout->ld, from, bytes);
	}
	fake_report("%s: the stand-in does not know attribute %u", call, attribute);
	return BLAS_INVALID_VALUE;
}

FAKE_API int cublasLtMatmulPreferenceCreate(struct preference **result)
{
	BLAS_CALL(cublasLtMatmulPreferenceCreate);
	*result = fake_new(LT_PREFERENCE, sizeof **result);
	for (int k = 0; k < 4; k++)
		(*result)->alignment[k] = 256;
	return 0;
}

FAKE_API int cublasLtMatmulPreferenceDestroy(struct preference *preference)
{
	BLAS_CALL(cublasLtMatmulPreferenceDestroy);
	return destroy("cublasLtMatmulPreferenceDestroy", LT_PREFERENCE, preference);
}

FAKE_API int cublasLtMatmulPreferenceSetAttribute(struct preference *p, unsigned attribute, const void *from, size_t bytes)
{
	const char *call = "cublasLtMatmulPreferenceSetAttribute";

	BLAS_CALL(cublasLtMatmulPreferenceSetAttribute);
	if (!fake_known(call, LT_PREFERENCE, p))
		return BLAS_INVALID_VALUE;
	if (attribute == MAX_WORKSPACE)
		return set(call, &p->workspace, sizeof p->workspace, from, bytes);
	if (attribute == REDUCTION_MASK)
		return set(call, &p->reduction, sizeof p->reduction, from, bytes);
	if (attribute >= MIN_ALIGNMENT_A && attribute <= MIN_ALIGNMENT_D)
		return set(call, &p->alignment[attribute - MIN_ALIGNMENT_A], sizeof *p->alignment, from, bytes);
	fake_report("%s: the stand-in does not know attribute %u", call, attribute);
	return BLAS_INVALID_VALUE;
}

/* ---- products ---- */

struct lt_problem { struct desc *desc; struct layout *a, *b, *c, *d; };

static int is_known(const char *call, struct lt *lt, struct lt_problem p)
{
	if (!fake_known(call, LT_HANDLE, lt) || !fake_known(call, LT_DESC, p.desc) || !fake_known(call, LT_LAYOUT, p.a) ||
	    !fake_known(call, LT_LAYOUT, p.b) || !fake_known(call, LT_LAYOUT, p.c) || !fake_known(call, LT_LAYOUT, p.d))
		return 0;
	if (lt->context == fake_current())
		return 1;
	fake_report("%s: the handle is of another context than the current one", call);
	return 0;
}

static uint64_t mix(uint64_t sum, uint64_t word)
{
	return (sum ^ word) * UINT64_C(0x100000001b3) + (sum >> 29);
}

/* Returns a hash of the problem that an algorithm is chosen for, without addresses, alignments and workspace. */
static uint64_t number(struct lt_problem p)
{
	const struct layout *layouts[] = { p.a, p.b, p.c, p.d };
	uint64_t sum = mix(p.desc->compute, p.desc->scale);

	sum = mix(mix(mix(sum, p.desc->op[0]), p.desc->op[1]), p.desc->epilogue);
	for (int k = 0; k < 4; k++)
		sum = mix(mix(mix(mix(sum, layouts[k]->type), layouts[k]->rows), layouts[k]->columns), (uint64_t)layouts[k]->ld);
	return sum;
}

/* Checks that the sizes of a problem fit each other, and that there is a product of its types. */
static int check(struct lt_problem p)
{
	uint64_t m = p.desc->op[0] ? p.a->columns : p.a->rows, k = p.desc->op[0] ? p.a->rows : p.a->columns;
	uint64_t l = p.desc->op[1] ? p.b->columns : p.b->rows, n = p.desc->op[1] ? p.b->rows : p.b->columns;
	unsigned sums = p.desc->compute == COMPUTE_64F || p.desc->compute == COMPUTE_64F_PEDANTIC ? R_64F : R_32F;

	if (k != l || p.c->rows != m || p.d->rows != m || p.c->columns != n || p.d->columns != n)
		return BLAS_INVALID_VALUE;
	if (!m || !n || !k || p.desc->scale != sums || p.c->type != p.d->type)
		return BLAS_NOT_SUPPORTED;
	if (p.desc->epilogue != EPILOGUE_DEFAULT && p.desc->epilogue != EPILOGUE_BIAS)
		return BLAS_NOT_SUPPORTED;
	return fake_types(p.a->type, p.b->type, p.d->type, p.desc->compute);
}

/* Decides by chance whether this cublasLt offers no algorithm for a product. With a bias it offers none half of the time in f64, and one
   time in eight in other types; without a bias it always offers one. */
static int declines(struct lt_problem p)
{
	return p.desc->epilogue == EPILOGUE_BIAS && !fake_random(p.d->type == R_64F ? 2 : 8);
}

FAKE_API int cublasLtMatmulAlgoGetHeuristic(struct lt *lt, struct desc *desc, struct layout *a, struct layout *b, struct layout *c,
                                            struct layout *d, struct preference *preference, int most, struct result *results,
                                            int *n)
{
	struct lt_problem p = { desc, a, b, c, d };
	int code;

	BLAS_CALL(cublasLtMatmulAlgoGetHeuristic);
	if (!is_known("cublasLtMatmulAlgoGetHeuristic", lt, p) ||
	    !fake_known("cublasLtMatmulAlgoGetHeuristic", LT_PREFERENCE, preference) || most < 1 || !n)
		return BLAS_INVALID_VALUE;
	*n = 0;
	code = check(p);
	if (code || declines(p))
		return code ? code : BLAS_NOT_SUPPORTED;
	memset(results, 0xff, sizeof *results);
	results->algorithm = (struct algorithm){ mark, number(p), preference->workspace / 2, { 0 }, { 0 } };
	memcpy(results->algorithm.alignment, preference->alignment, sizeof preference->alignment);
	results->workspace = preference->workspace / 2;
	results->status = 0;
	results->waves = 1;
	*n = 1;
	return 0;
}

static int misfits(const struct algorithm *algorithm, struct lt_problem p, const uint64_t at[4], size_t workspace)
{
	const char *call = "cublasLtMatmul";

	if (algorithm->mark != mark || algorithm->problem != number(p)) {
		fake_report("%s: the algorithm was not chosen for this problem", call);
		return BLAS_INVALID_VALUE;
	}
	if (workspace < algorithm->workspace) {
		fake_report("%s: a workspace of %zu bytes, where the algorithm wants %llu", call, workspace,
		            (unsigned long long)algorithm->workspace);
		return BLAS_INVALID_VALUE;
	}
	for (int k = 0; k < 4; k++)
		if (algorithm->alignment[k] && at[k] % algorithm->alignment[k]) {
			fake_report("%s: %c is no multiple of %u, as was said", call, "abcd"[k], algorithm->alignment[k]);
			return BLAS_INVALID_VALUE;
		}
	return 0;
}

/* Returns the least of the alignments in bytes of a, b, c and d for which the algorithm was chosen. */
static uint64_t least(const struct algorithm *algorithm)
{
	uint64_t all = 0;

	for (int k = 0; k < 4; k++)
		all |= algorithm->alignment[k];
	return all & -all;
}

FAKE_API int cublasLtMatmul(struct lt *lt, struct desc *desc, const void *alpha, const void *a, struct layout *layout_a,
                            const void *b, struct layout *layout_b, const void *beta, const void *c, struct layout *layout_c,
                            void *d, struct layout *layout_d, const struct algorithm *algorithm, void *workspace,
                            size_t workspace_bytes, struct stream *handle)
{
	struct lt_problem p = { desc, layout_a, layout_b, layout_c, layout_d };
	const uint64_t at[] = { (uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)d };
	struct stream *stream;
	int code;

	BLAS_CALL(cublasLtMatmul);
	stream = fake_stream("cublasLtMatmul", handle);
	if (!is_known("cublasLtMatmul", lt, p) || !stream || !alpha || !beta)
		return BLAS_INVALID_VALUE;
	code = check(p);
	if (!code && algorithm)
		code = misfits(algorithm, p, at, workspace_bytes);
	if (!code && (uintptr_t)workspace % 16) {
		fake_report("cublasLtMatmul: the workspace is no multiple of 16");
		code = BLAS_INVALID_VALUE;
	}
	if (code)
		return code;
	return fake_multiply((struct product){
		.order = algorithm ? fake_order(least(algorithm)) : fake_order(16),
		.call = "cublasLtMatmul", .m = (int64_t)layout_d->rows, .n = (int64_t)layout_d->columns,
		.k = (int64_t)(desc->op[0] ? layout_a->rows : layout_a->columns),
		.lda = layout_a->ld, .ldb = layout_b->ld, .ldc = layout_c->ld, .ldd = layout_d->ld,
		.transpose_a = desc->op[0] != 0, .transpose_b = desc->op[1] != 0, .type = (int)layout_a->type,
		.type_c = (int)layout_d->type, .narrow = layout_a->type == R_32F && desc->compute == COMPUTE_32F_FAST_TF32,
		.alpha = fake_factor(alpha, desc->scale), .beta = fake_factor(beta, desc->scale),
		.a = at[0], .b = at[1], .c = at[2], .d = at[3], .bias = desc->epilogue == EPILOGUE_BIAS ? desc->bias : 0,
		.workspace = (uint64_t)(uintptr_t)workspace, .workspace_bytes = workspace_bytes,
	}, stream);
}
