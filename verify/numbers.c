/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws random numbers for cases, and converts between double and the dtypes.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "runtime/op/op.h"
#include "verify/numbers.h"

static void advance(unsigned long long *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
}

double numbers_uniform(unsigned long long *state)
{
	advance(state);
	return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

double numbers_draw(unsigned long long *state, double scale)
{
	double x = sqrt(-2 * log(numbers_uniform(state)));

	x *= cos(6.283185307179586 * numbers_uniform(state));
	return (x + (x < 0 ? -0.02 : 0.02)) * scale;
}

unsigned numbers_below(unsigned long long *state, unsigned n)
{
	advance(state);
	return (unsigned)((*state >> 33) % n);
}

unsigned long long numbers_subset(unsigned long long *state, int n)
{
	unsigned long long any = (unsigned long long)numbers_below(state, 1u << 31) << 31 | numbers_below(state, 1u << 31);

	switch (numbers_below(state, 5)) {
	case 0: case 1: return 0;
	case 2:  return 1ull << numbers_below(state, (unsigned)n);
	default: return any & ((1ull << n) - 1);
	}
}

void numbers_bits(unsigned long long *state, int dtype, void *to)
{
	static const double special[] = { 0.0, -0.0, 1, -1, 0.5, INFINITY, -INFINITY, NAN, 1e-40, -1e-40, 88, -88, 104, -104, 3e38, 1e-7 };
	unsigned kind = numbers_below(state, 100);
	uint64_t any = (uint64_t)numbers_below(state, 1u << 31) << 33 ^ (uint64_t)numbers_below(state, 1u << 31) << 16
	               ^ numbers_below(state, 1u << 31);
	double d = kind < 80 ? ldexp((double)(any % 2000001) - 1000000, -18)
	         : kind < 90 ? special[any % (sizeof special / sizeof *special)] : 0;
	float f = (float)d;
	uint32_t bits;
	uint16_t half;

	memcpy(&bits, &f, 4);
	bits = kind >= 90 ? (uint32_t)(any >> 16) : bits;
	switch (dtype) {
	case CG_F64: memcpy(to, kind >= 90 ? (void *)&any : (void *)&d, 8); return;
	case CG_F32: memcpy(to, &bits, 4); return;
	case CG_BF16:
		half = (uint16_t)(bits >> 16);
		break;
	default:
		/* With a kind below 80 the number has an ordinary size: either sign, and an exponent from -3 to 1. */
		half = kind < 80 ? (uint16_t)((any >> 16 & 0x8000) | (0x3000 + any % 0x1400)) : (uint16_t)(any >> 16);
	}
	memcpy(to, &half, 2);
}

void numbers_nan(unsigned long long *state, int dtype, void *to)
{
	static const struct { int exponent, fraction; } forms[] = {
		[CG_F32] = { 8, 23 }, [CG_F64] = { 11, 52 }, [CG_F16] = { 5, 10 }, [CG_BF16] = { 8, 7 }
	};
	int fraction = forms[dtype].fraction, exponent = forms[dtype].exponent;
	uint64_t payload = (uint64_t)numbers_below(state, 1u << 31) << 31 ^ numbers_below(state, 1u << 31);
	uint64_t bits = (uint64_t)numbers_below(state, 2) << exponent | ((1u << exponent) - 1);

	payload &= ((uint64_t)1 << fraction) - 1;
	bits = bits << fraction | (payload ? payload : 1);
	switch (dtype) {
	case CG_F64: memcpy(to, &bits, 8); return;
	case CG_F32: memcpy(to, &(uint32_t){ (uint32_t)bits }, 4); return;
	default:     memcpy(to, &(uint16_t){ (uint16_t)bits }, 2);
	}
}

void numbers_encode(int dtype, double d, void *to)
{
	float f = (float)d;
	uint32_t bits;
	uint16_t half;

	memcpy(&bits, &f, sizeof bits);
	switch (dtype) {
	case CG_F32: memcpy(to, &f, 4); return;
	case CG_F64: memcpy(to, &d, 8); return;
	case CG_BF16:
		half = (uint16_t)(bits >> 16);
		break;
	default:
		/* d is representable in f16. A normal number gets its f16 exponent by a subtraction; the bits of a subnormal number are how many
		 * times 2^-24 it is. */
		half = fabs(d) < 0x1p-14 ? (uint16_t)(fabs(d) * 0x1p24) : (uint16_t)(((bits & 0x7fffffff) - (112u << 23)) >> 13);
		half |= (uint16_t)(bits >> 16 & 0x8000);
		if (isnan(d) || isinf(d))
			half = (uint16_t)((bits >> 16 & 0x8000) | (isnan(d) ? 0x7e00 : 0x7c00));
	}
	memcpy(to, &half, 2);
}

double numbers_decode(int dtype, const void *from)
{
	float f;
	double d;
	uint16_t half;
	uint32_t bits;

	switch (dtype) {
	case CG_F32: memcpy(&f, from, 4); return f;
	case CG_F64: memcpy(&d, from, 8); return d;
	}
	memcpy(&half, from, 2);
	if (dtype == CG_BF16) {
		bits = (uint32_t)half << 16;
		memcpy(&f, &bits, 4);
		return f;
	}
	d = (half >> 10 & 31) == 31 ? (half & 1023 ? NAN : INFINITY)
	    : (half >> 10 & 31) ? ldexp(1024 + (half & 1023), (half >> 10 & 31) - 25) : ldexp(half & 1023, -24);
	return half & 0x8000 ? -d : d;
}

int numbers_same(int dtype, const void *a, const void *b)
{
	return !memcmp(a, b, cg_dtype_bytes(dtype)) || (isnan(numbers_decode(dtype, a)) && isnan(numbers_decode(dtype, b)));
}

int numbers_acc(int dtype)
{
	return dtype == CG_F64 ? CG_F64 : CG_F32;
}
