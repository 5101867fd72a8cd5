/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets cg_mem.bytes of each argument of an op that has memory to what the argument's shape needs: for tests that pass parts of a larger
 * block, or change sizes between calls.
 */
#ifndef SHORTEN_H
#define SHORTEN_H

#include "runtime/op/op.h"

static inline void shorten(const struct cg_op *row, void *op)
{
	for (const struct cg_port *p = row->ports; p->name; p++) {
		struct cg_mem *m = (struct cg_mem *)(void *)((char *)op + p->at);

		if (m->data)
			(void)cg_op_bytes(row, p, op, &m->bytes);
	}
}

#endif
