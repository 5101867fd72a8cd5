/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/fake/stand_in.h"

struct cu cu;
struct nvrtc nvrtc;
void *context, *stream;
static void *modules[8];
static int n_modules;

void expect(int is_so, const char *what, const char *file, int line)
{
	if (is_so)
		return;
	fprintf(stderr, "# %s:%d: not so: %s\n", file, line, what);
	_exit(2);
}

void *load_library(const char *soname)
{
	void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		fprintf(stderr, "# %s; is this run by tests/fake/run?\n", dlerror());
	EXPECT(library);
	return library;
}

void find(void *library, const char *prefix, const char *name, void *to)
{
	char whole[64];
	void *call;

	snprintf(whole, sizeof whole, "%s%s", prefix, name);
	call = dlsym(library, whole);
	memcpy(to, &call, sizeof call);
}

void load_libraries(void)
{
	void *driver = load_library("libcuda.so.1"), *compiler;
	const char *version = getenv("CELLGRAD_FAKE_CUDA");

	compiler = load_library(!version || !strncmp(version, "13", 2) ? "libnvrtc.so.13"
	                        : !strncmp(version, "12", 2)           ? "libnvrtc.so.12"
	                                                               : "libnvrtc.so.11.2");
#define CU(name) find(driver, "cu", #name, &cu.name);
	CU(Init) CU(DeviceGet) CU(DeviceGetAttribute) CU(DevicePrimaryCtxRetain) CU(DevicePrimaryCtxRelease_v2)
	CU(CtxPushCurrent_v2) CU(CtxPopCurrent_v2) CU(CtxGetDevice) CU(StreamCreate) CU(StreamDestroy_v2) CU(StreamSynchronize)
	CU(StreamIsCapturing) CU(StreamBeginCapture_v2) CU(StreamEndCapture) CU(GraphDestroy) CU(MemAlloc_v2) CU(MemFree_v2)
	CU(MemAllocAsync) CU(MemFreeAsync) CU(PointerGetAttribute)
	CU(MemGetAddressRange_v2) CU(MemcpyHtoDAsync_v2) CU(MemcpyDtoHAsync_v2) CU(MemsetD8Async) CU(ModuleLoadData)
	CU(ModuleUnload) CU(ModuleGetFunction) CU(FuncGetAttribute) CU(LaunchKernel) CU(GetErrorName)
#undef CU
#define NVRTC(name) find(compiler, "nvrtc", #name, &nvrtc.name);
	NVRTC(Version) NVRTC(GetNumSupportedArchs) NVRTC(GetSupportedArchs) NVRTC(CreateProgram) NVRTC(DestroyProgram)
	NVRTC(CompileProgram) NVRTC(GetCUBINSize) NVRTC(GetCUBIN) NVRTC(GetPTXSize) NVRTC(GetPTX) NVRTC(GetProgramLogSize)
	NVRTC(GetProgramLog)
#undef NVRTC
}

void begin(void)
{
	load_libraries();
	CHECK(cu.Init(0));
	CHECK(cu.DevicePrimaryCtxRetain(&context, 0));
	CHECK(cu.CtxPushCurrent_v2(context));
	CHECK(cu.StreamCreate(&stream, 1));
}

void end(void)
{
	while (n_modules)
		CHECK(cu.ModuleUnload(modules[--n_modules]));
	CHECK(cu.StreamDestroy_v2(stream));
	CHECK(cu.CtxPopCurrent_v2(NULL));
	CHECK(cu.DevicePrimaryCtxRelease_v2(0));
}

char *image_of(const char *text, int n, const char *const *options, char **log)
{
	void *program;
	char *image = NULL;
	size_t bytes;

	CHECK(nvrtc.CreateProgram(&program, text, "trial.cu", 0, NULL, NULL));
	if (!nvrtc.CompileProgram(program, n, options)) {
		CHECK(nvrtc.GetCUBINSize(program, &bytes));
		if (bytes) {
			image = malloc(bytes);
			CHECK(nvrtc.GetCUBIN(program, image));
		} else {
			CHECK(nvrtc.GetPTXSize(program, &bytes));
			image = malloc(bytes);
			CHECK(nvrtc.GetPTX(program, image));
		}
	}
	CHECK(nvrtc.GetProgramLogSize(program, &bytes));
	*log = malloc(bytes);
	CHECK(nvrtc.GetProgramLog(program, *log));
	CHECK(nvrtc.DestroyProgram(&program));
	return image;
}

