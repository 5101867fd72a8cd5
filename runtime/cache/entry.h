/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares the reading and writing of one entry of the cache, a file in a folder that has been checked.
 */
#ifndef CG_CACHE_ENTRY_H
#define CG_CACHE_ENTRY_H

#include <stddef.h>
#include <stdint.h>

/* The record that identifies an entry: the bytes before the key, and the key. */
struct cg_cache_record {
	unsigned char head[64];
	size_t head_bytes, key_bytes;
	const void *key;
};
void cg_cache_set_record(struct cg_cache_record *, const void *key, size_t key_bytes);

enum { CG_CACHE_NAME = 72, CG_CACHE_ABOUT = 120 };
void cg_cache_name(const struct cg_cache_record *, char name[CG_CACHE_NAME]);
int cg_cache_is_entry(const char *name);
/* Is the name that of a temporary file, which is being written or whose writer died? */
int cg_cache_is_temporary(const char *name);

/* CG_CACHE_MISS: there is no file, or it was not judged; CG_CACHE_BAD: the caller of cg_cache_read() may remove the file */
enum cg_cache_verdict { CG_CACHE_MISS, CG_CACHE_BAD, CG_CACHE_GOOD };

/* Reads the payload of a file that is undamaged and has this record; *at is from cg_memory(); the caller frees it.  CG_CACHE_BAD: the file
 * is damaged, has another record, is no regular file, or has another owner or a mode by which others may write to it: the caller may remove
 * it.  Argument `touch` 1: sets the date of a good file to now, since the oldest files are removed first.  CG_NO_MEMORY: the file was not
 * judged; the verdict is CG_CACHE_MISS. */
int cg_cache_read(int folder, const char *name, const struct cg_cache_record *, int touch, void **at, size_t *bytes,
                  enum cg_cache_verdict *);
/* Is the file readable and undamaged?  about: the first line of its key, possibly cut, with ? in place of characters that are not printable
 * ASCII. */
int cg_cache_about(int folder, const char *name, char about[CG_CACHE_ABOUT]);

/* The size of an entry's file with a payload of `payload` bytes. */
uint64_t cg_cache_bytes(const struct cg_cache_record *, size_t payload);
/* Writes a file; under its name other processes see it whole or not at all.  A failure to write is not reported. */
void cg_cache_write(int folder, const struct cg_cache_record *, const void *payload, size_t bytes);

#endif
