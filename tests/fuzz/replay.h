/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes of each fuzzer of this folder a program that needs no libFuzzer: adds seeds, mutations, and main. Each program is run as
 *     NAME_fuzz [-n MUTATIONS] [-s SEED] [FILE]...
 */
#ifndef TESTS_FUZZ_REPLAY_H
#define TESTS_FUZZ_REPLAY_H

#include <stddef.h>
#include <stdint.h>

enum { REPLAY_MOST = 1 << 16 };          /* the maximum size of an input, in bytes */

struct replay {
	const char *name, *inputs;               /* the words for the fuzzer and for its inputs in lines of TAP, such as "cell" and "texts" */
	unsigned long long count;                /* the number of mutated inputs if -n is not given */
	unsigned mutations;                      /* the most mutations of one input */
	const char *(*begin)(void);              /* adds seeds; returns NULL, or the reason why the tests are skipped */
	size_t (*mutate)(unsigned char *, size_t n);
	void (*refuse)(int on);                  /* 1: memory may run out in the next input; 0: it does not run out */
	void (*replayed)(int has_files);         /* replayed: called after all seeds; ended: after all mutations; either may be NULL */
	void (*ended)(unsigned long long count);
};

/* The fuzzer of this program, and its entry for libFuzzer. */
extern const struct replay replay;
int LLVMFuzzerTestOneInput(const unsigned char *, size_t);

/* A random number from 0 to below - 1; below is not 0. A seed gives the same numbers on every machine. */
uint64_t replay_draw(uint64_t below);
void replay_add_seed(const void *, size_t n);
/* Remove or insert length bytes at a place; both return the new size; replay_insert changes nothing if it would exceed REPLAY_MOST. */
size_t replay_cut(unsigned char *, size_t n, size_t at, size_t length);
size_t replay_insert(unsigned char *, size_t n, size_t at, const void *, size_t length);

#endif
