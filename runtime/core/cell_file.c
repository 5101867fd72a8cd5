/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads cells from files.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/cell.h"
#include "runtime/core/core.h"

#define REFUSE(...) cg_fail(CG_FILE, "cg_cell_load: " __VA_ARGS__)

/* Reads up to `most` bytes.  Returns the number of bytes read, or -1 with errno set. */
static ssize_t read_all(int fd, char *to, size_t most)
{
	size_t length = 0;
	ssize_t got;

	while (length < most && (got = read(fd, to + length, most - length))) {
		if (got < 0 && errno != EINTR)
			return -1;
		length += got < 0 ? 0 : (size_t)got;
	}
	return (ssize_t)length;
}

/* Reads a cell's text from an open file.  The buffer `text` has space for the longest text of a cell, one more byte and the final NUL. */
static int read_text(int fd, const char *path, char *text)
{
	struct stat is;
	ssize_t length;

	if (fstat(fd, &is) || !S_ISREG(is.st_mode))
		return REFUSE("%s: expected a regular file", path);
	length = read_all(fd, text, CG_TEXT_MAX + 1);
	if (length < 0)
		return REFUSE("%s: %s", path, strerror(errno));
	if (length > CG_TEXT_MAX)
		return REFUSE("%s: expected a file of at most %d bytes, got more", path, CG_TEXT_MAX);
	text[length] = '\0';
	if (strlen(text) != (size_t)length)
		return REFUSE("%s: has a zero byte, so it is not text", path);
	return CG_OK;
}

int cg_cell_load(const char *path, struct cg_cell **cell)
{
	char *text;
	int fd, code;

	if (cell)
		*cell = NULL;
	if (!path || !cell)
		return cg_fail(CG_BAD_ARGUMENT, "cg_cell_load: %s: expected a pointer, got NULL", path ? "cell" : "path");
	/* Without O_NONBLOCK, opening a pipe that has no writer would wait forever. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return REFUSE("%s: %s", path, strerror(errno));
	text = cg_memory(NULL, CG_TEXT_MAX + 2);
	code = text ? read_text(fd, path, text) : CG_NO_MEMORY;
	close(fd);
	if (!code)
		code = cg_cell_parse(text, path, cell);
	cg_memory(text, 0);
	return code;
}
