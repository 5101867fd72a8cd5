/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network and its arguments for tests of whole sequences: random numbers, memory between guards on the host or the device, outputs that
 * begin as NaN, and the verdict on the results. The tests choose what runs and what it must equal.
 */
#ifndef GUARDED_NETWORK_H
#define GUARDED_NETWORK_H

#include "runtime/cellgrad.h"
#include "tests/conformance/suite_device.h"

/* The arguments of a call, inputs first; OLD is what params_backprop holds before a call that accumulates.  A name with _S stands for the
 * first of MORE arrays, those of a cell's second to fourth state. */
enum { MORE = 3 };
enum array {
	INPUT, INPUT_H, INPUT_C, PARAMS, OUTPUT_BACKPROP, OUTPUT_H_BACKPROP, OUTPUT_C_BACKPROP, OLD, INPUT_S,
	OUTPUT_S_BACKPROP = INPUT_S + MORE, OUTPUT = OUTPUT_S_BACKPROP + MORE, OUTPUT_H, OUTPUT_C, INPUT_BACKPROP, INPUT_H_BACKPROP,
	INPUT_C_BACKPROP, PARAMS_BACKPROP, OUTPUT_S, INPUT_S_BACKPROP = OUTPUT_S + MORE, ARRAYS = INPUT_S_BACKPROP + MORE
};
enum {
	INPUTS = OUTPUT, ALL_OUTPUTS = (1 << ARRAYS) - (1 << OUTPUT),
	FORWARD_OUTPUTS = 1 << OUTPUT | 1 << OUTPUT_H | 1 << OUTPUT_C | ((1 << MORE) - 1) << OUTPUT_S
};
enum { ROWS_MAX = 32, VALUES_MAX = 4 };

struct network {
	/* set before network_open */
	struct cg_rnn_config config;
	struct cg_value values[VALUES_MAX];      /* values of the cell's params, to which config points if config.n_values is not 0 */
	int64_t T, B, first_step;                /* network_open() reduces a first_step above the largest legal one to that */
	int32_t lengths[ROWS_MAX];
	int ragged;                              /* the call has lengths */
	uint64_t counter;
	int accumulate;
	unsigned absent;                         /* with bit 1 << array the call does not get this argument */
	int memory, own_work;                    /* memory: an enum area_memory; own_work: use the stream's workspace */

	/* set by network_open */
	struct cg_rnn *rnn;
	struct cg_rnn_sizes sizes;
	int64_t n[ARRAYS];                       /* n: the number of elements; 0 for a state that the cell lacks */
	double *at[ARRAYS];                      /* at: the elements, which are numbers that the dtype can represent */
	struct area reserve;
	struct cg_rnn_call call;                 /* the current call */
	struct area areas[ARRAYS], work;
};

/* The functions of this header run networks on the suite's device. Messages of failures name the case that network_case began last. */
void network_case(const char *test, int number, unsigned long long *state);  /* begins a case; seeds its random numbers, *state */
void network_fail(const struct network *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Is the device one where kernels take long to compile and calls long to start? */
int  network_is_slow(void);
/* Returns `many`, or a smaller number of cases where network_is_slow() is 1. */
int  network_cases(int many);
int  network_has(int dtype);

/* Sets a network of one layer of cell lstm, in f64, T 3, B 2, I 3, U 2; opens nothing. */
void network_init(struct network *);
/* Opens the plan and allocates the arguments; a failure fails the test. */
void network_open(struct network *);
void network_close(struct network *);
/* Opens a copy of a network, with the same params, for other numbers of rows and steps. The caller has set the copy's ragged and
 * lengths. */
void network_like(struct network *, const struct network *, int64_t T, int64_t B);
/* Opens a copy of a network, with the same inputs. */
void network_copy(struct network *, const struct network *);
/* Draws all inputs, absent ones as zeros; the padding of sequences is NaN. */
void network_draw(struct network *, unsigned long long *state, double scale);
void network_pad(struct network *, double value);

/* Run the passes. A write outside an argument or to an input, and in backward to the reserve space, fails the test. network_backward
   reads the reserve space that network_forward filled. */
void network_forward(struct network *);
void network_backward(struct network *);
/* Runs forward, and in training backward after it. */
void network_run(struct network *);
/* The outputs of the passes that network_run runs, one bit each, absent ones too. */
unsigned network_outputs(const struct network *);
/* A pass, CG_FORWARD or CG_GRAD, in three parts: network_lend gives the arguments memory, network_enqueue calls,
   network_collect fetches the results. */
void network_lend(struct network *, int pass);
void network_enqueue(struct network *, int pass);
void network_collect(struct network *, int pass);

/* Each of the next four functions returns one size of the network. */
int64_t network_directions(const struct network *);
int64_t network_states(const struct network *);              /* the number of layers times directions */
int64_t network_width(const struct network *, int array);    /* the number of elements in a row of an array */
int64_t network_length(const struct network *, int64_t b);
/* Return the address of the numbers of row b: of a sequence at step t, or of a state. */
double *network_step(const struct network *, int array, int64_t t, int64_t b);
double *network_state(const struct network *, int array, int64_t state, int64_t b);
void network_copy_step(struct network *, int64_t t, int64_t b, const struct network *, int64_t u, int64_t c, int array);
void network_copy_states(struct network *, int64_t b, const struct network *, int64_t c, int array);

/* ---- answers.c: the independent reference's answers for a network of a cell that it knows ---- */

struct answers { long double *v[ARRAYS], *e[ARRAYS]; };          /* v: the values of the outputs; e: their error bounds */
void answers_alloc(const struct network *, struct answers *);    /* allocates values and bounds of 0 */
void answers_get(const struct network *, struct answers *);
void answers_free(struct answers *);
/* Fails unless the outputs in `which`, which has one bit for each array, are within their bounds. */
void answers_judge(const struct network *, const struct answers *, unsigned which);
/* Prints the largest quotient of an error and its tolerance since the last call. Fails if this quotient is at most 0.01, or if a fifth of
   the answers had no finite bound. */
void answers_print_worst(const char *test);

/* Fails unless the outputs in `which` that neither network lacks have the same bits in both, or close numbers on a route that does not
 * promise bits. */
void network_same(const struct network *, const struct network *, unsigned which, const char *what);
/* Fails unless the outputs in `which` have the same bits, or on backend cuda close numbers: there memory that is aligned differently may
 * make a vendor's products add in another order. */
void network_alike(const struct network *, const struct network *, unsigned which, const char *what);

#endif
