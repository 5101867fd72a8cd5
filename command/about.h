/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes an op in words, from its row of the op table, for `cellgrad info OP`. A `list` or `text` argument is a buffer; a returned
 * text is in that buffer, or static.
 */
#ifndef ABOUT_H
#define ABOUT_H

#include "runtime/device/inspect.h"

enum { ABOUT_LIST = 512 };

struct about {
	const struct cg_op *row, *pair;          /* pair: the row of the op's gradient, or of the op whose gradient it is; or NULL */
	const char *name;                        /* the op's name as the user wrote it, TensorFlow's or the library's */
	int   is_grad, theirs;
	void *op;                                /* the op's struct, with default attributes */
};

/* The name of an op's row: TensorFlow's name if the user gave the op by TensorFlow's name, else the library's. */
const char *about_name(const struct about *, const struct cg_op *);
/* Is a port or attribute shown? A port or attribute that only the library's own op has (extra not 0) is shown only under the library's
 * name. */
int  about_shows(const struct about *, int extra);
/* Appends a text to a list; `between` separates it from a text that the list already has. */
void about_add(char list[ABOUT_LIST], const char *between, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The shape of a port as text, "[T, B, 4*U]"; "below" for a list of tensors, which have several shapes. about_turned: the port's
 * batch-major shape. about_order: the attribute that chooses between time-major and batch-major, or NULL. */
const char *about_shape(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);
const char *about_turned(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);
const struct cg_attribute *about_order(const struct about *);
/* about_uses: does the shape of a tensor that is shown contain this size? about_multiples: does the shape of any tensor contain a multiple
 * of a size, such as 4*U? */
int  about_uses(const struct about *, const char *symbol);
int  about_multiples(const struct about *);
/* The element type of a port in words: "float" for real numbers, which have the dtype of the op; for integers the name in safetensors,
 * "I8", "I32" or "I64", or "I32 or I64" where an attribute chooses. */
const char *about_type(const struct cg_port *);

/* When `cellgrad run` must be given the input: "always", "if use_peephole=true", "no". */
const char *about_needed(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);
/* about_needs: does a C call need the input to compute this output? about_needed_for: the outputs that need it: "all outputs",
 * "w_grad", "none". */
int  about_needs(const struct about *, const struct cg_port *input, const struct cg_port *output);
const char *about_needed_for(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);

/* What an input of a gradient op is to the forward op: its input (ITS_INPUT), its output (ITS_OUTPUT), or neither but an upstream gradient
 * (FROM_ABOVE). AN_INPUT: an input of an op that is not a gradient op. */
enum about_origin { AN_INPUT, ITS_INPUT, ITS_OUTPUT, FROM_ABOVE, ORIGINS };
int  about_find_origin(const struct about *, const struct cg_port *);
/* The argument of the forward op whose gradient a port is, found by the port's name: "d_h", "h_grad", "h_backprop" give "h"; or NULL. */
const struct cg_port *about_gradient_by(const struct about *, const struct cg_port *);
/* Does the gradient of the op read this output of the op? */
int  about_taken(const struct about *, const struct cg_port *);

/* The kinds of attributes in words, by enum cg_attribute_kind. about_range: the limits of an attribute as text, such as "0" and "T"; ""
 * for no limit. */
extern const char *const about_kinds[];
void about_range(const struct cg_attribute *, char least[ABOUT_LIST], char most[ABOUT_LIST]);
const char *about_default(const struct about *, const struct cg_attribute *, char text[CG_ATTRIBUTE_TEXT]);
const char *about_values(const struct cg_attribute *, char list[ABOUT_LIST]);

#endif
