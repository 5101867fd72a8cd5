/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of an argument, between guards: what a call begins with, what it left, and whether it wrote beside it.  On the
 * host, or in the memory of a device with the same bytes around it.
 */
#ifndef AREA_H
#define AREA_H

#include "runtime/cellgrad.h"

/* Who computes: a device by its context and a stream there. */
struct side {
	const char *name;                /* for messages */
	struct cg_context *context;
	struct cg_stream *stream;
	const char *route;               /* of networks; NULL: the best one */
};

/* Of a case.  Mixed: of each argument, by its number; arena: one block of the device's memory for all arguments of a call. */
enum area_memory { AREA_HOST, AREA_DEVICE, AREA_MIXED, AREA_ARENA, AREA_MEMORIES };
extern const char *const area_memories[AREA_MEMORIES];

struct area {
	size_t bytes;                    /* of the argument */
	size_t before;                   /* bytes to it: the guard and a few elements, so that not all is aligned alike */
	unsigned char *start, *host;     /* with the guards: as the call begins; as it left them */
	struct cg_mem device;
	int in_arena;
};

/* Poisoned, and so are its guards.  shift: a multiple of the element's size. */
int  area_open(struct area *, size_t bytes, size_t shift);
void area_close(struct area *);
/* The argument itself, to be written before a call, and read after it. */
unsigned char *area_in(const struct area *);
const unsigned char *area_out(const struct area *);
/* Memory for a call, as it is to begin; empty arguments are always the host's.  number: which argument it is. */
int  area_lend(struct area *, const struct side *, int memory, unsigned number, struct cg_mem *mem);
/* What the call left; to be called after every area_lend. */
int  area_back(struct area *, const struct side *);
/* Was anything written beside the argument?  inside: or in it. */
int  area_touched(const struct area *, int inside);

#endif
