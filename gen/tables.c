/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the tables of element types and passes from the rows of dtypes.h and passes.h.
 */
#include "cell.h"

#define NAME(with, code, name, ...) #name,
#define ROW(with, code, name, numpy, tf, bytes, acc, digits, top, type, holds, bits) \
	{ { #name, #code, #numpy, #tf }, bytes, CG_DTYPE_##acc, digits, top, type, holds, bits },

#define PASS(with, code, name, text) #name,

const char *const cg_pass_names[CG_PASS_COUNT] = { CG_PASSES(PASS,) };
const char *const cg_real_names[CG_DTYPE_COUNT] = { CG_DTYPES(NAME,) };
const struct cg_dtype_row cg_dtypes[CG_DTYPE_COUNT] = { CG_DTYPES(ROW,) };

size_t cg_dtype_bytes(int dtype)
{
	return dtype >= 0 && dtype < CG_DTYPE_COUNT ? cg_dtypes[dtype].bytes : 0;
}

size_t cg_acc_bytes(int dtype)
{
	return cg_dtype_bytes(dtype) ? cg_dtypes[cg_dtypes[dtype].acc].bytes : 0;
}

int cg_is_plain(int dtype)
{
	return cg_dtypes[dtype].acc == dtype;
}
