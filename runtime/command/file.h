/*
 * Files that appear whole or not at all: written under a temporary name in the directory of the path, then
 * renamed.  The file of that name that was there before is untouched until then.  Also reading a text.
 */
#ifndef FILE_H
#define FILE_H

#include <limits.h>
#include <stddef.h>

struct file {
	char path[PATH_MAX];             /* symbolic links resolved */
	char temporary[PATH_MAX];        /* "": none */
	int  fd, mode;
	struct file *next;
};

/* May the path be written?  Asked before the work whose result it is to hold.  CG_FILE says why not. */
int  file_check(struct file *, const char *path);
/* After file_check: makes the temporary, fills it, gives it the name.  After a failure only file_drop is left. */
int  file_begin(struct file *);
int  file_put(struct file *, const void *bytes, size_t n);
int  file_end(struct file *);
/* Removes what was begun and not ended.  Does nothing to a file that is ended or all zeros. */
void file_drop(struct file *);

/* The whole of a file as text, freed by cg_memory; any: a pipe or device too.  CG_FILE: unreadable, longer than most bytes, or no
 * text. */
int file_text(const char *path, int any, size_t most, char **text);

/* Is it a file's name, with a slash or ending in .cell, and no built-in cell's? */
int file_is_cell(const char *word);
/* The cell of a word: a built-in one's name, or a file's; then *parsed is the caller's to
 * close, else NULL.  said: by the user, who may name a pipe; a file's metadata may not. */
struct cg_cell;
int file_cell(const char *word, int said, const struct cg_cell **cell, struct cg_cell **parsed);

#endif
