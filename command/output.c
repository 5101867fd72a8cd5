/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints names, shapes, tables and lines of JSON for the command.  The caller chooses what is printed.  Tables and JSON go to standard
 * output.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/output.h"
#include "runtime/device/inspect.h"

/* The length in bytes of the control character that begins at `at`; 0 if none begins there. Terminals also obey the control characters
 * U+0080 to U+009F, which are C2 80 to C2 9F in UTF-8. */
static int control(const char *at)
{
	unsigned char c = (unsigned char)at[0], next = c ? (unsigned char)at[1] : 0;

	if (c == 0xc2 && next >= 0x80 && next < 0xa0)
		return 2;
	return c < 0x20 || c == 0x7f;
}

const char *print_name(char shown[PRINT_NAME], const char *name)
{
	size_t n = 0, end = 0;                   /* end: the place in `shown` where the last whole character ends */

	while (*name && n < PRINT_NAME - 12) {
		int bad = control(name);

		if (((unsigned char)*name & 0xc0) != 0x80)
			end = n;
		for (int k = 0; k < bad; k++)
			n += (size_t)snprintf(shown + n, 5, "\\x%02x", (unsigned char)*name++);
		if (!bad)
			shown[n++] = *name++;
	}
	strcpy(*name ? shown + end : shown + n, *name ? "..." : "");
	return shown;
}

void print_plain(FILE *f, const char *text)
{
	while (*text) {
		int bad = *text == '\n' || *text == '\t' ? 0 : control(text);

		for (int k = 0; k < bad; k++)
			fprintf(f, "\\x%02x", (unsigned char)*text++);
		if (!bad)
			fputc(*text++, f);
	}
}

