/*
 * Builds OpenCL texts, one program each, on the first device of the first platform that has one; nothing is run.  The library
 * is found at run time, so that this compiles everywhere; what is declared of it here is what the standard says of it.
 *
 *	compile_opencl FILE...     exit 0: all were built; 1: some were not, their logs are printed; 77: there is no device
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CL_PLATFORM_NAME = 0x0902, CL_DEVICE_NAME = 0x102b, CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032, CL_PROGRAM_BUILD_LOG = 0x1183
};
#define CL_DEVICE_TYPE_ALL 0xffffffffu

static const char flags[] = "-cl-std=CL1.2 -cl-denorms-are-zero -Werror";

static int (*get_platforms)(unsigned, void **, unsigned *);
static int (*platform_info)(void *, unsigned, size_t, void *, size_t *);
static int (*get_devices)(void *, uint64_t, unsigned, void **, unsigned *);
static int (*device_info)(void *, unsigned, size_t, void *, size_t *);
static void *(*create_context)(const intptr_t *, unsigned, void *const *, void *, void *, int *);
static void *(*create_program)(void *, unsigned, const char **, const size_t *, int *);
static int (*build_program)(void *, unsigned, void *const *, const char *, void *, void *);
static int (*build_info)(void *, void *, unsigned, size_t, void *, size_t *);
static int (*create_kernels)(void *, unsigned, void **, unsigned *);
static int (*release_kernel)(void *);
static int (*release_program)(void *);

static const struct { const char *name; void *at; } calls[] = {
	{ "clGetPlatformIDs", &get_platforms },          { "clGetPlatformInfo", &platform_info },
	{ "clGetDeviceIDs", &get_devices },              { "clGetDeviceInfo", &device_info },
	{ "clCreateContext", &create_context },          { "clCreateProgramWithSource", &create_program },
	{ "clBuildProgram", &build_program },            { "clGetProgramBuildInfo", &build_info },
	{ "clCreateKernelsInProgram", &create_kernels }, { "clReleaseKernel", &release_kernel },
	{ "clReleaseProgram", &release_program },
};

static int skip(const char *why)
{
	printf("# %s\n", why);
	return 77;
}

static char *text_of(const char *path)
{
	FILE *file = fopen(path, "rb");
	char *text = calloc(1, 1 << 20);

	if (!file || !text || !fread(text, 1, (1 << 20) - 1, file)) {
		printf("# cannot read %s\n", path);
		exit(1);
	}
	fclose(file);
	return text;
}

static int fails(void *context, void *device, const char *path)
{
	char *text = text_of(path), *log = calloc(1, 1 << 16);
	void *program, *kernels[64];
	unsigned n = 0;
	int code = 0;

	program = create_program(context, 1, (const char **)&text, NULL, &code);
	if (!code)
		code = build_program(program, 1, &device, flags, NULL, NULL);
	if (program)
		build_info(program, device, CL_PROGRAM_BUILD_LOG, (1 << 16) - 1, log, NULL);
	if (!code)
		code = create_kernels(program, 64, kernels, &n);
	if (code || !n || strstr(log, "warning"))
		printf("# %s: error %d, %u kernels\n%s\n", path, code, n, log);
	else
		n += 1000;
	for (unsigned k = 0; k < n % 1000; k++)
		release_kernel(kernels[k]);
	if (program)
		release_program(program);
	free(text);
	free(log);
	return n < 1000;
}

int main(int argc, char **argv)
{
	void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *platforms[8], *device = NULL, *context;
	char platform[200] = "", name[200] = "";
	unsigned n = 0, count = 0;
	uint64_t doubles = 0;
	int failed = 0, left = 0, code = 0;

	if (!library)
		return skip("there is no libOpenCL.so.1");
	for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
		void *call = dlsym(library, calls[k].name);

		if (!call)
			return skip("libOpenCL.so.1 lacks a call of OpenCL 1.2");
		memcpy(calls[k].at, &call, sizeof call);
	}
	if (get_platforms(8, platforms, &n))
		n = 0;
	for (unsigned k = 0; k < n && k < 8 && !device; k++)
		if (!get_devices(platforms[k], CL_DEVICE_TYPE_ALL, 1, &device, &count) && count)
			platform_info(platforms[k], CL_PLATFORM_NAME, sizeof platform - 1, platform, NULL);
		else
			device = NULL;
	if (!device)
		return skip("no OpenCL platform has a device");
	device_info(device, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
	device_info(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof doubles, &doubles, NULL);
	context = create_context(NULL, 1, &device, NULL, NULL, &code);
	if (!context)
		return skip("the OpenCL device gives no context");
	for (int k = 1; k < argc; k++)
		if (!doubles && strstr(argv[k], "_f64_"))
			left++;
		else
			failed += fails(context, device, argv[k]);
	printf("# %s, %s: %d built, %d not, %d left out for want of f64\n", platform, name, argc - 1 - left - failed, failed, left);
	return failed != 0;
}
