/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, with properties from CELLGRAD_FAKE_ARCH, CELLGRAD_FAKE_MEMORY and other variables, and the texts of errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

int fake_devices(void)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	long n = visible && (!*visible || *visible == '-') ? 0 : fake_setting("DEVICES", 1);

	return n < 0 ? 0 : n > 8 ? 8 : (int)n;
}

static int is_device(int device)
{
	return device >= 0 && device < fake_devices();
}

FAKE_API int cuDriverGetVersion(int *version)
{
	CALL(cuDriverGetVersion, ANY_TIME);
	*version = (int)fake_setting("DRIVER", fake_version());
	return 0;
}

FAKE_API int cuDeviceGetCount(int *n)
{
	CALL(cuDeviceGetCount, NEEDS_INIT);
	*n = fake_devices();
	return 0;
}

FAKE_API int cuDeviceGet(int *device, int i)
{
	CALL(cuDeviceGet, NEEDS_INIT);
	if (!is_device(i))
		return INVALID_DEVICE;
	*device = i;
	return 0;
}

FAKE_API int cuDeviceGetName(char *name, int bytes, int device)
{
	CALL(cuDeviceGetName, NEEDS_INIT);
	if (!is_device(device))
		return INVALID_DEVICE;
	snprintf(name, (size_t)bytes, "stand-in %d%s", device, fake_setting("MIG", 0) ? " MIG 1g.10gb" : "");
	return 0;
}

/* Gives a UUID that depends on the device's number; with CELLGRAD_FAKE_MIG=1 another one, as of a part of a GPU. */
FAKE_API int cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
	CALL(cuDeviceGetUuid_v2, NEEDS_INIT);
	if (!is_device(device))
		return INVALID_DEVICE;
	for (int k = 0; k < 16; k++)
		uuid[k] = (unsigned char)(17 * k + device + (fake_setting("MIG", 0) ? 1 : 0));
	return 0;
}

FAKE_API int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	CALL(cuDeviceTotalMem_v2, NEEDS_INIT);
	if (!is_device(device))
		return INVALID_DEVICE;
	*bytes = (size_t)fake_setting("MEMORY", 4L << 30);
	return 0;
}

/* CELLGRAD_FAKE_ARCH=86 is compute capability 8.6. */
enum { MULTIPROCESSORS = 16, COMPUTE_MODE = 20, ARCH_MAJOR = 75, ARCH_MINOR = 76, POOLS = 115 };
static const struct { unsigned attribute; int value; } attributes[] = {
	{  1, 1024 }, {  2, 1024 }, {  3, 1024 }, {  4, 64 },            /* most threads of a block, in all and in each dimension */
	{  5, 0x7fffffff }, {  6, 65535 }, {  7, 65535 },                /* most blocks of a grid in each dimension */
	{  8, 49152 }, {  9, 65536 }, { 10, 32 }, { 12, 65536 },  /* bytes of shared and of constant memory; threads of a warp; registers */
	{ 13, 1500000 }, { 36, 8000000 }, { 37, 256 },         /* the clocks of the device and of its memory in kHz; width of its bus in bits */
	{ 38, 4 << 20 }, { 39, 2048 }, { 41, 1 },                    /* bytes of L2; most threads of a multiprocessor; 1: unified addressing */
	{ 81, 102400 }, { 97, 101376 },                              /* bytes of shared memory: of a multiprocessor; of a block that opts in */
};

FAKE_API int cuDeviceGetAttribute(int *value, unsigned attribute, int device)
{
	long arch = fake_setting("ARCH", 86);

	CALL(cuDeviceGetAttribute, NEEDS_INIT);
	if (!is_device(device))
		return INVALID_DEVICE;
	switch (attribute) {
	case MULTIPROCESSORS:
		*value = (int)fake_setting("MULTIPROCESSORS", 4);
		return 0;
	case COMPUTE_MODE:
		*value = (int)fake_setting("MODE", 0);
		return 0;
	case ARCH_MAJOR:
		*value = (int)arch / 10;
		return 0;
	case ARCH_MINOR:
		*value = (int)arch % 10;
		return 0;
	case POOLS:
		if (fake_setting("DRIVER", fake_version()) < 11020)
			return INVALID_VALUE;
		*value = (int)fake_setting("POOLS", 1);
		return 0;
	}
	for (size_t k = 0; k < sizeof attributes / sizeof *attributes; k++)
		if (attributes[k].attribute == attribute) {
			*value = attributes[k].value;
			return 0;
		}
	return INVALID_VALUE;
}

/* ---- words ---- */

static const struct { int code; const char *name, *text; } errors[] = {
	{   0, "CUDA_SUCCESS", "no error" },
	{   1, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{   2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{   3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{   4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down" },
	{  34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library" },
	{  46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable" },
	{ 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ 200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid" },
	{ 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ 209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device" },
	{ 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered" },
	{ 218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed" },
	{ 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain." },
	{ 304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS" },
	{ 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ 600, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
	{ 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch" },
	{ 702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated" },
	{ 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed" },
	{ 710, "CUDA_ERROR_ASSERT", "device-side assert triggered" },
	{ 715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered" },
	{ 716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address" },
	{ 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
	{ 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination" },
	{ 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing" },
	{ 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture" },
	{ 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream" },
	{ 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread" },
	{ 999, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static int find(int code, const char **name, const char **text)
{
	for (size_t k = 0; k < sizeof errors / sizeof *errors; k++)
		if (errors[k].code == code) {
			*name = errors[k].name;
			*text = errors[k].text;
			return 0;
		}
	*name = *text = NULL;
	return INVALID_VALUE;
}

FAKE_API int cuGetErrorName(int code, const char **name)
{
	const char *text;

	return find(code, name, &text);
}

FAKE_API int cuGetErrorString(int code, const char **text)
{
	const char *name;

	return find(code, &name, text);
}
