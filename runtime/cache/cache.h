/*
 * Compiled kernels on disk: bytes by a key, for a backend whose compiler is slow.  A file is one entry; it holds the whole key, and
 * a digest against damage.  Who can write the folder can plant kernels, so that a folder that others may write is not used.
 * Nothing is kept in this process: any thread may call, and a forked child as well.
 */
#ifndef CG_CACHE_H
#define CG_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* The bytes that are kept under the key, in cg_memory() that is the caller's; *at is NULL when there are none.  CG_NO_MEMORY is
 * the only failure.  The key says all that the bytes depend on: the text, the options, the compiler and its version, the device's
 * kind; the version of this library is added to it.  Its first line is what `cellgrad cache list` shows. */
int cg_cache_get(const void *key, size_t key_bytes, void **at, size_t *bytes);
/* Keeps them if that can be; the caller, who has what was compiled, is not told.  What is there already is replaced. */
void cg_cache_put(const void *key, size_t key_bytes, const void *at, size_t bytes);

/* ---- where, and whether ---- */

enum { CG_CACHE_PATH = 4096, CG_CACHE_ENTRY = 64 << 20, CG_CACHE_MOST = 256 << 20 };

struct cg_cache_place {
	char path[CG_CACHE_PATH];                /* "": the environment names none */
	char why[512];                           /* why nothing is read; "" when it is */
	int reads, writes;                       /* what CELLGRAD_CACHE allows */
	uint64_t most;                           /* bytes of all files together */
};
/* Reads the environment and looks at the folder, which need not be there yet. */
void cg_cache_place(struct cg_cache_place *);
/* The two halves of that.  enter returns the folder's descriptor; -1 with `why` when it is not to be used, without when it is
 * not there.  make: makes it first, and the folder around it. */
void cg_cache_settle(struct cg_cache_place *);
int cg_cache_enter(struct cg_cache_place *, int make);

/* ---- for `cellgrad cache`: by the folder alone, whatever CELLGRAD_CACHE says ---- */

struct cg_cache_entry {
	const char *file, *about;                /* about: the first line of the key, in printable ASCII; NULL: damaged */
	uint64_t bytes;
	int64_t age;                             /* seconds since it was last got or put */
};
/* Calls `each` for every entry, until it returns another code than CG_OK, and returns that.  CG_UNSUPPORTED: the folder is not
 * to be used; CG_FILE: it could not be read. */
int cg_cache_list(int (*each)(const struct cg_cache_entry *, void *user), void *user);
/* Removes every file of ours, and counts them and their bytes.  CG_UNSUPPORTED: the folder is not to be used; CG_FILE: some
 * file stays. */
int cg_cache_clear(size_t *files, uint64_t *bytes);
/* Is the file one of ours, by whatever name it was found?  0 where there is no folder, or none that is used. */
int cg_cache_has(const struct stat *);

#endif
