/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a command reads, and those that it is to write: no output takes the place of an input, of another output or of a
 * compiled kernel.  Files are compared by device and inode, whatever they are called.  Whoever opens or checks a file claims it;
 * file.c and safetensors.c do.  For one thread.
 */
#ifndef CLAIM_H
#define CLAIM_H

#include <sys/stat.h>

struct claim;

/* A file that is open to be read.  CG_BAD_ARGUMENT: it is a claimed output; CG_NO_MEMORY. */
int  claim_input(int fd, const char *path, struct claim **);
/* A file that is to be written: there is its state, NULL where there is none yet; path is what it was called, resolved what that
 * leads to.  CG_BAD_ARGUMENT: it is a claimed input or output, or an entry of the cache; CG_NO_MEMORY. */
int  claim_output(const char *path, const char *resolved, const struct stat *there, struct claim **);
/* Is the file a claimed input? */
int  claim_is_input(const struct stat *);

/* Ends one, which may be NULL; all of them, when a command is through. */
void claim_end(struct claim *);
void claim_end_all(void);

#endif
