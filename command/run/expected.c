/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the answers of an op with expected ones: checks the types, compares the elements, and decides how far they may differ.
 */
#include <string.h>

#include "command/run/op_call.h"
#include "command/output.h"

/* ---- the outputs beside the expected ones ---- */

int call_expect(const struct call *c, const struct safetensors *file)
{
	char want[PRINT_SHAPE], got[PRINT_SHAPE], shown[PRINT_NAME];
	int compared = 0;

	for (int k = 0; k < c->n; k++) {
		const struct cg_port *port = &c->row->ports[k];
		const struct call_argument *a = &c->arguments[k];
		const struct safetensors_tensor *t = safetensors_find(file, port->name);

		/* The library's own op has more outputs than TensorFlow's, so under the library's name only the outputs that the file has are
		 * compared. An empty output may be missing in the file. */
		if (!call_has_output(c, port) || port->flags & CG_OPAQUE || (!t && (!c->theirs || !a->bytes)))
			continue;
		compared++;
		print_shape(want, a->shape, a->rank);
		if (!t)
			return cg_fail(CG_BAD_ARGUMENT, "%s: tensor %s is missing: expected shape %s", file->path,
			               port->name, want);
		if (port->type && strcmp(t->dtype, call_integer_code(c, port)))
			return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected %s, got %s", file->path, port->name, call_integer_code(c, port),
			               print_name(shown, t->dtype));
		if (!port->type && t->cg < 0)
			return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected " CG_DTYPES_CODES ", got %s",
			               file->path, port->name, print_name(shown, t->dtype));
		if (t->rank != a->rank || memcmp(t->shape, a->shape, (size_t)a->rank * sizeof *a->shape))
			return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected %s, got %s", file->path, port->name,
			               want, print_shape(got, t->shape, t->rank));
	}
	return compared ? CG_OK : cg_fail(CG_BAD_ARGUMENT, "%s: the file has no output of %s that could be compared", file->path, c->name);
}

/* The value of a size of the op; 1 where the op does not have that size. */
static int64_t size(const struct call *c, const char *symbol)
{
	for (const struct cg_dim *d = c->row->dims; d->symbol; d++)
		if (!strcmp(d->symbol, symbol))
			return *(const int64_t *)(const void *)((const char *)c->op + d->at);
	return 1;
}

/* The most terms that a sum behind any output may have: a sum is over a dimension of an argument, or over the rows of all steps. */
static int64_t depth(const struct call *c)
{
	int64_t longest = size(c, "T") * size(c, "B");

	/* Tensors of rank 1 are left out: the dimension of such a tensor is also one of another tensor, or the tensor is a buffer, whose
	 * length is not that of a sum. */
	for (int k = 0; k < c->n; k++)
		for (int d = 0; d < c->arguments[k].rank && c->arguments[k].rank > 1; d++)
			if (c->arguments[k].shape[d] > longest)
				longest = c->arguments[k].shape[d];
	return longest;
}

/* Do products or sums read values that the op itself rounded to its dtype? The products of a gradient op read rounded values from memory:
 * dgates, the gradients of the gate pre-activations. With two weight matrices, as in the GRU, the second product reads a rounded value, and
 * a step of a sequence reads what the step before rounded. */
static int rounded(const struct call *c)
{
	int matrices = 0;

	if (size(c, "T") > 1 || c->row->plan)
		return 1;
	for (int k = 0; k < c->n; k++) {
		const struct cg_port *port = &c->row->ports[k];

		if (port->flow == CG_OUT_SUM)
			return 1;
		matrices += port->flow == CG_IN && c->arguments[k].rank == 2 && !call_names(port, "B");
	}
	return matrices > 1;
}

/* ---- single elements ---- */

double call_element(const struct call *c, int port, size_t k)
{
	const void *data = c->arguments[port].answer;
	int32_t half;
	int64_t wide;

	switch (cg_op_type(c->row, &c->row->ports[port], c->op)) {
	case CG_INT8:
		return ((const signed char *)data)[k];
	case CG_INT32:
		memcpy(&half, (const char *)data + k * sizeof half, sizeof half);
		return half;
	case CG_INT64:
		memcpy(&wide, (const char *)data + k * sizeof wide, sizeof wide);
		return (double)wide;
	default:
		return compare_element(c->dtype, data, k);
	}
}

const char *call_type(const struct call *c, int port)
{
	return cg_op_type_name(c->row, &c->row->ports[port], c->op);
}

const char *call_code(const struct call *c, int port)
{
	return c->row->ports[port].type ? call_integer_code(c, &c->row->ports[port]) : safetensors_code(c->dtype);
}

size_t call_elements(const struct call *c, int port)
{
	return c->arguments[port].bytes / cg_op_type_bytes(c->row, &c->row->ports[port], c->op);
}

size_t call_comparable(const struct call *c, int port)
{
	const struct call_argument *a = &c->arguments[port];
	size_t all = call_elements(c, port);

	if (!(c->row->ports[port].flags & CG_UNSET) || !all)
		return all;
	return all / (size_t)a->shape[0] * (size_t)cg_op_steps(c->row, c->op, a->shape[0]);
}

/* Compares outputs of integers, which must be equal to the expected ones. */
static void compare_integers(const struct call *c, int port, const struct safetensors_tensor *want, struct comparison *result)
{
	const struct call_argument *a = &c->arguments[port];

	*result = (struct comparison){ .wrong = memcmp(a->answer, want->data, a->bytes) != 0, .n = call_elements(c, port) };
	if (a->bytes)
		result->got = call_element(c, port, 0);
}

void call_compare(const struct call *c, int port, const struct safetensors_tensor *want,
                  const struct allowance *user, struct comparison *result)
{
	const struct call_argument *a = &c->arguments[port];
	struct allowance rule = user ? *user : (struct allowance){ 0 };

	if (c->row->ports[port].type) {
		compare_integers(c, port, want, result);
		return;
	}
	rule.dtype = c->dtype;
	rule.expected = want->cg;
	rule.depth = depth(c);
	rule.rounded = rounded(c);
	compare(rule, a->answer, want->data, call_comparable(c, port), result);
}
