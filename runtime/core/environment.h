/*
 * The variables of the environment, all in one table: who reads each, what it may be, what holds without it.  The library, the
 * backends and the command read the environment through here and nowhere else.  A variable that is empty counts as unset.
 */
#ifndef CG_ENVIRONMENT_H
#define CG_ENVIRONMENT_H

#include <stddef.h>
#include <stdint.h>

enum {
	CG_ENV_BACKEND, CG_ENV_CACHE, CG_ENV_CACHE_DIR, CG_ENV_CACHE_MAXSIZE, CG_ENV_CHECK, CG_ENV_CPU_ISA, CG_ENV_CPU_THREADS,
	CG_ENV_CUBLAS_LIB, CG_ENV_CUDA_LIB, CG_ENV_CUDNN_LIB, CG_ENV_NVRTC_LIB, CG_ENV_OPENCL_LIB, CG_ENV_VERBOSE,
	CG_ENV_TEST, CG_ENV_FAKE,
	/* Not ours, but read. */
	CG_ENV_HOME, CG_ENV_XDG_CACHE_HOME, CG_ENV_OCL_ICD_FILENAMES, CG_ENV_OCL_ICD_VENDORS, CG_ENV_OPENCL_VENDOR_PATH,
	CG_ENV_RUSTICL_ENABLE, CG_ENV_CUDA_VISIBLE_DEVICES, CG_ENV_CUBLAS_WORKSPACE_CONFIG,
	CG_ENV_LC_ALL, CG_ENV_LC_CTYPE, CG_ENV_LANG, CG_ENV_NO_COLOR, CG_ENV_TERM,
	CG_ENV_VARIABLES
};

/* Words and numbers are judged by their form alone; so is a path, which is absolute or one of the words. */
enum cg_variable_kind { CG_ENV_TEXT, CG_ENV_WORD, CG_ENV_NUMBER, CG_ENV_PATH };

struct cg_variable {
	const char *name;                /* one that ends in _ stands for every name that begins so */
	const char *reader;              /* the part that reads it: a backend, the command, the tests */
	enum cg_variable_kind kind;
	const char *words;               /* those that are allowed, with blanks; NULL: none */
	uint64_t least;                  /* of a number */
	const char *allowed;             /* what a text, a number or a path may be, for people; NULL: the words say it */
	const char *fallback;            /* what holds where it is unset; NULL: nothing */
	const char *what;                /* what it does */
	int withheld;                    /* a program with another user's rights does not read it */
};
extern const struct cg_variable cg_variables[CG_ENV_VARIABLES];

/* The value; NULL when it is unset or empty, or not to be read by this program. */
const char *cg_variable(int which);
/* "off, ro or rw": what is expected. */
const char *cg_variable_allowed(int which, char *text, size_t room);
/* Is the value allowed?  *result (may be NULL) becomes the number, or the place of the word, and stays as it is for the value NULL
 * and for a path or a text.  When it is not, 0, and the words are in `why`. */
int cg_variable_judge(int which, const char *value, uint64_t *result, char *why, size_t room);
/* The same of the value that is set: CG_BAD_ARGUMENT with those words. */
int cg_variable_ask(int which, uint64_t *result);
/* What CELLGRAD_VERBOSE says: 0 for silence, 1 for a line of each call. */
int cg_verbose_level(int *level);
/* Every variable whose value can be judged without a device: CG_BAD_ARGUMENT for the first that is wrong. */
int cg_environment_check(void);

/* The row that a name belongs to; -1: there is none. */
int cg_variable_find(const char *name);
/* The k-th entry "NAME=VALUE" of the environment whose name begins so; NULL past the last. */
const char *cg_environment_entry(const char *beginning, int k);
/* "CELLGRAD_BACKEDN is no variable of cellgrad; did you mean CELLGRAD_BACKEND?": of an entry that has no row.  0: it has one. */
int cg_environment_unknown(const char *entry, char *words, size_t room);
/* Says that of each such entry, the first time that it is called in a process.  say: NULL is a line on standard error. */
void cg_environment_warn(void (*say)(const char *words));

#endif
