/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the metadata of files: attributes, the dtype, sizes, and properties that an op fixes without an attribute.
 */
#include <stdlib.h>
#include <string.h>

#include "verify/field.h"
#include "command/run/metadata.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

const char by_attribute[] = "the command line", by_op[] = "the op", by_tensors[] = "the tensors";

/* Attributes that fix the meaning of params or of a reserve space; for all other attributes a call may choose the value. */
static const char *const fixed[] = {
	"rnn_mode", "cell", "options", "values", "linear_before_reset", "num_layers", "num_units", "input_size", "num_proj", "direction",
	"input_mode", "T", "weights_format", NULL
};
/* Attributes that are sizes; a value of 0 means that the shapes of tensors give the size. */
static const char *const sizes[] = { "num_layers", "num_units", "input_size", NULL };
/* Attributes that metadata_cell.c reads. */
static const char *const cells[] = { "rnn_mode", "cell", "options", "values", NULL };

static int is_in(const char *name, const char *const list[])
{
	while (*list && strcmp(*list, name))
		list++;
	return *list != NULL;
}

int metadata_fixes(const char *name)
{
	return is_in(name, fixed);
}

const char *metadata_of(const struct call *c, const struct safetensors *file, const char *name)
{
	return c->ignore_metadata ? NULL : safetensors_metadata(file, name);
}

const char *metadata_where(const struct safetensors *file, char where[METADATA_WHERE])
{
	char shown[PRINT_NAME];

	snprintf(where, METADATA_WHERE, "%s: __metadata__: ", print_name(shown, file->path));
	return where;
}

/* ---- values that differ ---- */

int metadata_alike(const char *a, const char *b)
{
	uint64_t n, m;
	int64_t i, j;
	int on, other;
	double x, y;

	/* Integers are compared as integers, since a double would round long ones. */
	if (!field_natural(a, &n) && !field_natural(b, &m))
		return n == m;
	if (!field_integer(a, &i) && !field_integer(b, &j))
		return i == j;
	if (!field_real(a, &x) && !field_real(b, &y))
		return x == y;
	if (!field_boolean(a, &on) && !field_boolean(b, &other))
		return on == other;
	return !strcmp(a, b);
}

int metadata_differ(const struct call *c, const char *name, struct statement a, struct statement b)
{
	char one[PRINT_NAME], two[PRINT_NAME], decides[CG_ATTRIBUTE_TEXT + 32] = "";
	const char *none = strcmp(name, "values") ? "none" : "the defaults";

	if (b.by != by_op && b.by != by_tensors && !metadata_fixes(name))
		snprintf(decides, sizeof decides, "%.40s=VALUE decides, and ", name);
	return cg_fail(CG_BAD_ARGUMENT, "%s: %s: %s says %s, %s %s %s; %s--ignore-metadata leaves out what files say",
	               c->theirs ? c->name : c->row->name, name, a.by, print_name(one, *a.what ? a.what : none), b.by,
	               b.by == by_op ? "takes" : b.by == by_tensors ? "have" : "says", print_name(two, *b.what ? b.what : none), decides);
}

/* ---- attributes ---- */

/* Spells the value of an attribute as call_metadata does, so that equal values have equal texts. */
static int spell(const struct cg_attribute *a, const struct safetensors *file, const char *text, char buffer[CG_ATTRIBUTE_TEXT],
                 const char **what)
{
	union { double real; int integer; int64_t whole; const char *text; } value;
	struct cg_attribute alone = *a;
	char where[METADATA_WHERE];

	alone.at = 0;
	CG_TRY(attribute_read(&alone, text, metadata_where(file, where), &value));
	*what = cg_attribute_text(&alone, &value, buffer);
	return CG_OK;
}

/* Finds the number of NAME in a list NAME=NUMBER,...; NULL: the list lacks it. If a number is too long for the buffer, the
 * result is the number's place in the list; the function that reads the number refuses it. */
