/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of an op as long as its arguments are: for tests that give memory from a larger block, or change sizes in between.
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
