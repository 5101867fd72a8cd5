/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libnvrtc: programs and options as NVRTC accepts them. nvrtc_compile.c compiles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvrtc.h"
#include "misuse_report.h"

struct program {
	struct program *next;
	int dead;
	char *text, *name, *log, *ptx;
	struct fake_image *image;
	int is_virtual;
};
static struct program *programs;

/* Fails on request; checks a program's handle. Destroyed programs stay in the list, so that a new one has no old one's address. */
static int check(const char *call, const struct program *program)
{
	int code = fake_refused(call, INTERNAL_ERROR);

	if (code)
		return code;
	for (struct program *p = programs; p; p = p->next)
		if (p == program && !p->dead)
			return 0;
	fake_report("%s: %p is not a program, or was destroyed", call, (const void *)program);
	return INVALID_PROGRAM;
}

static __attribute__((destructor)) void at_exit(void)
{
	int n = 0;

	for (struct program *p = programs; p; p = p->next)
		n += !p->dead;
	if (n)
		fake_report("at exit: %d programs of NVRTC were not destroyed", n);
}

/* ---- what it is ---- */

FAKE_API int nvrtcVersion(int *major, int *minor)
{
	int code = fake_refused("nvrtcVersion", INTERNAL_ERROR);

	*major = fake_version() / 1000;
	*minor = fake_version() % 1000 / 10;
	return code;
}

FAKE_API const char *nvrtcGetErrorString(int code)
{
	static const char *const names[] = {
		"NVRTC_SUCCESS", "NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_PROGRAM_CREATION_FAILURE", "NVRTC_ERROR_INVALID_INPUT",
		"NVRTC_ERROR_INVALID_PROGRAM", "NVRTC_ERROR_INVALID_OPTION", "NVRTC_ERROR_COMPILATION",
		"NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
		"NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION", "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID", "NVRTC_ERROR_INTERNAL_ERROR",
	};

	return code >= 0 && code < (int)(sizeof names / sizeof *names) ? names[code] : "NVRTC_ERROR unknown";
}

/* The versions of NVRTC, as 12080, that compile for each architecture: the first and the last. */
static const struct { int arch, from, to; } archs[] = {
	{ 35, 0, 11990 }, { 37, 0, 11990 }, { 50, 0, 12990 }, { 52, 0, 12990 }, { 53, 0, 12990 }, { 60, 0, 12990 }, { 61, 0, 12990 },
	{ 62, 0, 12990 }, { 70, 0, 12990 }, { 72, 0, 12990 }, { 75, 0, 99999 }, { 80, 0, 99999 }, { 86, 11010, 99999 },
	{ 87, 11040, 99999 }, { 88, 13000, 99999 }, { 89, 11080, 99999 }, { 90, 11080, 99999 }, { 100, 12080, 99999 },
	{ 101, 12080, 12990 }, { 103, 12090, 99999 }, { 110, 13000, 99999 }, { 120, 12080, 99999 }, { 121, 12090, 99999 },
};

static int list(int *to)
{
	int n = 0;

	for (size_t k = 0; k < sizeof archs / sizeof *archs; k++)
		if (archs[k].from <= fake_version() && fake_version() <= archs[k].to) {
			if (to)
				to[n] = archs[k].arch;
			n++;
		}
	return n;
}

FAKE_API int nvrtcGetNumSupportedArchs(int *n)
{
	*n = list(NULL);
	return fake_refused("nvrtcGetNumSupportedArchs", INTERNAL_ERROR);
}

FAKE_API int nvrtcGetSupportedArchs(int *to)
{
	list(to);
	return fake_refused("nvrtcGetSupportedArchs", INTERNAL_ERROR);
}

static int is_supported(int arch)
{
	int known[sizeof archs / sizeof *archs], n = list(known);

	while (n && known[n - 1] != arch)
		n--;
	return n;
}

/* ---- programs ---- */

