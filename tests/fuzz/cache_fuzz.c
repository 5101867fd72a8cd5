/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the reader of the cache: unless memory runs out, a get returns the payload of a file that is whole and has the key of the get,
 * and removes any other file; the list of entries agrees with that. The disk is in memory. The first byte of an input is no part of the
 * file: if it is odd, the file's digest is corrected, so that the checks after the digest's are reached. By itself this file is libFuzzer's
 * entry:
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -DCG_LIBMD -I. tests/fuzz/cache_fuzz.c runtime/cache/cache.c \
 *           runtime/cache/directory.c runtime/cache/entry.c runtime/core/memory.c runtime/core/message.c runtime/core/environment.c \
 *           gen/nearest.c -lmd
 * With FUZZ_REPLAY and replay.c it is a program that needs no libFuzzer; its seeds are files that the cache writes, and two with lengths
 * that are false.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef CG_LIBMD
#include <sha2.h>
#endif

#include "runtime/cache/cache.h"
#include "runtime/cache/entry.h"
#include "runtime/cache/disk.h"
#include "runtime/core/environment.h"
#include "runtime/core/core.h"

#define MUST(truth) do { if (!(truth)) wrong(__LINE__, #truth); } while (0)

static void wrong(int line, const char *truth)
{
	fprintf(stderr, "cache_fuzz.c:%d: not so: %s (message: %s)\n", line, truth, cg_message());
	abort();
}

enum { MOST = 1 << 16, FOLDER = 1000, LIST, FILE_OF_OURS, WRITTEN };
static const char key[] = "cuda sm_90 lstm_block\nand what else the kernel comes of";

/* ---- a disk with one file ---- */

static struct {
	unsigned char *bytes, put[MOST];
	size_t n, at, n_put;
	int removed, listed;
	char name[CG_CACHE_NAME];
} disk;

static int make(const char *path, mode_t mode)
{
	(void)path, (void)mode;
	return 0;
}

static int open_folder(const char *path, int flags)
{
	(void)path, (void)flags;
	return FOLDER;
}

static int open_file(int folder, const char *name, int flags, mode_t mode)
{
	(void)flags, (void)mode;
	MUST(folder == FOLDER);
	if (!strcmp(name, "."))
		return LIST;
	if (cg_cache_is_temporary(name))
		return WRITTEN;
	disk.at = 0;
	if (disk.bytes && !strcmp(name, disk.name))
		return FILE_OF_OURS;
	errno = ENOENT;
	return -1;
}

static int state_of(int fd, struct stat *s)
{
	*s = (struct stat){ .st_uid = geteuid(), .st_mode = fd == FOLDER ? S_IFDIR | 0700 : S_IFREG | 0600, .st_size = (off_t)disk.n };
	return 0;
}

static int state_at(int folder, const char *name, struct stat *s, int flags)
{
	(void)name, (void)flags;
	MUST(folder == FOLDER);
	return state_of(FILE_OF_OURS, s);
}

static ssize_t read_some(int fd, void *to, size_t bytes)
{
	MUST(fd == FILE_OF_OURS);
	bytes = bytes < disk.n - disk.at ? bytes : disk.n - disk.at;
	memcpy(to, disk.bytes + disk.at, bytes);
	disk.at += bytes;
	return (ssize_t)bytes;
}

static ssize_t write_all(int fd, const void *from, size_t bytes)
{
	MUST(fd == WRITTEN && bytes <= MOST - disk.n_put);
	memcpy(disk.put + disk.n_put, from, bytes);
	disk.n_put += bytes;
	return (ssize_t)bytes;
}

static int no_matter(int fd)
{
	(void)fd;
	return 0;
}

static int touch(int fd, const struct timespec times[2])
{
	(void)times;
	return no_matter(fd);
}

static int name_file(int from, const char *name, int to, const char *after)
{
	(void)from, (void)name, (void)to, (void)after;
	return 0;
}

static int remove_file(int folder, const char *name, int flags)
{
	MUST(folder == FOLDER && !flags && !strcmp(name, disk.name));
	disk.removed++;
	return 0;
}

static DIR *list_open(int fd)
{
	MUST(fd == LIST);
	disk.listed = !disk.bytes;
	return (DIR *)&disk;
}

