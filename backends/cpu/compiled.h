/*
 * What a generated file of kernels gives: a table of them under one name for each cell, dtype and instruction set.
 */
#ifndef CG_COMPILED_H
#define CG_COMPILED_H

#include "gen/cell.h"

struct cg_compiled {
	const char *key;
	void (*call)(int64_t rows, int64_t units, const struct cg_bound *arguments);
};

#define CG_COMPILED__(cell, dtype, isa) cg_compiled_##cell##_##dtype##_##isa
#define CG_COMPILED_(cell, dtype, isa) CG_COMPILED__(cell, dtype, isa)
#define CG_COMPILED(cell, dtype) CG_COMPILED_(cell, dtype, CG_ISA)

#endif