void *function_of(const char *text, const char *name)
{
	static const char *const options[] = { "--gpu-architecture=sm_86", "-fmad=false", "-ftz=true" };
	void *function;
	char *log, *image = image_of(text, 3, options, &log);

	if (!image)
		fprintf(stderr, "%s\n", log);
	EXPECT(image);
	CHECK(cu.ModuleLoadData(&modules[n_modules++], image));
	CHECK(cu.ModuleGetFunction(&function, modules[n_modules - 1], name));
	free(image);
	free(log);
	return function;
}

/* ---- kernels ---- */

const char add_text[] =
	"extern \"C\" __global__ void add(long long n, const float *a, float *b, float by)\n"
	"{\n"
	"	long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
	"\n"
	"	if (k < n)\n"
	"		b[k] = a[k] + by;\n"
	"}\n";

float host[N];

struct pair make_pair(void)
{
	struct pair p;

	for (int k = 0; k < N; k++)
		host[k] = (float)k;
	CHECK(cu.MemAlloc_v2(&p.a, BYTES));
	CHECK(cu.MemAlloc_v2(&p.b, BYTES));
	CHECK(cu.MemcpyHtoDAsync_v2(p.a, host, BYTES, stream));
	return p;
}

void free_pair(struct pair p)
{
	CHECK(cu.StreamSynchronize(stream));
	CHECK(cu.MemFree_v2(p.a));
	CHECK(cu.MemFree_v2(p.b));
}

int launch_add(void *f, int64_t n, struct pair p, float by)
{
	void *arguments[] = { &n, &p.a, &p.b, &by };

	return cu.LaunchKernel(f, 4, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}

void turn_by(const char *text, int expected)
{
	uint64_t a, b, from, to;
	float tiles[128];
	void *f, *arguments[] = { &from, &to };

	begin();
	f = function_of(text, "turn");
	for (int k = 0; k < 128; k++)
		tiles[k] = (float)k;
	CHECK(cu.MemAlloc_v2(&a, sizeof tiles));
	CHECK(cu.MemAlloc_v2(&b, sizeof tiles));
	CHECK(cu.MemcpyHtoDAsync_v2(a, tiles, sizeof tiles, stream));
	CHECK(cu.StreamSynchronize(stream));
	from = a;
	to = b;
	CHECK(cu.LaunchKernel(f, 1, 1, 1, 8, 8, 1, 0, stream, arguments, NULL));
	EXPECT(cu.StreamSynchronize(stream) == expected);
	if (expected)
		exit(0);
	CHECK(cu.MemcpyDtoHAsync_v2(tiles, b, sizeof tiles, stream));
	CHECK(cu.StreamSynchronize(stream));
	for (int k = 0; k < 128; k++)
		EXPECT(tiles[k] == (float)(k / 64 * 64 + k % 8 * 8 + k / 8 % 8));
	CHECK(cu.MemFree_v2(a));
	CHECK(cu.MemFree_v2(b));
	end();
}

/* ---- trials ---- */

/* The stand-ins write the report of the trial's process to a file in memory, which is in no folder. */
static void run_trial(const struct trial *t)
{
	static char report[8192], path[40];
	int file = memfd_create("report", 0), status = 0;
	ssize_t n;
	pid_t child;

	assert_true(file >= 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		setenv("CELLGRAD_FAKE_REPORT", path, 1);
		t->act();
		exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	n = pread(file, report, sizeof report - 1, 0);
	report[n > 0 ? n : 0] = 0;
	close(file);
	if (t->signal ? !WIFSIGNALED(status) || WTERMSIG(status) != t->signal : !WIFEXITED(status) || WEXITSTATUS(status))
		fail_msg("%s: ended with %#x; reported: %s", t->name, (unsigned)status, report);
	if (t->report ? !strstr(report, t->report) : *report)
		fail_msg("%s: expected '%s' in the report, got '%s'", t->name, t->report ? t->report : "", report);
}

void run_trials(const struct trial *trials, size_t n)
{
	for (size_t k = 0; k < n; k++)
		run_trial(trials + k);
}
