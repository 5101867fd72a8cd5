/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a kernel's text into machine code: takes it from the disk cache, else compiles it by NVRTC.  NVRTC is loaded when a kernel must be
 * compiled, when devices are listed, or when the device opens if no backend is named or the environment names an NVRTC.  NVRTC compiles for
 * the device's own architecture or, where NVRTC does not know that, to PTX for the newest older architecture that NVRTC knows; the driver
 * translates the PTX.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/cuda/cuda.h"
#include "runtime/cache/cache.h"

enum { ARCHS = 128, ABOUT = 640 };

/* A cache entry: ABOUT bytes of text about the compiler, then the machine code or PTX. */
struct image { void *at; size_t bytes; };

static void free_image(struct image *image)
{
	cg_memory(image->at, 0);
	image->at = NULL;
}

/* ---- options ---- */

/* The options of NVRTC.  The library promises equal bits on all backends: as on the others, products and sums are fused only where the
 * text says so, and subnormals are flushed where arithmetic is f32.  No option trades accuracy for speed. */
struct options { char arch[40]; const char *at[3]; int n; };

static void choose_options(struct options *o, int dtype, const char *word, int arch)
{
	snprintf(o->arch, sizeof o->arch, "--gpu-architecture=%s_%d", word, arch);
	o->at[0] = o->arch;
	o->at[1] = "-fmad=false";
	o->at[2] = "-ftz=true";
	o->n = dtype == CG_F64 ? 2 : 3;
}

/* The compute capability as one number: 90 for 9.0. */
static int capability(const struct cg_dev *device)
{
	return 10 * device->major + device->minor;
}

/* Sets *arch to the device's own architecture, or, if NVRTC does not know that, to the newest older one that it knows; *ptx is 1 in the
 * second case. */
static int choose_arch(const struct cg_dev *device, int *arch, int *ptx)
{
	int archs[ARCHS], n = 0, newest = 0, oldest = 0, major, minor;

	NVRTC_TRY(GetNumSupportedArchs, &n);
	if (n < 1 || n > ARCHS)
		return cg_fail(CG_BUILD, "cuda: nvrtcGetNumSupportedArchs: expected 1 to %d architectures, got %d", ARCHS, n);
	NVRTC_TRY(GetSupportedArchs, archs);
	for (int k = 0; k < n; k++) {
		if (archs[k] <= capability(device) && archs[k] > newest)
			newest = archs[k];
		if (!oldest || archs[k] < oldest)
			oldest = archs[k];
	}
	*arch = newest;
	*ptx = newest != capability(device);
	if (newest)
		return CG_OK;
	NVRTC_TRY(Version, &major, &minor);
	return cg_fail(CG_BUILD, "cuda: NVRTC %d.%d of %s compiles for sm_%d and later, but the device is sm_%d; name an older "
	               "toolkit's NVRTC by CELLGRAD_NVRTC_LIB", major, minor, cg_cuda_path(CG_CUDA_NVRTC), oldest, capability(device));
}

/* ---- compiling ---- */

/* Reports a kernel that did not compile, with the beginning of the compiler's log, the part that matters most. */
static int refused(struct _nvrtcProgram *program, const char *key, unsigned error)
{
	size_t bytes = 0;
	char *log = NULL;
	int code;

	if (!cg_nvrtc.GetProgramLogSize(program, &bytes) && bytes)
		log = cg_memory(NULL, bytes + 1);
	if (log) {
		log[0] = log[bytes] = 0;
		if (cg_nvrtc.GetProgramLog(program, log))
			log[0] = 0;
	}
	code = cg_fail(CG_BUILD, "cuda: nvrtcCompileProgram: %s (%u): kernel %s: %.1500s", cg_nvrtc.GetErrorString(error), error, key,
	               log && log[0] ? log : "the compiler gives no log");
	cg_memory(log, 0);
	return code;
}

static char *code_of(const struct image *image)
{
	return (char *)image->at + ABOUT;
}

