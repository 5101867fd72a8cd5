/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzzer on files and its own seeds, then on mutations of these, with memory that runs out now and then: see replay.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/replay.h"

enum { SEEDS = 256 };

static struct seed { unsigned char *bytes; size_t n; } seeds[SEEDS];
static int n_seeds;
static uint64_t state;

/* xorshift64* */
uint64_t replay_draw(uint64_t below)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1d >> 16) % below;
}

void replay_add_seed(const void *bytes, size_t n)
{
	struct seed *s = &seeds[n_seeds++];

	s->bytes = malloc(n + 1);
	if (!s->bytes)
		abort();
	memcpy(s->bytes, bytes, n);
	s->n = n;
}

size_t replay_cut(unsigned char *b, size_t n, size_t at, size_t length)
{
	memmove(b + at, b + at + length, n - at - length);
	return n - length;
}

size_t replay_insert(unsigned char *b, size_t n, size_t at, const void *bytes, size_t length)
{
	if (n + length > REPLAY_MOST)
		return n;
	memmove(b + at + length, b + at, n - at);
	memmove(b + at, bytes, length);          /* `bytes` may be a part of b */
	return n + length;
}

static void read_seed(const char *path)
{
	static unsigned char bytes[REPLAY_MOST];
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f) {
		perror(path);
		exit(2);
	}
	n = fread(bytes, 1, sizeof bytes, f);
	fclose(f);
	if (n_seeds < SEEDS)
		replay_add_seed(bytes, n);
}

static void try_mutated(void)
{
	static unsigned char bytes[REPLAY_MOST];
	const struct seed *s = &seeds[replay_draw((uint64_t)n_seeds)];
	size_t n = s->n;

	memcpy(bytes, s->bytes, n);
	for (uint64_t times = 1 + replay_draw(replay.mutations); times; times--)
		n = replay.mutate(bytes, n);
	replay.refuse(1);
	LLVMFuzzerTestOneInput(bytes, n);
	replay.refuse(0);
}

int main(int argc, char **argv)
{
	unsigned long long count = replay.count, seed = 1;
	const char *why = replay.begin();

	if (why) {
		printf("1..0 # SKIP %s\n", why);
		return 0;
	}
	for (int k = 1; k < argc; k++)
		if (!strcmp(argv[k], "-n") && k + 1 < argc)
			count = strtoull(argv[++k], NULL, 10);
		else if (!strcmp(argv[k], "-s") && k + 1 < argc)
			seed = strtoull(argv[++k], NULL, 10);
		else
			read_seed(argv[k]);
	for (int k = 0; k < n_seeds; k++)
		LLVMFuzzerTestOneInput(seeds[k].bytes, seeds[k].n);
	if (replay.replayed)
		replay.replayed(argc > 1);
	printf("1..2\nok 1 - %s: %d %s replayed\n", replay.name, n_seeds, replay.inputs);
	printf("# seed %llu: to repeat, -n %llu -s %llu and the same files\n", seed, count, seed);
	fflush(stdout);
	state = seed ? seed : 1;
	for (unsigned long long k = 0; k < count; k++)
		try_mutated();
	if (replay.ended)
		replay.ended(count);
	printf("ok 2 - %s: %llu mutations\n", replay.name, count);
	for (int k = 0; k < n_seeds; k++)
		free(seeds[k].bytes);
	return 0;
}
