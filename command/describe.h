/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints an op's arguments and attributes: `cellgrad info OP` and `cellgrad run OP --help`.
 */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include "command/about.h"

/* Prints an op's inputs, outputs and attributes, under TensorFlow's name or the library's. CG_BAD_ARGUMENT: there is no such op. */
int describe_op(const char *name, int json);
/* cg_op_find with a longer message where the word names no op: it also suggests the op of a cell, or the option for a backend. */
const struct cg_op *describe_find(const char *name, int *theirs);

/* The same as JSON. */
int describe_json(const struct about *);

#endif
