/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for cases: drawn the same on every machine, written in a dtype and read back, their bits compared.  It shares no code
 * with the library's own conversions.
 */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <stddef.h>

/* Between 0 and 1, neither of them; steps the state. */
double numbers_uniform(unsigned long long *state);
/* Normally distributed about 0: never zero, and of no symmetry. */
double numbers_draw(unsigned long long *state, double scale);
/* An integer from 0 to n - 1. */
unsigned numbers_below(unsigned long long *state, unsigned n);
/* Some of n things, as bits: often none, or one. */
unsigned long long numbers_subset(unsigned long long *state, int n);
/* The bits of a number: mostly of ordinary size, sometimes any at all, sometimes special. */
void numbers_bits(unsigned long long *state, int dtype, void *to);
/* The bits of a NaN: of either sign, quiet or not, with any payload. */
void numbers_nan(unsigned long long *state, int dtype, void *to);

/* d is a number of the dtype already. */
void   numbers_encode(int dtype, double d, void *to);
double numbers_decode(int dtype, const void *from);
/* The same bits, or both NaN. */
int    numbers_same(int dtype, const void *a, const void *b);
/* What is computed in, as a dtype: f64 for f64, else f32. */
int    numbers_acc(int dtype);

#endif
