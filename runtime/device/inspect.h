/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's interface to the library beside cellgrad.h: the language of cells; the tables that it prints and is driven by
 * (environment variables, ops, weight formats, roundings); the cache's files; and facts of backends and devices.  It has no fields of
 * contexts, backends or plans.
 */
#ifndef CG_INSPECT_H
#define CG_INSPECT_H

#include "gen/cell.h"
#include "runtime/cache/cache.h"
#include "runtime/core/core.h"
#include "runtime/core/environment.h"
#include "runtime/op/op.h"
#include "runtime/rnn/network_op.h"
#include "runtime/weights/format.h"

/* ---- backends: inspect.c ---- */

/* The name of the k-th backend, in the order in which they are tried; NULL past the last. */
const char *cg_inspect_backend(int k);
/* The number of the backend in "NAME" or "NAME:DEVICE"; -1: there is none, or `where` is a list. */
int cg_inspect_find(const char *where);
enum { CG_DEVICE_NAME = 64 };
/* What to open for the k-th device of a backend, "cuda:0", and what it is or why it cannot be opened; 0 past the last.  May load a
 * driver, which may end the process. */
int cg_inspect_device(int backend, int k, char name[CG_DEVICE_NAME], char *about, size_t bytes);
/* Why cg_open(NULL) passes the backend over without loading its driver; NULL: it does not. */
const char *cg_inspect_passed_over(int backend);
/* Has it a vendor's library for networks? */
int cg_inspect_has_networks(int backend);
/* Are they names of backends, "cpu" or "NAME:DEVICE,cpu"?  CG_BAD_ARGUMENT, and `from` before the message, when one is not. */
int cg_backend_check(const char *from, const char *where);

/* ---- an open device: inspect.c ---- */

const char *cg_inspect_context(const struct cg_context *);       /* its backend's name */
/* Prints no lines for this context's calls, whatever CELLGRAD_VERBOSE says. */
void cg_inspect_silence(struct cg_context *);
/* Can its driver copy within the device?  The copy, enqueued: what the rates of kernels are compared with. */
int cg_inspect_copies(const struct cg_context *);
int cg_inspect_copy(struct cg_stream *, struct cg_mem to, struct cg_mem from, size_t bytes);

#endif
