/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles CUDA texts with NVRTC to machine code; no GPU is needed.  The library is found at run time: $CELLGRAD_TEST_NVRTC,
 * else the usual names and places.
 *
 *	compile_nvrtc ARCH,... FILE...    for each kernel a line "KEY ARCH REGISTERS SPILLED SHARED" from the assembler's log;
 *	                                  SPILLED and SHARED are bytes
 *	compile_nvrtc read FILE...        by the front end alone, if NVRTC can stop there; prints errors and a count
 *	compile_nvrtc ptx FILE            its PTX, for architecture 75
 *
 * exit 0: all compiled, without a warning, for the architectures that NVRTC knows; 1: some did not; 77: there is no NVRTC of 11.2 or later
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const places[] = {
	"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "/usr/local/cuda/lib64/libnvrtc.so"
};

static int (*version)(int *, int *);
static int (*count_archs)(int *);
static int (*list_archs)(int *);
static int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
static int (*compile)(void *, int, const char *const *);
static int (*log_size)(void *, size_t *);
static int (*get_log)(void *, char *);
static int (*ptx_size)(void *, size_t *);
static int (*get_ptx)(void *, char *);
static int (*destroy)(void **);

static const struct { const char *name; void *at; } calls[] = {
	{ "nvrtcVersion", &version },             { "nvrtcGetNumSupportedArchs", &count_archs },
	{ "nvrtcGetSupportedArchs", &list_archs }, { "nvrtcCreateProgram", &create },
	{ "nvrtcCompileProgram", &compile },      { "nvrtcGetProgramLogSize", &log_size },
	{ "nvrtcGetProgramLog", &get_log },       { "nvrtcGetPTXSize", &ptx_size },
	{ "nvrtcGetPTX", &get_ptx },              { "nvrtcDestroyProgram", &destroy },
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

/* The number before `text` on the log's line that begins at `line`; -1: the line has no such text. */
static int before(const char *line, const char *text)
{
	const char *at = strstr(line, text), *end = line + strcspn(line, "\n");

	if (!at || at > end)
		return -1;
	while (at > line && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return atoi(at);
}

/* Prints what the assembler reports of each kernel: its name, registers, spills and shared memory.  Returns the number of kernels. */
static int put_resources(const char *log, int arch)
{
	char name[400] = "";
	int spilled = -1, kernels = 0;

	for (const char *line = log; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		int registers = before(line, " registers"), shared = before(line, " bytes smem");

		if (before(line, " bytes spill stores") >= 0)
			spilled = before(line, " bytes spill stores") + before(line, " bytes spill loads");
		else if (registers >= 0 && spilled >= 0 && *name) {
			printf("%s %d %d %d %d\n", name, arch, registers, spilled, shared < 0 ? 0 : shared);
			kernels++;
			*name = 0;
			spilled = -1;
		} else {
			sscanf(line, "ptxas info : Compiling entry function '%399[^']'", name);
		}
	}
	return kernels;
}

static int kernels_of(const char *text)
{
	int n = 0;

	while ((text = strstr(text, "__global__ "))) {
		text++;
		n++;
	}
	return n;
}

enum { TO_PTX = 0, READ = -1 };          /* values of `arch` that are no architecture */

/* Compiles a file. arch: an architecture, for its machine code; TO_PTX: for PTX, which is printed; READ: only through NVRTC's
   front end, if NVRTC can stop there. */
static int fails(const char *path, int arch)
{
	char *text = text_of(path), *log, *ptx, option[40];
	const char *options[] = { option, "-fmad=false", "-ftz=true", arch == READ ? "--fdevice-syntax-only" : "--ptxas-options=-v" };
	enum { NVRTC_ERROR_INVALID_OPTION = 5 };
	void *program = NULL;
	size_t size = 0;
	int code, bad;

	snprintf(option, sizeof option, arch > 0 ? "--gpu-architecture=sm_%d" : "--gpu-architecture=compute_75", arch);
	code = create(&program, text, path, 0, NULL, NULL);
	if (!code)
		code = compile(program, arch == TO_PTX ? 3 : 4, options);
	if (code == NVRTC_ERROR_INVALID_OPTION && arch == READ)
		code = compile(program, 3, options);
	if (program)
		log_size(program, &size);
	log = calloc(1, size + 1);
	if (log && size)
		get_log(program, log);
	bad = code || !log || strstr(log, "warning");
	if (!bad && arch > 0 && put_resources(log, arch) != kernels_of(text))
		bad = 1;
	if (bad)
		printf("# %s, %s: error %d\n%s\n", path, option, code, log ? log : "");
	if (!bad && arch == TO_PTX && !ptx_size(program, &size) && (ptx = calloc(1, size + 1))) {
		get_ptx(program, ptx);
		puts(ptx);
		free(ptx);
	}
	if (program)
		destroy(&program);
	free(log);
	free(text);
	return bad;
}

static void *open_library(void)
{
	const char *given = getenv("CELLGRAD_TEST_NVRTC");
	void *library = NULL;

	if (given && *given)
		return dlopen(given, RTLD_NOW);
	for (size_t k = 0; k < sizeof places / sizeof *places && !library; k++)
		library = dlopen(places[k], RTLD_NOW);
	return library;
}

int main(int argc, char **argv)
{
	void *library = open_library();
	int failed = 0, n = 0, archs[128], major = 0, minor = 0;

	/* Output is buffered by lines, since several of these programs write to one file at a time. */
	setvbuf(stdout, NULL, _IOLBF, 1 << 16);
	if (!library)
		return skip("there is no NVRTC; CELLGRAD_TEST_NVRTC may say where one is");
	for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
		void *call = dlsym(library, calls[k].name);

		if (!call)
			return skip("this NVRTC is older than 11.2");
		memcpy(calls[k].at, &call, sizeof call);
	}
	version(&major, &minor);
	if (count_archs(&n) || n > 128 || list_archs(archs))
		return skip("this NVRTC does not say what it compiles for");
	if (argc > 2 && !strcmp(argv[1], "ptx"))
		return fails(argv[2], TO_PTX);
	if (argc > 2 && !strcmp(argv[1], "read")) {
		for (int k = 2; k < argc; k++)
			failed += fails(argv[k], READ);
		printf("# NVRTC %d.%d, front end: %d read, %d not\n", major, minor, argc - 2 - failed, failed);
		return failed != 0;
	}
	for (const char *at = argc > 1 ? argv[1] : ""; *at; at += strcspn(at, ","), at += *at == ',') {
		int arch = atoi(at), known = 0;

		for (int k = 0; k < n; k++)
			known |= archs[k] == arch;
		for (int k = 2; k < argc && known; k++)
			failed += fails(argv[k], arch);
		printf("# NVRTC %d.%d, sm_%d: %s\n", major, minor, arch, known ? "compiled" : "not known to this version");
	}
	return failed != 0;
}
