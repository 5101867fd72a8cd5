/*
 * The calls of the system that the cache makes, in one table.
 */
#ifndef CG_DISK_H
#define CG_DISK_H

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

/* All that is done to files goes through here: a test that makes a call fail, or the world end there, puts its own function in. */
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
