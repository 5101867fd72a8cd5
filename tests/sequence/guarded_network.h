/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network and its arguments, for tests of whole sequences: numbers that are neither zeros nor alike, memory between guards of the
 * host or the device, outputs that begin as NaN, and the verdict on what comes out.  What is run and what it must equal is the
 * tests' business.
 */
#ifndef GUARDED_NETWORK_H
#define GUARDED_NETWORK_H

#include "runtime/cellgrad.h"
#include "tests/conformance/suite_device.h"

/* The arguments of a call, inputs first; OLD is what params_backprop holds before a call that adds to it. */
enum array {
	INPUT, INPUT_H, INPUT_C, PARAMS, OUTPUT_BACKPROP, OUTPUT_H_BACKPROP, OUTPUT_C_BACKPROP, OLD,
	OUTPUT, OUTPUT_H, OUTPUT_C, INPUT_BACKPROP, INPUT_H_BACKPROP, INPUT_C_BACKPROP, PARAMS_BACKPROP, ARRAYS
};
enum { INPUTS = OUTPUT, FORWARD_OUTPUTS = 1 << OUTPUT | 1 << OUTPUT_H | 1 << OUTPUT_C, ALL_OUTPUTS = (1 << ARRAYS) - (1 << OUTPUT) };
enum { ROWS_MAX = 32, VALUES_MAX = 4 };

struct network {
	/* to be set before it is opened */
	struct cg_rnn_config config;
	struct cg_value values[VALUES_MAX];      /* where config.n_values is not 0 */
	int64_t T, B, first_step;                /* first_step: no more than there can be */
	int32_t lengths[ROWS_MAX];
	int ragged;                              /* lengths are given */
	uint64_t counter;
	int accumulate;
	unsigned absent;                         /* 1 << array: an input that is not given, an output that is not wanted */
	int memory, own_work;                    /* enum area_memory; own_work: the stream's */

	/* by network_open */
	struct cg_rnn *rnn;
	struct cg_rnn_sizes sizes;
	int64_t n[ARRAYS];                       /* elements; 0 of the state of a cell that has none */
	double *at[ARRAYS];                      /* numbers of the dtype */
	struct area reserve;
	struct cg_rnn_call call;                 /* under way */
	struct area areas[ARRAYS], work;
};

/* All are run on the suite's device.  What to say of a case that fails: */
void network_case(const char *test, int number, unsigned long long *state);  /* begins one; the state that it is to be drawn from */
void network_fail(const struct network *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Is it a device, where texts take long to compile and calls long to start?  Then there are fewer cases. */
int  network_is_slow(void);
int  network_cases(int many);
int  network_has(int dtype);

/* lstm, f64, one layer, T 3, B 2, I 3, U 2. */
void network_init(struct network *);
/* Opens the plan and allocates the arguments; the tests fail where it cannot. */
void network_open(struct network *);
void network_close(struct network *);
/* The same network, on other rows and steps, opened, with the same params; lengths are the caller's to set, before it is opened. */
void network_like(struct network *, const struct network *, int64_t T, int64_t B);
/* The same with the same inputs, opened. */
void network_copy(struct network *, const struct network *);
/* Draws all inputs, absent ones as zeros; the padding of sequences is NaN. */
void network_draw(struct network *, unsigned long long *state, double scale);
void network_pad(struct network *, double value);

/* Run; whatever touches what is not its own fails the test.  backward reads what forward left in the reserve. */
void network_forward(struct network *);
void network_backward(struct network *);
/* Forward, and in training backward after it. */
void network_run(struct network *);
/* The outputs that network_run writes, a bit for each. */
unsigned network_outputs(const struct network *);
/* The same in parts, of CG_FORWARD or CG_GRAD: the memory, the call, and what came of it. */
void network_lend(struct network *, int pass);
void network_enqueue(struct network *, int pass);
void network_collect(struct network *, int pass);

/* One dimension of the network. */
int64_t network_directions(const struct network *);
int64_t network_states(const struct network *);              /* L D */
int64_t network_width(const struct network *, int array);    /* of a row */
int64_t network_length(const struct network *, int64_t b);
/* A row of a sequence, or of a state. */
double *network_step(const struct network *, int array, int64_t t, int64_t b);
double *network_state(const struct network *, int array, int64_t state, int64_t b);
void network_copy_step(struct network *, int64_t t, int64_t b, const struct network *, int64_t u, int64_t c, int array);
void network_copy_states(struct network *, int64_t b, const struct network *, int64_t c, int array);

/* ---- answers.c: what the independent reference says of a network of a cell that it knows ---- */

struct answers { long double *v[ARRAYS], *e[ARRAYS]; };          /* of the outputs: values and bounds */
void answers_alloc(const struct network *, struct answers *);    /* all 0 */
void answers_get(const struct network *, struct answers *);
void answers_free(struct answers *);
/* Are the outputs of the arrays in `which`, as bits, within their bounds?  Else the test fails. */
void answers_judge(const struct network *, const struct answers *, unsigned which);
/* The largest error over its tolerance since the last call; most answers must have had one. */
void answers_print_worst(const char *test);

/* The same bits in the arrays of `which`. */
void network_same(const struct network *, const struct network *, unsigned which, const char *what);
/* The same of two whose memory lies otherwise, for which a vendor's products may add in another order: on backend cuda then near. */
void network_alike(const struct network *, const struct network *, unsigned which, const char *what);

#endif
