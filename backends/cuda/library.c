/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads CUDA's libraries by soname and keeps them open for the life of the process, since they have threads and state.  A library that the
 * process has loaded already is preferred.  The driver is loaded first; NVRTC, cuBLAS and cuDNN are loaded when a kernel is compiled, a
 * product is computed or a network is opened, or when devices are listed.  NVRTC is also loaded when a device opens because no backend is
 * named.  A library that the environment names is loaded when a device is opened.
 */
#include <dlfcn.h>
#if defined(__linux__) || defined(__FreeBSD__)
#include <link.h>
#define HAS_PHDR
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/cuda/library.h"
#include "runtime/core/environment.h"
#include "runtime/core/core.h"

/* The oldest versions that are used: CUDA 11.0 as the driver counts versions, cuDNN 8.1.0 as cuDNN counts them. */
enum { OLDEST = 11000, OLDEST_CUDNN = 8100 };
/* The argument of cublasGetProperty that asks for the major version. */
enum { CUBLAS_MAJOR_VERSION = 0 };
/* The processor that this file is compiled for, as the number that ELF files have for it. */
#if defined(__x86_64__)
enum { MACHINE = 62 };
#elif defined(__aarch64__)
enum { MACHINE = 183 };
#elif defined(__i386__)
enum { MACHINE = 3 };
#elif defined(__powerpc64__)
enum { MACHINE = 21 };
#elif defined(__riscv)
enum { MACHINE = 243 };
#else
enum { MACHINE = 0 };
#endif

struct cg_cu cg_cu;
struct cg_nvrtc cg_nvrtc;
struct cg_cublas cg_cublas;
struct cg_cublaslt cg_cublaslt;
struct cg_cudnn cg_cudnn;

/* The sonames of the libraries, the newest first.  A name without a version is for linking and is never tried: the toolkit's libcuda.so
 * is a stub. */
struct name { int major; const char *name; };
static const struct name driver_names[] = { { 0, "libcuda.so.1" }, { 0, NULL } };
static const struct name nvrtc_names[] = {
	{ 13, "libnvrtc.so.13" }, { 12, "libnvrtc.so.12" }, { 11, "libnvrtc.so.11.2" }, { 0, NULL }
};
static const struct name cublas_names[] = {
	{ 13, "libcublas.so.13" }, { 12, "libcublas.so.12" }, { 11, "libcublas.so.11" }, { 0, NULL }
};
/* The sonames of cuDNN.  Files of the same soname may be for different versions of CUDA. */
static const struct name cudnn_names[] = { { 0, "libcudnn.so.9" }, { 0, "libcudnn.so.8" }, { 0, NULL } };
/* The default folder of NVIDIA's toolkit, for systems whose loader does not search that folder. */
static const char toolkit[] = "/usr/local/cuda/lib64/";

/* A function of a library, by name.  to: the pointer that receives the function's address; it receives NULL if the library lacks an
 * optional function. */
struct symbol { const char *name; void *to; int optional; };
static const struct symbol driver_symbols[] = {
#define CU_CALL(name, parameters, names) { "cu" #name, &cg_cu.name, 0 },
#define CU_LATER(name, parameters, names) { "cu" #name, &cg_cu.name, 1 },
#include "backends/cuda/cuda.fn"
	{ NULL, NULL, 0 }
};
static const struct symbol nvrtc_symbols[] = {
#define NVRTC_CALL(name, parameters, names) { "nvrtc" #name, &cg_nvrtc.name, 0 },
#define NVRTC_WORDS NVRTC_CALL
#include "backends/cuda/cuda.fn"
	{ NULL, NULL, 0 }
};
static const struct symbol cublas_symbols[] = {
#define CUBLAS_CALL(name, parameters, names) { "cublas" #name, &cg_cublas.name, 0 },
#define CUBLAS_WORDS(name, parameters, names) { "cublas" #name, &cg_cublas.name, 1 },
#include "backends/cuda/cuda.fn"
	{ NULL, NULL, 0 }
};
static const struct symbol cublaslt_symbols[] = {
#define CUBLASLT_CALL(name, parameters, names) { "cublasLt" #name, &cg_cublaslt.name, 1 },
#include "backends/cuda/cuda.fn"
	{ NULL, NULL, 0 }
};
static const struct symbol cudnn_symbols[] = {
#define CUDNN_CALL(name, parameters, names) { "cudnn" #name, &cg_cudnn.name, 0 },
#define CUDNN_COUNT CUDNN_CALL
#define CUDNN_WORDS CUDNN_CALL
#define CUDNN_TELLS(name, parameters, names) { "cudnn" #name, &cg_cudnn.name, 1 },
#include "backends/cuda/cuda.fn"
	{ NULL, NULL, 0 }
};

