/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads an op's attributes from NAME=VALUE and from scalar tensors, and checks them. metadata.c reads the attributes in the metadata of
 * files.
 */
#include <ctype.h>
#include <string.h>

#include "verify/field.h"
#include "command/run/metadata.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

/* TensorFlow's attribute for the dtype. No row of the op table lists this attribute, since every op has it. */
static const char type[] = "T";

enum { ATTRIBUTES = 32 };

/* Lists the values that an attribute may have, for a message about a missing or wrong value. */
static const char *either(const struct cg_attribute *a, char list[256])
{
	static const char *const kinds[] = { [CG_REAL] = "a number", [CG_BOOL] = "true or false", [CG_INTEGER] = "an integer",
	                                     [CG_TEXT] = "a word",
	                                     [CG_NATURAL] = "an integer from 0 to 2^64-1" };

	if (a->kind != CG_WORD)
		return kinds[a->kind];
	snprintf(list, 256, "one of ");
	for (int k = 0; a->words[k]; k++)
		snprintf(list + strlen(list), 256 - strlen(list), "%s%s", k ? ", " : "", a->words[k]);
	return list;
}

static int find_word(const char *text, const struct cg_attribute *a, int *which)
{
	for (*which = 0; a->words[*which]; ++*which)
		if (!strcmp(text, a->words[*which]))
			return 0;
	return -1;
}

static int parse(const char *text, const struct cg_attribute *a, void *at)
{
	switch (a->kind) {
	case CG_REAL:    return field_real(text, at);
	case CG_BOOL:    return field_boolean(text, at);
	case CG_INTEGER: return field_integer(text, at);
	case CG_NATURAL: return field_natural(text, at);
	case CG_TEXT:    *(const char **)at = text; return 0;
	}
	return find_word(text, a, at);
}

int attribute_read(const struct cg_attribute *a, const char *text, const char *where, void *at)
{
	char shown[PRINT_NAME], list[256];
	const char *nearest = NULL;
	int n = 0;

	if (!parse(text, a, at))
		return CG_OK;
	while (a->kind == CG_WORD && a->words[n])
		n++;
	if (n)
		nearest = cg_nearest(text, a->words, n);
	print_name(shown, text);
	if (nearest)
		return cg_fail(CG_BAD_ARGUMENT, "%s%s: there is no value \"%s\"; did you mean %s?", where, a->name, shown, nearest);
	return cg_fail(CG_BAD_ARGUMENT, "%s%s: expected %s, got \"%s\"", where, a->name, either(a, list), shown);
}

/* Finds the dtype that a text names, as DT_HALF, half, f16, F16 and float16 name f16; -1: it names none. */
int attribute_type_of(const char *text)
{
	char word[16];
	size_t n = 0;

	if (!strncmp(text, "DT_", 3))
		text += 3;
	for (; *text && n < sizeof word - 1; text++)
		word[n++] = (char)tolower((unsigned char)*text);
	word[n] = '\0';
	return *text ? -1 : cg_dtype_find(word);
}

int attribute_check_type(const char *text, const char *where)
{
	char shown[PRINT_NAME];

	if (attribute_type_of(text) >= 0)
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "%s%s: expected half, bfloat16, float or double, got \"%s\"", where, type, print_name(shown, text));
}

int attribute_is_of(const struct call *c, const struct cg_attribute *a)
{
	return !(a->extra && c->theirs);
}

const struct cg_attribute *attribute_find(const struct call *c, const char *name)
{
	for (const struct cg_attribute *a = c->row->attributes; a->name; a++)
		if (!strcmp(a->name, name))
			return attribute_is_of(c, a) ? a : NULL;
	return NULL;
}

int attribute_is_given(const struct call *c, const char *name)
{
	const struct cg_attribute *a = attribute_find(c, name);

	return a && c->attributes >> (a - c->row->attributes) & 1;
}

