/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row for every operator: CG_OPERATOR(code, word, arity, section). word: the operator's name in a .cell, NULL where a .cell writes the
 * operator by a sign, as RECIP by /, or by a form, as SOFTPLUS, or where only derivatives have the operator; section: the section of
 * templates/math.in that computes the operator, NULL where every dialect has a sign for it, or where functions of their own compute it, as
 * for the mean over units.
 * The set of operators is closed under differentiation: a new row needs its derivative by operators of the table (derive.c), its value
 * (ops.c), its section in math.in and its case in the interpreter (strip.c).
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
CG_OPERATOR(MAX,     "max",     2, "max")
CG_OPERATOR(MIN,     "min",     2, "min")
CG_OPERATOR(ABS,     "abs",     1, "abs")
CG_OPERATOR(ABOVE,   NULL,      2, "above")
CG_OPERATOR(LOG,     "log",     1, "log")
CG_OPERATOR(LOG1P,   "log1p",   1, "log1p")
CG_OPERATOR(EXPM1,   "expm1",   1, "expm1")
CG_OPERATOR(SQRT,    "sqrt",    1, "sqrt")
CG_OPERATOR(ERF,     "erf",     1, "erf")
CG_OPERATOR(SOFTPLUS, NULL,     1, "softplus")
CG_OPERATOR(MEAN,    "mean",    1, NULL)
