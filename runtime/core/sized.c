/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public structs that start with their size.  A program that is compiled against an earlier header passes a shorter struct; the missing
 * fields get their defaults.  A program that is compiled against a later header passes a longer struct, which is accepted if all fields
 * that this library lacks are zero and the struct is at most LATER times as long as this library's.
 */
#include <string.h>

#include "runtime/core/core.h"

enum { LATER = 4 };                      /* a struct of a later header is at most LATER times as long as this library's */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

int cg_sized_check(const char *call, const char *type, const void *given, size_t ours)
{
	size_t size;

	if (!given)
		return cg_fail(CG_BAD_ARGUMENT, "%s: expected a struct %s, got NULL", call, type);
	memcpy(&size, given, sizeof size);
	if (size < ours || size > LATER * ours)
		return cg_fail(CG_BAD_ARGUMENT, "%s: size: expected %zu, got %zu: call %s_init first", call, ours, size, type);
	for (size_t k = ours; k < size; k++)
		if (((const char *)given)[k])
			return cg_fail(CG_BAD_ARGUMENT, "%s: size: expected %zu, got %zu with nonzero fields that this library lacks: call "
			               "%s_init first, or use a later library", call, ours, size, type);
	return CG_OK;
}

void cg_sized_init(void *to, size_t size, const void *defaults, size_t ours)
{
	if (!to)
		return;
	memset(to, 0, size);
	memcpy(to, defaults, least(size, ours));
	memcpy(to, &size, least(size, sizeof size));
}

const void *cg_sized_complete(const struct cg_sized *type, const void *given, void *storage)
{
	size_t size;

	if (!given)
		return given;
	memcpy(&size, given, sizeof size);
	if (size >= type->size || size < type->first)
		return given;
	type->init(storage, type->size);
	memcpy(storage, given, size);
	memcpy(storage, &type->size, sizeof size);
	return storage;
}
