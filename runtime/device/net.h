/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description of a network, which a plan holds and a vendor's library reads, and the layout of the network's params in one buffer.
 */
#ifndef CG_NET_H
#define CG_NET_H

#include "gen/cell.h"
#include "runtime/core/core.h"

struct cg_network {
	const struct cg_cell *cell;
	/* texts for messages: the cell's name, "lstm" or "./mine.cell", and the options, "peephole"; NULL unless a vendor's route was tried */
	const char *name, *options;
	int dtype, layers, directions, skip, time_major, training;
	int reverse;                             /* the network has one direction, which begins at the last valid step */
	int states_major;                        /* 1: states are [L*D B .], since time_major or the caller's states_major is 1; 0: [B L*D .] */
	int64_t I, U, P, H;                      /* width of the input; units; width of the projection, or 0; width of one direction's output */
	double dropout;
	uint64_t seed;
	int allow_tf32, allow_vendor_dropout, strict_rounding;
	int n_weights, n_vectors, n_scalars;     /* numbers of gates with weights, of per-unit vectors, of scalars */
	int n_parts[CG_GATE_PARTS];              /* the number of gates that have each part of weights */
	signed char part[CG_GATE_PARTS][CG_GATES_MAX];   /* a gate's place among the gates with a part; -1: the gate lacks the part */
	int64_t params;                          /* elements of params */
	int64_t matrices[2];                     /* elements of all matrices of a pseudo-layer: of layer 0, of another layer */
};

/* Texts of a network's cell, options and values for messages: "./mine.cell", "peephole", "k=0.5".  Field `values` has the params that
 * have no default or whose values differ from their defaults. */
struct cg_network_text {
	char cell[CG_NAME_MAX + 8], options[CG_OPTIONS_MAX * (CG_NAME_MAX + 1)], values[CG_PARAMS_MAX * (CG_NAME_MAX + 26)];
};

/* Bytes of the header at the start of a reserve space, which the runtime reads and writes. */
enum { CG_RESERVE_HEADER = 64 };

/* The region of the k-th part of a kind in params, in elements; cg_network_count must have been called.  An absent input matrix or
 * projection has an empty region. */
struct cg_rnn_region cg_network_part(const struct cg_network *, int pseudo_layer, enum cg_rnn_part, int k);
/* Sets `matrices` and the number of params; CG_BAD_ARGUMENT if the params have more than PTRDIFF_MAX bytes. */
int cg_network_count(struct cg_network *);
int64_t cg_network_width(const struct cg_network *, int layer);  /* the width of the layer's input */
/* The key of the dropout mask of a layer's output. */
uint64_t cg_network_drop_key(const struct cg_network *, uint64_t counter, int layer);

#endif
