/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interprets a function over strips of a row, node by node.  The interpreter uses the functions that are printed into kernels, so that
 * its results have the bits of the compiled kernels.  This file is compiled for each dtype and each instruction set with kernels (CG_DTYPE,
 * CG_ISA).
 * The interpreter checks no argument: the caller passes those of the function, in its order.
 */
#include "cell.h"

#include <string.h>

#include CG_MATH                         /* the text that cellgen prints for CG_DTYPE: real, acc, acc_tanh ... */

#define PASTE_(a, b, c) a##_##b##_##c
#define PASTE(a, b, c) PASTE_(a, b, c)

enum { STRIP = 256 };

struct strip {
	const struct cg_pass_plan *plan;
	const struct cg_function *function;
	const struct cg_bound *bound;
	acc *registers;                  /* [node][STRIP]; a node that the function neither computes nor reads leaves its part unused */
};

static void apply(int code, int n, acc *restrict to, const acc *restrict a, const acc *restrict b)
{
	switch (code) {
	case CG_OP_NEG:     for (int u = 0; u < n; u++) to[u] = -a[u];              return;
	case CG_OP_ADD:     for (int u = 0; u < n; u++) to[u] = a[u] + b[u];        return;
	case CG_OP_MUL:     for (int u = 0; u < n; u++) to[u] = a[u] * b[u];        return;
	case CG_OP_RECIP:   for (int u = 0; u < n; u++) to[u] = acc_recip(a[u]);    return;
	case CG_OP_EXP:     for (int u = 0; u < n; u++) to[u] = acc_exp(a[u]);      return;
	case CG_OP_TANH:    for (int u = 0; u < n; u++) to[u] = acc_tanh(a[u]);     return;
	case CG_OP_SIGMOID: for (int u = 0; u < n; u++) to[u] = acc_sigmoid(a[u]);  return;
	case CG_OP_RELU:    for (int u = 0; u < n; u++) to[u] = acc_relu(a[u]);     return;
	case CG_OP_STEP:    for (int u = 0; u < n; u++) to[u] = acc_step(a[u]);     return;
	case CG_OP_CLIP:    for (int u = 0; u < n; u++) to[u] = acc_clip(a[u], b[u]); return;
	case CG_OP_MAX:     for (int u = 0; u < n; u++) to[u] = acc_max(a[u], b[u]);  return;
	case CG_OP_MIN:     for (int u = 0; u < n; u++) to[u] = acc_min(a[u], b[u]);  return;
	case CG_OP_ABS:     for (int u = 0; u < n; u++) to[u] = acc_abs(a[u]);      return;
	case CG_OP_ABOVE:   for (int u = 0; u < n; u++) to[u] = acc_above(a[u], b[u]); return;
	case CG_OP_LOG:     for (int u = 0; u < n; u++) to[u] = acc_log(a[u]);      return;
	case CG_OP_LOG1P:   for (int u = 0; u < n; u++) to[u] = acc_log1p(a[u]);    return;
	case CG_OP_EXPM1:   for (int u = 0; u < n; u++) to[u] = acc_expm1(a[u]);    return;
	case CG_OP_SQRT:    for (int u = 0; u < n; u++) to[u] = acc_sqrt(a[u]);     return;
	case CG_OP_ERF:     for (int u = 0; u < n; u++) to[u] = acc_erf(a[u]);      return;
	}
}

static acc *reg(const struct strip *s, int node)
{
	return s->registers + (size_t)node * STRIP;
}

/* The value of an argument that is one number: a param, or a scalar in memory. */
static acc number(const struct strip *s, int k)
{
	const struct cg_bound *b = &s->bound[k];

	if (s->function->arguments[k].kind == CG_KIND_SCALAR)
		return (acc)b->value;
	return b->data ? to_acc(*(const real *)b->data) : 0;
}

/* Sets the registers that stay the same from strip to strip: constants, params and scalars. */
static void constants(const struct strip *s)
{
	const struct cg_graph *graph = &s->plan->graph;

	for (int k = 0; k < graph->n; k++)
		if (graph->nodes[k].code == CG_OP_CONST)
			for (int u = 0; u < STRIP; u++)
				reg(s, k)[u] = (acc)graph->nodes[k].value;
	for (int k = 0; k < s->function->n_arguments; k++) {
		const struct cg_argument *a = &s->function->arguments[k];

		if (!a->out && (a->kind == CG_KIND_SCALAR || a->kind == CG_KIND_ELEMENT))
			for (int u = 0; u < STRIP; u++)
				reg(s, a->node)[u] = number(s, k);
	}
}

