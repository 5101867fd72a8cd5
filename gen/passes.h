/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes: row(with, code, name, text) of each, in the order of enum cg_pass of cellgrad.h.  text: the pass's name in comments.  The
 * last two passes are forward and grad, the first two, as a step of a sequence, between whose steps cell states and gradients are not
 * rounded.
 */
#ifndef CG_PASSES_H
#define CG_PASSES_H

#define CG_PASSES(row, with) \
	row(with, FORWARD,     forward,     "forward step") \
	row(with, GRAD,        grad,        "gradient") \
	row(with, GRADGRAD,    gradgrad,    "gradient's gradient") \
	row(with, SEQ_FORWARD, seq_forward, "forward step") \
	row(with, SEQ_GRAD,    seq_grad,    "gradient")

#endif
