/* SPDX-License-Identifier: Apache-2.0 */
/* Declares what the parts of the stand-in for libnvrtc share. */
#ifndef FAKE_NVRTC_H
#define FAKE_NVRTC_H

#include <stddef.h>

#include "image.h"

/* Error codes of NVRTC, with their numbers in NVIDIA's nvrtc.h. */
enum {
	OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL_ERROR = 11
};

enum { MOST_FLAGS = 32 };

/* The parsed options of one compilation by NVRTC. */
struct options {
	int arch, is_virtual, flush, fuse;
	const char *flags[MOST_FLAGS];           /* the options -D and -U as the caller wrote them, for the C++ compiler */
	int n_flags;
};

/* Compiles a CUDA text, or reads its image from the cache; returns the image, from malloc, or NULL. *log: the messages of the compiler, or
   of the stand-in if it could not run the compiler, from malloc; NULL: there are none, as for an image from the cache. */
struct fake_image *fake_compile(const char *text, const char *name, const struct options *options, char **log);

#endif
