/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares the instruction sets of this build, as rows: what is compiled once for each set, and whether this processor can run
 * it.  configure.m4 chooses the rows.
 */
#ifndef CG_ISA_H
#define CG_ISA_H

#include "backends/cpu/compiled.h"
#include "gen/tile.h"

/*
 * The library's product for few rows.  A panel [k columns] has some columns of the operand b, row by row; the last panel has zeros beyond
 * the last column of b.  The panels of an operand b [k n] are `stride` elements apart.  Function multiply computes c [m n] += op(a) [m k]
 * op(b) [k n], row-major; function multiply_packed computes c [m n] += a [m k] b with panels of b; function pack makes one panel of `width`
 * columns of op(b).
 */
#define CG_PRODUCT(t, type) \
struct cg_product_##t { \
	int columns; \
	void (*multiply)(int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, const type *a, int64_t lda, \
	                 const type *b, int64_t ldb, type *c, int64_t ldc); \
	void (*pack)(int transpose_b, int64_t k, int64_t width, const type *b, int64_t ldb, type *panel); \
	void (*multiply_packed)(int64_t m, int64_t n, int64_t k, const type *a, int64_t lda, const type *panels, int64_t stride, \
	                        type *c, int64_t ldc); \
};
CG_PRODUCT(f32, float)
CG_PRODUCT(f64, double)

/*
 * Products by tiles of units.  Operands have the type acc, elements of `bytes` bytes; bf16 operands stay bf16 if an instruction multiplies
 * them, with two steps of k side by side.  One instruction multiplies `steps` steps of k.  Function pack fills a tile from op(b) [k ...],
 * which begins at the tile's first column, as c does in multiply.  multiply: c [m ...] += a [m k] tile, c in acc; rows of a have zeros up
 * to a multiple of steps.  enter(m) and leave() surround products of m rows; these two functions are NULL if no registers need to be set.
 */
struct cg_tiles {
	int lanes, steps;
	size_t bytes;
	void (*pack)(const struct cg_tile *, int transpose_b, int64_t k, const void *b, int64_t ldb);
	void (*multiply)(const struct cg_tile *, int64_t m, int64_t k, const void *a, int64_t lda, void *c, int64_t ldc);
	void (*enter)(int64_t m);
	void (*leave)(void);
};

#define CG_TILES__(dtype, isa) cg_tiles_##dtype##_##isa
#define CG_TILES_(dtype, isa) CG_TILES__(dtype, isa)
#define CG_TILES(dtype) CG_TILES_(dtype, CG_ISA)

/*
 * Big products.  A panel has `rows` rows of op(a), or `columns` columns of op(b), for k steps, in the order in which multiply reads them,
 * with zeros beyond the last row or column, and beyond k up to a multiple of `steps`.  Operands, `steps` and `bytes` are as in cg_tiles.
 * pack_a, pack_b: make one panel of `width` rows or columns; by_rows: each of these is a row of memory. multiply: c [m n] = start + op(a)
 * op(b), start NULL for zeros; panels of b are b_apart elements apart, those of a follow each other; c and start are in acc.
 */
typedef void cg_pack_panel(int by_rows, int64_t k, int64_t width, const void *from, int64_t ld, void *panel);
struct cg_panels {
	int rows, columns, steps;
	/* depth: steps of k, and height: rows, of a block of the operand a that fits in a core's cache */
	int depth, height;
	size_t bytes;
	cg_pack_panel *pack_a, *pack_b;
	void (*multiply)(int64_t m, int64_t n, int64_t k, const void *a_panels, const void *b_panels, int64_t b_apart, const void *start,
	                 int64_t start_stride, void *c, int64_t ldc);
};

/* Functions that convert n elements: cg_widen from the dtype to acc, cg_narrow from acc to the dtype. */
typedef void cg_widen(int64_t n, const void *from, void *to);
typedef void cg_narrow(int64_t n, const void *from, void *to);

struct cg_isa {
	const char *name;
	int (*runs_here)(void);
	int (*is_best_here)(void);                       /* may the set be chosen if CELLGRAD_CPU_ISA is unset?  NULL: yes */
	const struct cg_compiled *const *kernels;        /* the tables of compiled kernels, ended by NULL */
	cg_strip *strip[CG_DTYPE_COUNT];
	cg_widen *widen[CG_DTYPE_COUNT];
	cg_narrow *narrow[CG_DTYPE_COUNT];
	cg_rows_compiled *const *rows[CG_DTYPE_COUNT];   /* compiled row copies, by cg_rows_index() */
	const struct cg_product_f32 *product_f32;
	const struct cg_product_f64 *product_f64;
	const struct cg_tiles *tiles[CG_DTYPE_COUNT];
	const struct cg_panels *panels[CG_DTYPE_COUNT];
	int few;                                         /* the most rows of an operand a for which is_few() in gemm_tiles.c returns 1 */
	int takes_blas;                                  /* 1: big products are faster by a BLAS than by the panels */
};

/* The instruction sets of this build, the best first; a row whose name is NULL ends the list.  The last set is the compiler's baseline,
 * which runs on every processor that this build is for. */
extern const struct cg_isa cg_isas[];

#endif
