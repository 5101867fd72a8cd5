/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes a file of the cache.  Reading trusts nothing in the file, and writing is atomic.
 *
 * The name of a file is the SHA-256 of its record, in hexadecimal digits, and ".kernel".  A file consists of the text "cellgrad"; the
 * number 1; the number of bytes of the record; the number of bytes of the payload; the record; the payload; and the SHA-256 of everything
 * before it.  A record has two parts, the library's version and the key; before each part is its length.  Each number and length in a file
 * has 8 bytes, the lowest first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef CG_LIBMD
#include <sha2.h>
#endif

#include "runtime/cache/cache.h"
#include "runtime/cache/entry.h"
#include "runtime/cache/disk.h"
#include "runtime/core/core.h"

enum { HEADER = 32, FORMAT = 1, DIGEST = 32, CHUNK = 4096 };
static const char magic[8] = { 'c', 'e', 'l', 'l', 'g', 'r', 'a', 'd' };
static const char ending[] = ".kernel", unfinished[] = ".kernel-unfinished", hex[] = "0123456789abcdef";

/* ---- SHA-256; without libmd the cache is off and nothing below is called ---- */

struct digest {
#ifdef CG_LIBMD
	SHA2_CTX sha;
#else
	int none;
#endif
};

static void digest_open(struct digest *d)
{
#ifdef CG_LIBMD
	SHA256Init(&d->sha);
#else
	d->none = 0;
#endif
}

static void digest_add(struct digest *d, const void *bytes, size_t n)
{
#ifdef CG_LIBMD
	if (n)
		SHA256Update(&d->sha, bytes, n);
#else
	(void)d, (void)bytes, (void)n;
#endif
}

static void digest_end(struct digest *d, unsigned char to[DIGEST])
{
#ifdef CG_LIBMD
	SHA256Final(to, &d->sha);
#else
	memset(to, d->none, DIGEST);
#endif
}

/* ---- records and names ---- */

static void put_number(unsigned char to[8], uint64_t n)
{
	for (int k = 0; k < 8; k++)
		to[k] = (unsigned char)(n >> 8 * k);
}

static uint64_t get_number(const unsigned char from[8])
{
	uint64_t n = 0;

	for (int k = 0; k < 8; k++)
		n |= (uint64_t)from[k] << 8 * k;
	return n;
}

void cg_cache_set_record(struct cg_cache_record *r, const void *key, size_t key_bytes)
{
	char version[sizeof r->head - 16];
	size_t n;

	snprintf(version, sizeof version, "cellgrad %s", cg_version());
	n = strlen(version);
	put_number(r->head, n);
	memcpy(r->head + 8, version, n);
	put_number(r->head + 8 + n, key_bytes);
	r->head_bytes = 16 + n;
	r->key = key;
	r->key_bytes = key_bytes;
}

void cg_cache_name(const struct cg_cache_record *r, char name[CG_CACHE_NAME])
{
	unsigned char digest[DIGEST];
	struct digest d;

	digest_open(&d);
	digest_add(&d, r->head, r->head_bytes);
	digest_add(&d, r->key, r->key_bytes);
	digest_end(&d, digest);
	for (int k = 0; k < DIGEST; k++)
		snprintf(name + 2 * k, 3, "%02x", digest[k]);
	strcpy(name + 2 * DIGEST, ending);
}

int cg_cache_is_entry(const char *name)
{
	return strspn(name, hex) == 2 * DIGEST && !strcmp(name + 2 * DIGEST, ending);
}

int cg_cache_is_temporary(const char *name)
{
	size_t n = strspn(name, "0123456789");

	return n && name[n] == '-' && strspn(name + n + 1, hex) == 16 && !strcmp(name + n + 17, unfinished);
}

/* ---- reading: a file may contain arbitrary bytes ---- */

struct entry {
	int fd;
	uint64_t record, payload;                /* bytes */
	struct digest digest;
};

static int read_bytes(struct entry *e, void *to, size_t bytes)
{
	for (size_t n = 0; n < bytes;) {
		ssize_t more = cg_disk.read(e->fd, (char *)to + n, bytes - n);

		if (more < 0 && errno == EINTR)
			continue;
		if (more <= 0)
			return 0;
		n += (size_t)more;
	}
	digest_add(&e->digest, to, bytes);
	return 1;
}

