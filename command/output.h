/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints for the command: names from files, their control characters escaped, shapes, tables, colour on a terminal, lines of JSON.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

/* Writes a name for a message: its control characters are escaped, and a long name is cut. */
enum { PRINT_NAME = 80 };
const char *print_name(char shown[PRINT_NAME], const char *name);

/* Prints a message of the library that may contain a text from a file: control characters except newline and tab are escaped. */
void print_plain(FILE *, const char *text);

/* Prints any bytes as a JSON string; each byte that is not UTF-8 becomes U+FFFD. Allocates no memory. */
void print_quoted(FILE *, const char *text);

/* "[3, 7]" */
enum { PRINT_SHAPE = 192 };
const char *print_shape(char shown[PRINT_SHAPE], const int64_t *shape, int rank);

/* The escape sequences that begin and end a colour where the output is a terminal with colour and NO_COLOR is unset; else each is "". */
struct print_colour { const char *good, *bad, *strong, *faint, *off; };
struct print_colour print_colours(FILE *);

/* A table in which a column is as wide as its widest cell. columns: a letter for each column, l or r for left or right. If there is
 * no memory for a cell, `failed` is set until print_all_rows returns CG_NO_MEMORY. */
struct print_table {
	const char *columns;
	char **cells;
	size_t n, capacity;
	int failed;
};
void print_cell(struct print_table *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a row of cells to the table; the list of cells ends with NULL. */
void print_row(struct print_table *, ...) __attribute__((sentinel));
/* Prints the rows of the table, each after the indent, and frees them. Returns CG_OK or CG_NO_MEMORY. */
int  print_all_rows(struct print_table *, const char *indent);

/* Makes jansson allocate by cg_memory and counts the requests that failed. jansson, the JSON library, ignores some failed requests, and
 * would continue with half a string or crash; so a failed request is repeated with malloc, and the caller gives up after jansson has
 * returned. */
void     print_json_memory(void);
unsigned print_json_lost(void);

/* Prints a long text to standard output. */
void print_text(const char *);
/* The errno of a failed write by print_text, print_all_rows or print_json; 0 where none is known. */
int  print_trouble(void);

/* Prints one JSON object on a line and frees the object; CG_NO_MEMORY if the object is NULL or an allocation by jansson failed before. */
int     print_json(json_t *object);
/* A JSON string of a text; if any part of the text is not UTF-8, every byte of the text that is not ASCII becomes "?". */
json_t *print_string(const char *);
/* A JSON number, or "nan", "inf", "-inf", for which JSON has no numbers. */
json_t *print_number(double);
json_t *print_numbers(const int64_t *, int n);

#endif
