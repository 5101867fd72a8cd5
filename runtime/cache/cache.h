/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of compiled kernels on disk, for backends with slow compilers: maps a key to bytes.  Each entry is one file; it holds the whole
 * key, and a digest that detects damage.  Anyone who can write to the folder can insert kernels, so the cache refuses a folder that other
 * users may write to.  The cache keeps no state in the process: any thread, and a forked child, may call its functions.
 */
#ifndef CG_CACHE_H
#define CG_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Reads the bytes stored under the key into memory from cg_memory(), which the caller frees; *at is NULL if there is no entry that can be
 * read.  CG_NO_MEMORY is the only failure.  The key holds what the bytes depend on, such as kernel text, options and kind of device; the
 * cache adds the version of this library.  The compiler's version need not be in the key if the caller stores that version in the bytes and
 * checks it there.  `cellgrad cache list` shows the first line of the key. */
int cg_cache_get(const void *key, size_t key_bytes, void **at, size_t *bytes);
/* Stores the bytes, replacing an older entry.  A failure to store the bytes is not reported: the caller has the compiled kernel anyway. */
void cg_cache_put(const void *key, size_t key_bytes, const void *at, size_t bytes);

/* ---- the cache folder ---- */

enum { CG_CACHE_PATH = 4096, CG_CACHE_ENTRY = 64 << 20, CG_CACHE_MOST = 256 << 20 };

struct cg_cache_directory {
	char path[CG_CACHE_PATH];                /* "": the build or the environment allows no folder, and `why` has the reason */
	char why[512];                           /* the reason why the cache is not read; "": it is read if its folder exists */
	int reads, writes;                       /* 1: reading, and writing, are allowed by CELLGRAD_CACHE and the folder's owner and mode */
	uint64_t most;                           /* limit on the bytes of all files together */
};
/* Finds the folder by the environment variables, and checks it if it exists, unless CELLGRAD_CACHE is off. */
void cg_cache_find_directory(struct cg_cache_directory *);
/* The two halves of cg_cache_find_directory.  cg_cache_choose_directory() reads the environment.  cg_cache_enter_directory() opens and
 * checks the folder and returns its descriptor; or it returns -1, and sets `why` if the folder must not be used or cannot be made, but not
 * if it does not exist and `make` is 0.  make 1: creates the folder and its parent if they do not exist. */
void cg_cache_choose_directory(struct cg_cache_directory *);
int cg_cache_enter_directory(struct cg_cache_directory *, int make);

/* ---- for `cellgrad cache`, for which CELLGRAD_CACHE=off has no effect ---- */

struct cg_cache_entry {
	const char *file, *about;                /* about: first line of the key, in printable ASCII; NULL: the file is damaged or unreadable */
	uint64_t bytes;
	int64_t age;                             /* seconds since the entry was written, or last read under CELLGRAD_CACHE=rw */
};
/* Calls `each` for every entry until `each` returns a code other than CG_OK, and returns that code.  CG_UNSUPPORTED: the build or the
 * environment allows no folder, or the folder must not be used; CG_FILE: the folder cannot be read. */
int cg_cache_list(int (*each)(const struct cg_cache_entry *, void *user), void *user);
/* Removes all entries and temporary files; *files and *bytes count those removed.  CG_UNSUPPORTED: the build or the environment allows no
 * folder, or the folder must not be used; CG_FILE: the folder cannot be read, or a file could not be removed. */
int cg_cache_clear(size_t *files, uint64_t *bytes);
/* Is the file of a struct stat one of the entries and temporary files in the cache folder?  Compares the file's device and inode with those
 * of each entry and temporary file; 0 if there is no usable folder. */
int cg_cache_has(const struct stat *);

#endif
