/*
 * Prints an op's arguments and attributes: `cellgrad info OP` and `cellgrad run OP --help`.
 */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include "command/about.h"

/* Prints what the op takes and gives, and its attributes, by TensorFlow's name or ours; CG_BAD_ARGUMENT: there is none. */
int describe_op(const char *name, int json);
/* cg_op_find, whose message says more of what is no op: the op of a cell, how to ask about a backend. */
const struct cg_op *describe_find(const char *name, int *theirs);

/* describe_op's JSON. */
int describe_json(const struct about *);

#endif
