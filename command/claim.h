/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims on files: on those that a command reads, and on those that a command will write. No output may replace an input, another output or
 * a compiled kernel in the cache. Files that exist are compared by device and inode, so their names do not matter. The functions of file.c
 * and safetensors.c claim each file that a command names as input or output, unless it is an input that is not a regular file. The
 * functions of this header must not run in several threads at the same time.
 */
#ifndef CLAIM_H
#define CLAIM_H

#include <sys/stat.h>

struct claim;

/* Claims an open file as an input, which no output of this process may then replace. CG_BAD_ARGUMENT: the file is a claimed output.
 * CG_NO_MEMORY: memory is exhausted. */
int  claim_input(int fd, const char *path, struct claim **);
/* Claims a file that will be written. there: the file's state from stat(), NULL where the file does not exist; path: its path as the user
 * wrote it; resolved: its path with symbolic links followed. CG_BAD_ARGUMENT: the file is a claimed input or output, or an entry of the
 * cache. CG_FILE: the folder of a file that does not exist cannot be looked at. CG_NO_MEMORY: memory is exhausted. */
int  claim_output(const char *path, const char *resolved, const struct stat *there, struct claim **);
/* Is the file a claimed input? */
int  claim_is_input(const struct stat *);

/* claim_end ends one claim, which may be NULL; claim_end_all ends all claims, when a command is done. */
void claim_end(struct claim *);
void claim_end_all(void);

#endif
