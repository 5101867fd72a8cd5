/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a plan from the attributes of a call.
 */
#ifndef JAX_NETWORK_ATTRIBUTES_H
#define JAX_NETWORK_ATTRIBUTES_H

#include "bindings/jax/call_frame.h"

/*
 * Opens the plan of a network with inputs of width `input`, which the caller closes, and takes a stream of its context, which the caller
 * gives back.  The context is that of CELLGRAD_BACKEND if it is set, else "cpu"; it stays open until the process ends.  Returns 1; or 0,
 * with an error in `f`.  The attributes are
 *     cell        text      the name of a built-in cell or of a cell of the shelf, or the text of a cell, which has a line end
 *     options     text      the cell's options, separated by commas
 *     value_names text      names of the cell's params, separated by commas
 *     value_NAME  f64       the value of each of these params
 *     dropout     f64
 *     layers bidirectional input_mode time_major reverse training units proj    s64, as in struct cg_rnn_config
 * States are [L*D B .] with and without time_major.  Attribute `states`, s64, which handlers of passes read, is the number of cell states
 * in one array, or 1 for a cell without a cell state.
 */
int jax_open_network(struct call_frame *f, int dtype, int64_t input, struct cg_rnn **rnn, struct cg_stream **stream);

#endif
