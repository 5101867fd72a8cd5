/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints an op's arguments and attributes: `cellgrad info OP` and `cellgrad run OP --help`.
 */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include "command/about.h"

/* Prints what the op takes and gives, and its attributes, by TensorFlow's name or ours; CG_BAD_ARGUMENT: there is none. */
int describe_op(const char *name, int json);
/* cg_op_find with a fuller message where the word names no op: the op of a cell, or the option for a backend. */
const struct cg_op *describe_find(const char *name, int *theirs);

/* describe_op's JSON. */
int describe_json(const struct about *);

#endif
