/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints an op's arguments and attributes: `cellgrad info OP` and `cellgrad run OP --help`.
 */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include "command/about.h"

/* Prints an op's inputs, outputs and attributes, under TensorFlow's name or the library's. CG_BAD_ARGUMENT: no op has that name. */
int describe_op(const char *name, int json);
/* Finds an op as cg_op_find does. If the word names no op and is close to none, the message suggests the op for networks of the built-in
 * cell whose name the word contains. For a backend's name the message suggests `cellgrad info --why`, which says whether the backend
 * opens. */
const struct cg_op *describe_find(const char *name, int *theirs);

/* Prints an op's inputs, outputs and attributes as JSON. */
int describe_json(const struct about *);

#endif
