/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that appear whole or not at all: each is written under a temporary name in the same directory and then renamed, so that an
 * older file of that name stays until the new one is complete. A temporary file is locked while it is written; one without a lock
 * is the leftover of a killed process. Also reads a text file.
 */
#ifndef FILE_H
#define FILE_H

#include <limits.h>
#include <stddef.h>

struct file {
	char path[PATH_MAX];             /* with symbolic links resolved */
	char temporary[PATH_MAX];        /* "": there is none */
	int  fd, mode;
	struct claim *claim;
	struct file *next;
};

/* Checks, before the work whose result it will hold, that the path can be written. CG_FILE: the message says why not.
 * CG_BAD_ARGUMENT: the file is claimed (claim.h), or its name has the form of a temporary's. */
int  file_check(struct file *, const char *path);
/* The same for a path that a user may have mistyped, or that is derived from another: an existing file must be empty or of the same
 * kind. That is an SVG or PNG picture; or a text that starts with `beginning`. */
int  file_check_picture(struct file *, const char *path);
int  file_check_text(struct file *, const char *path, const char *beginning);
/* After file_check: file_begin makes the temporary file, file_put appends to it, file_end renames it. After a failure only
 * file_discard may be called. file_begin also removes the leftovers in that directory of killed processes of the same user. */
int  file_begin(struct file *);
int  file_put(struct file *, const void *bytes, size_t n);
int  file_end(struct file *);
/* Removes an unfinished temporary file. Does nothing where the file is finished, or the struct all zeros. */
void file_discard(struct file *);
/* The directory of a path: "." for a bare name. */
void path_folder(char folder[PATH_MAX], const char *path);
/* Refuses "-" with CG_BAD_ARGUMENT, since other programs take it for a standard stream. done: "read" or "written", for the message. */
int  file_check_name(const char *path, const char *done);

/* Reads a whole text file, which it claims; free the text by cg_memory. any: also from a pipe or device. CG_FILE: not readable,
 * longer than `most` bytes, or not text. */
int file_text(const char *path, int any, size_t most, char **text);

/* Is the word the path of a cell's file? It is if it has a slash or ends in .cell, and no built-in cell has that name. */
int file_is_cell(const char *word);
/* Finds the cell that a word names: built in, or in a file. *parsed is then the file's cell, which the caller closes, or NULL.
 * given: the word is the user's, so that it may name a pipe; a word from a file's metadata may not. */
struct cg_cell;
int file_cell(const char *word, int given, const struct cg_cell **cell, struct cg_cell **parsed);

#endif
