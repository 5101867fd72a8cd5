/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's interface to the library beside cellgrad.h: the cell language; the tables that the command prints or reads its arguments by
 * (environment variables, ops, weight formats, roundings); the files of the cache; and facts of backends and devices.  The interface
 * exposes no fields of contexts, backends or network plans.
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
/* Sets name to the argument of cg_open for the k-th device of a backend, "cuda:0", and about to a description or to the reason why it
 * cannot be opened; returns 0 past the last device.  May load a driver, and a faulty driver may end the process. */
int cg_inspect_device(int backend, int k, char name[CG_DEVICE_NAME], char *about, size_t bytes);
/* The reason why cg_open(NULL), if CELLGRAD_BACKEND is unset, passes the backend over without loading its driver; NULL: there is none. */
const char *cg_inspect_passed_over(int backend);
/* Can the backend compute whole networks by a vendor's library? */
int cg_inspect_has_networks(int backend);
/* Checks that `where` names backends, as "cpu" or "NAME:DEVICE,cpu" do, whatever DEVICE is.  If `where` has another form, or
 * names a backend that this build lacks, cg_backend_check() returns CG_BAD_ARGUMENT, with a message that begins with the text `from`. */
int cg_backend_check(const char *from, const char *where);

/* ---- an open device: inspect.c ---- */

const char *cg_inspect_context(const struct cg_context *);       /* the name of the context's backend */
/* Makes calls on this context print no lines on standard error, whatever CELLGRAD_VERBOSE is. */
void cg_inspect_silence(struct cg_context *);
/* Can the driver copy within the device?  cg_inspect_copy() enqueues such a copy, with whose speed kernels are compared. */
int cg_inspect_copies(const struct cg_context *);
int cg_inspect_copy(struct cg_stream *, struct cg_mem to, struct cg_mem from, size_t bytes);

#endif
