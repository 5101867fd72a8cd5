/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops whose arguments are lists of tensors: makes a row for one call that has a port for each tensor, so that all code that reads rows
 * can handle it.
 */
#include <string.h>

#include "runtime/op/op.h"
#include "runtime/core/core.h"

static int n_ports(const struct cg_op *row)
{
	int n = 0;

	while (row->ports[n].name)
		n++;
	return n;
}

/* Does the item belong to this list?  Items come in the order of the lists, and the name of each is LIST_NUMBER. */
static int is_of(const struct cg_port *list, const char *name)
{
	size_t length = strlen(list->name);

	return !strncmp(name, list->name, length) && name[length] == '_';
}

int cg_op_widen(const struct cg_op *row, void **op, struct cg_op **result)
{
	struct cg_op *wide;
	struct cg_port *ports;
	struct cg_reading *readings;
	char (*names)[CG_ITEM_NAME];
	size_t all, size;
	void *grown;
	int n, item = 0;

	CG_TRY(row->items(row, *op, &n));
	all = (size_t)n_ports(row) + (size_t)n + 1;
	wide = cg_memory(NULL, sizeof *wide + all * (sizeof *readings + sizeof *ports) + (size_t)n * sizeof *names);
	if (!wide)
		return CG_NO_MEMORY;
	*wide = *row;
	wide->size = row->size + (size_t)n * sizeof(struct cg_mem);
	wide->readings = readings = memset(wide + 1, 0, all * sizeof *readings);
	ports = (struct cg_port *)(readings + all);
	names = (char (*)[CG_ITEM_NAME])(ports + all);
	wide->ports = ports;
	for (const struct cg_port *p = row->ports; p->name; p++) {
		struct cg_port next = *p;

		if (!(p->flags & CG_LIST)) {
			*ports++ = *p;
			continue;
		}
		for (next.flags &= ~CG_LIST; item < n; item++) {
			int code = row->item(row, *op, item, &next, names[item]);

			if (code)
				return cg_memory(wide, 0), code;
			if (!is_of(p, next.name))
				break;
			next.at = p->at + (size_t)item * sizeof(struct cg_mem);
			*ports++ = next;
		}
	}
	*ports = (struct cg_port){ .name = NULL };
	grown = cg_memory(*op, wide->size);
	if (!grown)
		return cg_memory(wide, 0), CG_NO_MEMORY;
	memset((char *)grown + row->size, 0, wide->size - row->size);
	size = wide->size;
	memcpy(grown, &size, sizeof size);
	*op = grown;
	*result = wide;
	return CG_OK;
}
