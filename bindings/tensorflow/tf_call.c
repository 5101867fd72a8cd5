/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets and makes the tensors of a kernel's call, checks their shapes, and sets the status that TensorFlow receives.

 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bindings/tensorflow/tf_op.h"

/* ---- status ---- */

static TF_Code code_of(int status)
{
	static const struct { int status; TF_Code code; } codes[] = {
		{ CG_BAD_ARGUMENT, TF_INVALID_ARGUMENT }, { CG_NO_MEMORY, TF_RESOURCE_EXHAUSTED }, { CG_UNSUPPORTED, TF_UNIMPLEMENTED },
		{ CG_NO_DEVICE, TF_UNAVAILABLE }
	};

	for (size_t k = 0; k < sizeof codes / sizeof *codes; k++)
		if (codes[k].status == status)
			return codes[k].code;
	return TF_INTERNAL;
}

int cg_tf_fail(struct cg_tf_call *call, int status, const char *format, ...)
{
	char message[1024];
	va_list list;
	int used = snprintf(message, sizeof message, "cellgrad: %s: ", call->kernel->op->name);

	va_start(list, format);
	vsnprintf(message + used, sizeof message - (size_t)used, format, list);
	va_end(list);
	if (cg_tf.GetCode(call->status) == TF_OK)
		cg_tf.SetStatus(call->status, code_of(status), message);
	return status;
}

int cg_tf_pass(struct cg_tf_call *call, int status)
{
	return status ? cg_tf_fail(call, status, "%s", cg_message()) : CG_OK;
}

/* ---- shapes ---- */

int64_t cg_tf_dim(const struct cg_tf_call *call, int dim)
{
	const int64_t *d = call->dims;

	switch (dim) {
	case CG_TF_DH:
		return d[CG_TF_H] < 0 ? -1 : call->directions * d[CG_TF_H];
	case CG_TF_IU:
		return d[CG_TF_I] < 0 || d[CG_TF_U] < 0 ? -1 : d[CG_TF_I] + d[CG_TF_U];
	case CG_TF_2U:
		return d[CG_TF_U] < 0 ? -1 : 2 * d[CG_TF_U];
	case CG_TF_4U:
		return d[CG_TF_U] < 0 ? -1 : 4 * d[CG_TF_U];
	default:
		return d[dim];
	}
}

/* The k-th dimension of a port's shape, an enum cg_tf_dim; 0 past the last.  Without time_major sequences and states are [B T .] and [B
 * L*D .]. */
static int dim_at(const struct cg_tf_call *call, const struct cg_tf_port *port, int k)
{
	int is_swapped = !call->kernel->config.time_major && k < 2 && port->shape[2];

	return k < CG_TF_RANK ? port->shape[is_swapped ? !k : k] : 0;
}

static int rank_of(const struct cg_tf_port *port)
{
	int rank = 0;

	while (rank < CG_TF_RANK && port->shape[rank])
		rank++;
	return rank;
}

static size_t append(char *text, size_t capacity, size_t used, const char *format, ...)
{
	va_list list;
	int n;

	if (used >= capacity)
		return used;
	va_start(list, format);
	n = vsnprintf(text + used, capacity - used, format, list);
	va_end(list);
	return used + (n < 0 ? 0 : (size_t)n);
}

/* Prints the shape that a port should have, "[4, 3, L*D]": a size that is not known yet is printed by its name. */
static void print_expected(const struct cg_tf_call *call, const struct cg_tf_port *port, char *text, size_t capacity)
{
	static const char *const names[] = { "", "T", "B", "I", "U", "H", "L*D", "P", "R", "D*H", "I+U", "2*U", "4*U" };
	size_t used = append(text, capacity, 0, "[");

	for (int k = 0; k < rank_of(port); k++) {
		int dim = dim_at(call, port, k);
		int64_t size = cg_tf_dim(call, dim);

		if (size < 0)
			used = append(text, capacity, used, "%s%s", k ? ", " : "", names[dim]);
		else
			used = append(text, capacity, used, "%s%lld", k ? ", " : "", (long long)size);
	}
	append(text, capacity, used, "]");
}

static void print_shape(const TF_Tensor *tensor, char *text, size_t capacity)
{
	size_t used = append(text, capacity, 0, "[");

	for (int k = 0; k < cg_tf.NumDims(tensor); k++)
		used = append(text, capacity, used, "%s%lld", k ? ", " : "", (long long)cg_tf.Dim(tensor, k));
	append(text, capacity, used, "]");
}

static int is_used(const struct cg_tf_call *call, const struct cg_tf_port *port)
{
	const struct cg_tf_kernel *k = call->kernel;
	int unused = CG_TF_UNUSED | (k->has_state ? 0 : CG_TF_STATE) | (k->use_peephole ? 0 : CG_TF_PEEPHOLE) |
	             (k->config.training ? 0 : CG_TF_TRAINING);

	return !(port->flags & unused);
}

/* Sets those sizes of the call that are not known yet from a tensor's shape; refuses a shape of another rank than the port's, or one that
 * contradicts the known sizes. */
static int match_shape(struct cg_tf_call *call, const struct cg_tf_port *port, const TF_Tensor *tensor)
{
	int fits = cg_tf.NumDims(tensor) == rank_of(port);
	char expected[160], got[160];

	for (int k = 0; fits && k < rank_of(port); k++) {
		int64_t size = cg_tf_dim(call, dim_at(call, port, k));

		fits = size < 0 || size == cg_tf.Dim(tensor, k);
	}
	for (int k = 0; fits && k < rank_of(port); k++)
		if (dim_at(call, port, k) < CG_TF_KNOWN)
			call->dims[dim_at(call, port, k)] = cg_tf.Dim(tensor, k);
	if (fits)
		return CG_OK;
	print_expected(call, port, expected, sizeof expected);
	print_shape(tensor, got, sizeof got);
	return cg_tf_refuse(call, "%s: expected shape %s, got %s", port->name, expected, got);
}