static struct library {
	const char *what, *advice;
	int variable;                            /* the environment variable that names the library, a CG_ENV_ number */
	const struct name *names;
	const struct symbol *symbols;
	int absent;                              /* the status code if the library is missing and the environment does not name one */
	/* tried 1: loading was tried; code: its result; major: the major version of CUDA that the library is for, 0: unknown */
	int tried, code, major;
	char why[2048], path[512];
} libraries[CG_CUDA_LIBRARIES] = {
	[CG_CUDA_DRIVER] = { .what = "CUDA driver", .variable = CG_ENV_CUDA_LIB,
		.advice = "the CUDA driver is part of NVIDIA's driver for the GPU",
		.names = driver_names, .symbols = driver_symbols, .absent = CG_NO_DEVICE },
	[CG_CUDA_NVRTC] = { .what = "NVRTC to compile kernels", .variable = CG_ENV_NVRTC_LIB,
		.advice = "NVRTC comes with the CUDA toolkit, 11.2 or later",
		.names = nvrtc_names, .symbols = nvrtc_symbols, .absent = CG_BUILD },
	[CG_CUDA_CUBLAS] = { .what = "cuBLAS", .variable = CG_ENV_CUBLAS_LIB,
		.advice = "cuBLAS comes with the CUDA toolkit; CELLGRAD_CUBLAS_LIB=none runs without cuBLAS",
		.names = cublas_names, .symbols = cublas_symbols, .absent = CG_UNSUPPORTED },
	[CG_CUDA_CUDNN] = { .what = "cuDNN", .variable = CG_ENV_CUDNN_LIB,
		.advice = "NVIDIA distributes cuDNN apart from the CUDA toolkit; CELLGRAD_CUDNN_LIB=none runs without cuDNN",
		.names = cudnn_names, .symbols = cudnn_symbols, .absent = CG_UNSUPPORTED },
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int version;

/* ---- loading ---- */

__attribute__((format(printf, 2, 3)))
static void reason(struct library *l, const char *format, ...)
{
	size_t used = strlen(l->why);
	va_list list;

	used += (size_t)snprintf(l->why + used, sizeof l->why - used, "%s", used ? "; " : "tried ");
	if (used >= sizeof l->why)
		return;
	va_start(list, format);
	vsnprintf(l->why + used, sizeof l->why - used, format, list);
	va_end(list);
}

/* Finds the functions of a library.  Returns the name of a required function that is missing, or NULL. */
static const char *find_symbols(const struct symbol *symbols, void *handle)
{
	for (const struct symbol *s = symbols; s->name; s++) {
		void *call = dlsym(handle, s->name);

		if (!call && !s->optional)
			return s->name;
		memcpy(s->to, &call, sizeof call);
	}
	return NULL;
}

/* The major version of CUDA that a library is for, which may differ from the version in the file's name; 0: unknown. */
static int major_of(const struct library *l, void *handle)
{
	int (*property)(unsigned, int *) = NULL;
	void *call = dlsym(handle, "cublasGetProperty");
	int major = 0, minor;

	memcpy(&property, &call, sizeof call);
	if (l == &libraries[CG_CUDA_CUDNN])
		return (int)(cg_cudnn.GetCudartVersion() / 1000);
	if (l == &libraries[CG_CUDA_NVRTC])
		return cg_nvrtc.Version(&major, &minor) ? 0 : major;
	return l == &libraries[CG_CUDA_CUBLAS] && property && !property(CUBLAS_MAJOR_VERSION, &major) ? major : 0;
}

/* Is this cuDNN new enough, and does it suit the cuBLAS that is loaded?  A cuDNN calls the cuBLAS that it was built for, and two versions
 * of cuBLAS in a process share nothing. */
static int suits_cudnn(struct library *l, const char *name)
{
	int ours = cg_cudnn_version(), major = libraries[CG_CUDA_CUBLAS].major;

	if (ours < OLDEST_CUDNN)
		reason(l, "%.300s, which is cuDNN %d.%d.%d: expected 8.1 or later", name, CUDNN_PARTS(ours));
	else if (major && l->major != major)
		reason(l, "%.300s, which is for CUDA %d, but cuBLAS is for CUDA %d: %.300s", name, l->major, major, cg_cuda_path(CG_CUDA_CUBLAS));
	else
		return 1;
	return 0;
}

static int suits(struct library *l, const char *name)
{
	if (l->major > version / 1000)
		reason(l, "%.300s, which is for CUDA %d, but the driver supports CUDA %d.%d: expected a library for CUDA %d or earlier", name,
		       l->major, version / 1000, version % 1000 / 10, version / 1000);
	else if (l->major && l->major < OLDEST / 1000)
		reason(l, "%.300s, which is for CUDA %d: expected a library for CUDA %d or later", name, l->major, OLDEST / 1000);
	else
		return l != &libraries[CG_CUDA_CUDNN] || suits_cudnn(l, name);
	return 0;
}

/* Writes to `text` that the library is for another processor, or nothing if it is not; the loader's message may be a mere "no such
 * file". */
static void explain(const char *name, char text[64])
{
	static const struct { int machine; const char *name; } machines[] = {
		{ 3, "32-bit x86" }, { 21, "POWER" }, { 40, "32-bit ARM" }, { 62, "x86-64" }, { 183, "aarch64" }, { 243, "RISC-V" },
	};
	unsigned char header[20];
	FILE *file = strchr(name, '/') ? fopen(name, "rb") : NULL;
	int machine, is_elf = file && fread(header, sizeof header, 1, file) == 1 && !memcmp(header, "\177ELF", 4);

	text[0] = 0;
	if (file)
		fclose(file);
	if (!is_elf)
		return;
	machine = header[5] == 2 ? header[18] << 8 | header[19] : header[19] << 8 | header[18];
	if (!MACHINE || machine == MACHINE)
		return;
	snprintf(text, 64, ": the file is for another processor (ELF machine %d)", machine);
	for (size_t k = 0; k < sizeof machines / sizeof *machines; k++)
		if (machines[k].machine == machine)
			snprintf(text, 64, ": the file is for another processor (%s)", machines[k].name);
}

static int load_name(struct library *l, const char *name)
{
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL), *call;
	const char *error = handle ? NULL : dlerror(), *missing;
	char text[64];
	Dl_info info;

	if (!handle) {
		explain(name, text);
		reason(l, "%.300s%s", error ? error : name, text);
		return 0;
	}
	missing = find_symbols(l->symbols, handle);
	if (missing) {
		reason(l, "%.300s, which has no %s: the file is too old, or is another library", name, missing);
		dlclose(handle);
		return 0;
	}
	l->major = major_of(l, handle);
	if (!suits(l, name)) {
		l->major = 0;
		dlclose(handle);
		return 0;
	}
	memcpy(&call, l->symbols->to, sizeof call);
	snprintf(l->path, sizeof l->path, "%s", dladdr(call, &info) && info.dli_fname ? info.dli_fname : name);
	return 1;
}

