/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of any op as files: tensors that fit each other, and metadata, distributed over up to four files.
 */
#ifndef ORDERS_H
#define ORDERS_H

#include "command/run/metadata.h"

enum { FILES = 4, TENSORS = 100, WORDS = 40, WORD = 192, FACTS = 4096 };

struct tensor {
	char name[CG_ITEM_NAME];
	const char *dtype;
	int rank, scalar;                        /* scalar: 1: the tensor is a scalar, and a word NAME=VALUE could give its value, too */
	int64_t shape[CG_RANK];
	unsigned char *data;
	size_t bytes;
	unsigned in;                             /* the files that have this tensor, one bit each */
};

/* A word NAME=VALUE; attribute: the op has an attribute NAME; `in`: the files whose metadata has the word, one bit each. */
struct word { char text[WORD]; int name, attribute; unsigned in; };

struct variant {
	const char *name;
	int network, any_cell, v3;            /* network: only for networks; any_cell: for ops with attribute cell; v3: for ops with num_proj */
	const char *words[24];
};
extern const struct variant variants[];          /* the last variant has no name */

struct example {
	const char *op;
	struct tensor tensors[TENSORS];
	int n_tensors;
	struct word words[WORDS];
	int n_words;
};

/* The folder of the files and of three cells: mine; copy, which has the same equations and other comments; other, with another default of
   param m. */
extern char folder[64];
int  folder_make(void);
int  folder_remove(void);

/* Returns 0 if the op does not have the variant. with: adds a reserve space made by the forward op; returns 0 if the op reads none. */
int  example_make(struct example *, const char *op, const struct variant *, int with, struct cg_context *);
void example_free(struct example *);
/* The word with this name; NULL: the example has none. */
struct word *example_word(struct example *, const char *name);
const char *word_value(const struct word *);
struct word *example_add(struct example *, const char *text, int attribute);
/* Gives every tensor and every word to one file or, with `some`, to one or more files. If one word is a digest, the words about the
   cell go to the same files. */
void example_deal(struct example *, unsigned seed, int some);
void example_write(const struct example *);

struct outcome { int code; uint64_t answers, metadata; char facts[FACTS]; };

/* Runs the call on these files, given by number; words end with NULL. Field `facts` is the words of the message, sorted. */
void example_run(const char *op, const char *const *words, const int *order, int n, struct cg_context *, struct outcome *);
/* Runs the call with all tensors in one file without metadata, and attributes as NAME=VALUE. */
void example_plain(struct example *, struct cg_context *, struct outcome *);

#endif
