/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes: row(with, code, name, text) of each, in the order of enum cg_pass of cellgrad.h.  text: what a comment calls it.  The
 * last two are the first two as a step of a sequence, which passes its states on unrounded.
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
