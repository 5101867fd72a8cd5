/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds programs from plans and kernels from programs, and launches kernels, for cells, products and row copies.  A plan's program is
 * built once for all sizes.  A device whose driver reports no local memory of its own counts as a processor; on a processor a cell has two
 * programs: one tests for absent arguments, the other is for launches that have no absent argument.
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/opencl/opencl.h"

/* For a device that counts as a processor, STRIP is the number of units of a strip, which one work-item computes, and ROWS the most rows of
 * a work-item. */
enum { STRIP = 1024, ROWS = 16 };

struct program {
	/* the number of the program, unique on the device; 0: the program has not been made yet.  Atomic */
	uint64_t id;
	struct _cl_program *program;
};

struct cg_module {
	const struct cg_pass_plan *plan;
	/* an array of two: the program for any launch, and that for launches without absent arguments */
	struct program *programs;
};

/* The kernels of a program on one queue, each made at its first launch. */
struct cg_cl_kernels {
	struct cg_cl_kernels *next;
	uint64_t id;                             /* the id of the program */
	/* by function; behind them, the step loop, of which a program has at most one.  group: the most work-items of a kernel's group */
	struct _cl_kernel *kernels[CG_FUNCTIONS_MAX + 1];
	size_t group[CG_FUNCTIONS_MAX + 1];
};

/* Does each work-item of a plan's kernels compute a strip of neighbouring units?  has_strips() returns 1 for a cell's kernels if the device
 * has no local memory of its own: on such a device each work-item has a thread, and the thread's vector registers, to itself. */
static int has_strips(const struct cg_dev *device, const struct cg_pass_plan *plan)
{
	return plan->cell && !device->local;
}

/* Reports a text that the driver did not compile, with the driver's log, which may be long: the beginning of the log matters most. */
static int refused(struct cg_dev *device, struct _cl_program *program, const char *key, int32_t error)
{
	size_t bytes = 0;
	char *log = NULL;
	int code;

	if (!cg_cl.GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) && bytes)
		log = cg_memory(NULL, bytes + 1);
	if (log) {
		log[0] = log[bytes] = 0;
		cg_cl.GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
	}
	code = cg_fail(CG_BUILD, "opencl: clBuildProgram: %s (%d): kernel %s: %.1500s", cg_cl_error(error), (int)error, key,
	               log && log[0] ? log : "the driver gives no log");
	cg_memory(log, 0);
	return code;
}

static int compile(struct cg_dev *device, const char *text, const char *key, const char *options, struct _cl_program **result)
{
	struct _cl_program *program;
	int32_t code = 0;

	program = cg_cl.CreateProgramWithSource(device->context, 1, &text, NULL, &code);
	if (!program)
		return cg_cl_check(code ? code : CL_OUT_OF_RESOURCES, "clCreateProgramWithSource");
	code = cg_cl.BuildProgram(program, 1, &device->id, options, NULL, NULL);
	if (code) {
		code = refused(device, program, key, code);
		cg_cl.ReleaseProgram(program);
		return code;
	}
	*result = program;
	return CG_OK;
}

static const char *options_of(int dtype)
{
	return dtype == CG_F64 ? "-cl-std=CL1.2" : "-cl-std=CL1.2 -cl-denorms-are-zero";
}

int cg_cl_compile(struct cg_dev *device, const char *text, const char *key, int dtype, struct _cl_program **result)
{
	return compile(device, text, key, options_of(dtype), result);
}

/* Prints and compiles a plan's text with its macros, under the device's lock.  Option -w, for texts with strips, silences compilers that
 * warn that they have not vectorised a loop although they do so later. */
static int make_program(struct cg_dev *device, const struct cg_pass_plan *plan, int whole, struct program *p)
{
	int lanes = (int)(device->vector_f32 * sizeof(float) / cg_acc_bytes(plan->dtype));
	struct cg_text text = { .resize = cg_memory };
	char options[128];
	int code;

	snprintf(options, sizeof options, "%s", options_of(plan->dtype));
	if (has_strips(device, plan))
		snprintf(options + strlen(options), sizeof options - strlen(options), " -w -DSTRIP=%d%s", STRIP, whole ? " -DWHOLE" : "");
	if (has_strips(device, plan) && lanes > 1)
		snprintf(options + strlen(options), sizeof options - strlen(options), " -DLANES=%d", lanes);
	code = cg_print(plan, CG_LANG_OPENCL, &text) ? CG_NO_MEMORY : CG_OK;
	if (!code)
		code = compile(device, text.at, plan->key, options, &p->program);
	cg_memory(text.at, 0);
	if (!code)
		__atomic_store_n(&p->id, ++device->programs, __ATOMIC_RELEASE);
	return code;
}

