/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes an op in words, from its row of the op table, for `cellgrad info OP`. A `list` argument is a buffer; a returned text is
 * in it, or static.
 */
#ifndef ABOUT_H
#define ABOUT_H

#include "runtime/device/inspect.h"

enum { ABOUT_LIST = 512 };

struct about {
	const struct cg_op *row, *pair;          /* pair: the op's gradient, or the op of which this is the gradient; or NULL */
	const char *name;                        /* as the user wrote it, TensorFlow's name or the library's */
	int   is_grad, theirs;
	void *op;                                /* the op's struct, with default attributes */
};

/* The name of a row: TensorFlow's if the user gave TensorFlow's name, else the library's. */
const char *about_name(const struct about *, const struct cg_op *);
/* Is a thing shown that only the library's own op has (extra not 0)? */
int  about_shows(const struct about *, int extra);
/* Appends to a list; `between` separates it from what is there. */
void about_add(char list[ABOUT_LIST], const char *between, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The shape as "[T, B, 4*U]"; "below" for a list, whose tensors have several shapes. about_turned: the batch-major shape.
 * about_order: the attribute that chooses between the two orders, or NULL. */
const char *about_shape(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);
const char *about_turned(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);
const struct cg_attribute *about_order(const struct about *);
/* Does any tensor have this size? Does any have a multiple of a size? */
int  about_uses(const struct about *, const char *symbol);
int  about_multiples(const struct about *);
/* The element type as safetensors names it; "float": the op's dtype. */
const char *about_type(const struct cg_port *);

/* When `run` must have the input: "always", "if use_peephole=true", "no". */
const char *about_needed(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);
/* about_needs: does a C call need the input to compute this output? about_needed_for: the outputs that need it: "all outputs",
 * "w_grad", "none". */
int  about_needs(const struct about *, const struct cg_port *input, const struct cg_port *output);
const char *about_needed_for(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);

/* Where an input comes from. AN_INPUT: the op is no gradient. Of a gradient: an input or an output of the forward op, or an
 * upstream gradient. */
enum about_origin { AN_INPUT, ITS_INPUT, ITS_OUTPUT, FROM_ABOVE, ORIGINS };
int  about_find_origin(const struct about *, const struct cg_port *);
/* The argument of the forward op whose gradient this is, by name: "d_h", "h_grad", "h_backprop" give "h"; or NULL. */
const struct cg_port *about_gradient_by(const struct about *, const struct cg_port *);
/* Does the op's gradient read this output? */
int  about_taken(const struct about *, const struct cg_port *);

/* The kinds of attributes in words, by enum cg_attribute_kind. about_range: the limits as text, such as "0" and "T"; "" for none. */
extern const char *const about_kinds[];
void about_range(const struct cg_attribute *, char least[ABOUT_LIST], char most[ABOUT_LIST]);
const char *about_default(const struct about *, const struct cg_attribute *, char text[CG_ATTRIBUTE_TEXT]);
const char *about_values(const struct cg_attribute *, char list[ABOUT_LIST]);

#endif
