/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of cublasLt that the caller allocates, in NVIDIA's layout. */
#ifndef CG_CUDA_LAYOUT_H
#define CG_CUDA_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

struct cg_lt_algorithm {
	uint64_t data[8];
};

struct cg_lt_result {
	struct cg_lt_algorithm algo;
	size_t workspaceSize;
	unsigned state;
	float wavesCount;
	int reserved[4];
};

#endif
