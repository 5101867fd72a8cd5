/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds modules from plans, finds functions in modules, and launches them, for cells, products and row copies.  A plan's module is
 * built once for all sizes.
 */
#include <string.h>

#include "backends/cuda/cuda.h"

struct form {
	struct CUfunc_st *function;
	int threads;                           /* the most threads of a block of this function */
};

struct cg_module {
	const struct cg_pass_plan *plan;
	struct CUmod_st *module;
	/* for each function of the plan, two forms: in the first a thread computes a run of units, in the second one unit; a function without
	 * runs has only the first */
	struct form forms[CG_FUNCTIONS_MAX][2];
	struct form loop;                      /* the step loop, of which a plan has at most one */
};

void cg_cu_release(struct cg_dev *device, struct cg_module *built)
{
	if (built && built->module && !cg_cu_enter_anyway(device)) {
		cg_cu.ModuleUnload(built->module);
		cg_cu_leave(device, CG_OK);
	}
	cg_memory(built, 0);
}

static int find_form(struct cg_dev *device, const struct cg_module *built, const char *key, struct form *form)
{
	int code = cg_cu_check(device, cg_cu.ModuleGetFunction(&form->function, built->module, key), "cuModuleGetFunction");

	if (code)
		return cg_fail_in(code, "%s", key);
	CU_TRY(device, FuncGetAttribute, &form->threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, form->function);
	return CG_OK;
}

static int find_functions(struct cg_dev *device, struct cg_module *built)
{
	const struct cg_pass_plan *plan = built->plan;

	for (int p = 0; p < plan->n_functions; p++) {
		const struct cg_function *function = &plan->functions[p];
		char key[CG_KEY_MAX];

		CG_TRY(find_form(device, built, function->key, &built->forms[p][0]));
		cg_one_key(function, key);
		if (function->shape == CG_FUNCTION_POINT && cg_run_units(plan, function) > 1)
			CG_TRY(find_form(device, built, key, &built->forms[p][1]));
		cg_step_loop_key(function, key);
		if (cg_has_step_loop(plan, function))
			CG_TRY(find_form(device, built, key, &built->loop));
	}
	return CG_OK;
}

static int load(struct cg_dev *device, const char *text, struct cg_module *built)
{
	CG_TRY(cg_cu_module(device, text, built->plan->key, built->plan->dtype, &built->module));
	return find_functions(device, built);
}

int cg_cu_build_inside(struct cg_dev *device, const struct cg_pass_plan *plan, struct cg_module **result)
{
	struct cg_module *built = cg_memory(NULL, sizeof *built);
	struct cg_text text = { .resize = cg_memory };
	int code;

	if (!built)
		return CG_NO_MEMORY;
	memset(built, 0, sizeof *built);
	built->plan = plan;
	code = cg_print(plan, CG_LANG_CUDA, &text) ? CG_NO_MEMORY : load(device, text.at, built);
	cg_memory(text.at, 0);
	if (code)
		cg_cu_release(device, built);
	else
		*result = built;
	return code;
}

static int check_and_build(struct cg_dev *device, const struct cg_pass_plan *plan, struct cg_module **result)
{
	const char *use = "the first use of a kernel";

	if (!plan->cell)
		use = plan->functions->shape == CG_FUNCTION_PRODUCT ? "a product's first call" : "the first call that moves rows";
	CG_TRY(cg_cu_check_all_uncaptured(device, use));
	return cg_cu_build_inside(device, plan, result);
}

static int build(struct cg_dev *device, const struct cg_pass_plan *plan, struct cg_module **result)
{
	CU_INSIDE(device, check_and_build(device, plan, result));
}

int cg_cu_build(struct cg_dev *device, const struct cg_pass_plan *plan, struct cg_module **result)
{
	struct cg_module *built = NULL;
	int code = build(device, plan, &built);

	/* The module may have been built although the call failed, since leaving the CUDA context may be what failed. */
	if (code)
		cg_cu_release(device, built);
	else
		*result = built;
	return code;
}

struct CUfunc_st *cg_cu_function(const struct cg_module *built)
{
	return built->forms[0][0].function;
}

/* ---- launches ---- */

CUdeviceptr cg_cu_address(struct cg_mem mem)
{
	return mem.data ? (CUdeviceptr)(uintptr_t)mem.data + mem.offset : 0;
}

/* The values of a launch and their addresses, in the form that cuLaunchKernel takes. */
struct parameters {
	union value { CUdeviceptr at; int64_t count; uint32_t narrow; float f32; double f64; } values[4 * CG_SLOTS_MAX];
	void *at[4 * CG_SLOTS_MAX];
	int n;
};

