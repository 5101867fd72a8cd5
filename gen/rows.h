/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Row copies between products and kernels, in every dialect: rows are gathered, scattered or added, with or without dropout of their
 * elements.  Row copies compute dst[to[p], j] = drop(src[from[p], j]) for p < rows and j < columns, or add the result to dst.  struct
 * cg_rows of runtime/device/backend.h describes a call.
 */
#ifndef CG_ROWS_H
#define CG_ROWS_H

#include "cell.h"

/* The shapes of a dtype that have texts, and the index of a shape among them.  Where acc is the same type as real, src_acc and dst_acc do
 * not matter. */
enum { CG_ROWS_SHAPES = 8 };
int  cg_rows_shapes(int dtype, struct cg_rows_shape shapes[CG_ROWS_SHAPES]);
int  cg_rows_index(const struct cg_rows_shape *);
/* The name of the one function in the text of a shape. */
void cg_rows_key(const struct cg_rows_shape *, char key[CG_KEY_MAX]);

/* Prints the text of a shape, or of several shapes of one dtype as functions with the given linkage.  -1: no memory. */
int cg_print_rows(const struct cg_rows_shape *, int lang, struct cg_text *);
int cg_print_rows_functions(const struct cg_rows_shape *, int n, int lang, const char *linkage, struct cg_text *);

/* The arguments of the text's function, in order; those from CG_ROWS_T on exist with dropout alone.  CG_ROWS_ROWS and CG_ROWS_COLUMNS are
 * the rows and units of the function's launch. */
enum {
	CG_ROWS_ROWS, CG_ROWS_COLUMNS, CG_ROWS_ADD, CG_ROWS_SRC, CG_ROWS_FROM, CG_ROWS_DST, CG_ROWS_TO,
	CG_ROWS_T, CG_ROWS_B, CG_ROWS_FIRST_T, CG_ROWS_BATCH, CG_ROWS_FIRST_UNIT, CG_ROWS_KEY0, CG_ROWS_KEY1, CG_ROWS_BELOW, CG_ROWS_SCALE,
	CG_ROWS_ARGUMENTS
};
/* Makes a plan of one function: the text of the row copies.  NULL: no memory. */
struct cg_pass_plan *cg_rows_plan(const struct cg_rows_shape *, cg_resize *);

/* Sizes the launch of row copies.  global: the work-items in each direction, as OpenCL counts them; divided by local, the work-items of a
 * group, they are CUDA's blocks.  A group has at most `group` items, and at most `tall` of them in its second direction.  The kernel
 * loops over elements beyond the work-items.  first_unit: the argument CG_ROWS_FIRST_UNIT with dropout, else 0.  Returns 0 where nothing
 * is to be launched. */
int cg_rows_launch(int64_t rows, int64_t columns, int64_t first_unit, int group, int tall, size_t global[2], size_t local[2]);

/* ---- several row copies in one launch ---- */

/*
 * Moves of one dtype that a launch makes together, on CUDA devices, whose kernels take the list of moves by value.  A move copies
 * elements unchanged, writes zeros, or applies dropout.  The matrices of a move have no gaps between their rows, and no move reads or
 * writes memory that another move writes.
 */
enum { CG_ROWS_MOVES = 48 };             /* before CUDA 12.1 the arguments of a kernel have at most 4096 bytes */
struct cg_rows_move {                    /* the kernel's text declares a struct of the same layout, struct move */
	uint64_t src, dst;               /* addresses of elements; src 0: the move writes zeros */
	uint64_t from, to;               /* addresses of int64 [rows], row numbers; 0: row p has number p */
	int64_t  rows, columns;          /* neither is 0 */
	uint64_t drop_key;
	int32_t  drop;
	int32_t  wide;                   /* wide, across and past are set by cg_rows_moves_launch; wide: log2 of the threads across */
	uint32_t across, past;           /* across: blocks across; past: the blocks of this move and all moves before it */
};
void cg_rows_moves_key(int dtype, char key[CG_KEY_MAX]);
int  cg_print_rows_moves(int dtype, struct cg_text *);
/* The arguments of the function in the text of moves, in order. */
enum {
	CG_MOVES_LIST, CG_MOVES_T, CG_MOVES_B, CG_MOVES_FIRST_T, CG_MOVES_BATCH, CG_MOVES_BELOW, CG_MOVES_SCALE, CG_MOVES_ARGUMENTS
};
/* Makes a plan of one function: the text of moves.  The plan lists no arguments; the caller passes those from CG_MOVES_LIST to
 * CG_MOVES_SCALE.  NULL: no memory. */
struct cg_pass_plan *cg_rows_moves_plan(int dtype, cg_resize *);
/* Divides the blocks of a launch among the moves.  threads: the number of threads in a block, a power of two.  units: the number of
 * multiprocessors of the device.  Returns the number of blocks of the launch. */
uint32_t cg_rows_moves_launch(struct cg_rows_move *, int n, int threads, int units);

/* ---- dropout ---- */

/* The key from which the masks of one layer's output are drawn in one call of a network: the low 64 bits of Philox(seed << 32 |
 * (uint32_t)seed2, { low and high of call, layer, 0 }). */
uint64_t cg_drop_key(int64_t seed, int64_t seed2, uint64_t call, int64_t layer);
/* An element whose random word is below cg_drop_below() is dropped; an element that is kept is multiplied by cg_drop_scale().  rate: the
 * dropout rate, 0 to 1. */
int64_t cg_drop_below(double rate);
double  cg_drop_scale(double rate);

#endif
