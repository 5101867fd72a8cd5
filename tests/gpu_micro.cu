/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that gpu_micro.c compiles and times. Each polling loop has a limit, so that a mistake ends the kernel and does not occupy
 * the machine: at the limit a kernel sets `broken`, and all threads continue.
 */
#define LIMIT (1 << 22)

static __device__ __forceinline__ void store_release(unsigned *at, unsigned value)
{
	asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(at), "r"(value) : "memory");
}

static __device__ __forceinline__ unsigned load_acquire(const unsigned *at)
{
	unsigned value;

	asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
	return value;
}

/* One flag per block: in each step a block writes its word, sets its flag, and waits for all flags.  A block that has waited for the flags
   of a step must read the words that the other blocks wrote in this step.  flags: [blocks]; words: [2][blocks]. */
extern "C" __global__ void hand_over(unsigned *flags, unsigned *words, unsigned *broken, int steps)
{
	unsigned blocks = gridDim.x;

	for (int step = 1; step <= steps; step++) {
		unsigned *now = words + (step & 1) * blocks;

		if (threadIdx.x == 0) {
			now[blockIdx.x] = step * 1000u + blockIdx.x;
			store_release(flags + blockIdx.x, step);
		}
		for (unsigned other = threadIdx.x; other < blocks; other += blockDim.x) {
			int polls = 0;

			while (load_acquire(flags + other) < (unsigned)step && polls++ < LIMIT)
				;
			if (polls > LIMIT || *(volatile unsigned *)(now + other) != step * 1000u + other)
				atomicAdd(broken, 1u);
		}
		__syncthreads();
	}
}

/* Reads 24 KB from L2 in every block and turn, by six 16-byte loads of each of 256 threads, past the first-level cache; another part in
   each turn. */
extern "C" __global__ void broadcast(const uint4 *from, int pieces, int turns, unsigned *sum)
{
	unsigned all = 0;

	for (int turn = 0; turn < turns; turn++) {
		const uint4 *piece = from + (turn + (all & 1)) % pieces * 1536;

		for (int k = 0; k < 6; k++) {
			uint4 v;

			asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
			             : "l"(piece + k * 256 + threadIdx.x));
			all += (v.x ^ v.y ^ v.z ^ v.w) & ~1u;
		}
		__syncthreads();
	}
	if (all == 1)
		*sum = all;
}

#if __CUDA_ARCH__ >= 800
/* One m16n8k16 product in the layout that PTX documents.  a [16][16], b [16][8] in f16 bits, c [16][8]. */
extern "C" __global__ void layout(const unsigned short *a, const unsigned short *b, float *c)
{
	int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
	unsigned fa[4], fb[2];
	float fc[4] = { 0, 0, 0, 0 };

	for (int k = 0; k < 4; k++) {
		const unsigned short *at = a + (group + (k & 1) * 8) * 16 + pair + (k >> 1) * 8;

		fa[k] = at[0] | (unsigned)at[1] << 16;
	}
	for (int k = 0; k < 2; k++) {
		const unsigned short *at = b + (pair + k * 8) * 8 + group;

		fb[k] = at[0] | (unsigned)at[8] << 16;
	}
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	             : "+f"(fc[0]), "+f"(fc[1]), "+f"(fc[2]), "+f"(fc[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
	for (int k = 0; k < 4; k++)
		c[(group + (k >> 1) * 8) * 8 + pair + (k & 1)] = fc[k];
}
#endif

#if __CUDA_ARCH__ >= 900
/* Hands words over in a cluster: in each step each block writes its word into the shared memory of all blocks, then all wait at a
   barrier. */
static __device__ __forceinline__ void step_cluster(unsigned *broken, int steps)
{
	__shared__ unsigned words[2][16];
	unsigned rank, blocks, here;

	asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
	asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
	asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(here) : "l"(&words[0][0]));
	for (int step = 1; step <= steps; step++) {
		if (threadIdx.x < blocks) {
			unsigned there, slot = here + ((step & 1) * 16 + rank) * 4;

			asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(slot), "r"(threadIdx.x));
			asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(there), "r"(step * 1000u + rank) : "memory");
		}
		asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
		if (threadIdx.x < blocks && *(volatile unsigned *)&words[step & 1][threadIdx.x] != step * 1000u + threadIdx.x)
			atomicAdd(broken, 1u);
	}
	asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(8, 1, 1) cluster_8(unsigned *broken, int steps)
{
	step_cluster(broken, steps);
}

extern "C" __global__ void __cluster_dims__(16, 1, 1) cluster_16(unsigned *broken, int steps)
{
	step_cluster(broken, steps);
}
#endif
