/*
 * Files that appear whole or not at all, and reading a text.  What is in them is the caller's.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/command/file.h"
#include "runtime/runtime.h"

/* The temporaries there are, for the signal handler. */
static struct file *volatile begun;

static const int signals[] = { SIGHUP, SIGINT, SIGTERM };

static void interrupted(int number)
{
	for (struct file *f = begun; f; f = f->next)
		unlink(f->temporary);
	signal(number, SIG_DFL);
	raise(number);
}

static void hold_signals(int how)
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
		/* Under nohup HUP stays ignored. */
		if (!sigaction(signals[k], NULL, &was) && was.sa_handler == SIG_DFL)
			signal(signals[k], interrupted);
}

/* The directory of a path: "." for a bare name. */
static void directory(char place[PATH_MAX], const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		strcpy(place, ".");
	else
		snprintf(place, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

int file_check(struct file *f, const char *path)
{
	char place[PATH_MAX];
	struct stat there;

	*f = (struct file){ .fd = -1, .mode = -1 };
	if (strlen(path) >= PATH_MAX - 32)
		return cg_fail(CG_FILE, "%.40s...: the path is too long", path);
	if (path[strlen(path) - 1] == '/')
		return cg_fail(CG_FILE, "%s: names a directory, not a file", path);
	strcpy(f->path, path);
	if (!lstat(path, &there)) {
		/* A link stays a link: what it points to is replaced. */
		if (S_ISLNK(there.st_mode) && (!realpath(path, f->path) || stat(f->path, &there)))
			return cg_fail(CG_FILE, "%s: %s", path, strerror(errno));
		if (S_ISDIR(there.st_mode))
			return cg_fail(CG_FILE, "%s: is a directory", path);
		if (!S_ISREG(there.st_mode))
			return cg_fail(CG_FILE, "%s: is there and is not a regular file", path);
		if (faccessat(AT_FDCWD, f->path, W_OK, AT_EACCESS))
			return cg_fail(CG_FILE, "%s: %s", path, strerror(errno));
		f->mode = there.st_mode & 0777;
	}
	directory(place, f->path);
	if (stat(place, &there))
		return cg_fail(CG_FILE, "%s: %s: %s", path, place, strerror(errno));
	if (!S_ISDIR(there.st_mode))
		return cg_fail(CG_FILE, "%s: %s is not a directory", path, place);
	if (faccessat(AT_FDCWD, place, W_OK | X_OK, AT_EACCESS))
		return cg_fail(CG_FILE, "%s: cannot write into %s: %s", path, place, strerror(errno));
	return CG_OK;
}

int file_begin(struct file *f)
{
	char place[PATH_MAX];

	directory(place, f->path);
	catch_signals();
	hold_signals(SIG_BLOCK);
	for (int k = 0; k < 100; k++) {
		int n = snprintf(f->temporary, PATH_MAX, "%s/.cellgrad-%ld-%d", place, (long)getpid(), k);

		if (n >= PATH_MAX) {
			errno = ENAMETOOLONG;
			break;
		}
		f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (f->fd >= 0 || errno != EEXIST)
			break;
	}
	if (f->fd >= 0) {
		f->next = begun;
		begun = f;
	} else {
		f->temporary[0] = '\0';
	}
	hold_signals(SIG_UNBLOCK);
	if (f->fd < 0)
		return cg_fail(CG_FILE, "%s: cannot make a file in %s: %s", f->path, place, strerror(errno));
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

/* Off the list; the signal handler no longer sees it. */
static void forget(struct file *f)
{
	if (begun == f)
		begun = f->next;
	for (struct file *k = begun; k; k = k->next)
		if (k->next == f)
			k->next = f->next;
	f->temporary[0] = '\0';
}

int file_end(struct file *f)
{
	int failed, why;

	/* Network filesystems tell of a full disk here. */
	failed = close(f->fd);
	f->fd = -1;
	if (failed)
		return cg_fail(CG_FILE, "%s: close: %s", f->path, strerror(errno));
	hold_signals(SIG_BLOCK);
	failed = rename(f->temporary, f->path);
	why = errno;
	if (!failed)
		forget(f);
	hold_signals(SIG_UNBLOCK);
	if (failed)
		return cg_fail(CG_FILE, "%s: rename: %s", f->path, strerror(why));
	return CG_OK;
}

void file_drop(struct file *f)
{
	if (!f->temporary[0])
		return;
	hold_signals(SIG_BLOCK);
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	unlink(f->temporary);
	forget(f);
	hold_signals(SIG_UNBLOCK);
}

/* Reads on until the end or one byte more than most. */
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
	/* A pipe that nobody writes is not waited for. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | (any ? 0 : O_NONBLOCK)), code = CG_OK;
	struct stat is;
	size_t length;

	*text = NULL;
	if (fd < 0)
		return cg_fail(CG_FILE, "%s: %s", path, strerror(errno));
	if (!any && (fstat(fd, &is) || !S_ISREG(is.st_mode)))
		code = cg_fail(CG_FILE, "%s: not a regular file", path);
	else if (!(*text = cg_memory(NULL, most + 2)))
		code = CG_NO_MEMORY;
	else if (read_all(fd, *text, most, &length))
		code = cg_fail(CG_FILE, "%s: %s", path, strerror(errno));
	else if (length > most)
		code = cg_fail(CG_FILE, "%s: longer than %zu bytes", path, most);
	else if (memchr(*text, '\0', length))
		code = cg_fail(CG_FILE, "%s: has a zero byte, so it is no text", path);
	else
		(*text)[length] = '\0';
	close(fd);
	if (code)
		*text = cg_memory(*text, 0);
	return code;
}

int file_is_cell(const char *word)
{
	size_t length = strlen(word);

	return strchr(word, '/') || (length > 5 && !strcmp(word + length - 5, ".cell"));
}

int file_cell(const char *word, int said, const struct cg_cell **cell, struct cg_cell **parsed)
{
	char *source;
	int code;

	*parsed = NULL;
	if (file_is_cell(word)) {
		CG_TRY(file_text(word, said, CG_TEXT_MAX, &source));
		code = cg_cell_parse(source, word, parsed);
		cg_memory(source, 0);
		*cell = *parsed;
		return code;
	}
	*cell = cg_cell_find(word);
	return *cell ? CG_OK : CG_BAD_ARGUMENT;
}
