/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors files: 8 bytes of header length, a JSON header that lists the tensors, the data. Reading maps the file, so that only
 * the tensors that are used are read; every number in the header is checked against the file before it is used.
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
	const char *dtype;               /* as in the file, "F32" */
	int  cg;                         /* the enum cg_dtype, or -1: a dtype that no op computes in */
	int  rank;
	int64_t shape[SAFETENSORS_RANK];
	const unsigned char *data;       /* at any address, aligned or not */
	size_t bytes;
};

struct safetensors {
	char   *path;
	struct claim *claim;             /* NULL: as below */
	void   *map;                     /* NULL: the bytes are the caller's */
	size_t  mapped;
	json_t *header;                  /* holds the names */
	json_t *metadata;                /* an object of strings, or NULL */
	struct safetensors_tensor *tensors;      /* in the order of their data */
	size_t  n;
};

/* CG_FILE and what is wrong with the file; CG_NO_MEMORY.  Close it only when this returned CG_OK. */
int  safetensors_open(struct safetensors *, const char *path);
/* The same for bytes in memory, which must outlive it; path: their name in messages. */
int  safetensors_parse(struct safetensors *, const char *path, const void *bytes, size_t n);
void safetensors_close(struct safetensors *);

/* NULL: not in it. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *, const char *name);
const char *safetensors_metadata(const struct safetensors *, const char *key);
/* The tensor's dtype in our words where we have one, "f32", else the file's. */
const char *safetensors_dtype(const struct safetensors_tensor *);

/* "F32" for CG_F32. */
const char *safetensors_code(int cg_dtype);
/* Writes tensors (name, cg or else dtype, rank, shape, data, bytes; sorted in place) and an object of strings into a checked
 * file. */
int safetensors_write(struct file *, struct safetensors_tensor *, size_t n, json_t *metadata);
/* The same without the data, which the caller then puts in the order that the tensors are left in; he ends the file, or drops it. */
int safetensors_begin(struct file *, struct safetensors_tensor *, size_t n, json_t *metadata);

#endif
