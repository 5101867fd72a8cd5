/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network that a call's attributes describe, as a plan of the library.
 */
#ifndef JAX_NETWORK_ATTRIBUTES_H
#define JAX_NETWORK_ATTRIBUTES_H

#include "bindings/jax/call_frame.h"

/*
 * The plan of a network of so many inputs, which the caller closes, and a stream of its context, which he gives back; the context is the
 * one that CELLGRAD_BACKEND names, else "cpu", and stays open until the process ends.  1: they are there; 0: `f` has what is wrong.
 *     cell        text      the name of a built-in cell, or the text of one
 *     options     text      of the cell, with commas
 *     value_names text      of the cell's params, with commas
 *     value_NAME  f64       for each of these names
 *     dropout     f64
 *     layers bidirectional input_mode time_major reverse training units proj    s64, as in struct cg_rnn_config
 * States are [L*D B .] in either layout.
 */
int jax_open_network(struct call_frame *f, int dtype, int64_t input, struct cg_rnn **rnn, struct cg_stream **stream);

#endif
