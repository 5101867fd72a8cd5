/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that appear whole or not at all: each is written under a temporary name in the same directory and then renamed, so that an older
 * file of that name stays until the new one is complete. A temporary file is locked while it is written; a temporary file without a
 * lock, where the filesystem has locks, is the leftover of a killed process. The functions of this header also read text files.
 */
#ifndef FILE_H
#define FILE_H

#include <limits.h>
#include <stddef.h>

struct file {
	char path[PATH_MAX];             /* the file's path; of a symbolic link, the path to which the link leads */
	char temporary[PATH_MAX];        /* the temporary file's path; "": there is none */
	int  fd, mode;
	struct claim *claim;
	struct file *next;
};

/* Checks, before a command's work, that a file can be written at the path, and claims it. CG_FILE: the file cannot be written, and the
 * message says why. CG_BAD_ARGUMENT: the file is claimed already (claim.h) or an entry of the cache, its name has the form of a temporary
 * file's, or the path is -. */
int  file_check(struct file *, const char *path);
/* The same as file_check for a path that a user may have mistyped, or that is derived from another path: an existing file must be empty
 * or, for file_check_picture, a picture, SVG or PNG, and for file_check_text a text that starts with `beginning`. */
int  file_check_picture(struct file *, const char *path);
int  file_check_text(struct file *, const char *path, const char *beginning);
/* After file_check: file_begin makes the temporary file, file_put appends to this file, file_end renames it. After a failure only
 * file_discard may be called. file_begin also removes the leftovers in that directory of killed processes of the same user. */
int  file_begin(struct file *);
int  file_put(struct file *, const void *bytes, size_t n);
int  file_end(struct file *);
/* Removes an unfinished temporary file and ends the claim. The function does nothing where the file is finished, or where the struct is all
 * zeros. */
void file_discard(struct file *);
/* The directory of a path: "." for a bare name. */
void path_folder(char folder[PATH_MAX], const char *path);
/* Refuses the path "-" with CG_BAD_ARGUMENT, since other programs take it for a standard stream. done: "read" or "written", for the
 * message. */
int  file_check_name(const char *path, const char *done);

/* Claims a text file and reads all of it; the caller frees the text by cg_memory. any: 1: the path may be a pipe or a device. CG_FILE:
 * the file cannot be read, is longer than `most` bytes, or is no text. */
int file_text(const char *path, int any, size_t most, char **text);

/* Is the word the path of a cell's file? The path of a cell's file has a slash or ends in .cell; the name of a cell of the library does
 * neither. */
int file_is_cell(const char *word);
/* Finds the cell that a word names: a cell of cg_cell_find(), or one in a file. *parsed: the cell from the file, which the caller closes;
 * NULL: the cell is one of the library. given: 1: the user wrote the word, so it may name a pipe; 0: it is from a file's metadata, and may
 * not name a pipe. */
struct cg_cell;
int file_cell(const char *word, int given, const struct cg_cell **cell, struct cg_cell **parsed);

#endif
