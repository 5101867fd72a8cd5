/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of each type in memory, for everything that the stand-ins compute in double. */
#ifndef FAKE_NUMBER_H
#define FAKE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* The numbers that NVIDIA's library_types.h gives the types. */
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };

size_t fake_type_bytes(unsigned type);
double fake_load(const void *from, size_t i, int type);
void fake_store(void *to, size_t i, double x, int type);
/* Rounds x to nearest, ties to even, to `bits` bits of fraction; below 2^least the spacing of numbers no longer shrinks. */
double fake_rounded(double x, int bits, int least);

/*
 * The order in which a product adds its terms.  cuBLAS has many kernels for one product and takes one by the alignments of its operands,
 * among other things: cublasLt takes them as preferences (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES and on; pytorch/pytorch#98975 sets
 * 256), a call of cublasGemmEx, by a program or by cuDNN, looks at the addresses, up to an alignment of 16 bytes.  Kernels for an alignment
 * other than 16 bytes add in another order, and in f32 unless the type is f64.
 */
int     fake_order(uint64_t alignment);                  /* alignment: that of the least aligned operand */
int64_t fake_turn(int order, int64_t i, int64_t k);      /* which of the k terms is added as the i-th */
double  fake_sum(int order, double sum, int type);       /* the sum as it is stored until the next term */

#endif
