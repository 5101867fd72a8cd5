/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the sections of template files, which are embedded in the library, and fills their holes.  A hole is a name between two @.
 */
#include "cell.h"

#include <string.h>

/* Is the word in a list that blanks separate? */
static int listed(const char *list, size_t length, const char *word)
{
	size_t n = strlen(word);

	for (size_t k = 0; k + n <= length; k++)
		if (!memcmp(list + k, word, n) && (!k || list[k - 1] == ' ') && (k + n == length || list[k + n] == ' '))
			return 1;
	return 0;
}

int cg_section_find(const char *file, const char *name, const char *qualifier, struct cg_section *section)
{
	const struct cg_embedded *e = cg_embedded;
	const char *at;
	size_t n = strlen(name);

	while (e->name && strcmp(e->name, file))
		e++;
	for (at = e->text; at; at = strstr(at, "\n@@ ") ? strstr(at, "\n@@ ") + 1 : NULL) {
		size_t head = strcspn(at, "\n");
		const char *end;

		if (strncmp(at, "@@ ", 3) || strncmp(at + 3, name, n) || (at[3 + n] != ' ' && at[3 + n] != '\n'))
			continue;
		if (at[3 + n] == ' ' && !(qualifier && listed(at + 4 + n, head - 4 - n, qualifier)))
			continue;
		at += head + 1;
		*section = (struct cg_section){ at, 0, "", 0 };
		if (!strncmp(at, "@needs ", 7)) {
			section->needs = at + 7;
			section->needs_length = strcspn(at + 7, "\n");
			section->at = at += 7 + section->needs_length + 1;
		}
		end = strncmp(at, "@@ ", 3) ? strstr(at, "\n@@ ") : at - 1;
		section->length = end ? (size_t)(end + 1 - at) : strlen(at);
		return 0;
	}
	return -1;
}

static const char *find_hole(const char *const *holes, const char *name, size_t n)
{
	for (; *holes; holes += 2)
		if (strlen(holes[0]) == n && !memcmp(holes[0], name, n))
			return holes[1];
	return NULL;
}

/* Appends the text s, and indents its later lines as its first line is indented. */
static void put_indented(struct cg_text *text, const char *s, const char *indent, size_t n)
{
	for (;;) {
		size_t length = strcspn(s, "\n");

		cg_text_put_n(text, s, length);
		if (!s[length] || !s[length + 1])
			return;
		cg_text_put(text, "\n");
		s += length + 1;
		if (*s != '\n')
			cg_text_put_n(text, indent, n);
	}
}

void cg_fill(struct cg_text *text, const char *form, size_t length, const char *const *holes)
{
	const char *end = form + length, *line = form;

	for (const char *at = form; at < end; at++) {
		const char *close = *at == '@' ? memchr(at + 1, '@', (size_t)(end - at - 1)) : NULL;
		const char *word = close ? find_hole(holes, at + 1, (size_t)(close - at - 1)) : NULL;

		if (word) {
			size_t indent = 0;

			while (line + indent < at && line[indent] == '\t')
				indent++;
			if (!*word && line + indent == at && close + 1 < end && close[1] == '\n') {
				text->length -= text->failed ? 0 : indent;
				at = close + 1;
				line = at + 1;
				continue;
			}
			put_indented(text, word, line, indent);
			at = close;
			continue;
		}
		/* A hole with an empty text must not leave two blank lines in a row. */
		if (*at != '\n' || text->failed || text->length < 2 || memcmp(text->at + text->length - 2, "\n\n", 2))
			cg_text_put_n(text, at, 1);
		if (*at == '\n')
			line = at + 1;
	}
}
