/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures what the machine can do, independent of the library: multiply and add in registers, and copies. A large matrix product is not
 * taken as a roof, since products are compared with the roof. On a device whose driver copies memory, only such copies are measured.
 */
#include <pthread.h>
#include <string.h>

#include "runtime/device/inspect.h"
#include "command/bench/bench.h"

/* In this file a multiplication and an addition may become one instruction: the rate of the loops matters, not their result. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast")
#endif

/* ---- multiply and add ---- */

/* CHAINS: independent sums in a loop, enough to hide the latency of a processor's two units that multiply and add. */
enum { CHAINS = 12, STEPS = 1000, TURNS = 12, BYTES_PER_MS = 5000000 };
#define EACH(x) x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11)
#define START(k) vector v##k = start + (k);
#define STEP(k)  v##k = v##k * factor + start;
#define ADD(k)   start += v##k;

#define LOOP(name, type, bytes, target) \
	target static void name(void) \
	{ \
		typedef type vector __attribute__((vector_size(bytes))); \
		volatile type half = (type)0.5; \
		vector factor = (vector){ 0 } + half, start = factor; \
		EACH(START) \
		for (int k = 0; k < STEPS; k++) { \
			EACH(STEP) \
		} \
		EACH(ADD) \
		half = start[0] > 0 ? (type)0.5 : 0; \
	}

static int always(void)
{
	return 1;
}

#if defined(__x86_64__) || defined(__i386__)
LOOP(f32_avx512, float, 64, __attribute__((target("avx512f"))))
LOOP(f64_avx512, double, 64, __attribute__((target("avx512f"))))
LOOP(f32_avx2, float, 32, __attribute__((target("avx2,fma"))))
LOOP(f64_avx2, double, 32, __attribute__((target("avx2,fma"))))

static int has_avx512(void)
{
	return __builtin_cpu_supports("avx512f");
}

static int has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

/* Dot products of bf16: one instruction adds two products to each of 16 sums. */
#ifdef CG_ISA_AVX512BF16
#include <immintrin.h>
#define STEP_BF16(k) v##k = _mm512_dpbf16_ps(v##k, factor, factor);
__attribute__((target("avx512f,avx512bf16"))) static void bf16_avx512(void)
{
	volatile float half = 0.5f;
	__m512 start = _mm512_set1_ps(half);
	__m512bh factor = (__m512bh)_mm512_set1_epi16(0x3f00);
#define START_BF16(k) __m512 v##k = _mm512_add_ps(start, _mm512_set1_ps(k));
	EACH(START_BF16)
	for (int k = 0; k < STEPS; k++) {
		EACH(STEP_BF16)
	}
#define ADD_BF16(k) start = _mm512_add_ps(start, v##k);
	EACH(ADD_BF16)
	half = _mm512_cvtss_f32(start) > 0 ? 0.5f : 0;
}

static int has_avx512bf16(void)
{
	return has_avx512() && __builtin_cpu_supports("avx512bf16");
}
#endif

/* Products of bf16 by AMX: one instruction multiplies matrices and adds 32 products to each of 16 by 16 sums. A process must ask Linux for
 * the tile registers of AMX. */
#ifdef CG_ISA_AMXBF16
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((target("amx-tile,amx-bf16"))) static void bf16_amx(void)
{
	/* The configuration of AMX: palette, first row, then for each of eight tile registers the bytes of a row and the number of rows. */
	static const struct { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } sizes = {
		.palette = 1, .bytes = { 64, 64, 64, 64, 64, 64, 64, 64 }, .rows = { 16, 16, 16, 16, 16, 16, 16, 16 }
	};

	__asm__ volatile("ldtilecfg %0" : : "m"(sizes));
	for (int k = 0; k < STEPS * CHAINS; k += 6) {
		_tile_dpbf16ps(0, 6, 7);
		_tile_dpbf16ps(1, 6, 7);
		_tile_dpbf16ps(2, 6, 7);
		_tile_dpbf16ps(3, 6, 7);
		_tile_dpbf16ps(4, 6, 7);
		_tile_dpbf16ps(5, 6, 7);
	}
	_tile_release();
}

static int has_amxbf16(void)
{
	unsigned a, b, c, d;

	return has_avx512bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 22 & 1 && d >> 24 & 1 &&
	       !syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18);
}
#endif
LOOP(f32_baseline, float, 16, )
LOOP(f64_baseline, double, 16, )

