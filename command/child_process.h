/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries a driver in a child process, so that a driver that crashes, aborts, exits or hangs does not end the parent.
 */
#ifndef CHILD_PROCESS_H
#define CHILD_PROCESS_H

#include <jansson.h>

enum { CHILD_SECONDS = 60, CHILD_WHY = 256 };

/* Runs ask(about) in a child process and returns the answer of that function. In the child cg_ calls may load any driver; the child's
 * standard output goes to standard error, and the child leaves no core file. NULL: the child could not be started, ended without an answer,
 * gave none in time or gave one that is not JSON, and `why` says what happened; an empty `why` means CG_NO_MEMORY. The calling process must
 * have a single thread. */
json_t *ask_in_child(json_t *(*ask)(const void *about), const void *about, int seconds, char why[CHILD_WHY]);

#endif
