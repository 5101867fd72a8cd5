/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the parameters of dropout: the key of a layer's masks, the number below which a random word drops an element, and the scale of
 * the elements that are kept.  The kernels of templates/rows.in draw the masks with the same generator,
 * Philox4x32-10.
 */
#include "rows.h"

/* The low 64 bits that the random generator Philox4x32-10 gives for a key and for the counter x0, x1, x2, 0. */
static uint64_t philox(uint64_t key, uint32_t x0, uint32_t x1, uint32_t x2)
{
	uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32), x3 = 0;

	for (int round = 0; round < 10; round++) {
		const uint64_t a = (uint64_t)0xd2511f53 * x0, b = (uint64_t)0xcd9e8d57 * x2;

		x0 = (uint32_t)(b >> 32) ^ x1 ^ key0;
		x1 = (uint32_t)b;
		x2 = (uint32_t)(a >> 32) ^ x3 ^ key1;
		x3 = (uint32_t)a;
		key0 += 0x9e3779b9;
		key1 += 0xbb67ae85;
	}
	return x0 | (uint64_t)x1 << 32;
}

uint64_t cg_drop_key(int64_t seed, int64_t seed2, uint64_t call, int64_t layer)
{
	return philox((uint64_t)seed << 32 | (uint32_t)seed2, (uint32_t)call, (uint32_t)(call >> 32), (uint32_t)layer);
}

int64_t cg_drop_below(double rate)
{
	return (int64_t)(rate * 4294967296.0);
}

/* A dropout rate of 1 keeps no element, so the scale is 0. */
double cg_drop_scale(double rate)
{
	return rate < 1 ? 1 / (1 - rate) : 0;
}
