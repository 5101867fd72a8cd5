/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files that appear whole or not at all, and reads text files. The caller chooses the contents of a file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/claim.h"
#include "command/file.h"
#include "runtime/device/inspect.h"

/* The list of all temporary files; the signal handler removes these files. */
static struct file *volatile begun;

static const int signals[] = { SIGHUP, SIGINT, SIGTERM };

static void interrupted(int number)
{
	for (struct file *f = begun; f; f = f->next)
		unlink(f->temporary);
	signal(number, SIG_DFL);
	raise(number);
}

static void mask_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t k = 0; k < sizeof signals / sizeof *signals; k++)
		sigaddset(&set, signals[k]);
	sigprocmask(how, &set, NULL);
}

static void catch_signals(void)
{
	static int done;
	struct sigaction was;

	if (done++)
		return;
	for (size_t k = 0; k < sizeof signals / sizeof *signals; k++)
		/* A signal that is ignored stays ignored, as HUP is under nohup. */
		if (!sigaction(signals[k], NULL, &was) && was.sa_handler == SIG_DFL)
			signal(signals[k], interrupted);
}

/* ---- temporaries: .cellgrad-PID-N ---- */

static const char form[] = ".cellgrad-";

/* The number of digits of the number with which the text begins, if it is written as printf writes it; else 0. */
static size_t digits(const char *s)
{
	size_t n = strspn(s, "0123456789");

	return *s == '0' && n > 1 ? 0 : n;
}

static int is_temporary(const char *name)
{
	size_t pid, n;

	if (strncmp(name, form, sizeof form - 1))
		return 0;
	name += sizeof form - 1;
	pid = digits(name);
	if (!pid || name[pid] != '-')
		return 0;
	n = digits(name + pid + 1);
	return n && !name[pid + 1 + n];
}

/*
 * Locks a file by flock, whose lock lasts until every descriptor of this opening is closed, those of child processes included. A POSIX lock
 * ends with the first close of the file in the process. Linux's locks of an open file outlast that close, but the BSDs lack such locks. On
 * NFS, Linux turns flock into a lock of the server, which other hosts see, if the file is open for writing. Returns 1: the file is locked;
 * 0: another process holds the lock; -1: the filesystem has no locks, so no file counts as a leftover.
 */
static int lock(int fd)
{
	while (flock(fd, LOCK_EX | LOCK_NB))
		if (errno != EINTR)
			return errno == EWOULDBLOCK ? 0 : -1;
	return 1;
}

/* Does the name in the folder still belong to the open file fd? */
static int has_name(int fd, int folder, const char *name, struct stat *s)
{
	struct stat there;

	return !fstat(fd, s) && !fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) && there.st_dev == s->st_dev &&
	       there.st_ino == s->st_ino;
}

/* Removes a temporary file that no process writes, after locking it. If this function locks or removes the new temporary file of another
 * process, that process makes another temporary file. */
static void remove_leftover(int folder, const char *name)
{
	int fd = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat s;

	if (fd < 0)
		return;
	if (!fstat(fd, &s) && S_ISREG(s.st_mode) && s.st_uid == geteuid() && lock(fd) == 1 && has_name(fd, folder, name, &s) &&
	    !claim_is_input(&s))
		unlinkat(folder, name, 0);
	close(fd);
}

static void remove_leftovers(const char *directory)
{
	DIR *folder = opendir(directory);
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (is_temporary(entry->d_name))
			remove_leftover(dirfd(folder), entry->d_name);
	if (folder)
		closedir(folder);
}

/* Creates a temporary file, locked where the filesystem has locks; -1 with errno on failure. */
static int make_temporary(char path[PATH_MAX], const char *directory)
{
	struct stat s;

	for (int k = 0; k < 100; k++) {
		int fd;

		if (snprintf(path, PATH_MAX, "%s/%s%ld-%d", directory, form, (long)getpid(), k) >= PATH_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0 && lock(fd) && has_name(fd, AT_FDCWD, path, &s))
			return fd;
		if (fd < 0 && errno != EEXIST)
			return -1;
		if (fd >= 0)
			close(fd);               /* another process took the file for a leftover and locked or removed it */
	}
	errno = EEXIST;
	return -1;
}

/* ---- checks of a path to be written ---- */

int file_check_name(const char *path, const char *done)
{
	if (strcmp(path, "-"))
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "-: standard %s is not %s: expected a file's name; ./- names a file that is called -",
	               *done == 'r' ? "input" : "output", done);
}

/* Checks that the path names a regular file that may be written, or no file yet. */
static int look(struct file *f, const char *path, struct stat *there)
{
	f->mode = -1;
	if (lstat(path, there))
		return CG_OK;
	/* A symbolic link stays: the file that it points to is replaced. */
	if (S_ISLNK(there->st_mode) && (!realpath(path, f->path) || stat(f->path, there)))
		return cg_fail(CG_FILE, "%s: %s", path, strerror(errno));
	if (S_ISDIR(there->st_mode))
		return cg_fail(CG_FILE, "%s: is a directory", path);
	if (!S_ISREG(there->st_mode))
		return cg_fail(CG_FILE, "%s: exists and is not a regular file", path);
	if (faccessat(AT_FDCWD, f->path, W_OK, AT_EACCESS))
		return cg_fail(CG_FILE, "%s: %s", path, strerror(errno));
	f->mode = there->st_mode & 0777;
	return CG_OK;
}

