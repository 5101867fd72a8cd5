/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds OpenCL texts, one program each, on the first device of the first platform that has one; no kernel is run.  The library
 * is found at run time, so that this program compiles on any machine; the declarations of OpenCL here are those of the standard.
 *
 * A warning is a failure, with two exceptions.  Clang may warn, of a text with vectors wider than the device's, that these are passed to
 * functions in another way than on a device with such vectors; the library gives this device no such text.  And of a text's form
 * for strips, which is built for processors, clang may warn that it has not vectorised a loop, although it vectorises the loop later.
 *
 * On a processor a text that has a form for strips is built in that form, in every second FILE with the macro WHOLE defined.
 *
 *	compile_opencl FILE...     exit 0: all were built but those of f64, if the device has no f64; 1: some were not, their logs are
 *	                           printed; 77: there is no device
 */
#include <dlfcn.h>
#include <stdint.h>

#include "tests/gen/every.h"

enum {
	CL_PLATFORM_NAME = 0x0902, CL_DEVICE_LOCAL_MEM_TYPE = 0x1022, CL_DEVICE_NAME = 0x102b, CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
	CL_LOCAL = 1, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 0x103a, CL_PROGRAM_BUILD_LOG = 0x1183
};
#define CL_DEVICE_TYPE_ALL 0xffffffffu

static const char flags[] = "-cl-std=CL1.2 -cl-denorms-are-zero -Werror";
/* Text before a kernel's text, which makes clang leave out one warning. */
#define SILENT(of) "#ifdef __clang__\n#pragma clang diagnostic ignored \"" of "\"\n#endif\n#line 1\n"
static const char passed_otherwise[] = SILENT("-Wpsabi"), made_late[] = SILENT("-Wpass-failed");

static struct { void *id, *context; char platform[200], name[200]; int vector_bytes, is_processor, doubles; } device;

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

/* Builds a text and makes its kernels; fails, and prints the log, at an error or a warning, or if there is no kernel. */
static int build_fails(const char *before, const char *text, const char *options, const char *path)
{
	const char *texts[] = { before, text };
	char *log = calloc(1, 1 << 16);
	void *program, *kernels[64];
	unsigned n = 0;
	int code = 0, failed;

	program = create_program(device.context, 2, texts, NULL, &code);
	if (!code)
		code = build_program(program, 1, &device.id, options, NULL, NULL);
	if (program)
		build_info(program, device.id, CL_PROGRAM_BUILD_LOG, (1 << 16) - 1, log, NULL);
	if (!code)
		code = create_kernels(program, 64, kernels, &n);
	failed = code || !n || strstr(log, "warning");
	if (failed)
		printf("# %s, %s: error %d, %u kernels\n%s\n", path, options, code, n, log);
	for (unsigned k = 0; k < n; k++)
		release_kernel(kernels[k]);
	if (program)
		release_program(program);
	free(log);
	return failed;
}

/* Builds a text: for a processor and in the form for strips with the macros that backends/opencl/kernel.c defines, among them WHOLE (no
   argument is absent) if `whole` is 1; else without macros. */
static int fails(const char *path, int whole)
{
	int lanes = device.vector_bytes / (strstr(path, "_f64_") ? 8 : 4), failed;
	char *text = text_of(path), options[200];

	if (device.is_processor && strstr(text, "#ifdef STRIP")) {
		snprintf(options, sizeof options, "%s -DSTRIP=1024%s", flags, whole ? " -DWHOLE" : "");
		if (lanes > 1)
			snprintf(options + strlen(options), sizeof options - strlen(options), " -DLANES=%d", lanes);
		failed = build_fails(made_late, text, options, path);
	} else {
		failed = build_fails(vector_bytes_of(text) > device.vector_bytes ? passed_otherwise : "", text, flags, path);
	}
	free(text);
	return failed;
}

/* Opens the first device of the first platform that has one; returns NULL, or a text of what is missing. */
static const char *open_device(void)
{
	void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *platforms[8];
	unsigned n = 0, count = 0, floats = 0, local = 0;
	uint64_t doubles = 0;
	int code = 0;

	if (!library)
		return "there is no libOpenCL.so.1";
	for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
		void *call = dlsym(library, calls[k].name);

		if (!call)
			return "libOpenCL.so.1 lacks a call of OpenCL 1.2";
		memcpy(calls[k].at, &call, sizeof call);
	}
	if (get_platforms(8, platforms, &n))
		n = 0;
	for (unsigned k = 0; k < n && k < 8 && !device.id; k++)
		if (!get_devices(platforms[k], CL_DEVICE_TYPE_ALL, 1, &device.id, &count) && count)
			platform_info(platforms[k], CL_PLATFORM_NAME, sizeof device.platform - 1, device.platform, NULL);
		else
			device.id = NULL;
	if (!device.id)
		return "no OpenCL platform has a device";
	device_info(device.id, CL_DEVICE_NAME, sizeof device.name - 1, device.name, NULL);
	device_info(device.id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof doubles, &doubles, NULL);
	device_info(device.id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof floats, &floats, NULL);
	device_info(device.id, CL_DEVICE_LOCAL_MEM_TYPE, sizeof local, &local, NULL);
	device.doubles = doubles != 0;
	device.vector_bytes = 4 * (int)floats;
	device.is_processor = local != CL_LOCAL;
	device.context = create_context(NULL, 1, &device.id, NULL, NULL, &code);
	return device.context ? NULL : "the OpenCL device gives no context";
}

int main(int argc, char **argv)
{
	const char *missing = open_device();
	int failed = 0, left = 0;

	if (missing) {
		printf("# %s\n", missing);
		return 77;
	}
	for (int k = 1; k < argc; k++)
		if (!device.doubles && strstr(argv[k], "_f64_"))
			left++;
		else
			failed += fails(argv[k], k % 2);
	printf("# %s, %s, vectors of %d bytes: %d built, %d not, %d left out without f64\n", device.platform, device.name,
	       device.vector_bytes, argc - 1 - left - failed, failed, left);
	return failed != 0;
}