static int skip_bytes(struct entry *e, uint64_t bytes)
{
	unsigned char chunk[CHUNK];

	for (size_t n; bytes; bytes -= n) {
		n = bytes < CHUNK ? (size_t)bytes : CHUNK;
		if (!read_bytes(e, chunk, n))
			return 0;
	}
	return 1;
}

static int read_same(struct entry *e, const void *bytes, size_t n)
{
	const unsigned char *want = bytes;
	unsigned char chunk[CHUNK];

	for (size_t more; n; want += more, n -= more) {
		more = n < CHUNK ? n : CHUNK;
		if (!read_bytes(e, chunk, more) || memcmp(chunk, want, more))
			return 0;
	}
	return 1;
}

static int check_digest(struct entry *e)
{
	unsigned char want[DIGEST], have[DIGEST];

	digest_end(&e->digest, want);
	digest_open(&e->digest);
	return read_bytes(e, have, DIGEST) && !memcmp(have, want, DIGEST);
}

/* Opens a file and reads its header.  The flags of the open call keep a pipe from blocking it and symbolic links from being followed. */
static enum cg_cache_verdict open_entry(struct entry *e, int folder, const char *name)
{
	unsigned char header[HEADER];
	struct stat s;
	uint64_t rest;

	e->fd = cg_disk.openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	if (e->fd < 0)
		return errno == ELOOP || errno == ENXIO ? CG_CACHE_BAD : CG_CACHE_MISS;
	if (cg_disk.fstat(e->fd, &s))
		return CG_CACHE_MISS;
	if (!S_ISREG(s.st_mode) || s.st_uid != cg_disk.geteuid() || s.st_mode & (S_IWGRP | S_IWOTH))
		return CG_CACHE_BAD;
	if (s.st_size < HEADER + DIGEST || s.st_size > CG_CACHE_ENTRY)
		return CG_CACHE_BAD;
	digest_open(&e->digest);
	if (!read_bytes(e, header, sizeof header) || memcmp(header, magic, sizeof magic) || get_number(header + 8) != FORMAT)
		return CG_CACHE_BAD;
	rest = (uint64_t)s.st_size - HEADER - DIGEST;
	e->record = get_number(header + 16);
	e->payload = get_number(header + 24);
	return e->payload && e->record <= rest && e->payload == rest - e->record ? CG_CACHE_GOOD : CG_CACHE_BAD;
}

static void close_entry(struct entry *e)
{
	if (e->fd >= 0)
		cg_disk.close(e->fd);
}

static int read_entry(struct entry *e, const struct cg_cache_record *r, void **at, size_t *bytes,
                      enum cg_cache_verdict *verdict)
{
	void *payload;

	if (*verdict != CG_CACHE_GOOD)
		return CG_OK;
	*verdict = CG_CACHE_BAD;
	if (e->record != (uint64_t)r->head_bytes + r->key_bytes || !read_same(e, r->head, r->head_bytes) ||
	    !read_same(e, r->key, r->key_bytes))
		return CG_OK;
	payload = cg_memory(NULL, (size_t)e->payload);
	if (!payload) {
		*verdict = CG_CACHE_MISS;
		return CG_NO_MEMORY;
	}
	if (!read_bytes(e, payload, (size_t)e->payload) || !check_digest(e)) {
		cg_memory(payload, 0);
		return CG_OK;
	}
	*verdict = CG_CACHE_GOOD;
	*at = payload;
	*bytes = (size_t)e->payload;
	return CG_OK;
}

/* The date of modification stands for the last use, since few disks record the date of reading. */
static void touch(int fd)
{
	const struct timespec times[2] = { { 0, UTIME_OMIT }, { 0, UTIME_NOW } };

	cg_disk.futimens(fd, times);
}

int cg_cache_read(int folder, const char *name, const struct cg_cache_record *r, int touched, void **at, size_t *bytes,
                  enum cg_cache_verdict *verdict)
{
	struct entry e;
	int code;

