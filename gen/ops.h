/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row for every operator: CG_OPERATOR(code, word, arity, section).  word: its name in a .cell, NULL where it is a sign; section:
 * the part of templates/math.in that computes it, NULL where every dialect has a sign for it.  The set is closed under
 * differentiation: a new row needs its derivative in existing rows (derive.c), its value (ops.c), and, in math.in, its text.
 */
CG_OPERATOR(NEG,     NULL,      1, NULL)
CG_OPERATOR(ADD,     NULL,      2, NULL)
CG_OPERATOR(MUL,     NULL,      2, NULL)
CG_OPERATOR(RECIP,   NULL,      1, "recip")
CG_OPERATOR(EXP,     "exp",     1, "exp")
CG_OPERATOR(TANH,    "tanh",    1, "tanh")
CG_OPERATOR(SIGMOID, "sigmoid", 1, "sigmoid")
CG_OPERATOR(RELU,    "relu",    1, "relu")
CG_OPERATOR(STEP,    "step",    1, "step")
CG_OPERATOR(CLIP,    "clip",    2, "clip")
