/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that the forward of a CudnnRNN model keeps for its gradient: reference_rnn.c writes them, reference_rnn_grad.c reads
 * them.  Callers include sequence.h.
 */
#ifndef REFERENCE_RNN_H
#define REFERENCE_RNN_H

#include "verify/bound.h"
#include "verify/sequence.h"

enum { MAX_GATES = 4 };

/*
 * One direction of one layer. Sequences are [T, B, .] whatever time_major says, and hold nothing in the padding. gate,
 * q and m are as read back; c is in acc, or as read back where the kind has it so.
 */
struct pseudo {
	int64_t layer, d, at;           /* at: layer * D + d */
	int64_t in;                     /* width of its input */
	int skip;                       /* its input has no weights */
	int64_t w[MAX_GATES], r[MAX_GATES], bw[MAX_GATES], br[MAX_GATES], proj, vector[3];      /* offsets into params */
	const struct val *x;            /* [T, B, in] */
	struct val *gate;               /* [T, B, G, U], after activation */
	struct val *q;                  /* [T, B, U], gru: R h + bR of the candidate; rnn_relu: the argument */
	struct val *c, *m;              /* [T, B, U], m: o * tanh(c), with a projection */
	struct val *h;                  /* [T, B, H] */
	struct val *h_first, *c_first;  /* [B, H], [B, U] */
};

struct stack {
	const struct ref_rnn *p;
	const struct kind *k;
	int64_t D, H, G;
	struct val *params;             /* [ref_rnn_size] */
	struct val **x;                 /* [L], what each layer reads: [T, B, .] */
	struct pseudo *pseudo;          /* [L*D] */
	void **arrays;                  /* all of the above */
	int n_arrays;
};

/* 0, or -1 when memory is out; close it either way. Writes the outputs of p that are present. */
int  ref_stack_run(struct stack *, const struct ref_rnn *p);
void ref_stack_close(struct stack *);
/* n values, all zero, until the stack is closed; NULL when memory is out. */
struct val *ref_stack_alloc(struct stack *, int64_t n);

static inline int64_t valid(const struct ref_rnn *p, int64_t b)
{
	return p->lengths ? p->lengths[b] : p->T;
}

/* When direction d takes its step s, of n. */
static inline int64_t time_of(const struct ref_rnn *p, int64_t d, int64_t s, int64_t n)
{
	return d || p->reverse ? n - 1 - s : s;
}

/* Element n of width in row b at t of a caller's sequence; the same of a caller's state. */
static inline int64_t in_sequence(const struct ref_rnn *p, int64_t t, int64_t b, int64_t width, int64_t n)
{
	return (p->time_major ? t * p->B + b : b * p->T + t) * width + n;
}

static inline int64_t in_state(const struct ref_rnn *p, int64_t at, int64_t b, int64_t width, int64_t n)
{
	int64_t layers = p->L * (1 + !!p->bidirectional);

	return (p->time_major || p->states_major ? at * p->B + b : b * layers + at) * width + n;
}

/* What of layer's output at t, b, unit goes up: the factor, 0 where it is dropped. */
struct val ref_dropout_factor(const struct stack *, int64_t layer, int64_t t, int64_t b, int64_t unit);

#endif
