/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls an op on tensors from files. All facts about an op come from its row in the op table; attribute_text.c reads attributes,
 * metadata.c reads metadata, and the subcommands use the outputs.
 */
#include <ctype.h>
#include <string.h>

#include "command/describe.h"
#include "command/run/metadata.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

static struct cg_mem *mem(const struct call *c, const struct cg_port *port)
{
	return (struct cg_mem *)((char *)c->op + port->at);
}

int call_has_output(const struct call *c, const struct cg_port *port)
{
	return port->flow != CG_IN && !(port->extra && c->theirs) && (!port->state || c->row->reads(c->row, port, c->op));
}

int call_open(struct call *c, const char *op)
{
	*c = (struct call){ .dtype = -1 };
	c->row = describe_find(op, &c->theirs);
	if (!c->row)
		return CG_BAD_ARGUMENT;
	c->name = c->theirs ? c->row->tensorflow : c->row->name;
	while (c->row->ports[c->n].name)
		c->n++;
	c->arguments = cg_memory(NULL, (size_t)c->n * sizeof *c->arguments);
	if (!c->arguments)
		return CG_NO_MEMORY;
	memset(c->arguments, 0, (size_t)c->n * sizeof *c->arguments);
	c->op = cg_memory(NULL, c->row->size);
	if (!c->op)
		return CG_NO_MEMORY;
	c->row->init(c->op, c->row->size);
	return CG_OK;
}

void call_close(struct call *c)
{
	for (int k = 0; k < c->n && c->arguments; k++) {
		cg_memory(c->arguments[k].answer, 0);
		cg_memory(c->arguments[k].copy, 0);
	}
	for (size_t k = 0; k < c->n_files; k++)
		safetensors_close(&c->files[k]);
	cg_memory(c->files, 0);
	cg_memory(c->arguments, 0);
	cg_memory(c->op, 0);
	plan_close(c);
	*c = (struct call){ 0 };
}

int call_file(struct call *c, const char *path)
{
	struct safetensors *files = cg_memory(c->files, (c->n_files + 1) * sizeof *files);

	if (!files)
		return CG_NO_MEMORY;
	c->files = files;
	CG_TRY(safetensors_open(&c->files[c->n_files], path));
	c->n_files++;
	return CG_OK;
}

/* ---- finding the inputs ---- */

/* Is the port an input that the op reads? */
static int reads(const struct call *c, const struct cg_port *port)
{
	return port->flow == CG_IN && !(port->extra && c->theirs) && (!c->row->reads || c->row->reads(c->row, port, c->op));
}

/* Marks outputs as present (on) or absent before they have memory, since cg_op_needs checks which outputs are present. */
static void mark_outputs(struct call *c, int on)
{
	for (const struct cg_port *p = c->row->ports; p->name; p++)
		if (call_has_output(c, p))
			*mem(c, p) = (struct cg_mem){ .data = on ? c->op : NULL };
}

/* Does a wanted output depend on the numbers of the input? If no wanted output depends on the numbers, only the input's shape matters. */
static int computes(const struct call *c, const struct cg_port *port)
{
	if (port->flags & CG_SHAPE_ALONE)
		return 0;
	return !port->need || !*port->need || cg_op_needs(c->row, port, c->op);
}

/* Checks that a tensor that two files have is the same in both, or differs only in numbers that the op does not read. */
static int is_one(const struct call *c, const struct cg_port *port, const struct call_argument *a, const struct safetensors *file,
                  const struct safetensors_tensor *t)
{
	const struct safetensors_tensor *first = a->tensor;
	char one[PRINT_SHAPE], two[PRINT_SHAPE], shown[PRINT_NAME], other[PRINT_NAME];
	int alike = !strcmp(first->dtype, t->dtype) && first->rank == t->rank &&
	            !memcmp(first->shape, t->shape, (size_t)t->rank * sizeof *t->shape);

	if (alike && (!computes(c, port) || (first->bytes == t->bytes && !memcmp(first->data, t->data, t->bytes))))
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "%s: tensor %s: expected one, got two that differ%s: %s %s in %s, %s %s in %s", c->name, port->name,
	               alike ? " in their numbers" : "", print_name(shown, safetensors_dtype(first)), print_shape(one, first->shape, first->rank),
	               a->file->path, print_name(other, safetensors_dtype(t)), print_shape(two, t->shape, t->rank), file->path);
}

