/* SPDX-License-Identifier: Apache-2.0 */
/* Reads numbers of each type as doubles, and rounds them once when it stores them. */
#include <string.h>

#include "number.h"

size_t fake_type_bytes(unsigned type)
{
	return type == R_64F ? 8 : type == R_32F ? 4 : 2;
}

static float from_bits(uint32_t bits)
{
	float x;

	return memcpy(&x, &bits, sizeof x), x;
}

static uint32_t bits_of(float x)
{
	uint32_t bits;

	return memcpy(&bits, &x, sizeof bits), bits;
}

static double from_half(uint16_t h)
{
	int exponent = h >> 10 & 31;
	double size = exponent ? (h & 1023) + 1024 : h & 1023, scale = 1;

	if (exponent == 31)
		return h & 1023 ? (double)from_bits(0x7fc00000) : h >> 15 ? -1 / 0.0 : 1 / 0.0;
	for (int k = exponent ? exponent : 1; k < 25; k++)
		scale /= 2;
	for (int k = 25; k < exponent; k++)
		scale *= 2;
	return (h >> 15 ? -size : size) * scale;
}

double fake_load(const void *from, size_t i, int type)
{
	const char *at = from;
	float narrow;
	double wide;
	uint16_t half;

	switch (type) {
	case R_64F:
		return memcpy(&wide, at + 8 * i, 8), wide;
	case R_32F:
		return memcpy(&narrow, at + 4 * i, 4), (double)narrow;
	}
	memcpy(&half, at + 2 * i, 2);
	return type == R_16BF ? (double)from_bits((uint32_t)half << 16) : from_half(half);
}

/* Rounds x to nearest, ties to even, to `bits` bits of fraction; below 2^least the spacing of numbers no longer shrinks. */
double fake_rounded(double x, int bits, int least)
{
	double size = x < 0 ? -x : x, unit = 1;
	int exponent = 0;

	if (!(size > 0) || size > 1e300)
		return x;
	for (; size >= 2; exponent++)
		size /= 2;
	for (; size < 1; exponent--)
		size *= 2;
	for (exponent = (exponent < least ? least : exponent) - bits; exponent < 0; exponent++)
		unit /= 2;
	for (; exponent > 0; exponent--)
		unit *= 2;
	/* Adding and subtracting 1.5 * 2^52 rounds a double to a whole number. */
	return (x / unit + 6755399441055744.0 - 6755399441055744.0) * unit;
}

static uint16_t to_half(double x)
{
	double y = fake_rounded(x < 0 ? -x : x, 10, -14);
	uint16_t sign = (uint16_t)(bits_of((float)x) >> 16 & 0x8000);
	uint32_t f = bits_of((float)y) & 0x7fffffff;     /* the bits of y without the sign bit, which -0 has */

	if (x != x)
		return 0x7e00;
	if (f >= 0x47800000)
		return sign | 0x7c00;
	if (f < 0x38800000)
		return sign | (uint16_t)(y * 16777216);
	return (uint16_t)(sign | (f - 0x38000000) >> 13);
}

void fake_store(void *to, size_t i, double x, int type)
{
	char *at = to;
	float narrow = (float)x;
	uint16_t half;

	switch (type) {
	case R_64F:
		memcpy(at + 8 * i, &x, 8);
		return;
	case R_32F:
		memcpy(at + 4 * i, &narrow, 4);
		return;
	case R_16F:
		half = to_half(x);
		break;
	default:
		half = x != x ? 0x7fc0 : (uint16_t)(bits_of((float)fake_rounded(x, 7, -126)) >> 16);
	}
	memcpy(at + 2 * i, &half, 2);
}

/* ---- orders ---- */

enum { USUAL = 1 };

int fake_order(uint64_t alignment)
{
	return alignment > 16 ? 0 : alignment == 16 ? USUAL : alignment == 8 ? 2 : alignment == 4 ? 3 : 4;
}

int64_t fake_turn(int order, int64_t i, int64_t k)
{
	int64_t half = (k + 1) / 2;

	switch (order) {
	case USUAL:
		return i;
	case 0:
	case 3:
		return k - 1 - i;
	}
	return i < half ? 2 * i : 2 * (i - half) + 1;
}

double fake_sum(int order, double sum, int type)
{
	return order == USUAL || type == R_64F ? sum : (double)(float)sum;
}