static int look_around(const struct file *f, const char *path)
{
	const char *slash = strrchr(f->path, '/');
	char directory[PATH_MAX];
	struct stat there;

	path_folder(directory, f->path);
	if (stat(directory, &there))
		return cg_fail(CG_FILE, "%s: %s: %s", path, directory, strerror(errno));
	if (!S_ISDIR(there.st_mode))
		return cg_fail(CG_FILE, "%s: %s is not a directory", path, directory);
	if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS))
		return cg_fail(CG_FILE, "%s: cannot write into %s: %s", path, directory, strerror(errno));
	if (is_temporary(slash ? slash + 1 : f->path))
		return cg_fail(CG_BAD_ARGUMENT, "%s: names of the form %sNUMBER-NUMBER are for temporary files: expected another name", path, form);
	return CG_OK;
}

int file_check(struct file *f, const char *path)
{
	struct stat there;

	*f = (struct file){ .fd = -1, .mode = -1 };
	if (strlen(path) >= PATH_MAX - 32)
		return cg_fail(CG_FILE, "%.40s...: the path is too long", path);
	CG_TRY(file_check_name(path, "written"));
	if (path[strlen(path) - 1] == '/')
		return cg_fail(CG_FILE, "%s: names a directory, not a file", path);
	strcpy(f->path, path);
	CG_TRY(look(f, path, &there));
	CG_TRY(look_around(f, path));
	return claim_output(path, f->path, f->mode < 0 ? NULL : &there, &f->claim);
}

/* ---- checks of a file to be replaced ---- */

/* Reads the first bytes of the file to be replaced and adds a zero byte; *n: the number of bytes read, 0 where no such file exists. */
static int read_beginning(const struct file *f, const char *path, char *bytes, size_t most, size_t *n)
{
	int fd = f->mode < 0 ? -1 : open(f->path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	*n = 0;
	if (f->mode < 0)
		return CG_OK;
	if (fd < 0)
		return cg_fail(CG_FILE, "%s: %s", path, strerror(errno));
	got = read(fd, bytes, most - 1);
	close(fd);
	if (got < 0)
		return cg_fail(CG_FILE, "%s: %s", path, strerror(errno));
	*n = (size_t)got;
	bytes[got] = '\0';
	return CG_OK;
}

static int is_picture(const char *bytes, size_t n)
{
	static const char png[] = "\x89PNG\r\n\x1a\n", mark[] = "\xef\xbb\xbf";
	static const char *const beginnings[] = { "<svg", "<?xml", "<!--", "<!DOCTYPE svg" };

	if (n >= sizeof png - 1 && !memcmp(bytes, png, sizeof png - 1))
		return 1;
	if (!strncmp(bytes, mark, sizeof mark - 1))
		bytes += sizeof mark - 1;
	bytes += strspn(bytes, " \t\r\n");
	for (size_t k = 0; k < sizeof beginnings / sizeof *beginnings; k++)
		if (!strncmp(bytes, beginnings[k], strlen(beginnings[k])))
			return strstr(bytes, "<svg") != NULL;
	return 0;
}

int file_check_picture(struct file *f, const char *path)
{
	char bytes[4096];
	size_t n;

	CG_TRY(file_check(f, path));
	CG_TRY(read_beginning(f, path, bytes, sizeof bytes, &n));
	if (!n || is_picture(bytes, n))
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "%s: exists and is neither an SVG nor a PNG, so the file is not replaced: expected another file", path);
}

int file_check_text(struct file *f, const char *path, const char *beginning)
{
	size_t length = strlen(beginning), n;
	char bytes[256];

	CG_TRY(file_check(f, path));
	CG_TRY(read_beginning(f, path, bytes, sizeof bytes, &n));
	if (!n || !strncmp(bytes, beginning, length))
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "%s: exists and does not begin with the names of the table's columns, of which \"%.*s\" is the first, "
	               "so the file is not replaced: expected another file", path, (int)strcspn(beginning, "\t"), beginning);
}

/* ---- writing ---- */

int file_begin(struct file *f)
{
	char directory[PATH_MAX];
	int why;

	path_folder(directory, f->path);
	catch_signals();
	mask_signals(SIG_BLOCK);
	f->fd = make_temporary(f->temporary, directory);
	why = errno;
	if (f->fd >= 0) {
		f->next = begun;
		begun = f;
	} else {
		f->temporary[0] = '\0';
	}
	mask_signals(SIG_UNBLOCK);
	if (f->fd < 0)
		return cg_fail(CG_FILE, "%s: cannot make a temporary file in folder %s: %s", f->path, directory, strerror(why));
	remove_leftovers(directory);
	if (f->mode >= 0 && fchmod(f->fd, (mode_t)f->mode))
		return cg_fail(CG_FILE, "%s: fchmod: %s", f->path, strerror(errno));
	return CG_OK;
}