static int find_one(struct call *c, const struct cg_port *port, struct call_argument *a)
{
	for (size_t f = 0; f < c->n_files; f++) {
		const struct safetensors_tensor *t = safetensors_find(&c->files[f], port->name);

		if (t && a->tensor)
			CG_TRY(is_one(c, port, a, &c->files[f], t));
		if (!t || a->tensor)
			continue;
		a->tensor = t;
		a->file = &c->files[f];
	}
	return CG_OK;
}

static int find(struct call *c)
{
	int code = CG_OK;

	mark_outputs(c, 1);
	for (int k = 0; k < c->n && !code; k++)
		if (reads(c, &c->row->ports[k]))
			code = find_one(c, &c->row->ports[k], &c->arguments[k]);
	mark_outputs(c, 0);
	return code;
}

static int reads_tensor(const struct call *c, const char *name)
{
	for (const struct cg_port *p = c->row->ports; p->name; p++)
		if (p->flow == CG_IN && !(p->extra && c->theirs) && !strcmp(p->name, name))
			return 1;
	for (const struct cg_attribute *a = c->row->attributes; a->name; a++)
		if (a->scalar && !strcmp(a->name, name))
			return 1;
	return 0;
}

static int nothing_else(const struct call *c)
{
	char shown[PRINT_NAME];

	for (size_t f = 0; f < c->n_files; f++)
		for (size_t k = 0; k < c->files[f].n; k++)
			if (!reads_tensor(c, c->files[f].tensors[k].name))
				return cg_fail(CG_BAD_ARGUMENT,
				               "%s: %s: this tensor is no input of %s, and --strict allows no other tensors",
				               c->files[f].path, print_name(shown, c->files[f].tensors[k].name),
				               c->name);
	return CG_OK;
}

/* The type of a port whose elements are integers, as safetensors names it. */
const char *call_integer_code(const struct call *c, const struct cg_port *port)
{
	static const char *const codes[] = { [CG_INT8] = "I8", [CG_INT32] = "I32", [CG_INT64] = "I64" };

	return codes[cg_op_type(c->row, port, c->op)];
}

static int check_integers(const struct call *c, const struct cg_port *port, const struct call_argument *a)
{
	char shown[PRINT_NAME];

	if (!strcmp(a->tensor->dtype, call_integer_code(c, port)))
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected %s, got %s", a->file->path, port->name, call_integer_code(c, port),
	               print_name(shown, a->tensor->dtype));
}

/* Finds the dtype of the call, which all inputs that are not integers must have. */
static int dtype(struct call *c)
{
	const struct call_argument *first = NULL;
	const char *name = NULL;
	char shown[PRINT_NAME];

	for (int k = 0; k < c->n; k++) {
		const struct call_argument *a = &c->arguments[k];

		if (!a->tensor)
			continue;
		if (c->row->ports[k].type) {
			CG_TRY(check_integers(c, &c->row->ports[k], a));
			continue;
		}
		if (a->tensor->cg < 0)
			return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected " CG_DTYPES_CODES ", got %s",
			               a->file->path, a->tensor->name, print_name(shown, a->tensor->dtype));
		if (first && a->tensor->cg != first->tensor->cg)
			return cg_fail(CG_BAD_ARGUMENT, "%s: expected one dtype, got %s of tensor %s in %s and %s of tensor %s in %s",
			               c->name, safetensors_dtype(first->tensor), name, first->file->path,
			               safetensors_dtype(a->tensor), a->tensor->name, a->file->path);
		if (!first)
			first = a;
		name = first->tensor->name;
	}
	if (!first)
		return CG_OK;
	c->dtype = first->tensor->cg;
	memcpy((char *)c->op + c->row->dtype_at, &c->dtype, sizeof c->dtype);
	return metadata_type(c, c->dtype);
}

/* Sets the dtype of a call that has no input of floating-point numbers: the dtype that attribute T names, or f32. */
static void dtype_of_none(struct call *c)
{
	if (c->dtype >= 0)
		return;
	c->dtype = attribute_dtype(c);
	memcpy((char *)c->op + c->row->dtype_at, &c->dtype, sizeof c->dtype);
}

