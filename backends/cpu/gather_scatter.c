/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers, scatters and adds rows, with or without dropout of their elements, on the cpu: the team's threads share the rows, and each runs
 * the compiled row copy over its parts.  Each element is computed by itself, so the number of threads changes no bit.
 */
#include "backends/cpu/cpu.h"

/* The number of elements of a part of a row copy: some ten microseconds of work, enough to pay for waking a thread. */
enum { PART = 1 << 14 };

struct shared_copy {
	int dtype;
	cg_rows_compiled *call;
	int64_t rows, rows_each;
	struct cg_rows_bound bound;
};

static void *address(struct cg_mem mem)
{
	return mem.data ? (char *)mem.data + mem.offset : NULL;
}

static void copy_part(void *context, int64_t k, int thread)
{
	const struct shared_copy *s = context;
	int64_t row = k * s->rows_each, end = s->rows - row < s->rows_each ? s->rows : row + s->rows_each;
	struct cg_float_state state = cg_float_enter(s->dtype);

	(void)thread;
	s->call(row, end, &s->bound);
	cg_float_leave(state);
}

int cg_cpu_copy_rows(struct cg_queue *queue, const struct cg_rows *r)
{
	struct cg_rows_shape shape = { r->dtype, r->src.acc, r->dst.acc, r->drop.rate > 0 };
	struct shared_copy s = {
		.dtype = r->dtype, .call = queue->device->isa->rows[r->dtype][cg_rows_index(&shape)], .rows = r->rows,
		.bound = {
			.src = address(r->src.mem), .dst = address(r->dst.mem), .src_stride = r->src.stride, .dst_stride = r->dst.stride,
			.from = address(r->from), .to = address(r->to), .t = address(r->drop.t), .b = address(r->drop.b),
			.columns = r->columns, .first_t = r->drop.first_t, .batch = r->drop.batch, .first_unit = r->drop.first_unit,
			.below = cg_drop_below(r->drop.rate), .key = r->drop.key, .scale = cg_drop_scale(r->drop.rate), .add = r->add,
		},
	};

	s.rows_each = r->rows <= 2 * PART / r->columns ? r->rows : r->columns < PART ? PART / r->columns : 1;
	cg_team_run(queue->team, r->rows / s.rows_each + (r->rows % s.rows_each != 0), copy_part, &s);
	return CG_OK;
}
