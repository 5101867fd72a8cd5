/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products and row copies on any backend by generated kernels.  Each generated kernel is a plan of one function, which the backend
 * builds and launches like the kernels of a cell.  A context builds each kernel once and keeps it.
 */
#include <pthread.h>
#include <string.h>

#include "runtime/device/device.h"

struct cg_generated {
	struct cg_generated *next;
	struct cg_pass_plan *plan;
	struct cg_module *built;
};

/* The shape of a generated kernel: one of the two fields is set. */
struct text { const struct cg_gemm_shape *gemm; const struct cg_rows_shape *rows; };

void cg_generated_free(struct cg_context *context)
{
	while (context->generated) {
		struct cg_generated *g = context->generated;

		context->generated = g->next;
		context->backend->release(context->device, g->built);
		cg_plan_free(g->plan);
		cg_memory(g, 0);
	}
}

static int is_of(const struct cg_pass_plan *plan, const struct text *t)
{
	return t->gemm ? plan->functions->shape == CG_FUNCTION_PRODUCT && !memcmp(&plan->gemm, t->gemm, sizeof *t->gemm)
	               : plan->functions->shape == CG_FUNCTION_ROWS && !memcmp(&plan->rows, t->rows, sizeof *t->rows);
}

/* Finds a generated kernel of the context; NULL: it has not been built yet.  The search needs no lock: until the
 * context closes, kernels are only added, at the front of the context's list. */
static const struct cg_generated *find(const struct cg_context *context, const struct text *t)
{
	const struct cg_generated *g = __atomic_load_n(&context->generated, __ATOMIC_ACQUIRE);

	while (g && !is_of(g->plan, t))
		g = g->next;
	return g;
}

static int make(struct cg_context *context, const struct text *t, const struct cg_generated **result)
{
	struct cg_generated *made = cg_memory(NULL, sizeof *made);
	int code;

	if (!made)
		return CG_NO_MEMORY;
	*made = (struct cg_generated){ .next = context->generated };
	made->plan = t->gemm ? cg_gemm_plan(t->gemm, cg_memory) : cg_rows_plan(t->rows, cg_memory);
	code = made->plan ? context->backend->build(context->device, made->plan, &made->built) : CG_NO_MEMORY;
	if (code) {
		cg_plan_free(made->plan);
		cg_memory(made, 0);
		return code;
	}
	__atomic_store_n(&context->generated, made, __ATOMIC_RELEASE);
	*result = made;
	return CG_OK;
}

static int get(struct cg_context *context, const struct text *t, const struct cg_generated **result)
{
	int code = CG_OK;

	*result = find(context, t);
	if (*result)
		return CG_OK;
	pthread_mutex_lock(context->lock);
	*result = find(context, t);
	if (!*result)
		code = make(context, t, result);
	pthread_mutex_unlock(context->lock);
	return code;
}

static int launch(struct cg_stream *stream, const struct cg_generated *g, int64_t rows, int64_t units,
                  const struct cg_operand *operands)
{
	return stream->context->backend->launch(stream->queue, g->built, 0, rows, units, operands);
}

static struct cg_operand operand(const struct cg_matrix *x)
{
	return (struct cg_operand){ .mem = x->mem, .stride = x->stride };
}

/* ---- products ---- */

/* Gets the generated kernel of a product whose tile suits the size of the result c.  If that kernel is not built yet and
 * the backend has all_tiles set, builds those of the other tiles first. */
static int get_product(struct cg_context *context, const struct cg_gemm *g, const struct cg_generated **result)
{
	const struct cg_backend *backend = context->backend;
	const struct cg_gemm_limits limits = backend->limits(context->device, g->dtype);
	const struct cg_gemm_shape shape = {
		.dtype = g->dtype, .transpose_a = g->transpose_a, .transpose_b = g->transpose_b,
		.start_acc = g->start.acc, .c_acc = g->c.acc,
	};
	struct cg_gemm_shape tiles[CG_GEMM_TILES];
	int n = cg_gemm_tiles(&shape, &limits, tiles), chosen = cg_gemm_choose(tiles, n, &limits, g->m, g->n);

	if (!n)
		return cg_fail(CG_UNSUPPORTED, "backend %s: no tile of the matrix products fits the device's %zu bytes of local memory and groups "
		               "of at most %d threads", backend->name, limits.local_bytes, limits.group);
	*result = find(context, &(struct text){ .gemm = &tiles[chosen] });
	for (int k = 0; k < n && !*result && backend->all_tiles; k++) {
		const struct cg_generated *other;

		if (k != chosen)
			CG_TRY(get(context, &(struct text){ .gemm = &tiles[k] }, &other));
	}
	return *result ? CG_OK : get(context, &(struct text){ .gemm = &tiles[chosen] }, result);
}

