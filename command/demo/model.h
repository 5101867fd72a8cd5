/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of characters: two layers of the library's LSTM with peepholes over one-hot characters, with dropout between them, and a
 * softmax that predicts the next character. The caller chooses what it trains on and how long; the results depend on the seed and
 * the batches alone.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/cellgrad.h"

/* The element type. The model's test uses double, in which differences can verify a gradient. */
#ifdef MODEL_F64
typedef double real;
#define MODEL_DTYPE CG_F64
#else
typedef float real;
#define MODEL_DTYPE CG_F32
#endif

enum { MODEL_LAYERS = 2 };

/* I, U; the largest B and T of a batch */
struct model_shape { int symbols, units, rows, steps; };

/* A batch of text: symbols [T B] and the symbols after each; lengths[b] of row b, at least 1. */
struct model_batch {
	int rows, steps;
	const int32_t *lengths;
	const int *symbols, *next;
};

/* The parts of the parameters: those of the network, in the library's layout, then the softmax's [U I] and [I]. */
enum { MODEL_NETWORK, MODEL_OUT_W, MODEL_OUT_B, MODEL_PARTS };

/* Sets of states that are carried from batch to batch: of the training text, which alone is read with dropout; of any other text;
 * and from letter to letter of a sample. */
enum { MODEL_LEARNT, MODEL_OTHER, MODEL_SAMPLED, MODEL_CARRIES };
struct model_carry { real *h, *c; };                     /* [L B U] */

struct model {
	struct model_shape shape;
	uint64_t seed;
	/* depend on the context: */
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_rnn *learning, *reading;               /* a plan with dropout and reserve space; one without */
	struct cg_mem reserve;
	/* in the host's memory, whatever the context: */
	real *memory;                                    /* owns all that follows */
	size_t n, at[MODEL_PARTS + 1];                   /* number of parameters; where each part begins */
	real *p, *g, *mean, *square;                     /* [n]: parameters, gradient, Adam's two averages */
	long updates;
	struct model_carry carry[MODEL_CARRIES], last;   /* last: the states after the current batch */
	real *x;                                         /* [T B I] */
	real *h, *dh;                                    /* [T B U]; for the softmax the valid rows alone, without gaps */
	real *score;                                     /* [T B I], valid rows; the loss replaces them by its gradient */
	real *out_w_across;                              /* [I U] */
};

/* Weights and masks follow from the seed. The caller closes the model, also after a failure. The context must outlive the model. */
int  model_open(struct model *, struct cg_context *, struct model_shape, uint64_t seed);
void model_close(struct model *);
/* Continues on another context. Nothing is lost, since the states between batches are in the host's memory. */
int  model_move(struct model *, struct cg_context *);

/* Lets the next batch begin with zero states. */
void model_reset(struct model *, int carry);
/* The mean loss over a batch, in nats for each symbol. */
int  model_compute_loss(struct model *, int carry, const struct model_batch *, double *loss);
/* The same with dropout, and the gradient of that loss in g; the carried states count as constants. */
int  model_compute_grad(struct model *, const struct model_batch *, double *loss);
/* Updates the parameters by Adam's rule; g is scaled down to a norm of at most 1. */
void model_learn(struct model *, double rate);
/* Draws n symbols after `first` from the model's predictions; probabilities to the power of 1 / temperature. */
int  model_sample(struct model *, uint64_t seed, double temperature, int first, int *symbols, int n);

#endif
