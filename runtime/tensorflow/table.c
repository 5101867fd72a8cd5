/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The op table: joins the lists of rows, which are at the ends of the source files of block/ and of cudnn_rnn_rows.c, and finds a row by
 * name.  To add an op, add its row to such a list, and a new list to `lists` in this file; the tests read all rows.
 */
#include <stdio.h>
#include <string.h>

#include "gen/cell.h"
#include "runtime/device/device.h"
#include "runtime/block/block.h"
#include "runtime/tensorflow/cudnn_rnn.h"

enum { NAMES = 96, PASS_NAME = 64 };             /* the most names of ops, ours and TensorFlow's; bytes of a name */

static const struct cg_op *const lists[] = { cg_lstm_block_cell_ops, cg_gru_block_cell_ops, cg_block_lstm_ops, cg_cudnn_rnn_ops, NULL };

const struct cg_op *cg_op_next(const struct cg_op *row)
{
	if (!row)
		return *lists;
	for (const struct cg_op *const *list = lists; *list; list++)
		for (const struct cg_op *of = *list; of->name; of++)
			if (of == row)
				return of[1].name ? of + 1 : list[1];
	return NULL;
}

/* ---- names ---- */

const struct cg_op *cg_op_find(const char *name, int *theirs)
{
	const char *names[NAMES], *nearest;
	const struct cg_op *row;
	int n = 0;

	if (!name) {
		cg_fail(CG_BAD_ARGUMENT, "op: expected a name, got NULL");
		return NULL;
	}
	for (row = NULL; (row = cg_op_next(row));) {
		int by_theirs = !strcmp(name, row->tensorflow);

		if (by_theirs || !strcmp(name, row->name)) {
			if (theirs)
				*theirs = by_theirs;
			return row;
		}
		names[n++] = row->name;
		names[n++] = row->tensorflow;
	}
	nearest = cg_nearest(name, names, n);
	cg_fail(CG_BAD_ARGUMENT, "%.64s: no such op%s%s; cellgrad info lists the ops", name,
	        nearest ? ": the nearest is " : "", nearest ? nearest : "");
	return NULL;
}

/* Writes the name of an op without "_grad" or "_backprop", by which an op and its gradient are a pair; returns 1 for a gradient. */
static int pass_name(const struct cg_op *row, char name[PASS_NAME])
{
	static const char *const endings[] = { "_grad", "_backprop" };
	const char *at = NULL, *ending = "";

	for (size_t k = 0; k < sizeof endings / sizeof *endings && !at; k++)
		at = strstr(row->name, ending = endings[k]);
	snprintf(name, PASS_NAME, "%.*s%s", at ? (int)(at - row->name) : PASS_NAME, row->name, at ? at + strlen(ending) : "");
	return at != NULL;
}

const struct cg_op *cg_op_pair(const struct cg_op *row, int *is_grad)
{
	char name[PASS_NAME], other[PASS_NAME];

	*is_grad = pass_name(row, name);
	for (const struct cg_op *o = NULL; (o = cg_op_next(o));)
		if (pass_name(o, other) != *is_grad && !strcmp(name, other))
			return o;
	return NULL;
}

int cg_supports(const struct cg_context *context, const char *op, int dtype)
{
	CG_TRY(cg_context_check(context, "cg_supports"));
	if (!op || !cg_op_find(op, NULL))
		return op ? CG_BAD_ARGUMENT : cg_fail(CG_BAD_ARGUMENT, "cg_supports: op: expected a name, got NULL");
	if (!cg_dtype_bytes(dtype))
		return cg_fail(CG_BAD_ARGUMENT, "cg_supports: dtype: expected an enum cg_dtype, got %d", dtype);
	return context->backend->supports(context->device, dtype);
}
