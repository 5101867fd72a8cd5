/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata of files: what it says of attributes, and which source decides.
 *
 * An attribute has the value of NAME=VALUE; else that of the files that have it; else the op's default. For attributes that a call
 * may choose, NAME=VALUE overrides files, and two files that differ are refused without it. For attributes that fix the meaning of
 * params or of a reserve space every contradiction is refused: between two files, between a file and NAME=VALUE, between a file and
 * the op or the tensors. So the order of files does not matter.
 */
#ifndef METADATA_H
#define METADATA_H

#include "command/run/op_call.h"

/* A value and its source: a path, or one of the sources below; what: NULL where the source says nothing. */
struct statement { const char *by, *what; };
extern const char by_attribute[], by_op[], by_tensors[];

/* An entry of a file's metadata. NULL: there is none, or --ignore-metadata was given. */
const char *metadata_of(const struct call *, const struct safetensors *, const char *name);
/* Does the attribute fix the meaning of params or of a reserve space? */
int  metadata_fixes(const char *name);
/* Do two texts mean the same? Numbers and words for true and false may be spelt in several ways. */
int  metadata_alike(const char *, const char *);
/* Refuses two values of an attribute that differ. Returns CG_BAD_ARGUMENT. */
int  metadata_differ(const struct call *, const char *name, struct statement, struct statement);
/* "FILE: __metadata__: " for a message about a bad value. */
enum { METADATA_WHERE = 120 };
const char *metadata_where(const struct safetensors *, char where[METADATA_WHERE]);

/* The following are called in this order by call_bind and convert/network.c. Reads all attributes of the op but the cell, its
 * options and values. */
int  metadata_attributes(struct call *);
/* Checks what the op fixes without an attribute. */
int  metadata_means(const struct call *);
/* Does the attribute T, from NAME=VALUE or a file, agree with the dtype of the tensors? */
int  metadata_type(const struct call *, int dtype);
/* Checks the sizes of files once shapes have set them; bound has a bit for each size, as in cg_op_bind. */
int  metadata_sizes(const struct call *, unsigned bound);
/* The value of a name in row->means, or NULL; it ends at a blank or the end of the text. */
const char *metadata_meaning(const struct call *, const char *name);

/* ---- metadata_cell.c: which cell, by its text ---- */

/* The cell that arguments and files name, and its options and values; NULL: none given. */
struct metadata_cell {
	const char *name;                /* as attribute `cell` names it */
	const struct cg_cell *cell;
	struct cg_cell *parsed;          /* from a file, to be closed by cg_cell_close; NULL: the cell is built in */
	const char *options, *values;
};
/* word: the cell that NAME=VALUE names, or NULL; options and values are those of NAME=VALUE on entry. The caller closes `parsed` in
 * any case. */
int  metadata_find_cell(const struct call *, const char *word, struct metadata_cell *);
/* Checks, once the cell and the dtype are known, that the values in files are those of the call. */
int  metadata_values(const struct call *, const struct cg_cell *, int dtype, const char *values, int by_word);
/* Sixteen digits and the end. */
enum { METADATA_DIGEST = 17 };
const char *metadata_digest(const struct cg_cell *, char digits[METADATA_DIGEST]);

#endif
