/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sizes, the dtype and the name of a problem, and the problem as a command.
 */
#include <stdio.h>
#include <string.h>

#include "command/bench/bench.h"

const char *const bench_whats[3] = { "fwd", "bwd", "fwd+bwd" };

int64_t problem_get_size(const struct problem *p, const char *symbol)
{
	for (const struct cg_dim *d = p->row->dims; d->symbol; d++)
		if (!strcmp(d->symbol, symbol))
			return *(const int64_t *)((const char *)p->op + d->at);
	return 1;                                /* an op without T has one step, one without L one layer */
}

double problem_rows(const struct problem *p)
{
	double B = (double)problem_get_size(p, "B"), rows = 0;

	for (int64_t b = 0; p->lengths && b < (int64_t)B; b++)
		rows += p->lengths[b];
	return p->lengths ? rows : (double)cg_op_steps(p->row, p->op, problem_get_size(p, "T")) * B;
}

const char *problem_line(const struct problem *p, char *text, size_t capacity)
{
	size_t n;

	cg_op_describe(p->row, problem_name(p), p->op, text, capacity);
	n = strlen(text);
	if (p->valid < 1)
		n += (size_t)snprintf(text + n, capacity - n, " --valid %g", p->valid);
	if (p->what != (p->row == p->grad ? BENCH_GRAD : BENCH_FORWARD))
		snprintf(text + n, capacity - n, " --what %s", bench_whats[p->what - 1]);
	return text;
}

int problem_dtype(const struct problem *p)
{
	return *(const int *)((const char *)p->op + p->row->dtype_at);
}

const struct cg_op *problem_ready(const struct problem *p)
{
	return p->what & BENCH_GRAD ? p->grad : p->forward;
}

const char *problem_name(const struct problem *p)
{
	return p->theirs ? p->row->tensorflow : p->row->name;
}
