/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of environment variables, and the checks of their values.  The code that reads a variable checks what the value's text alone
 * does not show: whether there are as many processors as the value says, or whether the library that the value names can be loaded.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/cell.h"
#include "runtime/core/environment.h"
#include "runtime/core/core.h"

#ifdef __APPLE__
#include <crt_externs.h>
#define environ (*_NSGetEnviron())
#else
extern char **environ;
#endif

#define LIBRARY "the absolute path of a library"

const struct cg_variable cg_variables[CG_ENV_VARIABLES] = {
	[CG_ENV_BACKEND] = { "CELLGRAD_BACKEND", "cg_open", CG_ENV_TEXT, NULL, 0, "NAME or NAME:DEVICE, or several, separated by commas",
		"the first backend that opens and is not passed over", "the backend of programs that name none", 0 },
	[CG_ENV_CACHE] = { "CELLGRAD_CACHE", "cache", CG_ENV_WORD, "off ro rw", 0, NULL,
		"rw", "whether compiled kernels are read from disk, and written to disk", 1 },
	[CG_ENV_CACHE_DIR] = { "CELLGRAD_CACHE_DIR", "cache", CG_ENV_PATH, NULL, 0, "an absolute path",
		"cellgrad in XDG_CACHE_HOME, or else .cache/cellgrad in HOME", "the folder of compiled kernels", 1 },
	[CG_ENV_CACHE_MAXSIZE] = { "CELLGRAD_CACHE_MAXSIZE", "cache", CG_ENV_NUMBER, NULL, 0, "a number of bytes",
		"268435456", "the most bytes that all files of compiled kernels may have together", 1 },
	[CG_ENV_CHECK] = { "CELLGRAD_CHECK", "networks", CG_ENV_WORD, "0 1", 0, NULL,
		"0", "whether networks check the header of a reserve space in device memory; the check waits for the device", 0 },
	[CG_ENV_CPU_ISA] = { "CELLGRAD_CPU_ISA", "cpu", CG_ENV_WORD, "baseline avx2 avx512 avx512bf16 amxbf16 neon", 0, NULL,
		"the best instruction set that the processor has, of those of this build", "the instruction set of the cpu backend", 0 },
	[CG_ENV_CPU_THREADS] = { "CELLGRAD_CPU_THREADS", "cpu", CG_ENV_NUMBER, NULL, 1, "a whole number from 1 to the number of processors",
		"one thread for each processor, or fewer if quotas allow fewer", "the maximum number of threads of a call on the cpu backend", 0 },
	[CG_ENV_CUBLAS_LIB] = { "CELLGRAD_CUBLAS_LIB", "cuda", CG_ENV_PATH, "none", 0, LIBRARY,
		"the system's libcublas.so", "the cuBLAS of the cuda backend", 1 },
	[CG_ENV_CUDA_LIB] = { "CELLGRAD_CUDA_LIB", "cuda", CG_ENV_PATH, NULL, 0, LIBRARY,
		"the system's libcuda.so.1", "the driver of the cuda backend", 1 },
	[CG_ENV_CUDNN_LIB] = { "CELLGRAD_CUDNN_LIB", "cuda", CG_ENV_PATH, "none", 0, LIBRARY,
		"the system's libcudnn.so", "the cuDNN of the cuda backend", 1 },
	[CG_ENV_NVRTC_LIB] = { "CELLGRAD_NVRTC_LIB", "cuda", CG_ENV_PATH, NULL, 0, LIBRARY,
		"the system's libnvrtc.so", "the compiler of the cuda backend", 1 },
	[CG_ENV_OPENBLAS_LIB] = { "CELLGRAD_OPENBLAS_LIB", "cpu", CG_ENV_PATH, "none", 0, LIBRARY,
		"the system's libopenblas.so.0", "the OpenBLAS of the cpu backend, used where the backend's own products are slower", 1 },
	[CG_ENV_OPENCL_LIB] = { "CELLGRAD_OPENCL_LIB", "opencl", CG_ENV_PATH, NULL, 0, LIBRARY,
		"the system's libOpenCL.so.1", "the loader of the opencl backend", 1 },
	[CG_ENV_VERBOSE] = { "CELLGRAD_VERBOSE", "cg_open", CG_ENV_WORD, "0 none 1 calls", 0, NULL,
		"0", "whether each call that computes writes a line to standard error", 0 },
	[CG_ENV_TF_BLOCK] = { "CELLGRAD_TF_BLOCK", "TensorFlow", CG_ENV_WORD, "0 1", 0, NULL,
		"0", "whether cellgrad's kernels replace TensorFlow's own for its block ops", 0 },
	[CG_ENV_TF_FORCE] = { "CELLGRAD_TF_FORCE", "TensorFlow", CG_ENV_WORD, "0 1", 0, NULL,
		"0", "whether the plugin skips its checks of versions, GPU kernels and OpenCL", 0 },
	[CG_ENV_TF_PLUGIN] = { "CELLGRAD_TF_PLUGIN", "TensorFlow", CG_ENV_PATH, NULL, 0, LIBRARY,
		"the plugin in the Python package's folder or beside the library", "the plugin that cellgrad.tensorflow loads", 1 },
	[CG_ENV_LIBRARY] = { "CELLGRAD_LIBRARY", "Python", CG_ENV_TEXT, NULL, 0, "the path of a library",
		"the library in the package's folder, or the system's", "the library that the Python package loads", 0 },
	[CG_ENV_TORCH_EXTENSION] = { "CELLGRAD_TORCH_EXTENSION", "Python", CG_ENV_TEXT, NULL, 0, "the path of an extension",
		"the extension in the package's folder or the user's cache", "cellgrad.torch's extension for PyTorch's stable ABI", 0 },
	[CG_ENV_TEST] = { "CELLGRAD_TEST_", "tests", CG_ENV_TEXT, NULL, 0, "what tests/README.md says",
		NULL, "for the tests of cellgrad", 0 },
	[CG_ENV_FAKE] = { "CELLGRAD_FAKE_", "tests", CG_ENV_TEXT, NULL, 0, "what tests/fake/README.md says",
		NULL, "for the libraries that stand in for drivers in the tests of cellgrad", 0 },
	[CG_ENV_HOME] = { "HOME", "cache", CG_ENV_TEXT, NULL, 0, "an absolute path",
		NULL, "the parent of .cache/cellgrad, the folder of compiled kernels", 1 },
	[CG_ENV_XDG_CACHE_HOME] = { "XDG_CACHE_HOME", "cache", CG_ENV_TEXT, NULL, 0, "an absolute path",
		NULL, "the parent of the folder cellgrad of compiled kernels", 1 },
	[CG_ENV_OCL_ICD_FILENAMES] = { "OCL_ICD_FILENAMES", "opencl", CG_ENV_TEXT, NULL, 0, "libraries, with colons",
		NULL, "further drivers for the OpenCL loader", 1 },
	[CG_ENV_OCL_ICD_VENDORS] = { "OCL_ICD_VENDORS", "opencl", CG_ENV_TEXT, NULL, 0, "a folder, a file or a library",
		"/etc/OpenCL/vendors", "the drivers that the OpenCL loader loads", 1 },
	[CG_ENV_OPENCL_VENDOR_PATH] = { "OPENCL_VENDOR_PATH", "opencl", CG_ENV_TEXT, NULL, 0, "a folder",
		"/etc/OpenCL/vendors", "where the OpenCL loader finds drivers, unless OCL_ICD_VENDORS says it", 1 },
	[CG_ENV_RUSTICL_ENABLE] = { "RUSTICL_ENABLE", "opencl", CG_ENV_TEXT, NULL, 0, "see Mesa's documentation",
		NULL, "the devices that Mesa's rusticl shows", 1 },
	[CG_ENV_CUDA_VISIBLE_DEVICES] = { "CUDA_VISIBLE_DEVICES", "cuda", CG_ENV_TEXT, NULL, 0, "see NVIDIA's documentation",
		NULL, "the devices that CUDA's driver shows, in this order", 0 },
	[CG_ENV_CUBLAS_WORKSPACE_CONFIG] = { "CUBLAS_WORKSPACE_CONFIG", "cuda", CG_ENV_TEXT, NULL, 0, "see the documentation of cuBLAS",
		NULL, "with :16:8 or :4096:2, results of cuDNN are repeatable to the bit", 0 },
	[CG_ENV_LC_ALL] = { "LC_ALL", "command", CG_ENV_TEXT, NULL, 0, "a locale",
		NULL, "whether the terminal shows UTF-8", 0 },
	[CG_ENV_LC_CTYPE] = { "LC_CTYPE", "command", CG_ENV_TEXT, NULL, 0, "a locale",
		NULL, "whether the terminal shows UTF-8, if LC_ALL is unset", 0 },
	[CG_ENV_LANG] = { "LANG", "command", CG_ENV_TEXT, NULL, 0, "a locale",
		NULL, "whether the terminal shows UTF-8, if LC_ALL and LC_CTYPE are unset", 0 },
	[CG_ENV_NO_COLOR] = { "NO_COLOR", "command", CG_ENV_TEXT, NULL, 0, "anything",
		NULL, "switches colours off", 0 },
	[CG_ENV_TERM] = { "TERM", "command", CG_ENV_TEXT, NULL, 0, "a terminal's name",
		NULL, "the kind of terminal, which decides whether there are colours", 0 },
};

