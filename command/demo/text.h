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

/* Opens a text, whose last tenth is held out. CG_BAD_ARGUMENT: the text has a character that is neither a line's end nor printable
 * ASCII. */
int  text_open(struct text *, const char *characters);
void text_close(struct text *);
int  text_symbol(const struct text *, char letter);

struct text_part { size_t first, n; };
struct text_part text_to_learn(const struct text *), text_held_out(const struct text *);

/* The rows of a batch divide a part of the text among them. Each row reads line by line up to the start of the next row; or, where rows
 * go round, to the end of the part, and then from the beginning of the part. */
struct text_row { size_t at, end, again; };              /* at `end` the row continues at `again`; again = end: the row stops */
void text_rows(struct text_part, int rows, int round, struct text_row *row);
/* Reads the next line of each row with the blank lines after it, at most `steps` characters, into symbols [T rows]. next: for each symbol
 * the symbol that follows it; lengths[r]: the symbols of row r, 0 where the row is at its end. Returns T, the longest of the lengths. */
int  text_next_batch(const struct text *, struct text_row *row, int rows, int steps, int32_t *lengths, int *symbols, int *next);

/* Both results are bits for each character. text_pair_entropy: the entropy of a character given the character before it, counted in the
 * whole text. text_pair_loss: the loss, on the held-out part, of a table of pairs that is counted in the training part and smoothed by
 * Witten and Bell's rule. */
double text_pair_entropy(const struct text *);
double text_pair_loss(const struct text *);

#endif