/* The length in bytes of the UTF-8 character that begins at `at`; 0 if none begins there. */
static int character(const unsigned char *at)
{
	int n = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;

	for (int k = 1; k < n; k++)
		if ((at[k] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates and values above U+10FFFF are not UTF-8. */
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
	    (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	return n;
}

void print_quoted(FILE *f, const char *text)
{
	fputc('"', f);
	while (*text) {
		int n = character((const unsigned char *)text), bad = control(text);

		if (!n)
			fputs("\\ufffd", f);
		else if (bad)
			fprintf(f, "\\u%04x", (unsigned char)text[bad - 1]);
		else
			fprintf(f, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", n, text);
		text += n ? n : 1;
	}
	fputc('"', f);
}

const char *print_shape(char shown[PRINT_SHAPE], const int64_t *shape, int rank)
{
	size_t n = 0;

	shown[n++] = '[';
	for (int k = 0; k < rank; k++)
		n += (size_t)snprintf(shown + n, PRINT_SHAPE - n, "%s%lld", k ? ", " : "", (long long)shape[k]);
	strcpy(shown + n, "]");
	return shown;
}

struct print_colour print_colours(FILE *f)
{
	static const struct print_colour plain = { "", "", "", "", "" };
	static const struct print_colour ansi = { "\033[32m", "\033[1;31m", "\033[1m", "\033[2m", "\033[0m" };
	const char *term = cg_variable_get(CG_ENV_TERM);

	if (cg_variable_get(CG_ENV_NO_COLOR) || !term || !strcmp(term, "dumb") || !isatty(fileno(f)))
		return plain;
	return ansi;
}

/* ---- standard output, and why a write failed ---- */

static int trouble;

/* Records why a write to standard output failed; the functions below call keep_trouble() after a write, before errno changes. */
static void keep_trouble(void)
{
	if (!trouble && ferror(stdout))
		trouble = errno;
}

int print_trouble(void)
{
	return trouble;
}

void print_text(const char *text)
{
	errno = 0;
	fputs(text, stdout);
	keep_trouble();
}

void print_cell(struct print_table *t, const char *format, ...)
{
	va_list list;
	char *cell;
	int length;

	va_start(list, format);
	length = vsnprintf(NULL, 0, format, list);
	va_end(list);
	if (t->n == t->capacity) {
		size_t capacity = t->capacity ? 2 * t->capacity : 64;
		char **cells = cg_memory(t->cells, capacity * sizeof *cells);

		if (!cells) {
			t->failed = 1;
			return;
		}
		t->cells = cells;
		t->capacity = capacity;
	}
	cell = cg_memory(NULL, (size_t)length + 1);
	if (!cell) {
		t->failed = 1;
		return;
	}
	va_start(list, format);
	vsnprintf(cell, (size_t)length + 1, format, list);
	va_end(list);
	t->cells[t->n++] = cell;
}

void print_row(struct print_table *t, ...)
{
	va_list list;
	const char *cell;

	va_start(list, t);
	while ((cell = va_arg(list, const char *)))
		print_cell(t, "%s", cell);
	va_end(list);
}

/* The width of a table's cell on the screen: the number of bytes that begin a UTF-8 character. */
static int width(const char *cell)
{
	int n = 0;

	for (; *cell; cell++)
		n += ((unsigned char)*cell & 0xc0) != 0x80;
	return n;
}

int print_all_rows(struct print_table *t, const char *indent)
{
	size_t columns = strlen(t->columns);

	errno = 0;
	for (size_t k = 0; k < t->n && !t->failed; k++) {
		size_t column = k % columns;
		int widest = 0, pad;

		for (size_t other = column; other < t->n; other += columns)
			if (width(t->cells[other]) > widest)
				widest = width(t->cells[other]);
		pad = widest - width(t->cells[k]);
		if (!column)
			fputs(indent, stdout);
		if (t->columns[column] == 'r')
			printf("%*s%s", pad, "", t->cells[k]);
		else if (column + 1 < columns)
			printf("%s%*s", t->cells[k], pad, "");
		else
			fputs(t->cells[k], stdout);
		fputs(column + 1 < columns ? "  " : "\n", stdout);
	}
	keep_trouble();
	for (size_t k = 0; k < t->n; k++)
		cg_memory(t->cells[k], 0);
	cg_memory(t->cells, 0);
	t->cells = NULL;
	t->n = t->capacity = 0;
	return t->failed ? CG_NO_MEMORY : CG_OK;
}

static unsigned lost;

static void *json_take(size_t bytes)
{
	void *p = cg_memory(NULL, bytes);

	if (!p) {
		lost++;
		p = malloc(bytes);
	}
	return p;
}

static void json_give(void *p)
{
	cg_memory(p, 0);
}

void print_json_memory(void)
{
	lost = 0;
	json_set_alloc_funcs(json_take, json_give);
}

unsigned print_json_lost(void)
{
	return lost;
}

int print_json(json_t *object)
{
	int code;

	errno = 0;
	code = object && !lost ? json_dumpf(object, stdout, JSON_COMPACT) : -1;
	if (object && !lost)
		putchar('\n');
	keep_trouble();
	json_decref(object);
	if (code && !ferror(stdout))
		return cg_fail(CG_NO_MEMORY, "no memory to print JSON");
	return CG_OK;
}

json_t *print_string(const char *text)
{
	json_t *string = json_string(text);
	char *plain = string ? NULL : cg_memory(NULL, strlen(text) + 1);

	if (!plain)
		return string;
	for (size_t k = 0; k <= strlen(text); k++)
		plain[k] = (char)((unsigned char)text[k] < 0x80 ? text[k] : '?');
	string = json_string(plain);
	cg_memory(plain, 0);
	return string;
}

json_t *print_number(double value)
{
	if (isnan(value))
		return json_string("nan");
	if (isinf(value))
		return json_string(value < 0 ? "-inf" : "inf");
	return json_real(value);
}

json_t *print_numbers(const int64_t *numbers, int n)
{
	json_t *list = json_array();

	for (int k = 0; k < n && list; k++)
		if (json_array_append_new(list, json_integer(numbers[k]))) {
			json_decref(list);
			list = NULL;
		}
	return list;
}
