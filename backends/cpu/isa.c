/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of instruction sets, the best first.  configure decides which rows are compiled.
 */
#include "backends/cpu/isa.h"

#include "backends/cpu/cells.h"                  /* the lists of the compiled cells, which cellgen makes: CG_CELLS, CG_FAST_SHELF */

#ifdef CG_ISA_AVX512
static int has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}
#endif

#ifdef CG_ISA_AVX512BF16
static int has_avx512bf16(void)
{
	return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

/* AMD's processors multiply two steps of bf16 in the time of one f32 step.  Intel's processors take longer for two steps of bf16 than for
 * one f32 step; some of Intel's newer processors have AMX for bf16. */
static int has_fast_avx512bf16(void)
{
	return __builtin_cpu_is("amd");
}
#endif

#ifdef CG_ISA_AMXBF16
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Looks for AMX in the processor, and asks Linux for permission to use its registers, which holds for the process from then on; asking
 * again is harmless. */
static int has_amxbf16(void)
{
	enum { FEATURES = 7, AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
	unsigned a, b, c, d;

	return has_avx512bf16() && __get_cpuid_count(FEATURES, 0, &a, &b, &c, &d) && d & AMX_BF16 && d & AMX_TILE &&
	       !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA);
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

/* Declares what cellgen and the compiler make for an instruction set, for each cell and dtype. */
#define DECLARE_CELL(cell, dtype, isa) extern const struct cg_compiled cg_compiled_##cell##_##dtype##_##isa[];
#define DECLARE_DTYPE(isa, code, dtype, ...) \
	extern cg_strip cg_strip_##dtype##_##isa; \
	extern cg_widen cg_widen_##dtype##_##isa; \
	extern cg_narrow cg_narrow_##dtype##_##isa; \
	extern cg_rows_compiled *const cg_rows_##dtype##_##isa[]; \
	CG_CELLS(DECLARE_CELL, dtype, isa)
#define CELL(cell, dtype, isa) cg_compiled_##cell##_##dtype##_##isa,
#define CELLS(isa, code, dtype, ...) CG_CELLS(CELL, dtype, isa)
#define KERNELS(isa) \
	CG_DTYPES(DECLARE_DTYPE, isa) \
	CG_FAST_SHELF(DECLARE_CELL, f32, isa) \
	extern const struct cg_product_f32 cg_product_f32_##isa; \
	extern const struct cg_product_f64 cg_product_f64_##isa; \
	extern const struct cg_tiles cg_tiles_f32_##isa, cg_tiles_f64_##isa; \
	extern const struct cg_panels cg_panels_f32_##isa, cg_panels_f64_##isa; \
	static const struct cg_compiled *const kernels_##isa[] = { CG_DTYPES(CELLS, isa) CG_FAST_SHELF(CELL, f32, isa) NULL };

KERNELS(baseline)
#ifdef CG_ISA_AVX2
KERNELS(avx2)
#endif
#ifdef CG_ISA_AVX512
KERNELS(avx512)
#endif
#ifdef CG_ISA_AVX512BF16                         /* avx512bf16 has the kernels of avx512, but products of bf16 of its own */
extern const struct cg_tiles cg_tiles_bf16_avx512bf16;
extern const struct cg_panels cg_panels_bf16_avx512bf16;
#endif
#ifdef CG_ISA_AMXBF16
extern const struct cg_tiles cg_tiles_bf16_amxbf16;
extern const struct cg_panels cg_panels_bf16_amxbf16;
#endif

#define STRIP(isa, code, dtype, ...) cg_strip_##dtype##_##isa,
#define WIDEN(isa, code, dtype, ...) cg_widen_##dtype##_##isa,
#define NARROW(isa, code, dtype, ...) cg_narrow_##dtype##_##isa,
#define ROWS(isa, code, dtype, ...) cg_rows_##dtype##_##isa,
/* The tables of product functions for each dtype: the table of the dtype's type acc, except for bf16, whose table argument `bf16` names. */
#define PRODUCTS(kind, isa, bf16) { \
	[CG_DTYPE_F32] = &cg_##kind##_f32_##isa, [CG_DTYPE_F64] = &cg_##kind##_f64_##isa, [CG_DTYPE_F16] = &cg_##kind##_f32_##isa, \
	[CG_DTYPE_BF16] = &cg_##kind##_##bf16 }
#define ROW(isa, test, few_rows, blas) NAMED_ROW(#isa, isa, f32_##isa, test, NULL, few_rows, blas)
#define NAMED_ROW(its_name, isa, bf16, test, best, few_rows, blas) \
	{ .name = its_name, .runs_here = test, .is_best_here = best, .kernels = kernels_##isa, .strip = { CG_DTYPES(STRIP, isa) }, \
	  .widen = { CG_DTYPES(WIDEN, isa) }, .narrow = { CG_DTYPES(NARROW, isa) }, .rows = { CG_DTYPES(ROWS, isa) }, \
	  .product_f32 = &cg_product_f32_##isa, .product_f64 = &cg_product_f64_##isa, .tiles = PRODUCTS(tiles, isa, bf16), \
	  .panels = PRODUCTS(panels, isa, bf16), .few = few_rows, .takes_blas = blas },

const struct cg_isa cg_isas[] = {
#ifdef CG_ISA_AMXBF16
	NAMED_ROW("amxbf16", avx512, bf16_amxbf16, has_amxbf16, NULL, 64, 0)
#endif
#ifdef CG_ISA_AVX512BF16
	NAMED_ROW("avx512bf16", avx512, bf16_avx512bf16, has_avx512bf16, has_fast_avx512bf16, 64, 0)
#endif
#ifdef CG_ISA_AVX512
	ROW(avx512, has_avx512, 64, 0)
#endif
#ifdef CG_ISA_AVX2
	ROW(avx2, has_avx2, 16, 0)
#endif
#ifdef CG_ISA_NEON
	NAMED_ROW("neon", baseline, f32_baseline, always, NULL, 0, 1)
#endif
	ROW(baseline, always, 0, 1)
	{ .name = NULL }
};
