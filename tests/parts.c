/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures what an op's time is made of: the whole op, its products alone, which are the backend's BLAS where that has one, and its
 * kernels alone.  Each time the op makes the same calls of the backend; for products alone and kernels alone, functions of this program
 * replace the backend's and leave the kernels or the products out, which only a program with the library's inner names can do.
 *
 *	parts [DTYPE]...      a table of the ops without a plan at the sizes of `cellgrad bench`, on the device that CELLGRAD_BACKEND names
 *
 * PARTS_TIME: seconds for each number; default 0.25.  NET_SMALL: any value selects the first sizes alone, which are small enough for a
 * stand-in.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "command/bench/bench.h"

enum { SIZES = 4 };
static const int64_t sizes[][SIZES] = { { 32, 1, 16, 16 }, { 16, 32, 256, 512 }, { 4, 256, 512, 512 } };       /* T, B, I, U of each size */

static const struct cg_backend *whole;
static int left_over;                            /* the part of a product that gemm() did not do, and that the next launch does: an enum cg_left */

static int gemm(struct cg_queue *queue, const struct cg_gemm *product, int *left)
{
	int code = whole->gemm ? whole->gemm(queue, product, left) : CG_OK;

	left_over = *left;
	return code;
}

static int launch_product(struct cg_queue *queue, const struct cg_module *built, int function, int64_t rows, int64_t units,
                          const struct cg_operand *operands)
{
	int left = left_over;

	left_over = CG_LEFT_NOTHING;
	return left == CG_LEFT_NOTHING ? CG_OK : whole->launch(queue, built, function, rows, units, operands);
}

static int no_gemm(struct cg_queue *queue, const struct cg_gemm *product, int *left)
{
	(void)queue, (void)product;
	*left = CG_LEFT_NOTHING;
	return CG_OK;
}

static void set_sizes(const struct cg_op *row, char *op, const int64_t size[SIZES])
{
	static const char *const symbols[SIZES] = { "T", "B", "I", "U" };

	for (const struct cg_dim *d = row->dims; d->symbol; d++)
		for (int k = 0; k < SIZES; k++)
			if (!strcmp(d->symbol, symbols[k]) && !d->only)
				*(int64_t *)(op + d->at) = size[k];
}

static int measure(struct cg_context *context, const struct cg_op *row, int dtype, const int64_t size[SIZES], double time)
{
	struct cg_backend products = *context->backend, kernels = products;
	const struct cg_backend *const ways[] = { context->backend, &products, &kernels };
	int is_grad = strstr(row->name, "_grad") != NULL, code = CG_OK;
	/* In the op table a gradient op follows its forward op. */
	struct problem p = { .row = row, .forward = is_grad ? row - 1 : row, .grad = is_grad ? row : row + 1,
		.what = is_grad ? BENCH_GRAD : BENCH_FORWARD, .op = calloc(1, row->size) };
	struct result result[3];

	whole = context->backend;
	products.gemm = gemm;
	products.launch = launch_product;
	kernels.gemm = no_gemm;
	if (!p.op)
		return cg_fail(CG_NO_MEMORY, "parts: %s", row->name);
	row->init(p.op, row->size);
	*(int *)((char *)p.op + row->dtype_at) = dtype;
	set_sizes(row, p.op, size);
	for (int k = 0; k < 3 && !code; k++) {
		context->backend = ways[k];
		code = timing_measure(context, &p, time, 0, &result[k]);
	}
	context->backend = whole;
	if (!code)
		printf("| %s | %s | %lld | %lld | %lld | %lld | %.4f | %.4f | %.4f | %.0f%% |\n", row->name, cg_dtype_name(dtype),
		       (long long)problem_get_size(&p, "T"), (long long)size[1], (long long)size[2], (long long)size[3],
		       result[0].median, result[1].median, result[2].median, 100 * result[1].median / result[0].median);
	free(p.op);
	return code;
}

int main(int argc, char **argv)
{
	const char *given = getenv("PARTS_TIME");
	double time = given ? atof(given) : 0.25;
	struct cg_context *context = NULL;
	int code = cg_open(NULL, &context);

	if (!code)
		printf("| op | dtype | T | B | I | H | ms | products alone | kernels alone | products of all |\n"
		       "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
	for (int k = 1; k < (argc > 1 ? argc : 2) && !code; k++) {
		int dtype = argc > 1 ? cg_dtype_find(argv[k]) : CG_F32;

		if (dtype < 0)
			code = CG_BAD_ARGUMENT;
		else if (cg_supports(context, "lstm_block_cell", dtype))
			printf("| %s: %s |\n", argv[k], cg_message());
		else
			for (const struct cg_op *row = NULL; (row = cg_op_next(row)) && !code;)
				if (row->plan)
					printf("| %s: by a plan, not measured here |\n", row->name);
				else for (size_t s = 0; s < (getenv("NET_SMALL") ? 1 : sizeof sizes / sizeof *sizes) && !code; s++)
					code = measure(context, row, dtype, sizes[s], time);
	}
	if (code)
		fprintf(stderr, "parts: %s\n", cg_message());
	cg_close(context);
	return code != CG_OK;
}