/* ---- where libraries are ---- */

struct look { const char *name; char path[sizeof libraries->path]; };

#ifdef HAS_PHDR
/* Does the path end in this soname, perhaps followed by further numbers of a version? */
static int is_named(const char *path, const char *name)
{
	const char *last = strrchr(path, '/'), *base = last ? last + 1 : path;
	size_t n = strlen(name);

	return last && !strncmp(base, name, n) && (!base[n] || base[n] == '.');
}

static int look_at(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct look *look = data;

	(void)bytes;
	if (!info->dlpi_name || !is_named(info->dlpi_name, look->name) || strlen(info->dlpi_name) >= sizeof look->path)
		return 0;
	snprintf(look->path, sizeof look->path, "%s", info->dlpi_name);
	return 1;
}

/* Finds a library of this name that the process has loaded already, as a program with PyTorch has.  A library that is loaded already is
 * tried first. */
static int is_loaded(struct look *look)
{
	return dl_iterate_phdr(look_at, look);
}
#else
static int is_loaded(struct look *look)
{
	(void)look;
	return 0;
}
#endif

/* Loads a library, unless its name is that of a later major version of CUDA than the driver's: the driver would refuse its work. */
static int load_version(struct library *l, const struct name *n, const char *path)
{
	if (n->major <= version / 1000)
		return load_name(l, path);
	reason(l, "%.300s, which is for CUDA %d, but the driver supports CUDA %d.%d", path, n->major, version / 1000, version % 1000 / 10);
	return 0;
}

