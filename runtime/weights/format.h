/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weight formats: those of other programs, and the library's own.  A format is a set of table rows (format_table.c).  A layout applies a
 * format to one network: the names and shapes of its tensors, and the location of each matrix, bias and vector of the network in them
 * (layout.c).  transfer.c converts weights from one layout to another; weights.c implements the calls of cellgrad.h.
 */
#ifndef CG_FORMAT_H
#define CG_FORMAT_H

#include "runtime/device/net.h"

/* ---- the table ---- */

enum {
	CG_ACROSS = 1,                           /* matrices are [in, gates U]: gates side by side, parts stacked along the rows */
	CG_EACH   = 2,                           /* one tensor per gate */
	CG_PAIR   = 4,                           /* the tensor is [parts, gates U]: the first dimension counts the parts */
	CG_BUFFER = 8                            /* the tensor is the whole params buffer of the network */
};

/*
 * A tensor of a pseudo-layer.
 * name: %l is the layer, %r "_reverse" in direction 1, %n the tensor's number among those of the same name, %g "_backprop" for
 * gradients.
 * parts, in order: W input matrices, R recurrent matrices, P projection, w input biases, r recurrent biases, b sums of both biases,
 * v per-unit vectors.
 * gates: the gates that the tensor holds, in order; NULL: all gates, in the order of the form, or for v all per-unit vectors.
 */
struct cg_template { const char *name, *parts, *gates; unsigned flags; };

enum { CG_HAS_FORGET_BIAS = 1, CG_HAS_CELL_CLIP = 2 };

/* A format's tensors for one kind of cell.  A gate of a built-in cell is a letter: i f c o, r z n, h.  A per-unit vector has the
 * letter of the gate that it is added to. */
struct cg_form {
	const char *cell;                        /* name of a built-in cell; NULL: any cell */
	const char *gates;                       /* the gates in the order of the format; NULL: in the order of the cell */
	const struct cg_template *templates;     /* the tensors of a pseudo-layer; an entry with the name NULL ends the list */
	const char *prefix, *word;               /* the texts that %s and %c stand for in the names of groups */
	unsigned params;                         /* the params of lstm_block that the format stores as attributes */
};

enum cg_bias { CG_BIAS_RECURRENT, CG_BIAS_INPUT, CG_BIAS_HALVES, CG_BIASES };

/*
 * A tensor's full name starts with the name of its group.  In the name of a group %l and %r are as in the name of a tensor.  %u is "_2"
 * in layer 2 and empty in layer 0; %L is "layer_2/" in layer 2 of a network of several layers, and empty in a network of one layer.  %d
 * is fw or bw, %w is forward or backward, and %s and %c are the prefix and the word of the form.
 */
struct cg_format {
	const char *name;
	const char *group[2];                    /* names of groups, for 1 and for 2 directions */
	int stacked;                             /* 1: a group is a layer; the direction is the first dimension of the group's tensors */
	int skips;                               /* 1: the format can hold a network without input matrices (skip_input) */
	int optional_biases;                     /* 1: a file of the format may lack the tensors of biases */
	int bias;                                /* enum cg_bias: how one bias b becomes bW and bR */
	double forget_bias, cell_clip;           /* the format's defaults for its attributes of these names */
	const struct cg_form *forms;             /* one for each kind of cell; a form whose templates are NULL ends the list */
};
extern const struct cg_format cg_formats[];      /* a format with the name NULL ends the list */
/* Finds a format; NULL: there is none, and the message names the nearest one, or else all. */
const struct cg_format *cg_format_find(const char *name);
/* The codes, a letter each, of a built-in cell's gates and per-unit vectors, in the order of the cell.
 * cg_find_gate_codes() returns NULL for a cell that is not built-in. */
struct cg_gate_codes { const char *cell, *gates, *vectors; };
const struct cg_gate_codes *cg_find_gate_codes(const struct cg_cell *);

/* ---- layouts ---- */