static const char *value_of(const char *values, const char *name, char buffer[CG_ATTRIBUTE_TEXT])
{
	size_t n = strlen(name);

	for (const char *at = values; at && *at; at += strcspn(at, ","), at += *at == ',') {
		if (strncmp(at, name, n) || at[n] != '=')
			continue;
		at += n + 1;
		return snprintf(buffer, CG_ATTRIBUTE_TEXT, "%.*s", (int)strcspn(at, ","), at) < CG_ATTRIBUTE_TEXT ? buffer : at;
	}
	return NULL;
}

/* Finds an attribute of TensorFlow's block op in a file that has a network's options and values instead. */
static const char *in_other_words(const struct call *c, const struct safetensors *file, const char *name, char buffer[CG_ATTRIBUTE_TEXT])
{
	const char *options = metadata_of(c, file, "options");

	if (!metadata_meaning(c, "cell"))
		return NULL;
	if (!strcmp(name, "use_peephole"))
		return options && !*options ? "false" : options && !strcmp(options, "peephole") ? "true" : options;
	return value_of(metadata_of(c, file, "values"), name, buffer);
}

/* Sets *what to the value, as text, that the metadata of a file gives an attribute. *what, NULL on entry, stays NULL where the metadata
 * gives none, or 0 for a size. */
static int from_metadata(const struct call *c, const struct cg_attribute *a, const struct safetensors *file, char buffer[CG_ATTRIBUTE_TEXT],
                         const char **what)
{
	const char *text = metadata_of(c, file, a->name);
	char other[CG_ATTRIBUTE_TEXT];

	if (!text)
		text = in_other_words(c, file, a->name, other);
	if (text)
		CG_TRY(spell(a, file, text, buffer, what));
	if (*what && is_in(a->name, sizes) && !strcmp(*what, "0"))
		*what = NULL;
	return CG_OK;
}

static int from_tensor(const struct cg_attribute *a, const struct safetensors *file, char buffer[CG_ATTRIBUTE_TEXT], const char **what)
{
	const struct safetensors_tensor *t = a->scalar ? safetensors_find(file, a->name) : NULL;
	int64_t value;

	if (!t)
		return CG_OK;
	CG_TRY(attribute_scalar(a, file, t, &value));
	snprintf(buffer, CG_ATTRIBUTE_TEXT, "%lld", (long long)value);
	*what = buffer;
	return CG_OK;
}

/* Sets an attribute from the metadata and the scalar tensors of the files, which must all agree. first: the value from NAME=VALUE, with
 * which they must agree, if the user gave one. */
static int from_files(struct call *c, const struct cg_attribute *a, struct statement first)
{
	char buffers[2][CG_ATTRIBUTE_TEXT];
	int needed = a->required && !first.by;

	if (first.by)
		first.what = cg_attribute_text(a, c->op, buffers[0]);
	if (first.by && is_in(a->name, sizes) && !strcmp(first.what, "0"))
		first.by = NULL;
	for (size_t k = 0; k < 2 * c->n_files; k++) {
		const struct safetensors *file = &c->files[k / 2];
		char *buffer = buffers[first.by != NULL];
		struct statement next = { file->path, NULL };

		CG_TRY(k % 2 ? from_metadata(c, a, file, buffer, &next.what) : from_tensor(a, file, buffer, &next.what));
		if (!next.what)
			continue;
		if (first.by && strcmp(first.what, next.what))
			return metadata_differ(c, a->name, first, next);
		if (first.by)
			continue;
		first = next;
		CG_TRY(attribute_read(a, next.what, "", (char *)c->op + a->at));
	}
	return needed && !first.by ? attribute_missing(c, a) : CG_OK;
}

static int type_from_files(struct call *c)
{
	for (size_t f = 0; f < c->n_files; f++) {
		const char *text = metadata_of(c, &c->files[f], "T");
		const struct statement here = { c->files[f].path, text };
		char where[METADATA_WHERE];

		if (!text)
			continue;
		CG_TRY(attribute_check_type(text, metadata_where(&c->files[f], where)));
		if (!c->type) {
			c->type = text;
			c->type_by = here.by;
		} else if (attribute_type_of(text) != attribute_type_of(c->type)) {
			return metadata_differ(c, "T", (struct statement){ c->type_by ? c->type_by : by_attribute, c->type }, here);
		}
	}
	return CG_OK;
}