/* ---- inputs ---- */

int cg_tf_take_input(struct cg_tf_call *call, int index, TF_Tensor **tensor)
{
	*tensor = NULL;
	cg_tf.GetInput(call->context, index, tensor, call->status);
	if (cg_tf.GetCode(call->status) == TF_OK && *tensor)
		return CG_OK;
	return cg_tf_refuse(call, "input %d: TensorFlow gave no tensor", index);
}

int cg_tf_read_inputs(struct cg_tf_call *call)
{
	const struct cg_tf_port *port = call->kernel->op->inputs;

	for (int k = 0; port[k].name; k++) {
		int status = cg_tf_take_input(call, k, &call->inputs[k]);

		if (!status && is_used(call, port + k))
			status = match_shape(call, port + k, call->inputs[k]);
		if (status)
			return status;
	}
	return CG_OK;
}

struct cg_mem cg_tf_mem(const TF_Tensor *tensor)
{
	size_t bytes = cg_tf.TensorByteSize(tensor);

	return cg_host(bytes ? cg_tf.TensorData(tensor) : NULL, bytes);
}

static void place(const struct cg_tf_port *port, const TF_Tensor *tensor, void *arguments)
{
	struct cg_mem mem = cg_tf_mem(tensor);

	if (port->at != CG_TF_NOWHERE)
		memcpy((char *)arguments + port->at, &mem, sizeof mem);
}

void cg_tf_place_inputs(const struct cg_tf_call *call, void *arguments)
{
	const struct cg_tf_port *port = call->kernel->op->inputs;

	for (int k = 0; port[k].name; k++)
		if (is_used(call, port + k))
			place(port + k, call->inputs[k], arguments);
}

/* ---- outputs ---- */

int cg_tf_make_output(struct cg_tf_call *call, int index, TF_DataType type, const int64_t *dims, int rank, size_t element,
                      TF_Tensor **tensor)
{
	size_t bytes = element;
	int fits = 1;

	*tensor = NULL;
	for (int k = 0; k < rank; k++) {
		fits = fits && (!dims[k] || bytes <= SIZE_MAX / 2 / (size_t)dims[k]);
		bytes *= (size_t)dims[k];
	}
	if (!fits)
		return cg_tf_refuse(call, "output %d: expected a tensor of at most %zu bytes, got the shape of a larger tensor", index,
		                    SIZE_MAX / 2);
	*tensor = cg_tf.AllocateOutput(call->context, index, type, dims, rank, bytes, call->status);
	if (cg_tf.GetCode(call->status) != TF_OK || !*tensor)
		return cg_tf_fail(call, CG_NO_MEMORY, "output %d: there is no memory for the tensor", index);
	/* TensorFlow often takes new memory from the system for the outputs of a call. */
	cg_prefer_huge_pages(cg_tf.TensorData(*tensor), bytes);
	return CG_OK;
}

/* Sets dims to the shape of an output and returns its rank.  An output that is not in use is a scalar, unless it belongs to a peephole. */
static int shape_of(const struct cg_tf_call *call, const struct cg_tf_port *port, int64_t dims[CG_TF_RANK])
{
	int rank = is_used(call, port) || port->flags & CG_TF_PEEPHOLE ? rank_of(port) : 0;

	for (int k = 0; k < rank; k++)
		dims[k] = cg_tf_dim(call, dim_at(call, port, k));
	return rank;
}

int cg_tf_make_outputs(struct cg_tf_call *call, void *arguments)
{
	const struct cg_tf_port *port = call->kernel->op->outputs;

	for (int k = 0; port[k].name; k++) {
		int is_real = port[k].type == CG_TF_REAL, rank, status;
		int64_t dims[CG_TF_RANK];

		rank = shape_of(call, port + k, dims);
		status = cg_tf_make_output(call, k, is_real ? call->kernel->type : TF_INT8, dims, rank, is_real ? call->kernel->element : 1,
		                           &call->outputs[k]);
		if (status)
			return status;
		if (is_used(call, port + k))
			place(port + k, call->outputs[k], arguments);
		else if (cg_tf.TensorByteSize(call->outputs[k]))
			memset(cg_tf.TensorData(call->outputs[k]), 0, cg_tf.TensorByteSize(call->outputs[k]));
	}
	return CG_OK;
}

/* ---- the call ---- */

void cg_tf_compute(void *kernel, TF_OpKernelContext *context)
{
	struct cg_tf_call call = { .kernel = kernel, .context = context, .status = cg_tf.NewStatus() };

	for (int k = 0; k < CG_TF_KNOWN; k++)
		call.dims[k] = -1;
	call.directions = 1 + call.kernel->config.bidirectional;
	call.kernel->op->run(&call);
	for (int k = 0; k < CG_TF_PORTS; k++) {
		if (call.inputs[k])
			cg_tf.DeleteTensor(call.inputs[k]);
		if (call.outputs[k])
			cg_tf.DeleteTensor(call.outputs[k]);
	}
	if (cg_tf.GetCode(call.status) != TF_OK)
		cg_tf.OpKernelContext_Failure(context, call.status);
	cg_tf.DeleteStatus(call.status);
}
