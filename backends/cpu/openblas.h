/* OpenBLAS, found at run time and kept apart from the host program's. */
#ifndef CG_OPENBLAS_H
#define CG_OPENBLAS_H

#include <stddef.h>

struct cg_openblas {
	/* NULL when it is not to be had; why says so, or where it was found and what it says of itself. */
	void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
	              int ldb, float beta, float *c, int ldc);
	void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
	              int ldb, double beta, double *c, int ldc);
	char why[512];
};
/* Loads it at the first call; safe from any thread. */
const struct cg_openblas *cg_openblas(void);

#endif