static const char prefix[] = "CELLGRAD_";

/* ---- a value ---- */

const char *cg_variable_get(int which)
{
	const struct cg_variable *v = &cg_variables[which];
	const char *value;

#ifdef __linux__
	value = v->withheld ? secure_getenv(v->name) : getenv(v->name);
#else
	value = v->withheld && issetugid() ? NULL : getenv(v->name);
#endif
	return value && *value ? value : NULL;
}

/* The k-th word of a list that is separated by blanks, and its length; NULL past the last. */
static const char *word_of(const char *choices, int k, size_t *length)
{
	for (; choices; choices += *length + 1) {
		*length = strcspn(choices, " ");
		if (!k--)
			return choices;
		if (!choices[*length])
			break;
	}
	return NULL;
}

/* Joins the allowed words of a variable to one text: "off, ro or rw". */
static void join(const char *choices, char *text, size_t capacity)
{
	const char *word;
	size_t length, used = 0;

	text[0] = '\0';
	for (int k = 0; (word = word_of(choices, k, &length)) && used < capacity; k++)
		used += (size_t)snprintf(text + used, capacity - used, "%s%.*s", !k ? "" : word[length] ? ", " : " or ", (int)length, word);
}

const char *cg_variable_allowed(int which, char *text, size_t capacity)
{
	const struct cg_variable *v = &cg_variables[which];
	char choices[128];

	join(v->choices, choices, sizeof choices);
	snprintf(text, capacity, "%s%s%s", v->allowed ? v->allowed : "", v->allowed && *choices ? ", or " : "", choices);
	return text;
}