static int load_loaded(struct library *l)
{
	for (const struct name *n = l->names; n->name; n++) {
		struct look look = { .name = n->name };

		if (is_loaded(&look) && load_version(l, n, look.path))
			return 1;
	}
	return 0;
}

/* Looks for a library in the folder of another library, and in the folders where pip would have put it beside the other library. */
static int load_near(struct library *l, const char *other)
{
	static const char *const folders[] = { "", "../../cu13/lib/", "../../cuda_nvrtc/lib/", "../../cublas/lib/", "../../cudnn/lib/" };
	int folder = (int)(strrchr(other, '/') + 1 - other);
	char path[sizeof l->path + 64];

	for (const struct name *n = l->names; n->name; n++)
		for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
			snprintf(path, sizeof path, "%.*s%s%s", folder, other, folders[k], n->name);
			if (!access(path, R_OK) && load_version(l, n, path))
				return 1;
		}
	return 0;
}

static int load_beside(struct library *l)
{
	for (int k = CG_CUDA_NVRTC; k < CG_CUDA_LIBRARIES; k++)
		for (const struct name *n = libraries[k].names; n->name; n++) {
			struct look look = { .name = n->name };

			if (is_loaded(&look) && load_near(l, look.path))
				return 1;
		}
	return 0;
}

static int load_from(struct library *l, const char *folder)
{
	char path[64];

	for (const struct name *n = l->names; n->name; n++) {
		snprintf(path, sizeof path, "%s%s", folder, n->name);
		if (load_version(l, n, path))
			return 1;
	}
	return 0;
}

/* Tries libraries in this order: one that the process has loaded; one beside another of CUDA's libraries that the process has loaded; one
 * that the system's loader finds; one in the toolkit's folder.  The driver is searched neither beside other libraries nor in the toolkit's
 * folder. */
static int load_names(struct library *l)
{
	if (l == &libraries[CG_CUDA_DRIVER])
		return load_loaded(l) || load_from(l, "");
	return load_loaded(l) || load_beside(l) || load_from(l, "") || load_from(l, toolkit);
}

const char *cg_cuda_named(int library)
{
	const char *wanted = cg_variable_get(libraries[library].variable);

	return wanted ? wanted : "";
}

/* Finds the cublasLt that belongs to a cuBLAS: it is in the same folder, and cuBLAS has loaded it already.  Without
 * cublasLt a generated kernel writes a bias to c before cuBLAS adds the product. */
static void find_cublaslt(const char *cublas)
{
	static const char old[] = "libcublas.", new[] = "libcublasLt.";
	const char *at = strstr(cublas, old);
	char path[sizeof libraries->path + sizeof new];
	void *handle;

	for (const char *later = at; later; later = strstr(later + 1, old))
		at = later;
	if (!at)
		return;
	snprintf(path, sizeof path, "%.*s%s%s", (int)(at - cublas), cublas, new, at + sizeof old - 1);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (handle)
		find_symbols(cublaslt_symbols, handle);
}

static int check_version(struct library *l)
{
	unsigned code = cg_cu.DriverGetVersion(&version);

	if (code)
		return cg_cu_error(code, "cuDriverGetVersion");
	if (version >= OLDEST)
		return CG_OK;
	return cg_fail(CG_NO_DEVICE, "the CUDA driver %s supports CUDA %d.%d: expected a driver for CUDA %d.%d or later", l->path,
	               version / 1000, version % 1000 / 10, OLDEST / 1000, OLDEST % 1000 / 10);
}

