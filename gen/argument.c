/* SPDX-License-Identifier: Apache-2.0 */
/* Answers what a function and its arguments are, and which equations of a cell compute a state or the output. */
#include "cell.h"

int cg_is_parameter(const struct cg_function *function, const struct cg_argument *a)
{
	return a->kind != CG_KIND_MEAN && (function->shape != CG_FUNCTION_SUM_PART || !a->out || a->kind == CG_KIND_SCRATCH);
}

int cg_has_second(const struct cg_function *function, const struct cg_argument *a)
{
	return function->shape == CG_FUNCTION_SUM && a->out;
}

int cg_is_array(const struct cg_argument *a)
{
	return a->kind == CG_KIND_TENSOR || a->kind == CG_KIND_PER_UNIT || a->kind == CG_KIND_ELEMENT;
}

int cg_is_sum(const struct cg_function *function)
{
	return function->shape == CG_FUNCTION_SUM || function->shape == CG_FUNCTION_SUM_UNITS;
}

int cg_has_partial(const struct cg_function *function)
{
	return function->shape == CG_FUNCTION_SUM_PART || cg_is_sum(function);
}

int cg_is_written(const struct cg_function *function, const struct cg_argument *a)
{
	return a->out || (a->kind == CG_KIND_MEANS && function->shape == CG_FUNCTION_MEAN);
}

int cg_reads_means(const struct cg_function *function)
{
	for (int k = 0; k < function->n_arguments; k++)
		if (function->arguments[k].kind == CG_KIND_MEAN && !function->arguments[k].out)
			return 1;
	return 0;
}

int cg_is_shared(const struct cg_argument *a)
{
	return a->kind == CG_KIND_SCRATCH || a->kind == CG_KIND_MEANS || a->kind == CG_KIND_MEAN;
}

int cg_sum_values(const struct cg_function *function)
{
	return function->sum_values;
}

int cg_count_outputs(const struct cg_function *function)
{
	int n = 0;

	for (int k = 0; k < function->n_arguments; k++)
		n += function->arguments[k].out && function->arguments[k].kind != CG_KIND_SCRATCH;
	return n;
}

int cg_find_prev(const struct cg_cell *cell, int value)
{
	for (int k = 0; k < cell->n_prevs; k++)
		if (cell->prevs[k].value == value)
			return k;
	return -1;
}
