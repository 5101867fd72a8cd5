/*
 * The rows of isa.h.  A row is compiled in when configure says so; the best that runs here comes first.
 */
#include "backends/cpu/isa.h"

#include "cells.h"                               /* CG_CELLS, made by cellgen */

#ifdef CG_ISA_AVX512
static int has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}
#endif

#ifdef CG_ISA_AVX2
static int has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

static int always(void)
{
	return 1;
}

#define KERNELS(isa, cell) \
	extern const struct cg_compiled cg_compiled_##cell##_f32_##isa[], cg_compiled_##cell##_f64_##isa[], \
		cg_compiled_##cell##_f16_##isa[], cg_compiled_##cell##_bf16_##isa[];
#define TABLES(isa, cell) \
	cg_compiled_##cell##_f32_##isa, cg_compiled_##cell##_f64_##isa, cg_compiled_##cell##_f16_##isa, \
	cg_compiled_##cell##_bf16_##isa,
#define DECLARE(isa) \
	extern cg_strip cg_strip_f32_##isa, cg_strip_f64_##isa, cg_strip_f16_##isa, cg_strip_bf16_##isa; \
	extern cg_widen cg_widen_f16_##isa, cg_widen_bf16_##isa; \
	extern cg_narrow cg_narrow_f16_##isa, cg_narrow_bf16_##isa; \
	extern cg_rows_compiled *const cg_rows_f32_##isa[], *const cg_rows_f64_##isa[], *const cg_rows_f16_##isa[], \
		*const cg_rows_bf16_##isa[]; \
	extern const struct cg_product_f32 cg_product_f32_##isa; \
	extern const struct cg_product_f64 cg_product_f64_##isa;
#define ROW(isa, test, rows) NAMED_ROW(#isa, isa, test, rows)
#define NAMED_ROW(its_name, isa, test, few_rows) \
	{ .name = its_name, .runs_here = test, .kernels = kernels_##isa, \
	  .strip = { cg_strip_f32_##isa, cg_strip_f64_##isa, cg_strip_f16_##isa, cg_strip_bf16_##isa }, \
	  .widen = { NULL, NULL, cg_widen_f16_##isa, cg_widen_bf16_##isa }, \
	  .narrow = { NULL, NULL, cg_narrow_f16_##isa, cg_narrow_bf16_##isa }, \
	  .rows = { cg_rows_f32_##isa, cg_rows_f64_##isa, cg_rows_f16_##isa, cg_rows_bf16_##isa }, \
	  .product_f32 = &cg_product_f32_##isa, .product_f64 = &cg_product_f64_##isa, .few = few_rows },

#define DECLARE_CELL(cell) KERNELS(baseline, cell)
#define CELL(cell) TABLES(baseline, cell)
DECLARE(baseline)
CG_CELLS(DECLARE_CELL)
static const struct cg_compiled *const kernels_baseline[] = { CG_CELLS(CELL) NULL };
#undef DECLARE_CELL
#undef CELL

#ifdef CG_ISA_AVX2
#define DECLARE_CELL(cell) KERNELS(avx2, cell)
#define CELL(cell) TABLES(avx2, cell)
DECLARE(avx2)
CG_CELLS(DECLARE_CELL)
static const struct cg_compiled *const kernels_avx2[] = { CG_CELLS(CELL) NULL };
#undef DECLARE_CELL
#undef CELL
#endif

#ifdef CG_ISA_AVX512
#define DECLARE_CELL(cell) KERNELS(avx512, cell)
#define CELL(cell) TABLES(avx512, cell)
DECLARE(avx512)
CG_CELLS(DECLARE_CELL)
static const struct cg_compiled *const kernels_avx512[] = { CG_CELLS(CELL) NULL };
#undef DECLARE_CELL
#undef CELL
#endif

const struct cg_isa cg_isas[] = {
#ifdef CG_ISA_AVX512
	ROW(avx512, has_avx512, 64)
#endif
#ifdef CG_ISA_AVX2
	ROW(avx2, has_avx2, 16)
#endif
#ifdef CG_ISA_NEON
	NAMED_ROW("neon", baseline, always, 0)
#endif
	ROW(baseline, always, 0)
	{ .name = NULL }
};
