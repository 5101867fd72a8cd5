#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	CU(StreamIsCapturing) CU(MemAlloc_v2) CU(MemFree_v2) CU(MemAllocAsync) CU(MemFreeAsync) CU(PointerGetAttribute)
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
