/* Numbers of each type in memory, for all that the stand-ins compute in double. */
#ifndef FAKE_NUMBER_H
#define FAKE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* As library_types.h of the vendor has them. */
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };

size_t fake_type_bytes(unsigned type);
double fake_load(const void *from, size_t i, int type);
void fake_store(void *to, size_t i, double x, int type);
/* To nearest, ties to even, with so many bits of fraction; the exponent of a subnormal stays at the least. */
double fake_rounded(double x, int bits, int least);

#endif
