/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache's disk, watched: it fails at the n-th of the calls that can fail, or the power is cut there. The watched disk records which
 * files were written and not synced, so that a test can discard what was written.
 */
#ifndef FAULTY_DISK_H
#define FAULTY_DISK_H

#include <stddef.h>

#include "runtime/cache/disk.h"

enum disk_end {
	DISK_FAILS,                              /* the call fails with the error number disk_error */
	DISK_FAILS_ON,                           /* the call and all later ones fail, except close, unlinkat and closedir */
	DISK_CUTS,                               /* this process ends before the call */
	DISK_CUTS_HALF                           /* this process ends before the call, or half-way through it if it is a write */
};
enum { DISK_CUT = 42 };                          /* exit status of a process whose power was cut */

extern struct cg_disk disk_real;
extern int disk_error, disk_elevated;
extern long disk_most_write;                     /* the most bytes that a write takes; 0: no limit */

/* Returns 0 if there is a cache to test; else prints the reason as TAP, sets *status to the program's exit status, and returns 1. */
int disk_skip(int *status);

/* Makes an empty folder, puts the watchers into cg_disk, sets CELLGRAD_CACHE_DIR to disk_folder, which does not exist yet, and HOME to
   disk_top, and unsets the cache's other variables. */
void disk_open(void);
void disk_close(void);
extern char disk_top[512], disk_folder[528];   /* disk_top: the empty folder; disk_folder: "kernels" in it */
/* Removes all that is in a folder, and the folder. */
void disk_remove(const char *folder);
/* Makes the n-th call from now that can fail end as disk_end says; n 0: no call. Returns the number of calls that can fail since disk_at()
   was called last. */
long disk_at(long n, enum disk_end);
/* The name of the call that failed last since disk_at() was called; NULL: none did. */
const char *disk_failed(void);

/* ---- what a power cut leaves, for the parent of the process that it ended ---- */

/* Begins to record; marks all files as DISK_SAFE. */
void disk_sync(void);
/* What a power cut leaves of a file. DISK_SAFE: the file was neither written nor synced since disk_sync(); DISK_SYNCED: the file was
   synced, and not written after that; DISK_LOST: what was written may be lost. */
enum disk_safety { DISK_SAFE, DISK_SYNCED, DISK_LOST };
enum disk_safety disk_safety(const struct stat *);

#endif
