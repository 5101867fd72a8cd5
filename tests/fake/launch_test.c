/* SPDX-License-Identifier: Apache-2.0 */
/* Mistakes of a kernel and of its launch are reported: barriers, shared memory, accesses, arguments, sizes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fake/stand_in.h"

/* ---- barriers and shared memory ---- */

static void no_barrier_before(void)
{
	turn_by(TURN("tile[k]", "", "__syncthreads();"), 719);
}

static void no_barrier_after(void)
{
	turn_by(TURN("tile[k]", "__syncthreads();", ""), 719);
}

static void barrier_for_some(void)
{
	turn_by(TURN("tile[k]", "__syncthreads();", "if (!round || k < 60) __syncthreads();"), 719);
}

static void barriers_apart(void)
{
	turn_by(TURN("tile[k]", "if (k < 3)\n__syncthreads();\nelse\n__syncthreads();", ""), 719);
}

static void unwritten_tile(void)
{
	turn_by(TURN("if (k) tile[k]", "__syncthreads();", "__syncthreads();"), 719);
}

static void beyond_tile(void)
{
	turn_by(TURN("tile[k + (k == 63)]", "__syncthreads();", "__syncthreads();"), 719);
}

static void test_barriers(void **state)
{
	static const struct trial trials[] = {
		{ "no barrier between writes and reads", no_barrier_before, "reads shared memory that", 0 },
		{ "no barrier between reads and writes", no_barrier_after, "shared memory that another thread", 0 },
		{ "a barrier that some do not reach", barrier_for_some, "turn: a barrier at line 10 that 4 of 64 threads do not reach", 0 },
		{ "two barriers", barriers_apart, "turn: threads wait at the barriers of lines", 0 },
		{ "shared memory that nobody wrote", unwritten_tile, "reads shared memory that its block never wrote", 0 },
		{ "an index past a shared array", beyond_tile, "trial.cu:7: an index beyond its array (0x40)", 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- accesses ---- */

/* Runs one thread of a kernel k(const float *a, float *b) with `more` bytes added to the address a. */
static void run_one(const char *text, uint64_t more, int expected)
{
	struct pair p;
	uint64_t a, b;
	void *f, *arguments[] = { &a, &b };

	begin();
	f = function_of(text, "k");
	p = make_pair();
	a = p.a + more;
	b = p.b;
	CHECK(cu.LaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
	EXPECT(cu.StreamSynchronize(stream) == expected);
	if (expected)
		exit(0);
	CHECK(cu.MemcpyDtoHAsync_v2(host, p.b, BYTES, stream));
	free_pair(p);
	end();
}

#define K(body) "extern \"C\" __global__ void k(const float *a, float *b)\n{\n" body "\n}\n"

static void misaligned(void)
{
	run_one(K("float4 v = *(const float4 *)a; *(float4 *)b = v;"), 4, 716);
}

static void vectors(void)
{
	run_one(K("float4 v = *(const float4 *)a; *(float4 *)b = make_float4(v.w, v.z, v.y, v.x);"), 16, 0);
	EXPECT(host[0] == 7 && host[3] == 4 && isnan(host[4]));
}

static void vector_past_the_end(void)
{
	run_one(K("*(float4 *)b = *(const float4 *)(a + 96); *(float2 *)b = *(const float2 *)(a + 100);"), 0, 700);
}

static void beyond_local(void)
{
	run_one(K("float t[4] = { a[0] }; for (int i = 0; i < (int)a[5]; i++) t[i] = a[i]; b[0] = t[1];"), 0, 719);
}

static void through_null(void)
{
	run_one(K("const float *c = a[0] == 0 ? nullptr : a; b[0] = c[1];"), 0, 700);
}

static void constants(void)
{
	run_one("static __device__ const float table[] = { 5, 6, 7, 8 };\n" K("b[0] = table[(int)a[2]];"), 0, 0);
	EXPECT(host[0] == 7);
}

static void flushed(void)
{
	run_one(K("b[0] = __uint_as_float(1u) + 0 * a[1]; b[1] = __uint_as_float(0x800000u) * 0.5f + 0 * a[1];"), 0, 0);
	EXPECT(host[0] == 0 && host[1] == 0);
	EXPECT(1e-40f * (host[0] + 1) > 0);
}

static void test_accesses(void **state)
{
	static const struct trial trials[] = {
		{ "vectors", vectors, NULL, 0 }, { "constants", constants, NULL, 0 },
		{ "subnormals are flushed in kernels alone", flushed, NULL, 0 },
		{ "a misaligned vector", misaligned, "a misaligned address", 0 },
		{ "a vector past the end", vector_past_the_end, "reads byte 0 behind 400 bytes", 0 },
		{ "an index past a local array", beyond_local, "trial.cu:3: an index beyond its array (0x4)", 0 },
		{ "a null pointer", through_null, "k: block 0 0 0, thread 0 0 0: reads 0x4, which is not device memory", 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- arguments ---- */

/* Passes n as an int where the kernel has a long long; another argument follows n in memory. */
static void narrow_argument(void)
{
	struct { int n; float by; } packed = { N, 1 };
	struct pair p;
	void *f, *arguments[] = { &packed.n, &p.a, &p.b, &packed.by };

	begin();
	f = function_of(add_text, "add");
	p = make_pair();
	EXPECT(cu.LaunchKernel(f, 4, 1, 1, 32, 1, 1, 0, stream, arguments, NULL) == 1);
	exit(0);
}

/* An argument of eight bytes in a slot that an earlier launch used: the caller writes only four bytes of it. */
static void narrow_slot(void)
{
	union { int64_t wide; int narrow; uint64_t at; float by; } slots[4];
	void *f, *arguments[4];
	struct pair p;

	begin();
	f = function_of(add_text, "add");
	p = make_pair();
	for (int round = 0; round < 2; round++) {
		for (int k = 0; k < 4; k++)
			arguments[k] = &slots[k];
		slots[1].at = p.a;
		slots[2].at = p.b;
		slots[3].by = 1;
		if (round)
			slots[0].narrow = N;
		else
			slots[0].wide = N;
		EXPECT(cu.LaunchKernel(f, 4, 1, 1, 32, 1, 1, 0, stream, arguments, NULL) == round);
	}
	exit(0);
}

static void one_argument_less(void)
{
	int64_t n = N;
	struct pair p;
	void *f, *arguments[] = { &n, &p.a, &p.b, NULL };

	begin();
	f = function_of(add_text, "add");
	p = make_pair();
	EXPECT(cu.LaunchKernel(f, 4, 1, 1, 32, 1, 1, 0, stream, arguments, NULL) == 1);
	exit(0);
}

static void shifted_arguments(void)
{
	int64_t n = N;
	float by = 1;
	struct pair p;
	void *f, *arguments[] = { &p.a, &n, &p.b, &by };

	begin();
	f = function_of(add_text, "add");
	p = make_pair();
	EXPECT(cu.LaunchKernel(f, 4, 1, 1, 32, 1, 1, 0, stream, arguments, NULL) == 1);
	exit(0);
}

/* Addresses in a structure: of allocated memory, beside an integer that is no address; and of freed memory. */
static void pointers_within(void)
{
	static const char text[] = "struct pair { const float *a; long long n; float *b; };\nstruct pairs { struct pair of[2]; };\n"
		"extern \"C\" __global__ void k(const struct pairs pairs)\n{\n\tconst struct pair p = pairs.of[threadIdx.x];\n\n"
		"\tp.b[p.n] = p.a[3 - p.n];\n}\n";
	struct { uint64_t a; int64_t n; uint64_t b; } pairs[2], given[2];
	void *f, *arguments[] = { given };
	struct pair p;

	begin();
	f = function_of(text, "k");
	p = make_pair();
	for (int k = 0; k < 2; k++) {
		pairs[k].a = p.a;
		pairs[k].n = k;
		pairs[k].b = p.b;
	}
	memcpy(given, pairs, sizeof given);
	CHECK(cu.LaunchKernel(f, 1, 1, 1, 2, 1, 1, 0, stream, arguments, NULL));
	CHECK(cu.MemcpyDtoHAsync_v2(host, p.b, 2 * sizeof *host, stream));
	free_pair(p);
	EXPECT(host[0] == 3 && host[1] == 2);
	memcpy(given, pairs, sizeof given);
	arguments[0] = given;
	EXPECT(cu.LaunchKernel(f, 1, 1, 1, 2, 1, 1, 0, stream, arguments, NULL) == 1);
	end();
}

static void test_arguments(void **state)
{
	static const struct trial trials[] = {
		{ "an argument of half the width", narrow_argument, "add: argument 0, of 8 bytes, runs into argument 3", 0 },
		{ "half an argument", narrow_slot, "add: argument 0, of 8 bytes, is 0xa5a5a5a500000064: was it given as a narrower one?", 0 },
		{ "an argument less", one_argument_less, "add: argument 3 of 4: no 4 bytes at (nil)", 0 },
		{ "arguments in another order", shifted_arguments, "add: argument", 0 },
		{ "pointers in a structure", pointers_within, "k: argument 0: 1 bytes at byte 0 of freed 400 bytes", 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- sizes ---- */

static unsigned size[7];                        /* the sizes of a launch: the grid's three, the block's three, the bytes of shared memory */
static int refused_with;
static const char *sized_text = add_text;

static void launch_sized(void)
{
	int64_t n = 0;
	float by = 1;
	struct pair p, given;
	void *f, *arguments[] = { &n, &given.a, &given.b, &by };

	begin();
	f = function_of(sized_text, "add");
	given = p = make_pair();
	EXPECT(cu.LaunchKernel(f, size[0], size[1], size[2], size[3], size[4], size[5], size[6], stream, arguments, NULL) == refused_with);
	free_pair(p);
	end();
}

static void test_sizes(void **state)
{
	static const struct { unsigned size[7]; int code; const char *report; } rows[] = {
		{ { 1, 65535, 1, 1, 1, 1, 0 }, 0, NULL }, { { 1, 1, 1, 1024, 1, 1, 49152 }, 0, NULL },
		{ { 1, 65536, 1, 1, 1, 1, 0 }, 1, "grid 1 65536 1, block 1 1 1: more than a device has" },
		{ { 1, 1, 65536, 1, 1, 1, 0 }, 1, "more than a device has" }, { { 0x80000000, 1, 1, 1, 1, 1, 0 }, 1, "more than a device has" },
		{ { 0, 1, 1, 1, 1, 1, 0 }, 1, "a size of none" }, { { 1, 1, 1, 1, 0, 1, 0 }, 1, "a size of none" },
		{ { 1, 1, 1, 1025, 1, 1, 0 }, 1, "more than a device has" }, { { 1, 1, 1, 1, 1, 65, 0 }, 1, "more than a device has" },
		{ { 1, 1, 1, 512, 2, 2, 0 }, 1, "blocks of 2048 threads, 1024 at most" },
		{ { 1, 1, 1, 1, 1, 1, 49153 }, 1, "49153 bytes of shared memory beside its own" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		struct trial t = { "sizes", launch_sized, rows[k].report, 0 };

		memcpy(size, rows[k].size, sizeof size);
		refused_with = rows[k].code;
		run_trials(&t, 1);
	}
}

static void test_bounds(void **state)
{
	static const struct trial bound = { "launch bounds", launch_sized, "add: blocks of 33 threads, 32 at most", 0 };

	(void)state;
	sized_text = "enum { MOST = 32 };\nextern \"C\" __global__ __launch_bounds__(MOST)\n"
	             "void add(long long n, const float *a, float *b, float by)\n{\n\tif (n)\n\t\tb[0] = a[0] + by;\n}\n";
	memcpy(size, (unsigned[]){ 1, 1, 1, 33, 1, 1, 0 }, sizeof size);
	refused_with = 701;
	run_trials(&bound, 1);
	sized_text = add_text;
}

static void much_shared(void)
{
	static const char *const options[] = { "-arch=sm_86" };
	char *log, *image;
	void *module;

	begin();
	image = image_of(K("__shared__ float t[12289]; t[threadIdx.x] = a[0]; __syncthreads(); b[0] = t[5];"), 1, options, &log);
	EXPECT(image && cu.ModuleLoadData(&module, image) == 200);
	free(image);
	free(log);
	end();
}

static void test_shared(void **state)
{
	static const struct trial trials[] = {
		{ "too much shared memory", much_shared, "cuModuleLoadData: 49156 bytes of shared memory, 49152 at most", 0 },
	};

	(void)state;
	RUN(trials);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_barriers), cmocka_unit_test(test_accesses), cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_sizes), cmocka_unit_test(test_bounds), cmocka_unit_test(test_shared),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("launches on the stand-ins", tests, NULL, NULL);
}
