/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reverse-mode differentiation in long double: every operation is recorded on a tape, which is then read backwards. Each number and
 * each derivative has a bound of the error that a computation in the dtype may have, whatever the order of its sums. The tape's code
 * calls none of the library's.
 */
#ifndef TAPE_H
#define TAPE_H

enum tape_op {
	TAPE_LEAF, TAPE_ADD, TAPE_SUB, TAPE_MUL, TAPE_DIV, TAPE_NEG, TAPE_EXP, TAPE_TANH, TAPE_SIGMOID, TAPE_RELU, TAPE_CLIP,
	TAPE_MAX, TAPE_MIN, TAPE_ABS, TAPE_SILU, TAPE_SOFTSIGN, TAPE_HARD_SIGMOID,
	TAPE_LOG, TAPE_LOG1P, TAPE_EXPM1, TAPE_SQRT, TAPE_ERF, TAPE_SOFTPLUS, TAPE_GELU, TAPE_DOT, TAPE_STORE, TAPE_OPS
};

struct tape;

/* dtype: an enum cg_dtype. tape_close frees all numbers. */
struct tape *tape_open(int dtype);
void tape_close(struct tape *);

/* Has an operation two operands? */
int tape_is_binary(int op);

/* tape_leaf to tape_store add a number and return its index on the tape. A leaf is exact. */
int tape_leaf(struct tape *, long double value);
/* For operations of one operand b may be any number on the tape, and has no effect; for TAPE_CLIP b is the limit, which has no derivative,
   and a's derivative passes unchanged. */
int tape_apply(struct tape *, int op, int a, int b);
/* The number `start` plus the sum of a[k] b[k] for k < n; start -1: the sum alone. */
int tape_dot(struct tape *, int start, int n, const int *a, const int *b);
/* The value of number `a`, unrounded, with the error bounds of storing it in the dtype: `forward` roundings of the value, `adjoint`
   roundings of its derivative. */
int tape_store(struct tape *, int a, int forward, int adjoint);

long double tape_value(const struct tape *, int), tape_bound(const struct tape *, int);

/* The loss is the sum of all seeded numbers, each times its seed. */
void tape_seed(struct tape *, int, long double seed);
/* Computes all derivatives; may be called once for a tape. */
void tape_back(struct tape *);
/* The derivative of the loss by a number, and the derivative's error bound. */
long double tape_slope(const struct tape *, int), tape_slope_bound(const struct tape *, int);

#endif