	*verdict = open_entry(&e, folder, name);
	code = read_entry(&e, r, at, bytes, verdict);
	if (*verdict == CG_CACHE_GOOD && touched)
		touch(e.fd);
	close_entry(&e);
	return code;
}

/* Reads the record, and copies the first line of its key, possibly cut, to `about`. */
static int read_about(struct entry *e, char about[CG_CACHE_ABOUT])
{
	unsigned char number[8];
	uint64_t head, key;
	size_t n;

	if (e->record < 16 || !read_bytes(e, number, 8))
		return 0;
	head = get_number(number);
	if (head > e->record - 16 || !skip_bytes(e, head) || !read_bytes(e, number, 8))
		return 0;
	key = get_number(number);
	if (key != e->record - 16 - head)
		return 0;
	n = key < CG_CACHE_ABOUT ? (size_t)key : CG_CACHE_ABOUT - 1;
	if (!read_bytes(e, about, n) || !skip_bytes(e, key - n))
		return 0;
	about[n] = '\0';
	about[strcspn(about, "\n")] = '\0';
	for (char *c = about; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
	return 1;
}

int cg_cache_about(int folder, const char *name, char about[CG_CACHE_ABOUT])
{
	struct entry e;
	int whole = open_entry(&e, folder, name) == CG_CACHE_GOOD && read_about(&e, about) && skip_bytes(&e, e.payload) && check_digest(&e);

	close_entry(&e);
	return whole;
}

/* ---- writing ---- */

struct writer {
	int fd, failed;
	struct digest digest;
};

static void write_bytes(struct writer *w, const void *from, size_t bytes)
{
	digest_add(&w->digest, from, bytes);
	for (size_t n = 0; n < bytes && !w->failed;) {
		ssize_t more = cg_disk.write(w->fd, (const char *)from + n, bytes - n);

		if (more > 0)
			n += (size_t)more;
		else if (!more || errno != EINTR)
			w->failed = 1;
	}
}

static void write_entry(struct writer *w, const struct cg_cache_record *r, const void *payload, size_t bytes)
{
	unsigned char header[HEADER], digest[DIGEST];

	memcpy(header, magic, sizeof magic);
	put_number(header + 8, FORMAT);
	put_number(header + 16, (uint64_t)r->head_bytes + r->key_bytes);
	put_number(header + 24, bytes);
	digest_open(&w->digest);
	write_bytes(w, header, sizeof header);
	write_bytes(w, r->head, r->head_bytes);
	write_bytes(w, r->key, r->key_bytes);
	write_bytes(w, payload, bytes);
	digest_end(&w->digest, digest);
	write_bytes(w, digest, sizeof digest);
}

/* Creates a file with a name that no other process uses, on this machine or on another one that shares the disk. */
static int open_temporary(int folder, char name[CG_CACHE_NAME])
{
	uint64_t random;

	if (cg_disk.getentropy(&random, sizeof random))
		return -1;
	snprintf(name, CG_CACHE_NAME, "%ld-%016llx%s", (long)getpid(), (unsigned long long)random, unfinished);
	return cg_disk.openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

uint64_t cg_cache_bytes(const struct cg_cache_record *r, size_t payload)
{
	return HEADER + (uint64_t)r->head_bytes + r->key_bytes + payload + DIGEST;
}

/* Renames the file only after its bytes are on disk, so that a reader that finds the name finds all bytes, even after a crash. */
void cg_cache_write(int folder, const struct cg_cache_record *r, const void *payload, size_t bytes)
{
	char name[CG_CACHE_NAME], unnamed[CG_CACHE_NAME];
	struct writer w = { .fd = open_temporary(folder, unnamed) };

	if (w.fd < 0)
		return;
	cg_cache_name(r, name);
	write_entry(&w, r, payload, bytes);
	if (!w.failed && cg_disk.fsync(w.fd))
		w.failed = 1;
	if (cg_disk.close(w.fd))
		w.failed = 1;
	if (w.failed || cg_disk.renameat(folder, unnamed, folder, name))
		cg_disk.unlinkat(folder, unnamed, 0);
}