/* Finds the program for any launch, or, if `whole` is 1, the program for launches without absent arguments, and makes that program at
 * its first use. */
static int get_program(struct cg_dev *device, const struct cg_module *built, int whole, struct program **result)
{
	struct program *p = *result = &built->programs[whole];
	int code;

	if (__atomic_load_n(&p->id, __ATOMIC_ACQUIRE))
		return CG_OK;
	pthread_mutex_lock(device->lock);
	code = p->id ? CG_OK : make_program(device, built->plan, whole, p);
	pthread_mutex_unlock(device->lock);
	return code;
}

void cg_cl_release(struct cg_dev *device, struct cg_module *built)
{
	(void)device;
	if (!built)
		return;
	for (int whole = 0; built->programs && whole < 2; whole++)
		if (built->programs[whole].program)
			cg_cl.ReleaseProgram(built->programs[whole].program);
	cg_memory(built->programs, 0);
	cg_memory(built, 0);
}

int cg_cl_build(struct cg_dev *device, const struct cg_pass_plan *plan, struct cg_module **result)
{
	struct cg_module *built = cg_memory(NULL, sizeof *built);
	struct program *program;
	int code;

	if (!built)
		return CG_NO_MEMORY;
	*built = (struct cg_module){ plan, cg_memory(NULL, 2 * sizeof *built->programs) };
	if (built->programs)
		memset(built->programs, 0, 2 * sizeof *built->programs);
	code = built->programs ? get_program(device, built, has_strips(device, plan), &program) : CG_NO_MEMORY;
	if (code)
		cg_cl_release(device, built);
	else
		*result = built;
	return code;
}

/* ---- kernels ---- */

void cg_cl_release_kernels(struct cg_queue *queue)
{
	while (queue->kernels) {
		struct cg_cl_kernels *k = queue->kernels;

		queue->kernels = k->next;
		for (int p = 0; p <= CG_FUNCTIONS_MAX; p++)
			if (k->kernels[p])
				cg_cl.ReleaseKernel(k->kernels[p]);
		cg_memory(k, 0);
	}
}

static int get_kernels(struct cg_queue *queue, const struct program *program, struct cg_cl_kernels **result)
{
	struct cg_cl_kernels *k = queue->kernels;

	while (k && k->id != program->id)
		k = k->next;
	if (!k) {
		k = cg_memory(NULL, sizeof *k);
		if (!k)
			return CG_NO_MEMORY;
		*k = (struct cg_cl_kernels){ .next = queue->kernels, .id = program->id };
		queue->kernels = k;
	}
	*result = k;
	return CG_OK;
}

static int make_kernel(const struct cg_dev *device, const struct program *program, const char *key, int function,
                       struct cg_cl_kernels *k)
{
	struct _cl_kernel *kernel;
	int32_t code = 0;

	kernel = cg_cl.CreateKernel(program->program, key, &code);
	if (!kernel)
		return cg_cl_check(code ? code : CL_OUT_OF_RESOURCES, "clCreateKernel");
	code = cg_cl.GetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof *k->group, &k->group[function], NULL);
	if (code) {
		cg_cl.ReleaseKernel(kernel);
		return cg_cl_check(code, "clGetKernelWorkGroupInfo");
	}
	k->kernels[function] = kernel;
	return CG_OK;
}

/* Sets the kernel's argument number *at, and adds 1 to *at. */
static int set(struct _cl_kernel *kernel, uint32_t *at, size_t bytes, const void *value)
{
	CL_TRY(SetKernelArg, kernel, (*at)++, bytes, value);
	return CG_OK;
}

/* Sets two arguments of a kernel: a buffer, and the offset in it, in elements. */
static int set_memory(struct _cl_kernel *kernel, uint32_t *at, struct cg_mem mem, size_t element)
{
	struct _cl_mem *buffer = mem.data;
	uint64_t offset = mem.offset / element;

	CG_TRY(set(kernel, at, sizeof buffer, &buffer));
	return set(kernel, at, sizeof offset, &offset);
}

static int set_count(struct _cl_kernel *kernel, uint32_t *at, int type, int64_t count)
{
	uint32_t narrow = (uint32_t)count;

	return type == CG_TYPE_I32 ? set(kernel, at, sizeof narrow, &narrow) : set(kernel, at, sizeof count, &count);
}

static int set_scalar(struct _cl_kernel *kernel, uint32_t *at, int dtype, double value)
{
	float narrow = (float)value;

	return dtype == CG_F64 ? set(kernel, at, sizeof value, &value) : set(kernel, at, sizeof narrow, &narrow);
}

