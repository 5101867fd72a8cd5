/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module's handlers, which cellgrad.jax registers with XLA.  An empty array stands for an absent one: states and upstream gradients are
 * then zeros, lengths are all T, and a result is not computed.  network_attributes.h lists the attributes.  Handlers may be called from any
 * thread.  Each handler returns NULL, or an error of XLA with the library's message or one of its own.
 */
#ifndef JAX_HANDLERS_H
#define JAX_HANDLERS_H

#include "bindings/jax/xla_ffi.h"
#include "runtime/cellgrad.h"

/*
 * Runs cg_rnn_forward.  Arguments of a forward pass: input, [T B I], or [B T I] without time_major; input_h; input_c; params, all of one
 * dtype; lengths, s32 [B]; counter, u32 [2], the low half first.  Results of a forward pass: output, output_h, output_c, and reserve, u8,
 * of at least the bytes that cg_rnn_sizes gives for the reserve space.  Attribute drop of a forward pass, s64: 0 switches dropout off for
 * this call.
 */
CG_API struct xla_error *cellgrad_jax_forward(struct xla_frame *xla);
/*
 * Runs cg_rnn_backward.  Arguments of a backward pass: those of the forward pass, then reserve, output_backprop, output_h_backprop,
 * output_c_backprop.  Results of a backward pass: input_backprop, input_h_backprop, input_c_backprop, params_backprop.  Attribute drop of
 * a backward pass, s64: the value that the forward call had.
 */
CG_API struct xla_error *cellgrad_jax_backward(struct xla_frame *xla);
/* Runs cg_rnn_init_params.  The only argument of cellgrad_jax_init_params: seed, u32 [2], the low half first; the only result: params.
 * Attributes beside those of the network: input, s64: the width of the network's input; rules, text: the rules of cg_rnn_init_params. */
CG_API struct xla_error *cellgrad_jax_init_params(struct xla_frame *xla);
/* The version of cellgrad.h that the module was compiled against, such as "0.2.0". */
CG_API const char *cellgrad_jax_version(void);

#endif