static union value *next(struct parameters *p)
{
	p->at[p->n] = &p->values[p->n];
	return &p->values[p->n++];
}

static void bind_scalar(struct parameters *to, int dtype, double value)
{
	if (dtype == CG_F64)
		next(to)->f64 = value;
	else
		next(to)->f32 = (float)value;
}

static void bind(struct parameters *to, const struct cg_pass_plan *plan, const struct cg_function *function, int64_t rows, int64_t units,
                 const struct cg_operand *operands)
{
	to->n = 0;
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		const struct cg_operand *o = &operands[k];

		if (!cg_is_parameter(function, a))
			continue;
		switch (a->kind) {
		case CG_KIND_COUNT:
			if (a->type == CG_TYPE_I32)
				next(to)->narrow = (uint32_t)(int64_t)o->value;
			else
				next(to)->count = a->role == CG_ROLE_ROWS ? rows : a->role == CG_ROLE_UNITS ? units : (int64_t)o->value;
			break;
		case CG_KIND_SCALAR:
			bind_scalar(to, plan->dtype, o->value);
			break;
		default:
			next(to)->at = cg_cu_address(o->mem);
			if (a->kind == CG_KIND_TENSOR)
				next(to)->count = o->stride;
			if (cg_has_second(function, a))
				next(to)->count = o->second;
		}
	}
}

/* Sets the parameters of a step loop. */
static void bind_loop(struct parameters *to, const struct cg_pass_plan *plan, const struct cg_step_loop *loop)
{
	const struct cg_function *function = &plan->functions[loop->function];

	to->n = 0;
	next(to)->count = loop->rows;
	next(to)->count = loop->units;
	next(to)->count = loop->steps;
	next(to)->at = cg_cu_address(loop->offsets);
	next(to)->count = loop->start;
	next(to)->count = loop->apart;
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		const struct cg_operand *operands[] = { &loop->operands[k], cg_has_second_memory(plan, a) ? &loop->second[k] : NULL };

		if (a->kind == CG_KIND_SCALAR)
			bind_scalar(to, plan->dtype, operands[0]->value);
		for (int memory = 0; memory < 2 && operands[memory] && cg_is_array(a); memory++) {
			next(to)->at = cg_cu_address(operands[memory]->mem);
			if (a->kind == CG_KIND_TENSOR)
				next(to)->count = operands[memory]->stride;
		}
	}
}

struct grid { unsigned x, y, wide, tall; };

static unsigned least(uint64_t a, uint64_t b)
{
	return (unsigned)(a < b ? a : b);
}

/* A block is as wide as the work of a row, rounded up to a power of two, but has at most `threads` threads; with tall = 1 a block takes
 * several rows if a row is narrow.  The kernel loops over the rows and columns beyond the grid. */
static struct grid grid_for(const struct cg_dev *device, unsigned threads, int64_t rows, int64_t across, int tall)
{
	struct grid g = { .wide = 1, .tall = 1 };

	while (2 * g.wide <= threads && g.wide < (uint64_t)across)
		g.wide *= 2;
	while (tall && 2 * g.tall * g.wide <= threads && g.tall < (uint64_t)rows)
		g.tall *= 2;
	g.x = least(((uint64_t)across + g.wide - 1) / g.wide, (uint64_t)device->grid_x);
	g.y = least(((uint64_t)rows + g.tall - 1) / g.tall, (uint64_t)device->grid_y);
	return g;
}

/* Chooses a grid: makes the blocks of threads smaller if there would be fewer large blocks than multiprocessors. */
static struct grid grid_of(const struct cg_dev *device, int most, int64_t rows, int64_t across, int tall)
{
	enum { LARGEST = 256, SMALLEST = 64 };
	struct grid g;

	for (unsigned threads = LARGEST; threads >= SMALLEST; threads /= 2) {
		g = grid_for(device, least((unsigned)most, threads), rows, across, tall);
		if ((uint64_t)g.x * g.y >= (uint64_t)device->units)
			break;
	}
	return g;
}

static int enqueue(struct cg_queue *queue, struct CUfunc_st *function, struct grid g, struct parameters *parameters)
{
	CU_TRY(queue->device, LaunchKernel, function, g.x, g.y, 1, g.wide, g.tall, 1, 0, queue->stream, parameters->at, NULL);
	return CG_OK;
}

