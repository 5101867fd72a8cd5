/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "runtime/core/core.h"
#include "runtime/device/device.h"
#include "tests/timed_net.h"

const struct net_cell net_cells[4] = {
	{ "lstm", CUDNN_LSTM, 1 }, { "gru", CUDNN_GRU, 0 }, { "rnn_tanh", CUDNN_RNN_TANH, 0 }, { "rnn_relu", CUDNN_RNN_RELU, 0 }
};

/* ---- cuDNN alone ---- */

static void *at(struct cg_mem mem)
{
	return (void *)(uintptr_t)cg_cu_address(mem);
}

static unsigned type_of(int dtype)
{
	static const unsigned types[] = {
		[CG_F32] = CUDNN_DATA_FLOAT, [CG_F64] = CUDNN_DATA_DOUBLE, [CG_F16] = CUDNN_DATA_HALF, [CG_BF16] = CUDNN_DATA_BFLOAT16
	};

	return types[dtype];
}

static int alloc(struct net *n, size_t bytes, struct cg_mem *mem)
{
	if (n->n_buffers == BUFFERS)
		return cg_fail(CG_NO_MEMORY, "%d buffers", BUFFERS + 1);
	CG_TRY(cg_alloc(n->context, bytes, mem));
	n->buffers[n->n_buffers++] = *mem;
	return n->context->backend->zero(n->stream->queue, *mem, bytes);
}

/* Allocates memory on the device and fills it with random numbers. */
static int alloc_noise(struct net *n, size_t bytes, struct cg_mem *mem)
{
	void *noise = malloc(bytes);
	int code;

	if (!noise)
		return cg_fail(CG_NO_MEMORY, "%zu bytes", bytes);
	gpu_noise(noise, bytes / cg_dtype_bytes(n->config.dtype), n->config.dtype, &n->noise);
	code = alloc(n, bytes, mem);
	if (!code)
		code = cg_put(n->stream, *mem, noise, bytes);
	free(noise);
	return code;
}

static int describe_data(const struct net *n, int width, struct cudnnRNNDataStruct **data)
{
	int lengths[ROWS_MAX];

	for (int b = 0; b < n->size.B; b++)
		lengths[b] = n->size.T;
	CUDNN_TRY(CreateRNNDataDescriptor, data);
	CUDNN_TRY(SetRNNDataDescriptor, *data, type_of(n->config.dtype), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, n->size.T, n->size.B, width,
	          lengths, NULL);
	return CG_OK;
}

static int describe_state(const struct net *n, struct cudnnTensorStruct **tensor)
{
	int dims[] = { n->size.layers * n->size.directions, n->size.B, n->size.U }, strides[] = { n->size.B * n->size.U, n->size.U, 1 };

	CUDNN_TRY(CreateTensorDescriptor, tensor);
	CUDNN_TRY(SetTensorNdDescriptor, *tensor, type_of(n->config.dtype), 3, dims, strides);
	return CG_OK;
}

/* Makes the device's copy of the lengths, for versions of cuDNN that need one. */
static int send_lengths(struct net *n)
{
	int32_t lengths[ROWS_MAX];

	for (int b = 0; b < n->size.B; b++)
		lengths[b] = n->size.T;
	CG_TRY(alloc(n, (size_t)n->size.B * sizeof *lengths, &n->bare.lengths));
	return cg_put(n->stream, n->bare.lengths, lengths, (size_t)n->size.B * sizeof *lengths);
}

