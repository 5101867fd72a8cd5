/*
 * A text as symbols: the characters it has, numbered; a part to learn from and a part held out; what tables of pairs of
 * characters make of it.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>

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

/* Reads a part as `rows` rows that follow one another: symbols [steps rows] of piece k of each row, and those after them.
 * 0: there is no such piece. */
struct text_part { size_t first, n; };
struct text_part text_to_learn(const struct text *), text_held_out(const struct text *);
int  text_piece(const struct text *, struct text_part, int k, int rows, int steps, int *symbols, int *next);

/* Bits a character: the entropy of a character given the one before, as counted in the whole text; and what a table of
 * pairs counted in the part to learn from, smoothed by Witten and Bell's rule, loses on the part held out. */
double text_pair_entropy(const struct text *);
double text_pair_loss(const struct text *);

#endif
