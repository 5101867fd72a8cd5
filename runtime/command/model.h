/*
 * A model of characters: the library's LSTM block cell with peepholes over one-hot characters, and a softmax over the
 * next one.  What it learns from, and how long, is the caller's; all it computes is a function of the seed and of the
 * pieces it is given.
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

/* I, U, B and the T of a piece */
struct model_shape { int symbols, units, rows, steps; };

/* The parts of the parameters, as the cell has them, then those of the softmax: [U I] and [I] */
enum { MODEL_W, MODEL_WCI, MODEL_WCF, MODEL_WCO, MODEL_B, MODEL_OUT_W, MODEL_OUT_B, MODEL_PARTS };

/* What is carried from piece to piece, apart for the text it learns from and for any other. */
enum { MODEL_LEARNT, MODEL_OTHER, MODEL_CARRIES };
struct model_carry { real *h, *cs; };                    /* [B U] */

struct model {
	struct model_shape shape;
	struct cg_stream *stream;
	real *memory;                                    /* all that follows */
	size_t n, at[MODEL_PARTS + 1];                   /* parameters; where each part begins */
	real *p, *g, *mean, *square;                     /* [n]: parameters, gradient, Adam's two averages */
	long updates;
	struct model_carry carry[MODEL_CARRIES];
	real *x;                                         /* [T B I] */
	real *h, *cs;                                    /* [T+1 B U]; the first are those carried over */
	real *i, *f, *ci, *o, *co;                       /* [T B U] */
	real *score;                                     /* [T B I]; after the loss its gradient */
	real *dh;                                        /* [T B U] */
	real *dh_prev, *dcs[2], *out_w_across;           /* [B U] [B U] [I U] */
	real *work;
	size_t work_bytes;
};

/* Weights come from the seed.  After a failure, too, the caller closes.  The context outlives the model. */
int  model_open(struct model *, struct cg_context *, struct model_shape, uint64_t seed);
void model_close(struct model *);

/* Carries nothing into the next piece. */
void model_rest(struct model *, int carry);
/* The mean loss, in nats a symbol, over a piece: symbols [T B] and those that follow them. */
int  model_loss(struct model *, int carry, const int *symbols, const int *next, double *loss);
/* The same, and the gradient of that loss in g, what was carried in being constant. */
int  model_grad(struct model *, int carry, const int *symbols, const int *next, double *loss);
/* Moves the parameters against g by Adam's rule, g scaled down to a norm of at most 1. */
void model_learn(struct model *, double rate);
/* n symbols, each drawn from what the model expects, after `first`; their chances to the power of 1 / temperature. */
int  model_sample(struct model *, uint64_t seed, double temperature, int first, int *symbols, int n);

#endif
