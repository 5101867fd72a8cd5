/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of characters: two layers of the library's LSTM with peepholes, or of another cell, over one-hot characters, with dropout between
 * the layers, and a softmax that predicts the next character. The caller chooses the text and the number of batches; the results depend on
 * the seed, the batches, and the bits that the network's route gives.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/cellgrad.h"

/* The element type. The model's test uses double, so that differences of losses can verify a gradient. */
#ifdef MODEL_F64
typedef double real;
#define MODEL_DTYPE CG_F64
#else
typedef float real;
#define MODEL_DTYPE CG_F32
#endif

enum { MODEL_LAYERS = 2 };

/* symbols: I; units: U; rows, steps: the largest B and T of a batch; cell: NULL for the LSTM with peepholes */
struct model_shape { int symbols, units, rows, steps; const struct cg_cell *cell; };

/* A batch of text: symbols [T B], and for each the symbol that follows it in the text; lengths[b]: the length of row b, from 0 to T. */
struct model_batch {
	int rows, steps;
	const int32_t *lengths;
	const int *symbols, *next;
};

/* The parts of the parameters: those of the network, in the library's layout, then the softmax's weights [U I] and biases [I]. */
enum { MODEL_NETWORK, MODEL_OUT_W, MODEL_OUT_B, MODEL_PARTS };

/* The sets of states that the model carries from batch to batch: LEARNT: of the training text, the only text that is read with
 * dropout; OTHER: of any other text; SAMPLED: of a sample, from letter to letter. */
enum { MODEL_LEARNT, MODEL_OTHER, MODEL_SAMPLED, MODEL_CARRIES };
struct model_carry { real *h, *c; };                     /* h [L B U]; c [S L B U], all cell states */

struct model {
	struct model_shape shape;
	int n_states;                                    /* S, the number of the cell's states beside h */
	uint64_t seed;
	/* depend on the context: */
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_rnn *learning, *reading;               /* learning: a plan with dropout and reserve space; reading: one without */
	struct cg_mem reserve;
	/* in the host's memory, whatever the context: */
	real *memory;                                    /* the memory of the arrays that follow */
	size_t n, at[MODEL_PARTS + 1];                   /* n: number of parameters; at: where each part of them begins */
	real *p, *g, *mean, *square;                     /* [n]: parameters, gradient, Adam's two averages */
	long updates;
	struct model_carry carry[MODEL_CARRIES], last;   /* last: the states at the end of the current batch */
	real *x;                                         /* [T B I] */
	real *h, *dh;                                    /* [T B U]; for the softmax only the rows without padding, contiguous */
	real *score;                                     /* [T B I]: scores of the rows without padding, then the gradients of these scores */
	real *out_w_across;                              /* [I U] */
};

/* Opens a model, whose initial weights and dropout masks follow from the seed. The caller closes the model, also after a failure. The
 * context must outlive the model. */
int  model_open(struct model *, struct cg_context *, struct model_shape, uint64_t seed);
void model_close(struct model *);
/* Moves the model to another context. The training continues with the same parameters, averages and states, which are in the host's
 * memory. */
int  model_move(struct model *, struct cg_context *);

/* Sets the states of a set `carry` to zero, so that the next batch of the set begins with zero states. */
void model_reset(struct model *, int carry);
/* Computes the mean loss over a batch that continues from the states of a set `carry`, in nats for each symbol, and updates these states.
 * MODEL_LEARNT: with dropout. */
int  model_compute_loss(struct model *, int carry, const struct model_batch *, double *loss);
/* Computes the mean loss over a batch with dropout, and in g the gradient of that loss; the carried states count as constants. */
int  model_compute_grad(struct model *, const struct model_batch *, double *loss);
/* Updates the parameters by Adam's rule, from the gradient g, scaled down to a norm of at most 1. */
void model_learn(struct model *, double rate);
/* Draws n symbols that follow `first`, one after the other, from the model's predictions, by their probabilities to the power of 1 /
 * temperature. */
int  model_sample(struct model *, uint64_t seed, double temperature, int first, int *symbols, int n);

#endif
