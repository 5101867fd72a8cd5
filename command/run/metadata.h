/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the metadata of files says of attributes, and decides which source of a value counts.
 *
 * An attribute has the value of NAME=VALUE on the command line; else the value in the files that have the attribute; else the op's
 * default. For attributes that a call may choose, NAME=VALUE overrides files; without NAME=VALUE, two files that differ are refused. For
 * attributes that fix the meaning of params or of a reserve space every contradiction is refused: between two files, between a file and
 * NAME=VALUE, between a file and the op or the tensors. Thus no attribute depends on the order of the files. With --ignore-metadata the
 * metadata of all files is ignored.
 */
#ifndef METADATA_H
#define METADATA_H

#include "command/run/op_call.h"

/* What a source says of an attribute. by: the source, which is a file's path, an option, or one of the three below: NAME=VALUE, the op, the
 * tensors; what: the value, NULL where the source says none. */
struct statement { const char *by, *what; };
extern const char by_attribute[], by_op[], by_tensors[];

/* An entry of a file's metadata, by its name. NULL: the metadata has no such entry, or --ignore-metadata was given. */
const char *metadata_of(const struct call *, const struct safetensors *, const char *name);
/* Does the attribute fix the meaning of params or of a reserve space? */
int  metadata_fixes(const char *name);
/* Do two texts mean the same value? Numbers, and words for true and false, may be spelt in several ways. */
int  metadata_alike(const char *, const char *);
/* Refuses two values of an attribute that differ. Returns CG_BAD_ARGUMENT. */
int  metadata_differ(const struct call *, const char *name, struct statement, struct statement);
/* "FILE: __metadata__: " for a message about a bad value. */
enum { METADATA_WHERE = 120 };
const char *metadata_where(const struct safetensors *, char where[METADATA_WHERE]);

/* call_bind calls the next four functions in this order; convert/network.c calls some of them. metadata_attributes reads the op's
 * attributes from the files, except the cell, the cell's options and values, and attributes that NAME=VALUE overrides. */
int  metadata_attributes(struct call *);
/* Checks that the files agree with the properties that the op fixes without an attribute. */
int  metadata_means(const struct call *);
/* Checks that the attribute T, from NAME=VALUE or a file, agrees with the dtype of the tensors. */
int  metadata_type(const struct call *, int dtype);
/* Checks the sizes in the metadata of files, once the shapes of tensors have set the op's sizes. bound: a bit for each size that is set,
 * as in cg_op_bind. */
int  metadata_sizes(const struct call *, unsigned bound);
/* The value of a name in the member `means` of the op's row, or NULL; the value ends at a blank or the end of the text. */
const char *metadata_meaning(const struct call *, const char *name);

/* ---- metadata_cell.c: which cell, by its text ---- */

/* The cell that arguments and files name, with its options and its values; a member is NULL if it is given nowhere. */
struct metadata_cell {
	const char *name;                /* the cell's name or its file's path, as attribute `cell` has it */
	const struct cg_cell *cell;
	struct cg_cell *parsed;          /* a cell from a file, which the caller closes; NULL: the cell is the library's */
	const char *options, *values;
};
/* Finds the cell. word: the cell that NAME=VALUE names, or NULL. On entry, options and values in the struct are those of NAME=VALUE. The
 * caller closes `parsed`, also after an error. */
int  metadata_find_cell(const struct call *, const char *word, struct metadata_cell *);
/* Checks, once the cell and the dtype are known, that the params have the same values in the files as in the call. values: the call's, as
 * NAME=NUMBER,...; by_word: 1: NAME=VALUE gave them; 0: a file did, or none. */
int  metadata_values(const struct call *, const struct cg_cell *, int dtype, const char *values, int by_word);
/* The length of a digest as text: sixteen digits and a zero byte. */
enum { METADATA_DIGEST = 17 };
const char *metadata_digest(const struct cg_cell *, char digits[METADATA_DIGEST]);

#endif
