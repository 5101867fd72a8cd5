/*
 * Networks whose walks are counted: what a step of each enqueues, forward and backward, in the same words for every device.
 */
#ifndef WALKS_H
#define WALKS_H

#include "tests/help/small_net.h"

struct walk {
	const char *name, *cell, *options;
	int dtype, bidirectional, ragged;
	int64_t proj;
	/* Of each step of each pseudo-layer, forward and backward. */
	int products[2], points[2];
};
enum { WALKS = 12 };
extern const struct walk walks[WALKS];

/* On a device, for T steps, every port given; lengths are as many as a ragged walk of T steps has, the longest T. */
int walk_open(struct net *, const struct walk *, int64_t T, int32_t *lengths, struct cg_context *, struct cg_stream *);
enum { WALK_ROWS = 5 };

#endif