enum { WORDS = 8, WORD = 32 };

/* Is the value one of the words in `choices`?  *index: the number of that word; if the value is none of them, near: the nearest word, ""
 * for none. */
static int is_word(const char *choices, const char *value, uint64_t *index, char near[WORD])
{
	char names[WORDS][WORD];
	const char *list[WORDS], *word, *nearest;
	size_t length;
	int n;

	for (n = 0; n < WORDS && (word = word_of(choices, n, &length)); n++) {
		if (strlen(value) == length && !memcmp(value, word, length)) {
			*index = (uint64_t)n;
			return 1;
		}
		snprintf(names[n], WORD, "%.*s", (int)length, word);
		list[n] = names[n];
	}
	nearest = cg_nearest(value, list, n);
	snprintf(near, WORD, "%s", nearest ? nearest : "");
	return 0;
}

static int is_number(const struct cg_variable *v, const char *value, uint64_t *n)
{
	errno = 0;
	*n = strtoull(value, NULL, 10);
	return !value[strspn(value, "0123456789")] && !errno && *n >= v->least;
}

int cg_variable_judge(int which, const char *value, uint64_t *result, char *why, size_t capacity)
{
	const struct cg_variable *v = &cg_variables[which];
	char near[WORD] = "", allowed[256];
	uint64_t n = 0;

	if (!value || v->kind == CG_ENV_TEXT || (v->kind == CG_ENV_PATH && *value == '/'))
		return 1;
	if (v->kind == CG_ENV_NUMBER ? is_number(v, value, &n) : is_word(v->choices, value, &n, near)) {
		if (result && v->kind != CG_ENV_PATH)
			*result = n;
		return 1;
	}
	snprintf(why, capacity, "%s: expected %s, got '%.300s'%s%s%s", v->name, cg_variable_allowed(which, allowed, sizeof allowed), value,
	         *near ? "; did you mean " : "", near, *near ? "?" : "");
	return 0;
}