/* Copies to the host's memory those inputs that the op reads there. Before a device is open, an op can read only inputs in host memory. */
static int copy_inputs(struct call *c)
{
	for (int k = 0; k < c->n; k++) {
		const struct cg_port *port = &c->row->ports[k];
		struct call_argument *a = &c->arguments[k];

		if (!a->tensor || !(port->flags & CG_ON_HOST))
			continue;
		a->copy = cg_memory(NULL, a->tensor->bytes + 1);
		if (!a->copy)
			return CG_NO_MEMORY;
		memcpy(a->copy, a->tensor->data, a->tensor->bytes);
		*mem(c, port) = (struct cg_mem){ .data = a->copy, .bytes = a->tensor->bytes, .place = CG_HOST };
	}
	return CG_OK;
}

/* Sets an op's sizes from the shapes of all arguments except number `but`. All shapes are read twice, since some of them need sizes that
 * later ones give. Returns the first argument that does not fit, or -1. */
static int bind_all(const struct call *c, void *op, unsigned *bound, int but)
{
	for (int k = 0; k < 2 * c->n; k++) {
		const struct safetensors_tensor *t = c->arguments[k % c->n].tensor;

		if (t && k % c->n != but && cg_op_bind(c->row, &c->row->ports[k % c->n], op, bound, t->shape, t->rank))
			return k % c->n;
	}
	return -1;
}

/* Finds another argument whose shape alone contradicts that of argument k. -1: there is none, since the shape of argument k does not fit
 * the op at all, or only several shapes together contradict it. */
static int contradicts(const struct call *c, void *op, unsigned before, int k)
{
	for (int other = -1; other < c->n; other++) {
		const struct safetensors_tensor *t = other < 0 ? NULL : c->arguments[other].tensor;
		unsigned bound = before;

		if (other >= 0 && (!t || other == k || cg_op_bind(c->row, &c->row->ports[other], op, &bound, t->shape, t->rank)))
			continue;
		t = c->arguments[k].tensor;
		if (cg_op_bind(c->row, &c->row->ports[k], op, &bound, t->shape, t->rank))
			return other;
	}
	return -1;
}

enum { BLAMED = 64 };                            /* the most arguments among which an odd one is searched; a call may have more */

/* Finds the odd one among arguments whose shapes do not fit together: the argument without which all others fit. If there is not exactly
 * one such argument, the result is `found`, the first one that did not fit. */
static int odd_one(const struct call *c, void *op, unsigned before, int found)
{
	int odd = -1, n = 0;

	for (int k = 0; k < c->n && c->n <= BLAMED; k++) {
		unsigned bound = before;

		if (c->arguments[k].tensor && bind_all(c, op, &bound, k) < 0) {
			odd = k;
			n++;
		}
	}
	return n == 1 ? odd : found;
}

/* Reports which argument does not fit, the shape that the other arguments imply for it, and an argument that alone contradicts it, if there
 * is one. */
static int misfit(struct call *c, unsigned before, int found)
{
	int odd = odd_one(c, c->op, before, found), other = contradicts(c, c->op, before, odd);
	const struct call_argument *a = &c->arguments[odd], *b = &c->arguments[other < 0 ? odd : other];
	unsigned bound = before;
	char shape[PRINT_SHAPE];

	if (bind_all(c, c->op, &bound, odd) < 0) {
		cg_op_bind(c->row, &c->row->ports[odd], c->op, &bound, a->tensor->shape, a->tensor->rank);
	} else {
		/* The other arguments do not fit together either, so the shape of this one is compared with those of the arguments before it. */
		bound = before;
		bind_all(c, c->op, &bound, -1);
	}
	cg_fail_in(CG_BAD_ARGUMENT, "%s", a->file->path);
	if (other >= 0)
		cg_fail(CG_BAD_ARGUMENT, "%s; %s%s%s is %s", cg_message(), c->row->ports[other].name, a->file == b->file ? "" : " of ",
		        a->file == b->file ? "" : b->file->path, print_shape(shape, b->tensor->shape, b->tensor->rank));
	return plan_explain_misfit(c, CG_BAD_ARGUMENT, odd);
}

static int bind(struct call *c, unsigned *bound)
{
	unsigned before = *bound;
	int found = bind_all(c, c->op, bound, -1);

	return found < 0 ? CG_OK : misfit(c, before, found);
}

