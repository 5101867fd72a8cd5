/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/help/asked_pool.h"

void note_parts(struct asked *asked, int parts)
{
	__atomic_add_fetch(&asked->calls, 1, __ATOMIC_RELAXED);
	if (parts < 1 || parts > asked->threads)
		__atomic_store_n(&asked->too_many, 1, __ATOMIC_RELAXED);
}

void run_in_order(void *asked, int parts, pool_part *part, void *arg)
{
	note_parts(asked, parts);
	for (int k = 0; k < parts; k++)
		part(arg, k);
}

struct cg_pool make_pool(pool_run *run, struct asked *asked)
{
	struct cg_pool pool;

	cg_pool_init(&pool, sizeof pool);
	pool.threads = asked->threads;
	pool.run = run;
	pool.user = asked;
	return pool;
}