int cg_variable_read(int which, uint64_t *result)
{
	char why[640];

	return cg_variable_judge(which, cg_variable_get(which), result, why, sizeof why) ? CG_OK : cg_fail(CG_BAD_ARGUMENT, "%s", why);
}

int cg_verbose_level(int *level)
{
	uint64_t word = 0;               /* the number of the variable's value among the four words "0 none 1 calls", from 0 on */

	*level = 0;
	CG_TRY(cg_variable_read(CG_ENV_VERBOSE, &word));
	*level = word > 1;
	return CG_OK;
}

int cg_environment_check(void)
{
	for (int which = 0; which < CG_ENV_VARIABLES; which++)
		CG_TRY(cg_variable_read(which, NULL));
	return CG_OK;
}

/* ---- names ---- */

/* Does the row's name stand for all names that begin with the row's name? */
static int is_prefix(const char *row)
{
	return row[strlen(row) - 1] == '_';
}

int cg_variable_find(const char *name)
{
	for (int which = 0; which < CG_ENV_VARIABLES; which++) {
		const char *row = cg_variables[which].name;

		if (is_prefix(row) ? !strncmp(name, row, strlen(row)) : !strcmp(name, row))
			return which;
	}
	return -1;
}

const char *cg_environment_entry(const char *beginning, int k)
{
	for (char **entry = environ; entry && *entry; entry++)
		if (!strncmp(*entry, beginning, strlen(beginning)) && !k--)
			return *entry;
	return NULL;
}

enum { NAME = 100 };

/* The name of an entry, possibly cut, with ? in place of blanks and of characters that are not printable ASCII. */
static void name_of(const char *entry, char name[NAME])
{
	size_t n = 0;

	for (; entry[n] && entry[n] != '=' && n + 1 < NAME; n++)
		name[n] = entry[n] > ' ' && entry[n] < 0x7f ? entry[n] : '?';
	name[n] = '\0';
}

int cg_environment_unknown(const char *entry, char *message, size_t capacity)
{
	const char *names[CG_ENV_VARIABLES], *nearest;
	char name[NAME];
	int n = 0;

	name_of(entry, name);
	if (cg_variable_find(name) >= 0)
		return 0;
	for (int which = 0; which < CG_ENV_VARIABLES; which++)
		if (!strncmp(cg_variables[which].name, prefix, sizeof prefix - 1) && !is_prefix(cg_variables[which].name))
			names[n++] = cg_variables[which].name;
	nearest = cg_nearest(name, names, n);
	snprintf(message, capacity, "%s is not a variable of cellgrad; %s%s%s", name, nearest ? "did you mean " : "cellgrad(1) lists them",
	         nearest ? nearest : "", nearest ? "?" : "");
	return 1;
}

static void print(const char *message)
{
	char line[340];

	snprintf(line, sizeof line, "cellgrad: %s\n", message);
	fputs(line, stderr);
}

void cg_environment_warn(void (*report)(const char *message))
{
	static int warned;
	const char *entry;
	char message[320];

	if (__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED))
		return;
	for (int k = 0; (entry = cg_environment_entry(prefix, k)); k++)
		if (cg_environment_unknown(entry, message, sizeof message))
			(report ? report : print)(message);
}
