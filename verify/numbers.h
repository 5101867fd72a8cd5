/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers for cases, the same on every machine up to the rounding of the C library's log and cos; conversion to and from each dtype;
 * comparison of bits. The code shares nothing with the library's own conversions, which it tests.
 */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <stddef.h>

/* A uniform number strictly between 0 and 1. Advances the state. */
double numbers_uniform(unsigned long long *state);
/* Draws a number from a normal distribution with mean 0 and deviation `scale`, and moves it away from 0 by 0.02 * scale; the result is not
 * 0. */
double numbers_draw(unsigned long long *state, double scale);
/* A uniform integer from 0 to n - 1. */
unsigned numbers_below(unsigned long long *state, unsigned n);
/* A random subset of n things, as one bit for each; it is often empty or has one thing. */
unsigned long long numbers_subset(unsigned long long *state, int n);
/* Draws the bits of an element of a dtype: mostly a number of ordinary size, sometimes any bits, and, except in f16, sometimes a
 * special value. */
void numbers_bits(unsigned long long *state, int dtype, void *to);
/* Draws the bits of a NaN of a dtype: of either sign, quiet or signaling, with any payload. */
void numbers_nan(unsigned long long *state, int dtype, void *to);

/* Writes d as an element of the dtype, in which d must be representable. */
void   numbers_encode(int dtype, double d, void *to);
double numbers_decode(int dtype, const void *from);
/* Are the bits of two elements equal, or are both elements NaN? */
int    numbers_same(int dtype, const void *a, const void *b);
/* The dtype of arithmetic: f64 for f64, f32 for all others. */
int    numbers_acc(int dtype);

#endif
