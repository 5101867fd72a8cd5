/*
 * What every file of the library shares: messages, memory of the host, element types, cells.
 */
#ifndef CG_CORE_H
#define CG_CORE_H

#include <stdarg.h>

#include "gen/cell.h"
#include "runtime/cellgrad.h"

enum { CG_MESSAGE_MAX = 4096 };          /* of a message, with its end */

/* Writes this thread's message and returns the code, so that failing is one expression. */
int cg_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "words: " before the message there is, and returns the code. */
int cg_fail_in(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* All memory of the host comes and goes through here: grows p (NULL: new) to bytes, 0 frees it and returns NULL.  NULL for
 * bytes > 0 means there is none, and p is left as it was; the message is set. */
void *cg_memory(void *p, size_t bytes);
/* Tests make the n-th request from now fail (1 the next); 0 never.  Returns the requests made since the last call. */
size_t cg_memory_fail(size_t n);

/* A public struct that begins with its size and grows at its end: its size in the first header that had it, and now. */
struct cg_sized { size_t first, size; void (*init)(void *to, size_t size); };
/* In the first header the struct ended with this field. */
#define CG_SIZED(type, last, init) { offsetof(type, last) + sizeof(((type *)0)->last), sizeof(type), init }
/* Fills a caller's struct of `size` bytes, and no byte more: with the defaults as far as it goes, zeros beyond them, and its size. */
void cg_sized_init(void *to, size_t size, const void *defaults, size_t ours);
/* CG_OK, or why a struct that is as long as ours, or longer, cannot be: "call: size: words". */
int cg_sized_check(const char *call, const char *type, const void *given, size_t ours);
/* The given struct; one of an earlier header copied over the defaults, in room, which has today's size.  What is no such struct, by
 * its size or as NULL, is given back as it is. */
const void *cg_sized_complete(const struct cg_sized *, const void *given, void *room);

#define CG_TRY(call) do { int cg_code_ = (call); if (cg_code_) return cg_code_; } while (0)

/* Children of this process so far, counted in them: an object made under another count is not to be used. */
int cg_fork_count(void);

/* A number for some bytes, after those that `fingerprint` stands for, or CG_FINGERPRINT before the first: FNV-1a.  To compare by. */
#define CG_FINGERPRINT 0xcbf29ce484222325u
uint64_t cg_fingerprint(uint64_t fingerprint, const void *, size_t bytes);

/* ---- lines on standard error: line.c ---- */

enum { CG_LINE = 6 * 1024 };             /* a message, and as much again */
/* Appends to a line; what does not fit is cut. */
void cg_line_add(char *line, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same of words that may be of several lines and quote what a caller gave: they neither end the line nor move the cursor. */
void cg_line_add_plain(char *line, size_t room, const char *words);
/* Ends the line, for which there must be room, and writes it. */
void cg_line_write(char *line);
/* Of a clock that only goes forward. */
double cg_milliseconds(void);

/* ---- element types: dtype.c ---- */

/* "f16" "bf16" "f32" "f64", "?" for no dtype; back from these and from the spellings of TensorFlow, numpy and safetensors,
 * -1 and a message for any other.  Sizes are in gen/cell.h. */
const char *cg_dtype_name(int dtype);
int         cg_dtype_find(const char *name);
/* Rounds to a dtype, to nearest even. */
double      cg_round(int dtype, double);
/* A number in memory at any address; put rounds to nearest even. */
double      cg_element(int dtype, const void *at);
void        cg_element_put(int dtype, void *at, double value);

/* ---- cells: cell.c ---- */

/* References to a cell: it is freed when its owner has closed it and every reference has been dropped. */
void cg_cell_hold(const struct cg_cell *);
void cg_cell_drop(const struct cg_cell *);
/* Of a cell's text, which comments and blanks do not change: two cells of one digest are one cell. */
uint64_t cg_cell_digest(const struct cg_cell *);

/* Checks what a caller says of a kernel, his call in the message, and reads its options. */
int cg_kernel_check(const struct cg_kernel *, const char *call, int *options);
/* As cg_kernel_emit: prototypes of the functions of its text in C, for who includes them in C or C++. */
int cg_kernel_header(const struct cg_kernel *, char **text);

#endif
