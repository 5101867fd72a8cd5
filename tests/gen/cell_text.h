/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the language accepts a cell's text, or refuses it with the right message. */
#ifndef TESTS_GEN_CELL_TEXT_H
#define TESTS_GEN_CELL_TEXT_H

#include "tests/gen/every.h"

/* The first lines of most texts. */
#define HEAD "cell x\ngates a b\noutput h\n"

/* Prints an error as it is expected: "x.cell:" and the message, the quoted line, and the caret under the column. */
static inline void print_mistake(char *to, size_t size, const char *text, const char *message)
{
	int number, column;

	assert_int_equal(sscanf(message, "%d:%d:", &number, &column), 2);
	while (--number)
		text = strchr(text, '\n') + 1;
	snprintf(to, size, "x.cell:%s\n%.*s\n%*s", message, (int)strcspn(text, "\r\n"), text, column, "^");
}

static inline void refused(const char *text, const char *want)
{
	struct cg_mistake mistake = { "left over" };

	assert_null(cg_parse(text, "x.cell", resize, &mistake));
	assert_string_equal(mistake.text, want);
	assert_int_equal(memory.live, 0);
}

static inline void accepted(const char *text)
{
	struct cg_mistake mistake = { "left over" };
	struct cg_cell *cell = cg_parse(text, "x.cell", resize, &mistake);

	assert_string_equal(mistake.text, "");
	assert_non_null(cell);
	assert_string_equal(cell->text, text);
	cg_parse_free(cell);
	assert_int_equal(memory.live, 0);
}

#endif
