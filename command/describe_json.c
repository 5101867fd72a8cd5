/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints an op's inputs, outputs and attributes as one JSON object: `cellgrad info OP --json`.
 */
#include <stdlib.h>
#include <string.h>

#include "command/describe.h"
#include "command/output.h"

/* Splits at blanks: "B 4*U" -> ["B", "4*U"]. */
static json_t *words_json(const char *words)
{
	json_t *list = json_array();

	while (*words) {
		size_t n = strcspn(words, " ");

		json_array_append_new(list, json_stringn(words, n));
		words += n;
		words += *words == ' ';
	}
	return list;
}

static json_t *shape_json(const struct about *a, const struct cg_port *p)
{
	char text[CG_SHAPE_TEXT];

	return p->flags & CG_LIST ? json_null() : words_json(cg_op_shape_text(a->row, p, a->op, text));
}

/* The JSON object of a port, with the entries that both inputs and outputs have. */
static json_t *port_json(const struct about *a, const struct cg_port *p)
{
	const struct cg_attribute *order = about_order(a);
	json_t *port = json_pack("{s:s, s:o, s:s, s:b, s:b, s:b}", "name", p->name, "shape", shape_json(a, p), "type", about_type(p),
	                         "list", !!(p->flags & CG_LIST), "opaque", !!(p->flags & CG_OPAQUE), "host_in_c",
	                         !!(p->flags & CG_ON_HOST));
	const struct cg_port *by = about_gradient_by(a, p);

	if (order) {
		double was = cg_attribute_number(order, a->op);

		cg_attribute_set(order, a->op, 0);
		json_object_set_new(port, "shape_batch_major", shape_json(a, p));
		cg_attribute_set(order, a->op, was);
	}
	if (p->state)
		json_object_set_new(port, "state", json_integer(p->state));
	if (p->about)
		json_object_set_new(port, "about", json_string(p->about));
	if (by)
		json_object_set_new(port, "gradient_by", json_string(by->name));
	return port;
}

static json_t *needed_json(const struct about *a, const struct cg_port *p)
{
	json_t *outputs = json_array();

	for (const struct cg_port *o = a->row->ports; o->name; o++)
		if (about_needs(a, p, o))
			json_array_append_new(outputs, json_string(o->name));
	return outputs;
}

static json_t *inputs_json(const struct about *a)
{
	static const char *const origins[ORIGINS] = { "input", "forward input", "forward output", "gradient" };
	json_t *all = json_array();
	char list[ABOUT_LIST];

	for (const struct cg_port *p = a->row->ports; p->name; p++) {
		json_t *port;

		if (p->flow != CG_IN || !about_shows(a, p->extra))
			continue;
		port = port_json(a, p);
		json_object_set_new(port, "of", json_string(origins[about_find_origin(a, p)]));
		json_object_set_new(port, "needed", json_string(about_needed(a, p, list)));
		json_object_set_new(port, "needed_in_c_for", needed_json(a, p));
		json_array_append_new(all, port);
	}
	return all;
}

static json_t *outputs_json(const struct about *a)
{
	json_t *all = json_array();

	for (const struct cg_port *p = a->row->ports; p->name; p++) {
		json_t *port;

		if (p->flow == CG_IN || !about_shows(a, p->extra))
			continue;
		port = port_json(a, p);
		json_object_set_new(port, "tensorflow", json_boolean(!p->extra));
		json_object_set_new(port, "gradient_takes_it", json_boolean(about_taken(a, p)));
		json_object_set_new(port, "accumulates_in_c", json_boolean(p->flow == CG_OUT_SUM));
		json_array_append_new(all, port);
	}
	return all;
}

static int is_whole(const struct cg_attribute *t)
{
	return t->kind == CG_INTEGER || t->kind == CG_NATURAL;
}

/* An end of an attribute's range as JSON: a number, or the symbol of a size; null: there is no limit. */
static json_t *end_json(const char *end)
{
	char *rest;
	long long value = strtoll(end, &rest, 10);

	return !*end ? json_null() : *rest ? json_string(end) : json_integer(value);
}

static json_t *default_json(const struct about *a, const struct cg_attribute *t)
{
	char text[CG_ATTRIBUTE_TEXT];
	const char *words = cg_attribute_text(t, a->op, text);

	if (t->required || (t->kind == CG_TEXT && !*words))
		return json_null();
	switch (t->kind) {
	case CG_REAL:    return print_number(cg_attribute_number(t, a->op));
	case CG_NATURAL:
	case CG_INTEGER: return json_integer((json_int_t)cg_attribute_number(t, a->op));
	case CG_BOOL:    return json_boolean(cg_attribute_number(t, a->op) != 0);
	}
	return json_string(words);
}

static json_t *attributes_json(const struct about *a)
{
	json_t *all = json_array();
	char least[ABOUT_LIST], most[ABOUT_LIST];

	for (const struct cg_attribute *t = a->row->attributes; t->name; t++) {
		json_t *one;

		if (!about_shows(a, t->extra))
			continue;
		about_range(t, least, most);
		one = json_pack("{s:s, s:s, s:b, s:o, s:b, s:b}", "name", t->name, "type", about_kinds[t->kind], "required", t->required,
		                "default", default_json(a, t), "scalar_tensor", t->scalar, "tensorflow", !t->extra);
		if (is_whole(t)) {
			json_object_set_new(one, "least", end_json(least));
			json_object_set_new(one, "most", end_json(most));
		}
		if (t->about)
			json_object_set_new(one, "about", json_string(t->about));
		if (t->kind == CG_WORD) {
			json_t *words = json_array();

			for (int k = 0; t->words[k]; k++)
				json_array_append_new(words, json_string(t->words[k]));
			json_object_set_new(one, "words", words);
		}
		json_array_append_new(all, one);
	}
	return all;
}

int describe_json(const struct about *a)
{
	json_t *sizes = json_object();

	for (const struct cg_dim *d = a->row->dims; d->symbol; d++)
		if (about_uses(a, d->symbol))
			json_object_set_new(sizes, d->symbol, json_string(d->about));
	return print_json(json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:s?, s:o, s:o, s:o, s:o}", "name", a->name, "op", a->row->name,
	                            "tensorflow", a->row->tensorflow, "gradient", a->pair && !a->is_grad ? about_name(a, a->pair) : NULL,
	                            "gradient_of", a->pair && a->is_grad ? about_name(a, a->pair) : NULL, "gates", a->row->gates,
	                            "sizes", sizes, "inputs", inputs_json(a), "outputs", outputs_json(a),
	                            "attributes", attributes_json(a)));
}
