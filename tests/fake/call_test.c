/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the stand-ins for the driver and for NVRTC: wrong ones are reported, and failing ones return their codes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/fake/stand_in.h"

/* ---- contexts, streams, modules ---- */

static void no_context(void)
{
	uint64_t at;

	load_libraries();
	EXPECT(cu.StreamCreate(&stream, 0) == 3);
	CHECK(cu.Init(0));
	EXPECT(cu.StreamCreate(&stream, 0) == 201 && cu.MemAlloc_v2(&at, 4) == 201);
	CHECK(cu.DevicePrimaryCtxRetain(&context, 0));
	EXPECT(cu.MemAlloc_v2(&at, 4) == 201);
	CHECK(cu.DevicePrimaryCtxRelease_v2(0));
}

static void no_device(void)
{
	int n;

	load_libraries();
	setenv("CELLGRAD_FAKE_DEVICES", "0", 1);
	EXPECT(cu.Init(0) == 100);
	setenv("CELLGRAD_FAKE_DEVICES", "2", 1);
	setenv("CELLGRAD_FAKE_ARCH", "121", 1);
	CHECK(cu.Init(0));
	CHECK(cu.DeviceGet(&n, 1));
	EXPECT(cu.DeviceGet(&n, 2) == 101);
	CHECK(cu.DeviceGetAttribute(&n, 75, 1));
	EXPECT(n == 12);
	CHECK(cu.DeviceGetAttribute(&n, 76, 1));
	EXPECT(n == 1);
}

static void context_left(void)
{
	load_libraries();
	CHECK(cu.Init(0));
	CHECK(cu.DevicePrimaryCtxRetain(&context, 0));
}

static void stream_left(void)
{
	void *other;

	begin();
	CHECK(cu.StreamCreate(&other, 0));
	end();
}

static void program_left(void)
{
	void *program;

	load_libraries();
	CHECK(cu.Init(0));
	CHECK(nvrtc.CreateProgram(&program, "", NULL, 0, NULL, NULL));
}

static void work_left(void)
{
	struct pair p;

	begin();
	p = make_pair();
	CHECK(cu.StreamSynchronize(stream));
	for (int k = 0; k < 100; k++)
		CHECK(cu.MemcpyHtoDAsync_v2(p.a, host, BYTES, stream));
	CHECK(cu.CtxPopCurrent_v2(NULL));
	CHECK(cu.DevicePrimaryCtxRelease_v2(0));
}

static void stream_gone(void)
{
	void *other;

	begin();
	CHECK(cu.StreamCreate(&other, 0));
	CHECK(cu.StreamDestroy_v2(other));
	EXPECT(cu.StreamSynchronize(other) == 400);
	end();
}

static void no_stream(void)
{
	begin();
	EXPECT(cu.StreamSynchronize(&stream) == 400);
	end();
}

static void popped_twice(void)
{
	void *was;

	begin();
	CHECK(cu.CtxPopCurrent_v2(&was));
	EXPECT(was == context && cu.CtxPopCurrent_v2(&was) == 201);
	CHECK(cu.CtxPushCurrent_v2(context));
	end();
}

/* With the context of a second device, memory and a stream of the first device are not accepted. */
static void stranger(void)
{
	struct pair p;
	void *other;

	setenv("CELLGRAD_FAKE_DEVICES", "2", 1);
	begin();
	p = make_pair();
	CHECK(cu.StreamSynchronize(stream));
	CHECK(cu.DevicePrimaryCtxRetain(&other, 1));
	CHECK(cu.CtxPushCurrent_v2(other));
	EXPECT(cu.MemcpyHtoDAsync_v2(p.a, host, BYTES, NULL) == 1);
	EXPECT(cu.StreamSynchronize(stream) == 400);
	EXPECT(cu.MemFree_v2(p.a) == 1);
	CHECK(cu.CtxPopCurrent_v2(NULL));
	CHECK(cu.DevicePrimaryCtxRelease_v2(1));
	free_pair(p);
	end();
}

static void unloaded_early(void)
{
	static const char *const options[] = { "-arch=sm_86" };

	begin();
	for (int k = 0; k < 40; k++) {
		struct pair p = make_pair();
		char *log, *image = image_of(add_text, 1, options, &log);
		void *module, *f;

		CHECK(cu.ModuleLoadData(&module, image));
		free(image);
		free(log);
		CHECK(cu.ModuleGetFunction(&f, module, "add"));
		CHECK(launch_add(f, N, p, 1));
		if (cu.ModuleUnload(module))
			exit(0);
		free_pair(p);
	}
	exit(0);
}