int net_open_bare(struct net *n, unsigned algorithm)
{
	struct bare *b = &n->bare;
	const struct size *s = &n->size;
	unsigned type = type_of(n->config.dtype), precision = n->config.dtype == CG_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
	unsigned math = n->config.dtype == CG_F32 ? CUDNN_FMA_MATH : n->config.dtype == CG_F64 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;

	CUDNN_TRY(Create, &b->handle);
	CUDNN_TRY(SetStream, b->handle, n->stream->queue->stream);
	CUDNN_TRY(CreateDropoutDescriptor, &b->dropout);
	CUDNN_TRY(SetDropoutDescriptor, b->dropout, b->handle, 0, NULL, 0, 0);
	CUDNN_TRY(CreateRNNDescriptor, &b->rnn);
	CUDNN_TRY(SetRNNDescriptor_v8, b->rnn, algorithm, net_cells[n->cell].mode, CUDNN_RNN_DOUBLE_BIAS,
	          n->size.directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
	          CUDNN_LINEAR_INPUT, type, precision, math, s->I, s->U, s->U, s->layers, b->dropout, CUDNN_RNN_PADDED_IO_ENABLED);
	CG_TRY(describe_data(n, s->I, &b->x));
	CG_TRY(describe_data(n, n->size.directions * s->U, &b->y));
	CG_TRY(describe_state(n, &b->h));
	CG_TRY(describe_state(n, &b->c));
	CUDNN_TRY(GetRNNWeightSpaceSize, b->handle, b->rnn, &b->weight_bytes);
	CUDNN_TRY(GetRNNTempSpaceSizes, b->handle, b->rnn, CUDNN_FWD_MODE_TRAINING, b->x, &b->work_bytes, &b->reserve_bytes);
	CG_TRY(alloc_noise(n, b->weight_bytes, &b->weights));
	CG_TRY(alloc(n, b->weight_bytes, &b->dweights));
	CG_TRY(alloc(n, b->work_bytes, &b->work));
	CG_TRY(alloc(n, b->reserve_bytes, &b->reserve));
	return send_lengths(n);
}

int net_forward_bare(struct net *n)
{
	const struct cg_rnn_call *c = &n->call;
	struct bare *b = &n->bare;

	CUDNN_TRY(RNNForward, b->handle, b->rnn, CUDNN_FWD_MODE_TRAINING, at(b->lengths), b->x, at(c->input), b->y, at(c->output), b->h,
	          at(c->input_h), at(c->output_h), b->c, at(c->input_c), at(c->output_c), b->weight_bytes, at(b->weights), b->work_bytes,
	          at(b->work), b->reserve_bytes, at(b->reserve));
	return CG_OK;
}

int net_step_bare(struct net *n)
{
	const struct cg_rnn_call *c = &n->call;
	struct bare *b = &n->bare;

	CG_TRY(net_forward_bare(n));
	CUDNN_TRY(RNNBackwardData_v8, b->handle, b->rnn, at(b->lengths), b->y, at(c->output), at(c->output_backprop), b->x,
	          at(c->input_backprop), b->h, at(c->input_h), NULL, at(c->input_h_backprop), b->c, at(c->input_c), NULL,
	          at(c->input_c_backprop), b->weight_bytes, at(b->weights), b->work_bytes, at(b->work), b->reserve_bytes, at(b->reserve));
	CUDNN_TRY(RNNBackwardWeights_v8, b->handle, b->rnn, CUDNN_WGRAD_MODE_ADD, at(b->lengths), b->x, at(c->input), b->h, at(c->input_h),
	          b->y, at(c->output), b->weight_bytes, at(b->dweights), b->work_bytes, at(b->work), b->reserve_bytes, at(b->reserve));
	return CG_OK;
}

void net_close_bare(struct bare *b)
{
	if (b->x)
		cg_cudnn.DestroyRNNDataDescriptor(b->x);
	if (b->y)
		cg_cudnn.DestroyRNNDataDescriptor(b->y);
	if (b->h)
		cg_cudnn.DestroyTensorDescriptor(b->h);
	if (b->c)
		cg_cudnn.DestroyTensorDescriptor(b->c);
	if (b->rnn)
		cg_cudnn.DestroyRNNDescriptor(b->rnn);
	if (b->dropout)
		cg_cudnn.DestroyDropoutDescriptor(b->dropout);
	if (b->handle)
		cg_cudnn.Destroy(b->handle);
}

/* ---- the library ---- */

/* To find the algorithm that the library's plan takes, see_set() records the algorithm of each descriptor that is set, and see_forward()
   finds the one that runs. really: cuDNN's own functions. */
static struct cg_cudnn really;
static struct { struct cudnnRNNStruct *rnn; unsigned algorithm; } set[BUFFERS];
static unsigned n_set;
unsigned net_algorithm;

