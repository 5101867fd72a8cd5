/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands before a CUDA text, so that a host's C++ compiler compiles the text unchanged: keywords, vector types, and the device functions
 * that a host lacks.
 */
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __constant__ const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("fake_shared")))
#define __grid_constant__
#define __syncthreads() fake_barrier(__LINE__)

#define FAKE_INLINE static inline __attribute__((always_inline, unused))

struct fake_dim { unsigned x, y, z; };
typedef fake_dim uint3;
struct dim3 { unsigned x, y, z; };

extern "C" {
	#pragma GCC visibility push(hidden)
	extern fake_dim threadIdx, blockIdx, blockDim, gridDim;
	void fake_barrier(int line);
	#pragma GCC visibility pop
	float fmaf(float, float, float);
	double fma(double, double, double);
}
enum { warpSize = 32 };

/* ---- vectors, aligned as on a device ---- */

#define FAKE_VECTOR(type, name, by2, by4) \
	struct __align__(by2) name##2 { type x, y; }; \
	struct name##3 { type x, y, z; }; \
	struct __align__(by4) name##4 { type x, y, z, w; }; \
	FAKE_INLINE name##2 make_##name##2(type x, type y) { return name##2{ x, y }; } \
	FAKE_INLINE name##3 make_##name##3(type x, type y, type z) { return name##3{ x, y, z }; } \
	FAKE_INLINE name##4 make_##name##4(type x, type y, type z, type w) { return name##4{ x, y, z, w }; }
#define uint3 fake_uint3
FAKE_VECTOR(signed char, char, 2, 4)
FAKE_VECTOR(unsigned char, uchar, 2, 4)
FAKE_VECTOR(short, short, 4, 8)
FAKE_VECTOR(unsigned short, ushort, 4, 8)
FAKE_VECTOR(int, int, 8, 16)
FAKE_VECTOR(unsigned, uint, 8, 16)
FAKE_VECTOR(long long, longlong, 16, 16)
FAKE_VECTOR(unsigned long long, ulonglong, 16, 16)
FAKE_VECTOR(float, float, 8, 16)
FAKE_VECTOR(double, double, 16, 16)
#undef uint3

template<class T> FAKE_INLINE T __ldg(const T *at) { return *at; }

/* ---- bits and arithmetic ---- */

FAKE_INLINE unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
FAKE_INLINE int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
FAKE_INLINE float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
FAKE_INLINE float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
FAKE_INLINE long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
FAKE_INLINE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
FAKE_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
FAKE_INLINE double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
/* The result of fake_alone() is never part of a fused operation, whatever the compiler's options. */
template<class T> FAKE_INLINE T fake_alone(T x) { __asm__("" : "+x"(x)); return x; }
FAKE_INLINE float __fadd_rn(float a, float b) { return fake_alone(a + b); }
FAKE_INLINE float __fsub_rn(float a, float b) { return fake_alone(a - b); }
FAKE_INLINE float __fmul_rn(float a, float b) { return fake_alone(a * b); }
FAKE_INLINE double __dadd_rn(double a, double b) { return fake_alone(a + b); }
FAKE_INLINE double __dsub_rn(double a, double b) { return fake_alone(a - b); }
FAKE_INLINE double __dmul_rn(double a, double b) { return fake_alone(a * b); }
FAKE_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }

/* ---- kernels as rows; the driver's kernel_calls.h has the same struct ---- */

struct fake_kernel {
	const char *name;
	void (*run)(void *const *arguments);
	int n;
	const unsigned short *sizes;
	const unsigned char *sorts;
	unsigned threads;
	int barriers;
};

/* The sort of a type: 1: a pointer; 2: an integer of 8 bytes; 3: a structure aligned to 8 bytes; 0: any other type. */
template<class T> struct fake_sort { enum { value = __is_class(T) && alignof(T) == 8 ? 3 : 0 }; };
template<class T> struct fake_sort<T *> { enum { value = 1 }; };
template<> struct fake_sort<long long> { enum { value = 2 }; };
template<> struct fake_sort<long> { enum { value = 2 }; };
template<> struct fake_sort<unsigned long long> { enum { value = 2 }; };
template<> struct fake_sort<unsigned long> { enum { value = 2 }; };

template<class... A> struct fake_invoke {
	__attribute__((no_sanitize("kernel-address", "undefined")))
	fake_invoke(void (*kernel)(A...), A... arguments) { kernel(arguments...); }
};

template<auto Kernel> struct fake_call;
template<class... A, void (*Kernel)(A...)> struct fake_call<Kernel> {
	static constexpr int n = sizeof...(A);
	static constexpr unsigned short sizes[n + 1] = { sizeof(A)..., 0 };
	static constexpr unsigned char sorts[n + 1] = { fake_sort<A>::value..., 0 };

	/* C++ evaluates the elements of a list in braces in order, so that `arguments` moves from each argument to the next. */
	__attribute__((no_sanitize("kernel-address", "undefined")))
	static void run(void *const *arguments)
	{
		(void)arguments;
		fake_invoke<A...>{ Kernel, *(A *)*arguments++... };
	}
};

#define FAKE_KERNEL(kernel, threads, barriers) \
	{ #kernel, fake_call<kernel>::run, fake_call<kernel>::n, fake_call<kernel>::sizes, fake_call<kernel>::sorts, threads, barriers }
