/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-ins for CUDA's libraries accept right calls and report wrong ones: each trial runs in a process of its own, whose report is
 * compared with the expected one. Run it by tests/fake/run.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fake/stand_in.h"

/* ---- what is right ---- */

static void add_rightly(void)
{
	struct pair p;
	void *f;

	begin();
	f = function_of(add_text, "add");
	p = make_pair();
	CHECK(launch_add(f, N, p, 0.5f));
	CHECK(cu.MemcpyDtoHAsync_v2(host, p.b, BYTES, stream));
	CHECK(cu.StreamSynchronize(stream));
	for (int k = 0; k < N; k++)
		EXPECT(host[k] == (float)k + 0.5f);
	free_pair(p);
	end();
}

static void turn_rightly(void)
{
	turn_by(TURN("tile[k]", "__syncthreads();", "__syncthreads();"), 0);
}

/* The stand-in's cuLaunchKernel copies the arguments, then overwrites the caller's values and array of pointers. */
static void pass_arguments(void)
{
	int64_t n = N;
	float by = 2;
	struct pair p;
	uint64_t a, b;
	void *f, *arguments[] = { &n, &a, &b, &by };

	begin();
	f = function_of(add_text, "add");
	p = make_pair();
	a = p.a;
	b = p.b;
	CHECK(cu.LaunchKernel(f, 4, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
	EXPECT((uint64_t)n == UINT64_C(0xa5a5a5a5a5a5a5a5) && a == (uint64_t)n && (uintptr_t)arguments[3] == a);
	CHECK(cu.MemcpyDtoHAsync_v2(host, p.b, BYTES, stream));
	EXPECT(isnan(host[0]) && isnan(host[N - 1]));
	CHECK(cu.StreamSynchronize(stream));
	EXPECT(host[0] == 2 && host[N - 1] == N + 1);
	free_pair(p);
	end();
}

/* If host memory changes after a copy from it is enqueued, the stand-in copies the changed value in more than 10 of 40 turns. */
static void read_late(void)
{
	int late = 0;

	for (int k = 0; k < 40; k++) {
		struct pair p;

		if (!k)
			begin();
		p = make_pair();
		host[0] = 77;
		CHECK(cu.MemcpyHtoDAsync_v2(p.a, host, 4, stream));
		host[0] = 78;
		CHECK(cu.StreamSynchronize(stream));
		CHECK(cu.MemcpyDtoHAsync_v2(host, p.a, 4, stream));
		CHECK(cu.StreamSynchronize(stream));
		late += host[0] == 78;
		free_pair(p);
	}
	EXPECT(late > 10);
	end();
}

static void order_memory(void)
{
	struct pair p;
	void *f;

	begin();
	f = function_of(add_text, "add");
	for (int k = 0; k < N; k++)
		host[k] = 1;
	CHECK(cu.MemAllocAsync(&p.a, BYTES, stream));
	CHECK(cu.MemAllocAsync(&p.b, BYTES, stream));
	CHECK(cu.MemcpyHtoDAsync_v2(p.a, host, BYTES, stream));
	CHECK(launch_add(f, N, p, 1));
	CHECK(cu.MemFreeAsync(p.a, stream));
	CHECK(cu.MemcpyDtoHAsync_v2(host, p.b, BYTES, stream));
	CHECK(cu.MemFreeAsync(p.b, stream));
	CHECK(cu.StreamSynchronize(stream));
	EXPECT(host[N - 1] == 2);
	end();
}

static void test_right(void **state)
{
	static const struct trial trials[] = {
		{ "a kernel", add_rightly, NULL, 0 }, { "a kernel with barriers", turn_rightly, NULL, 0 },
		{ "arguments are taken at the call", pass_arguments, NULL, 0 }, { "sources are read late", read_late, NULL, 0 },
		{ "memory in the order of a stream", order_memory, NULL, 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- memory ---- */

static void run_past(int64_t n)
{
	struct pair p;
	void *f;

	begin();
	f = function_of(add_text, "add");
	p = make_pair();
	CHECK(launch_add(f, n, p, 1));
	EXPECT(cu.StreamSynchronize(stream) == 700);
	/* The context is lost: later calls that wait, free or launch return 700, too. */
	EXPECT(cu.StreamSynchronize(stream) == 700 && cu.MemFree_v2(p.a) == 700 && launch_add(f, 1, p, 1) == 700);
	exit(0);
}

static void past_the_end(void)
{
	run_past(N + 1);
}

static void past_the_store(void)
{
	uint64_t a, b;
	struct pair p;
	void *f;

	begin();
	f = function_of(add_text, "add");
	p = make_pair();
	CHECK(cu.MemAlloc_v2(&b, BYTES - 4));
	a = p.b, p.b = b;
	CHECK(launch_add(f, N, p, 1));
	EXPECT(cu.StreamSynchronize(stream) == 700 && a);
	exit(0);
}

static void unwritten(void)
{
	struct pair p;
	uint64_t swap;
	void *f;

	begin();
	f = function_of(add_text, "add");
	p = make_pair();
	swap = p.a, p.a = p.b, p.b = swap;
	CHECK(launch_add(f, N, p, 1));
	cu.StreamSynchronize(stream);
	exit(0);
}

static void freed_early(void)
{
	for (int k = 0; k < 40; k++) {
		struct pair p;
		static void *f;

		if (!k) {
			begin();
			f = function_of(add_text, "add");
		}
		p = make_pair();
		CHECK(launch_add(f, N, p, 1));
		if (cu.MemFree_v2(p.b) || cu.StreamSynchronize(stream))
			exit(0);
		CHECK(cu.MemFree_v2(p.a));
	}
	exit(0);
}

static void freed_in_order_then_used(void)
{
	struct pair p;
	void *f;

	begin();
	f = function_of(add_text, "add");
	p = make_pair();
	CHECK(launch_add(f, N, p, 1));
	CHECK(cu.MemFreeAsync(p.a, stream));
	launch_add(f, N, p, 1);
	exit(0);
}

static void freed_twice(void)
{
	struct pair p;

	begin();
	p = make_pair();
	free_pair(p);
	EXPECT(cu.MemFree_v2(p.a) == 1);
	end();
}

static void freed_inside(void)
{
	struct pair p;

	begin();
	p = make_pair();
	EXPECT(cu.MemFree_v2(p.a + 4) == 1);
	free_pair(p);
	end();
}

static void leaked(void)
{
	begin();
	make_pair();
	CHECK(cu.StreamSynchronize(stream));
	end();
}

static void copied_past(void)
{
	struct pair p;

	begin();
	p = make_pair();
	EXPECT(cu.MemcpyHtoDAsync_v2(p.a + 4, host, BYTES, stream) == 1);
	free_pair(p);
	end();
}

static void touched_by_host(void)
{
	struct pair p;

	begin();
	p = make_pair();
	CHECK(cu.StreamSynchronize(stream));
	exit(*(volatile char *)(uintptr_t)p.a);
}

static void host_in_kernel(void)
{
	struct pair p;
	void *f;

	begin();
	f = function_of(add_text, "add");
	p = make_pair();
	p.a = (uint64_t)(uintptr_t)host;
	EXPECT(launch_add(f, N, p, 1) == 1);
	exit(0);
}

static void no_memory(void)
{
	uint64_t at;

	begin();
	setenv("CELLGRAD_FAKE_MEMORY", "1000", 1);
	EXPECT(cu.MemAlloc_v2(&at, 1001) == 2);
	CHECK(cu.MemAlloc_v2(&at, 1000));
	CHECK(cu.MemFree_v2(at));
	end();
}

static void test_wrong_memory(void **state)
{
	static const struct trial trials[] = {
		{ "a load past the end", past_the_end, "add: block 3 0 0, thread 4 0 0: reads byte 0 behind 400 bytes", 0 },
		{ "a store past the end", past_the_store, "add: block 3 0 0, thread 3 0 0: writes byte 0 behind 396 bytes", 0 },
		{ "a load of what was not written", unwritten, "reads what nobody wrote: byte", 0 },
		{ "a free before the end of what uses it", freed_early, "writes freed memory: byte", 0 },
		{ "a use after a free in order", freed_in_order_then_used, "argument 1: 1 bytes at byte 0 of freed 400 bytes", 0 },
		{ "a second free", freed_twice, "cuMemFree: byte 0 of freed 400 bytes: freed a second time", 0 },
		{ "a free of the middle", freed_inside, "cuMemFree: not the beginning of device memory: byte 4 of 400 bytes", 0 },
		{ "a leak", leaked, "cuDevicePrimaryCtxRelease: 800 bytes of device memory in 2 pieces were not freed", 0 },
		{ "a copy past the end", copied_past, "cuMemcpyHtoDAsync: the device's side: 400 bytes at byte 0 behind 400 bytes", 0 },
		{ "a host that reads device memory", touched_by_host, NULL, SIGSEGV },
		{ "a kernel given host memory", host_in_kernel, "add: argument 1: 1 bytes at 0x", 0 },
		{ "a device without room", no_memory, NULL, 0 },
	};

	(void)state;
	RUN(trials);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_right), cmocka_unit_test(test_wrong_memory),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("stand-ins", tests, NULL, NULL);
}
