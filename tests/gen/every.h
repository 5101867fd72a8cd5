/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the compiler share: memory that is counted and can be made to fail, random numbers from a printed seed, the built-in
 * cells, those of the shelf and those of tests/gen.
 */
#ifndef TESTS_GEN_EVERY_H
#define TESTS_GEN_EVERY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gen/cell.h"

/* Requests for memory are counted; if fail_at is not 0, request number fail_at and all later ones are refused.  live: blocks not freed. */
static struct { long requests, fail_at, live; } memory;

static inline void *resize(void *p, size_t bytes)
{
	if (!bytes) {
		memory.live -= p != NULL;
		free(p);
		return NULL;
	}
	if (++memory.requests >= memory.fail_at && memory.fail_at)
		return NULL;
	memory.live += !p;
	p = realloc(p, bytes);
	if (!p)
		abort();
	return p;
}

static uint64_t random_state;

static inline uint64_t random_bits(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline int random_below(int n)
{
	return (int)(random_bits() >> 33) % n;
}

/* A random number in (0, 1). */
static inline double random_unit(void)
{
	return ((double)(random_bits() >> 12) + 0.5) / 4503599627370496.0;
}

/* How many times longer the generator takes with a sanitizer; slowness() multiplies by this number, since the functions of the C library
   that it times do not take longer. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZER_SLOWNESS 10
#else
#define SANITIZER_SLOWNESS 1
#endif

/* How many times longer this machine takes at this moment than a usual one of today to print numbers and words, which is most of the
   generator's work; at least 1, and multiplied by SANITIZER_SLOWNESS. A test that limits a time multiplies its limit by slowness(). */
static inline double slowness(void)
{
	enum { LINES = 1 << 15, TRIES = 3 };
	const double usual = 0.02;
	volatile size_t length = 0;
	double least = 0;

	for (int k = 0; k < TRIES; k++) {
		clock_t began = clock();
		double took;

		for (int line = 0; line < LINES; line++) {
			char text[80];

			snprintf(text, sizeof text, "%s %d %.9g", line % 2 ? "state" : "output", line, line / 3.0);
			length += strlen(text);
		}
		took = (double)(clock() - began) / CLOCKS_PER_SEC;
		least = !k || took < least ? took : least;
	}
	(void)length;
	return SANITIZER_SLOWNESS * (least > usual ? least / usual : 1);
}

/* Seeds the random numbers with CELLGRAD_TEST_SEED, or with 1, and prints the seed, so that a failure can be repeated. */
static inline void random_start(void)
{
	const char *seed = getenv("CELLGRAD_TEST_SEED");

	random_state = seed ? strtoull(seed, NULL, 0) : 1;
	printf("# CELLGRAD_TEST_SEED=%llu\n", (unsigned long long)random_state);
}

/* The text and the name of the k-th cell of a list of embedded files; NULL when there are no more. */
static inline const char *embedded_cell(const struct cg_embedded *e, int k, char name[32])
{
	for (; e->name; e++) {
		size_t n = strlen(e->name);

		if (n > 5 && n < 37 && !strcmp(e->name + n - 5, ".cell") && !k--) {
			snprintf(name, 32, "%.*s", (int)n - 5, e->name);
			return e->text;
		}
	}
	return NULL;
}

static inline const char *built_in(int k, char name[32])
{
	return embedded_cell(cg_embedded, k, name);
}

static inline int built_ins(void)
{
	char name[32];
	int n = 0;

	while (built_in(n, name))
		n++;
	return n;
}

static inline int shelf_cells(void)
{
	char name[32];
	int n = 0;

	while (embedded_cell(cg_shelf, n, name))
		n++;
	return n;
}

/* The bytes of the widest vector that an OpenCL product's text declares as a type: of sums, or of 32-bit words. */
static inline int vector_bytes_of(const char *text)
{
	int most = 0;

	for (const char *at = text; (at = strstr(at, "typedef ")); at++) {
		char type[7];
		int elements, bytes;

		if (sscanf(at, "typedef %6[a-z]%d acc", type, &elements) != 2)
			continue;
		bytes = elements * (strcmp(type, "double") ? 4 : 8);
		most = bytes > most ? bytes : most;
	}
	return most;
}

static inline struct cg_cell *must_parse(const char *text, const char *name)
{
	struct cg_mistake mistake;
	struct cg_cell *cell = cg_parse(text, name, resize, &mistake);

	if (!cell) {
		printf("Bail out! %s\n", mistake.text);
		exit(1);
	}
	return cell;
}

static inline struct cg_cell *must_find(const char *name)
{
	char there[32];
	const char *text;

	for (int k = 0; (text = built_in(k, there)); k++)
		if (!strcmp(there, name))
			return must_parse(text, name);
	for (int k = 0; (text = embedded_cell(cg_shelf, k, there)); k++)
		if (!strcmp(there, name))
			return must_parse(text, name);
	printf("Bail out! the library has no cell %s\n", name);
	exit(1);
}

/* Reads and parses a cell file of tests/gen in the folder of the source, $srcdir. */
static inline struct cg_cell *must_read(const char *name)
{
	static char text[1 << 16];
	const char *top = getenv("srcdir");
	char path[4096];
	FILE *file;
	size_t n;

	snprintf(path, sizeof path, "%s/tests/gen/%s.cell", top ? top : ".", name);
	file = fopen(path, "rb");
	if (!file) {
		printf("Bail out! cannot open %s\n", path);
		exit(1);
	}
	n = fread(text, 1, sizeof text - 1, file);
	text[n] = 0;
	fclose(file);
	return must_parse(text, name);
}

/* The k-th of all cells: the built-in ones, those of the shelf, then those of tests/gen; NULL when there are no more.  The caller frees
 * it. */
static inline struct cg_cell *every_cell(int k)
{
	static const char *const more[] = { "coupled", "stages", "forms", "roots", "learnt", "apart", "means" };
	char name[32];
	int n = built_ins(), n_shelf = shelf_cells(), n_more = sizeof more / sizeof *more;
	const char *text;

	if (k >= n + n_shelf)
		return k - n - n_shelf < n_more ? must_read(more[k - n - n_shelf]) : NULL;
	text = k < n ? built_in(k, name) : embedded_cell(cg_shelf, k - n, name);
	return must_parse(text, name);
}

static inline struct cg_pass_plan *must_plan(const struct cg_cell *cell, int options, int pass, int stage, int dtype)
{
	struct cg_mistake mistake;
	struct cg_pass_plan *plan = cg_plan(cell, options, pass, stage, dtype, resize, &mistake);

	if (!plan) {
		printf("Bail out! %s\n", mistake.text);
		exit(1);
	}
	return plan;
}

#endif
