/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the structs of the ops, for tests that need no backend.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/help/args.h"

_Alignas(64) unsigned char arena[SLOTS * SLOT];

const struct cg_op *plain_row(const struct cg_op *row)
{
	static int is_said;

	while ((row = cg_op_next(row)) && row->plan)
		if (!is_said)
			print_message("left out, for its plan: %s\n", row->name);
	is_said |= !row;
	return row;
}

const struct cg_op *row_of(const char *name)
{
	const struct cg_op *row = cg_op_find(name, NULL);

	if (!row)
		fail_msg("%s", cg_message());
	return row;
}

const struct cg_port *port_of(const struct cg_op *row, const char *name)
{
	const struct cg_port *p;

	for (p = row->ports; p->name && strcmp(p->name, name); p++)
		;
	if (!p->name)
		fail_msg("%s has no %s", row->name, name);
	return p;
}

struct cg_mem *mem_at(union args *a, size_t at)
{
	return (struct cg_mem *)(a->bytes + at);
}

void remove_argument(union args *a, size_t at)
{
	memset(a->bytes + at, 0, sizeof(struct cg_mem));
}

void set_size(const struct cg_op *row, union args *a, const char *symbol, int64_t value)
{
	int i;

	for (i = 0; row->dims[i].symbol; i++)
		if (!strcmp(row->dims[i].symbol, symbol))
			*(int64_t *)(a->bytes + row->dims[i].at) = value;
}

void set_bools(const struct cg_op *row, union args *a, int value)
{
	const struct cg_attribute *t;

	for (t = row->attributes; t->name; t++)
		if (t->kind == CG_BOOL)
			*(int *)(a->bytes + t->at) = value;
}

void fill(const struct cg_op *row, union args *a)
{
	struct cg_mem *m;
	size_t bytes = 0;
	int i;

	memset(a, 0, sizeof *a);
	row->init(a, row->size);
	if (!row->dims[0].only)
		set_size(row, a, "T", 3);
	set_size(row, a, "B", 2);
	set_size(row, a, "I", 3);
	set_size(row, a, "U", 4);
	set_bools(row, a, 1);
	for (i = 0; row->ports[i].name; i++) {
		assert_int_equal(cg_op_bytes(row, &row->ports[i], a, &bytes), CG_OK);
		assert_true(bytes > 0 && bytes < SLOT / 2 && i + 2 < SLOTS);
		m = mem_at(a, row->ports[i].at);
		m->data = arena + (i + 1) * SLOT;
		m->bytes = bytes;
	}
	m = mem_at(a, row->work_at);
	m->data = arena + (i + 1) * SLOT;
	assert_int_equal(row->work(a, &m->bytes), CG_OK);
	assert_true(m->bytes > 0 && m->bytes < SLOT / 2);
}
