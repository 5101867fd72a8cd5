/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of any op as files: tensors that fit each other, and what metadata says of them, dealt to up to four files.
 */
#ifndef ORDERS_H
#define ORDERS_H

#include "command/run/metadata.h"

enum { FILES = 4, TENSORS = 100, WORDS = 40, WORD = 192, FACTS = 4096 };

struct tensor {
	char name[CG_ITEM_NAME];
	const char *dtype;
	int rank, scalar;                        /* scalar: it says what a word says, too */
	int64_t shape[CG_RANK];
	unsigned char *data;
	size_t bytes;
	unsigned in;                             /* which files have it, a bit each */
};

/* As NAME=VALUE; attribute: the op has it. */
struct word { char text[WORD]; int name, attribute; unsigned in; };

struct variant {
	const char *name;
	int network, any_cell, v3;               /* for networks; for ops with an attribute cell; with num_proj */
	const char *words[24];
};
extern const struct variant variants[];          /* ends with one without a name */

struct example {
	const char *op;
	struct tensor tensors[TENSORS];
	int n_tensors;
	struct word words[WORDS];
	int n_words;
};

/* Where the files are, and cells mine, copy, which is the same, and other. */
extern char folder[64];
int  folder_make(void);
int  folder_remove(void);

/* 0: the variant is none of the op's.  with: of a backward, with the reserve of its forward. */
int  example_make(struct example *, const char *op, const struct variant *, int with, struct cg_context *);
void example_free(struct example *);
/* NULL: it is not there. */
struct word *example_word(struct example *, const char *name);
const char *word_value(const struct word *);
struct word *example_add(struct example *, const char *text, int attribute);
/* Every tensor and every word to one file, or to some; the words of a digest to the same. */
void example_deal(struct example *, unsigned seed, int some);
void example_write(const struct example *);

struct outcome { int code; uint64_t answers, metadata; char facts[FACTS]; };

/* The call on these files, by their numbers; words end with NULL.  Facts are the words of the message, sorted. */
void example_run(const char *op, const char *const *words, const int *order, int n, struct cg_context *, struct outcome *);
/* All of it in one file, and what the op has attributes for as NAME=VALUE, but for metadata. */
void example_plain(struct example *, struct cg_context *, struct outcome *);

#endif
