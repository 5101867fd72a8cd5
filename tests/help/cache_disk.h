/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the cache: entries of text, their files, and a disk that is watched around each test.
 */
#ifndef CACHE_DISK_H
#define CACHE_DISK_H

#include <stddef.h>

#include "runtime/cache/cache.h"
#include "runtime/cache/entry.h"
#include "tests/fake/faulty_disk.h"

enum { STRANGER = 65534, PATH = sizeof disk_folder + 2 * CG_CACHE_NAME };

/* A test of cmocka with a cache folder of its own. */
#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, cache_set_up, cache_tear_down)
int cache_set_up(void **state);
int cache_tear_down(void **state);

void put(const char *key, const char *bytes);
/* Looks a key up in the cache; returns 1 if exactly these bytes were found, 0 if nothing was, -1 for other bytes or a failure. */
int has_bytes(const char *key, const void *want, size_t n);
int has(const char *key, const char *want);

/* The path of a key's file, in memory that the next call overwrites. */
const char *path_of(const char *key);
int there(const char *path);
/* The number of files in the cache's folder whose names do not begin with a dot. */
int files(void);
size_t read_file(const char *path, unsigned char *to, size_t most);
void write_file(const char *path, const void *from, size_t n);

/* Returns what `body` returns in a child process.  unprivileged: if root runs this process, the child runs as user STRANGER; a child that
   cannot become this user does not run `body`, and the result is 77. */
int in_child(int (*body)(void), int unprivileged);

#endif
