/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what cuda_watch.c, opencl_watch.c and their tests share: one call that fails, a device to open or a skip, a program
 * whose calls fail in turn, and tests of what block ops enqueue and build.
 */
#ifndef DRIVER_WATCH_H
#define DRIVER_WATCH_H

#include "runtime/device/device.h"
#include "tests/help/tensors.h"

/* made: the number of calls so far that can be made to fail; fatal: the number of the call that is made to fail, 0 for none. */
extern long made, fatal;
extern const char *failed_call;

/* Counts a call that can be made to fail, and returns whether the call must fail. */
int fails_now(const char *call);
/* Sets `made` and `fatal` to 0, so that no call fails. */
void forget_failures(void);

/* Opens a device of the backend; without one the test is skipped with the reason, or fails if the backend is required. */
int open_or_skip(const char *backend, struct cg_context **context);
/* Sets the context of a test's tensors, and opens a stream on it. */
int begin_tensors(struct tensors *, struct cg_context *);

/* Runs a whole program up to its first failure, whose code it returns: a device, a stream, memory, copies, an op. closing is
   called before everything is freed. */
int run_program(const char *backend, int dtype, void (*closing)(void));

/* What a call of a block op enqueues: launches of its own kernels, products, and how many of these have a start other than their
   result's memory. */
struct commands { const char *what; long launches, products, starts; };
typedef int block_call(struct cg_stream *, const void *op);
typedef void count_call(struct cg_stream *, block_call *, const void *op, const struct commands *);
block_call call_lstm_forward;

/*
 * A backend with a driver whose calls are counted.  open: makes tensors on a device of the backend, returns 0 without a device; forget:
 * sets the counts to zero; count: runs an op and compares the counts with the expected ones; builds: the number of calls of the backend's
 * compiler.
 */
struct watched { int (*open)(struct tensors *); void (*forget)(void); count_call *count; const long *builds; };
/* The tests below get a struct watched as *state (cmocka_unit_test_prestate).  test_commands tests the commands of LSTMBlockCell and its
   gradient, with peepholes and without, and of GRUBlockCell and its gradient. */
void test_commands(void **state);
/* Tests the commands of BlockLSTM, output by output. */
void test_commands_of_sequences(void **state);
/* Tests that a call with another batch size builds no kernel, and that a call with another dtype builds kernels. */
void test_built_once(void **state);

#endif
