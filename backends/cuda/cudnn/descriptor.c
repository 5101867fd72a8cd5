/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes cuDNN's descriptors of a network or one of its layers, and of dropout.
 */
#include "backends/cuda/cudnn/cudnn.h"

static unsigned precision(const struct cg_network *rnn)
{
	return rnn->dtype == CG_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/* Tensor cores sum products of f16 and bf16 elements in f32.  Products of f32 use tensor cores only if TF32 is allowed. */
static unsigned math(const struct cg_network *rnn)
{
	if (rnn->dtype == CG_F32)
		return rnn->allow_tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
	return rnn->dtype == CG_F64 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
}

static int set(const struct cg_net *net, const struct cg_dnn_segment *segment, unsigned algorithm, struct cudnnDropoutStruct *dropout,
               struct cudnnRNNStruct *descriptor)
{
	const struct cg_network *rnn = net->rnn;

	CUDNN_TRY(SetRNNDescriptor_v8, descriptor, algorithm, net->cell, CUDNN_RNN_DOUBLE_BIAS,
	          rnn->directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
	          segment->skip ? CUDNN_SKIP_INPUT : CUDNN_LINEAR_INPUT, net->type, precision(rnn), math(rnn), (int32_t)segment->width,
	          (int32_t)rnn->U, (int32_t)rnn->H, segment->layers, dropout, CUDNN_RNN_PADDED_IO_ENABLED);
	return CG_OK;
}

int cg_dnn_describe(const struct cg_net *net, const struct cg_dnn_segment *segment, unsigned algorithm,
                    struct cudnnDropoutStruct *dropout, struct cudnnRNNStruct **result)
{
	struct cudnnRNNStruct *descriptor;
	int code;

	CUDNN_TRY(CreateRNNDescriptor, &descriptor);
	code = set(net, segment, algorithm, dropout, descriptor);
	if (code)
		cg_cudnn.DestroyRNNDescriptor(descriptor);
	else
		*result = descriptor;
	return code;
}

int cg_dnn_make_dropout(const struct cg_net *net, struct cudnnContext *handle, struct cg_queue *queue, CUdeviceptr *generator,
                        struct cudnnDropoutStruct **dropout)
{
	size_t bytes = 0;

	CUDNN_TRY(CreateDropoutDescriptor, dropout);
	if (net->vendor_dropout) {
		CUDNN_TRY(DropoutGetStatesSize, handle, &bytes);
		CG_TRY(cg_cu_alloc(net->device, queue, bytes, generator));
	}
	CUDNN_TRY(SetDropoutDescriptor, *dropout, handle, net->vendor_dropout ? (float)net->rnn->dropout : 0,
	          (void *)(uintptr_t)*generator, bytes, net->rnn->seed);
	if (net->vendor_dropout && !queue)
		CU_TRY(net->device, StreamSynchronize, net->device->dnn_stream);
	return CG_OK;
}
