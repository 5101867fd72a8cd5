/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints all steps of a sequence as one text in C: a pass's functions over elements, the tiles by which the cpu backend
 * multiplies, and the loop over the steps.
 */
#ifndef CG_STEPS_H
#define CG_STEPS_H

#include "cell.h"

/* The plan of the text for CG_PASS_SEQ_FORWARD or CG_PASS_SEQ_GRAD, all stages.  The plan's functions are those over elements.  Returns
 * NULL where memory is exhausted, or where the mistake says what is wrong. */
struct cg_pass_plan *cg_plan_steps(const struct cg_cell *, int options, int pass, int dtype, cg_resize *, struct cg_mistake *);
int cg_print_steps(const struct cg_pass_plan *, int lang, struct cg_text *);
int cg_print_steps_header(const struct cg_pass_plan *, struct cg_text *);
int cg_print_steps_manifest(const struct cg_pass_plan *, int lang, struct cg_text *);

#endif
