/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of compiled kernels: reads and writes entries, removes the least recently used ones when a new entry would exceed the limit on
 * the bytes of all files, and lists and clears entries for the command.  When a kernel is looked up, any failure but exhausted memory
 * counts as a miss, and the kernel is compiled again; a failure to store a kernel is ignored.  entry.c has the format of a file;
 * directory.c finds and checks the folder.
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
	STALE = 60 * 60,                         /* seconds; no write takes so long: a temporary file that is older is abandoned */
	OLDEST = 64
};

int cg_cache_get(const void *key, size_t key_bytes, void **at, size_t *bytes)
{
	struct cg_cache_directory directory;
	struct cg_cache_record record;
	enum cg_cache_verdict verdict;
	char name[CG_CACHE_NAME];
	int folder, code;

	*at = NULL;
	*bytes = 0;
	cg_cache_choose_directory(&directory);
	folder = directory.reads ? cg_cache_enter_directory(&directory, 0) : -1;
	if (folder < 0)
		return CG_OK;
	cg_cache_set_record(&record, key, key_bytes);
	cg_cache_name(&record, name);
	code = cg_cache_read(folder, name, &record, directory.writes, at, bytes, &verdict);
	if (verdict == CG_CACHE_BAD && directory.writes)
		cg_disk.unlinkat(folder, name, 0);
	cg_disk.close(folder);
	return code;
}

/* ---- files ---- */

struct file {
	const char *name;
	uint64_t bytes;
	struct timespec used;
	int64_t age;
};

/* The seconds from `then` to `now`, negative for a date in the future; INT32_MAX if the two are farther apart, since a file's date may be
 * any number. */
static int64_t seconds_between(int64_t now, int64_t then)
{
	return then > now - INT32_MAX && then < now + INT32_MAX ? now - then : INT32_MAX;
}

/* Calls `visit` for each entry and each temporary file until `visit` returns a value other than 0, and returns that value; -1: the folder
 * cannot be read. */
static int visit_files(int folder, int (*visit)(int folder, const struct file *, void *user), void *user)
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
		f.age = seconds_between(now, s.st_mtime);
		code = visit(folder, &f, user);
	}
	failed = errno;
	cg_disk.closedir(list);
	if (code || !failed)
		return code;
	errno = failed;
	return -1;
}

/* ---- space: the least recently used entries are removed first ---- */

struct usage {
	uint64_t total;
	int n;
	struct old { char name[CG_CACHE_NAME]; uint64_t bytes; struct timespec used; } oldest[OLDEST];
};

static int is_older(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

static int add_usage(int folder, const struct file *f, void *user)
{
	struct usage *usage = user;
	int at;

	/* Removes a temporary file with a date more than STALE seconds from now: its writer has died before renaming the file. */
	if (cg_cache_is_temporary(f->name) && (f->age > STALE || f->age < -STALE) && !cg_disk.unlinkat(folder, f->name, 0))
		return 0;
	usage->total += f->bytes;
	if (cg_cache_is_temporary(f->name))
		return 0;
	for (at = usage->n; at && is_older(f->used, usage->oldest[at - 1].used); at--)
		if (at < OLDEST)
			usage->oldest[at] = usage->oldest[at - 1];
	if (at == OLDEST)
		return 0;
	strcpy(usage->oldest[at].name, f->name);
	usage->oldest[at].bytes = f->bytes;
	usage->oldest[at].used = f->used;
	usage->n += usage->n < OLDEST;
	return 0;
}

/* Removes the least recently used entries until `bytes` more bytes fit within the limit `most`; returns 0 if they do not fit or the folder
 * cannot be read.  If several processes write entries at the same time, the files may exceed the limit by one entry for each process, until
 * the next write. */
static int free_space(int folder, uint64_t bytes, uint64_t most)
{
	struct usage usage;
	int gone;

	do {
		usage.total = 0;
		usage.n = gone = 0;
		if (visit_files(folder, add_usage, &usage))
			return 0;
		for (int k = 0; k < usage.n && usage.total > most - bytes; k++)
			if (!cg_disk.unlinkat(folder, usage.oldest[k].name, 0)) {
				usage.total -= usage.oldest[k].bytes;
				gone = 1;
			}
	} while (gone && usage.total > most - bytes);
	return usage.total <= most - bytes;
}

/* ---- writing ---- */

/* Is the size within the process's limit on file sizes?  A write beyond that limit would kill the process by a signal. */
static int may_write(uint64_t bytes)
{
	struct rlimit limit;

	return !cg_disk.getrlimit(RLIMIT_FSIZE, &limit) && (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

void cg_cache_put(const void *key, size_t key_bytes, const void *at, size_t bytes)
{
	struct cg_cache_directory directory;
	struct cg_cache_record record;
	uint64_t total;
	int folder;

	cg_cache_choose_directory(&directory);
	if (!directory.writes || !bytes || bytes > CG_CACHE_ENTRY || key_bytes > CG_CACHE_ENTRY)
		return;
	cg_cache_set_record(&record, key, key_bytes);
	total = cg_cache_bytes(&record, bytes);
	if (total > CG_CACHE_ENTRY || total > directory.most || !may_write(total))
		return;
	folder = cg_cache_enter_directory(&directory, 1);
	if (folder < 0)
		return;
	if (free_space(folder, total, directory.most))
		cg_cache_write(folder, &record, at, bytes);
	cg_disk.close(folder);
}

/* ---- for the command ---- */

/* Opens the cache folder for the command, for which an unusable folder is an error.  *folder is -1 if the folder does not exist yet. */
static int enter_named(struct cg_cache_directory *directory, int *folder)
{
	cg_cache_choose_directory(directory);
	if (!directory->path[0])
		return cg_fail(CG_UNSUPPORTED, "%s", directory->why);
	directory->why[0] = '\0';
	*folder = cg_cache_enter_directory(directory, 0);
	return directory->why[0] ? cg_fail(CG_UNSUPPORTED, "%s", directory->why) : CG_OK;
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
	struct cg_cache_directory directory;
	int folder;

	CG_TRY(enter_named(&directory, &folder));
	if (folder < 0)
		return CG_OK;
	if (visit_files(folder, list_one, &listing) < 0)
		listing.code = cg_fail(CG_FILE, "%.300s: %s", directory.path, strerror(errno));
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
	struct cg_cache_directory directory;
	int folder;

	*files = 0;
	*bytes = 0;
	CG_TRY(enter_named(&directory, &folder));
	if (folder < 0)
		return CG_OK;
	c.path = directory.path;
	if (visit_files(folder, clear_one, &c) < 0)
		c.code = cg_fail(CG_FILE, "%.300s: %s", directory.path, strerror(errno));
	cg_disk.close(folder);
	*files = c.files;
	*bytes = c.bytes;
	return c.code;
}

static int is_same_file(int folder, const struct file *f, void *user)
{
	const struct stat *wanted = user;
	struct stat s;

	return !cg_disk.fstatat(folder, f->name, &s, AT_SYMLINK_NOFOLLOW) && s.st_dev == wanted->st_dev && s.st_ino == wanted->st_ino;
}

int cg_cache_has(const struct stat *wanted)
{
	struct cg_cache_directory directory;
	struct stat s = *wanted;
	int folder, found;

	cg_cache_choose_directory(&directory);
	folder = directory.path[0] ? cg_cache_enter_directory(&directory, 0) : -1;
	if (folder < 0)
		return 0;
	found = visit_files(folder, is_same_file, &s) > 0;
	cg_disk.close(folder);
	return found;
}
