/*
 * An op's attributes: from the command line, else, of TensorFlow's scalar inputs, a tensor in a file, else the first
 * file's metadata, else the default; and back into metadata.
 */
#include <ctype.h>
#include <string.h>

#include "gen/cell.h"
#include "runtime/command/call.h"
#include "runtime/command/field.h"
#include "runtime/command/print.h"
#include "runtime/runtime.h"

/* TensorFlow's attribute for the dtype; no row has it, since every op does. */
static const char type[] = "T";

enum { ATTRIBUTES = 32 };

/* What an attribute is, for who did not give one. */
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

static int read(const char *text, const struct cg_attribute *a, void *at)
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

/* where: what the message says before the attribute, such as the file whose metadata it is from. */
static int set(struct call *c, const struct cg_attribute *a, const char *text, const char *where)
{
	char shown[PRINT_NAME], list[256];
	const char *nearest = NULL;
	int n = 0;

	if (!read(text, a, (char *)c->op + a->at))
		return CG_OK;
	while (a->kind == CG_WORD && a->words[n])
		n++;
	if (n)
		nearest = cg_nearest(text, a->words, n);
	print_name(shown, text);
	if (nearest)
		return cg_fail(CG_BAD_ARGUMENT, "%s%s: no \"%s\"; did you mean %s?", where, a->name, shown, nearest);
	return cg_fail(CG_BAD_ARGUMENT, "%s%s: expected %s, got \"%s\"", where, a->name, either(a, list), shown);
}

/* DT_HALF, half, f16, F16, float16 */
static int dtype_of(const char *text)
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

static int set_type(struct call *c, const char *text, const char *where)
{
	char shown[PRINT_NAME];

	if (dtype_of(text) < 0)
		return cg_fail(CG_BAD_ARGUMENT, "%s%s: expected half, bfloat16, float or double, got \"%s\"",
		               where, type, print_name(shown, text));
	c->type = text;
	return CG_OK;
}

int attribute_is_of(const struct call *c, const struct cg_attribute *a)
{
	return !(a->extra && c->theirs);
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
			return cg_fail(CG_BAD_ARGUMENT, "%s has no attribute %s; our %s does", c->name, name, c->row->name);
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
	return cg_fail(CG_BAD_ARGUMENT, "%s has no attribute %s; it has %s (a file of that name: ./%s=...)",
	               c->name, shown, list, shown);
}

int call_attribute(struct call *c, const char *word)
{
	size_t length = strcspn(word, "=");
	char name[PRINT_NAME];

	if (length == strlen(type) && !strncmp(word, type, length)) {
		if (c->type)
			return cg_fail(CG_BAD_ARGUMENT, "%s is given twice", type);
		return set_type(c, word + length + 1, "");
	}
	for (int k = 0; c->row->attributes[k].name; k++) {
		const struct cg_attribute *a = &c->row->attributes[k];

		if (strlen(a->name) != length || strncmp(word, a->name, length) || !attribute_is_of(c, a))
			continue;
		if (c->attributes >> k & 1)
			return cg_fail(CG_BAD_ARGUMENT, "%s is given twice", a->name);
		c->attributes |= 1u << k;
		return set(c, a, word + length + 1, "");
	}
	snprintf(name, sizeof name, "%.*s", (int)length, word);
	return unknown(c, name);
}

static int missing(const struct call *c, const struct cg_attribute *a)
{
	const char *scalar = a->scalar ? ", or a file with a tensor of that name" : "";
	char list[256];

	for (size_t k = 1; k < c->n_files; k++)
		if (safetensors_metadata(&c->files[k], a->name))
			return cg_fail(CG_BAD_ARGUMENT, "%s: %s has no default: add %s=VALUE, %s%s, or give %s "
			               "first: attributes are taken from the first file's metadata", c->name, a->name,
			               a->name, either(a, list), scalar, c->files[k].path);
	return cg_fail(CG_BAD_ARGUMENT, "%s: %s has no default: add %s=VALUE, %s%s", c->name, a->name, a->name,
	               either(a, list), scalar);
}

/* A scalar input of TensorFlow's op, as a tensor of rank 0. */
static int set_scalar(struct call *c, const struct cg_attribute *a, const struct safetensors *file,
                      const struct safetensors_tensor *t)
{
	char shape[PRINT_SHAPE], shown[PRINT_NAME];
	int64_t wide;
	int32_t half;

	if (t->rank)
		return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected a scalar, [], got %s", file->path, a->name,
		               print_shape(shape, t->shape, t->rank));
	if (!strcmp(t->dtype, "I64") && t->bytes == sizeof wide) {
		memcpy(&wide, t->data, sizeof wide);
	} else if (!strcmp(t->dtype, "I32") && t->bytes == sizeof half) {
		memcpy(&half, t->data, sizeof half);
		wide = half;
	} else {
		return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected I64 or I32, got %s", file->path, a->name,
		               print_name(shown, t->dtype));
	}
	memcpy((char *)c->op + a->at, &wide, sizeof wide);
	return CG_OK;
}

/* From the files in order; metadata counts in the first. */
static int from_files(struct call *c, const struct cg_attribute *a, const char *where)
{
	for (size_t f = 0; f < c->n_files; f++) {
		const struct safetensors_tensor *t = a->scalar ? safetensors_find(&c->files[f], a->name) : NULL;
		const char *text = f ? NULL : safetensors_metadata(&c->files[f], a->name);

		if (t)
			return set_scalar(c, a, &c->files[f], t);
		if (text)
			return set(c, a, text, where);
	}
	return a->required ? missing(c, a) : CG_OK;
}

int attribute_from_files(struct call *c)
{
	char where[PRINT_NAME + 32] = "", shown[PRINT_NAME];
	const char *text = c->type || !c->n_files ? NULL : safetensors_metadata(&c->files[0], type);

	if (c->n_files)
		snprintf(where, sizeof where, "%s: __metadata__: ", print_name(shown, c->files[0].path));
	if (text)
		CG_TRY(set_type(c, text, where));
	for (int k = 0; c->row->attributes[k].name; k++)
		if (!(c->attributes >> k & 1) && attribute_is_of(c, &c->row->attributes[k]))
			CG_TRY(from_files(c, &c->row->attributes[k], where));
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

int attribute_type(const struct call *c, int dtype)
{
	if (!c->type || dtype_of(c->type) == dtype)
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "%s: T=%s contradicts the tensors, which are %s", c->name, c->type,
	               cg_dtype_name(dtype));
}

int attribute_dtype(const struct call *c)
{
	return c->type ? dtype_of(c->type) : CG_F32;
}

json_t *call_metadata(const struct call *c)
{
	json_t *all = json_pack("{s:s}", "op", c->name);
	char text[CG_ATTRIBUTE_TEXT];
	int failed = 0;

	for (const struct cg_attribute *a = c->row->attributes; a->name && all; a++)
		if (attribute_is_of(c, a) && (a->kind != CG_TEXT || cg_attribute_number(a, c->op)))
			failed |= json_object_set_new(all, a->name, json_string(cg_attribute_text(a, c->op, text)));
	if (all && (failed || plan_metadata(c, all))) {
		json_decref(all);
		all = NULL;
	}
	if (!all)
		cg_fail(CG_NO_MEMORY, "no memory for metadata");
	return all;
}
