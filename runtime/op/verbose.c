/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CELLGRAD_VERBOSE: prints a line on standard error for each call that computes.  The line has a command that measures an op of the same
 * sizes and attributes, or prints the kernel; after a # the line has the time of the call and, if the call failed, its failure.  For an op
 * the arguments of the command are made by the op's row, in the syntax of `cellgrad bench`.  Nothing is printed if CELLGRAD_VERBOSE is
 * unset, empty, "0" or "none".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/core/environment.h"
#include "runtime/op/op.h"

/* ---- the arguments of the command ---- */

/* The command's option for a size: --H for U and --layers for L, since those are the usual names. */
static const char *option_of(const struct cg_dim *dim)
{
	return !strcmp(dim->symbol, "U") ? "H" : !strcmp(dim->symbol, "L") ? "layers" : dim->symbol;
}

const char *cg_op_describe(const struct cg_op *row, const char *name, const void *op, char *text, size_t capacity)
{
	int dtype = *(const int *)((const char *)op + row->dtype_at);
	char value[CG_ATTRIBUTE_TEXT];

	text[0] = '\0';
	cg_line_add(text, capacity, "--op %s", name);
	for (const struct cg_dim *d = row->dims; d->symbol; d++) {
		int64_t size = *(const int64_t *)((const char *)op + d->at);

		if ((!d->only || size != d->least) && !(d->flags & CG_UNSAID))
			cg_line_add(text, capacity, " --%s %lld", option_of(d), (long long)size);
	}
	if (cg_dtype_bytes(dtype))
		cg_line_add(text, capacity, " --dtype %s", cg_dtype_name(dtype));
	else
		cg_line_add(text, capacity, " --dtype %d", dtype);
	for (const struct cg_attribute *a = row->attributes; a->name; a++)
		if ((a->required && !a->scalar) || cg_attribute_number(a, op) != a->fallback)
			cg_line_add(text, capacity, " %s=%s", a->name, cg_attribute_text(a, op, value));
	return text;
}

/* ---- a line ---- */

/* Adds the result of the call to the line, and writes the whole line at once, so that lines of several threads do not mix. */
static void finish(char line[CG_LINE], const struct cg_stream *stream, int code, double ms, const char *notes)
{
	static const char *const codes[] = {
		"CG_OK", "CG_BAD_ARGUMENT", "CG_NO_MEMORY", "CG_NO_DEVICE", "CG_UNSUPPORTED", "CG_BUILD", "CG_DRIVER", "CG_FILE"
	};
	size_t capacity = CG_LINE - 1;              /* the line's capacity less one byte, which is left for the line end */

	cg_line_add(line, capacity, "%s# %s; %.4f ms", *line ? " " : "", stream->context->backend->name, ms);
	if (code) {
		cg_line_add(line, capacity, "; %s: ", codes[-code]);
		cg_line_add_plain(line, capacity, cg_message());
	} else {
		cg_line_add(line, capacity, ";");
		cg_context_add_route(line, capacity, stream->context);
		cg_line_add(line, capacity, "%s", notes);
	}
	cg_line_write(line);
}

/* ---- ops ---- */

static int is_wanted(const struct cg_port *port, const void *op)
{
	return port->flow != CG_IN && cg_present(*(const struct cg_mem *)((const char *)op + port->at));
}

/* The name of the op: the library's own if the call uses an output or attribute that TensorFlow's op lacks, else TensorFlow's. */
static const char *name_of(const struct cg_op *row, const void *op)
{
	for (const struct cg_port *p = row->ports; p->name; p++)
		if (p->extra && is_wanted(p, op))
			return row->name;
	for (const struct cg_attribute *a = row->attributes; a->name; a++)
		if (a->extra && cg_attribute_number(a, op) != a->fallback)
			return row->name;
	return row->tensorflow;
}

/* Adds the facts of a call that are not among the command's arguments. */
static void note(char *notes, size_t capacity, const struct cg_op *row, const char *name, const void *op)
{
	int without = 0;

	if (row->route)
		cg_line_add(notes, capacity, "; %s", row->route(op));
	if (*(const int *)((const char *)op + row->accumulate_at))
		cg_line_add(notes, capacity, "; accumulate");
	if (row->gates_at && *(const int *)((const char *)op + row->gates_at) == CG_IFCO)
		cg_line_add(notes, capacity, "; gates CG_IFCO");
	for (const struct cg_port *p = row->ports; p->name; p++)
		if (p->flow != CG_IN && !is_wanted(p, op) && (!p->extra || name == row->name) && (!row->reads || row->reads(row, p, op)))
			cg_line_add(notes, capacity, "%s %s", without++ ? "" : "; without", p->name);
}

void cg_verbose_print_op(const struct cg_stream *stream, const struct cg_op *row, const void *op, int code, double ms)
{
	char line[CG_LINE] = "", notes[512] = "", problem[512];

	/* A struct that is NULL or too short is not read: the line has no command. */
	if (!op || *(const size_t *)op < row->size) {
		cg_line_add(line, sizeof line, "# %s", row->name);
	} else {
		const char *name = name_of(row, op);

		cg_line_add(line, sizeof line, "cellgrad bench %s", cg_op_describe(row, name, op, problem, sizeof problem));
		note(notes, sizeof notes, row, name, op);
	}
	finish(line, stream, code, ms, notes);
}

/* ---- kernels ---- */

void cg_verbose_print_kernel(const struct cg_stream *stream, const struct cg_kernel *kernel, int options, int64_t rows, int64_t units,
                             int code, double ms)
{
	static const char *const shapes[] = { [CG_POINT] = "point", [CG_SUM] = "sum", [CG_SCAN] = "scan" };
	char line[CG_LINE] = "", notes[128] = "";
	const struct cg_cell *cell;

	/* A kernel that failed its checks may contain anything, and is not read. */
	if (options < 0) {
		cg_line_add(line, sizeof line, "# cg_kernel_run");
		finish(line, stream, code, ms, notes);
		return;
	}
	cell = kernel->cell;
	cg_line_add(line, sizeof line, cg_is_listed(cell) ? "cellgrad emit %s" : "cellgrad emit ./%s.cell", cell->name);
	for (int k = 0, n = 0; k < cell->n_options; k++)
		if (options >> k & 1)
			cg_line_add(line, sizeof line, "%s%s", n++ ? "," : " --options ", cell->options[k].name);
	if (kernel->stage)
		cg_line_add(line, sizeof line, " --stage %d", kernel->stage);
	cg_line_add(line, sizeof line, " --pass %s --dtype %s", cg_pass_names[kernel->pass], cg_dtype_name(kernel->dtype));
	cg_line_add(notes, sizeof notes, "; %s [%lld, %lld]", shapes[kernel->shape], (long long)rows, (long long)units);
	finish(line, stream, code, ms, notes);
}
