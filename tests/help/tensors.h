/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small ops in device memory, for tests of the calls that a backend makes of its driver.
 */
#ifndef TENSORS_H
#define TENSORS_H

#include "runtime/cellgrad.h"

enum { B = 3, I = 4, U = 5, MEMS = 48, FLOATS = 1024 };

struct tensors { struct cg_context *context; struct cg_stream *stream; struct cg_mem mem[MEMS]; int n; };

/* Frees all memory, closes the stream and the context. */
void free_tensors(struct tensors *);
/* Returns device memory with n floats, which free_tensors() frees. */
struct cg_mem some(struct tensors *, int n);
/* Make the arguments of a forward op and of its gradient op, except the upstream gradient cs_grad and the outputs of the gradient op.
   sequence() makes arguments for `steps` steps, lstm() for one step. */
struct cg_lstm_block lstm(struct tensors *, int peephole);
struct cg_lstm_block sequence(struct tensors *, int peephole, int steps);
struct cg_gru_block gru(struct tensors *);
/* Fails the test unless a call's code is the expected one, and its message contains this text. */
void expect_refused(int code, int expected, const char *text);

#endif
