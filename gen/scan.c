/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans a .cell: reads names, numbers and signs one after the other, and reports the first mistake with its place and what was
 * expected.
 */
#include "parse.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Is the byte a later byte of a UTF-8 character? control(): could a terminal obey the byte as a control character? */
static int inside(char c)
{
	return (c & 0xc0) == 0x80;
}

static int control(unsigned char c)
{
	return c < ' ' || c == 0x7f;
}

void cg_mistake_at(struct cg_mistake *mistake, const struct cg_cell *cell, const char *position, const char *message)
{
	char quoted[121], pad[121];
	const char *line = position;
	int number = 1, length, n = 0;

	while (line > cell->text && line[-1] != '\n')
		line--;
	for (const char *s = cell->text; s < line; s++)
		number += *s == '\n';
	for (int k = 0; k < position - line && k < 110; k++)
		if (!inside(line[k]))
			pad[n++] = line[k] == '\t' ? '\t' : ' ';
	pad[n] = 0;
	length = (int)strcspn(line, "\r\n");
	for (n = 0; n < length && n < 120; n++)
		quoted[n] = control(line[n]) && line[n] != '\t' ? '?' : line[n];
	while (n < length && n && inside(line[n]))
		n--;
	quoted[n] = 0;
	snprintf(mistake->text, sizeof mistake->text, "%s:%d:%d: %s\n%s\n%s^", cell->file, number, (int)(position - line) + 1, message,
	         quoted, pad);
}

int cg_parse_wrong(struct parser *p, const char *position, const char *format, ...)
{
	char message[320];
	va_list list;

	va_start(list, format);
	vsnprintf(message, sizeof message, format, list);
	va_end(list);
	if (!p->mistake->text[0])
		cg_mistake_at(p->mistake, p->cell, p->form.position ? p->form.position : position, message);
	return -1;
}

int cg_parse_expected(struct parser *p, const char *what)
{
	int n = 1;

	if (!*p->at || *p->at == '\n')
		return cg_parse_wrong(p, p->at, "expected %s", what);
	if (!strncmp(p->at, "\xef\xbb\xbf", 3))
		return cg_parse_wrong(p, p->at, "expected %s, got a byte order mark: save the file as UTF-8 without one", what);
	if (control(*p->at))
		return cg_parse_wrong(p, p->at, "expected %s, got a byte 0x%02x", what, (unsigned)*p->at);
	while (n < 4 && inside(p->at[n]))
		n++;
	return cg_parse_wrong(p, p->at, "expected %s, got '%.*s'", what, n, p->at);
}

void cg_parse_skip(struct parser *p)
{
	for (;;) {
		while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')
			p->at++;
		if (*p->at == '#')
			p->at += strcspn(p->at, "\n");
		if (*p->at != '\n' || !p->depth)
			return;
		p->at++;                          /* an expression in parentheses may go on in the next line */
	}
}

/* Is the parser at a comma behind a word, as in the list "c, n"? */
static int is_at_comma(const struct parser *p)
{
	const char *text = p->cell->text, *end = p->at;

	if (*p->at != ',' || p->depth || p->form.position)
		return 0;
	while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return end > text && (cg_is_letter(end[-1]) || cg_is_digit(end[-1]) || end[-1] == '_');
}

int cg_parse_word(struct parser *p, char name[CG_NAME_MAX + 1], const char *what)
{
	size_t n = 0;

	cg_parse_skip(p);
	if (is_at_comma(p))
		return cg_parse_wrong(p, p->at, "expected %s, got ',': names are separated by spaces", what);
	if (!cg_is_letter(*p->at))
		return cg_parse_expected(p, what);
	while (cg_is_letter(p->at[n]) || cg_is_digit(p->at[n]) || p->at[n] == '_')
		n++;
	if (n > CG_NAME_MAX)
		return cg_parse_wrong(p, p->at, "a name has at most %d characters, this one %d", CG_NAME_MAX, n < 9999 ? (int)n : 9999);
	memcpy(name, p->at, n);
	name[n] = 0;
	p->at += n;
	return 0;
}

int cg_parse_line_end(struct parser *p)
{
	cg_parse_skip(p);
	return !*p->at || *p->at == '\n';
}

int cg_parse_number(struct parser *p, long double *value)
{
	const char *start = p->at;
	long double v = 0;
	int scale = 0, digits = 0, exponent = 0, minus = 0;

	for (; cg_is_digit(*p->at); p->at++, digits++)
		v = v * 10 + (*p->at - '0');
	if (*p->at == '.')
		for (p->at++; cg_is_digit(*p->at); p->at++, digits++, scale--)
			v = v * 10 + (*p->at - '0');
	if (!digits)
		return cg_parse_wrong(p, start, "expected a number");
	if (*p->at == 'e' || *p->at == 'E') {
		p->at++;
		if (*p->at == '-' || *p->at == '+')
			minus = *p->at++ == '-';
		if (!cg_is_digit(*p->at))
			return cg_parse_wrong(p, p->at, "expected the digits of an exponent");
		for (; cg_is_digit(*p->at); p->at++)
			exponent = exponent < 10000 ? exponent * 10 + (*p->at - '0') : exponent;
	}
	if (cg_is_letter(*p->at) || *p->at == '_' || *p->at == '.')
		return cg_parse_wrong(p, p->at, "expected an operator after the number");
	scale += minus ? -exponent : exponent;
	v = scale < 0 ? v / powl(10, -scale) : v * powl(10, scale);
	if (digits > 40 || !(v < 1e38L))
		return cg_parse_wrong(p, start, "a number has at most 40 digits and is below 1e38");
	*value = v;
	return 0;
}

int cg_parse_expect(struct parser *p, char c, const char *after)
{
	cg_parse_skip(p);
	if (*p->at != c)
		return cg_parse_wrong(p, p->at, "expected '%c' after %s", c, after);
	p->at++;
	return 0;
}
