/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes a fingerprint of bytes, a number to compare them by.
 */
#include "runtime/core/core.h"

/* Continues a hash by the method FNV-1a with more bytes. */
uint64_t cg_fingerprint(uint64_t fingerprint, const void *p, size_t bytes)
{
	for (size_t k = 0; k < bytes; k++)
		fingerprint = (fingerprint ^ ((const unsigned char *)p)[k]) * 0x100000001b3u;
	return fingerprint;
}