/* Loads a library.  If the environment names a library, no other is tried. */
static int load(int library)
{
	struct library *l = &libraries[library];
	const char *variable = cg_variables[l->variable].name, *wanted = cg_cuda_named(library);

	CG_TRY(cg_variable_read(l->variable, NULL));
	if (!strcmp(wanted, "none"))
		return cg_fail(CG_UNSUPPORTED, "%s=none", variable);
	if (*wanted ? !load_name(l, wanted) : !load_names(l))
		return cg_fail(*wanted ? CG_BAD_ARGUMENT : l->absent, "no %s: %s%s%s; %s", l->what, *wanted ? variable : "",
		               *wanted ? ": " : "", l->why, l->advice);
	if (library == CG_CUDA_CUBLAS)
		find_cublaslt(l->path);
	return library == CG_CUDA_DRIVER ? check_version(l) : CG_OK;
}

int cg_cuda_load(int library)
{
	struct library *l = &libraries[library];

	/* cuBLAS is loaded before cuDNN, since the version of cuBLAS determines which cuDNN suits. */
	if (library == CG_CUDA_CUDNN)
		cg_cuda_load(CG_CUDA_CUBLAS);
	pthread_mutex_lock(&lock);
	if (!l->tried) {
		l->code = load(library);
		l->tried = 1;
		if (l->code) {
			snprintf(l->why, sizeof l->why, "%.2000s", cg_message());
			l->path[0] = 0;
		}
	}
	pthread_mutex_unlock(&lock);
	return l->code ? cg_fail(l->code, "%s", l->why) : CG_OK;
}

int cg_cuda_check_named(void)
{
	static const int others[] = { CG_CUDA_NVRTC, CG_CUDA_CUBLAS, CG_CUDA_CUDNN };

	for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
		int code = *cg_cuda_named(others[k]) ? cg_cuda_load(others[k]) : CG_OK;

		/* CG_UNSUPPORTED is no failure: the environment may exclude a library by the word "none". */
		if (code && code != CG_UNSUPPORTED)
			return code;
	}
	return CG_OK;
}

const char *cg_cuda_path(int library)
{
	return libraries[library].path;
}

int cg_cuda_version(void)
{
	return version;
}

int cg_cudnn_version(void)
{
	return (int)cg_cudnn.GetVersion();
}

/* ---- errors ---- */

/* Error codes of the driver to which a caller may react, in ranges, each of which stands for one status code of this library. */
static const struct { unsigned first, last; int ours; } driver_codes[] = {
	{ CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, CG_NO_MEMORY },
	{ CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED, CG_NO_DEVICE },
	{ CUDA_ERROR_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY, CG_NO_DEVICE },
	{ CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE, CG_NO_DEVICE },
	{ CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE, CG_NO_DEVICE },
	{ CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE, CG_BUILD },
	{ CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU, CG_BUILD },
	{ CUDA_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_PTX, CG_BUILD },
	{ CUDA_ERROR_JIT_COMPILER_NOT_FOUND, CUDA_ERROR_JIT_COMPILATION_DISABLED, CG_BUILD },
	{ CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, CG_NO_DEVICE },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, CG_UNSUPPORTED },
};

/* Advice for error codes for which the driver's message does not say the cause. */
static const struct { unsigned code; const char *text; } advice[] = {
	{ CUDA_ERROR_DEVICE_UNAVAILABLE, "another process uses the device exclusively, or the device's compute mode is prohibited "
	                                  "(nvidia-smi -q -d COMPUTE)" },
	{ CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel ran longer than the driver allows on a device with a display: the kernel is too slow for "
	                             "these sizes, or does not end" },
};

static const char *advice_of(unsigned code)
{
	for (size_t k = 0; k < sizeof advice / sizeof *advice; k++)
		if (advice[k].code == code)
			return advice[k].text;
	return NULL;
}

const char *cg_cu_visible(char text[CG_CU_VISIBLE])
{
	static const char variable[] = "CUDA_VISIBLE_DEVICES=";
	const char *entry = cg_environment_entry(variable, 0);

	*text = '\0';
	if (entry)
		snprintf(text, CG_CU_VISIBLE, "; CUDA_VISIBLE_DEVICES is '%.100s'", entry + sizeof variable - 1);
	return text;
}