/* The instruction sets of the loops that multiply and add, the best first. */
static const struct isa {
	const char *name;
	int (*runs_here)(void);
	void (*f32)(void), (*f64)(void), (*bf16)(void);  /* bf16 = NULL: products of bf16 are those of f32, after widening */
	int bytes, products;                     /* bytes: of a vector; products: those of bf16 that one instruction adds */
} isas[] = {
#ifdef CG_ISA_AMXBF16
	{ "amxbf16", has_amxbf16, f32_avx512, f64_avx512, bf16_amx, 64, 16 * 16 * 32 },
#endif
#ifdef CG_ISA_AVX512BF16
	{ "avx512bf16", has_avx512bf16, f32_avx512, f64_avx512, bf16_avx512, 64, 32 },
#endif
#if defined(__x86_64__) || defined(__i386__)
	{ "avx512", has_avx512, f32_avx512, f64_avx512, NULL, 64, 0 },
	{ "avx2", has_avx2, f32_avx2, f64_avx2, NULL, 32, 0 },
#endif
	{ "baseline", always, f32_baseline, f64_baseline, NULL, 16, 0 }
};

/* ---- threads, all with the same work for the same time ---- */

struct worker {
	pthread_t thread;
	void (*loop)(void);                      /* NULL: copies */
	char  *from, *to;
	size_t bytes;                            /* of each buffer */
	double time, rate;                       /* time: milliseconds; rate: loops or copies in a millisecond */
};

static void *work(void *given)
{
	struct worker *w = given;
	double start = cg_milliseconds(), passed = 0;
	size_t n = 0;

	do {
		if (w->loop)
			w->loop();
		else
			memcpy(w->to, w->from, w->bytes);
		/* Keeps the compiler from removing copies whose result is not read. */
		__asm__ volatile("" : : "r"(w->to) : "memory");
		n++;
		/* Reading the clock costs as much as a small copy, so a loop over small copies reads it every eighth time. */
	} while ((n % 8 && w->bytes < 1 << 20) || (passed = cg_milliseconds() - start) < w->time);
	w->rate = (double)n / passed;
	return NULL;
}

/* Runs a turn for warming up, then several short turns, and takes the best turn, which other programs disturbed least. The rates of the
 * threads are added. */
static int best(struct worker *workers, int n, double *rate)
{
	*rate = 0;
	for (int turn = 0; turn < TURNS; turn++) {
		int started = 0, why = 0;
		double sum = 0;

		while (started < n && !(why = pthread_create(&workers[started].thread, NULL, work, &workers[started])))
			started++;
		for (int k = 0; k < started; k++) {
			pthread_join(workers[k].thread, NULL);
			sum += workers[k].rate;
		}
		if (why)
			return cg_fail(CG_DRIVER, "pthread_create: thread %d of %d: %s", started + 1, n, strerror(why));
		if (turn && sum > *rate)
			*rate = sum;
	}
	return CG_OK;
}

static int measure_loop(struct worker *workers, int n, void (*loop)(void), int lanes, double *gflops)
{
	for (int k = 0; k < n; k++)
		workers[k].loop = loop;
	CG_TRY(best(workers, n, gflops));
	*gflops *= 2.0 * CHAINS * STEPS * lanes / 1e6;
	return CG_OK;
}

/* Measures copies within the buffer: each thread has a share of it, and copies the first half of its share to the second half. */
static int measure_copy(struct worker *workers, int n, char *buffer, size_t bytes, double *gbytes)
{
	size_t part = bytes / 2 / (size_t)n / 64 * 64;

	for (int k = 0; k < n; k++) {
		workers[k].loop = NULL;
		workers[k].bytes = part;
		workers[k].from = buffer + 2 * part * (size_t)k;
		workers[k].to = workers[k].from + part;
	}
	CG_TRY(best(workers, n, gbytes));
	*gbytes *= 2.0 * (double)part / 1e6;
	return CG_OK;
}

/* The bytes of a copy that goes to memory: twice the level 3 cache of a processor, so that source and destination do not both fit in it, or
 * what a slow memory copies in `time` milliseconds, if that is less; at least `least`; but at most a quarter of free memory. */
static size_t beyond_caches(size_t least, double time)
{
	double cache = 2 * machine_number("/sys/devices/system/cpu/cpu0/cache/index3/size", "", 1024), most = machine_memory() / 4;
	double bytes = cache < time * BYTES_PER_MS ? cache : time * BYTES_PER_MS;

	bytes = bytes > (double)least ? bytes : (double)least;
	return (size_t)(bytes < most ? bytes : most);
}

/* ---- a device's own copies ---- */

int roof_copy(struct cg_stream *stream, struct cg_mem buffer, long n, double *ms)
{
	struct cg_mem to = buffer;
	double start = cg_milliseconds();

	to.offset += buffer.bytes / 2;
	for (long k = 0; k < n; k++)
		CG_TRY(cg_inspect_copy(stream, to, buffer, buffer.bytes / 2));
	CG_TRY(cg_stream_sync(stream));
	*ms = (cg_milliseconds() - start) / (double)n;
	return CG_OK;
}

