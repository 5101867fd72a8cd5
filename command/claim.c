/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims on files. A file that does not exist yet is identified by its folder and its name.
 */
#include <errno.h>
#include <string.h>

#include "runtime/device/inspect.h"
#include "command/claim.h"
#include "command/file.h"

struct claim {
	struct claim *next;
	int   output, owners;            /* owners: how many claims of an input are not ended */
	dev_t device;                    /* device and inode of the file, or, if it does not exist, of its folder */
	ino_t inode;
	const char *name;                /* if the file does not exist, its name in its folder; NULL: the file exists */
	char  path[];                    /* the path as the user wrote it; behind it the text of `name` */
};

static struct claim *claims;

static struct claim *find(const struct stat *s, const char *name)
{
	struct claim *c = claims;

	while (c && (c->device != s->st_dev || c->inode != s->st_ino || !c->name != !name || (name && strcmp(c->name, name))))
		c = c->next;
	return c;
}

static int refuse(const struct claim *there, const char *path, int output)
{
	if (output && there->output)
		return cg_fail(CG_BAD_ARGUMENT, "%s and %s are the same output file: expected two files", there->path, path);
	return cg_fail(CG_BAD_ARGUMENT, "%s: this output would replace the input %s: expected another file", output ? path : there->path,
	               output ? there->path : path);
}

static int add(const char *path, const char *name, const struct stat *s, int output, struct claim **claim)
{
	size_t length = strlen(path) + 1, more = name ? strlen(name) + 1 : 0;
	struct claim *c = find(s, name);

	if (c && (output || c->output))
		return refuse(c, path, output);
	if (!c) {
		c = cg_memory(NULL, sizeof *c + length + more);
		if (!c)
			return CG_NO_MEMORY;
		*c = (struct claim){ .next = claims, .output = output, .device = s->st_dev, .inode = s->st_ino };
		memcpy(c->path, path, length);
		if (name)
			c->name = memcpy(c->path + length, name, more);
		claims = c;
	}
	c->owners++;
	*claim = c;
	return CG_OK;
}

int claim_input(int fd, const char *path, struct claim **claim)
{
	struct stat s;

	*claim = NULL;
	/* An input that is no regular file, such as a terminal, needs no claim, since no output can replace it. */
	if (fstat(fd, &s) || !S_ISREG(s.st_mode))
		return CG_OK;
	return add(path, NULL, &s, 0, claim);
}

int claim_output(const char *path, const char *resolved, const struct stat *there, struct claim **claim)
{
	const char *slash = strrchr(resolved, '/');
	char folder[PATH_MAX];
	struct stat s;

	*claim = NULL;
	if (there && cg_cache_has(there))
		return cg_fail(CG_BAD_ARGUMENT, "%s: this file is a compiled kernel of the cache, and no output replaces such a file: expected "
		               "another", path);
	if (there)
		return add(path, NULL, there, 1, claim);
	path_folder(folder, resolved);
	if (stat(folder, &s))
		return cg_fail(CG_FILE, "%s: %s: %s", path, folder, strerror(errno));
	return add(path, slash ? slash + 1 : resolved, &s, 1, claim);
}

int claim_is_input(const struct stat *s)
{
	const struct claim *c = find(s, NULL);

	return c && !c->output;
}

void claim_end(struct claim *claim)
{
	for (struct claim **at = &claims; *at; at = &(*at)->next)
		if (*at == claim && !--claim->owners) {
			*at = claim->next;
			cg_memory(claim, 0);
			return;
		}
}

void claim_end_all(void)
{
	struct claim *next;

	for (; claims; claims = next) {
		next = claims->next;
		cg_memory(claims, 0);
	}
}
