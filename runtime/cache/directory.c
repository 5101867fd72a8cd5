/*
 * Where the cache is, by the environment, and whether that folder may be trusted: it is ours and nobody else may write in it.
 * What is in the folder is left to cache.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

#include "runtime/cache/cache.h"
#include "runtime/cache/disk.h"
#include "runtime/core/environment.h"

/* ---- the system ---- */

/* Does this process have rights that its caller has not? */
static int elevated(void)
{
#ifdef __linux__
	return getauxval(AT_SECURE) != 0;
#else
	return issetugid();
#endif
}

static int open_path(const char *path, int flags)
{
	return open(path, flags);
}

static int open_file(int folder, const char *name, int flags, mode_t mode)
{
	return openat(folder, name, flags, mode);
}

static int limit(int what, struct rlimit *to)
{
	return getrlimit(what, to);
}

struct cg_disk cg_disk = {
	.mkdir = mkdir, .open = open_path, .openat = open_file, .fstat = fstat, .fstatat = fstatat,
	.read = read, .write = write, .fsync = fsync, .futimens = futimens, .close = close,
	.renameat = renameat, .unlinkat = unlinkat, .fdopendir = fdopendir, .readdir = readdir, .closedir = closedir,
	.getentropy = getentropy, .getrlimit = limit,
	.elevated = elevated, .variable = cg_variable, .geteuid = geteuid, .time = time,
};

/* ---- the environment ---- */

/* *result: the number, or the place of the word; as it was where the variable is unset. */
static int take(struct cg_cache_place *place, int which, uint64_t *result)
{
	return cg_variable_judge(which, cg_disk.variable(which), result, place->why, sizeof place->why);
}

static void find_path(struct cg_cache_place *place)
{
	const char *own = cg_disk.variable(CG_ENV_CACHE_DIR);
	const char *xdg = cg_disk.variable(CG_ENV_XDG_CACHE_HOME);
	const char *home = cg_disk.variable(CG_ENV_HOME);
	const struct { const char *folder, *below; } choices[] = { { own, "" }, { xdg, "/cellgrad" }, { home, "/.cache/cellgrad" } };
	size_t k = 0, n, most = sizeof place->path;

	if (!take(place, CG_ENV_CACHE_DIR, NULL))
		return;
	while (k < 3 && (!choices[k].folder || *choices[k].folder != '/'))
		k++;
	if (k == 3) {
		snprintf(place->why, sizeof place->why, "none of CELLGRAD_CACHE_DIR, XDG_CACHE_HOME and HOME is an absolute path");
		return;
	}
	/* Behind a slash at the end a symbolic link would be followed. */
	for (n = strlen(choices[k].folder); n && choices[k].folder[n - 1] == '/'; n--)
		;
	if (n >= most || (size_t)snprintf(place->path, most, "%.*s%s", (int)n, choices[k].folder, choices[k].below) >= most) {
		place->path[0] = '\0';
		snprintf(place->why, sizeof place->why, "the path has %zu bytes or more: '%.100s...'", most, choices[k].folder);
	} else if (!place->path[0]) {
		strcpy(place->path, "/");
	}
}

static void find_mode(struct cg_cache_place *place)
{
	enum { OFF, RO, RW };                    /* in the order of the variable's words */
	uint64_t word = RW;

	if (!take(place, CG_ENV_CACHE, &word)) {
		place->path[0] = '\0';
		return;
	}
	place->reads = word != OFF;
	place->writes = word == RW;
	if (!place->reads)
		snprintf(place->why, sizeof place->why, "CELLGRAD_CACHE=off");
}

static void find_size(struct cg_cache_place *place)
{
	place->most = CG_CACHE_MOST;
	take(place, CG_ENV_CACHE_MAXSIZE, &place->most);
}

#ifdef CG_LIBMD
enum { DIGESTS = 1 };
#else
enum { DIGESTS = 0 };
#endif

void cg_cache_settle(struct cg_cache_place *place)
{
	memset(place, 0, sizeof *place);
	if (!DIGESTS)
		snprintf(place->why, sizeof place->why, "this build has no SHA-256, which is libmd's (Debian: libmd-dev)");
	else if (cg_disk.elevated())
		snprintf(place->why, sizeof place->why, "this program runs with another user's rights");
	if (!place->why[0])
		find_size(place);
	if (!place->why[0])
		find_path(place);
	if (!place->why[0])
		find_mode(place);
}

/* ---- the folder ---- */

/* XDG_CACHE_HOME or ~/.cache may be missing too; nothing is made where a home should be. */
static int make(const char *path)
{
	char around[CG_CACHE_PATH];
	char *slash;

	if (!cg_disk.mkdir(path, 0700) || errno == EEXIST)
		return 1;
	if (errno != ENOENT)
		return 0;
	strcpy(around, path);
	slash = strrchr(around, '/');
	*slash = '\0';
	if (!*around || (cg_disk.mkdir(around, 0700) && errno != EEXIST))
		return 0;
	return !cg_disk.mkdir(path, 0700) || errno == EEXIST;
}

static int refuse(struct cg_cache_place *place, int fd)
{
	cg_disk.close(fd);
	place->reads = place->writes = 0;
	return -1;
}

int cg_cache_enter(struct cg_cache_place *place, int make_it)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = cg_disk.open(place->path, flags);
	struct stat s;

	if (fd < 0 && errno == ENOENT && make_it && make(place->path))
		fd = cg_disk.open(place->path, flags);
	if (fd < 0) {
		if (errno != ENOENT || make_it) {
			snprintf(place->why, sizeof place->why, "%.300s: %s", place->path,
			         errno == ELOOP || errno == ENOTDIR ? "a symbolic link, or no folder" : strerror(errno));
			place->reads = place->writes = 0;
		}
		return -1;
	}
	if (cg_disk.fstat(fd, &s)) {
		snprintf(place->why, sizeof place->why, "%.300s: fstat: %s", place->path, strerror(errno));
		return refuse(place, fd);
	}
	if (s.st_uid != cg_disk.geteuid()) {
		snprintf(place->why, sizeof place->why, "%.300s: expected a folder of user %ld, got one of user %ld", place->path,
		         (long)cg_disk.geteuid(), (long)s.st_uid);
		return refuse(place, fd);
	}
	if (s.st_mode & (S_IWGRP | S_IWOTH)) {
		snprintf(place->why, sizeof place->why, "%.300s: others may write in it, by its mode %03o",
		         place->path, (unsigned)s.st_mode & 0777);
		return refuse(place, fd);
	}
	return fd;
}

void cg_cache_place(struct cg_cache_place *place)
{
	int fd;

	cg_cache_settle(place);
	fd = place->reads ? cg_cache_enter(place, 0) : -1;
	if (fd >= 0)
		cg_disk.close(fd);
}