int cg_cu_error(unsigned code, const char *call)
{
	const char *name = NULL, *text = NULL;
	char visible[CG_CU_VISIBLE];
	int ours = CG_DRIVER;

	if (!code)
		return CG_OK;
	if (cg_cu.GetErrorName(code, &name) || !name)
		name = "an error without a name";
	if (cg_cu.GetErrorString(code, &text) || !text)
		text = "no description";
	for (size_t k = 0; k < sizeof driver_codes / sizeof *driver_codes; k++)
		if (code >= driver_codes[k].first && code <= driver_codes[k].last)
			ours = driver_codes[k].ours;
	if (code == CUDA_ERROR_NO_DEVICE || code == CUDA_ERROR_INVALID_DEVICE)
		return cg_fail(ours, "cuda: %s: %s (%u): %s%s", call, name, code, text, cg_cu_visible(visible));
	return cg_fail(ours, "cuda: %s: %s (%u): %s%s%s", call, name, code, text, advice_of(code) ? "; " : "",
	               advice_of(code) ? advice_of(code) : "");
}

int cg_nvrtc_error(unsigned code, const char *call)
{
	if (!code)
		return CG_OK;
	return cg_fail(code == NVRTC_ERROR_OUT_OF_MEMORY ? CG_NO_MEMORY : CG_BUILD, "cuda: %s: %s (%u)", call,
	               cg_nvrtc.GetErrorString(code), code);
}

static const struct { const char *name; int code; } statuses[] = {
#define CUBLAS_VALUE(name, value) { #name, value },
#include "backends/cuda/values.h"
#undef CUBLAS_VALUE
};

int cg_cublas_error(unsigned code, const char *call)
{
	static const char prefix[] = "CUBLAS_STATUS_";
	const char *name = "an error without a name";

	if (!code)
		return CG_OK;
	for (size_t k = 0; k < sizeof statuses / sizeof *statuses; k++)
		if (statuses[k].code == (int)code && !strncmp(statuses[k].name, prefix, sizeof prefix - 1))
			name = statuses[k].name;
	return cg_fail(code == CUBLAS_STATUS_ALLOC_FAILED ? CG_NO_MEMORY : CG_DRIVER, "cuda: %s: %s (%u): %s", call, name, code,
	               cg_cublas.GetStatusString ? cg_cublas.GetStatusString(code) : "this version of cuBLAS does not describe the error");
}

enum {
#define CUDNN_CODE(name, of_8, of_9) name##_8 = of_8, name##_9 = of_9,
#include "backends/cuda/values.h"
#undef CUDNN_CODE
	KIND = 1000                      /* the distance between kinds of errors: cuDNN 9 has a thousand codes for each kind */
};

static int code_of_8(unsigned code)
{
	if (code == CUDNN_STATUS_ALLOC_FAILED_8)
		return CG_NO_MEMORY;
	return code == CUDNN_STATUS_NOT_SUPPORTED_8 || code == CUDNN_STATUS_ARCH_MISMATCH_8 ? CG_UNSUPPORTED : CG_DRIVER;
}

static int code_of_9(unsigned code)
{
	/* cuDNN's code for lack of host memory; the code after it is for lack of device memory. */
	if (code == CUDNN_STATUS_ALLOC_FAILED_9 || code == CUDNN_STATUS_ALLOC_FAILED_9 + 1)
		return CG_NO_MEMORY;
	return code / KIND == CUDNN_STATUS_NOT_SUPPORTED_9 / KIND ? CG_UNSUPPORTED : CG_DRIVER;
}

int cg_cudnn_error(unsigned code, const char *call)
{
	int ours = cg_cudnn_version() < CUDNN_9 ? code_of_8(code) : code_of_9(code);
	char text[512] = "";

	if (!code)
		return CG_OK;
	if (cg_cudnn.GetLastErrorString)
		cg_cudnn.GetLastErrorString(text, sizeof text);
	text[sizeof text - 1] = 0;
	text[strcspn(text, "\n")] = 0;
	return cg_fail(ours, "cuda: %s: %s (%u)%s%s", call, cg_cudnn.GetErrorString(code), code, *text ? ": " : "", text);
}
