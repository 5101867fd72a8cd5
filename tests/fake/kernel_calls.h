/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a compiled kernel and the driver that runs it: what the kernel's object exports, and the checks that it calls before
 * accesses to memory. kernel_calls.c is linked into every kernel; cuda_run.c does the checks.
 */
#ifndef FAKE_KERNEL_CALLS_H
#define FAKE_KERNEL_CALLS_H

#include <stddef.h>
#include <stdint.h>

/* A kernel as its text declares it; kernel.h declares the same struct, with the same members in the same order. */
struct fake_kernel {
	const char *name;
	void (*run)(void *const *arguments);     /* runs one thread of the kernel */
	int n;                                   /* the number of the kernel's arguments */
	const unsigned short *sizes;             /* the size of each argument in bytes */
	const unsigned char *sorts;             /* sort of each argument: 1 pointer, 2 integer of 8 bytes, 3 structure aligned to 8, 0 other */
	unsigned threads;                        /* threads of a block by __launch_bounds__; 0: it has none */
	int barriers;                            /* the kernel's text has barriers */
};

/* Device memory where kernels see it, and a shadow with the state of every byte. */
enum { FAKE_SPARE, FAKE_FRESH, FAKE_WRITTEN, FAKE_FREED, FAKE_PENDING };
struct fake_memory { uint64_t base, used; unsigned char *shadow; };

struct fake_calls {
	struct fake_memory *memory;
	void (*access)(uint64_t at, size_t bytes, int store);
	void (*barrier)(int line);
	void (*mistake)(const char *what, const char *file, unsigned line, uint64_t value);
};

struct fake_dim { unsigned x, y, z; };

struct fake_object {
	const struct fake_calls **calls;
	struct fake_dim *thread, *block, *threads, *blocks;
	char *shared, *shared_end;               /* where the __shared__ variables of the text begin and end */
	const char *image, *image_end;           /* where the loaded shared object begins and ends: code, constants and variables */
	const struct fake_kernel *kernels;       /* the object's kernels; the last one has no name */
};

#endif