/* Does the shape of the port contain the symbol of a size? */
int call_names(const struct cg_port *port, const char *symbol)
{
	size_t length = strlen(symbol);

	for (const char *at = port->shape; (at = strstr(at, symbol)); at += length)
		if ((at == port->shape || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length]))
			return 1;
	return 0;
}

/* The expected shape of a port as text: "[3, 28]" where the sizes are known, else "[B, 4*U]". */
static const char *expected(const struct call *c, const struct cg_port *port, unsigned bound,
                            char shown[PRINT_SHAPE])
{
	int64_t shape[CG_RANK];
	int rank = cg_op_shape(c->row, port, c->op, shape), known = rank > 0;
	char text[CG_SHAPE_TEXT];
	size_t n = 0;

	for (int k = 0; c->row->dims[k].symbol; k++)
		known &= bound >> k & 1 || !call_names(port, c->row->dims[k].symbol);
	if (known)
		return print_shape(shown, shape, rank);
	shown[n++] = '[';
	for (const char *at = cg_op_shape_text(c->row, port, c->op, text); *at && n < PRINT_SHAPE - 3; at++) {
		if (*at == ' ')
			shown[n++] = ',';
		shown[n++] = *at;
	}
	strcpy(shown + n, "]");
	return shown;
}

/* The name of a tensor in the files that is nearest to `name`, among those that the op does not read; or NULL. */
static const char *nearest(const struct call *c, const char *name)
{
	const char **all, *found;
	size_t n = 0, alloc_bytes = 0;

	for (size_t f = 0; f < c->n_files; f++)
		alloc_bytes += c->files[f].n;
	all = cg_memory(NULL, (alloc_bytes + 1) * sizeof *all);
	if (!all)
		return NULL;
	for (size_t f = 0; f < c->n_files; f++)
		for (size_t k = 0; k < c->files[f].n; k++)
			if (!reads_tensor(c, c->files[f].tensors[k].name) && n < INT_MAX)
				all[n++] = c->files[f].tensors[k].name;
	found = cg_nearest(name, all, (int)n);
	cg_memory(all, 0);
	return found;
}

static int missing(const struct call *c, const struct cg_port *port, unsigned bound)
{
	char shape[PRINT_SHAPE], shown[PRINT_NAME], list[1024] = "";
	const char *near = nearest(c, port->name);
	size_t n = 0;

	for (size_t k = 0; k < c->n_files && n < sizeof list; k++)
		n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", k ? ", " : "", c->files[k].path);
	cg_fail(CG_BAD_ARGUMENT, "%s: tensor %s is missing: expected %s %s, looked in %s", c->name, port->name,
	        c->dtype < 0 && !port->type ? "a tensor" : cg_op_type_name(c->row, port, c->op), expected(c, port, bound, shape), list);
	if (near)
		cg_fail(CG_BAD_ARGUMENT, "%s; there is a tensor %s: is that the one?", cg_message(),
		        print_name(shown, near));
	return CG_BAD_ARGUMENT;
}

/* May an input be absent? TensorFlow requires every input; the command does not require one that the op does not read, that its row marks
 * as optional, or that a boolean attribute switches off. */
static int may_be_absent(const struct call *c, const struct cg_port *port)
{
	int named = 0;

	if (!reads(c, port) || port->flags & CG_MAY_LACK || (port->flags & CG_OURS_LACKS && !c->theirs))
		return 1;
	for (const struct cg_attribute *a = c->row->attributes; a->name && port->need; a++) {
		const char *at = strstr(port->need, a->name);

		named |= a->kind == CG_BOOL && at && (at == port->need || at[-1] == ' ')
		         && strchr(" ", at[strlen(a->name)]);
	}
	return named && !cg_op_needs(c->row, port, c->op);
}

static int all_there(struct call *c, unsigned bound)
{
	int code = CG_OK;

	mark_outputs(c, 1);
	for (int k = 0; k < c->n && !code; k++) {
		const struct cg_port *port = &c->row->ports[k];

		if (port->flow == CG_IN && !c->arguments[k].tensor && !may_be_absent(c, port))
			code = missing(c, port, bound);
	}
	mark_outputs(c, 0);
	return code;
}

