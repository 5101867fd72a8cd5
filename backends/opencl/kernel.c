/*
 * Texts become programs, programs kernels, and kernels are launched: built once for a key, whatever the sizes.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/opencl/opencl.h"
#include "runtime/op.h"

struct cg_built {
	const struct cg_pass_plan *plan;
	struct _cl_program *program;
	struct _cl_kernel *kernels[CG_READY_PIECES];
	size_t group[CG_READY_PIECES];           /* work-items that a group of it may have */
};

/* The driver's log, which may be long: its beginning is what matters. */
static int refused(struct cg_device *device, struct _cl_program *program, const char *key, int32_t error)
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
	code = cg_fail(CG_BUILD, "opencl: clBuildProgram: %s (%d): %s: %.1500s", cg_cl_error(error), (int)error, key,
	               log && log[0] ? log : "the driver gives no log");
	cg_memory(log, 0);
	return code;
}

int cg_cl_compile(struct cg_device *device, const char *text, const char *key, int dtype, struct _cl_program **result)
{
	const char *options = dtype == CG_F64 ? "-cl-std=CL1.2" : "-cl-std=CL1.2 -cl-denorms-are-zero";
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

void cg_cl_drop(struct cg_device *device, struct cg_built *built)
{
	(void)device;
	if (!built)
		return;
	for (int p = 0; p < CG_READY_PIECES; p++)
		if (built->kernels[p])
			cg_cl.ReleaseKernel(built->kernels[p]);
	if (built->program)
		cg_cl.ReleaseProgram(built->program);
	cg_memory(built, 0);
}

static int make_kernels(struct cg_device *device, struct cg_built *built)
{
	const struct cg_pass_plan *plan = built->plan;

	for (int p = 0; p < plan->n_pieces; p++) {
		int32_t code = 0;

		built->kernels[p] = cg_cl.CreateKernel(built->program, plan->pieces[p].key, &code);
		if (!built->kernels[p])
			return cg_fail_in(cg_cl_check(code ? code : CL_OUT_OF_RESOURCES, "clCreateKernel"), "%s", plan->pieces[p].key);
		CL_TRY(GetKernelWorkGroupInfo, built->kernels[p], device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof *built->group,
		       &built->group[p], NULL);
	}
	return CG_OK;
}

int cg_cl_build(struct cg_device *device, const struct cg_pass_plan *plan, struct cg_built **result)
{
	struct cg_built *built = cg_memory(NULL, sizeof *built);
	struct cg_text text = { .resize = cg_memory };
	int code;

	if (!built)
		return CG_NO_MEMORY;
	memset(built, 0, sizeof *built);
	built->plan = plan;
	code = cg_print(plan, CG_LANG_OPENCL, &text) ? CG_NO_MEMORY : CG_OK;
	if (!code)
		code = cg_cl_compile(device, text.at, plan->key, plan->dtype, &built->program);
	cg_memory(text.at, 0);
	if (!code)
		code = make_kernels(device, built);
	if (code)
		cg_cl_drop(device, built);
	else
		*result = built;
	return code;
}

int cg_cl_set(struct _cl_kernel *kernel, uint32_t *at, size_t bytes, const void *value)
{
	CL_TRY(SetKernelArg, kernel, (*at)++, bytes, value);
	return CG_OK;
}

int cg_cl_set_memory(struct _cl_kernel *kernel, uint32_t *at, struct cg_mem mem, size_t element)
{
	struct _cl_mem *buffer = mem.data;
	uint64_t offset = mem.offset / element;

	CG_TRY(cg_cl_set(kernel, at, sizeof buffer, &buffer));
	return cg_cl_set(kernel, at, sizeof offset, &offset);
}

static int bind(struct _cl_kernel *kernel, const struct cg_pass_plan *plan, const struct cg_piece *piece, int64_t rows,
                int64_t units, const struct cg_operand *operands)
{
	uint32_t at = 0;

	for (int k = 0; k < piece->n_arguments; k++) {
		const struct cg_argument *a = &piece->arguments[k];
		const struct cg_operand *o = &operands[k];
		int64_t count = a->role == CG_ROLE_ROWS ? rows : a->role == CG_ROLE_UNITS ? units : (int64_t)o->value;
		float narrow = (float)o->value;

		if (!cg_is_parameter(piece, a))
			continue;
		switch (a->kind) {
		case CG_KIND_COUNT:
			CG_TRY(cg_cl_set(kernel, &at, sizeof count, &count));
			break;
		case CG_KIND_SCALAR:
			CG_TRY(plan->dtype == CG_F64 ? cg_cl_set(kernel, &at, sizeof o->value, &o->value)
			                             : cg_cl_set(kernel, &at, sizeof narrow, &narrow));
			break;
		default:
			CG_TRY(cg_cl_set_memory(kernel, &at, o->mem, a->type == CG_TYPE_ACC ? cg_acc_bytes(plan->dtype)
			                                                                     : cg_dtype_bytes(plan->dtype)));
			if (a->kind == CG_KIND_TENSOR)
				CG_TRY(cg_cl_set(kernel, &at, sizeof o->stride, &o->stride));
		}
	}
	return CG_OK;
}

int cg_cl_enqueue(struct cg_queue *queue, struct _cl_kernel *kernel, const size_t global[2], const size_t local[2])
{
	CL_TRY(EnqueueNDRangeKernel, queue->queue, kernel, 2, NULL, global, local, 0, NULL, NULL);
	return CG_OK;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* A group is as wide as the units, up to what the device takes: all it has on a processor, where a group is a loop.  Blocks of sums
 * beyond the grid are taken in turns. */
static void grid(const struct cg_device *device, size_t most, int shape, int64_t rows, int64_t units, size_t global[2],
                 size_t local[2])
{
	enum { GROUP = 256, BLOCKS_MOST = 4096 };
	size_t wide = 1, group = least(device->local ? least(most, GROUP) : most, device->group_most);

	while (2 * wide <= least(group, device->item_most) && wide < (size_t)units)
		wide *= 2;
	local[0] = wide;
	local[1] = 1;
	global[0] = ((size_t)units + wide - 1) / wide * wide;
	global[1] = shape == CG_PIECE_POINT ? (size_t)rows : least((size_t)rows, BLOCKS_MOST);
}

int cg_cl_launch(struct cg_queue *queue, const struct cg_built *built, int piece, int64_t rows, int64_t units,
                 const struct cg_operand *operands)
{
	const struct cg_piece *p = &built->plan->pieces[piece];
	int64_t blocks = p->shape == CG_PIECE_SUM_PART ? (rows + CG_SUM_ROWS - 1) / CG_SUM_ROWS : p->shape == CG_PIECE_SUM ? 1 : rows;
	size_t global[2], local[2];
	int code;

	if (!blocks)
		return CG_OK;
	grid(queue->device, built->group[piece], p->shape, blocks, units, global, local);
	pthread_mutex_lock(queue->device->lock);
	code = bind(built->kernels[piece], built->plan, p, rows, units, operands);
	if (!code)
		code = cg_cl_enqueue(queue, built->kernels[piece], global, local);
	pthread_mutex_unlock(queue->device->lock);
	return code ? cg_fail_in(code, "%s", p->key) : CG_OK;
}
