/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the name of a list that is nearest to a misspelt one, and writes lists of names, for the messages of the generator, the library
 * and the command.
 */
#include "cell.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 63 };                   /* a name of more letters than this is not compared */

static int lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/* The least number of edits that turn a into b: a letter is inserted, dropped, replaced or exchanged with its neighbour.  Case is
 * ignored. */
static int distance(const char *a, int m, const char *b, int n)
{
	int rows[3][LONGEST + 1];
	int *older = rows[0], *old = rows[1], *now = rows[2], *spare;
	int i, j;

	for (j = 0; j <= n; j++)
		now[j] = j;
	for (i = 1; i <= m; i++) {
		spare = older;
		older = old;
		old = now;
		now = spare;
		now[0] = i;
		for (j = 1; j <= n; j++) {
			int best = old[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));

			if (best > old[j] + 1)
				best = old[j] + 1;
			if (best > now[j - 1] + 1)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])
			    && best > older[j - 2] + 1)
				best = older[j - 2] + 1;
			now[j] = best;
		}
	}
	return now[n];
}

/* A name of the list is near if at most a third of the letters of the longer of the two names are wrong.  Of two equally near names the
 * longer one is returned, since more of its letters were typed right. */
const char *cg_nearest(const char *name, const char *const *names, int n)
{
	const char *nearest = NULL;
	int least = LONGEST, best = 0, length, i;

	if (strlen(name) > LONGEST)
		return NULL;
	length = (int)strlen(name);
	for (i = 0; i < n; i++) {
		int other, d;

		if (strlen(names[i]) > LONGEST)
			continue;
		other = (int)strlen(names[i]);
		d = distance(name, length, names[i], other);
		if (3 * d <= (length > other ? length : other) && (d < least || (d == least && other > best))) {
			least = d;
			best = other;
			nearest = names[i];
		}
	}
	return nearest;
}

const char *cg_list_names(char *text, size_t capacity, const char *const *names, int n, const char *word)
{
	size_t used = 0;

	text[0] = 0;
	for (int k = 0; k < n && used < capacity; k++) {
		used += (size_t)snprintf(text + used, capacity - used, "%s%s", names[k], k < n - 2 ? ", " : "");
		if (k == n - 2 && used < capacity)
			used += (size_t)snprintf(text + used, capacity - used, " %s ", word);
	}
	return text;
}
