/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services for every file of the library: error messages, host memory, sized structs, element types, cells.
 */
#ifndef CG_CORE_H
#define CG_CORE_H

#include <stdarg.h>

#include "gen/cell.h"
#include "runtime/cellgrad.h"

enum { CG_MESSAGE_MAX = 4096 };          /* bytes of a message, with the final NUL */

/* Sets the calling thread's error message and returns `code`, so that a function fails by `return cg_fail(...)`. */
int cg_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts the text and ": " before the calling thread's message, and returns `code`. */
int cg_fail_in(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Allocates the library's host memory: resizes p (NULL: allocates memory) to `bytes`; bytes 0 frees p and returns NULL.  For bytes > 0 a
 * result of NULL is a failure: p is unchanged and the error message is set. */
void *cg_memory(void *p, size_t bytes);
/* For tests: makes the n-th request to cg_memory() from now fail (1: the next; 0: none); only calls with bytes > 0 are requests.  Returns
 * the number of requests since the last call of cg_memory_fail(). */
size_t cg_memory_fail(size_t n);

/* Describes a public struct that starts with its size and grows at its end.  Field `first`: the struct's size in the first version of the
 * header; field `size`: the struct's size now. */
struct cg_sized { size_t first, size; void (*init)(void *to, size_t size); };
/* last: the last field of the struct in the first version of the header. */
#define CG_SIZED(type, last, init) { offsetof(type, last) + sizeof(((type *)0)->last), sizeof(type), init }
/* Initialises a caller's struct of `size` bytes: its size, then the defaults, then zeros. */
void cg_sized_init(void *to, size_t size, const void *defaults, size_t ours);
/* Refuses NULL, and a caller's struct that is shorter than this library's, more than four times as long, or longer with a nonzero byte
 * beyond this library's fields; the message begins with the name of the call. */
int cg_sized_check(const char *call, const char *type, const void *given, size_t ours);
/* Completes a struct that was compiled against an earlier header: copies its fields to `storage`, which has the current size, sets the
 * missing fields to their defaults, and returns `storage`.  Returns `given` itself if it is NULL, has at least the current size, or is
 * shorter than the struct of the first header. */
const void *cg_sized_complete(const struct cg_sized *, const void *given, void *storage);

#define CG_TRY(call) do { int cg_code_ = (call); if (cg_code_) return cg_code_; } while (0)

/* Counts the forks that led to this process, from the first call of this function on.  A context, and all that is made from
 * it, must not be used in a process whose count differs from the one when the context was opened. */
int cg_fork_count(void);

/* FNV-1a hash: continues `fingerprint`, which starts as CG_FINGERPRINT, with more bytes. */
#define CG_FINGERPRINT 0xcbf29ce484222325u
uint64_t cg_fingerprint(uint64_t fingerprint, const void *, size_t bytes);

/* The greatest common divisor; if one number is 0, the other one. */
static inline uint64_t cg_common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* ---- lines on standard error: line.c ---- */

enum { CG_LINE = 6 * 1024 };             /* bytes of a line: one and a half times those of a message */
/* Appends to a line; text that does not fit is cut. */
void cg_line_add(char *line, size_t capacity, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Appends text that may contain arbitrary bytes of a caller; replaces line ends and other control characters by blanks. */
void cg_line_add_plain(char *line, size_t capacity, const char *text);
/* Ends the line, which must have space for one more character, and writes it to standard error. */
void cg_line_write(char *line);
/* The time of a monotonic clock, in milliseconds. */
double cg_milliseconds(void);

/* ---- element types: dtype.c ---- */

/* cg_dtype_name returns "f16" "bf16" "f32" "f64", or "?" for an invalid dtype.  cg_dtype_find returns the dtype of such a name, or of
 * its spelling in TensorFlow, numpy or safetensors; -1, with an error message, for any other name.  The sizes of dtypes are in
 * gen/cell.h. */
const char *cg_dtype_name(int dtype);
int         cg_dtype_find(const char *name);
/* Rounds to a dtype, to nearest even. */
double      cg_round(int dtype, double);
/* Reads or writes one element at any address, aligned or not; cg_element_put() rounds to nearest even. */
double      cg_element_get(int dtype, const void *at);
void        cg_element_put(int dtype, void *at, double value);

/* ---- cells: cell.c ---- */

/* cg_cell_retain() takes a reference to a cell, cg_cell_release() drops one.  The cell is freed when its owner has closed it and no
 * reference is left. */
void cg_cell_retain(const struct cg_cell *);
void cg_cell_release(const struct cg_cell *);
/* A hash of a cell's text without comments, empty lines, blanks that separate no words, and line ends within parentheses.  In the header
 * of a reserve space and in the metadata of files, cells with equal digests count as the same cell. */
uint64_t cg_cell_digest(const struct cg_cell *);

/* Checks a caller's description of a kernel, except its shape, and parses its options; call: the public call, for the message. */
int cg_kernel_check(const struct cg_kernel *, const char *call, int *options);
/* Prints a header for C and C++ with prototypes of the functions that cg_kernel_emit prints in language c. */
int cg_kernel_header(const struct cg_kernel *, char **text);

#endif
