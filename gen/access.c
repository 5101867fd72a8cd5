/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what a dialect has for an argument or a node of a function: parameters, loads, statements and stores.
 */
#include "print.h"

#include <string.h>

static const char *parameter_form(const struct printer *p, const struct cg_argument *a)
{
	const struct cg_dialect *d = p->dialect;

	if (d->sum_out && cg_has_second(p->function, a))
		return d->sum_out;
	switch (a->kind) {
	case CG_KIND_TENSOR:   return a->out ? d->tensor_out : d->tensor_in;
	case CG_KIND_PER_UNIT:
	case CG_KIND_ELEMENT:  return a->out ? d->unit_out : d->unit_in;
	case CG_KIND_SCRATCH:  return a->out ? d->scratch_out : d->scratch_in;
	case CG_KIND_MEANS:    return p->function->shape == CG_FUNCTION_MEAN ? d->scratch_out : d->scratch_in;
	case CG_KIND_SCALAR:   return d->scalar;
	}
	return d->count;
}

void cg_print_form(const struct printer *p, struct cg_text *text, const char *form, const struct cg_argument *a,
                   const char *value)
{
	const char *const holes[] = { "name", a->name, "type", cg_print_type(p, a), "value", value ? value : "", NULL };

	cg_fill(text, form, strlen(form), holes);
}

void cg_print_separator(struct cg_text *text, const char *with)
{
	if (text->length)
		cg_text_put(text, with);
}

void cg_print_parameter(const struct printer *p, struct cg_text *text, const struct cg_argument *a, const char *name, const char *alone)
{
	const char *const holes[] = { "name", name, "type", cg_print_type(p, a), "restrict", alone, NULL };
	const char *form = parameter_form(p, a);

	cg_print_separator(text, a->role == CG_ROLE_UNITS ? ", " : ",\n");
	cg_fill(text, form, strlen(form), holes);
}

static int plain(const struct printer *p, const struct cg_argument *a)
{
	return p->plain || a->type == CG_TYPE_ACC;
}

static const char *find_load(const struct printer *p, const struct cg_argument *a)
{
	const struct cg_dialect *d = p->dialect;

	if (a->kind == CG_KIND_ELEMENT)
		return plain(p, a) ? d->load_element_plain : d->load_element;
	if (p->runs)
		return plain(p, a) ? d->from_run_plain : d->from_run;
	if (a->kind == CG_KIND_PER_UNIT)
		return plain(p, a) ? d->load_unit_plain : d->load_unit;
	return plain(p, a) ? d->load_plain : d->load;
}

void cg_print_load(const struct printer *p, struct cg_text *text, const struct cg_argument *a, const char *name)
{
	const char *form = find_load(p, a);
	struct cg_argument named = *a;

	if (!form)
		return;
	named.name = name;
	cg_print_separator(text, "\n");
	cg_print_form(p, text, form, &named, NULL);
}

void cg_print_equation(const struct printer *p, struct cg_text *text, const struct cg_node *node, int *origin)
{
	if (node->origin < 0 || node->origin == *origin)
		return;
	*origin = node->origin;
	cg_text_printf(text, "%s/* %s */\n", text->length ? "\n" : "", p->plan->cell->values[*origin].line);
}

void cg_print_statements(struct printer *p, struct cg_text *text)
{
	int origin = -1;

	for (int k = 0; k < p->function->n_schedule; k++) {
		int id = p->function->schedule[k];
		const struct cg_node *node = &p->plan->graph.nodes[id];

		if (!p->name[id])
			continue;
		cg_print_separator(text, "\n");
		cg_print_equation(p, text, node, &origin);
		cg_text_printf(text, "const acc %s = ", p->name[id]);
		cg_print_expression(p, text, id, 1);
		cg_text_put(text, ";");
	}
}

void cg_print_store(const struct printer *p, struct cg_text *text, const struct cg_argument *a, const char *name, const char *value)
{
	const struct cg_dialect *d = p->dialect;
	const char *form = p->runs ? d->to_run : d->store, *form_plain = p->runs ? d->to_run_plain : d->store_plain;
	struct cg_argument named = *a;

	named.name = name;
	cg_print_separator(text, "\n");
	cg_print_form(p, text, plain(p, a) ? form_plain : form, &named, value);
}
