/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests of whole sequences, by subject. Each test runs on the suite's device.
 */
#ifndef SUITE_H
#define SUITE_H

#include "tests/sequence/guarded_network.h"

/* random.c: random networks, against the reference. */
void test_random(void **);
void test_large(void **);
/* known.c: numbers known from elsewhere. */
void test_vectors(void **);
void test_sizes(void **);
void test_golden_sums(void **);
void test_golden_cells(void **);
/* chunks.c: a sequence and its chunks. */
void test_step_by_step(void **);
void test_chunks(void **);
void test_batch_split(void **);
void test_batch_permuted(void **);
void test_scan_bits(void **);
/* equivalent.c: one network stated in two ways. */
void test_mirror(void **);
void test_transposed(void **);
void test_full_lengths(void **);
void test_linear(void **);
void test_padding(void **);
void test_absent(void **);
void test_skip(void **);
/* repeat.c: repeated calls. */
void test_repeated_calls(void **);
void test_reserve(void **);
void test_in_a_row(void **);
void test_threads(void **);
/* block_cell.c: a network of TensorFlow's block cell, and its ops step by step. */
void test_block_lstm(void **);
/* modes.c, cells.c: gradients against differences. */
void test_modes(void **);
void test_cells(void **);
void test_values(void **);
void test_dtypes(void **);
/* drawn.c: random cells, against their equations on a tape. */
void test_drawn(void **);
/* launches.c: all steps in one launch, against a launch for each step. */
void test_step_loop(void **);
/* training.c: a user's cell is trained. */
void test_training(void **);

/* Sets a random network of a cell that the reference knows, with lengths or without, and does not open it. */
void random_network(struct network *, unsigned long long *state);

#endif
