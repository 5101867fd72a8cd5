/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text as symbols: the characters it has, numbered; a part to learn from and a part held out; what tables of pairs of
 * characters make of it.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { TEXT_SYMBOLS = 96 };              /* a line's end and what ASCII can print */

struct text {
	unsigned char *symbol;           /* [n] */
	size_t n, held_out;              /* the first `n - held_out` are to learn from */
	int    symbols;
	char   letter[TEXT_SYMBOLS];
};

/* The last tenth is held out.  CG_BAD_ARGUMENT: a character that is none of TEXT_SYMBOLS. */
int  text_open(struct text *, const char *characters);
void text_close(struct text *);
int  text_symbol(const struct text *, char letter);

struct text_part { size_t first, n; };
struct text_part text_to_learn(const struct text *), text_held_out(const struct text *);

/* A part is read by rows that follow one another in it, each line by line, up to where the next one began; or, where they go
 * round, up to the part's end and again from its beginning. */
struct text_row { size_t at, end, again; };              /* again: where it goes on; end: nowhere */
void text_rows(struct text_part, int rows, int round, struct text_row *row);
/* The next line of each row, with the blank ones after it, `steps` characters of it at most: symbols [T rows] and those after
 * them, of which row r has lengths[r]; 0 where it is at its end.  Returns T, the longest length. */
int  text_next_batch(const struct text *, struct text_row *row, int rows, int steps, int32_t *lengths, int *symbols, int *next);

/* Bits a character: the entropy of a character given the one before, as counted in the whole text; and what a table of
 * pairs counted in the part to learn from, smoothed by Witten and Bell's rule, loses on the part held out. */
double text_pair_entropy(const struct text *);
double text_pair_loss(const struct text *);

#endif
