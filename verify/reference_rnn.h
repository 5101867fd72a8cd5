/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the reference's forward pass of a CudnnRNN model saves for its gradient: reference_rnn.c writes it, reference_rnn_grad.c
 * reads it. Callers include sequence.h instead.
 */
#ifndef REFERENCE_RNN_H
#define REFERENCE_RNN_H

#include "verify/bound.h"
#include "verify/sequence.h"

enum { MAX_GATES = 4 };

/*
 * A pseudo-layer: one direction of one layer. The sequences of a pseudo-layer are [T, B, .] whatever time_major is, and their padding is
 * unused. The members gate, q, m and h include the error of storing them in real; member c is in acc, but includes that error where `keeps`
 * of the kind is set.
 */
struct pseudo {
	int64_t layer, d, at;           /* at: layer * D + d, the pseudo-layer's number */
	int64_t in;                     /* width of the layer's input */
	int skip;                       /* 1: skip_input, so the input has no matrices */
	int64_t w[MAX_GATES], r[MAX_GATES], bw[MAX_GATES], br[MAX_GATES], proj, vector[3];      /* offsets into params */
	const struct val *x;            /* [T, B, in] */
	struct val *gate;               /* [T, B, G, U], after activation */
	struct val *q;                  /* [T, B, U]; gru: R h + bR of the candidate; rnn_relu: the argument of relu */
	struct val *c, *m;              /* [T, B, U]; m: o * tanh(c), which a projection multiplies */
	struct val *h;                  /* [T, B, H] */
	struct val *h_first, *c_first;  /* initial states: [B, H], [B, U] */
};

struct stack {
	const struct ref_rnn *p;
	const struct kind *k;
	int64_t D, H, G;
	struct val *params;             /* [ref_rnn_size] */
	struct val **x;                 /* [L]: the input of each layer, [T, B, .] */
	struct pseudo *pseudo;          /* [L*D] */
	void **arrays;                  /* the arrays that ref_stack_alloc() made, to be freed */
	int n_arrays;
};

/* Computes the forward pass and writes those outputs of p that are not NULL. Returns 0, or -1 where memory is exhausted; the caller
 * closes the stack in either case. */
int  ref_stack_run(struct stack *, const struct ref_rnn *p);
void ref_stack_close(struct stack *);
/* Allocates n zeroed values, which live as long as the stack; NULL where memory is exhausted. */
struct val *ref_stack_alloc(struct stack *, int64_t n);

static inline int64_t valid(const struct ref_rnn *p, int64_t b)
{
	return p->lengths ? p->lengths[b] : p->T;
}

/* The time t at which direction d computes its step s of n. */
static inline int64_t time_of(const struct ref_rnn *p, int64_t d, int64_t s, int64_t n)
{
	return d || p->reverse ? n - 1 - s : s;
}

/* The index of element n of row b at time t in a caller's sequence; in_state: the index of element n of row b in a caller's state. */
static inline int64_t in_sequence(const struct ref_rnn *p, int64_t t, int64_t b, int64_t width, int64_t n)
{
	return (p->time_major ? t * p->B + b : b * p->T + t) * width + n;
}

static inline int64_t in_state(const struct ref_rnn *p, int64_t at, int64_t b, int64_t width, int64_t n)
{
	int64_t layers = p->L * (1 + !!p->bidirectional);

	return (p->time_major || p->states_major ? at * p->B + b : b * layers + at) * width + n;
}

/* Dropout's factor of one element of a layer's output: 0 where the element is dropped. */
struct val ref_dropout_factor(const struct stack *, int64_t layer, int64_t t, int64_t b, int64_t unit);

#endif
