/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of environment variables, with the reader, the allowed values, the default and the effect of each.  The files of runtime/,
 * backends/ and command/ read the environment only through these functions.  For cg_variable_get() an empty variable counts as unset.
 */
#ifndef CG_ENVIRONMENT_H
#define CG_ENVIRONMENT_H

#include <stddef.h>
#include <stdint.h>

enum {
	CG_ENV_BACKEND, CG_ENV_CACHE, CG_ENV_CACHE_DIR, CG_ENV_CACHE_MAXSIZE, CG_ENV_CHECK, CG_ENV_CPU_ISA, CG_ENV_CPU_THREADS,
	CG_ENV_CUBLAS_LIB, CG_ENV_CUDA_LIB, CG_ENV_CUDNN_LIB, CG_ENV_NVRTC_LIB, CG_ENV_OPENBLAS_LIB, CG_ENV_OPENCL_LIB, CG_ENV_VERBOSE,
	CG_ENV_TF_BLOCK, CG_ENV_TF_FORCE, CG_ENV_TF_PLUGIN, CG_ENV_LIBRARY, CG_ENV_TORCH_EXTENSION,
	CG_ENV_TEST, CG_ENV_FAKE,
	/* Variables of other programs. */
	CG_ENV_HOME, CG_ENV_XDG_CACHE_HOME, CG_ENV_OCL_ICD_FILENAMES, CG_ENV_OCL_ICD_VENDORS, CG_ENV_OPENCL_VENDOR_PATH,
	CG_ENV_RUSTICL_ENABLE, CG_ENV_CUDA_VISIBLE_DEVICES, CG_ENV_CUBLAS_WORKSPACE_CONFIG,
	CG_ENV_LC_ALL, CG_ENV_LC_CTYPE, CG_ENV_LANG, CG_ENV_NO_COLOR, CG_ENV_TERM,
	CG_ENV_VARIABLES
};

/* Words, numbers and paths are checked by their form alone, texts not at all.  A path must be absolute, or one of the allowed words. */
enum cg_variable_kind { CG_ENV_TEXT, CG_ENV_WORD, CG_ENV_NUMBER, CG_ENV_PATH };

struct cg_variable {
	const char *name;                /* a name that ends in _ stands for all names with that prefix */
	const char *reader;              /* the part that reads the variable, such as cpu, cache or command */
	enum cg_variable_kind kind;
	const char *choices;             /* allowed words, separated by blanks; NULL: none */
	uint64_t least;                  /* least number allowed */
	const char *allowed;             /* allowed values beside the words, in prose; NULL: only the words */
	const char *fallback;            /* what holds when the variable is unset, in prose; NULL: nothing */
	const char *what;                /* the variable's effect, in prose */
	int withheld;                    /* 1: the variable is ignored in programs that run with more rights than the user who started them */
};
extern const struct cg_variable cg_variables[CG_ENV_VARIABLES];

/* The value of a variable; NULL if the variable is unset or empty, or withheld since this program runs with more rights
 * than the user who started it. */
const char *cg_variable_get(int which);
/* The allowed values as text, "off, ro or rw". */
const char *cg_variable_allowed(int which, char *text, size_t capacity);
/* Is the value allowed?  If the value is allowed, returns 1 and sets *result (`result` may be NULL) to the number or to the index of the
 * word; a path, a text and the value NULL leave *result unchanged.  If the value is not allowed, returns 0 and writes the reason to
 * `why`. */
int cg_variable_judge(int which, const char *value, uint64_t *result, char *why, size_t capacity);
/* Judges the current value of a variable as cg_variable_judge() does; fails with CG_BAD_ARGUMENT and the reason. */
int cg_variable_read(int which, uint64_t *result);
/* Sets *level to 1 if CELLGRAD_VERBOSE is 1 or calls, which prints a line for each call that computes, else to 0. */
int cg_verbose_level(int *level);
/* Checks the form of each variable of the table; fails with CG_BAD_ARGUMENT for the first wrong one. */
int cg_environment_check(void);

/* The index of the row of the variable with this name; -1: there is none. */
int cg_variable_find(const char *name);
/* The k-th entry "NAME=VALUE" of the environment that begins with the text `beginning`; NULL past the last. */
const char *cg_environment_entry(const char *beginning, int k);
/* If no row of the table has the entry's name, writes a message such as "CELLGRAD_BACKEDN is not a variable of cellgrad; did you mean
 * CELLGRAD_BACKEND?" and returns 1; else returns 0. */
int cg_environment_unknown(const char *entry, char *message, size_t capacity);
/* Reports each entry of the environment that begins with CELLGRAD_ and that cg_environment_unknown() rejects; only the first call in a
 * process reports.  report: the function that receives the message; NULL prints a line on standard error. */
void cg_environment_warn(void (*report)(const char *message));

#endif
