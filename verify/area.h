/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of one argument between guards: the bytes before a call, the bytes after it, and whether the call wrote outside it. A call
 * gets the host's memory, or memory of a device with the same guards.
 */
#ifndef AREA_H
#define AREA_H

#include "runtime/cellgrad.h"

/* Where a call runs: a context and a stream on it. */
struct side {
	const char *name;                /* for messages */
	struct cg_context *context;
	struct cg_stream *stream;
	const char *route;               /* the route of networks; NULL: each plan chooses its route */
};

/* In which memory a case has its arguments. AREA_MIXED: arguments of even number in the device's memory, those of odd number in the
 * host's. AREA_ARENA: in one block of the device's memory, as many arguments as fit. */
enum area_memory { AREA_HOST, AREA_DEVICE, AREA_MIXED, AREA_ARENA, AREA_MEMORIES };
extern const char *const area_memories[AREA_MEMORIES];

struct area {
	size_t bytes;                    /* length of the argument */
	size_t before;                   /* bytes before the argument: the guard, and `shift` bytes that vary the alignment */
	unsigned char *start, *host;     /* the bytes with guards. start: before the call; host: after it */
	struct cg_mem device;
	int in_arena;
};

/* Allocates the argument with its guards, filled with poison. shift: bytes between guard and argument, a multiple of the element's size. */
int  area_open(struct area *, size_t bytes, size_t shift);
void area_close(struct area *);
/* The argument's bytes without the guards. area_in: the bytes before a call, to be filled; area_out: the bytes that the call left, to be
 * read after area_back. */
unsigned char *area_in(const struct area *);
const unsigned char *area_out(const struct area *);
/* Lends a call the argument's memory with the initial bytes. Empty arguments are always in the host's memory. number: the argument's
 * number, for AREA_MIXED. */
int  area_lend(struct area *, const struct side *, int memory, unsigned number, struct cg_mem *mem);
/* Fetches what the call wrote and gives the device's memory back. Must follow every area_lend. */
int  area_back(struct area *, const struct side *);
/* Did the call write into the guards or, with `inside`, into the argument? */
int  area_touched(const struct area *, int inside);

#endif