static struct dirent *list_next(DIR *list)
{
	static struct dirent row;

	(void)list;
	if (disk.listed++)
		return NULL;
	strcpy(row.d_name, disk.name);
	return &row;
}

static int list_close(DIR *list)
{
	(void)list;
	return 0;
}

static const char *variable(int which)
{
	return which == CG_ENV_CACHE_DIR ? "/nowhere" : NULL;
}

static void mount(void)
{
	struct cg_cache_record record;

	cg_cache_set_record(&record, key, sizeof key);
	cg_cache_name(&record, disk.name);
	cg_disk.mkdir = make;
	cg_disk.open = open_folder;
	cg_disk.openat = open_file;
	cg_disk.fstat = state_of;
	cg_disk.fstatat = state_at;
	cg_disk.read = read_some;
	cg_disk.write = write_all;
	cg_disk.fsync = cg_disk.close = no_matter;
	cg_disk.futimens = touch;
	cg_disk.renameat = name_file;
	cg_disk.unlinkat = remove_file;
	cg_disk.fdopendir = list_open;
	cg_disk.readdir = list_next;
	cg_disk.closedir = list_close;
	cg_disk.variable = variable;
}

/* ---- one input ---- */

static void digest(const unsigned char *bytes, size_t n, unsigned char to[32])
{
#ifdef CG_LIBMD
	SHA2_CTX sha;

	SHA256Init(&sha);
	SHA256Update(&sha, bytes, n);
	SHA256Final(to, &sha);
#else
	(void)bytes, (void)n;
	memset(to, 0, 32);
#endif
}

static uint64_t number(const unsigned char *at)
{
	uint64_t n = 0;

	for (int k = 7; k >= 0; k--)
		n = n << 8 | at[k];
	return n;
}

/* The offset of the payload, if the file is whole; else 0. */
static size_t payload_at(void)
{
	unsigned char want[32];

	if (disk.n < 64 || memcmp(disk.bytes, "cellgrad\1\0\0\0\0\0\0\0", 16))
		return 0;
	digest(disk.bytes, disk.n - 32, want);
	if (memcmp(disk.bytes + disk.n - 32, want, 32) || number(disk.bytes + 16) >= disk.n - 64)
		return 0;
	return number(disk.bytes + 24) == disk.n - 64 - number(disk.bytes + 16) ? 32 + (size_t)number(disk.bytes + 16) : 0;
}

static int is_of_key(size_t end)
{
	struct cg_cache_record r;

	cg_cache_set_record(&r, key, sizeof key);
	return end == 32 + r.head_bytes + sizeof key && !memcmp(disk.bytes + 32, r.head, r.head_bytes) &&
	       !memcmp(disk.bytes + 32 + r.head_bytes, key, sizeof key);
}

static int see(const struct cg_cache_entry *e, void *user)
{
	++*(int *)user;
	MUST(!strcmp(e->file, disk.name) && e->bytes == disk.n);
	MUST(!e->about || payload_at());
	MUST(e->about || !payload_at() || !is_of_key(payload_at()));
	for (const char *c = e->about; c && *c; c++)
		MUST(*c >= 0x20 && *c < 0x7f);
	return CG_OK;
}

static unsigned long found;
static int refusing;                             /* 1: cg_memory_fail() has the next request for memory refused */

static void check(void)
{
	size_t at = payload_at(), bytes;
	int code, rows = 0;
	void *got;

	disk.removed = 0;
	code = cg_cache_get(key, sizeof key, &got, &bytes);
	MUST(code == CG_OK || (code == CG_NO_MEMORY && refusing));
	MUST(!got || !code);
	if (at && is_of_key(at)) {
		MUST(!disk.removed && (code || got));
		MUST(!got || (bytes == disk.n - 32 - at && !memcmp(got, disk.bytes + at, bytes)));
		found++;
	} else {
		MUST(!got && (code || disk.removed == 1));
	}
	cg_memory(got, 0);
	MUST(cg_cache_list(see, &rows) == CG_OK && rows == 1);
}

