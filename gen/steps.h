/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All steps of a sequence as one text in C: the functions over elements of a pass, the tiles by which the cpu backend multiplies, and the
 * loop over the steps.
 */
#ifndef CG_STEPS_H
#define CG_STEPS_H

#include "cell.h"

/* The plan of the text for CG_PASS_SEQ_FORWARD or CG_PASS_SEQ_GRAD, all stages; its functions are those over elements.  NULL: no memory,
 * or the mistake says what is wrong. */
struct cg_pass_plan *cg_plan_steps(const struct cg_cell *, int options, int pass, int dtype, cg_resize *, struct cg_mistake *);
int cg_print_steps(const struct cg_pass_plan *, int lang, struct cg_text *);
int cg_print_steps_header(const struct cg_pass_plan *, struct cg_text *);
int cg_print_steps_manifest(const struct cg_pass_plan *, int lang, struct cg_text *);

#endif
