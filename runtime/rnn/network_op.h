/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks as ops: the struct that their rows describe, and the facts of routes.
 */
#ifndef CG_NETWORK_OP_H
#define CG_NETWORK_OP_H

#include "runtime/core/core.h"

/* TensorFlow's words for rnn_mode, input_mode and direction, in its order; each list ends with NULL. */
extern const char *const cg_rnn_modes[], *const cg_rnn_inputs[], *const cg_rnn_directions[];

struct cg_rnn;
struct cg_rnn_shape;

/*
 * Attributes, sizes and arguments of TensorFlow's ops and of our own.  For TensorFlow's ops tensorflow/cudnn_rnn.c makes a plan and a
 * call from it.  A plan has one with everything that its calls share; rnn/call.c adds a call and checks it by its row.  Tensors of
 * lists stand behind the struct.
 */
struct cg_rnn_op {
	struct cg_rnn_call call;                 /* first: its size is the op's */
	const struct cg_rnn *rnn;                /* set by `open`, else NULL */
	const struct cg_rnn_shape *shape;        /* of a call that call.c checks, else NULL */

	/* attributes */
	int rnn_mode, input_mode, direction, is_training, strict_rounding, S;    /* in the order of TensorFlow's words; input_mode is an enum cg_input */
	int64_t seed, seed2, num_proj;
	double dropout;
	int64_t num_layers, num_units, input_size;               /* 0: inferred from the shapes */
	int64_t num_params, num_params_weights, num_params_biases;
	const char *cell_name, *options, *values_text, *route;
	const struct cg_cell *cell;              /* of cell_name, and the values of values_text; NULL: rnn_mode's */
	const struct cg_value *values;
	int n_values;

	/* symbols of the ports' shapes, beside the call's: C the width of the state, in that of layer 0's matrices */
	int64_t L, I, U, H, C, in, one, states, wide, params, reserve;
	int dtype, time_major, states_major, reverse;
	struct cg_mem sequence_lengths, host_reserved, params_size;
};

/* The cell of its plan. */
const struct cg_cell *cg_rnn_op_cell(const struct cg_rnn_op *);
/* The route of an open op, in prose. */
const char *cg_rnn_op_route(const void *op);

/* ---- routes ---- */

enum { CG_ROUTE_MAX = 160 };             /* bytes of a route's description, with the final NUL */
/* The route that a plan would have; makes no kernels. */
int cg_rnn_find_route(struct cg_context *, const struct cg_rnn_config *, char route[CG_ROUTE_MAX]);
/* The name of the k-th route: composed, scan, then the vendors' routes of all backends of this build; NULL past the last.  *roundings (may be
 * NULL): how the route rounds networks of each dtype, in prose. */
const char *cg_rnn_route_name(int k, const char *const **roundings);
/* The route that names the reserves which a route makes and reads: scan's are those of composed. */
const char *cg_rnn_route_of_reserve(const char *route);

#endif
