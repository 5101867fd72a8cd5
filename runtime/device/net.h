/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network by value, as a plan holds it and a vendor's library reads it, and the layout of its parameters in one buffer.
 */
#ifndef CG_NET_H
#define CG_NET_H

#include "runtime/core/core.h"

struct cg_network {
	const struct cg_cell *cell;
	const char *name, *options;              /* for people, "lstm" "./mine.cell", "peephole"; set while a route is chosen, else NULL */
	int dtype, layers, directions, skip, time_major, training;
	int reverse;                             /* the one direction begins at the last valid step */
	int states_major;                        /* states are [L*D B .]: time_major is set, or the caller chose so */
	int64_t I, U, P, H;                      /* widths of the input, of the state, of a projection or 0, of the output */
	double dropout;
	uint64_t seed;
	int allow_tf32, allow_vendor_dropout, strict_rounding;
	int n_weights, n_vectors;                /* gates with weights; vectors of the options that are on */
	int64_t params;                          /* elements */
};

/* A network as NAME=VALUE has it, for people: "./mine.cell", "peephole", "k=0.5"; values: those that are not the params' defaults. */
struct cg_network_text {
	char cell[CG_NAME_MAX + 8], options[CG_OPTIONS_MAX * (CG_NAME_MAX + 1)], values[CG_PARAMS_MAX * (CG_NAME_MAX + 26)];
};

/* Bytes at the start of a reserve that are the runtime's. */
enum { CG_RESERVE_HEADER = 64 };

/* The region of a part in params, in elements; that of an absent input matrix or projection is empty. */
struct cg_rnn_region cg_network_part(const struct cg_network *, int pseudo_layer, enum cg_rnn_part, int k);
/* Sets params; CG_BAD_ARGUMENT when there are more than memory can hold. */
int cg_network_count(struct cg_network *);
int64_t cg_network_width(const struct cg_network *, int layer);  /* of the layer's input */
/* The key of the mask of dropout on a layer's output. */
uint64_t cg_network_drop_key(const struct cg_network *, uint64_t counter, int layer);

#endif
