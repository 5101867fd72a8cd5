/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts elements of real to acc and back, with the kernels' own conversions; compiled once for each instruction set (CG_ISA) that has
 * kernels of its own, and each dtype (CG_DTYPE).
 */
#include "backends/cpu/isa.h"

#include CG_MATH

#define PASTE_(a, b, c) a##_##b##_##c
#define PASTE(a, b, c) PASTE_(a, b, c)

cg_widen PASTE(cg_widen, CG_DTYPE, CG_ISA);
cg_narrow PASTE(cg_narrow, CG_DTYPE, CG_ISA);

void PASTE(cg_widen, CG_DTYPE, CG_ISA)(int64_t n, const void *from, void *to)
{
	const real *restrict in = from;
	acc *restrict out = to;

	for (int64_t k = 0; k < n; k++)
		out[k] = to_acc(in[k]);
}

void PASTE(cg_narrow, CG_DTYPE, CG_ISA)(int64_t n, const void *from, void *to)
{
	const acc *restrict in = from;
	real *restrict out = to;

	for (int64_t k = 0; k < n; k++)
		out[k] = to_real(in[k]);
}
