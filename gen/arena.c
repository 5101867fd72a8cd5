/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the compiler: an arena, whose blocks are freed together, and growing text.  The arena and the text both record a failed
 * allocation, so that a pass checks once, at its end.  The caller gives the function that allocates.
 */
#include "cell.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct cg_chunk {
	struct cg_chunk *next;
	size_t used, capacity;
};

enum { CHUNK = 1 << 14, ALIGN = 16 };

/* The bytes of a chunk's header, rounded up so that the blocks behind the header are aligned. */
static size_t head(void)
{
	return (sizeof(struct cg_chunk) + ALIGN - 1) / ALIGN * ALIGN;
}

void *cg_arena_alloc(struct cg_arena *arena, size_t bytes)
{
	struct cg_chunk *chunk = arena->chunks;
	char *at;

	if (arena->failed || bytes > SIZE_MAX / 4) {
		arena->failed = 1;
		return NULL;
	}
	bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
	if (!chunk || chunk->capacity - chunk->used < bytes) {
		size_t capacity = bytes > CHUNK ? bytes : CHUNK;

		chunk = arena->resize(NULL, head() + capacity);
		if (!chunk) {
			arena->failed = 1;
			return NULL;
		}
		chunk->next = arena->chunks;
		chunk->used = 0;
		chunk->capacity = capacity;
		arena->chunks = chunk;
	}
	at = (char *)chunk + head() + chunk->used;
	chunk->used += bytes;
	return memset(at, 0, bytes);
}

void cg_arena_free(struct cg_arena *arena)
{
	while (arena->chunks) {
		struct cg_chunk *next = arena->chunks->next;

		arena->resize(arena->chunks, 0);
		arena->chunks = next;
	}
}

void cg_text_put_n(struct cg_text *text, const char *s, size_t n)
{
	if (text->failed)
		return;
	if (text->capacity - text->length <= n) {
		size_t capacity = (text->length + n + 1) * 2;
		char *at = n < SIZE_MAX / 4 ? text->resize(text->at, capacity) : NULL;

		if (!at) {
			text->failed = 1;
			return;
		}
		text->at = at;
		text->capacity = capacity;
	}
	memcpy(text->at + text->length, s, n);
	text->length += n;
	text->at[text->length] = 0;
}

void cg_text_put(struct cg_text *text, const char *s)
{
	cg_text_put_n(text, s, strlen(s));
}

void cg_text_printf(struct cg_text *text, const char *format, ...)
{
	char line[1024];
	va_list list;
	int n;

	va_start(list, format);
	n = vsnprintf(line, sizeof line, format, list);
	va_end(list);
	if (n < 0 || n >= (int)sizeof line)
		text->failed = 1;
	else
		cg_text_put_n(text, line, (size_t)n);
}
