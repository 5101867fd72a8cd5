/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of `cellgrad bench` share. bench_command.c turns arguments into a request, problem.c the request into problems;
 * roof.c measures what the machine can do, timing.c how long a problem takes; report.c and plot.c show the results.
 */
#ifndef BENCH_H
#define BENCH_H

#include "command/run/op_call.h"
#include "command/file.h"
#include "runtime/device/inspect.h"

enum { BENCH_FORWARD = 1, BENCH_GRAD = 2 };      /* bits of problem.what; what - 1 is an index of bench_whats */
extern const char *const bench_whats[3];         /* fwd bwd fwd+bwd */

struct problem {
	const struct cg_op *row, *forward, *grad;        /* the named op; the forward op and its gradient, which share one struct */
	int   theirs, what;                      /* theirs: the op has TensorFlow's name and gives only TensorFlow's outputs */
	void *op;                                /* struct of the op: sizes, dtype, attributes and lengths; no other memory */
	double valid;                            /* share of the steps that are valid; 1 where the op has no lengths */
	int32_t *lengths;                        /* lengths of rows, whose sum is that share of all steps; NULL: all whole */
};

/* The row of the op whose sizes are checked: the gradient's where a gradient is measured. */
const struct cg_op *problem_ready(const struct problem *);
const char *problem_name(const struct problem *);
int64_t     problem_get_size(const struct problem *, const char *symbol);
double      problem_rows(const struct problem *);        /* rows of all steps together that are valid */
const char *problem_mode(const struct problem *);        /* "lstm"; for a network the name of its cell */
/* Writes the problem as arguments of `cellgrad bench`; returns text. */
const char *problem_line(const struct problem *, char *text, size_t capacity);
int         problem_dtype(const struct problem *);

/* A size: its option, its symbol, and its default. */
enum { PROBLEM_SIZES = 5, PROBLEM_LIST = 64 };
struct problem_size { const char *name, *symbol; int64_t usual; const char *of; };      /* of: what it counts, "step" */
extern const struct problem_size problem_sizes[PROBLEM_SIZES];

/* What the user asked for. */
struct request {
	const char *op, *mode;                   /* NULL: all */
	const char **attributes;                 /* NAME=VALUE, attributes of the op; ends with NULL */
	int64_t list[PROBLEM_SIZES][PROBLEM_LIST];
	int     lengths[PROBLEM_SIZES];          /* of the lists; 0: not given */
	int     what, dtype;                     /* what: 0 where the op's name says it; dtype: -1 where not given */
	double  valid;
};

struct problems {
	struct problem *list;
	size_t n;
	struct call named;                       /* the op of the request; the problems point to its attributes; no row: none was named */
};
int  problems_add(struct problems *, const struct request *);
void problems_free(struct problems *);

/* The measurements of a problem; times are of one call, in milliseconds. */
struct result {
	const struct problem *problem;
	double least, median, spread;            /* spread: median absolute deviation */
	long   reps, calls;                      /* samples, and calls in each */
	double flops, bytes;                     /* flops: of the matrix products; bytes: each argument read or written once */
	double gflops, gbytes;                   /* both a second, by the median */
	double copy;                             /* GB/s of the device's own copy of as many bytes, the median; 0: not measured */
	double share;                            /* of the roof: least time that the machine allows over the median; 0: not known */
	int    by_products;                      /* which roof is lower: that of the products, else that of the copies */
};

/* Checks that the sizes fit in 64 bits and the arguments in free memory. CG_BAD_ARGUMENT: the message says what does not fit. */
int timing_check(const struct problem *);
/* Measures for `time` seconds, or takes `reps` samples if that is not 0. All memory, workspace included, is allocated before the
 * first call. Where the device has a copy of its own, each sample is followed by a sample of copies. */
int timing_measure(struct cg_context *, const struct problem *, double time, long reps, struct result *);

/* Bytes of memory that are free without swapping, or of all memory where the system does not report that. */
double machine_memory(void);
/* The number after a key in a system file, times unit; -1: not found. */
double machine_number(const char *path, const char *key, double unit);

/* What the machine can do with this number of threads. */
enum { ROOF_COPIES = 4 };
struct roofs {
	int    threads;
	const char *isa;                         /* instruction set of the loops of multiply and add; NULL: the roofs of a device */
	double f32, f64, bf16;                   /* GFLOP/s of multiply and add in registers; of a device not known: 0 */
	struct { double bytes, gbytes; } copy[ROOF_COPIES];      /* GB/s of copies (bytes read and written) over increasing sizes */
};
/* Measures each roof for `time` seconds; on a device that has a copy of its own, only the copies. */
int  roof_measure(struct cg_context *, int threads, double time, struct roofs *);
/* Measures n of the driver's copies from the first half of a buffer to the second; *ms is the time of one. */
int  roof_copy(struct cg_stream *, struct cg_mem capacity, long n, double *ms);
/* Sets share and by_products. */
void roof_share(const struct roofs *, struct result *);

/* Prints the lines above the table, or the first JSON object; attributes: those that were given. */
int report_head(const struct cg_context *, const struct roofs *, const char *const *attributes, int json);
int report_json(const struct cg_context *, const struct roofs *, const struct result *);
int report_table(const struct result *, size_t n);

/* An SVG picture of the results, and FILE.tsv with their numbers. plot_check runs before any work and checks that both can be written. */
struct plot { struct file picture, data; };
int  plot_check(struct plot *, const char *path);
int  plot_write(struct plot *, const struct result *, size_t n);
void plot_close(struct plot *);

#endif
