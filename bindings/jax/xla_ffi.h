/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares the structs that XLA's foreign function interface, version 0, passes to a handler, some without XLA's last fields, which the
 * handlers do not read.  tests/frameworks/jax_header.py compares every size, offset and constant with XLA's header.
 */
#ifndef JAX_XLA_FFI_H
#define JAX_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

/* Every struct but xla_bytes and xla_scalar begins with its size in the program that fills it; newer versions of XLA add fields at the
 * end. */
struct xla_extension { size_t size; int type; struct xla_extension *next; };
enum { XLA_METADATA = 1 };                       /* the type of the extension struct xla_metadata_extension */

struct xla_version { size_t size; struct xla_extension *extensions; int major_version, minor_version; };
enum { XLA_MAJOR_VERSION = 0, XLA_MINOR_VERSION = 1 };   /* the oldest version that the handlers support */
/* A handler fills this struct when a frame queries the handler's version. */
struct xla_metadata { size_t size; struct xla_version version; uint32_t traits; };
struct xla_metadata_extension { struct xla_extension base; struct xla_metadata *metadata; };

struct xla_error;                                /* an error of XLA; NULL: none */
enum { XLA_INVALID_ARGUMENT = 3, XLA_RESOURCE_EXHAUSTED = 8, XLA_UNIMPLEMENTED = 12, XLA_INTERNAL = 13 };
struct xla_error_create { size_t size; struct xla_extension *extensions; const char *message; int code; };

struct xla_api {
	size_t size;
	struct xla_extension *extensions;
	struct xla_version version;
	const void *internal;
	struct xla_error *(*create_error)(struct xla_error_create *);
};

enum { XLA_S32 = 4, XLA_U8 = 6, XLA_U32 = 8, XLA_S64 = 5, XLA_F16 = 10, XLA_F32 = 11, XLA_F64 = 12, XLA_BF16 = 16 };
struct xla_buffer { size_t size; struct xla_extension *extensions; int dtype; void *data; int64_t rank, *dims; };

enum { XLA_BUFFER = 1 };                         /* the type of arguments and results that are buffers */
enum { XLA_SCALAR = 3, XLA_STRING = 4 };  /* the types of attributes that the handlers read */
struct xla_bytes { const char *data; size_t length; };
struct xla_scalar { int dtype; void *value; };

struct xla_values { size_t size; struct xla_extension *extensions; int64_t count; int *types; void **items; };
struct xla_attributes { size_t size; struct xla_extension *extensions; int64_t count; int *types; struct xla_bytes **names; void **items; };

enum { XLA_EXECUTE = 3 };                        /* the stage of a call that executes it, which is the last one */
struct xla_frame {
	size_t size;
	struct xla_extension *extensions;
	const struct xla_api *api;
	void *context;
	int stage;
	struct xla_values arguments, results;
	struct xla_attributes attributes;
};

#endif