struct cg_layout {
	const struct cg_format *format;
	const struct cg_form *form;
	struct cg_network network;
	struct cg_network_text text;
	double values[CG_PARAMS_MAX];            /* values of the cell's params, rounded to the dtype */
	/* a character for each gate, per-unit vector or scalar, in the cell's order */
	char gates[CG_GATES_MAX + 1], vectors[CG_WEIGHTS_MAX + 1], scalars[CG_SCALARS_MAX + 1];
	int gradients;
	int each, groups, n;                     /* each: tensors of a group; groups: the number of groups; n: tensors in all */
};
/* Makes the layout of a network.  CG_UNSUPPORTED: the format cannot hold the network, for the reason in the message. */
int  cg_layout_open(struct cg_layout *, const struct cg_format *, const struct cg_rnn_config *, int gradients);
/* The format's form for a cell; NULL: the format has none. */
const struct cg_form *cg_form_of(const struct cg_format *, const struct cg_cell *);
/* Gets name and shape of tensor k.  *group (may be NULL): the index of its group; *leaf (may be NULL): its name without the group's. */
void cg_layout_tensor(const struct cg_layout *, int k, struct cg_tensor *, int *group, const char **leaf);
int64_t cg_layout_elements(const struct cg_layout *, int k);
/* Does tensor k hold only biases? */
int  cg_layout_is_bias(const struct cg_layout *, int k);

/* Gets the dimensions of tensor k, each as a sum of sizes: one + I * input size + U * units + P * projection size.  Returns the rank. */
struct cg_extent { int64_t one, I, U, P; };
int  cg_layout_extents(const struct cg_layout *, int k, struct cg_extent extents[CG_TENSOR_RANK]);

/* The pseudo-layers that tensor k holds weights of: first <= pseudo-layer < end. */
struct cg_layer_range { int first, end; };
struct cg_layer_range cg_layout_layers(const struct cg_layout *, int k);

/* The location of a matrix, bias or vector of the network.  Element (r, c) of the matrix, bias or vector is element
 * offset + r * row + c * column of a tensor.  Field `tensor` -1: the format does not hold the part.  shared: the tensor holds the sum
 * bW + bR. */
struct cg_location { int tensor, shared; int64_t offset, row, column, rows, columns; };
struct cg_location cg_layout_locate(const struct cg_layout *, int pseudo_layer, enum cg_rnn_part, char gate);

/* ---- conversion ---- */

/* Tensors in memory, of any alignment: at[k - first] is tensor k, or NULL for a tensor of zeros. */
struct cg_tensors { const struct cg_layout *layout; int dtype, first; unsigned char *const *at; };

struct cg_conversion {
	struct cg_tensors from, to;
	int bias;                                /* enum cg_bias: how one bias of `from` becomes bW and bR of `to` */
	double forget_bias;                      /* added to bR of gate f, or to the sum bW + bR */
};
/* Fills tensor k of `to`. */
void cg_convert_into(const struct cg_conversion *, int k);
/* Converts tensor k of `from` into the tensors of `to`, all of which must be in memory. */
void cg_convert_out_of(const struct cg_conversion *, int k);

/* What a conversion of all tensors loses: numbers of pairs of biases, and of elements. */
struct cg_losses {
	/* of_biases: the pairs bW, bR that are summed; biases: those of them that differ after their sum is split again, or, for gradients,
	 * that are not equal */
	int64_t biases, of_biases;
	int64_t vectors, rounded;                /* nonzero elements of vectors that `to` does not hold; elements that `to`'s dtype rounds */
	int bias;                                /* the enum cg_bias that restores the most pairs */
};
/* Counts the losses of a conversion.  bias: the rule, an enum cg_bias, to split sums bW + bR by; if it loses pairs, all rules are tried. */
void cg_count_losses(const struct cg_conversion *, int bias, struct cg_losses *);
/* The number of pairs bW, bR of `from` of which at least one has bits that are not zero. */
int64_t cg_count_biases(const struct cg_conversion *);
/* The number of pairs bW, bR that are lost in tensor k of `to`. */
int64_t cg_count_lost_biases(const struct cg_conversion *, int bias, int k);

#endif