int file_put(struct file *f, const void *bytes, size_t n)
{
	const char *at = bytes;

	while (n) {
		ssize_t put = write(f->fd, at, n < (size_t)1 << 30 ? n : (size_t)1 << 30);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return cg_fail(CG_FILE, "%s: write: %s", f->path, strerror(errno));
		at += put;
		n -= (size_t)put;
	}
	return CG_OK;
}

/* Takes a temporary file off the list, so that the signal handler does not remove it. */
static void forget(struct file *f)
{
	if (begun == f)
		begun = f->next;
	for (struct file *k = begun; k; k = k->next)
		if (k->next == f)
			k->next = f->next;
	f->temporary[0] = '\0';
}

/* Network filesystems report a full disk when a descriptor is closed. flush() finds a full disk by closing a duplicate of the descriptor,
 * since the file's lock ends when the last descriptor is closed. */
static int flush(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? fsync(fd) : close(copy);
}

int file_end(struct file *f)
{
	int failed, why;

	if (flush(f->fd))
		return cg_fail(CG_FILE, "%s: close: %s", f->path, strerror(errno));
	mask_signals(SIG_BLOCK);
	failed = rename(f->temporary, f->path);
	why = errno;
	if (!failed)
		forget(f);
	mask_signals(SIG_UNBLOCK);
	if (failed)
		return cg_fail(CG_FILE, "%s: rename: %s", f->path, strerror(why));
	close(f->fd);
	f->fd = -1;
	claim_end(f->claim);
	f->claim = NULL;
	return CG_OK;
}

void file_discard(struct file *f)
{
	if (f->temporary[0]) {
		mask_signals(SIG_BLOCK);
		unlink(f->temporary);
		forget(f);
		mask_signals(SIG_UNBLOCK);
		close(f->fd);
		f->fd = -1;
	}
	claim_end(f->claim);
	f->claim = NULL;
}

/* ---- reading ---- */

/* Reads a file up to its end, or to one byte beyond `most` bytes. */
static int read_all(int fd, char *text, size_t most, size_t *length)
{
	*length = 0;
	while (*length <= most) {
		ssize_t got = read(fd, text + *length, most + 1 - *length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (!got)
			break;
		*length += (size_t)got;
	}
	return 0;
}

int file_text(const char *path, int any, size_t most, char **text)
{
	/* Without `any`, a pipe is opened without waiting for its writer, and is refused below. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | (any ? 0 : O_NONBLOCK)), code;
	struct claim *claim;
	struct stat is;
	size_t length;

	*text = NULL;
	if (fd < 0)
		return cg_fail(CG_FILE, "%s: %s", path, strerror(errno));
	code = claim_input(fd, path, &claim);
	if (!code && !any && (fstat(fd, &is) || !S_ISREG(is.st_mode)))
		code = cg_fail(CG_FILE, "%s: not a regular file", path);
	if (code)
		goto out;
	if (!(*text = cg_memory(NULL, most + 2)))
		code = CG_NO_MEMORY;
	else if (read_all(fd, *text, most, &length))
		code = cg_fail(CG_FILE, "%s: %s", path, strerror(errno));
	else if (length > most)
		code = cg_fail(CG_FILE, "%s: longer than %zu bytes", path, most);
	else if (memchr(*text, '\0', length))
		code = cg_fail(CG_FILE, "%s: has a zero byte, so it is no text", path);
	else
		(*text)[length] = '\0';
out:
	close(fd);
	if (code)
		*text = cg_memory(*text, 0);
	return code;
}

/* Reports that the library has no cell of this name. If the working folder has a file of that name, with or without the ending .cell, the
 * message suggests that file; else it says how the path of a cell's file is recognised. */
static int no_cell(const char *word)
{
	char path[PATH_MAX];

	for (int k = 0; k < 2; k++)
		if (snprintf(path, sizeof path, "./%s%s", word, k ? "" : ".cell") < PATH_MAX && !access(path, F_OK))
			return cg_fail(CG_BAD_ARGUMENT, "%s; did you mean the file %s?", cg_message(), path);
	return cg_fail(CG_BAD_ARGUMENT, "%s%s a word that contains a / or ends in .cell names a cell's file", cg_message(),
	               strchr(cg_message(), '?') ? "" : ";");
}

int file_is_cell(const char *word)
{
	size_t length = strlen(word);

	return strchr(word, '/') || (length > 5 && !strcmp(word + length - 5, ".cell"));
}

int file_cell(const char *word, int given, const struct cg_cell **cell, struct cg_cell **parsed)
{
	char *source;
	int code;

	*parsed = NULL;
	if (file_is_cell(word)) {
		CG_TRY(file_text(word, given, CG_TEXT_MAX, &source));
		code = cg_cell_parse(source, word, parsed);
		cg_memory(source, 0);
		*cell = *parsed;
		return code;
	}
	CG_TRY(file_check_name(word, "read"));
	*cell = cg_cell_find(word);
	return *cell ? CG_OK : no_cell(word);
}
