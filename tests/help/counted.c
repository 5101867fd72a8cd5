/* SPDX-License-Identifier: Apache-2.0 */
/* Each block is one of malloc's, so that tools that watch memory see its bounds; a table holds the sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/help/counted.h"

enum { POISON = 0xdb, CHAINS = 1 << 12 };

struct block { struct block *next; void *at; size_t bytes; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *chains[CHAINS];
static long live_blocks, live_bytes;
static void (*watcher)(const void *block, size_t bytes);

/* Returns the place of the pointer to the block, in the chain of the table that has the block, or of the NULL at the chain's end. */
static struct block **find(const void *at)
{
	struct block **p = &chains[(uintptr_t)at / 16 % CHAINS];

	while (*p && (*p)->at != at)
		p = &(*p)->next;
	return p;
}

static void note(void *at, size_t bytes)
{
	struct block *block = malloc(sizeof *block), **end;

	if (!block)
		abort();
	pthread_mutex_lock(&lock);
	end = find(at);
	*block = (struct block){ NULL, at, bytes };
	*end = block;
	live_blocks++;
	live_bytes += (long)bytes;
	pthread_mutex_unlock(&lock);
}

/* Removes a block from its chain and returns its size. */
static size_t forget(const void *at)
{
	struct block **p, *block;
	size_t bytes;

	pthread_mutex_lock(&lock);
	p = find(at);
	block = *p;
	if (!block) {
		fprintf(stderr, "counted: %p is given back, and is no piece of the library's\n", at);
		abort();
	}
	bytes = block->bytes;
	*p = block->next;
	live_blocks--;
	live_bytes -= (long)bytes;
	pthread_mutex_unlock(&lock);
	free(block);
	return bytes;
}

static void *resize(void *user, void *old, size_t bytes)
{
	void *made = bytes ? malloc(bytes) : NULL;
	size_t before;

	(void)user;
	if (bytes && !made)
		return NULL;
	if (old) {
		before = forget(old);
		if (watcher)
			watcher(old, before);
		if (made)
			memcpy(made, old, before < bytes ? before : bytes);
		memset(old, POISON, before);
		free(old);
	}
	if (made)
		note(made, bytes);
	return made;
}

void counted_begin(void)
{
	static const struct cg_allocator counted = { resize, NULL };

	if (!cg_set_allocator(&counted))
		return;
	fprintf(stderr, "counted: %s\n", cg_message());
	exit(99);
}

void counted_watch(void (*look)(const void *block, size_t bytes))
{
	watcher = look;
}

/* Adds the blocks and the bytes that the library holds for all cells of a list; opens those cells that are not open yet. A cell's numbers
   are those of a copy, which this function parses from the cell's text. */
static void count_cells(const struct cg_embedded *list, long *n, long *bytes)
{
	for (const struct cg_embedded *e = list; e->name; e++) {
		size_t length = strlen(e->name);
		char name[CG_NAME_MAX + 1] = "";
		struct cg_cell *copy;
		long n_before, before;

		if (length < 6 || length > 5 + CG_NAME_MAX || strcmp(e->name + length - 5, ".cell"))
			continue;
		memcpy(name, e->name, length - 5);
		if (!cg_cell_find(name))
			fail_msg("%s", cg_message());
		n_before = live_blocks;
		before = live_bytes;
		if (cg_cell_parse(e->text, name, &copy))
			fail_msg("%s", cg_message());
		*n += live_blocks - n_before;
		*bytes += live_bytes - before;
		cg_cell_close(copy);
	}
}

void counted_nothing_left(void)
{
	long n = 0, bytes = 0;

	cg_memory_fail(0);
	count_cells(cg_embedded, &n, &bytes);
	count_cells(cg_shelf, &n, &bytes);
	if (live_blocks != n || live_bytes != bytes)
		fail_msg("the library holds %ld pieces and %ld bytes beside its cells", live_blocks - n, live_bytes - bytes);
}

void test_nothing_left(void **state)
{
	(void)state;
	counted_nothing_left();
}