static void forked(void)
{
	int status;

	begin();
	if (!fork()) {
		uint64_t at;

		_exit(cu.MemAlloc_v2(&at, 4) == 3 && cu.Init(0) == 3 ? 0 : 1);
	}
	EXPECT(wait(&status) > 0 && !status);
	end();
}

static void captured(void)
{
	unsigned status;
	uint64_t at;

	begin();
	setenv("CELLGRAD_FAKE_CAPTURE", "1", 1);
	CHECK(cu.StreamIsCapturing(stream, &status));
	EXPECT(status == 1 && cu.StreamSynchronize(stream) == 900 && cu.MemAlloc_v2(&at, 4) == 900);
	unsetenv("CELLGRAD_FAKE_CAPTURE");
	end();
}

/* Captures a stream in `mode`, and in the capture allocates memory, or waits for the stream; `spoils`: this call fails, and invalidates the
   capture. */
static void spoilt_by(unsigned mode, int waits, int spoils)
{
	void *graph = NULL;
	uint64_t at = 0;

	begin();
	CHECK(cu.StreamBeginCapture_v2(stream, mode));
	EXPECT((waits ? cu.StreamSynchronize(stream) : cu.MemAlloc_v2(&at, 4)) == (spoils ? 900 : 0));
	EXPECT(cu.StreamEndCapture(stream, &graph) == (spoils ? 901 : 0) && (graph == NULL) == spoils);
	if (graph)
		CHECK(cu.GraphDestroy(graph));
	if (at)
		CHECK(cu.MemFree_v2(at));
	end();
}

static void spoilt_global(void)
{
	spoilt_by(0, 0, 1);
}

static void spoilt_thread_local(void)
{
	spoilt_by(1, 0, 1);
}

static void not_spoilt_relaxed(void)
{
	spoilt_by(2, 0, 0);
}

static void spoilt_relaxed(void)
{
	spoilt_by(2, 1, 1);
}

static void asked_of_pointers(void)
{
	struct pair p;
	uint64_t pool, start;
	void *of;
	int ordinal;
	size_t bytes;

	begin();
	p = make_pair();
	CHECK(cu.MemAllocAsync(&pool, 40, stream));
	CHECK(cu.PointerGetAttribute(&of, 1, p.a + 8));
	EXPECT(of == context);
	CHECK(cu.PointerGetAttribute(&of, 1, pool));
	EXPECT(!of);
	CHECK(cu.PointerGetAttribute(&ordinal, 9, pool));
	EXPECT(!ordinal && cu.PointerGetAttribute(&of, 1, (uintptr_t)host) == 1 && cu.PointerGetAttribute(&of, 1, p.a + BYTES) == 1);
	CHECK(cu.MemGetAddressRange_v2(&start, &bytes, p.a + 8));
	EXPECT(start == p.a && bytes == BYTES);
	CHECK(cu.MemFreeAsync(pool, stream));
	free_pair(p);
	end();
}

