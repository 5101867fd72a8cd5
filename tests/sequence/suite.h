/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests of whole sequences, by subject: each runs on whatever device side is.
 */
#ifndef SUITE_H
#define SUITE_H

#include "tests/sequence/guarded_network.h"

/* random.c: networks drawn at random, against the reference. */
void test_random(void **);
void test_large(void **);
/* known.c: numbers that are known from elsewhere. */
void test_vectors(void **);
void test_sizes(void **);
void test_golden_sums(void **);
void test_golden_cells(void **);
/* chunks.c: a whole and its chunks. */
void test_step_by_step(void **);
void test_chunks(void **);
void test_batch_split(void **);
void test_batch_permuted(void **);
void test_scan_bits(void **);
/* equivalent.c: the same said in two ways. */
void test_mirror(void **);
void test_transposed(void **);
void test_full_lengths(void **);
void test_linear(void **);
void test_padding(void **);
void test_absent(void **);
void test_skip(void **);
/* repeat.c: the same again. */
void test_repeated_calls(void **);
void test_reserve(void **);
void test_in_a_row(void **);
void test_threads(void **);
/* block_cell.c: steps of TensorFlow's block cell. */
void test_block_lstm(void **);
/* modes.c, cells.c: gradients against differences. */
void test_modes(void **);
void test_cells(void **);
void test_refused(void **);
void test_values(void **);
void test_dtypes(void **);
/* drawn.c: cells drawn at random, against their equations on a tape. */
void test_drawn(void **);
/* training.c: a user's cell learns. */
void test_training(void **);

/* A network drawn at random, of a cell that the reference knows: lengths too, but not opened. */
void random_network(struct network *, unsigned long long *state);

#endif
