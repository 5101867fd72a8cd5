/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What files say in their metadata, and who decides.
 *
 * An attribute is what NAME=VALUE says, else what the files that have it say, else the op's default.  In what a call may choose
 * NAME=VALUE is stronger than files, and two files that differ are refused without it.  In what fixes the meaning of params or of
 * a reserve every contradiction is refused: of two files, of a file and NAME=VALUE, of a file and the op or the tensors.  So the
 * order of files decides nothing.
 */
#ifndef METADATA_H
#define METADATA_H

#include "command/run/op_call.h"

/* Who says it: a path, or one of ours; what: NULL for nothing. */
struct statement { const char *by, *what; };
extern const char by_attribute[], by_op[], by_tensors[];

/* NULL: the file does not say it, or --ignore-metadata. */
const char *metadata_of(const struct call *, const struct safetensors *, const char *name);
/* Does it fix the meaning of params or of a reserve? */
int  metadata_fixes(const char *name);
/* Numbers in two spellings and words for true and false are alike. */
int  metadata_alike(const char *, const char *);
/* Refuses two that differ; name: of the attribute.  Returns CG_BAD_ARGUMENT. */
int  metadata_differ(const struct call *, const char *name, struct statement, struct statement);
/* "FILE: __metadata__: " for a message about a bad value. */
enum { METADATA_WHERE = 120 };
const char *metadata_where(const struct safetensors *, char where[METADATA_WHERE]);

/* In this order; call_bind calls them, and convert/network.c.  Attributes of the row but for the cell, its options and values. */
int  metadata_attributes(struct call *);
/* What holds of the op without an attribute. */
int  metadata_means(const struct call *);
/* Is the T that NAME=VALUE or a file gave the dtype of the tensors? */
int  metadata_type(const struct call *, int dtype);
/* Once shapes have given sizes, a bit for each as cg_op_bind has them. */
int  metadata_sizes(const struct call *, unsigned bound);
/* A word of row->means, or NULL; it ends with a blank or the text. */
const char *metadata_meaning(const struct call *, const char *name);

/* ---- metadata_cell.c: which cell, by its text ---- */

/* The cell that words and files name, and what they say of it; NULL: nothing. */
struct metadata_cell {
	const char *name;                /* as `cell` has it */
	const struct cg_cell *cell;
	struct cg_cell *parsed;          /* of a file, for cg_cell_close; NULL: built in */
	const char *options, *values;
};
/* word: the cell that NAME=VALUE names, or NULL; options and values are those of NAME=VALUE on entry.  The caller closes `parsed`
 * in any case. */
int  metadata_find_cell(const struct call *, const char *word, struct metadata_cell *);
/* Once the cell and the dtype are known: are the files' values what the call computes with? */
int  metadata_values(const struct call *, const struct cg_cell *, int dtype, const char *values, int by_word);
/* Sixteen digits. */
enum { METADATA_DIGEST = 17 };
const char *metadata_digest(const struct cg_cell *, char digits[METADATA_DIGEST]);

#endif
