/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a text into symbols, divides it into parts, and counts its pairs of characters. Symbols are numbered in the order of their
 * characters.
 */
#include <math.h>
#include <string.h>

#include "command/demo/text.h"
#include "runtime/device/inspect.h"

static int allowed(unsigned char c)
{
	return c == '\n' || (c >= ' ' && c <= '~');
}

int text_open(struct text *t, const char *characters)
{
	int number[256] = { 0 };

	memset(t, 0, sizeof *t);
	t->n = strlen(characters);
	t->held_out = t->n / 10;
	for (size_t k = 0; k < t->n; k++) {
		if (!allowed((unsigned char)characters[k]))
			return cg_fail(CG_BAD_ARGUMENT, "text: character %zu: expected printable ASCII or a line's end, got byte %d", k,
			               (unsigned char)characters[k]);
		number[(unsigned char)characters[k]] = 1;
	}
	for (int c = 0; c < 256; c++)
		if (number[c]) {
			t->letter[t->symbols] = (char)c;
			number[c] = t->symbols++;
		}
	t->symbol = cg_memory(NULL, t->n + 1);
	if (!t->symbol)
		return CG_NO_MEMORY;
	for (size_t k = 0; k < t->n; k++)
		t->symbol[k] = (unsigned char)number[(unsigned char)characters[k]];
	return CG_OK;
}

void text_close(struct text *t)
{
	cg_memory(t->symbol, 0);
	memset(t, 0, sizeof *t);
}

int text_symbol(const struct text *t, char letter)
{
	const char *at = memchr(t->letter, letter, (size_t)t->symbols);

	return at ? (int)(at - t->letter) : -1;
}

struct text_part text_to_learn(const struct text *t)
{
	return (struct text_part){ 0, t->n - t->held_out };
}

struct text_part text_held_out(const struct text *t)
{
	return (struct text_part){ t->n - t->held_out, t->held_out };
}

void text_rows(struct text_part part, int rows, int round, struct text_row *row)
{
	size_t n = part.n ? part.n - 1 : 0;              /* the last character of a part has no next one in that part */

	for (int r = 0; r < rows; r++) {
		size_t at = part.first + n * (size_t)r / (size_t)rows, end = part.first + n * (size_t)(r + 1) / (size_t)rows;

		row[r] = round ? (struct text_row){ at, part.first + n, part.first } : (struct text_row){ at, end, end };
	}
}

/* The number of characters from the row's `at` to the end of that line and of the blank lines after it, at most `most`;
 * the end is not beyond the end of the row. */
static int line_length(const struct text *t, struct text_row row, int most)
{
	size_t at = row.at;

	while (at < row.end && t->letter[t->symbol[at]] != '\n')
		at++;
	while (at < row.end && t->letter[t->symbol[at]] == '\n')
		at++;
	return at - row.at < (size_t)most ? (int)(at - row.at) : most;
}

int text_next_batch(const struct text *t, struct text_row *row, int rows, int steps, int32_t *lengths, int *symbols, int *next)
{
	int longest = 0;

	for (int r = 0; r < rows; r++) {
		const unsigned char *at = t->symbol + row[r].at;

		lengths[r] = line_length(t, row[r], steps);
		for (int s = 0; s < lengths[r]; s++) {
			symbols[s * rows + r] = at[s];
			next[s * rows + r] = at[s + 1];
		}
		row[r].at += (size_t)lengths[r];
		if (row[r].at == row[r].end)
			row[r].at = row[r].again;
		longest = longest < lengths[r] ? lengths[r] : longest;
	}
	return longest;
}

/* ---- pairs ---- */

struct pairs {
	unsigned of[TEXT_SYMBOLS][TEXT_SYMBOLS];     /* of[a][b]: how often character b follows character a */
	unsigned before[TEXT_SYMBOLS];               /* before[a]: the number of pairs with first character a */
	unsigned kinds[TEXT_SYMBOLS];                /* kinds[a]: the number of distinct pairs with first character a */
	unsigned after[TEXT_SYMBOLS], all;
};

static void count(const struct text *t, struct text_part part, struct pairs *p)
{
	const unsigned char *at = t->symbol + part.first;

	memset(p, 0, sizeof *p);
	for (size_t k = 0; k + 1 < part.n; k++) {
		p->kinds[at[k]] += !p->of[at[k]][at[k + 1]]++;
		p->before[at[k]]++;
		p->after[at[k + 1]]++;
		p->all++;
	}
}

double text_pair_entropy(const struct text *t)
{
	struct pairs p;
	double bits = 0;

	count(t, (struct text_part){ 0, t->n }, &p);
	for (int a = 0; a < t->symbols; a++)
		for (int b = 0; b < t->symbols; b++)
			if (p.of[a][b])
				bits -= p.of[a][b] * log2((double)p.of[a][b] / p.before[a]);
	return p.all ? bits / p.all : 0;
}

double text_pair_loss(const struct text *t)
{
	struct text_part part = text_held_out(t);
	struct pairs p;
	double bits = 0;

	count(t, text_to_learn(t), &p);
	for (size_t k = part.first; k < part.first + part.n; k++) {
		int a = t->symbol[k - 1], b = t->symbol[k];
		double alone = (p.after[b] + 1.0) / (p.all + t->symbols);

		/* A character that was never the first of a pair says nothing about the next character. */
		bits -= log2(p.before[a] ? (p.of[a][b] + p.kinds[a] * alone) / (p.before[a] + p.kinds[a]) : alone);
	}
	return part.n ? bits / (double)part.n : 0;
}