static int bind(struct _cl_kernel *kernel, const struct cg_pass_plan *plan, const struct cg_function *function, int64_t rows,
                int64_t units, const struct cg_operand *operands)
{
	const size_t bytes[] = {
		[CG_TYPE_REAL] = cg_dtype_bytes(plan->dtype), [CG_TYPE_ACC] = cg_acc_bytes(plan->dtype), [CG_TYPE_I64] = sizeof(int64_t),
	};
	uint32_t at = 0;

	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		const struct cg_operand *o = &operands[k];

		if (!cg_is_parameter(function, a))
			continue;
		switch (a->kind) {
		case CG_KIND_COUNT:
			CG_TRY(set_count(kernel, &at, a->type, a->role == CG_ROLE_ROWS ? rows : a->role == CG_ROLE_UNITS ? units : (int64_t)o->value));
			break;
		case CG_KIND_SCALAR:
			CG_TRY(set_scalar(kernel, &at, plan->dtype, o->value));
			break;
		default:
			CG_TRY(set_memory(kernel, &at, o->mem, bytes[a->type]));
			if (a->kind == CG_KIND_TENSOR)
				CG_TRY(set(kernel, &at, sizeof o->stride, &o->stride));
		}
	}
	return CG_OK;
}

/* Sets the arguments of a step loop. */
static int bind_loop(struct _cl_kernel *kernel, const struct cg_pass_plan *plan, const struct cg_step_loop *loop)
{
	const struct cg_function *function = &plan->functions[loop->function];
	const size_t real = cg_dtype_bytes(plan->dtype), acc = cg_acc_bytes(plan->dtype);
	const int64_t counts[] = { loop->rows, loop->units, loop->steps };
	uint32_t at = 0;

	for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
		CG_TRY(set(kernel, &at, sizeof *counts, &counts[k]));
	CG_TRY(set_memory(kernel, &at, loop->offsets, sizeof(int64_t)));
	CG_TRY(set(kernel, &at, sizeof loop->start, &loop->start));
	CG_TRY(set(kernel, &at, sizeof loop->apart, &loop->apart));
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		const struct cg_operand *operands[] = { &loop->operands[k], cg_has_second_memory(plan, a) ? &loop->second[k] : NULL };

		if (a->kind == CG_KIND_SCALAR)
			CG_TRY(set_scalar(kernel, &at, plan->dtype, operands[0]->value));
		for (int memory = 0; memory < 2 && operands[memory] && cg_is_array(a); memory++) {
			CG_TRY(set_memory(kernel, &at, operands[memory]->mem, a->type == CG_TYPE_ACC ? acc : real));
			if (a->kind == CG_KIND_TENSOR)
				CG_TRY(set(kernel, &at, sizeof operands[memory]->stride, &operands[memory]->stride));
		}
	}
	return CG_OK;
}

static int enqueue(struct cg_queue *queue, struct _cl_kernel *kernel, const size_t global[2], const size_t local[2])
{
	CL_TRY(EnqueueNDRangeKernel, queue->queue, kernel, 2, NULL, global, local, 0, NULL, NULL);
	return CG_OK;
}

/* Is no argument of the launch absent?  The launch of a sum counts as one without absent arguments, since the sum's text tests for absent
 * outputs in both programs of the cell. */
static int is_whole(const struct cg_function *function, const struct cg_operand *operands)
{
	if (cg_is_sum(function))
		return 1;
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];

		if (cg_is_parameter(function, a) && cg_is_array(a) && !operands[k].mem.data)
			return 0;
	}
	return 1;
}