/* Computes the bytes and the shape of each argument of the call. */
static int measure(struct call *c)
{
	for (int k = 0; k < c->n; k++) {
		struct call_argument *a = &c->arguments[k];

		CG_TRY(cg_op_bytes(c->row, &c->row->ports[k], c->op, &a->bytes));
		a->rank = cg_op_shape(c->row, &c->row->ports[k], c->op, a->shape);
	}
	return CG_OK;
}

int call_bind(struct call *c, int strict)
{
	unsigned bound = attribute_sizes(c);

	CG_TRY(metadata_attributes(c));
	CG_TRY(metadata_means(c));
	CG_TRY(plan_bind(c, &bound));
	CG_TRY(find(c));
	if (strict)
		CG_TRY(nothing_else(c));
	CG_TRY(dtype(c));
	CG_TRY(bind(c, &bound));
	CG_TRY(metadata_sizes(c, bound));
	CG_TRY(all_there(c, bound));
	CG_TRY(attribute_ranges(c));
	dtype_of_none(c);
	CG_TRY(plan_check_values(c));
	CG_TRY(copy_inputs(c));
	if (c->row->infer) {
		CG_TRY(plan_read_reserve(c));
		CG_TRY(c->row->infer(c->row, c->op, &bound));
		CG_TRY(bind(c, &bound));
	}
	return measure(c);
}

/* ---- the work ---- */

/* The bytes to allocate for an argument. Empty tensors get memory, too: without memory the op would take them for absent. */
static size_t alloc_bytes(const struct call *c, const struct call_argument *a)
{
	return a->bytes ? a->bytes : cg_dtype_bytes(c->dtype);
}

/* Allocates an argument's memory and copies an input into it. */
static int alloc_argument(struct call *c, int k, struct cg_context *context, struct cg_stream *stream)
{
	const struct cg_port *port = &c->row->ports[k];
	struct call_argument *a = &c->arguments[k];

	if (a->copy || (!a->tensor && !call_has_output(c, port)))
		return CG_OK;
	if (!a->tensor && !a->answer && !(a->answer = cg_memory(NULL, alloc_bytes(c, a))))
		return CG_NO_MEMORY;
	if (port->flags & CG_ON_HOST) {
		*mem(c, port) = (struct cg_mem){ .data = a->answer, .bytes = a->bytes, .place = CG_HOST };
		return CG_OK;
	}
	CG_TRY(cg_alloc(context, alloc_bytes(c, a), mem(c, port)));
	return a->tensor && a->bytes ? cg_put(stream, *mem(c, port), a->tensor->data, a->bytes) : CG_OK;
}

/* Makes the device's kernels ready, and computes the sizes of outputs that are known only then. */
static int make_ready(struct call *c, struct cg_stream *stream)
{
	unsigned all = ~0u;
	int code;

	if (!c->row->open)
		return CG_OK;
	code = c->row->open(stream, c->row, c->op);
	if (code)
		return plan_explain_failure(c, code);
	CG_TRY(plan_check_route(c));
	CG_TRY(bind(c, &all));
	return measure(c);
}

static int work(struct call *c, struct cg_context *context, struct cg_stream *stream, int *working)
{
	/* The checks from here to cg_op_check() refuse every call that must still be refused before the work begins. */
	CG_TRY(make_ready(c, stream));
	for (int k = 0; k < c->n; k++)
		CG_TRY(alloc_argument(c, k, context, stream));
	CG_TRY(cg_op_check(c->row, c->op));
	*working = 1;
	CG_TRY(c->row->call(stream, c->op));
	CG_TRY(cg_stream_sync(stream));
	for (int k = 0; k < c->n; k++)
		if (c->arguments[k].answer && c->arguments[k].bytes && !(c->row->ports[k].flags & CG_ON_HOST))
			CG_TRY(cg_get(stream, c->arguments[k].answer, *mem(c, &c->row->ports[k]),
			              c->arguments[k].bytes));
	return CG_OK;
}

int call_compute(struct call *c, struct cg_context *context, int *working)
{
	struct cg_stream *stream;
	int code;

	CG_TRY(cg_supports(context, c->row->name, c->dtype));
	CG_TRY(cg_stream_open(context, NULL, &stream));
	code = work(c, context, stream, working);
	if (c->row->close)
		c->row->close(c->op);
	for (const struct cg_port *p = c->row->ports; p->name; p++)
		if (!(p->flags & CG_ON_HOST))
			cg_free(context, mem(c, p));
	cg_stream_close(stream);
	return code;
}
