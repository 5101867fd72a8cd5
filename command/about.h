/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes an op from its row, for `cellgrad info OP`, in words.  A list is a buffer for a result; what is returned is in it, or
 * static.
 */
#ifndef ABOUT_H
#define ABOUT_H

#include "runtime/device/inspect.h"

enum { ABOUT_LIST = 512 };

struct about {
	const struct cg_op *row, *pair;          /* pair: the op's gradient, or what it is the gradient of; or NULL */
	const char *name;                        /* as it was asked for, TensorFlow's or ours */
	int   is_grad, theirs;
	void *op;                                /* the struct, with the defaults */
};

/* The name of a row, of the same owner as the one that was asked for. */
const char *about_name(const struct about *, const struct cg_op *);
/* Is what only our name has shown? */
int  about_shows(const struct about *, int extra);
/* Adds to a list, after `between` unless it is empty. */
void about_add(char list[ABOUT_LIST], const char *between, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* "[T, B, 4*U]"; of a list, whose tensors have shapes of their own, "below".  Turned: with rows before steps, where an attribute,
 * about_order, says which comes first; that is NULL where there is none. */
const char *about_shape(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);
const char *about_turned(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);
const struct cg_attribute *about_order(const struct about *);
/* Does any tensor have the size?  Any a multiple of one? */
int  about_uses(const struct about *, const char *symbol);
int  about_multiples(const struct about *);
/* As safetensors call the elements' type; "float": the op's dtype. */
const char *about_type(const struct cg_port *);

/* What `run` must have: "always", "if use_peephole=true", "no". */
const char *about_needed(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);
/* In C, where either may be absent, does an output need the input?  And which do: "all outputs", "w_grad", "none". */
int  about_needs(const struct about *, const struct cg_port *input, const struct cg_port *output);
const char *about_needed_for(const struct about *, const struct cg_port *, char list[ABOUT_LIST]);

/* Whose an input is: of an op that is no gradient; of a gradient, its forward op's input or output, or a gradient from above. */
enum about_origin { AN_INPUT, ITS_INPUT, ITS_OUTPUT, FROM_ABOVE, ORIGINS };
int  about_find_origin(const struct about *, const struct cg_port *);
/* What of the forward op an argument of its gradient is the gradient by: "d_h" "h_grad" "h_backprop" -> "h"; or NULL. */
const struct cg_port *about_gradient_by(const struct about *, const struct cg_port *);
/* Does the gradient take this output of the op? */
int  about_taken(const struct about *, const struct cg_port *);

/* Of attributes the kinds, by enum cg_attribute_kind; "0 T" as the least and the largest, "" where there is none. */
extern const char *const about_kinds[];
void about_range(const struct cg_attribute *, char least[ABOUT_LIST], char most[ABOUT_LIST]);
const char *about_default(const struct about *, const struct cg_attribute *, char text[CG_ATTRIBUTE_TEXT]);
const char *about_values(const struct cg_attribute *, char list[ABOUT_LIST]);

#endif
