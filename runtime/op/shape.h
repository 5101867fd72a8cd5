/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parsed shapes and needs of ports, for the files of this folder.  cg_op_check() reads the sizes of an op once for all its arguments.
 */
#ifndef CG_SHAPE_H
#define CG_SHAPE_H

#include "runtime/op/op.h"

enum { CG_SHAPE_LINE = 256 };            /* bytes of the text of a shape with its sizes */

/* Was the argument given?  A cg_mem that is all zeros is absent; a cg_mem with any nonzero field is given, and is checked. */
static inline int cg_is_given(const struct cg_mem *m)
{
	return m->data || m->offset || m->bytes || m->place;
}

void cg_sizes_read(const struct cg_op *, const void *op, int64_t size[CG_DIMS_MAX]);
/* The index of the size with this symbol; -1: there is none. */
int  cg_size_find(const struct cg_op *, const char *symbol, size_t length);
/* The length of a word, which ends at a blank, at the character `end`, or at the end of the text. */
size_t cg_word_length(const char *, char end);
int  cg_word_is(const char *name, const char *word, size_t length);

/* The first thread that parses a text stores the result in the row; until that is done, other threads parse the text for themselves.
 * *state: 0 not parsed, 1 being stored, 2 stored. */
static inline int cg_read_before(const int *state)
{
	return __atomic_load_n(state, __ATOMIC_ACQUIRE) == 2;
}
static inline int cg_read_first(int *state)
{
	int unread = 0;

	return __atomic_compare_exchange_n(state, &unread, 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
static inline void cg_read_done(int *state)
{
	__atomic_store_n(state, 2, __ATOMIC_RELEASE);
}

/* Parses a port's shape and need, and stores them in the row; if another thread is doing so, or the row has no storage, in `storage`. */
const struct cg_reading *cg_read_port(const struct cg_op *, const struct cg_port *, struct cg_reading *storage);
/* A port's parsed shape and need, from the row if they are stored there, else parsed. */
static inline const struct cg_reading *cg_find_reading(const struct cg_op *row, const struct cg_port *port, struct cg_reading *storage)
{
	const struct cg_reading *cached = row->readings ? &row->readings[port - row->ports] : NULL;

	return cached && cg_read_before(&cached->state) ? cached : cg_read_port(row, port, storage);
}
/* Is the port an input that is always needed, or that a present output, or an attribute that is on, needs? */
int cg_reading_needs(const struct cg_op *, const struct cg_reading *, const void *op);
/* Computes the bytes of an argument with elements of `each` bytes; CG_BAD_ARGUMENT if they overflow. */
int cg_reading_bytes(const struct cg_op *, const struct cg_port *, const struct cg_reading *, size_t each, const void *op,
                     const int64_t *size, size_t *bytes);
/* Writes the shape with its sizes, "[I+U=7, 4*U=16]"; returns text. */
const char *cg_shape_format(const struct cg_op *, const struct cg_port *, const void *op, const int64_t *size,
                            char text[CG_SHAPE_LINE]);

#endif
