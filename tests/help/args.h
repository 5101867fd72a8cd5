/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills an op's struct with every argument, for tests that then make one argument wrong and check the result themselves.
 */
#ifndef TEST_ARGS_H
#define TEST_ARGS_H

#include "runtime/op/op.h"
#include "runtime/core/core.h"

union args {
	struct cg_lstm_block lstm;
	struct cg_gru_block gru;
	char bytes[4096];
};

/* The memory of an op's arguments: a slot of SLOT bytes for each; no two arguments touch. */
enum { SLOT = 2048, SLOTS = 32 };
extern unsigned char arena[SLOTS * SLOT];

/* Sets every argument of the op `row`, each in memory of its own: T 3 for a sequence, B 2, I 3, U 4, f32, booleans on. */
void fill(const struct cg_op *row, union args *a);

/* The next row of the op table after `row`, or the first for NULL, whose op has no plan: shapes alone make the arguments of such an op.
   In the first pass over the table plain_row() prints the names of the rows that it skips. */
const struct cg_op *plain_row(const struct cg_op *row);
/* Return the row or the argument of this name, and fail the test when there is none. */
const struct cg_op   *row_of(const char *name);
const struct cg_port *port_of(const struct cg_op *row, const char *name);

struct cg_mem *mem_at(union args *a, size_t at);
void remove_argument(union args *a, size_t at);
void set_size(const struct cg_op *row, union args *a, const char *symbol, int64_t value);
void set_bools(const struct cg_op *row, union args *a, int value);

#endif
