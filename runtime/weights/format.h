/*
 * Weights in the formats of other programs, inside: a format is rows of a table, a layout is a format for one network: which
 * tensors there are, what their shapes are, and where in them each piece of a network lies.  format_table.c has the rows, layout.c
 * the layouts, transfer.c carries pieces from one layout to another, weights.c is what cellgrad.h says of them.
 */
#ifndef CG_FORMAT_H
#define CG_FORMAT_H

#include "runtime/rnn/rnn.h"

/* ---- the table ---- */

enum {
	CG_ACROSS = 1,                           /* matrices are [in, U] with gates side by side, the parts one below the other */
	CG_EACH   = 2,                           /* every gate is a tensor of its own */
	CG_PAIR   = 4,                           /* the parts have a dimension of their own */
	CG_BUFFER = 8                            /* our buffer, as it is */
};

/*
 * A tensor of a pseudo-layer.  name: %l its layer, %r "_reverse" in direction 1, %n its number among those with the same name,
 * %g "_backprop" of gradients.  parts follow one another: W and R the matrices of the input and of h, P the projection, w and r
 * their biases, b the sum of both, v per-unit vectors.  gates: which, in which order; NULL: all, in the form's.
 */
struct cg_template { const char *name, *parts, *gates; unsigned flags; };

enum { CG_HAS_FORGET_BIAS = 1, CG_HAS_CELL_CLIP = 2 };

/* How a format has a kind of cell.  Gates are letters: i f c o, r z n, h; of a vector the gate that it is added to. */
struct cg_form {
	const char *cell;                        /* ours; NULL: any */
	const char *gates;                       /* in the format's order; NULL: in the cell's */
	const struct cg_template *templates;     /* end with a name of NULL */
	const char *stem, *word;                 /* %s and %c of the group's name */
	unsigned params;                         /* of lstm_block: those that are attributes of the format's */
};

enum cg_bias { CG_BIAS_RECURRENT, CG_BIAS_INPUT, CG_BIAS_HALVES, CG_BIASES };

/*
 * Before a tensor's name stands its group's.  %l and %r as above, %u "_2" of layer 2 and nothing of layer 0, %L "layer_2/" where
 * there are more layers than one, %d fw or bw, %w forward or backward, %s and %c the form's.
 */
struct cg_format {
	const char *name;
	const char *group[2];                    /* of 1 direction, of 2 */
	int stacked;                             /* a group is a layer: directions are a first dimension */
	int skips;                               /* input matrices may be left out */
	int bare;                                /* so may biases */
	int bias;                                /* where b goes: into bR, into bW, into halves */
	double forget_bias, cell_clip;           /* defaults of the attributes that forms have */
	const struct cg_form *forms;             /* end with templates of NULL */
};
extern const struct cg_format cg_formats[];  /* end with a name of NULL */
/* The message names the nearest, else all of them. */
const struct cg_format *cg_format_find(const char *name);
/* The letters of a built-in cell's gates and of its per-unit vectors, in its order; NULL: another cell. */
struct cg_letters { const char *cell, *gates, *vectors; };
const struct cg_letters *cg_letters(const struct cg_cell *);

/* ---- layouts ---- */

struct cg_layout {
	const struct cg_format *format;
	const struct cg_form *form;
	struct cg_rnn rnn;                       /* an outline */
	char gates[CG_GATES_MAX + 1], vectors[CG_WEIGHTS_MAX + 1];       /* the letters of the cell's */
	int gradients;
	int each, groups, n;                     /* tensors of a group; groups; tensors of all */
};
/* CG_UNSUPPORTED: what the format cannot hold. */
int  cg_layout_open(struct cg_layout *, const struct cg_format *, const struct cg_rnn_config *, int gradients);
/* How the format has a cell, or NULL. */
const struct cg_form *cg_form_of(const struct cg_format *, const struct cg_cell *);
/* group, leaf: the parts of the name; NULL where they are of no interest. */
void cg_layout_tensor(const struct cg_layout *, int k, struct cg_tensor *, int *group, const char **leaf);
int64_t cg_layout_elements(const struct cg_layout *, int k);
/* Is it biases alone? */
int  cg_layout_is_bias(const struct cg_layout *, int k);

/* A dimension before the sizes are known: one + I I's + U U's + P P's.  Returns the rank. */
struct cg_extent { int64_t one, I, U, P; };
int  cg_layout_extents(const struct cg_layout *, int k, struct cg_extent extents[CG_TENSOR_RANK]);

/* The pseudo-layers of which a tensor has pieces: first up to but not with end. */
struct cg_span { int first, end; };
struct cg_span cg_layout_span(const struct cg_layout *, int k);

/* Where a piece lies: element (row, column) of the region that our buffer has of it.  tensor -1: nowhere.  shared: with the
 * other bias, as their sum. */
struct cg_spot { int tensor, shared; int64_t offset, row, column, rows, columns; };
struct cg_spot cg_layout_spot(const struct cg_layout *, int pseudo_layer, enum cg_rnn_part, char gate);

/* ---- moving ---- */

/* Tensors in memory, at any address: at[k - first] is tensor k, NULL: it is all zeros. */
struct cg_tensors { const struct cg_layout *layout; int dtype, first; unsigned char *const *at; };

struct cg_move {
	struct cg_tensors from, to;
	int bias;                                /* enum cg_bias: where what is one in `from` goes */
	double forget_bias;                      /* added to the bias of gate f */
};
/* Fills tensor k of `to`; and carries what tensor k of `from` holds into `to`, which has a place for every piece. */
void cg_move_into(const struct cg_move *, int k);
void cg_move_out_of(const struct cg_move *, int k);

/* What a move of everything loses, in elements. */
struct cg_losses {
	int64_t biases, of_biases;               /* sums that are not what they are taken apart into again; gradients that differ */
	int64_t vectors, rounded;                /* of vectors left out those not zero; numbers that the dtype has not */
	int bias;                                /* the enum cg_bias that takes most sums apart into what they were */
};
/* bias: the enum cg_bias to try first. */
void cg_move_losses(const struct cg_move *, int bias, struct cg_losses *);
/* Biases of `from` that are not zero. */
int64_t cg_move_biases(const struct cg_move *);
/* Of the biases that go into tensor k of `to`. */
int64_t cg_move_lost_biases(const struct cg_move *, int bias, int k);

#endif