/* libFuzzer's entry.  The bytes are copied, so that a sanitizer sees a read beyond them. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{
	if (!disk.name[0])
		mount();
	if (!n)
		return 0;
	disk.n = n - 1;
	disk.bytes = malloc(n);
	if (!disk.bytes)
		return 0;
	memcpy(disk.bytes, data + 1, n - 1);
	if (data[0] & 1 && disk.n >= 32)
		digest(disk.bytes, disk.n - 32, disk.bytes + disk.n - 32);
	check();
	free(disk.bytes);
	disk.bytes = NULL;
	return 0;
}

#ifdef FUZZ_REPLAY
#include "tests/fuzz/replay.h"

static void add_seed(int first, const void *bytes, size_t n)
{
	static unsigned char input[MOST];

	MUST(n < MOST);
	input[0] = (unsigned char)first;
	memcpy(input + 1, bytes, n);
	replay_add_seed(input, n + 1);
}

/* Adds as seeds the files that the cache writes: five for the key of the test, and five for keys of other lengths. */
static void written(void)
{
	static unsigned char payload[6000];
	static const size_t lengths[] = { 1, 2, 100, 4096, 6000 };

	for (size_t k = 0; k < 5; k++) {
		disk.n_put = 0;
		cg_cache_put(key, sizeof key, payload, lengths[k]);
		MUST(disk.n_put > lengths[k]);
		add_seed(0, disk.put, disk.n_put);
		disk.n_put = 0;
		cg_cache_put(payload, lengths[4 - k], key, sizeof key);
		add_seed(0, disk.put, disk.n_put);
	}
}

/* Adds two seeds with the key of the test, whose lengths add up to the file's size: one without a payload; and one whose payload has
 * nearly 2^64 bytes by its length, so that the sum is right only modulo 2^64. */
static void lying(void)
{
	static const int payloads[] = { 0, 10 - 32 };

	for (int k = 0; k < 2; k++) {
		unsigned char bytes[512] = { 0 };
		size_t record;

		disk.n_put = 0;
		cg_cache_put(key, sizeof key, "x", 1);
		record = disk.n_put - 65;
		memcpy(bytes, disk.put, 32 + record);
		for (int j = 0; j < 8; j++)
			bytes[24 + j] = (unsigned char)((uint64_t)(int64_t)payloads[k] >> 8 * j);
		add_seed(1, bytes, (size_t)(64 + (long)record + payloads[k]));
	}
}

/* Changes lengths, bits or parts of a file, and most often corrects its digest. */
static size_t mutate(unsigned char *b, size_t n)
{
	static const uint64_t lengths[] = { 0, 1, 31, 32, 33, 64, 4096, 1u << 31, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 63 };
	size_t at = replay_draw(n), length = replay_draw(n - at < 80 ? n - at + 1 : 80);
	uint64_t value;

	b[0] = replay_draw(4) != 0;
	switch (replay_draw(6)) {
	case 0:
		b[at] ^= (unsigned char)(1u << replay_draw(8));
		return n;
	case 1:                                  /* changes a number in the header of the file or of the record */
	case 2:
		at = 1 + 8 * replay_draw(10);
		value = replay_draw(2) ? lengths[replay_draw(sizeof lengths / sizeof *lengths)] :
		        replay_draw(2) ? replay_draw(n + 9) : n - 65 - replay_draw(200);
		for (int k = 0; k < 8 && at + (size_t)k < n; k++)
			b[at + (size_t)k] = (unsigned char)(value >> 8 * k);
		return n;
	case 3:
		return at + 1;
	case 4:
		return length < n ? replay_cut(b, n, at, length) : 1;
	default:
		return replay_insert(b, n, at, b + at, length);
	}
}

static const char *begin(void)
{
#ifndef CG_LIBMD
	return "this build has no libmd";
#endif
	mount();
	written();
	lying();
	return NULL;
}

static void refuse(int on)
{
	refusing = on && !replay_draw(8);
	cg_memory_fail((size_t)refusing);
}

static void replayed(int has_files)
{
	MUST(found == 5 || has_files);
}

static void ended(unsigned long long count)
{
	(void)count;
	printf("# %lu were got\n", found);
}

const struct replay replay = { "cache", "files", 20000, 3, begin, mutate, refuse, replayed, ended };

#endif