FAKE_API int nvrtcCreateProgram(struct program **result, const char *text, const char *name, int n, const char *const *headers,
                                const char *const *names)
{
	int code = fake_refused("nvrtcCreateProgram", INTERNAL_ERROR);
	struct program *program;

	if (code)
		return code;
	if (!result || !text || n < 0 || (n && (!headers || !names)))
		return INVALID_INPUT;
	if (n) {
		fake_report("nvrtcCreateProgram: the stand-in takes no headers");
		return INVALID_INPUT;
	}
	program = calloc(1, sizeof *program);
	if (!program)
		abort();
	program->text = strdup(text);
	program->name = strdup(name ? name : "default_program");
	program->log = strdup("");
	program->next = programs;
	*result = programs = program;
	return 0;
}

FAKE_API int nvrtcDestroyProgram(struct program **program)
{
	int code = check("nvrtcDestroyProgram", *program);

	if (code)
		return code;
	free((*program)->text);
	free((*program)->name);
	free((*program)->log);
	free((*program)->ptx);
	free((*program)->image);
	(*program)->dead = 1;
	*program = NULL;
	return 0;
}

/* ---- options ---- */

static int parse_arch(const char *value, struct options *o)
{
	char rest;

	if (sscanf(value, "sm_%d%c", &o->arch, &rest) == 1)
		o->is_virtual = 0;
	else if (sscanf(value, "compute_%d%c", &o->arch, &rest) == 1)
		o->is_virtual = 1;
	else
		return 0;
	return is_supported(o->arch);
}

static int parse_bool(const char *value, int *to)
{
	*to = !strcmp(value, "true");
	return *to || !strcmp(value, "false");
}

static int parse_flush(const char *value, struct options *o)
{
	return parse_bool(value, &o->flush);
}

static int parse_fuse(const char *value, struct options *o)
{
	return parse_bool(value, &o->fuse);
}

static int parse_precision(const char *value, struct options *o)
{
	int ignored;

	(void)o;
	return parse_bool(value, &ignored);
}

static int parse_fast(const char *value, struct options *o)
{
	(void)value;
	o->flush = o->fuse = 1;
	return 1;
}

static int parse_any(const char *value, struct options *o)
{
	(void)value;
	(void)o;
	return 1;
}

/* The names of options, without the one or two dashes before them.  A name that ends with = is followed by a value. */
static const struct { const char *name; int (*parse)(const char *value, struct options *); } known[] = {
	{ "gpu-architecture=", parse_arch }, { "arch=", parse_arch },
	{ "ftz=", parse_flush }, { "fmad=", parse_fuse }, { "use_fast_math", parse_fast },
	{ "prec-sqrt=", parse_precision }, { "prec-div=", parse_precision }, { "extra-device-vectorization", parse_any },
	{ "relocatable-device-code=", parse_precision }, { "rdc=", parse_precision }, { "device-debug", parse_any }, { "G", parse_any },
	{ "generate-line-info", parse_any }, { "lineinfo", parse_any }, { "ptxas-options=", parse_any }, { "maxrregcount=", parse_any },
	{ "std=", parse_any }, { "disable-warnings", parse_any }, { "w", parse_any }, { "restrict", parse_any },
	{ "default-device", parse_any }, { "device-as-default-execution-space", parse_any }, { "device-int128", parse_any },
	{ "builtin-move-forward=", parse_precision }, { "builtin-initializer-list=", parse_precision }, { "no-source-include", parse_any },
};

static int parse(const char *option, struct options *o)
{
	const char *name = option + (option[0] == '-') + (option[0] == '-' && option[1] == '-');

	if (name == option)
		return 0;
	if ((!strncmp(option, "-D", 2) || !strncmp(option, "-U", 2)) && o->n_flags < MOST_FLAGS) {
		o->flags[o->n_flags++] = option;
		return 1;
	}
	for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
		size_t length = strlen(known[k].name);
		int valued = known[k].name[length - 1] == '=';

		if (valued ? !strncmp(name, known[k].name, length) : !strcmp(name, known[k].name))
			return known[k].parse(name + length, o);
	}
	return 0;
}

