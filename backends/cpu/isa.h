/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction sets that this build has code for, as rows: what is compiled once for each, and whether this processor can run
 * it.  configure.m4 chooses the rows.
 */
#ifndef CG_ISA_H
#define CG_ISA_H

#include "backends/cpu/compiled.h"
#include "gen/tile.h"

/*
 * Our own product.  A panel [k columns] is as many columns of b, the rest of the last one zeros, with the rows of it beside each
 * other; panels of a b [k n] are `stride` elements apart.  multiply: c [m n] += op(a) [m k] op(b) [k n], row-major;
 * multiply_packed: the same with panels; pack: one panel, of `width` columns of op(b).
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
 * Products by tiles of units.  Operands are in acc, elements of so many bytes; or, of bf16 where an instruction multiplies it, as they are,
 * two steps of k beside each other.  `steps` are multiplied at once.
 * pack: fills a tile from op(b) [k ...], which begins at the tile's first column, as the c of multiply does.  multiply: c [m ...] +=
 * a [m k] tile, c in acc; rows of a have zeros up to a multiple of steps.  Products of as many rows are between enter(m) and leave(), which
 * are NULL where registers need not be set.
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
 * Big products.  A panel is so many rows of op(a), or columns of op(b), for k steps, as multiply reads them: the rest of the last one and
 * steps up to a multiple of `steps` are zeros; operands, `steps` and `bytes` as of tiles.  pack_a, pack_b: one panel, of `width` rows or
 * columns; by_rows: a row of memory has the steps of one of them.  multiply: c [m n] = start + op(a) op(b), start NULL for zeros; panels of b are b_apart elements apart,
 * those of a follow each other; c and start are in acc.
 */
typedef void cg_pack_panel(int by_rows, int64_t k, int64_t width, const void *from, int64_t ld, void *panel);
struct cg_panels {
	int rows, columns, steps;
	int depth, height;                               /* steps of k and rows of a block of a, which a cache of one core holds */
	size_t bytes;
	cg_pack_panel *pack_a, *pack_b;
	void (*multiply)(int64_t m, int64_t n, int64_t k, const void *a_panels, const void *b_panels, int64_t b_apart, const void *start,
	                 int64_t start_stride, void *c, int64_t ldc);
};

/* Elements of real to acc, and back. */
typedef void cg_widen(int64_t n, const void *from, void *to);
typedef void cg_narrow(int64_t n, const void *from, void *to);

struct cg_isa {
	const char *name;
	int (*runs_here)(void);
	int (*is_best_here)(void);                       /* is it taken where nobody asks for it?  NULL: where it runs */
	const struct cg_compiled *const *kernels;        /* tables, ended by NULL */
	cg_strip *strip[CG_DTYPE_COUNT];
	cg_widen *widen[CG_DTYPE_COUNT];
	cg_narrow *narrow[CG_DTYPE_COUNT];
	cg_rows_compiled *const *rows[CG_DTYPE_COUNT];   /* tables by cg_rows_index() */
	const struct cg_product_f32 *product_f32;
	const struct cg_product_f64 *product_f64;
	const struct cg_tiles *tiles[CG_DTYPE_COUNT];
	const struct cg_panels *panels[CG_DTYPE_COUNT];
	int few;                                         /* rows up to which product_* is the fastest, a not transposed */
	int takes_blas;                                  /* a BLAS has faster big products than the panels */
};

/* Best first; ends with a row whose name is NULL.  The last is the compiler's baseline, which runs anywhere. */
extern const struct cg_isa cg_isas[];

#endif
