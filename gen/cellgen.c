/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tool of the build: prints the texts that the cpu backend compiles.  Users have `cellgrad emit`.
 *
 *	cellgen emit CELL PASS DTYPE LANG [OPTIONS]   one text, as `cellgrad emit` prints it
 *	cellgen bundle CELL DTYPE   every forward and grad kernel of a built-in cell, and those as steps of a sequence where the
 *	                            cell saves its output, with a table of them
 *	cellgen rows DTYPE          every shape of row copies, with a table of them
 *	cellgen tiles DTYPE         the products of a sequence by tiles, with a table of them
 *	cellgen items DTYPE         the items that all products multiply: their vectors and their packing
 *	cellgen math DTYPE          the mathematics alone, for the interpreter of strips
 *	cellgen cells NAME...       the built-in cells, as a macro over their names, CG_CELLS(X, ...), and the named cells of the shelf, as
 *	                            CG_FAST_SHELF(X, ...)
 */
#include "rows.h"
#include "tiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS_MAX = 512 };

static void *resize(void *p, size_t bytes)
{
	if (bytes)
		return realloc(p, bytes);
	free(p);
	return NULL;
}

static int fail(const char *message)
{
	fprintf(stderr, "cellgen: %s\n", message);
	return 1;
}

/* The index of a name in a list; -1 where the name is not in the list. */
static int index_of(const char *name, const char *const *names, int n)
{
	while (n-- && strcmp(names[n], name))
		;
	return n;
}

static int dtype_of(const char *name)
{
	return index_of(name, cg_real_names, CG_DTYPE_COUNT);
}

static const char *find_text(const struct cg_embedded *e, const char *file)
{
	while (e->name && strcmp(e->name, file))
		e++;
	return e->text;
}

static const char *cell_text(const char *name)
{
	char file[64];
	const char *text;

	snprintf(file, sizeof file, "%s.cell", name);
	text = find_text(cg_embedded, file);
	return text ? text : find_text(cg_shelf, file);
}

static int emit(char **word, struct cg_text *text)
{
	const char *source = cell_text(word[0]);
	int pass = index_of(word[1], cg_pass_names, CG_PASS_COUNT), dtype = dtype_of(word[2]);
	int lang = index_of(word[3], cg_lang_names, CG_LANG_COUNT);
	struct cg_mistake mistake = { "there is no such cell, pass, dtype or lang" };
	struct cg_cell *cell = source ? cg_parse(source, word[0], resize, &mistake) : NULL;
	int options = cell ? cg_parse_options(cell, word[4], &mistake) : -1, code = -1;
	struct cg_pass_plan *plan = options < 0 || pass < 0 || dtype < 0 || lang < 0
	                            ? NULL : cg_plan(cell, options, pass, 0, dtype, resize, &mistake);

	if (plan)
		code = cg_print(plan, lang, text);
	cg_plan_free(plan);
	cg_parse_free(cell);
	return plan ? code : fail(mistake.text[0] ? mistake.text : "there is no such pass, dtype or lang, or no memory");
}

/* Prints a wrapper of a kernel, with the one signature that the cpu backend calls: the wrapper passes bound arguments as the kernel's
 * parameters. */
static void thunk(const struct cg_function *function, struct cg_text *text)
{
	cg_text_printf(text, "\nstatic void call_%s(int64_t rows, int64_t units, const struct cg_bound *a)\n{\n\t%s(rows, units",
	               function->key, function->key);
	for (int k = 2; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];

		if (!cg_is_parameter(function, a))
			continue;
		switch (a->kind) {
		case CG_KIND_TENSOR: cg_text_printf(text, ",\n\t\ta[%d].data, a[%d].stride", k, k); break;
		case CG_KIND_SCALAR: cg_text_printf(text, ",\n\t\t(acc)a[%d].value", k);            break;
		case CG_KIND_COUNT:  cg_text_printf(text, ",\n\t\t(int64_t)a[%d].value", k);        break;
		default:             cg_text_printf(text, ",\n\t\ta[%d].data", k);                  break;
		}
	}
	cg_text_put(text, ");\n}\n");
}