static int unknown(const struct call *c, const char *name)
{
	const char *names[ATTRIBUTES], *nearest;
	char shown[PRINT_NAME], list[512] = "";
	int n = 0;

	for (const struct cg_attribute *a = c->row->attributes; a->name && n < ATTRIBUTES - 1; a++)
		if (attribute_is_of(c, a))
			names[n++] = a->name;
		else if (!strcmp(a->name, name))
			return cg_fail(CG_BAD_ARGUMENT, "%s has no attribute %s, but cellgrad's op %s has it", c->name, name, c->row->name);
	names[n++] = type;
	nearest = cg_nearest(name, names, n);
	print_name(shown, name);
	if (nearest)
		return cg_fail(CG_BAD_ARGUMENT, "%s has no attribute %s; did you mean %s?", c->name, shown,
		               nearest);
	for (int k = 0; k < n; k++)
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", k ? ", " : "", names[k]);
	if (c->no_files)
		return cg_fail(CG_BAD_ARGUMENT, "%s has no attribute %s; it has %s", c->name, shown, list);
	return cg_fail(CG_BAD_ARGUMENT, "%s has no attribute %s; it has %s (a file of that name is given as ./%s=...)",
	               c->name, shown, list, shown);
}

int call_attribute(struct call *c, const char *word)
{
	size_t length = strcspn(word, "=");
	char name[PRINT_NAME];

	if (length == strlen(type) && !strncmp(word, type, length)) {
		if (c->type)
			return cg_fail(CG_BAD_ARGUMENT, "%s is given twice", type);
		c->type = word + length + 1;
		return attribute_check_type(c->type, "");
	}
	for (int k = 0; c->row->attributes[k].name; k++) {
		const struct cg_attribute *a = &c->row->attributes[k];

		if (strlen(a->name) != length || strncmp(word, a->name, length) || !attribute_is_of(c, a))
			continue;
		if (c->attributes >> k & 1)
			return cg_fail(CG_BAD_ARGUMENT, "%s is given twice", a->name);
		c->attributes |= 1u << k;
		return attribute_read(a, word + length + 1, "", (char *)c->op + a->at);
	}
	snprintf(name, sizeof name, "%.*s", (int)length, word);
	return unknown(c, name);
}

int attribute_missing(const struct call *c, const struct cg_attribute *a)
{
	char list[256];

	return cg_fail(CG_BAD_ARGUMENT, "%s: attribute %s has no default: add %s=VALUE, %s%s", c->name, a->name, a->name, either(a, list),
	               a->scalar ? ", or a file with a tensor of that name" : "");
}

int attribute_scalar(const struct cg_attribute *a, const struct safetensors *file, const struct safetensors_tensor *t, int64_t *value)
{
	char shape[PRINT_SHAPE], shown[PRINT_NAME];
	int32_t half;

	if (t->rank)
		return cg_fail(CG_BAD_ARGUMENT, "%s: tensor %s: expected a scalar, of shape [], got %s", file->path, a->name,
		               print_shape(shape, t->shape, t->rank));
	if (!strcmp(t->dtype, "I64") && t->bytes == sizeof *value) {
		memcpy(value, t->data, sizeof *value);
		return CG_OK;
	}
	if (strcmp(t->dtype, "I32") || t->bytes != sizeof half)
		return cg_fail(CG_BAD_ARGUMENT, "%s: tensor %s: expected I64 or I32, got %s", file->path, a->name,
		               print_name(shown, t->dtype));
	memcpy(&half, t->data, sizeof half);
	*value = half;
	return CG_OK;
}

int attribute_ranges(const struct call *c)
{
	for (const struct cg_attribute *a = c->row->attributes; a->name; a++)
		CG_TRY(cg_attribute_check(c->row, a, c->op, 1));
	return CG_OK;
}

unsigned attribute_sizes(const struct call *c)
{
	unsigned bound = 0;

	for (const struct cg_attribute *a = c->row->attributes; a->name; a++)
		for (int k = 0; c->row->dims[k].symbol; k++)
			if (c->row->dims[k].at == a->at)
				bound |= 1u << k;
	return bound;
}

int attribute_dtype(const struct call *c)
{
	return c->type ? attribute_type_of(c->type) : CG_F32;
}