int metadata_attributes(struct call *c)
{
	CG_TRY(type_from_files(c));
	for (int k = 0; c->row->attributes[k].name; k++) {
		const struct cg_attribute *a = &c->row->attributes[k];
		int given = c->attributes >> k & 1;

		if (!attribute_is_of(c, a) || is_in(a->name, cells) || (given && !metadata_fixes(a->name)))
			continue;
		CG_TRY(from_files(c, a, (struct statement){ given ? by_attribute : NULL, NULL }));
	}
	return CG_OK;
}

/* ---- what the op fixes ---- */

const char *metadata_meaning(const struct call *c, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = c->row->means; at && *at; at += strcspn(at, " "), at += *at == ' ')
		if (!strncmp(at, name, n) && at[n] == '=')
			return at + n + 1;
	return NULL;
}

static int is_meant(const struct call *c, const char *name, const char *meaning)
{
	char buffer[CG_ATTRIBUTE_TEXT];

	for (size_t f = 0; f < c->n_files && !attribute_find(c, name); f++) {
		const char *text = metadata_of(c, &c->files[f], name);

		if (!text)
			text = in_other_words(c, &c->files[f], name, buffer);
		if (!text || metadata_alike(text, meaning) || (is_in(name, sizes) && metadata_alike(text, "0")))
			continue;
		return metadata_differ(c, name, (struct statement){ c->files[f].path, text }, (struct statement){ by_op, meaning });
	}
	return CG_OK;
}

int metadata_means(const struct call *c)
{
	char name[CG_ATTRIBUTE_TEXT], meaning[CG_ATTRIBUTE_TEXT];

	for (const char *at = c->row->means; at && *at; at += strcspn(at, " "), at += *at == ' ') {
		int n = (int)strcspn(at, "=");

		snprintf(name, sizeof name, "%.*s", n, at);
		snprintf(meaning, sizeof meaning, "%.*s", (int)strcspn(at + n + 1, " "), at + n + 1);
		if (strcmp(name, "cell"))
			CG_TRY(is_meant(c, name, meaning));
	}
	return CG_OK;
}

/* ---- sizes ---- */

/* The value of a size that the shapes of tensors give; 0: no shape has that size. */
static int64_t size_of(const struct call *c, const char *symbol, unsigned bound)
{
	for (int k = 0; c->row->dims[k].symbol; k++)
		if (!strcmp(c->row->dims[k].symbol, symbol) && bound >> k & 1)
			return *(const int64_t *)(const void *)((const char *)c->op + c->row->dims[k].at);
	return 0;
}

static int is_size(const struct call *c, const char *name, int64_t size)
{
	char digits[32];

	snprintf(digits, sizeof digits, "%lld", (long long)size);
	for (size_t f = 0; f < c->n_files && size; f++) {
		const char *text = metadata_of(c, &c->files[f], name);

		if (text && !metadata_alike(text, digits) && !metadata_alike(text, "0"))
			return metadata_differ(c, name, (struct statement){ c->files[f].path, text }, (struct statement){ by_tensors, digits });
	}
	return CG_OK;
}

int metadata_sizes(const struct call *c, unsigned bound)
{
	int64_t units = size_of(c, "U", bound), states = size_of(c, "L*D", bound);
	const struct cg_rnn_op *op = c->row->plan ? c->op : NULL;

	/* Without a projection, the width H of the hidden state is the number of units. */
	if (!units && op && !op->num_proj)
		units = size_of(c, "H", bound);
	CG_TRY(is_size(c, "input_size", size_of(c, "I", bound)));
	CG_TRY(is_size(c, "num_units", units));
	return states && states % (1 + op->direction) == 0 ? is_size(c, "num_layers", states / (1 + op->direction)) : CG_OK;
}

int metadata_type(const struct call *c, int dtype)
{
	if (!c->type || attribute_type_of(c->type) == dtype)
		return CG_OK;
	if (c->type_by)
		return metadata_differ(c, "T", (struct statement){ c->type_by, c->type }, (struct statement){ by_tensors, cg_dtype_name(dtype) });
	return cg_fail(CG_BAD_ARGUMENT, "%s: attribute T=%s contradicts the dtype of the tensors, %s", c->name, c->type,
	               cg_dtype_name(dtype));
}