static void put_log(struct program *program, char *log)
{
	free(program->log);
	program->log = log;
}

FAKE_API int nvrtcCompileProgram(struct program *program, int n, const char *const *options)
{
	struct options o = { .arch = fake_version() >= 13000 ? 75 : 52, .is_virtual = 1, .fuse = 1 };
	int code = check("nvrtcCompileProgram", program);
	char *log = NULL;

	for (int k = 0; k < n && !code; k++)
		if (!options[k] || !parse(options[k], &o)) {
			if (asprintf(&log, "nvrtc: error: unrecognized option or invalid value: %s\n", options[k] ? options[k] : "(null)") < 0)
				abort();
			put_log(program, log);
			return INVALID_OPTION;
		}
	if (code)
		return code;
	free(program->image);
	program->is_virtual = o.is_virtual;
	program->image = fake_compile(program->text, program->name, &o, &log);
	put_log(program, log ? log : strdup(""));
	return program->image ? 0 : COMPILATION;
}

/* ---- results ---- */

static size_t image_bytes(const struct program *program)
{
	return sizeof *program->image + program->image->bytes;
}

FAKE_API int nvrtcGetCUBINSize(struct program *program, size_t *bytes)
{
	int code = check("nvrtcGetCUBINSize", program);

	if (code)
		return code;
	if (!program->image)
		return INVALID_PROGRAM;
	/* There is no machine code (cubin) for a virtual architecture. */
	*bytes = program->is_virtual ? 0 : image_bytes(program);
	return 0;
}

FAKE_API int nvrtcGetCUBIN(struct program *program, char *to)
{
	int code = check("nvrtcGetCUBIN", program);

	if (code)
		return code;
	if (!program->image || program->is_virtual)
		return INVALID_PROGRAM;
	memcpy(to, program->image, image_bytes(program));
	return 0;
}

/* Makes the program's PTX from its image, anew at each call. */
static int make_ptx(struct program *program)
{
	const unsigned char *bytes = (const unsigned char *)program->image;
	size_t n, used;

	if (!program->image)
		return INVALID_PROGRAM;
	free(program->ptx);
	n = image_bytes(program);
	program->ptx = malloc(200 + 2 * n);
	if (!program->ptx)
		abort();
	used = (size_t)sprintf(program->ptx, FAKE_PTX_START ".version %d.%d\n.target sm_%d\n.address_size 64\n//x",
	                       fake_version() / 1000 - 4, fake_version() % 1000 / 10, program->image->arch);
	for (size_t k = 0; k < n; k++)
		used += (size_t)sprintf(program->ptx + used, "%02x", bytes[k]);
	return 0;
}

FAKE_API int nvrtcGetPTXSize(struct program *program, size_t *bytes)
{
	int code = check("nvrtcGetPTXSize", program);

	if (!code)
		code = make_ptx(program);
	if (!code)
		*bytes = strlen(program->ptx) + 1;
	return code;
}

FAKE_API int nvrtcGetPTX(struct program *program, char *to)
{
	int code = check("nvrtcGetPTX", program);

	if (!code)
		code = make_ptx(program);
	if (!code)
		strcpy(to, program->ptx);
	return code;
}

FAKE_API int nvrtcGetProgramLogSize(struct program *program, size_t *bytes)
{
	int code = check("nvrtcGetProgramLogSize", program);

	if (!code)
		*bytes = strlen(program->log) + 1;
	return code;
}

FAKE_API int nvrtcGetProgramLog(struct program *program, char *to)
{
	int code = check("nvrtcGetProgramLog", program);

	if (!code)
		strcpy(to, program->log);
	return code;
}
