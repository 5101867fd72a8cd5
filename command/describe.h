/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints an op's arguments and attributes: `cellgrad info OP` and `cellgrad run OP --help`.
 */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include "command/about.h"

/* Prints an op's inputs, outputs and attributes, under TensorFlow's name or the library's. CG_BAD_ARGUMENT: no op has that name. */
int describe_op(const char *name, int json);
/* Finds an op as cg_op_find does. Where the word names no op, the message also suggests the op that computes a cell of that name, or the
 * option for a backend of that name. */
const struct cg_op *describe_find(const char *name, int *theirs);

/* Prints an op's inputs, outputs and attributes as JSON. */
int describe_json(const struct about *);

#endif
