/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The element types of gen/dtypes.h: their names, rounding to them, and single elements in memory.
 */
#include <math.h>
#include <string.h>

#include "runtime/core/core.h"

/* The enums cg_dtype and cg_pass of cellgrad.h must equal those of gen/dtypes.h and gen/passes.h. */
#define SAME_DTYPE(with, code, ...) _Static_assert((int)CG_##code == (int)CG_DTYPE_##code, "enum cg_dtype differs from dtypes.h");
#define SAME_PASS(with, code, ...) _Static_assert((int)CG_##code == (int)CG_PASS_##code, "enum cg_pass differs from passes.h");
CG_DTYPES(SAME_DTYPE,)
CG_PASSES(SAME_PASS,)

const char *cg_dtype_name(int dtype)
{
	return cg_dtype_bytes(dtype) ? cg_dtypes[dtype].names[0] : "?";
}

int cg_dtype_find(const char *name)
{
	int dtype, i;

	for (dtype = 0; name && dtype < CG_DTYPE_COUNT; dtype++)
		for (i = 0; i < CG_SPELLINGS; i++)
			if (!strcmp(name, cg_dtypes[dtype].names[i]))
				return dtype;
	cg_fail(CG_BAD_ARGUMENT, "dtype: expected " CG_DTYPES_TEXT ", got %.64s", name ? name : "NULL");
	return -1;
}

/* ---- numbers in memory ---- */

double cg_round(int dtype, double x)
{
	const struct cg_dtype_row *row = &cg_dtypes[dtype];
	int exponent, unit, lowest = 3 - row->top - row->digits;         /* the exponent of the smallest subnormal number */
	double rounded;

	if (dtype == CG_F64 || !isfinite(x) || x == 0)
		return x;
	frexp(x, &exponent);
	unit = exponent - row->digits;
	if (unit < lowest)
		unit = lowest;
	rounded = ldexp(nearbyint(ldexp(x, -unit)), unit);
	return fabs(rounded) >= ldexp(1, row->top) ? copysign(INFINITY, x) : rounded;
}

static double half(unsigned bits)
{
	int exponent = bits >> 10 & 31, fraction = bits & 1023;
	double value;

	if (exponent == 31)
		value = fraction ? NAN : INFINITY;
	else if (exponent)
		value = ldexp(1024 + fraction, exponent - 25);
	else
		value = ldexp(fraction, -24);
	return bits & 0x8000 ? -value : value;
}

/* The bits of a value that f16 can represent exactly. */
static unsigned half_bits(double value)
{
	unsigned sign = signbit(value) ? 0x8000 : 0;
	int exponent;

	if (isnan(value))
		return sign | 0x7e00;
	if (isinf(value))
		return sign | 0x7c00;
	frexp(value, &exponent);
	if (value == 0 || exponent < -13)
		return sign | (unsigned)ldexp(fabs(value), 24);
	return sign | ((unsigned)(exponent + 14) << 10) | ((unsigned)ldexp(fabs(value), 11 - exponent) & 1023);
}

double cg_element_get(int dtype, const void *at)
{
	uint16_t bits;
	uint32_t word;
	double wide;
	float single;

	switch (dtype) {
	case CG_F64:
		memcpy(&wide, at, 8);
		return wide;
	case CG_F32:
		memcpy(&single, at, 4);
		return (double)single;
	case CG_F16:
		memcpy(&bits, at, 2);
		return half(bits);
	default:
		memcpy(&bits, at, 2);
		word = (uint32_t)bits << 16;
		memcpy(&single, &word, 4);
		return (double)single;
	}
}

void cg_element_put(int dtype, void *at, double value)
{
	double rounded = cg_round(dtype, value);
	float single = dtype == CG_F64 ? 0 : (float)rounded;
	uint32_t word;
	uint16_t bits;

	memcpy(&word, &single, 4);
	bits = dtype == CG_F16 ? (uint16_t)half_bits(rounded) : (uint16_t)(word >> 16 | (isnan(value) ? 0x40 : 0));
	if (dtype == CG_F64)
		memcpy(at, &rounded, 8);
	else if (dtype == CG_F32)
		memcpy(at, &word, 4);
	else
		memcpy(at, &bits, 2);
}