/* Does the same as best(), for copies by the device's driver: each turn makes enough copies to fill the turn's time. */
static int best_copy(struct cg_stream *stream, struct cg_mem buffer, double time, double *gbytes)
{
	double ms, least;
	long n = 1;

	CG_TRY(roof_copy(stream, buffer, 1, &ms));
	for (; n < 1 << 20; n *= 2) {
		CG_TRY(roof_copy(stream, buffer, n, &ms));
		if (ms * (double)n >= time)
			break;
	}
	least = ms;
	for (int turn = 1; turn < TURNS; turn++) {
		CG_TRY(roof_copy(stream, buffer, n, &ms));
		least = ms < least ? ms : least;
	}
	*gbytes = (double)buffer.bytes / least / 1e6;
	return CG_OK;
}

static int measure_device(struct cg_context *context, const size_t sizes[ROOF_COPIES], double time, struct roofs *roofs)
{
	struct cg_stream *stream;
	struct cg_mem buffer;
	int code = cg_stream_open(context, NULL, &stream);

	if (code)
		return code;
	code = cg_alloc(context, sizes[ROOF_COPIES - 1], &buffer);
	for (int k = 0; k < ROOF_COPIES && !code; k++) {
		buffer.bytes = sizes[k];
		roofs->copy[k].bytes = (double)sizes[k];
		code = best_copy(stream, buffer, time, &roofs->copy[k].gbytes);
	}
	cg_free(context, &buffer);
	cg_stream_close(stream);
	return code;
}

static int measure_host(int threads, const size_t sizes[ROOF_COPIES], double time, struct roofs *roofs)
{
	struct worker *workers = cg_memory(NULL, (size_t)threads * sizeof *workers);
	const struct isa *isa = isas;
	char *buffer;
	int code;

	while (!isa->runs_here())
		isa++;
	buffer = workers ? cg_memory(NULL, sizes[ROOF_COPIES - 1]) : NULL;
	if (!buffer) {
		cg_memory(workers, 0);
		return CG_NO_MEMORY;
	}
	roofs->isa = isa->name;
	memset(buffer, 1, sizes[ROOF_COPIES - 1]);
	for (int k = 0; k < threads; k++)
		workers[k] = (struct worker){ .time = time };
	code = measure_loop(workers, threads, isa->f32, isa->bytes / 4, &roofs->f32);
	roofs->bf16 = roofs->f32;
	if (!code && isa->bf16)
		code = measure_loop(workers, threads, isa->bf16, isa->products, &roofs->bf16);
	if (!code)
		code = measure_loop(workers, threads, isa->f64, isa->bytes / 8, &roofs->f64);
	for (int k = 0; k < ROOF_COPIES && !code; k++) {
		roofs->copy[k].bytes = (double)sizes[k];
		code = measure_copy(workers, threads, buffer, sizes[k], &roofs->copy[k].gbytes);
	}
	cg_memory(buffer, 0);
	cg_memory(workers, 0);
	return code;
}

int roof_measure(struct cg_context *context, int threads, double time, struct roofs *roofs)
{
	size_t sizes[ROOF_COPIES] = { 1 << 16, 1 << 20, 1 << 24, 1 << 27 };

	sizes[ROOF_COPIES - 1] = beyond_caches(sizes[ROOF_COPIES - 1], time * 1e3) / 128 * 128;
	/* All copies are within one buffer of the last size. With little free memory the last size is small; larger sizes are reduced to it. */
	for (int k = 0; k < ROOF_COPIES - 1; k++)
		sizes[k] = sizes[k] < sizes[ROOF_COPIES - 1] ? sizes[k] : sizes[ROOF_COPIES - 1];
	time *= 1e3 / TURNS;
	*roofs = (struct roofs){ .threads = threads };
	return cg_inspect_copies(context) ? measure_device(context, sizes, time, roofs) : measure_host(threads, sizes, time, roofs);
}

/* Sets the problem's share of the roof. On the cpu a problem is compared with copies of the least measured size that is not below the
 * problem's bytes, or of the largest size, so that a problem in a cache is not compared with copies in memory. On a device only the speed
 * of copies was measured, not that of products, so a problem with matrix products has share 0. */
void roof_share(const struct roofs *roofs, struct result *r)
{
	int dtype = problem_dtype(r->problem);
	double rate = dtype == CG_F64 ? roofs->f64 : dtype == CG_BF16 ? roofs->bf16 : roofs->f32, products, copy;
	int k = 0;

	if (!roofs->isa) {
		r->share = r->flops > 0 ? 0 : r->gbytes / r->copy;
		return;
	}
	while (k < ROOF_COPIES - 1 && roofs->copy[k].bytes < r->bytes)
		k++;
	products = r->flops / rate / 1e6;
	copy = r->bytes / roofs->copy[k].gbytes / 1e6;
	r->by_products = products > copy;
	r->share = (r->by_products ? products : copy) / r->median;
}
