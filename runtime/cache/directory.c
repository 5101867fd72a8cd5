/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the cache folder by the environment variables, and checks that the user owns it and that its mode lets no other user write to it.
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

/* Does this process run with more rights than the user who started it? */
static int is_elevated(void)
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

static int get_limit(int what, struct rlimit *to)
{
	return getrlimit(what, to);
}

struct cg_disk cg_disk = {
	.mkdir = mkdir, .open = open_path, .openat = open_file, .fstat = fstat, .fstatat = fstatat,
	.read = read, .write = write, .fsync = fsync, .futimens = futimens, .close = close,
	.renameat = renameat, .unlinkat = unlinkat, .fdopendir = fdopendir, .readdir = readdir, .closedir = closedir,
	.getentropy = getentropy, .getrlimit = get_limit,
	.elevated = is_elevated, .variable = cg_variable_get, .geteuid = geteuid, .time = time,
};

/* ---- the environment ---- */

/* Judges an environment variable as cg_variable_judge() does, and writes the reason to field `why` if its value is not allowed. */
static int read_variable(struct cg_cache_directory *directory, int which, uint64_t *result)
{
	return cg_variable_judge(which, cg_disk.variable(which), result, directory->why, sizeof directory->why);
}

static void find_path(struct cg_cache_directory *directory)
{
	const char *own = cg_disk.variable(CG_ENV_CACHE_DIR);
	const char *xdg = cg_disk.variable(CG_ENV_XDG_CACHE_HOME);
	const char *home = cg_disk.variable(CG_ENV_HOME);
	const struct { const char *folder, *below; } choices[] = { { own, "" }, { xdg, "/cellgrad" }, { home, "/.cache/cellgrad" } };
	size_t k = 0, n, most = sizeof directory->path;

	if (!read_variable(directory, CG_ENV_CACHE_DIR, NULL))
		return;
	while (k < 3 && (!choices[k].folder || *choices[k].folder != '/'))
		k++;
	if (k == 3) {
		snprintf(directory->why, sizeof directory->why, "none of CELLGRAD_CACHE_DIR, XDG_CACHE_HOME and HOME is an absolute path");
		return;
	}
	/* Removes slashes at the end of the folder's path, with which open() would follow a symbolic link. */
	for (n = strlen(choices[k].folder); n && choices[k].folder[n - 1] == '/'; n--)
		;
	if (n >= most || (size_t)snprintf(directory->path, most, "%.*s%s", (int)n, choices[k].folder, choices[k].below) >= most) {
		directory->path[0] = '\0';
		snprintf(directory->why, sizeof directory->why, "cache folder: expected a path of fewer than %zu bytes, got '%.100s...'", most,
		         choices[k].folder);
	} else if (!directory->path[0]) {
		strcpy(directory->path, "/");
	}
}

static void find_mode(struct cg_cache_directory *directory)
{
	enum { OFF, RO, RW };                    /* the allowed words of CELLGRAD_CACHE, in the order of the table in environment.c */
	uint64_t word = RW;

	if (!read_variable(directory, CG_ENV_CACHE, &word)) {
		directory->path[0] = '\0';
		return;
	}
	directory->reads = word != OFF;
	directory->writes = word == RW;
	if (!directory->reads)
		snprintf(directory->why, sizeof directory->why, "CELLGRAD_CACHE=off");
}

static void find_size(struct cg_cache_directory *directory)
{
	directory->most = CG_CACHE_MOST;
	read_variable(directory, CG_ENV_CACHE_MAXSIZE, &directory->most);
}

#ifdef CG_LIBMD
enum { DIGESTS = 1 };
#else
enum { DIGESTS = 0 };
#endif

void cg_cache_choose_directory(struct cg_cache_directory *directory)
{
	memset(directory, 0, sizeof *directory);
	if (!DIGESTS)
		snprintf(directory->why, sizeof directory->why, "this build has no SHA-256: it was configured without libmd (Debian: libmd-dev)");
	else if (cg_disk.elevated())
		snprintf(directory->why, sizeof directory->why, "this program runs with more rights than the user who started it");
	if (!directory->why[0])
		find_size(directory);
	if (!directory->why[0])
		find_path(directory);
	if (!directory->why[0])
		find_mode(directory);
}

/* ---- the folder ---- */

/* Creates the folder and, if need be, its parent, which without CELLGRAD_CACHE_DIR is XDG_CACHE_HOME or ~/.cache.  Creates no folder above
 * the parent. */
static int make_directory(const char *path)
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

static int refuse(struct cg_cache_directory *directory, int fd)
{
	cg_disk.close(fd);
	directory->reads = directory->writes = 0;
	return -1;
}

int cg_cache_enter_directory(struct cg_cache_directory *directory, int make)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = cg_disk.open(directory->path, flags);
	struct stat s;

	if (fd < 0 && errno == ENOENT && make && make_directory(directory->path))
		fd = cg_disk.open(directory->path, flags);
	if (fd < 0) {
		if (errno != ENOENT || make) {
			snprintf(directory->why, sizeof directory->why, "%.300s: %s", directory->path,
			         errno == ELOOP || errno == ENOTDIR ? "a symbolic link, or not a folder" : strerror(errno));
			directory->reads = directory->writes = 0;
		}
		return -1;
	}
	if (cg_disk.fstat(fd, &s)) {
		snprintf(directory->why, sizeof directory->why, "%.300s: fstat: %s", directory->path, strerror(errno));
		return refuse(directory, fd);
	}
	if (s.st_uid != cg_disk.geteuid()) {
		snprintf(directory->why, sizeof directory->why, "%.300s: expected a folder of user %ld, got one of user %ld", directory->path,
		         (long)cg_disk.geteuid(), (long)s.st_uid);
		return refuse(directory, fd);
	}
	if (s.st_mode & (S_IWGRP | S_IWOTH)) {
		snprintf(directory->why, sizeof directory->why, "%.300s: other users may write to it, by its mode %03o",
		         directory->path, (unsigned)s.st_mode & 0777);
		return refuse(directory, fd);
	}
	return fd;
}

void cg_cache_find_directory(struct cg_cache_directory *directory)
{
	int fd;

	cg_cache_choose_directory(directory);
	fd = directory->reads ? cg_cache_enter_directory(directory, 0) : -1;
	if (fd >= 0)
		cg_disk.close(fd);
}