/* The memory of an argument of this kind, of which the function has one: its scratch, or its means. */
static acc *memory(const struct strip *s, int kind)
{
	int k = 0;

	while (s->function->arguments[k].kind != kind)
		k++;
	return s->bound[k].data;
}

/* The place of a row's mean. */
static acc *mean_at(const struct strip *s, const struct cg_argument *a, int64_t row)
{
	return memory(s, CG_KIND_MEANS) + row * s->function->means + a->index;
}

/* Loads the inputs of a strip and computes all nodes of the schedule. */
static void compute(const struct strip *s, int64_t row, int64_t first, int n)
{
	for (int k = 0; k < s->function->n_arguments; k++) {
		const struct cg_argument *a = &s->function->arguments[k];
		int64_t at = first + (a->kind == CG_KIND_TENSOR ? row * s->bound[k].stride : 0);
		acc *to = reg(s, a->node);

		if (!a->out && a->kind == CG_KIND_MEAN)
			for (int u = 0; u < n; u++)
				to[u] = *mean_at(s, a, row);
		if (a->out || (a->kind != CG_KIND_TENSOR && a->kind != CG_KIND_PER_UNIT))
			continue;
		if (!s->bound[k].data)
			for (int u = 0; u < n; u++)
				to[u] = 0;
		else if (a->type == CG_TYPE_ACC)
			for (int u = 0; u < n; u++)
				to[u] = ((const acc *)s->bound[k].data)[at + u];
		else
			for (int u = 0; u < n; u++)
				to[u] = to_acc(((const real *)s->bound[k].data)[at + u]);
	}
	for (int k = 0; k < s->function->n_schedule; k++) {
		int id = s->function->schedule[k];
		const struct cg_node *node = &s->plan->graph.nodes[id];

		apply(node->code, n, reg(s, id), reg(s, node->a), reg(s, node->b));
	}
}

static void point(const struct strip *s, int64_t rows, int64_t units)
{
	for (int64_t row = 0; row < rows; row++)
		for (int64_t first = 0; first < units; first += STRIP) {
			int n = units - first < STRIP ? (int)(units - first) : STRIP;

			compute(s, row, first, n);
			for (int k = 0; k < s->function->n_arguments; k++) {
				const struct cg_argument *a = &s->function->arguments[k];
				int64_t at = row * s->bound[k].stride + first;
				const acc *from = reg(s, a->node);

				if (!a->out || !s->bound[k].data)
					continue;
				if (a->type == CG_TYPE_ACC)
					for (int u = 0; u < n; u++)
						((acc *)s->bound[k].data)[at + u] = from[u];
				else
					for (int u = 0; u < n; u++)
						((real *)s->bound[k].data)[at + u] = to_real(from[u]);
			}
		}
}

static int is_value(const struct cg_argument *a)
{
	return a->out && a->kind != CG_KIND_SCRATCH;
}

static void sum_part(const struct strip *s, int64_t rows, int64_t units)
{
	acc *sums = memory(s, CG_KIND_SCRATCH);
	int64_t count = cg_sum_values(s->function) * units;

	for (int64_t block = 0; block * CG_SUM_ROWS < rows; block++, sums += count) {
		int64_t last = rows - block * CG_SUM_ROWS < CG_SUM_ROWS ? rows : (block + 1) * CG_SUM_ROWS;

		for (int64_t k = 0; k < count; k++)
			sums[k] = 0;
		for (int64_t row = block * CG_SUM_ROWS; row < last; row++)
			for (int64_t first = 0; first < units; first += STRIP) {
				int n = units - first < STRIP ? (int)(units - first) : STRIP;
				acc *to = sums + first;

				compute(s, row, first, n);
				for (int k = 0; k < s->function->n_arguments; k++) {
					if (!is_value(&s->function->arguments[k]))
						continue;
					for (int u = 0; u < n; u++)
						to[u] += reg(s, s->function->arguments[k].node)[u];
					to += units;
				}
			}
	}
}

