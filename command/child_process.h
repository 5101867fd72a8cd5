/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries drivers in a child process: a driver may crash, abort, end the process or never answer, and the parent goes on.
 */
#ifndef CHILD_PROCESS_H
#define CHILD_PROCESS_H

#include <jansson.h>

enum { CHILD_SECONDS = 60, CHILD_WHY = 256 };

/* What ask(about) returns in a child, where cg_ calls may load whatever they like; the child's standard output is standard error, and it
 * leaves no core file.  NULL: the child gave no answer in time, and `why` says what became of it; CG_NO_MEMORY is the message's where
 * `why` is empty.  This process has no threads. */
json_t *ask_in_child(json_t *(*ask)(const void *about), const void *about, int seconds, char why[CHILD_WHY]);

#endif
