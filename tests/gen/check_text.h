/* SPDX-License-Identifier: Apache-2.0 */
/* A check that every printed kernel text of matrix products or of rows must pass. */
#ifndef TESTS_GEN_CHECK_TEXT_H
#define TESTS_GEN_CHECK_TEXT_H

#include "tests/gen/every.h"

enum { COLUMNS = 120, TAB = 4 };

/* Expects that a text begins with a comment that names its key, and has a function of that name; that no line has more than 120 columns
   or blanks at its end; and that no hole (@) of a template is left. Frees the text. */
static inline void check_text(struct cg_text text, const char *key)
{
	char want[CG_KEY_MAX + 20];
	int column = 0, braces = 0;

	snprintf(want, sizeof want, "/* %s: ", key);
	assert_memory_equal(text.at, want, strlen(want));
	snprintf(want, sizeof want, "void %s(\n", key);
	assert_non_null(strstr(text.at, want));
	for (const char *c = text.at; *c; c++) {
		column = *c == '\n' ? 0 : *c == '\t' ? (column + TAB) / TAB * TAB : column + 1;
		braces += (*c == '{') - (*c == '}');
		if (*c == '@' || column > COLUMNS || (*c == '\n' && (c[-1] == ' ' || c[-1] == '\t')) || !strncmp(c, "\n\n\n", 3))
			fail_msg("%s: a hole, or a line too long, or blanks at: %.60s", key, c > text.at + 40 ? c - 40 : c);
	}
	assert_int_equal(braces, 0);
	assert_int_equal(text.at[text.length - 1], '\n');
	assert_int_not_equal(text.at[text.length - 2], '\n');
	resize(text.at, 0);
}

#endif
