/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of characters: the library's LSTM with peepholes over one-hot characters, in two layers with dropout between them, and a
 * softmax over the next one.  What it learns from, and how long, is the caller's; all it computes is a function of the seed and of
 * the batches it is given.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/cellgrad.h"

/* What it computes in.  Its test is built in double, where differences tell a right gradient from a wrong one. */
#ifdef MODEL_F64
typedef double real;
#define MODEL_DTYPE CG_F64
#else
typedef float real;
#define MODEL_DTYPE CG_F32
#endif

enum { MODEL_LAYERS = 2 };

/* I, U, and what a batch has at most: B and T */
struct model_shape { int symbols, units, rows, steps; };

/* Rows of a text: symbols [T B] and those that follow them, of which row b has lengths[b]; one at least. */
struct model_batch {
	int rows, steps;
	const int32_t *lengths;
	const int *symbols, *next;
};

/* The parts of the parameters: the network's, as the library has them, then those of the softmax, [U I] and [I] */
enum { MODEL_NETWORK, MODEL_OUT_W, MODEL_OUT_B, MODEL_PARTS };

/* The states carried from batch to batch, apart for the text it learns from, which alone is read with dropout, and for any other;
 * and from letter to letter of a sample. */
enum { MODEL_LEARNT, MODEL_OTHER, MODEL_SAMPLED, MODEL_CARRIES };
struct model_carry { real *h, *c; };                     /* [L B U] */

struct model {
	struct model_shape shape;
	uint64_t seed;
	/* of the context it is on: */
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_rnn *learning, *reading;               /* with dropout and a reserve; without */
	struct cg_mem reserve;
	/* of the host, whatever the context: */
	real *memory;                                    /* all that follows */
	size_t n, at[MODEL_PARTS + 1];                   /* parameters; where each part begins */
	real *p, *g, *mean, *square;                     /* [n]: parameters, gradient, Adam's two averages */
	long updates;
	struct model_carry carry[MODEL_CARRIES], last;   /* last: the final states of the batch */
	real *x;                                         /* [T B I] */
	real *h, *dh;                                    /* [T B U], for the softmax valid rows alone, one after the other */
	real *score;                                     /* [T B I], valid rows; after the loss its gradient */
	real *out_w_across;                              /* [I U] */
};

/* Weights and masks come from the seed.  After a failure, too, the caller closes.  The context outlives the model. */
int  model_open(struct model *, struct cg_context *, struct model_shape, uint64_t seed);
void model_close(struct model *);
/* Goes on on another context: nothing is lost, since the states between batches are in the host's memory. */
int  model_move(struct model *, struct cg_context *);

/* The next batch begins with zero states. */
void model_reset(struct model *, int carry);
/* The mean loss, in nats a symbol, over a batch. */
int  model_compute_loss(struct model *, int carry, const struct model_batch *, double *loss);
/* The same, with dropout, and the gradient of that loss in g, what was carried in being constant. */
int  model_compute_grad(struct model *, const struct model_batch *, double *loss);
/* Moves the parameters against g by Adam's rule, g scaled down to a norm of at most 1. */
void model_learn(struct model *, double rate);
/* n symbols, each drawn from what the model expects, after `first`; their chances to the power of 1 / temperature. */
int  model_sample(struct model *, uint64_t seed, double temperature, int first, int *symbols, int n);

#endif