static int copy_code(struct _nvrtcProgram *program, int ptx, const char about[ABOUT], struct image *image)
{
	size_t bytes = 0;

	if (ptx)
		NVRTC_TRY(GetPTXSize, program, &bytes);
	else
		NVRTC_TRY(GetCUBINSize, program, &bytes);
	if (!bytes)
		return cg_fail(CG_BUILD, "cuda: %s: the size of the compiled code: expected at least 1 byte, got 0",
		               ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize");
	image->bytes = ABOUT + bytes;
	image->at = cg_memory(NULL, image->bytes);
	if (!image->at)
		return CG_NO_MEMORY;
	memcpy(image->at, about, ABOUT);
	if (ptx)
		NVRTC_TRY(GetPTX, program, code_of(image));
	else
		NVRTC_TRY(GetCUBIN, program, code_of(image));
	return CG_OK;
}

static int compile_for(const char *text, const char *key, const struct options *o, int ptx, const char about[ABOUT],
                       struct image *image)
{
	struct _nvrtcProgram *program = NULL;
	unsigned error;
	int code;

	NVRTC_TRY(CreateProgram, &program, text, key, 0, NULL, NULL);
	error = cg_nvrtc.CompileProgram(program, o->n, o->at);
	code = error ? refused(program, key, error) : copy_code(program, ptx, about, image);
	cg_nvrtc.DestroyProgram(&program);
	if (code)
		free_image(image);
	return code;
}

/*
 * A cache entry says which compiler made it.  The key of the entry has the value of CELLGRAD_NVRTC_LIB, but not the compiler's version,
 * since finding the version requires loading the compiler.  The entry's text about the compiler is "NVRTC 13.0 BYTES SECONDS NANOSECONDS
 * FILE".  An entry is valid while FILE, the compiler's library, is unchanged or missing; if another toolkit has replaced FILE, the entry is
 * made again.
 */
static int about_compiler(char about[ABOUT])
{
	const char *path = cg_cuda_path(CG_CUDA_NVRTC);
	struct stat file = { .st_size = 0 };
	int major, minor;

	NVRTC_TRY(Version, &major, &minor);
	if (stat(path, &file))
		file.st_size = 0;
	memset(about, 0, ABOUT);
	snprintf(about, ABOUT, "NVRTC %d.%d %lld %lld %ld %s", major, minor, (long long)file.st_size, (long long)file.st_mtim.tv_sec,
	         file.st_mtim.tv_nsec, path);
	return CG_OK;
}

static int is_current(const char *about)
{
	long long bytes, seconds;
	struct stat file;
	long nanoseconds;
	int path = 0;

	if (sscanf(about, "NVRTC %*d.%*d %lld %lld %ld %n", &bytes, &seconds, &nanoseconds, &path) != 3 || !path)
		return 0;
	return stat(about + path, &file) || (file.st_size == bytes && file.st_mtim.tv_sec == seconds &&
	                                     file.st_mtim.tv_nsec == nanoseconds);
}

static int compile(const struct cg_dev *device, const char *text, const char *key, int dtype, struct image *image)
{
	struct options o;
	char about[ABOUT];
	int arch = 0, ptx = 0;

	CG_TRY(cg_cuda_load(CG_CUDA_NVRTC));
	CG_TRY(choose_arch(device, &arch, &ptx));
	CG_TRY(about_compiler(about));
	choose_options(&o, dtype, ptx ? "compute" : "sm", arch);
	return compile_for(text, key, &o, ptx, about, image);
}

/* ---- the cache ---- */

/* The cache key: everything that the code depends on and that is known without loading the compiler.  The kernel's text is the last part
 * of the key, so the end of the key is the end of the text. */
static int make_record(const struct cg_dev *device, const char *text, const char *key, int dtype, struct cg_text *record)
{
	const char *named = cg_cuda_named(CG_CUDA_NVRTC);
	struct options o;

	choose_options(&o, dtype, "sm", capability(device));
	cg_text_printf(record, "cuda %s sm_%d, driver %d, cellgrad %s\ncompiler %zu %s\n", key, capability(device), cg_cuda_version(),
	               cg_version(), strlen(named), named);
	for (int k = 0; k < o.n; k++)
		cg_text_printf(record, "%s\n", o.at[k]);
	cg_text_put(record, text);
	return record->failed ? CG_NO_MEMORY : CG_OK;
}

/* ---- modules ---- */

static int load(struct cg_dev *device, const struct image *image, const char *key, struct CUmod_st **module)
{
	int code = cg_cu_check(device, cg_cu.ModuleLoadData(module, code_of(image)), "cuModuleLoadData");

	return code ? cg_fail_in(code, "%s: code by %.200s", key, (char *)image->at) : CG_OK;
}

/* Loads a module from the cache, if the compiler that made it is unchanged or missing and the driver accepts the code; else *module is
 * NULL. */
static int recall(struct cg_dev *device, const struct cg_text *record, const char *key, struct CUmod_st **module)
{
	struct image image = { NULL, 0 };

	*module = NULL;
	CG_TRY(cg_cache_get(record->at, record->length, &image.at, &image.bytes));
	if (!image.at)
		return CG_OK;
	if (image.bytes > ABOUT && !((char *)image.at)[ABOUT - 1] && is_current(image.at) && load(device, &image, key, module))
		*module = NULL;
	free_image(&image);
	return CG_OK;
}

static int make(struct cg_dev *device, const struct cg_text *record, const char *text, const char *key, int dtype,
                struct CUmod_st **module)
{
	struct image image = { NULL, 0 };
	int code;

	CG_TRY(recall(device, record, key, module));
	if (*module)
		return CG_OK;
	CG_TRY(compile(device, text, key, dtype, &image));
	code = load(device, &image, key, module);
	if (!code)
		cg_cache_put(record->at, record->length, image.at, image.bytes);
	free_image(&image);
	return code;
}

int cg_cu_module(struct cg_dev *device, const char *text, const char *key, int dtype, struct CUmod_st **module)
{
	struct cg_text record = { .resize = cg_memory };
	int code = make_record(device, text, key, dtype, &record);

	if (!code)
		code = make(device, &record, text, key, dtype, module);
	cg_memory(record.at, 0);
	return code;
}
