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
	const struct cg_op *row, *forward, *grad;        /* row: the named op; forward and its grad share one struct */
	int   theirs, what;                      /* theirs: 1: the op has TensorFlow's name and gives only TensorFlow's outputs; what: bits */
	void *op;                                /* the op's struct, with sizes, dtype, attributes and lengths, but no tensors */
	double valid;                            /* share of the steps that are valid; 1 where the op has no lengths */
	int32_t *lengths;                        /* [B]: steps of each row; their sum is `valid` T B, rounded; NULL: all are T */
};

/* The row of the op table by which a problem's sizes are inferred and its plan is opened: the gradient's where a gradient is measured. */
const struct cg_op *problem_ready(const struct problem *);
const char *problem_name(const struct problem *);
int64_t     problem_get_size(const struct problem *, const char *symbol);
double      problem_rows(const struct problem *);        /* valid rows, summed over all steps */
const char *problem_mode(const struct problem *);        /* for a network the name of its cell; else the cell in the op's name, "lstm" */
/* Writes the problem into `text`, as arguments of `cellgrad bench`; returns `text`. */
const char *problem_line(const struct problem *, char *text, size_t capacity);
int         problem_dtype(const struct problem *);

/* A size of a problem: its option, its symbol, and its default. */
enum { PROBLEM_SIZES = 5, PROBLEM_LIST = 64 };
struct problem_size { const char *name, *symbol; int64_t usual; const char *of; };      /* of: what the size counts, "step" */
extern const struct problem_size problem_sizes[PROBLEM_SIZES];

/* What the user asked for. */
struct request {
	const char *op, *mode;                   /* NULL: all */
	const char **attributes;                 /* NAME=VALUE, attributes of the op; ends with NULL */
	int64_t list[PROBLEM_SIZES][PROBLEM_LIST];
	int     lengths[PROBLEM_SIZES];          /* the number of sizes in each list; 0: the list was not given */
	int     what, dtype;                     /* what: 0 where --what is not given; dtype: -1 where --dtype is not given */
	double  valid;
};

struct problems {
	struct problem *list;
	size_t n;
	struct call named;                       /* the op that --op names, whose attributes the problems use; row = NULL: no --op */
};
int  problems_add(struct problems *, const struct request *);
void problems_free(struct problems *);

/* The measurements of a problem; times are in milliseconds, of one call, or, with fwd+bwd, of a call of the op and one of its gradient. */
struct result {
	const struct problem *problem;
	double least, median, spread;            /* spread: median absolute deviation */
	long   reps, calls;                      /* reps: samples; calls: calls in each sample, of each measured op */
	double flops, bytes;                     /* flops: of the matrix products; bytes: of all arguments, each read or written once */
	double gflops, gbytes;                   /* GFLOP/s and GB/s: flops and bytes over the median time */
	double copy;                             /* median GB/s of the device's own copy of as many bytes; 0: not measured */
	double share;                            /* share of the roof: the least time that the machine allows / median; 0: not known */
	int    by_products;                      /* 1: the roof of the products is the lower one; 0: that of the copies */
};

/* Checks that the bytes of each argument can be counted, and that arguments and workspace fit in the machine's free memory. Returns
 * CG_BAD_ARGUMENT if the problem is too large, with a message that says for what. */
int timing_check(const struct problem *);
/* Measures a problem for `time` seconds, with at least three samples, or takes `reps` samples if `reps` is not 0. The arguments and the
 * workspace are allocated before the first call. Where the device's driver has a function that copies memory, each sample of calls is
 * followed by a sample of copies. */
int timing_measure(struct cg_context *, const struct problem *, double time, long reps, struct result *);

/* Bytes of memory that are free without swapping, or of all memory where the system does not report that; no more than the limit in
 * /sys/fs/cgroup/memory.max, where there is one. */
double machine_memory(void);
/* The number that follows a key in a file of the system, multiplied by `unit`; -1: not found, or not above 0. If the key is empty,
 * machine_number() reads the number at the beginning of the file. */
double machine_number(const char *path, const char *key, double unit);

/* The roofs: what the machine can do, with a given number of threads. */
enum { ROOF_COPIES = 4 };
struct roofs {
	int    threads;
	const char *isa;                         /* instruction set of the loops that multiply and add; NULL: the roofs are a device's */
	double f32, f64, bf16;                   /* GFLOP/s of multiply and add in registers; for a device 0: not known */
	struct { double bytes, gbytes; } copy[ROOF_COPIES];      /* GB/s of copies (bytes read and written) over increasing sizes */
};
/* Measures each roof for about `time` seconds; on a device whose driver copies memory, only the roofs of copies. */
int  roof_measure(struct cg_context *, int threads, double time, struct roofs *);
/* Measures n copies by the driver from the first half of a buffer to the second half; *ms: the milliseconds of one copy. */
int  roof_copy(struct cg_stream *, struct cg_mem capacity, long n, double *ms);
/* Sets `share` and `by_products` of a result from the roofs. */
void roof_share(const struct roofs *, struct result *);

/* Prints the lines above the table, or the first JSON object; attributes: those that the user gave. */
int report_head(const struct cg_context *, const struct roofs *, const char *const *attributes, int json);
int report_json(const struct cg_context *, const struct roofs *, const struct result *);
int report_table(const struct result *, size_t n);

/* An SVG picture of the results, and FILE.tsv with their numbers. plot_check runs before any work and checks that both files can be
 * written. */
struct plot { struct file picture, data; };
int  plot_check(struct plot *, const char *path);
int  plot_write(struct plot *, const struct result *, size_t n);
void plot_close(struct plot *);

#endif
