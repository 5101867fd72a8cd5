/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reverse-mode differentiation of numbers in long double: every operation is written to a tape, which is then read backwards.
 * Beside each number, and beside each derivative, stands a bound of the error that a computation in a dtype may have, whatever the
 * order in which it adds.  It shares nothing with the library.
 */
#ifndef TAPE_H
#define TAPE_H

enum tape_op {
	TAPE_LEAF, TAPE_ADD, TAPE_SUB, TAPE_MUL, TAPE_DIV, TAPE_NEG, TAPE_EXP, TAPE_TANH, TAPE_SIGMOID, TAPE_RELU, TAPE_CLIP, TAPE_DOT,
	TAPE_STORE, TAPE_OPS
};

struct tape;

/* dtype: an enum cg_dtype.  Close frees all numbers. */
struct tape *tape_open(int dtype);
void tape_close(struct tape *);

/* Each returns the number's place on the tape.  A leaf is exact. */
int tape_leaf(struct tape *, long double value);
/* b is not read by operations of one operand; of TAPE_CLIP it is the limit, which has no derivative. */
int tape_apply(struct tape *, int op, int a, int b);
/* start + the sum of a[k] b[k] for k < n; start may be -1. */
int tape_dot(struct tape *, int start, int n, const int *a, const int *b);
/* A number that memory holds in the dtype: rounded there, and its derivative as many times as adjoint says. */
int tape_store(struct tape *, int a, int forward, int adjoint);

long double tape_value(const struct tape *, int), tape_bound(const struct tape *, int);

/* The loss is the sum of all seeded numbers, each times its seed. */
void tape_seed(struct tape *, int, long double seed);
/* Reads the tape backwards, once. */
void tape_back(struct tape *);
/* Of the loss by a number. */
long double tape_slope(const struct tape *, int), tape_slope_bound(const struct tape *, int);

#endif
