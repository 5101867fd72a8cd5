/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the cache to the system, in one table.
 */
#ifndef CG_DISK_H
#define CG_DISK_H

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

/* Tests replace functions of this table to make calls fail, or to simulate a loss of power during a call. */
struct cg_disk {
#define DISK_CALL(type, name, parameters, names) type (*name) parameters;
#define DISK_MAKE DISK_CALL
#define DISK_ASK DISK_CALL
#include "runtime/cache/disk.fn"
#undef DISK_CALL
#undef DISK_MAKE
#undef DISK_ASK
};
extern struct cg_disk cg_disk;

#endif
