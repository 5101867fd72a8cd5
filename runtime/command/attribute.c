/*
 * An op's attributes: from the command line, else the first file's metadata, else the default; and back into
 * metadata.  Their ranges are checked with the op's other arguments.
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

/* where: what the message says before the attribute, such as the file whose metadata it is from. */
static int set(struct call *c, const struct cg_attribute *a, const char *text, const char *where)
{
	char shown[PRINT_NAME];
	void *at = (char *)c->op + a->at;

	if (a->kind == CG_REAL ? field_real(text, at) : field_boolean(text, at))
		return cg_fail(CG_BAD_ARGUMENT, "%s%s: expected %s, got \"%s\"", where, a->name,
		               a->kind == CG_REAL ? "a number" : "true or false", print_name(shown, text));
	return CG_OK;
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

static int unknown(const struct call *c, const char *name)
{
	const char *names[ATTRIBUTES], *nearest;
	char shown[PRINT_NAME], list[512] = "";
	int n = 0;

	for (const struct cg_attribute *a = c->row->attributes; a->name && n < ATTRIBUTES - 1; a++)
		names[n++] = a->name;
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

		if (strlen(a->name) != length || strncmp(word, a->name, length))
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
	const char *either = a->kind == CG_BOOL ? "true or false" : "a number";

	for (size_t k = 1; k < c->n_files; k++)
		if (safetensors_metadata(&c->files[k], a->name))
			return cg_fail(CG_BAD_ARGUMENT, "%s: %s has no default: add %s=VALUE, %s, or give %s "
			               "first: attributes are taken from the first file's metadata", c->name, a->name,
			               a->name, either, c->files[k].path);
	return cg_fail(CG_BAD_ARGUMENT, "%s: %s has no default: add %s=VALUE, %s", c->name, a->name, a->name,
	               either);
}

int attribute_from_metadata(struct call *c)
{
	const struct safetensors *first = &c->files[0];
	char where[PRINT_NAME + 32], shown[PRINT_NAME];
	const char *text = c->type ? NULL : safetensors_metadata(first, type);

	snprintf(where, sizeof where, "%s: __metadata__: ", print_name(shown, first->path));
	if (text)
		CG_TRY(set_type(c, text, where));
	for (int k = 0; c->row->attributes[k].name; k++) {
		const struct cg_attribute *a = &c->row->attributes[k];

		if (c->attributes >> k & 1)
			continue;
		text = safetensors_metadata(first, a->name);
		if (text)
			CG_TRY(set(c, a, text, where));
		else if (a->required)
			return missing(c, a);
	}
	return CG_OK;
}

int attribute_type(const struct call *c, int dtype)
{
	if (!c->type || dtype_of(c->type) == dtype)
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "%s: T=%s contradicts the tensors, which are %s", c->name, c->type,
	               cg_dtype_name(dtype));
}

json_t *call_metadata(const struct call *c)
{
	json_t *all = json_pack("{s:s}", "op", c->name);
	char text[32];

	for (const struct cg_attribute *a = c->row->attributes; a->name && all; a++) {
		const void *at = (const char *)c->op + a->at;
		const char *value = a->kind == CG_BOOL ? (*(const int *)at ? "true" : "false")
		                                       : field_digits(text, *(const double *)at);

		if (json_object_set_new(all, a->name, json_string(value))) {
			json_decref(all);
			all = NULL;
		}
	}
	if (!all)
		cg_fail(CG_NO_MEMORY, "no memory for metadata");
	return all;
}