/* Do two functions of one cell and dtype differ in their names alone?  Functions of one stage and shape with the same arguments
 * differ in their names alone: a step of a sequence differs from a single step in its upstream gradients alone, and these are arguments. */
static int same_function(const struct cg_function *a, const struct cg_function *b, int plain)
{
	if (a->stage != b->stage || a->shape != b->shape || a->n_arguments != b->n_arguments)
		return 0;
	for (int k = 0; k < a->n_arguments; k++)
		if (strcmp(a->arguments[k].name, b->arguments[k].name) ||
		    (a->arguments[k].type != b->arguments[k].type && !plain))
			return 0;
	return 1;
}

/* Removes from a plan the functions that another plan has too, after adding rows for their names to the table of kernels. */
static void share(struct cg_pass_plan *plan, const struct cg_pass_plan *other, struct cg_text *rows)
{
	int n = 0;

	for (int k = 0; k < plan->n_functions; k++) {
		int j = 0;

		while (j < other->n_functions && !same_function(&plan->functions[k], &other->functions[j], cg_is_plain(plan->dtype)))
			j++;
		if (j < other->n_functions)
			cg_text_printf(rows, "\t{ \"%s\", call_%s },\n", plan->functions[k].key, other->functions[j].key);
		else
			plan->functions[n++] = plan->functions[k];
	}
	plan->n_functions = n;
}

static int bundle(const char *name, int dtype, struct cg_text *text)
{
	static const int passes[] = { CG_PASS_FORWARD, CG_PASS_GRAD, CG_PASS_SEQ_FORWARD, CG_PASS_SEQ_GRAD };
	static struct cg_pass_plan *plans[PLANS_MAX];
	struct cg_text shared = { resize, NULL, 0, 0, 0 };
	const char *source = cell_text(name);
	struct cg_mistake mistake;
	struct cg_cell *cell;
	int n = 0, n_passes;

	if (!source)
		return fail("there is no such cell in templates/");
	cell = cg_parse(source, name, resize, &mistake);
	if (!cell)
		return fail(mistake.text);
	n_passes = cg_saves_output(cell) ? 4 : 2;
	for (int options = 0; options < 1 << cell->n_options && n + n_passes <= PLANS_MAX; options++)
		for (int p = 0; p < n_passes; p++) {
			plans[n] = cg_plan(cell, options, passes[p], 0, dtype, resize, &mistake);
			if (!plans[n++])
				return fail(mistake.text);
			if (p >= 2)
				share(plans[n - 1], plans[n - 3], &shared);
		}
	cg_text_printf(text, "/* Kernels of cell %s, %s: made by cellgen bundle %s %s; not to be edited. */\n\n", name,
	               cg_real_names[dtype], name, cg_real_names[dtype]);
	cg_print_prelude((const struct cg_pass_plan *const *)plans, n, CG_LANG_C, text);
	for (int k = 0; k < n; k++)
		cg_print_functions(plans[k], CG_LANG_C, "static ", text);
	cg_text_put(text, "\n#include \"backends/cpu/compiled.h\"\n");
	for (int k = 0; k < n; k++)
		for (int j = 0; j < plans[k]->n_functions; j++)
			thunk(&plans[k]->functions[j], text);
	cg_text_printf(text, "\nconst struct cg_compiled CG_COMPILED(%s, %s)[] = {\n", name, cg_real_names[dtype]);
	for (int k = 0; k < n; k++)
		for (int j = 0; j < plans[k]->n_functions; j++)
			cg_text_printf(text, "\t{ \"%s\", call_%s },\n", plans[k]->functions[j].key, plans[k]->functions[j].key);
	cg_text_put(text, shared.at ? shared.at : "");
	cg_text_put(text, "\t{ NULL, NULL }\n};\n");
	text->failed |= shared.failed;
	resize(shared.at, 0);
	for (int k = 0; k < n; k++)
		cg_plan_free(plans[k]);
	cg_parse_free(cell);
	return 0;
}

