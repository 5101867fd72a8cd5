/*
 * The element types: their names, sizes and other people's spellings, and single numbers in memory.  What is computed in each is
 * the kernels'.
 */
#include <math.h>
#include <string.h>

#include "runtime/core/core.h"

enum { SPELLINGS = 4 };

/* Ours, safetensors', numpy's, TensorFlow's where it is another. */
static const struct {
	size_t      bytes;
	const char *names[SPELLINGS];
} dtypes[] = {
	[CG_F32]  = { 4, { "f32",  "F32",  "float32",  "float"  } },
	[CG_F64]  = { 8, { "f64",  "F64",  "float64",  "double" } },
	[CG_F16]  = { 2, { "f16",  "F16",  "float16",  "half"   } },
	[CG_BF16] = { 2, { "bf16", "BF16", "bfloat16", NULL     } }
};

enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *cg_dtype_name(int dtype)
{
	return dtype >= 0 && dtype < DTYPES ? dtypes[dtype].names[0] : "?";
}

size_t cg_dtype_bytes(int dtype)
{
	return dtype >= 0 && dtype < DTYPES ? dtypes[dtype].bytes : 0;
}

size_t cg_acc_bytes(int dtype)
{
	return dtype == CG_F64 ? 8 : 4;
}

int cg_dtype_find(const char *name)
{
	int dtype, i;

	for (dtype = 0; name && dtype < DTYPES; dtype++)
		for (i = 0; i < SPELLINGS && dtypes[dtype].names[i]; i++)
			if (!strcmp(name, dtypes[dtype].names[i]))
				return dtype;
	cg_fail(CG_BAD_ARGUMENT, "dtype: expected f16, bf16, f32 or f64, got %.64s", name ? name : "NULL");
	return -1;
}

/* ---- numbers in memory ---- */

double cg_round(int dtype, double x)
{
	/* Bits of the fraction with the hidden one, and the exponents of the smallest and just beyond the largest number. */
	static const struct { int bits, lowest, beyond; } forms[] = {
		[CG_F32] = { 24, -149, 128 }, [CG_F64] = { 53, -1074, 1024 }, [CG_F16] = { 11, -24, 16 }, [CG_BF16] = { 8, -133, 128 }
	};
	int exponent, unit;
	double rounded;

	if (dtype == CG_F64 || !isfinite(x) || x == 0)
		return x;
	frexp(x, &exponent);
	unit = exponent - forms[dtype].bits;
	if (unit < forms[dtype].lowest)
		unit = forms[dtype].lowest;
	rounded = ldexp(nearbyint(ldexp(x, -unit)), unit);
	return fabs(rounded) >= ldexp(1, forms[dtype].beyond) ? copysign(INFINITY, x) : rounded;
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

/* Of a value that f16 has. */
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

double cg_element(int dtype, const void *at)
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
