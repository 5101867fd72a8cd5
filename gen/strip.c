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

enum { STRIP = CG_STRIP };

struct strip {
	const struct cg_pass_plan *plan;
	const struct cg_function *function;
	const struct cg_bound *bound;
	const acc **at;                          /* by register: where its values are: in the register, or in the memory of an input */
	acc *registers;                          /* [register][STRIP]; behind all registers, for means, the lanes of each mean */
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
	case CG_OP_SOFTPLUS: for (int u = 0; u < n; u++) to[u] = acc_softplus(a[u]); return;
	}
}

static acc *reg(const struct strip *s, int place)
{
	return s->registers + (size_t)place * STRIP;
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

static void fill(acc *to, int n, acc value)
{
	for (int u = 0; u < n; u++)
		to[u] = value;
}

/* The value of an argument that is one number: a param, or a scalar in memory. */
static acc number(const struct strip *s, int k)
{
	const struct cg_bound *b = &s->bound[k];

	if (s->function->arguments[k].kind == CG_KIND_SCALAR)
		return (acc)b->value;
	return b->data ? to_acc(*(const real *)b->data) : 0;
}

/* Sets the registers that stay the same from strip to strip: constants, params and scalars.  n: the length of the longest strip. */
static void set_fixed(const struct strip *s, int n)
{
	for (int k = 0; k < s->function->registers; k++)
		s->at[k] = reg(s, k);
	for (int k = 0; k < s->function->n_fixed; k++) {
		const struct cg_operation *o = &s->function->operations[k];

		fill(reg(s, o->to), n, o->code == CG_OP_CONST ? (acc)s->plan->graph.nodes[o->a].value : number(s, o->a));
	}
}

/* Loads a strip of an argument.  A tensor or per-unit vector whose elements have the type of arithmetic is read where it is. */
static void load(const struct strip *s, const struct cg_operation *o, int64_t row, int64_t first, int n)
{
	const struct cg_argument *a = &s->function->arguments[o->a];
	const struct cg_bound *b = &s->bound[o->a];
	int64_t at = first + (a->kind == CG_KIND_TENSOR ? row * b->stride : 0);
	acc *to = reg(s, o->to);

	s->at[o->to] = to;
	if (a->kind == CG_KIND_MEAN)
		fill(to, n, *mean_at(s, a, row));
	else if (!b->data)
		fill(to, n, 0);
	else if (a->type == CG_TYPE_ACC || sizeof(real) == sizeof(acc))
		s->at[o->to] = (const acc *)b->data + at;
	else
		for (int u = 0; u < n; u++)
			to[u] = to_acc(((const real *)b->data)[at + u]);
}

/* Loads the inputs of a strip and computes all nodes of the schedule. */
static void compute(const struct strip *s, int64_t row, int64_t first, int n)
{
	const struct cg_operation *end = s->function->operations + s->function->n_operations;

	for (const struct cg_operation *o = s->function->operations + s->function->n_fixed; o < end; o++) {
		if (o->code == CG_OP_LEAF) {
			load(s, o, row, first, n);
		} else {
			s->at[o->to] = reg(s, o->to);
			apply(o->code, o->is_even ? 1 : n, reg(s, o->to), s->at[o->a], s->at[o->b]);
			if (o->is_even)
				fill(reg(s, o->to), n, *reg(s, o->to));
		}
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
				const acc *from;

				if (!a->out || !s->bound[k].data)
					continue;
				from = s->at[a->place];
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
						to[u] += s->at[s->function->arguments[k].place][u];
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

/* The total of a summed value: its partial sums of all blocks of rows, added over all units. */
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

/* Adds a strip to the lanes. */
static void add_strip(acc *restrict lanes, const acc *restrict terms, int n)
{
	for (int at = 0; at < n; at += CG_LANES) {
		int width = n - at < CG_LANES ? n - at : CG_LANES;

		for (int lane = 0; lane < width; lane++)
			lanes[lane] += terms[at + lane];
	}
}

/* Computes the means of each row. */
static void mean(const struct strip *s, int64_t rows, int64_t units)
{
	const struct cg_argument *arguments = s->function->arguments, *end = arguments + s->function->n_arguments;
	const acc share = acc_recip((acc)units);

	for (int64_t row = 0; row < rows; row++) {
		acc *lanes = reg(s, s->function->registers);

		memset(lanes, 0, (size_t)cg_count_outputs(s->function) * STRIP * sizeof *lanes);
		for (int64_t first = 0; first < units; first += STRIP) {
			int n = units - first < STRIP ? (int)(units - first) : STRIP;
			acc *to = lanes;

			compute(s, row, first, n);
			for (const struct cg_argument *a = arguments; a < end; a++)
				if (a->out) {
					add_strip(to, s->at[a->place], n);
					to += STRIP;
				}
		}
		for (const struct cg_argument *a = arguments; a < end; a++)
			if (a->out) {
				*mean_at(s, a, row) = add_lanes(lanes) * share;
				lanes += STRIP;
			}
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
	/* The registers stand first in the caller's memory, whose start is aligned for a double. */
	acc *values = registers;
	struct strip s = { plan, function, bound, (const acc **)(values + cg_strip_values(function)), values };

	set_fixed(&s, units < STRIP ? (int)units : STRIP);
	switch (function->shape) {
	case CG_FUNCTION_POINT:    point(&s, rows, units); return;
	case CG_FUNCTION_SUM_PART: sum_part(&s, rows, units); return;
	case CG_FUNCTION_SUM:      sum(&s, rows, units, bound[function->n_arguments - 1].value != 0); return;
	case CG_FUNCTION_MEAN:     mean(&s, rows, units); return;
	case CG_FUNCTION_SUM_UNITS: sum_units(&s, rows, units, bound[function->n_arguments - 1].value != 0); return;
	}
}
