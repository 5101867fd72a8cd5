/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles the device's CUDA context: makes it current for every call and restores the caller's context afterwards; records the loss of a
 * context, after which every driver call in that context fails; and allocates memory in the order of a queue's work, where the driver can.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/cuda.h"

/* The driver's errors after which no call in the CUDA context works any more. */
static const unsigned fatal[] = {
	CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_CONTAINED, CUDA_ERROR_ILLEGAL_ADDRESS,
	CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT, CUDA_ERROR_HARDWARE_STACK_ERROR,
	CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC,
	CUDA_ERROR_LAUNCH_FAILED,
};

enum { WHOLE, BEING_LOST, LOST };

/* Records the error that lost the CUDA context, which the messages of later calls report. */
static void mark_lost(struct cg_dev *device)
{
	int whole = WHOLE;

	if (!__atomic_compare_exchange_n(&device->lost, &whole, BEING_LOST, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	snprintf(device->lost_words, sizeof device->lost_words, "%.500s", cg_message());
	__atomic_store_n(&device->lost, LOST, __ATOMIC_RELEASE);
}

int cg_cu_check(struct cg_dev *device, unsigned code, const char *call)
{
	int ours = cg_cu_error(code, call);

	for (size_t k = 0; k < sizeof fatal / sizeof *fatal && ours; k++)
		if (code == fatal[k])
			mark_lost(device);
	return ours;
}

int cg_cu_enter_anyway(struct cg_dev *device)
{
	return cg_cu.CtxPushCurrent_v2(device->context) ? CG_DRIVER : CG_OK;
}

int cg_cu_enter(struct cg_dev *device)
{
	if (__atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) == LOST)
		return cg_fail(CG_DRIVER, "an earlier failure has made the context unusable: %s", device->lost_words);
	CU_TRY(device, CtxPushCurrent_v2, device->context);
	return CG_OK;
}

int cg_cu_leave(struct cg_dev *device, int code)
{
	struct CUctx_st *ours;
	unsigned error = cg_cu.CtxPopCurrent_v2(&ours);

	return code || !error ? code : cg_cu_check(device, error, "cuCtxPopCurrent_v2");
}

/* ---- capture ---- */

/* Only an adopted stream can be captured, since no program knows the streams that the library made itself. */
static int is_capturing(struct cg_queue *queue, unsigned *status)
{
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (queue->adopted)
		CU_TRY(queue->device, StreamIsCapturing, queue->stream, status);
	return CG_OK;
}

int cg_cu_check_uncaptured(struct cg_queue *queue, const char *what)
{
	unsigned status;

	CG_TRY(is_capturing(queue, &status));
	if (status == CU_STREAM_CAPTURE_STATUS_NONE)
		return CG_OK;
	return cg_fail(CG_UNSUPPORTED, "cuda: the stream is being captured: %s is not allowed; before the capture, make "
	               "each call that computes once, with device memory alone and a workspace of the caller's", what);
}

int cg_cu_check_none_captured(struct cg_dev *device, const char *what)
{
	unsigned status;

	for (struct cg_queue *q = device->queues; q; q = q->next) {
		CG_TRY(is_capturing(q, &status));
		if (status != CU_STREAM_CAPTURE_STATUS_NONE)
			return cg_fail(CG_UNSUPPORTED, "cuda: a stream of the context is being captured: this call is not allowed, even on another "
			               "stream, since %s could invalidate the capture", what);
	}
	return CG_OK;
}

int cg_cu_check_all_uncaptured(struct cg_dev *device, const char *what)
{
	int code;

	pthread_mutex_lock(device->lock);
	code = cg_cu_check_none_captured(device, what);
	pthread_mutex_unlock(device->lock);
	return code;
}

/* ---- memory ---- */

static int in_order(const struct cg_dev *device, const struct cg_queue *queue)
{
	return queue && device->pools && cg_cu.MemAllocAsync && cg_cu.MemFreeAsync;
}

static int alloc_inside(struct cg_dev *device, struct cg_queue *queue, size_t bytes, CUdeviceptr *at)
{
	if (queue)
		CG_TRY(cg_cu_check_uncaptured(queue, "an allocation"));
	if (!in_order(device, queue)) {
		if (queue)
			CG_TRY(cg_cu_check_all_uncaptured(device, "an allocation"));
		CU_TRY(device, MemAlloc_v2, at, bytes);
		return CG_OK;
	}
	CU_TRY(device, MemAllocAsync, at, bytes, queue->stream);
	return CG_OK;
}

int cg_cu_alloc(struct cg_dev *device, struct cg_queue *queue, size_t bytes, CUdeviceptr *at)
{
	int code = alloc_inside(device, queue, bytes, at);

	return code ? cg_fail_in(code, "%zu bytes", bytes) : CG_OK;
}

void cg_cu_finish(struct cg_queue *queue)
{
	unsigned status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (!(queue->adopted && cg_cu.StreamIsCapturing(queue->stream, &status)) && status == CU_STREAM_CAPTURE_STATUS_NONE)
		cg_cu.StreamSynchronize(queue->stream);
}

/* Waits for the work of all queues whose streams are not being captured.  Called before memory is freed: enqueued work may use that memory,
 * and cuMemFree does not always wait for such work. */
static void finish_all(struct cg_dev *device)
{
	pthread_mutex_lock(device->lock);
	for (struct cg_queue *q = device->queues; q; q = q->next)
		cg_cu_finish(q);
	pthread_mutex_unlock(device->lock);
}

void cg_cu_free(struct cg_dev *device, struct cg_queue *queue, CUdeviceptr at)
{
	if (in_order(device, queue)) {
		cg_cu.MemFreeAsync(at, queue->stream);
	} else {
		finish_all(device);
		cg_cu.MemFree_v2(at);
	}
}
