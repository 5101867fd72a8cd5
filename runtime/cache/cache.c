/*
 * The cache: what is got from its folder and put into it, what goes when there is too much, and what the command asks for.
 * Whatever goes wrong is a miss, and the kernel is compiled again.  A file's own business is entry.c's, the folder's
 * directory.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "runtime/cache/cache.h"
#include "runtime/cache/entry.h"
#include "runtime/cache/disk.h"
#include "runtime/core/core.h"

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

enum {
	STALE = 60 * 60,                         /* seconds: nobody writes that long */
	OLDEST = 64
};

int cg_cache_get(const void *key, size_t key_bytes, void **at, size_t *bytes)
{
	struct cg_cache_place place;
	struct cg_cache_record record;
	enum cg_cache_verdict verdict;
	char name[CG_CACHE_NAME];
	int folder, code;

	*at = NULL;
	*bytes = 0;
	cg_cache_settle(&place);
	folder = place.reads ? cg_cache_enter(&place, 0) : -1;
	if (folder < 0)
		return CG_OK;
	cg_cache_record(&record, key, key_bytes);
	cg_cache_name(&record, name);
	code = cg_cache_read(folder, name, &record, place.writes, at, bytes, &verdict);
	if (verdict == CG_CACHE_BAD && place.writes)
		cg_disk.unlinkat(folder, name, 0);
	cg_disk.close(folder);
	return code;
}

/* ---- the files there are ---- */

struct file {
	const char *name;
	uint64_t bytes;
	struct timespec used;
	int64_t age;
};

/* A date may be anything. */
static int64_t age(int64_t now, int64_t then)
{
	return then > now - INT32_MAX && then < now + INT32_MAX ? now - then : INT32_MAX;
}

/* Calls `see` for each file of ours until it returns other than 0, and returns that; -1: the folder cannot be read. */
static int scan(int folder, int (*see)(int folder, const struct file *, void *user), void *user)
{
	int fd = cg_disk.openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), code = 0, failed;
	DIR *list = fd < 0 ? NULL : cg_disk.fdopendir(fd);
	time_t now = cg_disk.time(NULL);
	struct dirent *row;
	struct stat s;

	if (!list) {
		if (fd >= 0)
			cg_disk.close(fd);
		return -1;
	}
	for (errno = 0; !code && (row = cg_disk.readdir(list)); errno = 0) {
		struct file f = { .name = row->d_name };

		if (!cg_cache_is_entry(f.name) && !cg_cache_is_temporary(f.name))
			continue;
		if (cg_disk.fstatat(folder, f.name, &s, AT_SYMLINK_NOFOLLOW))
			continue;
		f.bytes = S_ISREG(s.st_mode) && s.st_size > 0 ? (uint64_t)s.st_size : 0;
		f.used = s.st_mtim;
		f.age = age(now, s.st_mtime);
		code = see(folder, &f, user);
	}
	failed = errno;
	cg_disk.closedir(list);
	if (code || !failed)
		return code;
	errno = failed;
	return -1;
}

/* ---- room: those that were of use longest ago go first ---- */

struct room {
	uint64_t total;
	int n;
	struct old { char name[CG_CACHE_NAME]; uint64_t bytes; struct timespec used; } oldest[OLDEST];
};

