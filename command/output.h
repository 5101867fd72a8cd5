/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints for the command: names from files without control characters, shapes, tables, colour on a terminal, JSON lines.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

/* A name for a message: control characters escaped, cut to fit. */
enum { PRINT_NAME = 80 };
const char *print_name(char shown[PRINT_NAME], const char *name);

/* Text of ours with what others gave in it: control characters but newline and tab escaped. */
void print_plain(FILE *, const char *text);

/* Text as a JSON string, whatever its bytes: of what is no UTF-8 each byte is U+FFFD.  Needs no memory. */
void print_quoted(FILE *, const char *text);

/* "[3, 7]" */
enum { PRINT_SHAPE = 192 };
const char *print_shape(char shown[PRINT_SHAPE], const int64_t *shape, int rank);

/* Escape sequences when the file is a terminal with colour, else "". */
struct print_colour { const char *good, *bad, *strong, *faint, *off; };
struct print_colour print_colours(FILE *);

/* Columns as wide as their widest cell.  columns: a letter for each, l or r; a failure is kept until the end. */
struct print_table {
	const char *columns;
	char **cells;
	size_t n, capacity;
	int failed;
};
void print_cell(struct print_table *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Cells as they are; the list ends with NULL. */
void print_row(struct print_table *, ...) __attribute__((sentinel));
/* Prints the rows, each after the indent, and frees them; CG_NO_MEMORY. */
int  print_all_rows(struct print_table *, const char *indent);

/* Gives jansson our memory, and counts the requests that were refused: jansson overlooks some, and would go on with half a
 * string or fall over, so what was refused is asked of malloc once more, and the caller gives up when jansson is done. */
void     print_json_memory(void);
unsigned print_json_lost(void);

/* A long text on standard output. */
void print_text(const char *);
/* Why standard output was not written by print_text, print_all_rows or print_json: an errno, 0 where nothing is known. */
int  print_trouble(void);

/* One object on a line of its own, then gone; CG_NO_MEMORY when it is NULL. */
int     print_json(json_t *object);
/* A string; where its bytes are no UTF-8, ? in place of those that are not ASCII. */
json_t *print_string(const char *);
/* A number, or "nan", "inf", "-inf", which JSON has no numbers for. */
json_t *print_number(double);
json_t *print_numbers(const int64_t *, int n);

#endif