static void test_handles(void **state)
{
	static const struct trial trials[] = {
		{ "no context", no_context, NULL, 0 }, { "no device", no_device, NULL, 0 }, { "a forked child", forked, NULL, 0 },
		{ "what pointers are", asked_of_pointers, NULL, 0 },
		{ "a context left", context_left, "at exit: the context of device 0 was not released (1 times retained)", 0 },
		{ "a stream left", stream_left, "cuDevicePrimaryCtxRelease: 1 streams were not destroyed", 0 },
		{ "a program left", program_left, "at exit: 1 programs of NVRTC were not destroyed", 0 },
		{ "work left", work_left, "cuDevicePrimaryCtxRelease: work of the context was never waited for", 0 },
		{ "a stream that is gone", stream_gone, "cuStreamSynchronize: got a stream that was destroyed", 0 },
		{ "no stream", no_stream, "is not a stream", 0 }, { "popped twice", popped_twice, "cuCtxPopCurrent: there is none", 0 },
		{ "memory of another context", stranger, "cuMemcpyHtoDAsync: the device's side: memory of another context", 0 },
		{ "a stream of another context", stranger, "cuStreamSynchronize: the stream is of another context", 0 },
		{ "memory of another device", stranger, "cuMemFree: memory of another device", 0 },
		{ "a module unloaded early", unloaded_early, "cuModuleUnload: a kernel of it is still to run", 0 },
		{ "memory in a capture", spoilt_global, "cuMemAlloc: not permitted while a stream is captured", 0 },
		{ "memory in a capture of the thread", spoilt_thread_local, "cuMemAlloc: not permitted while a stream is captured", 0 },
		{ "memory in a relaxed capture", not_spoilt_relaxed, NULL, 0 },
		{ "a wait in a capture", spoilt_relaxed, "cuStreamSynchronize: of a stream that is captured", 0 },
		{ "a wait while captured", captured, "cuStreamSynchronize: not permitted while a stream is captured", 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- failing on request ---- */

static void fails_by_name(void)
{
	uint64_t at;

	begin();
	setenv("CELLGRAD_FAKE_FAIL", "cuMemAlloc_v2:2:2,cuStreamSync*:1", 1);
	CHECK(cu.MemAlloc_v2(&at, 4));
	CHECK(cu.MemFree_v2(at));
	EXPECT(cu.MemAlloc_v2(&at, 4) == 2);
	CHECK(cu.MemAlloc_v2(&at, 4));
	CHECK(cu.MemFree_v2(at));
	EXPECT(cu.StreamSynchronize(stream) == 999);
	CHECK(cu.StreamSynchronize(stream));
	end();
}

static void fails_by_number(void)
{
	uint64_t at;

	begin();
	setenv("CELLGRAD_FAKE_FAIL", "2", 1);
	CHECK(cu.MemAlloc_v2(&at, 4));
	EXPECT(cu.MemFree_v2(at) == 999);
	CHECK(cu.MemFree_v2(at));
	end();
}

static void loses_context(void)
{
	const char *name;

	begin();
	setenv("CELLGRAD_FAKE_FAIL", "cuStreamSynchronize:1:719", 1);
	EXPECT(cu.StreamSynchronize(stream) == 719 && cu.StreamSynchronize(stream) == 719);
	EXPECT(cu.StreamDestroy_v2(stream) == 719 && !cu.GetErrorName(719, &name) && !strcmp(name, "CUDA_ERROR_LAUNCH_FAILED"));
	exit(0);
}

static void fails_to_compile(void)
{
	void *program;

	load_libraries();
	setenv("CELLGRAD_FAKE_FAIL", "nvrtcCompileProgram:1:1", 1);
	CHECK(nvrtc.CreateProgram(&program, add_text, NULL, 0, NULL, NULL));
	EXPECT(nvrtc.CompileProgram(program, 0, NULL) == 1);
	CHECK(nvrtc.CompileProgram(program, 0, NULL));
	CHECK(nvrtc.DestroyProgram(&program));
}

static void test_failures(void **state)
{
	static const struct trial trials[] = {
		{ "by name", fails_by_name, NULL, 0 }, { "by number", fails_by_number, NULL, 0 },
		{ "a lost context", loses_context, "at exit: the context of device 0 was not released", 0 },
		{ "NVRTC", fails_to_compile, NULL, 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- NVRTC ---- */

static void expect_log(const char *text, const char *option, const char *expected)
{
	char *log, *image = image_of(text, option != NULL, &option, &log);

	EXPECT(!image);
	if (!strstr(log, expected))
		fprintf(stderr, "# expected '%s' in: %s\n", expected, log);
	EXPECT(strstr(log, expected));
	free(log);
}

static void refused(void)
{
	load_libraries();
	expect_log(add_text, "--ftz=maybe", "--ftz=maybe");
	expect_log(add_text, "-O3", "-O3");
	expect_log(add_text, "-arch=sm_52", "-arch=sm_52");
	expect_log(add_text, "-arch=sm_86x", "-arch=sm_86x");
	expect_log("\n\nvoid f() { undeclared(1); }\n", NULL, "trial.cu:3");
	expect_log("#include <stdio.h>\n", NULL, "stdio.h");
	setenv("CELLGRAD_FAKE_CUDA", "11.8", 1);
	expect_log(add_text, "-arch=sm_100", "-arch=sm_100");
}

static int loads(const char *option, const char *arch, const char *driver, int damage)
{
	char *log, *image = image_of(add_text, 1, &option, &log);
	void *module;
	int code;

	EXPECT(image);
	setenv("CELLGRAD_FAKE_ARCH", arch, 1);
	setenv("CELLGRAD_FAKE_DRIVER", driver, 1);
	image[200] ^= (char)damage;
	code = cu.ModuleLoadData(&module, image);
	free(image);
	free(log);
	if (!code)
		CHECK(cu.ModuleUnload(module));
	return code;
}

static void images(void)
{
	begin();
	EXPECT(loads("-arch=sm_80", "80", "13000", 0) == 0 && loads("-arch=sm_80", "86", "13000", 0) == 0);
	EXPECT(loads("-arch=sm_80", "75", "13000", 0) == 209 && loads("-arch=sm_80", "90", "13000", 0) == 209);
	EXPECT(loads("-arch=compute_80", "90", "13000", 0) == 0 && loads("-arch=compute_80", "75", "13000", 0) == 209);
	EXPECT(loads("-arch=compute_80", "90", "12080", 0) == 222 && loads("-arch=sm_80", "80", "12080", 0) == 0);
	EXPECT(loads("-arch=sm_80", "80", "13000", 1) == 200 && loads("-arch=compute_80", "80", "13000", 1) == 200);
	end();
}

static int archs(const char *version)
{
	int n, list[64];

	setenv("CELLGRAD_FAKE_CUDA", version, 1);
	CHECK(nvrtc.GetNumSupportedArchs(&n));
	EXPECT(n < 64);
	CHECK(nvrtc.GetSupportedArchs(list));
	return list[n - 1] * 1000 + list[0];
}

static void versions(void)
{
	int major, minor;

	load_libraries();
	EXPECT(archs("11.0") == 80035 && archs("12.0") == 90050 && archs("12.8") == 120050 && archs("13.0") == 121075);
	CHECK(nvrtc.Version(&major, &minor));
	EXPECT(major == 13 && minor == 0);
}

/* Can compiled kernels use fused multiply-add? On x86-64 compiled kernels can fuse if the processor has FMA and AVX2; on other processors
   the test expects that they can. */
static int has_fma(void)
{
#if defined __x86_64__
	return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
#else
	return 1;
#endif
}

/* a[0] * a[0] + a[1] is fused only without -fmad=false; a subnormal is flushed only with -ftz=true. */
static void arithmetic(void)
{
	static const char text[] =
		"extern \"C\" __global__ void k(const float *a, float *b)\n{\n\tfloat p = a[0] * a[0];\n\n\tb[0] = p + a[1];\n"
		"\tb[1] = a[2] * 0.5f;\n}\n";
	static const char *const options[] = { "-arch=sm_86", "-fmad=false", "-ftz=true" };

	begin();
	for (int n = 1; n <= 3; n++) {
		struct pair p = make_pair();
		char *log, *image = image_of(text, n, options, &log);
		uint64_t a = p.a, b = p.b;
		void *module, *f, *arguments[] = { &a, &b };

		host[0] = 1 + 0x1p-20f;
		host[1] = -1 - 0x1p-19f;
		host[2] = 0x1p-126f;
		CHECK(cu.MemcpyHtoDAsync_v2(p.a, host, 12, stream));
		CHECK(cu.ModuleLoadData(&module, image));
		CHECK(cu.ModuleGetFunction(&f, module, "k"));
		CHECK(cu.LaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
		CHECK(cu.MemcpyDtoHAsync_v2(host, p.b, 8, stream));
		CHECK(cu.StreamSynchronize(stream));
		EXPECT((n == 1 && has_fma() ? 0x1p-40f : 0) == host[0]);
		EXPECT((n == 3 ? 0 : 0x1p-127f) == host[1]);
		CHECK(cu.ModuleUnload(module));
		free_pair(p);
		free(image);
		free(log);
	}
	end();
}

static void no_name(void)
{
	static const char *const options[] = { "-arch=sm_86" };
	char *log, *image;
	void *module, *f;

	begin();
	image = image_of("/* __global__ void no(int) */ __global__ void decorated(int) {}\n", 1, options, &log);
	CHECK(cu.ModuleLoadData(&module, image));
	EXPECT(cu.ModuleGetFunction(&f, module, "decorated") == 500 && cu.ModuleGetFunction(&f, module, "no") == 500);
	CHECK(cu.ModuleUnload(module));
	free(image);
	free(log);
	end();
}

static void test_nvrtc(void **state)
{
	static const struct trial trials[] = {
		{ "what NVRTC refuses", refused, NULL, 0 }, { "images and devices", images, NULL, 0 }, { "versions", versions, NULL, 0 },
		{ "fused unless -fmad=false, flushed if -ftz=true", arithmetic, NULL, 0 }, { "a kernel with a decorated name", no_name, NULL, 0 },
	};

	(void)state;
	RUN(trials);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_handles), cmocka_unit_test(test_failures), cmocka_unit_test(test_nvrtc),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("calls of the stand-ins", tests, NULL, NULL);
}
