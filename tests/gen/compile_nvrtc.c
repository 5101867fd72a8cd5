/*
 * Compiles CUDA texts with NVRTC for the oldest and the newest GPUs that it and we know; no GPU is needed.  The library is
 * found at run time: $CELLGRAD_TEST_NVRTC, else the usual names and places.
 *
 *	compile_nvrtc FILE...      exit 0: all compiled, without a warning; 1: some did not; 77: there is no NVRTC
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const places[] = {
	"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "/usr/local/cuda/lib64/libnvrtc.so"
};
/* To machine code for the one, for the other, which takes as long again, to PTX. */
static const struct { int arch; const char *word; } wanted[] = { { 75, "sm" }, { 120, "compute" } };

static int (*version)(int *, int *);
static int (*count_archs)(int *);
static int (*list_archs)(int *);
static int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
static int (*compile)(void *, int, const char *const *);
static int (*log_size)(void *, size_t *);
static int (*get_log)(void *, char *);
static int (*destroy)(void **);

static const struct { const char *name; void *at; } calls[] = {
	{ "nvrtcVersion", &version },             { "nvrtcGetNumSupportedArchs", &count_archs },
	{ "nvrtcGetSupportedArchs", &list_archs }, { "nvrtcCreateProgram", &create },
	{ "nvrtcCompileProgram", &compile },      { "nvrtcGetProgramLogSize", &log_size },
	{ "nvrtcGetProgramLog", &get_log },       { "nvrtcDestroyProgram", &destroy },
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

static int fails(const char *path, const char *arch)
{
	char *text = text_of(path), *log, option[40];
	const char *options[] = { option, "-fmad=false", "-ftz=true" };
	void *program = NULL;
	size_t size = 0;
	int code, bad;

	snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
	code = create(&program, text, path, 0, NULL, NULL);
	if (!code)
		code = compile(program, 3, options);
	if (program)
		log_size(program, &size);
	log = calloc(1, size + 1);
	if (log && size)
		get_log(program, log);
	bad = code || !log || strstr(log, "warning");
	if (bad)
		printf("# %s, %s: error %d\n%s\n", path, arch, code, log ? log : "");
	if (program)
		destroy(&program);
	free(log);
	free(text);
	return bad;
}

int main(int argc, char **argv)
{
	const char *given = getenv("CELLGRAD_TEST_NVRTC");
	void *library = NULL;
	int failed = 0, n = 0, archs[128], major = 0, minor = 0;

	if (given && *given)
		library = dlopen(given, RTLD_NOW);
	for (size_t k = 0; k < sizeof places / sizeof *places && !(given && *given) && !library; k++)
		library = dlopen(places[k], RTLD_NOW);
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
	for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
		char arch[20];
		int known = 0;

		for (int k = 0; k < n; k++)
			known |= archs[k] == wanted[w].arch;
		snprintf(arch, sizeof arch, "%s_%d", wanted[w].word, wanted[w].arch);
		for (int k = 1; k < argc && known; k++)
			failed += fails(argv[k], arch);
		printf("# NVRTC %d.%d, %s: %s\n", major, minor, arch, known ? "compiled" : "not known to this version");
	}
	return failed != 0;
}
