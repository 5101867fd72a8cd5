/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors files: 8 bytes with the header's length, a JSON header that lists the tensors, the data. A file is mapped into memory, so
 * that only the tensors in use are read, and every number of the file's header is checked before it is used.
 */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "command/file.h"

enum { SAFETENSORS_RANK = 8 };

struct safetensors_tensor {
	const char *name;
	const char *dtype;               /* as in the file: "F32" */
	int  cg;                         /* an enum cg_dtype; -1: a dtype in which no op computes */
	int  rank;
	int64_t shape[SAFETENSORS_RANK];
	const unsigned char *data;       /* of an opened file: may be unaligned */
	size_t bytes;
};

struct safetensors {
	char   *path;
	struct claim *claim;             /* the claim of the file; NULL: the caller has the file's bytes in memory */
	void   *map;                     /* the mapped file; NULL: the caller has the file's bytes in memory */
	size_t  mapped;
	json_t *header;                  /* owns the names */
	json_t *metadata;                /* object of strings, or NULL */
	struct safetensors_tensor *tensors;      /* in the order of their data */
	size_t  n;
};

/* Opens a file. CG_FILE: the message says what is wrong with the file. CG_BAD_ARGUMENT: the path is -, or the file is a claimed output.
 * CG_NO_MEMORY: memory is exhausted. The caller closes the file only if safetensors_open returned CG_OK. */
int  safetensors_open(struct safetensors *, const char *path);
/* The same as safetensors_open for a file's bytes in memory, which must outlive the struct; path: the name of the bytes in messages. */
int  safetensors_parse(struct safetensors *, const char *path, const void *bytes, size_t n);
void safetensors_close(struct safetensors *);

/* Finds a tensor by its name; NULL: the file has no such tensor. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *, const char *name);
const char *safetensors_metadata(const struct safetensors *, const char *key);
/* The name of a tensor's dtype: the library's, such as "f32", or, where the library has no such dtype, the file's. */
const char *safetensors_dtype(const struct safetensors_tensor *);

/* The name of a dtype in safetensors files: "F32" for CG_F32. */
const char *safetensors_code(int cg_dtype);
/* Writes tensors and their metadata, a JSON object of strings, to a file that file_check has checked. Each tensor has the members name, cg,
 * rank, shape, data and bytes set, and dtype if cg is -1; the list of tensors is sorted in place. */
int safetensors_write(struct file *, struct safetensors_tensor *, size_t n, json_t *metadata);
/* The same as safetensors_write without the data, which the caller then writes in the sorted order. The caller also ends the file by
 * file_end, or discards it by file_discard. */
int safetensors_begin(struct file *, struct safetensors_tensor *, size_t n, json_t *metadata);

#endif
