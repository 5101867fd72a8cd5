/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands before a text in CUDA C, so that a host's C++ compiler compiles the text: defines CUDA's keywords, and grids of random sizes.
 * Threads run one after the other, so that a kernel with barriers cannot run.
 */
#include <stdint.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define __shared__ static
#define __syncthreads() __builtin_trap()

static struct { unsigned x, y; } threadIdx, blockIdx, blockDim, gridDim;

static inline unsigned __float_as_uint(float x) { unsigned u; __builtin_memcpy(&u, &x, sizeof u); return u; }
static inline float __uint_as_float(unsigned u) { float x; __builtin_memcpy(&x, &u, sizeof x); return x; }
static inline long long __double_as_longlong(double x) { long long u; __builtin_memcpy(&u, &x, sizeof u); return u; }
static inline double __longlong_as_double(long long u) { double x; __builtin_memcpy(&x, &u, sizeof x); return x; }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }

static inline unsigned host_below(unsigned n)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % n;
}

/* Begins with the first thread of a grid of random height; the grid's width covers the units if `cover` is not 0, else it is random. */
static inline void host_first(int64_t units, int cover)
{
	threadIdx = {};
	blockIdx = {};
	blockDim = { 1u << host_below(6), 1 + host_below(3) };
	gridDim = { cover ? (unsigned)(units / blockDim.x + 1) : 1 + host_below(3), 1 + host_below(3) };
}

static inline void host_next(void)
{
	if (++threadIdx.x < blockDim.x)
		return;
	threadIdx.x = 0;
	if (++threadIdx.y < blockDim.y)
		return;
	threadIdx.y = 0;
	if (++blockIdx.x < gridDim.x)
		return;
	blockIdx.x = 0;
	blockIdx.y++;
}
