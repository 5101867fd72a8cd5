/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the calls that the cache makes of its disk. Which files were written, and which were synced, is noted in memory that a child
 * process shares with its parent.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake/faulty_disk.h"

enum { FILES = 64 };

struct cg_disk disk_real;
int disk_error = EIO, disk_elevated;
long disk_most_write;
char disk_top[512], disk_folder[528];

static long made, fatal;
static enum disk_end end;
static const char *failed;

static struct unsynced { int n; struct { dev_t device; ino_t inode; enum disk_safety safety; } files[FILES]; } *unsynced;

long disk_at(long n, enum disk_end how)
{
	long before = __atomic_exchange_n(&made, 0, __ATOMIC_SEQ_CST);

	fatal = n;
	end = how;
	failed = NULL;
	return before;
}

const char *disk_failed(void)
{
	return failed;
}

/* Is this a call by which a process cleans up after a failure? */
static int tidies(const char *call)
{
	return !strcmp(call, "close") || !strcmp(call, "unlinkat") || !strcmp(call, "closedir");
}

/* Must this call fail? With DISK_FAILS_ON every later call must fail, too, except calls that clean up; at a power cut turn() ends the
   process. */
static int turn(const char *call)
{
	long now = __atomic_add_fetch(&made, 1, __ATOMIC_SEQ_CST);

	if (!fatal || now < fatal || (now > fatal && (end != DISK_FAILS_ON || tidies(call))))
		return 0;
	if (end == DISK_CUTS || end == DISK_CUTS_HALF)
		_exit(DISK_CUT);
	failed = call;
	errno = disk_error;
	return 1;
}

/* ---- what is not on the disk yet ---- */

static void note(int fd, enum disk_safety safety)
{
	struct stat s;
	int k;

	if (!unsynced || disk_real.fstat(fd, &s))
		return;
	for (k = 0; k < unsynced->n; k++)
		if (unsynced->files[k].device == s.st_dev && unsynced->files[k].inode == s.st_ino)
			break;
	if (k == FILES)
		abort();
	unsynced->files[k].device = s.st_dev;
	unsynced->files[k].inode = s.st_ino;
	unsynced->files[k].safety = safety;
	if (k == unsynced->n)
		unsynced->n++;
}

void disk_sync(void)
{
	if (!unsynced)
		unsynced = mmap(NULL, sizeof *unsynced, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (unsynced == MAP_FAILED)
		abort();
	memset(unsynced, 0, sizeof *unsynced);
}

enum disk_safety disk_safety(const struct stat *s)
{
	for (int k = 0; unsynced && k < unsynced->n; k++)
		if (unsynced->files[k].device == s->st_dev && unsynced->files[k].inode == s->st_ino)
			return unsynced->files[k].safety;
	return DISK_SAFE;
}

/* ---- the calls ---- */

#define DISK_CALL(type, name, parameters, names) \
	static type watch_##name parameters { return turn(#name) ? -1 : disk_real.name names; }
#define DISK_MAKE(type, name, parameters, names) \
	static type watch_##name parameters { return turn(#name) ? NULL : disk_real.name names; }
#define DISK_ASK(type, name, parameters, names) \
	static type watch_##name parameters { return disk_real.name names; }
#include "runtime/cache/disk.fn"
#undef DISK_CALL
#undef DISK_MAKE
#undef DISK_ASK

static ssize_t write_some(int fd, const void *from, size_t bytes)
{
	if (fatal && end == DISK_CUTS_HALF && made + 1 == fatal && bytes > 1) {
		note(fd, DISK_LOST);
		disk_real.write(fd, from, bytes / 2);
	}
	if (turn("write"))
		return -1;
	note(fd, DISK_LOST);
	if (disk_most_write && bytes > (size_t)disk_most_write)
		bytes = (size_t)disk_most_write;
	return disk_real.write(fd, from, bytes);
}

static int sync_file(int fd)
{
	if (turn("fsync"))
		return -1;
	note(fd, DISK_SYNCED);
	return unsynced ? 0 : disk_real.fsync(fd);       /* the real disk need not sync: at a power cut the test discards unsynced data */
}

/* A close that is made to fail closes the file all the same. */
static int close_file(int fd)
{
	int fails = turn("close"), code = disk_real.close(fd);

	if (!fails)
		return code;
	errno = disk_error;
	return -1;
}

static int close_list(DIR *list)
{
	int fails = turn("closedir"), code = disk_real.closedir(list);

	if (!fails)
		return code;
	errno = disk_error;
	return -1;
}

static int elevated(void)
{
	return disk_elevated;
}

int disk_skip(int *status)
{
#ifdef CG_LIBMD
	(void)status;
	return 0;
#else
	const char *required = getenv("CELLGRAD_TEST_REQUIRE");

	*status = required && strstr(required, "libmd");
	printf(*status ? "1..1\nnot ok 1 - libmd is required\n" : "1..0 # SKIP this build has no libmd\n");
	return 1;
#endif
}

/* ---- a folder, and an environment ---- */

void disk_open(void)
{
	const char *at = getenv("TMPDIR");

	disk_real = cg_disk;
#define DISK_CALL(type, name, parameters, names) cg_disk.name = watch_##name;
#define DISK_MAKE DISK_CALL
#define DISK_ASK DISK_CALL
#include "runtime/cache/disk.fn"
#undef DISK_CALL
#undef DISK_MAKE
#undef DISK_ASK
	cg_disk.write = write_some;
	cg_disk.fsync = sync_file;
	cg_disk.close = close_file;
	cg_disk.closedir = close_list;
	cg_disk.elevated = elevated;
	disk_at(0, DISK_FAILS);
	disk_error = EIO;
	disk_elevated = 0;
	disk_most_write = 0;
	snprintf(disk_top, sizeof disk_top, "%s/cache-XXXXXX", at && *at == '/' ? at : access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (!mkdtemp(disk_top))
		abort();
	snprintf(disk_folder, sizeof disk_folder, "%s/kernels", disk_top);
	unsetenv("CELLGRAD_CACHE");
	unsetenv("CELLGRAD_CACHE_MAXSIZE");
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", disk_top, 1);
	setenv("CELLGRAD_CACHE_DIR", disk_folder, 1);
}

static int remove_one(const char *path, const struct stat *s, int what, struct FTW *at)
{
	(void)s, (void)what, (void)at;
	return remove(path);
}

void disk_remove(const char *folder)
{
	nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void disk_close(void)
{
	cg_disk = disk_real;
	disk_remove(disk_top);
}
