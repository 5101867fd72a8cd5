/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks as ops: the struct that their rows in the op table describe, and the names and descriptions of routes.
 */
#ifndef CG_NETWORK_OP_H
#define CG_NETWORK_OP_H

#include "runtime/core/core.h"

/* TensorFlow's words for rnn_mode, input_mode and direction, in TensorFlow's order; each list ends with NULL. */
extern const char *const cg_rnn_modes[], *const cg_rnn_inputs[], *const cg_rnn_directions[];

struct cg_rnn;
struct cg_rnn_shape;

/*
 * The attributes, sizes and arguments of a network's op.  For TensorFlow's ops, tensorflow/cudnn_rnn.c makes a plan and a call from
 * struct cg_rnn_op.  Each plan has a struct cg_rnn_op with all fields that the plan's calls share; rnn/call.c copies that struct, adds the
 * call, and checks the copy by the call's row.  A struct cg_mem for each tensor of a list (CG_LIST) follows struct cg_rnn_op.
 */
struct cg_rnn_op {
	struct cg_rnn_call call;                 /* the first field, so that call.size is where ops have their size */
	const struct cg_rnn *rnn;                /* the plan; for TensorFlow's ops set by `open` of the row, and NULL before that */
	const struct cg_rnn_shape *shape;        /* sizes, strides and workspace of the call, set by call.c; else NULL */

	/* attributes */
	/* rnn_mode, input_mode, direction and S: the index of the attribute's word in its list of words; input_mode is also an enum cg_input */
	int rnn_mode, input_mode, direction, is_training, strict_rounding, S;
	int64_t seed, seed2, num_proj;
	double dropout;
	int64_t num_layers, num_units, input_size;               /* a field that is 0 is inferred from the arguments' shapes */
	int64_t num_params, num_params_weights, num_params_biases;
	const char *cell_name, *options, *values_text, *route;
	/* cell: the cell of cell_name, or the plan's cell; NULL: the cell of rnn_mode.  values: those of values_text */
	const struct cg_cell *cell;
	const struct cg_value *values;
	int n_values;

	/* The sizes that the shapes of arguments consist of, except T and B, which are in `call`.  Field C: the width of the cell state, 0
	 * for a cell without one.  Field `in`: the width of layer 0's input matrices [U, in], 0 with skip_input.  Field `states`: L
	 * times D.  Field `wide`: D times H. */
	int64_t L, I, U, H, C, in, one, states, wide, params, reserve;
	int dtype, time_major, states_major, reverse;
	struct cg_mem sequence_lengths, host_reserved, params_size;
};

/* The cell of the op's network. */
const struct cg_cell *cg_rnn_op_cell(const struct cg_rnn_op *);
/* The description of an open op's route, such as "composed (projection: not scan)". */
const char *cg_rnn_op_route(const void *op);

/* ---- routes ---- */

enum { CG_ROUTE_MAX = 160 };             /* bytes of a route's description, with the final NUL */
/* Finds which route a plan opened with this config would use, without compiling kernels. */
int cg_rnn_find_route(struct cg_context *, const struct cg_rnn_config *, char route[CG_ROUTE_MAX]);
/* Returns the name of route k, or NULL past the last.  The library's own routes, composed and scan, come first, then the route of each
 * backend of this build that computes networks by a vendor's library.  Unless roundings is NULL, *roundings is set to an array that
 * says for each dtype how the route rounds; an element is NULL if the route does not support the dtype. */
const char *cg_rnn_route_name(int k, const char *const **roundings);
/* Returns the name of the route with the same format of the reserve space: composed if the route is scan, since the two share one
 * format; else the route itself. */
const char *cg_rnn_route_of_reserve(const char *route);

#endif