static int rows(int dtype, struct cg_text *text)
{
	struct cg_rows_shape shapes[CG_ROWS_SHAPES];
	int n = cg_rows_shapes(dtype, shapes);
	char key[CG_KEY_MAX];

	cg_text_printf(text, "/* Rows, %s: made by cellgen rows %s; not to be edited. */\n\n", cg_real_names[dtype],
	               cg_real_names[dtype]);
	if (cg_print_rows_functions(shapes, n, CG_LANG_C, "static ", text))
		return -1;
	cg_text_put(text, "\n#include \"backends/cpu/compiled.h\"\n");
	for (int k = 0; k < n; k++) {
		cg_rows_key(&shapes[k], key);
		cg_text_printf(text, "\nstatic void call_%s(int64_t row, int64_t rows, const struct cg_rows_bound *a)\n{\n"
		               "\t%s(row, rows, a->columns, a->add,\n\t\ta->src, a->src_stride, a->from, a->dst, a->dst_stride, a->to%s);"
		               "\n}\n", key, key, shapes[k].drop ? ",\n\t\ta->t, a->b, a->first_t, a->batch, a->first_unit,\n"
		               "\t\t(unsigned)a->key, (unsigned)(a->key >> 32), a->below, (acc)a->scale" : "");
	}
	cg_text_printf(text, "\nextern cg_rows_compiled *const CG_COMPILED_ROWS(%s)[];\n"
	               "cg_rows_compiled *const CG_COMPILED_ROWS(%s)[] = {\n", cg_real_names[dtype], cg_real_names[dtype]);
	for (int k = 0; k < n; k++) {
		cg_rows_key(&shapes[k], key);
		cg_text_printf(text, "\tcall_%s,\n", key);
	}
	cg_text_put(text, "};\n");
	return 0;
}

static int cells(char **shelf, struct cg_text *text)
{
	cg_text_put(text, "/* The cells whose kernels are compiled: made by cellgen cells; not to be edited. */\n#define CG_CELLS(X, ...)");
	for (const struct cg_embedded *e = cg_embedded; e->name; e++) {
		size_t n = strlen(e->name);

		if (n > 5 && !strcmp(e->name + n - 5, ".cell"))
			cg_text_printf(text, " \\\n\tX(%.*s, __VA_ARGS__)", (int)n - 5, e->name);
	}
	cg_text_put(text, "\n#define CG_FAST_SHELF(X, ...)");
	for (; *shelf; shelf++)
		cg_text_printf(text, " \\\n\tX(%s, __VA_ARGS__)", *shelf);
	cg_text_put(text, "\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct cg_text text = { resize, NULL, 0, 0, 0 };
	int dtype = argc > 2 ? dtype_of(argv[argc - 1]) : -1, code;

	if (argc == 4 && !strcmp(argv[1], "bundle") && dtype >= 0)
		code = bundle(argv[2], dtype, &text);
	else if ((argc == 6 || argc == 7) && !strcmp(argv[1], "emit"))
		code = emit(argv + 2, &text);
	else if (argc == 3 && !strcmp(argv[1], "math") && dtype >= 0)
		code = cg_print_math(dtype, &text);
	else if (argc == 3 && !strcmp(argv[1], "rows") && dtype >= 0)
		code = rows(dtype, &text);
	else if (argc == 3 && !strcmp(argv[1], "tiles") && dtype >= 0)
		code = cg_print_tiles_file(dtype, &text);
	else if (argc == 3 && !strcmp(argv[1], "items") && dtype >= 0)
		code = cg_print_items_file(dtype, &text);
	else if (argc >= 2 && !strcmp(argv[1], "cells"))
		code = cells(argv + 2, &text);
	else
		return fail("usage: cellgen emit CELL PASS DTYPE LANG [OPTIONS] | bundle CELL DTYPE | rows DTYPE | tiles DTYPE | items DTYPE | math DTYPE | cells NAME...");
	if (code || text.failed)
		return code ? 1 : fail("out of memory");
	code = fputs(text.at, stdout) < 0 || fflush(stdout);
	resize(text.at, 0);
	return code ? fail("cannot write") : 0;
}
