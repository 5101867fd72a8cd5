/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches a function on the cpu, compiled or, where it is not, interpreted.  The team's threads share the rows and units.  Each element
 * is computed by itself, and a sum by blocks of rows, so the number of threads changes no bit.
 */
#include "backends/cpu/cpu.h"

/* PART: the number of elements of a part of a launch, a microsecond or two of work: enough to pay for one more thread that is awake, as
 * threads are between the products of a sequence.  ALIGN: the bytes of the interpreter's registers for one thread are rounded up to
 * a multiple of this number. */
enum { PART = 1 << 11, ALIGN = 64 };

struct shared_launch {
	const struct cg_module *built;
	const struct cg_dev *device;
	const struct cg_function *function;
	void (*call)(int64_t rows, int64_t units, const struct cg_bound *);
	int64_t rows, units;
	int64_t rows_each, units_each, across;   /* rows_each, units_each: the size of a part; across: the number of parts side by side */
	const struct cg_bound *bound;
	char *registers;
	size_t register_bytes;                   /* bytes of the interpreter's registers for one thread */
};

/* Sets the size of the parts into which a launch is cut.  Returns the number of parts. */
static int64_t cut_parts(struct shared_launch *s)
{
	int64_t step = s->function->shape == CG_FUNCTION_SUM_PART ? CG_SUM_ROWS : 1;

	s->rows_each = s->rows;
	s->units_each = s->units;
	s->across = 1;
	if (cg_is_sum(s->function) || s->rows <= 2 * PART / s->units)
		return 1;
	if (s->function->shape == CG_FUNCTION_POINT && s->units > PART)
		s->units_each = PART;
	s->rows_each = PART / s->units_each / step * step;
	if (s->rows_each < step)
		s->rows_each = step;
	s->across = (s->units + s->units_each - 1) / s->units_each;
	return (s->rows + s->rows_each - 1) / s->rows_each * s->across;
}

static void compute(const struct shared_launch *s, int64_t rows, int64_t units, const struct cg_bound *bound, int thread)
{
	const struct cg_pass_plan *plan = s->built->plan;
	struct cg_float_state state = cg_float_enter(plan->dtype);

	if (s->call)
		s->call(rows, units, bound);
	else
		s->device->isa->strip[plan->dtype](plan, s->function, rows, units, bound,
		                                   s->registers + (size_t)thread * s->register_bytes);
	cg_float_leave(state);
}

struct cg_bound cg_cpu_bind_part(const struct cg_pass_plan *plan, const struct cg_function *function, int k, struct cg_bound bound, int64_t units,
                                 int64_t row, int64_t unit)
{
	const struct cg_argument *a = &function->arguments[k];
	const size_t bytes = a->type == CG_TYPE_ACC ? cg_acc_bytes(plan->dtype) : cg_dtype_bytes(plan->dtype);
	int64_t first = 0;

	switch (a->kind) {
	case CG_KIND_TENSOR:   first = row * bound.stride + unit; break;
	case CG_KIND_PER_UNIT: first = function->shape == CG_FUNCTION_POINT ? unit : 0; break;
	case CG_KIND_SCRATCH:  first = row / CG_SUM_ROWS * cg_sum_values(function) * units; break;
	case CG_KIND_MEANS:    first = row * function->means; break;
	default: break;
	}
	if (bound.data)
		bound.data = (char *)bound.data + first * (int64_t)bytes;
	return bound;
}

static void compute_part(void *context, int64_t k, int thread)
{
	const struct shared_launch *s = context;
	int64_t row = k / s->across * s->rows_each, unit = k % s->across * s->units_each;
	int64_t rows = s->rows - row < s->rows_each ? s->rows - row : s->rows_each;
	int64_t units = s->units - unit < s->units_each ? s->units - unit : s->units_each;
	struct cg_bound bound[CG_SLOTS_MAX];

	for (int i = 0; i < s->function->n_arguments; i++)
		bound[i] = cg_cpu_bind_part(s->built->plan, s->function, i, s->bound[i], s->units, row, unit);
	compute(s, rows, units, bound, thread);
}

int cg_cpu_launch(struct cg_queue *queue, const struct cg_module *built, int function, int64_t rows, int64_t units,
                  const struct cg_operand *operands)
{
	struct shared_launch s = { .built = built, .device = queue->device, .function = &built->plan->functions[function],
	                           .call = built->call[function], .rows = rows, .units = units };
	struct cg_bound bound[CG_SLOTS_MAX];
	int64_t parts = cut_parts(&s);

	for (int k = 0; k < s.function->n_arguments; k++) {
		const struct cg_operand *o = &operands[k];

		bound[k] = (struct cg_bound){ o->mem.data ? (char *)o->mem.data + o->mem.offset : NULL, o->stride, o->value };
	}
	s.bound = bound;
	if (!s.call) {
		int threads = cg_team_threads(queue->team);

		s.register_bytes = (built->strip_bytes + ALIGN - 1) / ALIGN * ALIGN;
		s.registers = cg_cpu_scratch(queue, s.register_bytes * (size_t)(parts < threads ? parts : threads));
		if (!s.registers)
			return CG_NO_MEMORY;
	}
	if (parts == 1)
		compute(&s, rows, units, bound, 0);
	else
		cg_team_run(queue->team, parts, compute_part, &s);
	return CG_OK;
}
