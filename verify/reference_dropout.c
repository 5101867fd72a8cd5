/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropout masks in plain arithmetic: Philox4x32-10 (Salmon et al. 2011), and the rule of cellgrad.h that says which elements are
 * dropped. reference_rnn.c multiplies by the factors.
 */
#include <math.h>

#include "verify/sequence.h"

void ref_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
	uint64_t a, b;
	uint32_t x[4] = { ctr[0], ctr[1], ctr[2], ctr[3] };

	for (uint32_t round = 0; round < 10; round++) {
		a = (uint64_t)0xD2511F53 * x[0];
		b = (uint64_t)0xCD9E8D57 * x[2];
		x[0] = (uint32_t)(b >> 32) ^ x[1] ^ (key[0] + round * 0x9E3779B9u);
		x[1] = (uint32_t)b;
		x[2] = (uint32_t)(a >> 32) ^ x[3] ^ (key[1] + round * 0xBB67AE85u);
		x[3] = (uint32_t)a;
	}
	for (int j = 0; j < 4; j++)
		out[j] = x[j];
}

static void draw(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t out[4])
{
	ref_philox((uint32_t[]){ c0, c1, c2, 0 }, (uint32_t[]){ (uint32_t)key, (uint32_t)(key >> 32) }, out);
}

uint64_t ref_dropout_key(int64_t seed, int64_t seed2)
{
	return (uint64_t)seed << 32 | (uint32_t)seed2;
}

uint64_t ref_dropout_layer_key(uint64_t key, uint64_t call, int64_t layer)
{
	uint32_t out[4];

	draw(key, (uint32_t)call, (uint32_t)(call >> 32), (uint32_t)layer, out);
	return out[0] | (uint64_t)out[1] << 32;
}

uint32_t ref_dropout_word(uint64_t layer_key, int64_t t, int64_t b, int64_t unit)
{
	uint32_t out[4];

	draw(layer_key, (uint32_t)(unit / 4), (uint32_t)b, (uint32_t)t, out);
	return out[unit % 4];
}

int ref_dropout_drops(uint32_t word, double dropout)
{
	return word < floor(dropout * 0x1p32);
}