static unsigned see_set(struct cudnnRNNStruct *rnn, unsigned algorithm, unsigned cell, unsigned bias, unsigned direction, unsigned input,
                        unsigned type, unsigned precision, unsigned math, int32_t input_size, int32_t hidden_size,
                        int32_t projection_size, int32_t layers, struct cudnnDropoutStruct *dropout, uint32_t flags)
{
	set[n_set % BUFFERS].rnn = rnn;
	set[n_set++ % BUFFERS].algorithm = algorithm;
	return really.SetRNNDescriptor_v8(rnn, algorithm, cell, bias, direction, input, type, precision, math, input_size, hidden_size,
	                                  projection_size, layers, dropout, flags);
}

static unsigned see_forward(struct cudnnContext *handle, struct cudnnRNNStruct *rnn, unsigned mode, const int32_t *lengths,
                            struct cudnnRNNDataStruct *x_data, const void *x, struct cudnnRNNDataStruct *y_data, void *y,
                            struct cudnnTensorStruct *h, const void *hx, void *hy, struct cudnnTensorStruct *c, const void *cx,
                            void *cy, size_t weight_bytes, const void *weights, size_t work_bytes, void *work,
                            size_t reserve_bytes, void *reserve)
{
	for (unsigned k = 0; k < BUFFERS && k < n_set; k++)
		if (set[k].rnn == rnn)
			net_algorithm = set[k].algorithm;
	return really.RNNForward(handle, rnn, mode, lengths, x_data, x, y_data, y, h, hx, hy, c, cx, cy, weight_bytes, weights, work_bytes,
	                         work, reserve_bytes, reserve);
}

/* Watches the calls of cuDNN that set an algorithm and run forward; main() has filled the table of calls before. */
static void look(void)
{
	really = cg_cudnn;
	cg_cudnn.SetRNNDescriptor_v8 = see_set;
	cg_cudnn.RNNForward = see_forward;
	n_set = 0;
}

static void look_away(void)
{
	cg_cudnn = really;
}

int net_open_ours(struct net *n)
{
	const struct size *s = &n->size;
	size_t each = cg_dtype_bytes(n->config.dtype), rows = (size_t)s->T * (size_t)s->B;
	size_t wide = (size_t)n->size.directions * (size_t)s->U, states = (size_t)s->layers * wide * (size_t)s->B;
	struct cg_rnn_call *c = &n->call;
	struct cg_rnn_sizes sizes;
	size_t cs = net_cells[n->cell].has_c ? states : 0;
	const struct { struct cg_mem *mem; size_t elements; int (*alloc)(struct net *, size_t, struct cg_mem *); } all[] = {
		{ &c->input, rows * (size_t)s->I, alloc_noise }, { &c->input_backprop, rows * (size_t)s->I, alloc },
		{ &c->output, rows * wide, alloc }, { &c->output_backprop, rows * wide, alloc_noise },
		{ &c->output_h, states, alloc }, { &c->input_h_backprop, states, alloc }, { &c->output_c, cs, alloc }, { &c->input_c_backprop, cs, alloc },
	};

	for (int b = 0; b < s->B; b++)
		n->lengths[b] = n->ragged ? 1 + (s->T - 1) * b / (s->B > 1 ? s->B - 1 : 1) : s->T;
	CG_TRY(cg_rnn_open(n->context, &n->config, &n->rnn));
	cg_rnn_call_init(c, sizeof *c);
	c->T = s->T;
	c->B = s->B;
	c->lengths = n->ragged ? n->lengths : NULL;
	c->spend_reserve = 1;
	c->accumulate = 1;
	CG_TRY(cg_rnn_sizes(n->rnn, s->T, s->B, c->lengths, &sizes));
	for (size_t k = 0; k < sizeof all / sizeof *all; k++)
		if (all[k].elements)
			CG_TRY(all[k].alloc(n, all[k].elements * each, all[k].mem));
	CG_TRY(alloc_noise(n, sizes.params, &c->params));
	CG_TRY(alloc(n, sizes.params, &c->params_backprop));
	CG_TRY(alloc(n, sizes.reserve, &c->reserve));
	return alloc(n, sizes.work, &c->work);
}

int net_step_ours(struct net *n)
{
	CG_TRY(cg_rnn_forward(n->stream, n->rnn, &n->call));
	return cg_rnn_backward(n->stream, n->rnn, &n->call);
}

int net_try_ours(struct net *n)
{
	int code;

	look();
	code = net_open_ours(n);
	if (!code)
		code = net_step_ours(n);
	look_away();
	return code;
}