static void sum(const struct strip *s, int64_t rows, int64_t units, int accumulate)
{
	const acc *partial = memory(s, CG_KIND_SCRATCH);
	int64_t count = cg_sum_values(s->function) * units, at = 0;

	for (int k = 0; k < s->function->n_arguments; k++) {
		real *to = s->bound[k].data;

		if (!is_value(&s->function->arguments[k]))
			continue;
		for (int64_t u = 0; to && u < units; u++) {
			acc total = 0;

			for (int64_t block = 0; block * CG_SUM_ROWS < rows; block++)
				total += partial[block * count + at + u];
			to[u] = to_real(accumulate ? to_acc(to[u]) + total : total);
		}
		at += units;
	}
}

/* The sum of the lanes, by halves. */
static acc add_lanes(acc lanes[CG_LANES])
{
	for (int half = CG_LANES / 2; half; half /= 2)
		for (int k = 0; k < half; k++)
			lanes[k] += lanes[k + half];
	return lanes[0];
}

/* The sum of a value's blocks over all units. */
static acc add_units(const acc *partial, int64_t blocks, int64_t count, int64_t units)
{
	acc lanes[CG_LANES] = { 0 };

	for (int64_t u = 0; u < units; u++) {
		acc total = 0;

		for (int64_t block = 0; block < blocks; block++)
			total += partial[block * count + u];
		lanes[u % CG_LANES] += total;
	}
	return add_lanes(lanes);
}

/* Computes the means of each row.  The register of a mean's node holds its lanes. */
static void mean(const struct strip *s, int64_t rows, int64_t units)
{
	const acc share = acc_recip((acc)units);

	for (int64_t row = 0; row < rows; row++) {
		for (int k = 0; k < s->function->n_arguments; k++)
			if (s->function->arguments[k].out)
				memset(reg(s, s->function->arguments[k].node), 0, CG_LANES * sizeof(acc));
		for (int64_t first = 0; first < units; first += STRIP) {
			int n = units - first < STRIP ? (int)(units - first) : STRIP;

			compute(s, row, first, n);
			for (int k = 0; k < s->function->n_arguments; k++) {
				const struct cg_argument *a = &s->function->arguments[k];
				const acc *term = reg(s, s->plan->graph.nodes[a->node].a);

				for (int u = 0; a->out && u < n; u++)
					reg(s, a->node)[u % CG_LANES] += term[u];
			}
		}
		for (int k = 0; k < s->function->n_arguments; k++)
			if (s->function->arguments[k].out)
				*mean_at(s, &s->function->arguments[k], row) = add_lanes(reg(s, s->function->arguments[k].node)) * share;
	}
}

static void sum_units(const struct strip *s, int64_t rows, int64_t units, int accumulate)
{
	int64_t values = cg_sum_values(s->function), blocks = (rows + CG_SUM_ROWS - 1) / CG_SUM_ROWS;
	int64_t value = values - cg_count_outputs(s->function);

	for (int k = 0; k < s->function->n_arguments; k++) {
		real *to = s->bound[k].data;
		acc total;

		if (!is_value(&s->function->arguments[k]))
			continue;
		if (to) {
			total = add_units(memory(s, CG_KIND_SCRATCH) + value * units, blocks, values * units, units);
			*to = to_real(accumulate ? to_acc(*to) + total : total);
		}
		value++;
	}
}

cg_strip PASTE(cg_strip, CG_DTYPE, CG_ISA);

void PASTE(cg_strip, CG_DTYPE, CG_ISA)(const struct cg_pass_plan *plan, const struct cg_function *function, int64_t rows,
                                       int64_t units, const struct cg_bound *bound, void *registers)
{
	struct strip s = { plan, function, bound, registers };

	constants(&s);
	switch (function->shape) {
	case CG_FUNCTION_POINT:    point(&s, rows, units); return;
	case CG_FUNCTION_SUM_PART: sum_part(&s, rows, units); return;
	case CG_FUNCTION_SUM:      sum(&s, rows, units, bound[function->n_arguments - 1].value != 0); return;
	case CG_FUNCTION_MEAN:     mean(&s, rows, units); return;
	case CG_FUNCTION_SUM_UNITS: sum_units(&s, rows, units, bound[function->n_arguments - 1].value != 0); return;
	}
}
