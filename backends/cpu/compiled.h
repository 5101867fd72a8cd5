/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares the tables that generated files define: tables of kernels, one for each compiled cell, dtype and instruction set that has
 * kernels of its own; and tables of row copies, one for each dtype and such instruction set.
 */
#ifndef CG_COMPILED_H
#define CG_COMPILED_H

#include "gen/rows.h"

struct cg_compiled {
	const char *key;
	void (*call)(int64_t rows, int64_t units, const struct cg_bound *arguments);
};

/* The arguments of a compiled row copy, in the form of the generated text. */
struct cg_rows_bound {
	void *src, *dst;
	int64_t src_stride, dst_stride;
	const int64_t *from, *to, *t, *b;
	int64_t columns, first_t, batch, first_unit, below;
	uint64_t key;
	double scale;
	int add;
};

/* A compiled row copy, for rows p with row <= p < rows; its table is indexed by cg_rows_index() of the shape. */
typedef void cg_rows_compiled(int64_t row, int64_t rows, const struct cg_rows_bound *);

#define CG_COMPILED__(cell, dtype, isa) cg_compiled_##cell##_##dtype##_##isa
#define CG_COMPILED_(cell, dtype, isa) CG_COMPILED__(cell, dtype, isa)
#define CG_COMPILED(cell, dtype) CG_COMPILED_(cell, dtype, CG_ISA)
#define CG_COMPILED_ROWS__(dtype, isa) cg_rows_##dtype##_##isa
#define CG_COMPILED_ROWS_(dtype, isa) CG_COMPILED_ROWS__(dtype, isa)
#define CG_COMPILED_ROWS(dtype) CG_COMPILED_ROWS_(dtype, CG_ISA)

#endif