static int multiply(struct cg_stream *stream, const struct cg_gemm *g)
{
	const struct cg_operand operands[CG_GEMM_ARGUMENTS] = {
		[CG_GEMM_K] = { .value = (double)g->k }, [CG_GEMM_A] = operand(&g->a), [CG_GEMM_B] = operand(&g->b),
		[CG_GEMM_START] = operand(&g->start), [CG_GEMM_C] = operand(&g->c),
	};
	const struct cg_generated *product;

	CG_TRY(get_product(stream->context, g, &product));
	return launch(stream, product, g->m, g->n, operands);
}

/* Writes `start`, the matrix that a product is added to, to c: runs the product with k = 0.  A product with k = 0 does not read a and b,
 * so that the kernel for operands that are not transposed serves for transposed ones, too. */
static int spread_start(struct cg_stream *stream, const struct cg_gemm *g)
{
	struct cg_gemm start = *g;

	start.k = start.transpose_a = start.transpose_b = 0;
	return multiply(stream, &start);
}

int cg_multiply(struct cg_stream *stream, const struct cg_gemm *g)
{
	const struct cg_backend *backend = stream->context->backend;
	int left = CG_LEFT_PRODUCT;

	if (!g->m || !g->n)
		return CG_OK;
	if (backend->gemm)
		CG_TRY(backend->gemm(stream->queue, g, &left));
	if (left == CG_LEFT_START) {
		struct cg_gemm added = *g;

		added.start = g->c;
		CG_TRY(spread_start(stream, g));
		CG_TRY(backend->gemm(stream->queue, &added, &left));
	}
	return left == CG_LEFT_NOTHING ? CG_OK : multiply(stream, g);
}

/* ---- rows ---- */

static int copy_rows(struct cg_stream *stream, const struct cg_rows *r)
{
	const struct cg_drop *drop = &r->drop;
	int wide = cg_acc_bytes(r->dtype) != cg_dtype_bytes(r->dtype);
	const struct cg_rows_shape shape = { r->dtype, wide && r->src.acc, wide && r->dst.acc, drop->rate > 0 };
	const struct cg_operand operands[CG_ROWS_ARGUMENTS] = {
		[CG_ROWS_ADD] = { .value = r->add },
		[CG_ROWS_SRC] = operand(&r->src), [CG_ROWS_FROM] = { .mem = r->from },
		[CG_ROWS_DST] = operand(&r->dst), [CG_ROWS_TO] = { .mem = r->to },
		[CG_ROWS_T] = { .mem = drop->t }, [CG_ROWS_B] = { .mem = drop->b },
		[CG_ROWS_FIRST_T] = { .value = (double)drop->first_t }, [CG_ROWS_BATCH] = { .value = (double)drop->batch },
		[CG_ROWS_FIRST_UNIT] = { .value = (double)drop->first_unit },
		[CG_ROWS_KEY0] = { .value = (uint32_t)drop->key }, [CG_ROWS_KEY1] = { .value = (uint32_t)(drop->key >> 32) },
		[CG_ROWS_BELOW] = { .value = (double)cg_drop_below(drop->rate) }, [CG_ROWS_SCALE] = { .value = cg_drop_scale(drop->rate) },
	};
	const struct cg_generated *rows;

	CG_TRY(get(stream->context, &(struct text){ .rows = &shape }, &rows));
	return launch(stream, rows, r->rows, r->columns, operands);
}

int cg_copy_rows(struct cg_stream *stream, const struct cg_rows *r)
{
	const struct cg_backend *backend = stream->context->backend;

	if (!r->rows || !r->columns)
		return CG_OK;
	return backend->rows ? backend->rows(stream->queue, r) : copy_rows(stream, r);
}