static int64_t blocks_of(const struct cg_function *function, int64_t rows)
{
	return function->shape == CG_FUNCTION_SUM_PART ? (rows + CG_SUM_ROWS - 1) / CG_SUM_ROWS : cg_is_sum(function) ? 1 : rows;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The number of rows, neighbours in memory, that a work-item computes on a processor, so that a grid of `wide` work-items in width has
 * enough work-items for all compute units. */
static size_t rows_each(const struct cg_dev *device, size_t wide, size_t rows)
{
	enum { TURNS = 8 };
	size_t each = wide * rows / ((size_t)device->units * TURNS);

	return each < 1 ? 1 : least(each, ROWS);
}

/* Sets the width of the grid and of its work-groups for one work-item a unit.  A group is as wide as the units, rounded up to a power of
 * two, within 256 work-items and the limits of device and kernel. */
static void set_items(const struct cg_dev *device, size_t most, int64_t units, size_t global[2], size_t local[2])
{
	enum { GROUP = 256 };
	size_t wide = 1, group = least(least(most, GROUP), device->group_most);

	while (2 * wide <= least(group, device->item_most) && wide < (size_t)units)
		wide *= 2;
	local[0] = wide;
	local[1] = 1;
	global[0] = ((size_t)units + wide - 1) / wide * wide;
}

/* Sets the grid.  On a processor a work-item computes a strip of units in some rows, or in the sums of a block.  On other devices it
 * computes one unit; the kernel loops over blocks of sums beyond the grid. */
static void set_grid(const struct cg_dev *device, size_t most, int shape, int64_t rows, int64_t units, size_t global[2],
                     size_t local[2])
{
	enum { BLOCKS_MOST = 4096 };
	size_t each;

	if (!device->local) {
		local[0] = local[1] = 1;
		global[0] = ((size_t)units + STRIP - 1) / STRIP;
		each = shape == CG_FUNCTION_POINT ? rows_each(device, global[0], (size_t)rows) : 1;
		global[1] = ((size_t)rows + each - 1) / each;
		return;
	}
	set_items(device, most, units, global, local);
	global[1] = shape == CG_FUNCTION_POINT ? (size_t)rows : least((size_t)rows, BLOCKS_MOST);
}

/* Finds the global and local sizes of a launch.  Argument `most`: the most work-items of a group of this kernel. */
static void find_sizes(const struct cg_dev *device, const struct cg_pass_plan *plan, const struct cg_function *function, size_t most,
                       int64_t rows, int64_t units, const struct cg_operand *operands, size_t global[2], size_t local[2])
{
	enum { GROUPS_MOST = 1 << 16 };
	size_t group = least(INT_MAX, least(most, least(device->group_most, device->item_most)));

	switch (function->shape) {
	case CG_FUNCTION_PRODUCT:
		cg_gemm_launch(&plan->gemm, rows, units, global, local);
		return;
	case CG_FUNCTION_ROWS:
		cg_rows_launch(rows, units, (int64_t)operands[CG_ROWS_FIRST_UNIT].value, (int)group, 1, global, local);
		return;
	case CG_FUNCTION_SUM_UNITS:
	case CG_FUNCTION_MEAN:
		global[0] = local[0] = CG_LANES;
		global[1] = function->shape == CG_FUNCTION_MEAN ? least((size_t)rows, GROUPS_MOST) : (size_t)cg_count_outputs(function);
		local[1] = 1;
		return;
	default:
		set_grid(device, most, function->shape, blocks_of(function, rows), units, global, local);
	}
}

static int launch(struct cg_queue *queue, const struct cg_module *built, int function, int64_t rows, int64_t units,
                  const struct cg_operand *operands)
{
	const struct cg_function *p = &built->plan->functions[function];
	int whole = has_strips(queue->device, built->plan) && is_whole(p, operands);
	struct cg_cl_kernels *k;
	struct program *program;
	size_t global[2], local[2];

	CG_TRY(get_program(queue->device, built, whole, &program));
	CG_TRY(get_kernels(queue, program, &k));
	if (!k->kernels[function])
		CG_TRY(make_kernel(queue->device, program, p->key, function, k));
	CG_TRY(bind(k->kernels[function], built->plan, p, rows, units, operands));
	find_sizes(queue->device, built->plan, p, k->group[function], rows, units, operands, global, local);
	return enqueue(queue, k->kernels[function], global, local);
}

int cg_cl_launch(struct cg_queue *queue, const struct cg_module *built, int function, int64_t rows, int64_t units,
                 const struct cg_operand *operands)
{
	const struct cg_function *p = &built->plan->functions[function];
	int code = blocks_of(p, rows) ? launch(queue, built, function, rows, units, operands) : CG_OK;

	return code ? cg_fail_in(code, "%s", p->key) : CG_OK;
}

static int loop_steps(struct cg_queue *queue, const struct cg_module *built, const struct cg_step_loop *loop)
{
	enum { SLOT = CG_FUNCTIONS_MAX, ROWS_MOST = 1 << 16 };
	struct cg_cl_kernels *k;
	struct program *program;
	size_t global[2], local[2];
	char key[CG_KEY_MAX];

	CG_TRY(get_program(queue->device, built, 0, &program));
	CG_TRY(get_kernels(queue, program, &k));
	cg_step_loop_key(&built->plan->functions[loop->function], key);
	if (!k->kernels[SLOT])
		CG_TRY(make_kernel(queue->device, program, key, SLOT, k));
	CG_TRY(bind_loop(k->kernels[SLOT], built->plan, loop));
	set_items(queue->device, k->group[SLOT], loop->units, global, local);
	global[1] = least((size_t)loop->rows, ROWS_MOST);
	return enqueue(queue, k->kernels[SLOT], global, local);
}

int cg_cl_loop_steps(struct cg_queue *queue, const struct cg_module *built, const struct cg_step_loop *loop)
{
	int code = loop_steps(queue, built, loop);

	return code ? cg_fail_in(code, "%s", built->plan->functions[loop->function].key) : CG_OK;
}