static int older(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

static int count(int folder, const struct file *f, void *user)
{
	struct room *room = user;
	int at;

	/* What a writer left that did not live to name it. */
	if (cg_cache_is_temporary(f->name) && (f->age > STALE || f->age < -STALE) && !cg_disk.unlinkat(folder, f->name, 0))
		return 0;
	room->total += f->bytes;
	if (cg_cache_is_temporary(f->name))
		return 0;
	for (at = room->n; at && older(f->used, room->oldest[at - 1].used); at--)
		if (at < OLDEST)
			room->oldest[at] = room->oldest[at - 1];
	if (at == OLDEST)
		return 0;
	strcpy(room->oldest[at].name, f->name);
	room->oldest[at].bytes = f->bytes;
	room->oldest[at].used = f->used;
	room->n += room->n < OLDEST;
	return 0;
}

/* Whether there is room for `bytes` within `most`, or now is.  Others write too: together they may pass the mark by what each
 * writes at a time, until the next who writes. */
static int make_room(int folder, uint64_t bytes, uint64_t most)
{
	struct room room;
	int gone;

	do {
		room.total = 0;
		room.n = gone = 0;
		if (scan(folder, count, &room))
			return 0;
		for (int k = 0; k < room.n && room.total > most - bytes; k++)
			if (!cg_disk.unlinkat(folder, room.oldest[k].name, 0)) {
				room.total -= room.oldest[k].bytes;
				gone = 1;
			}
	} while (gone && room.total > most - bytes);
	return room.total <= most - bytes;
}

/* ---- putting ---- */

/* To write past this process's limit would be to end it by a signal. */
static int may_write(uint64_t bytes)
{
	struct rlimit limit;

	return !cg_disk.getrlimit(RLIMIT_FSIZE, &limit) && (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

void cg_cache_put(const void *key, size_t key_bytes, const void *at, size_t bytes)
{
	struct cg_cache_place place;
	struct cg_cache_record record;
	uint64_t total;
	int folder;

	cg_cache_settle(&place);
	if (!place.writes || !bytes || bytes > CG_CACHE_ENTRY || key_bytes > CG_CACHE_ENTRY)
		return;
	cg_cache_record(&record, key, key_bytes);
	total = cg_cache_bytes(&record, bytes);
	if (total > CG_CACHE_ENTRY || total > place.most || !may_write(total))
		return;
	folder = cg_cache_enter(&place, 1);
	if (folder < 0)
		return;
	if (make_room(folder, total, place.most))
		cg_cache_write(folder, &record, at, bytes);
	cg_disk.close(folder);
}

/* ---- for the command ---- */

/* Enters for somebody who asked; *folder -1: it is not there yet. */
static int enter_asked(struct cg_cache_place *place, int *folder)
{
	cg_cache_settle(place);
	if (!place->path[0])
		return cg_fail(CG_UNSUPPORTED, "%s", place->why);
	place->why[0] = '\0';
	*folder = cg_cache_enter(place, 0);
	return place->why[0] ? cg_fail(CG_UNSUPPORTED, "%s", place->why) : CG_OK;
}

struct listing {
	int (*each)(const struct cg_cache_entry *, void *user);
	void *user;
	int code;
};

static int list_one(int folder, const struct file *f, void *user)
{
	struct listing *listing = user;
	struct cg_cache_entry row = { .file = f->name, .bytes = f->bytes, .age = f->age };
	char about[CG_CACHE_ABOUT];

	if (cg_cache_is_temporary(f->name))
		return 0;
	if (cg_cache_about(folder, f->name, about))
		row.about = about;
	listing->code = listing->each(&row, listing->user);
	return listing->code != CG_OK;
}

int cg_cache_list(int (*each)(const struct cg_cache_entry *, void *user), void *user)
{
	struct listing listing = { each, user, CG_OK };
	struct cg_cache_place place;
	int folder;

	CG_TRY(enter_asked(&place, &folder));
	if (folder < 0)
		return CG_OK;
	if (scan(folder, list_one, &listing) < 0)
		listing.code = cg_fail(CG_FILE, "%.300s: %s", place.path, strerror(errno));
	cg_disk.close(folder);
	return listing.code;
}

struct clearing {
	size_t files;
	uint64_t bytes;
	const char *path;
	int code;
};

static int clear_one(int folder, const struct file *f, void *user)
{
	struct clearing *c = user;

	if (!cg_disk.unlinkat(folder, f->name, 0)) {
		c->files++;
		c->bytes += f->bytes;
	} else if (errno != ENOENT) {
		c->code = cg_fail(CG_FILE, "%.300s/%s: %s", c->path, f->name, strerror(errno));
	}
	return 0;
}

int cg_cache_clear(size_t *files, uint64_t *bytes)
{
	struct clearing c = { .code = CG_OK };
	struct cg_cache_place place;
	int folder;

	*files = 0;
	*bytes = 0;
	CG_TRY(enter_asked(&place, &folder));
	if (folder < 0)
		return CG_OK;
	c.path = place.path;
	if (scan(folder, clear_one, &c) < 0)
		c.code = cg_fail(CG_FILE, "%.300s: %s", place.path, strerror(errno));
	cg_disk.close(folder);
	*files = c.files;
	*bytes = c.bytes;
	return c.code;
}

static int is_file(int folder, const struct file *f, void *user)
{
	const struct stat *wanted = user;
	struct stat s;

	return !cg_disk.fstatat(folder, f->name, &s, AT_SYMLINK_NOFOLLOW) && s.st_dev == wanted->st_dev && s.st_ino == wanted->st_ino;
}

int cg_cache_has(const struct stat *wanted)
{
	struct cg_cache_place place;
	struct stat s = *wanted;
	int folder, found;

	cg_cache_settle(&place);
	folder = place.path[0] ? cg_cache_enter(&place, 0) : -1;
	if (folder < 0)
		return 0;
	found = scan(folder, is_file, &s) > 0;
	cg_disk.close(folder);
	return found;
}
