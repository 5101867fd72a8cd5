/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text as symbols: its distinct characters, numbered; a part for training and a part held out; statistics of pairs of characters.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { TEXT_SYMBOLS = 96 };              /* a line's end and the printable ASCII characters */

struct text {
	unsigned char *symbol;           /* [n] */
	size_t n, held_out;              /* the first `n - held_out` symbols are for training */
	int    symbols;
	char   letter[TEXT_SYMBOLS];
};

/* Holds out the last tenth. CG_BAD_ARGUMENT: a character that is not among TEXT_SYMBOLS. */
int  text_open(struct text *, const char *characters);
void text_close(struct text *);
int  text_symbol(const struct text *, char letter);

struct text_part { size_t first, n; };
struct text_part text_to_learn(const struct text *), text_held_out(const struct text *);

/* Rows divide a part of the text among them: each reads line by line up to the start of the next row; or, where rows go round, to
 * the part's end and then from its beginning. */
struct text_row { size_t at, end, again; };              /* at `end` the row continues at `again`, or, where that is `end`, stops */
void text_rows(struct text_part, int rows, int round, struct text_row *row);
/* The next line of each row with the blank lines after it, at most `steps` characters: symbols [T rows], the symbols after each,
 * and lengths[r], 0 where row r is at its end. Returns T, the longest length. */
int  text_next_batch(const struct text *, struct text_row *row, int rows, int steps, int32_t *lengths, int *symbols, int *next);

/* Bits for each character: the entropy of a character given the one before, counted in the whole text; and the loss on the held-out
 * part of a table of pairs that is counted in the training part and smoothed by Witten and Bell's rule. */
double text_pair_entropy(const struct text *);
double text_pair_loss(const struct text *);

#endif
