/* SPDX-License-Identifier: Apache-2.0 */
/* Declares OpenBLAS, which is found at run time and kept apart from the host program's own. */
#ifndef CG_OPENBLAS_H
#define CG_OPENBLAS_H

#include <stddef.h>

/* The types of cblas_sgemm and cblas_dgemm. */
typedef void cg_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                      int ldb, float beta, float *c, int ldc);
typedef void cg_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
                      int ldb, double beta, double *c, int ldc);

struct cg_openblas {
	/* Functions of OpenBLAS, NULL if OpenBLAS is not available; `why` then has the reason, else the path and the configuration of the
	 * library.  Several threads may call these functions at the same time, and each call computes on the calling thread alone. */
	cg_sgemm *sgemm;
	cg_dgemm *dgemm;
	char why[768];
	int is_refused;                          /* 1: the environment names a library that cannot be used */
};
/* Loads OpenBLAS at the first call.  Any thread may call. */
const struct cg_openblas *cg_load_openblas(void);

#endif
