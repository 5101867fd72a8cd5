/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that appear whole or not at all: written under a temporary name in the directory of the path, then
 * renamed.  The file of that name that was there before is untouched until then.  Also reading a text.
 * A temporary is locked as long as it is one, so that what a killed process left can be told from what is being written.
 */
#ifndef FILE_H
#define FILE_H

#include <limits.h>
#include <stddef.h>

struct file {
	char path[PATH_MAX];             /* symbolic links resolved */
	char temporary[PATH_MAX];        /* "": none */
	int  fd, mode;
	struct claim *claim;
	struct file *next;
};

/* May the path be written?  Checked before the work whose result it is to hold.  CG_FILE says why not; CG_BAD_ARGUMENT: it is
 * claimed (claim.h), or named as temporaries are. */
int  file_check(struct file *, const char *path);
/* The same for a name that may be a slip, or was made from another: what is there already must be empty, or hold what the new one
 * will: an SVG or PNG; a text that begins so. */
int  file_check_picture(struct file *, const char *path);
int  file_check_text(struct file *, const char *path, const char *beginning);
/* After file_check: makes the temporary, fills it, gives it the name.  After a failure only file_discard may be called.
 * file_begin also removes the temporaries that killed processes of the same user left in that directory. */
int  file_begin(struct file *);
int  file_put(struct file *, const void *bytes, size_t n);
int  file_end(struct file *);
/* Removes what was begun and not ended.  Does nothing to a file that is ended or all zeros. */
void file_discard(struct file *);
/* The directory of a path: "." for a bare name. */
void path_folder(char folder[PATH_MAX], const char *path);
/* CG_BAD_ARGUMENT for "-", which other programs take for a standard stream; done: what it is not, "read" or "written". */
int  file_check_name(const char *path, const char *done);

/* The whole of a file as text, freed by cg_memory, and claimed; any: a pipe or device too.  CG_FILE: unreadable, longer than most
 * bytes, or no text. */
int file_text(const char *path, int any, size_t most, char **text);

/* Is it a file's name, with a slash or ending in .cell, and no built-in cell's? */
int file_is_cell(const char *word);
/* The cell of a word: a built-in one's name, or a file's; then *parsed is the caller's to close, else NULL.  given: by the user,
 * who may name a pipe; a file's metadata may not. */
struct cg_cell;
int file_cell(const char *word, int given, const struct cg_cell **cell, struct cg_cell **parsed);

#endif
