/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend `faulty`, written by the steps of backends/README.md: the slots that can fail count their calls together, the n-th call
 * fails, and all other calls go to the slots of the backend behind it, the cpu or late. The backend claims that it cannot work in host
 * memory, so that the runtime copies, and rejects host memory that it gets all the same.
 */
#include <stdlib.h>

#include "runtime/device/device.h"
#include "tests/fake/faulty.h"

#ifndef FAULTY_BEHIND
#define FAULTY_BEHIND cg_backend_cpu
#endif
extern const struct cg_backend FAULTY_BEHIND, cg_backend_faulty;

static long made, fatal, live;
static const char *failed;

long faulty_at(long n)
{
	long before = made;

	made = 0;
	fatal = n;
	failed = NULL;
	return before;
}

const char *faulty_call(void)
{
	return failed;
}

long faulty_held(void)
{
	return live;
}

static int turn(const char *slot)
{
	if (++made != fatal)
		return CG_OK;
	failed = slot;
	return cg_fail(CG_DRIVER, "faulty: %s: failed as the test asked", slot);
}

/* Fails if an operand of a slot is in host memory: the runtime must pass device memory alone to this backend. */
static int own(const char *slot, struct cg_mem mem)
{
	return !mem.data || mem.place == CG_DEVICE ? CG_OK : cg_fail(CG_DRIVER, "faulty: %s: got the host's memory", slot);
}

static const char *list(int i, char *about, size_t bytes)
{
	return FAULTY_BEHIND.list(i, about, bytes);
}

static int open_device(const char *where, struct cg_dev **device)
{
	CG_TRY(turn("open"));
	CG_TRY(FAULTY_BEHIND.open(where, device));
	live++;
	return CG_OK;
}

static void close_device(struct cg_dev *device)
{
	live--;
	FAULTY_BEHIND.close(device);
}

static const char *describe(const struct cg_dev *device)
{
	return FAULTY_BEHIND.describe(device);
}

static int supports(const struct cg_dev *device, int dtype)
{
	return FAULTY_BEHIND.supports(device, dtype);
}

static int start(struct cg_dev *device, void *native, struct cg_queue **queue)
{
	CG_TRY(turn("start"));
	CG_TRY(FAULTY_BEHIND.start(device, native, queue));
	live++;
	return CG_OK;
}

static int sync_queue(struct cg_queue *queue)
{
	CG_TRY(turn("sync"));
	return FAULTY_BEHIND.sync(queue);
}

static void stop(struct cg_queue *queue)
{
	live--;
	FAULTY_BEHIND.stop(queue);
}

static int alloc(struct cg_dev *device, struct cg_queue *queue, size_t bytes, struct cg_mem *mem)
{
	CG_TRY(turn("alloc"));
	CG_TRY(FAULTY_BEHIND.alloc(device, queue, bytes, mem));
	live++;
	return CG_OK;
}

static void free_mem(struct cg_dev *device, struct cg_queue *queue, struct cg_mem *mem)
{
	live--;
	FAULTY_BEHIND.free(device, queue, mem);
}

static int check(struct cg_dev *device, struct cg_mem mem)
{
	CG_TRY(turn("check"));
	return FAULTY_BEHIND.check(device, mem);
}

static int copy_in(struct cg_queue *queue, struct cg_mem to, const void *from, size_t bytes)
{
	CG_TRY(turn("put"));
	CG_TRY(own("put", to));
	return FAULTY_BEHIND.copy_in(queue, to, from, bytes);
}

static int copy_out(struct cg_queue *queue, void *to, struct cg_mem from, size_t bytes)
{
	CG_TRY(turn("get"));
	CG_TRY(own("get", from));
	return FAULTY_BEHIND.copy_out(queue, to, from, bytes);
}

static int zero(struct cg_queue *queue, struct cg_mem mem, size_t bytes)
{
	CG_TRY(turn("zero"));
	CG_TRY(own("zero", mem));
	return FAULTY_BEHIND.zero(queue, mem, bytes);
}

struct cg_module { const struct cg_pass_plan *plan; void *behind; };

static int build(struct cg_dev *device, const struct cg_pass_plan *plan, struct cg_module **result)
{
	struct cg_module *built, *behind;

	CG_TRY(turn("build"));
	CG_TRY(FAULTY_BEHIND.build(device, plan, &behind));
	built = malloc(sizeof *built);
	if (!built)
		abort();
	*built = (struct cg_module){ plan, behind };
	*result = built;
	live++;
	return CG_OK;
}

static void release(struct cg_dev *device, struct cg_module *built)
{
	live--;
	FAULTY_BEHIND.release(device, built->behind);
	free(built);
}

static int launch(struct cg_queue *queue, const struct cg_module *built, int function, int64_t rows, int64_t units,
                  const struct cg_operand *operands)
{
	const struct cg_function *p = &built->plan->functions[function];

	CG_TRY(turn("launch"));
	for (int k = 0; k < p->n_arguments; k++)
		if (cg_is_parameter(p, &p->arguments[k]))
			CG_TRY(own("launch", operands[k].mem));
	return FAULTY_BEHIND.launch(queue, built->behind, function, rows, units, operands);
}

static int gemm(struct cg_queue *queue, const struct cg_gemm *g, int *left)
{
	CG_TRY(turn("gemm"));
	CG_TRY(own("gemm", g->a.mem));
	CG_TRY(own("gemm", g->b.mem));
	CG_TRY(own("gemm", g->start.mem));
	CG_TRY(own("gemm", g->c.mem));
	return FAULTY_BEHIND.gemm(queue, g, left);
}

static int rows(struct cg_queue *queue, const struct cg_rows *r)
{
	CG_TRY(turn("rows"));
	CG_TRY(own("rows", r->src.mem));
	CG_TRY(own("rows", r->dst.mem));
	CG_TRY(own("rows", r->from));
	CG_TRY(own("rows", r->to));
	CG_TRY(own("rows", r->drop.t));
	CG_TRY(own("rows", r->drop.b));
	return FAULTY_BEHIND.rows(queue, r);
}

const struct cg_backend cg_backend_faulty = {
	.name = "faulty",
	.list = list, .open = open_device, .close = close_device, .describe = describe, .supports = supports,
	.start = start, .sync = sync_queue, .stop = stop,
	.alloc = alloc, .free = free_mem, .check = check, .copy_in = copy_in, .copy_out = copy_out, .zero = zero,
	.build = build, .release = release, .launch = launch, .gemm = gemm, .rows = rows,
};
