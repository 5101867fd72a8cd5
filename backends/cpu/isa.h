/*
 * The instruction sets that this build has code for, as rows: what is compiled once for each, and whether this processor can run
 * it.  Which rows there are configure.m4 decides.
 */
#ifndef CG_ISA_H
#define CG_ISA_H

#include "backends/cpu/compiled.h"

/* c [m n] += op(a) [m k] op(b) [k n], row-major. */
typedef void cg_product_f32(int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                            const float *b, int64_t ldb, float *c, int64_t ldc);
typedef void cg_product_f64(int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                            const double *b, int64_t ldb, double *c, int64_t ldc);

/* Elements of a real dtype to f32, and c = start + sum back to it. */
typedef void cg_widen(int64_t n, const void *from, float *to);
typedef void cg_narrow(int64_t n, const float *from, void *to);

struct cg_isa {
	const char *name;
	int (*runs_here)(void);
	const struct cg_compiled *const *kernels;        /* tables, ended by NULL */
	cg_strip *strip[4];                              /* by dtype */
	cg_widen *widen[4];                              /* of f16 and bf16 */
	cg_narrow *narrow[4];
	cg_rows_compiled *const *rows[4];                /* by dtype, tables by cg_rows_index() */
	cg_product_f32 *product_f32;
	cg_product_f64 *product_f64;
};

/* Best first; ends with a row whose name is NULL.  The last is the compiler's baseline, which runs anywhere. */
extern const struct cg_isa cg_isas[];

#endif