static int launch(struct cg_queue *queue, struct CUfunc_st *function, struct grid g, struct parameters *parameters)
{
	CU_INSIDE(queue->device, enqueue(queue, function, g, parameters));
}

/* The grid of a cell's function: its second direction counts the values of a sum, the blocks of rows of partial sums, or the rows of a
 * function over elements.  A sum over units has one block of threads for each value, means over units have one for each row. */
static struct grid function_grid(const struct cg_dev *device, const struct cg_function *p, int most, int64_t rows, int64_t across)
{
	int64_t down = p->shape == CG_FUNCTION_SUM_PART ? rows / CG_SUM_ROWS + (rows % CG_SUM_ROWS != 0)
	                                             : p->shape == CG_FUNCTION_SUM ? cg_sum_values(p) : rows;

	if (p->shape == CG_FUNCTION_SUM_UNITS)
		return (struct grid){ 1, (unsigned)cg_count_outputs(p), CG_LANES, 1 };
	if (p->shape == CG_FUNCTION_MEAN)
		return (struct grid){ 1, least((uint64_t)rows, (uint64_t)device->grid_y), CG_LANES, 1 };
	return grid_of(device, most, down, across, p->shape != CG_FUNCTION_SUM);
}

/* The grid of a matrix product or of row copies, whose global and local sizes are counted as in OpenCL. */
static int text_grid(const struct cg_dev *device, const struct cg_pass_plan *plan, int64_t rows, int64_t units,
                     const struct cg_operand *operands, struct grid *g)
{
	size_t global[2], local[2];

	if (plan->functions->shape == CG_FUNCTION_PRODUCT)
		cg_gemm_launch(&plan->gemm, rows, units, global, local);
	else
		cg_rows_launch(rows, units, (int64_t)operands[CG_ROWS_FIRST_UNIT].value, device->group_most, device->group_most, global, local);
	if (global[0] / local[0] > (size_t)device->grid_x)
		return cg_fail(CG_UNSUPPORTED, "cuda: %s of %lld columns needs more blocks side by side than the %d that a grid may have",
		               plan->functions->shape == CG_FUNCTION_PRODUCT ? "a matrix product" : "a copy of rows", (long long)units,
		               device->grid_x);
	*g = (struct grid){ (unsigned)(global[0] / local[0]), (unsigned)(global[1] / local[1]), (unsigned)local[0], (unsigned)local[1] };
	return CG_OK;
}

static int launch_text(struct cg_queue *queue, const struct cg_module *built, int64_t rows, int64_t units,
                       const struct cg_operand *operands, struct parameters *parameters)
{
	struct grid g;

	CG_TRY(text_grid(queue->device, built->plan, rows, units, operands, &g));
	return launch(queue, built->forms[0][0].function, g, parameters);
}

static int launch_function(struct cg_queue *queue, const struct cg_module *built, int function, int64_t rows, int64_t units,
                           struct parameters *parameters)
{
	const struct cg_function *p = &built->plan->functions[function];
	int run = p->shape == CG_FUNCTION_POINT ? cg_run_units(built->plan, p) : 1;
	int one = run > 1 && !cg_takes_runs(built->plan, p, rows, units, queue->device->units);
	const struct form *form = &built->forms[function][one];
	int64_t across = one ? units : units / run + (units % run != 0);

	return launch(queue, form->function, function_grid(queue->device, p, form->threads, rows, across), parameters);
}

int cg_cu_launch(struct cg_queue *queue, const struct cg_module *built, int function, int64_t rows, int64_t units,
                 const struct cg_operand *operands)
{
	const struct cg_function *p = &built->plan->functions[function];
	struct parameters parameters;
	int code;

	if (!rows && !cg_is_sum(p))
		return CG_OK;
	bind(&parameters, built->plan, p, rows, units, operands);
	code = built->plan->cell ? launch_function(queue, built, function, rows, units, &parameters)
	                         : launch_text(queue, built, rows, units, operands, &parameters);
	return code ? cg_fail_in(code, "%s", p->key) : CG_OK;
}

int cg_cu_loop_steps(struct cg_queue *queue, const struct cg_module *built, const struct cg_step_loop *loop)
{
	const struct form *form = &built->loop;
	struct parameters parameters;
	int code;

	bind_loop(&parameters, built->plan, loop);
	code = launch(queue, form->function, grid_of(queue->device, form->threads, loop->rows, loop->units, 1), &parameters);
	return code ? cg_fail_in(code, "%s", built->plan->functions[loop->function].key) : CG_OK;
}
