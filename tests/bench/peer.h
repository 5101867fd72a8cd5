/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the C programs of peers.sh share: the problem, its numbers, the protocol on stdin and stdout.
 *
 * A program reads the problem, prepares, computes, and calls serve_turns, which writes the answers to the file that the problem names, and
 * then prints a line of JSON about the program, and "ready".  Each line "go" on stdin starts a turn: the program calls its library for a
 * tenth of a second, after calls that do not count, and prints a line with the milliseconds of the fastest call and the mean of the calls.
 * A line other than "go", or the end of the input, ends the program.  decline says that a program cannot do the problem.
 *
 * Numbers lie in the files as f32, one array behind the other in the order of struct numbers and of struct answers; an array that
 * the problem does not have is NULL in the struct and left out of the file.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>

enum { PEER_ARRAYS = 11 };

/* The shapes: x [T B I], h0 and c0 [B H], w [G H I], r [G H H], bw and br [G H], dy [T B H], dh_n and dc_n [B H], peephole [3
   H]. */
struct numbers {
	float *x, *h0, *c0, *w, *r, *bw, *br, *dy, *dh_n, *dc_n, *peephole;
};
/* Each gradient has the shape of its input in struct numbers; db is the gradient of bw; dbr, which
   only a problem with the cell gru has, is that of br. */
struct answers {
	float *y, *h_n, *c_n, *dx, *dh0, *dc0, *dw, *dr, *db, *dbr, *dpeephole;
};

struct problem {
	const char *cell, *dtype, *input, *output;
	size_t T, B, I, H, G;                    /* G: the number of gates: 4 (i f g o), 3 (r z n or r u c) or 1 */
	int threads, grad, last;                 /* last: gradients are of a loss on the last state alone, which needs no y */
	int has_c, peephole;
	struct numbers in;
	struct answers out;                      /* not grad: only y, h_n and c_n; last: no y */
};

/* Reads the arguments and the file of numbers; ends the program if an argument is wrong, or if the file is absent or too short. */
void read_problem(struct problem *p, int argc, char **argv);
/* Prints the reason on stdout, and ends the program with status 0. */
_Noreturn void decline(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the program with a message on stderr and status 1. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Allocates zeros, aligned to 4096 bytes; ends the program if memory is exhausted. */
void *allocate(size_t bytes);

size_t get_dtype_bytes(const char *dtype);
/* Convert to and from the dtype, by rounding to nearest; convert_to declines a dtype other than f32, f64, f16 and bf16. */
void convert_to(const char *dtype, const float *from, size_t n, void *to);
void convert_from(const char *dtype, const void *from, size_t n, float *to);
/* Allocates an array and converts n elements to the dtype into it; returns NULL if from is NULL. */
void *convert_new(const char *dtype, const float *from, size_t n);
/* Transposes a matrix [rows columns] to [columns rows]. */
void transpose(const float *from, size_t rows, size_t columns, float *to);

/* Returns the milliseconds of the fastest of the calls of `run` in 20 ms, after one call that does not count. */
double time_calls(void (*run)(void *), void *state);
/* Writes the arrays of p->out to the file p->output, and then times turns of `run`; settings: the members of the
   JSON object "settings", such as "\"threads\": 2". */
void serve_turns(const struct problem *p, const char *name, const char *version, const char *settings, void (*run)(void *), void *state);

#endif
