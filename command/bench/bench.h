/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of `cellgrad bench` share: a problem, what the machine can do at most, how long the problem took.  Words become
 * a request in bench_command.c, and that problems in problem.c; roof.c and timing.c measure, report.c and plot.c show.
 */
#ifndef BENCH_H
#define BENCH_H

#include "command/run/op_call.h"
#include "command/file.h"
#include "runtime/device/inspect.h"

enum { BENCH_FORWARD = 1, BENCH_GRAD = 2 };      /* bits of problem.what; plus one, places in bench_whats */
extern const char *const bench_whats[3];         /* fwd bwd fwd+bwd */

struct problem {
	const struct cg_op *row, *forward, *grad;        /* as named; the pass and its gradient, over one struct */
	int   theirs, what;                      /* theirs: TensorFlow's name, TensorFlow's outputs */
	void *op;                                /* the ops' struct: sizes, dtype and attributes, no memory but lengths */
	double valid;                            /* the share of steps that are; 1 where the op has no lengths */
	int32_t *lengths;                        /* of rows, that share of all steps together; NULL: all whole */
};

/* The row whose sizes are inferred and whose op is opened: the gradient's, where that is measured. */
const struct cg_op *problem_ready(const struct problem *);
const char *problem_name(const struct problem *);
int64_t     problem_get_size(const struct problem *, const char *symbol);
double      problem_rows(const struct problem *);        /* of all steps, those that are computed */
const char *problem_mode(const struct problem *);        /* "lstm"; of a network the name of its cell */
/* As `cellgrad bench` reads it; returns text. */
const char *problem_line(const struct problem *, char *text, size_t capacity);
int         problem_dtype(const struct problem *);

/* Sizes by option and symbol, and what they are where they were not given. */
enum { PROBLEM_SIZES = 5, PROBLEM_LIST = 64 };
struct problem_size { const char *name, *symbol; int64_t usual; const char *of; };      /* of: what one of it is, "step" */
extern const struct problem_size problem_sizes[PROBLEM_SIZES];

/* The request. */
struct request {
	const char *op, *mode;                   /* NULL: all */
	const char **attributes;                 /* NAME=VALUE, the op's attributes; ends with NULL */
	int64_t list[PROBLEM_SIZES][PROBLEM_LIST];
	int     lengths[PROBLEM_SIZES];          /* of the lists; 0: not given */
	int     what, dtype;                     /* what: 0 where the op's name says it; dtype: -1 not given */
	double  valid;
};

struct problems {
	struct problem *list;
	size_t n;
	struct call named;                       /* the op of a request, whose attributes its problems point into; no row: none */
};
int  problems_add(struct problems *, const struct request *);
void problems_free(struct problems *);

/* What was measured of a problem; times are of one call, in milliseconds. */
struct result {
	const struct problem *problem;
	double least, median, spread;            /* spread: the median of the distances from the median */
	long   reps, calls;                      /* samples, and calls in each */
	double flops, bytes;                     /* of the products; of what must be read and written once */
	double gflops, gbytes;                   /* the same a second, by the median */
	double copy;                             /* GB/s of the device's own copy of as many bytes, the median; 0: not measured */
	double share;                            /* of the roof: the least time the machine allows over the median; 0: not known */
	int    by_products;                      /* which roof is the lower: the products', else the copy's */
};

/* Does it fit: into 64 bits, and into the memory that is free?  CG_BAD_ARGUMENT says what does not. */
int timing_check(const struct problem *);
/* For `time` seconds, or reps samples when that is not 0.  The memory is there before the first call, work included.  Where the
 * device copies by itself, each sample is followed by one of a copy. */
int timing_measure(struct cg_context *, const struct problem *, double time, long reps, struct result *);

/* Bytes of memory that are free without swapping, or, where the system does not report them, of all memory. */
double machine_memory(void);
/* The number after a key in a system file, times its unit; -1: there is none. */
double machine_number(const char *path, const char *key, double unit);

/* The machine's roofs with so many threads. */
enum { ROOF_COPIES = 4 };
struct roofs {
	int    threads;
	const char *isa;                         /* what the loops of multiply and add are compiled for; NULL: a device's roofs */
	double f32, f64, bf16;                   /* GFLOP/s of multiply and add in registers; of a device's not known: 0 */
	struct { double bytes, gbytes; } copy[ROOF_COPIES];      /* read and written over so many bytes, growing; GB/s */
};
/* time: seconds for each.  Of a device that copies by itself, its copying alone. */
int  roof_measure(struct cg_context *, int threads, double time, struct roofs *);
/* How long the device takes to copy from the first half of a buffer to the second, by the driver: milliseconds of one of n. */
int  roof_copy(struct cg_stream *, struct cg_mem capacity, long n, double *ms);
/* Fills in share and by_products. */
void roof_share(const struct roofs *, struct result *);

/* What is over the table, or the first object; attributes: those given. */
int report_head(const struct cg_context *, const struct roofs *, const char *const *attributes, int json);
int report_json(const struct cg_context *, const struct roofs *, const struct result *);
int report_table(const struct result *, size_t n);

/* A picture, and beside it what is in it, as FILE.tsv. */
struct plot { struct file picture, data; const char *terminal; };
/* CG_UNSUPPORTED: there is no gnuplot. */
int  plot_check(struct plot *, const char *path);
int  plot_write(struct plot *, const struct result *, size_t n);
void plot_close(struct plot *);

#endif
