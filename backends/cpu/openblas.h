/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS, found at run time and kept apart from the host program's. */
#ifndef CG_OPENBLAS_H
#define CG_OPENBLAS_H

#include <stddef.h>

/* cblas's. */
typedef void cg_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                      int ldb, float beta, float *c, int ldc);
typedef void cg_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
                      int ldb, double beta, double *c, int ldc);

struct cg_openblas {
	/* NULL when it is not to be had; why says so, or where it was found and what it says of itself.  Several threads may call
	 * at once, and each call computes on the calling thread alone. */
	cg_sgemm *sgemm;
	cg_dgemm *dgemm;
	char why[768];
	int is_refused;                          /* it is what the environment names, and cannot be had */
};
/* Loads it at the first call; safe from any thread. */
const struct cg_openblas *cg_load_openblas(void);

#endif
