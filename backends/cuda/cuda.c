/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda backend, for NVIDIA's devices by the driver API.  The generator prints the backend's kernels and NVRTC compiles them; cuBLAS, if
 * it is found, computes the products that gemm_route.c gives it.  Launches and products do not wait for the device; copies from or to
 * pageable host memory, and freeing memory, may.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

/* ---- which device ---- */

/* Initializes the driver; fails in a process that was forked after CUDA was used, since such a child cannot use CUDA. */
static int begin(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int begun, forks;
	int code, child;

	CG_TRY(cg_cuda_load(CG_CUDA_DRIVER));
	pthread_mutex_lock(&lock);
	child = begun && forks != cg_fork_count();
	pthread_mutex_unlock(&lock);
	if (child)
		return cg_fail(CG_NO_DEVICE, "a process that had used CUDA forked this process: until this process runs another program (exec), "
		               "it cannot use CUDA");
	code = cg_cu_error(cg_cu.Init(0), "cuInit");
	if (code)
		return cg_fail_in(code, "%s", cg_cuda_path(CG_CUDA_DRIVER));
	pthread_mutex_lock(&lock);
	forks = cg_fork_count();
	begun = 1;
	pthread_mutex_unlock(&lock);
	return CG_OK;
}

static int count(int *n)
{
	char visible[CG_CU_VISIBLE];

	*n = 0;
	CG_TRY(begin());
	CG_TRY(cg_cu_error(cg_cu.DeviceGetCount(n), "cuDeviceGetCount"));
	return *n ? CG_OK : cg_fail(CG_NO_DEVICE, "no CUDA device: cuDeviceGetCount of %s counts 0 devices%s", cg_cuda_path(CG_CUDA_DRIVER),
	                            cg_cu_visible(visible));
}

/* Chooses a device by its number, such as "0"; NULL: the first device. */
static int choose(const char *where, int *id)
{
	char rest, visible[CG_CU_VISIBLE];
	int n, i = 0;

	if (where && (sscanf(where, "%5d%c", &i, &rest) != 1 || i < 0 || strspn(where, "0123456789") != strlen(where)))
		return cg_fail(CG_BAD_ARGUMENT, "expected a device number such as 0, got '%.40s'", where);
	CG_TRY(count(&n));
	if (i >= n)
		return cg_fail(CG_NO_DEVICE, "there is no device %d: expected 0 to %d%s", i, n - 1, cg_cu_visible(visible));
	return cg_cu_error(cg_cu.DeviceGet(id, i), "cuDeviceGet");
}

/* The path of a library, or the reason why it is not loaded, for the description of a device. */
static const char *where_is(int library)
{
	return cg_cuda_load(library) ? cg_message() : cg_cuda_path(library);
}

static void list_cudnn(char *about, size_t bytes)
{
	if (cg_cuda_load(CG_CUDA_CUDNN))
		snprintf(about, bytes, "; networks: %s", cg_message());
	else
		snprintf(about, bytes, "; networks: cuDNN %d.%d.%d, %s", CUDNN_PARTS(cg_cudnn_version()), cg_cuda_path(CG_CUDA_CUDNN));
}

/* Appends the device's UUID, as "; MIG-0001..." or "; GPU-0001...", in the form that CUDA_VISIBLE_DEVICES takes.  If the device is a part
 * of a GPU, the driver gives the part's UUID, and the device's name contains MIG. */
static size_t list_uuid(int id, const char *name, char *about, size_t bytes)
{
	struct CUuuid_st uuid;
	char text[40];
	int used = 0;

	if (!cg_cu.DeviceGetUuid_v2 || cg_cu.DeviceGetUuid_v2(&uuid, id))
		return 0;
	for (int k = 0; k < 16; k++)
		used += snprintf(text + used, sizeof text - (size_t)used, "%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "",
		                 (unsigned char)uuid.bytes[k]);
	return (size_t)snprintf(about, bytes, "; %s-%s", strstr(name, " MIG ") ? "MIG" : "GPU", text);
}

/* Appends the device's compute mode if that mode does not let every process compute. */
static size_t list_mode(int id, char *about, size_t bytes)
{
	int mode = 0;

	if (cg_cu.DeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, id))
		return 0;
	if (mode == CU_COMPUTEMODE_PROHIBITED)
		return (size_t)snprintf(about, bytes, "; its compute mode allows no process");
	return mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS ? (size_t)snprintf(about, bytes, "; its compute mode allows one process at a time") : 0;
}

static const char *list(int i, char *about, size_t bytes)
{
	static _Thread_local char number[16];
	char name[256] = "";
	size_t used;
	int n, id = 0;

	if (count(&n)) {
		if (i)
			return NULL;
		snprintf(about, bytes, "%s", cg_message());
		return "";
	}
	if (i >= n)
		return NULL;
	if (!cg_cu.DeviceGet(&id, i))
		cg_cu.DeviceGetName(name, sizeof name, id);
	used = (size_t)snprintf(about, bytes, "%s", name);
	used += list_uuid(id, name, about + used, bytes - used);
	used += list_mode(id, about + used, bytes - used);
	used += (size_t)snprintf(about + used, bytes - used, "; kernels: %s", where_is(CG_CUDA_NVRTC));
	if (used < bytes)
		used += (size_t)snprintf(about + used, bytes - used, "; products: %s", where_is(CG_CUDA_CUBLAS));
	if (used < bytes)
		list_cudnn(about + used, bytes - used);
	snprintf(number, sizeof number, "%d", i);
	return number;
}

static void free_device(struct cg_dev *device)
{
	pthread_mutex_destroy(device->lock);
	cg_memory(device->lock, 0);
	cg_memory(device, 0);
}

static void close_device(struct cg_dev *device)
{
	cg_cu_release_moves(device);
	if (device->dnn && !cg_cu_enter_anyway(device)) {
		cg_cu_release_queries(device);
		cg_cu_leave(device, CG_OK);
	}
	if (device->context && !device->adopted)
		cg_cu.DevicePrimaryCtxRelease_v2(device->id);
	free_device(device);
}

static int probe(struct cg_dev *device, const char *number)
{
	const struct { unsigned attribute; int *to; } asked[] = {
		{ CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device->units },
		{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &device->group_most },
		{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &device->shared_bytes },
		{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &device->grid_x },
		{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &device->grid_y },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &device->major },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &device->minor },
	};
	char name[256] = "";
	size_t bytes = 0;

	for (size_t k = 0; k < sizeof asked / sizeof *asked; k++)
		CU_TRY(device, DeviceGetAttribute, asked[k].to, asked[k].attribute, device->id);
	/* A driver for a CUDA before 11.2 does not know the attribute for memory pools. */
	if (cg_cu.DeviceGetAttribute(&device->pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device->id))
		device->pools = 0;
	cg_cu.DeviceGetName(name, sizeof name, device->id);
	cg_cu.DeviceTotalMem_v2(&bytes, device->id);
	snprintf(device->about, sizeof device->about, "cuda %s: %s, sm_%d%d, %zu MiB; driver for CUDA %d.%d by %.300s", number, name,
	         device->major, device->minor, bytes >> 20, cg_cuda_version() / 1000, cg_cuda_version() % 1000 / 10,
	         cg_cuda_path(CG_CUDA_DRIVER));
	return CG_OK;
}

static int make_device(int id, struct CUctx_st *adopted, const char *number, struct cg_dev **result)
{
	struct cg_dev *device = cg_memory(NULL, sizeof *device);
	pthread_mutex_t *lock = cg_memory(NULL, sizeof *lock);
	int code = CG_OK;

	if (!device || !lock) {
		cg_memory(device, 0);
		cg_memory(lock, 0);
		return CG_NO_MEMORY;
	}
	memset(device, 0, sizeof *device);
	pthread_mutex_init(lock, NULL);
	*device = (struct cg_dev){ .id = id, .context = adopted, .adopted = adopted != NULL, .lock = lock };
	if (!adopted)
		code = cg_cu_check(device, cg_cu.DevicePrimaryCtxRetain(&device->context, id), "cuDevicePrimaryCtxRetain");
	if (!code)
		code = probe(device, number);
	if (code)
		close_device(device);
	else
		*result = device;
	return code;
}

/* Opens a device.  If no backend is named, `where` is "ready": the first device, if NVRTC can be loaded. */
static int open_device(const char *where, struct cg_dev **result)
{
	int ready = where && !strcmp(where, "ready"), id;
	char number[16];

	CG_TRY(choose(ready ? NULL : where, &id));
	CG_TRY(cg_cuda_check_named());
	if (ready)
		CG_TRY(cg_cuda_load(CG_CUDA_NVRTC) ? CG_NO_DEVICE : CG_OK);
	snprintf(number, sizeof number, "%d", id);
	return make_device(id, NULL, number, result);
}

/* Adopts a caller's CUcontext, which has one device. */
static int adopt(void *native, void *device, struct cg_dev **result)
{
	struct CUctx_st *ours;
	unsigned code;
	int id;

	if (device)
		return cg_fail(CG_BAD_ARGUMENT, "cg_adopt: device: expected NULL: a CUcontext has one device");
	CG_TRY(begin());
	CG_TRY(cg_cuda_check_named());
	CG_TRY(cg_cu_error(cg_cu.CtxPushCurrent_v2(native), "cuCtxPushCurrent_v2"));
	code = cg_cu.CtxGetDevice(&id);
	cg_cu.CtxPopCurrent_v2(&ours);
	CG_TRY(cg_cu_error(code, "cuCtxGetDevice"));
	return make_device(id, native, "the caller's", result);
}

static const char *describe(const struct cg_dev *device)
{
	return device->about;
}

static int supports(const struct cg_dev *device, int dtype)
{
	(void)device;
	(void)dtype;
	return CG_OK;
}

static struct cg_gemm_limits limits(const struct cg_dev *device, int dtype)
{
	(void)dtype;
	return (struct cg_gemm_limits){
		.units = device->units, .group = device->group_most, .local_bytes = (size_t)device->shared_bytes, .fma = 1
	};
}

/* ---- queues ---- */

static int adopt_stream(struct cg_queue *queue, void *native)
{
	struct CUctx_st *context = NULL;

	if (!native) {
		CU_TRY(queue->device, StreamCreate, &queue->stream, CU_STREAM_NON_BLOCKING);
		return CG_OK;
	}
	CU_TRY(queue->device, StreamGetCtx, native, &context);
	if (context != queue->device->context)
		return cg_fail(CG_BAD_ARGUMENT, "cg_stream_open: native: the stream belongs to another CUcontext; adopt that context with cg_adopt");
	queue->stream = native;
	queue->adopted = 1;
	return CG_OK;
}

static int make_stream(struct cg_queue *queue, void *native)
{
	CU_INSIDE(queue->device, adopt_stream(queue, native));
}

/* Frees a queue that may be incomplete, since leaving the CUDA context may be what failed when the queue was made. */
static void free_queue(struct cg_queue *queue)
{
	if (queue->stream && !cg_cu_enter_anyway(queue->device)) {
		cg_cu_release_dnn(queue);
		cg_cu_release_blas(queue);
		cg_cu_finish(queue);
		if (!queue->adopted)
			cg_cu.StreamDestroy_v2(queue->stream);
		cg_cu_leave(queue->device, CG_OK);
	}
	cg_memory(queue, 0);
}

static int start(struct cg_dev *device, void *native, struct cg_queue **result)
{
	struct cg_queue *queue = cg_memory(NULL, sizeof *queue);
	int code;

	if (!queue)
		return CG_NO_MEMORY;
	*queue = (struct cg_queue){ .device = device };
	code = make_stream(queue, native);
	if (code) {
		free_queue(queue);
		return code;
	}
	pthread_mutex_lock(device->lock);
	queue->next = device->queues;
	device->queues = queue;
	pthread_mutex_unlock(device->lock);
	*result = queue;
	return CG_OK;
}

static int wait(struct cg_queue *queue)
{
	CG_TRY(cg_cu_check_uncaptured(queue, "a wait"));
	CU_TRY(queue->device, StreamSynchronize, queue->stream);
	return CG_OK;
}

static int sync_queue(struct cg_queue *queue)
{
	CU_INSIDE(queue->device, wait(queue));
}

static void stop(struct cg_queue *queue)
{
	struct cg_dev *device = queue->device;
	struct cg_queue **at = &device->queues;

	pthread_mutex_lock(device->lock);
	while (*at != queue)
		at = &(*at)->next;
	*at = queue->next;
	pthread_mutex_unlock(device->lock);
	free_queue(queue);
}

/* ---- memory ---- */

static int alloc_inside(struct cg_dev *device, struct cg_queue *queue, size_t bytes, CUdeviceptr *at)
{
	if (!queue)
		CG_TRY(cg_cu_check_all_uncaptured(device, "an allocation"));
	return cg_cu_alloc(device, queue, bytes, at);
}

static int alloc_at(struct cg_dev *device, struct cg_queue *queue, size_t bytes, CUdeviceptr *at)
{
	CU_INSIDE(device, alloc_inside(device, queue, bytes, at));
}

static void free_mem(struct cg_dev *device, struct cg_queue *queue, struct cg_mem *mem)
{
	if (!mem->data || cg_cu_enter_anyway(device))
		return;
	cg_cu_free(device, queue, (CUdeviceptr)(uintptr_t)mem->data);
	cg_cu_leave(device, CG_OK);
}

static int alloc(struct cg_dev *device, struct cg_queue *queue, size_t bytes, struct cg_mem *mem)
{
	CUdeviceptr at = 0;
	int code = alloc_at(device, queue, bytes, &at);
	struct cg_mem made = { (void *)(uintptr_t)at, 0, bytes, CG_DEVICE };

	if (code)
		free_mem(device, queue, &made);
	else
		*mem = made;
	return code;
}

/* Checks that the device can use the memory at an address.  Memory of a pool, or memory that the caller mapped, belongs to no CUDA context:
 * every context of the memory's device can use it. */
static int check_owner(struct cg_dev *device, CUdeviceptr at, struct CUctx_st **context)
{
	unsigned code = cg_cu.PointerGetAttribute(context, CU_POINTER_ATTRIBUTE_CONTEXT, at);
	int id;

	if (code && code != CUDA_ERROR_INVALID_VALUE)
		return cg_cu_check(device, code, "cuPointerGetAttribute");
	if (code)
		*context = NULL;
	if (*context == device->context)
		return CG_OK;
	if (*context)
		return cg_fail(CG_BAD_ARGUMENT, "the memory belongs to another CUcontext than the stream");
	code = cg_cu.PointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
	if (code == CUDA_ERROR_INVALID_VALUE)
		return cg_fail(CG_BAD_ARGUMENT, "expected memory of the device, got an address that the driver does not know");
	CG_TRY(cg_cu_check(device, code, "cuPointerGetAttribute"));
	return id == device->id ? CG_OK : cg_fail(CG_BAD_ARGUMENT, "the memory belongs to device %d, the stream to device %d", id, device->id);
}

/* Checks that the device can use memory and that the memory is large enough.  Mapped memory may consist of pieces, each beginning where the
 * one before it ends. */
static int check_memory(struct cg_dev *device, struct cg_mem mem)
{
	CUdeviceptr at = cg_cu_address(mem), from = at, base = 0;
	struct CUctx_st *context;
	size_t bytes = 0;
	unsigned code;

	CG_TRY(check_owner(device, at, &context));
	do {
		code = cg_cu.MemGetAddressRange_v2(&base, &bytes, from);
		if (code && code != CUDA_ERROR_INVALID_VALUE && code != CUDA_ERROR_NOT_FOUND)
			return cg_cu_check(device, code, "cuMemGetAddressRange_v2");
		if (code || base + bytes <= from)
			break;
		from = base + bytes;
	} while (from - at < mem.bytes && !context);
	if (from - at >= mem.bytes)
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "expected memory of at least %zu bytes from its first element on, got %llu bytes", mem.bytes,
	               (unsigned long long)(from - at));
}

static int check(struct cg_dev *device, struct cg_mem mem)
{
	CU_INSIDE(device, check_memory(device, mem));
}

static int enqueue_copy_in(struct cg_queue *queue, CUdeviceptr to, const void *from, size_t bytes)
{
	CG_TRY(cg_cu_check_uncaptured(queue, "a copy from the host's memory"));
	CU_TRY(queue->device, MemcpyHtoDAsync_v2, to, from, bytes, queue->stream);
	return CG_OK;
}

static int copy_in(struct cg_queue *queue, struct cg_mem to, const void *from, size_t bytes)
{
	CU_INSIDE(queue->device, enqueue_copy_in(queue, cg_cu_address(to), from, bytes));
}

static int enqueue_copy_out(struct cg_queue *queue, void *to, CUdeviceptr from, size_t bytes)
{
	CG_TRY(cg_cu_check_uncaptured(queue, "a copy to the host's memory"));
	CU_TRY(queue->device, MemcpyDtoHAsync_v2, to, from, bytes, queue->stream);
	return CG_OK;
}

static int copy_out(struct cg_queue *queue, void *to, struct cg_mem from, size_t bytes)
{
	CU_INSIDE(queue->device, enqueue_copy_out(queue, to, cg_cu_address(from), bytes));
}

static int fill(struct cg_queue *queue, CUdeviceptr at, size_t bytes)
{
	CU_TRY(queue->device, MemsetD8Async, at, 0, bytes, queue->stream);
	return CG_OK;
}

static int zero(struct cg_queue *queue, struct cg_mem mem, size_t bytes)
{
	CU_INSIDE(queue->device, fill(queue, cg_cu_address(mem), bytes));
}

static int copy_within(struct cg_queue *queue, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	CU_TRY(queue->device, MemcpyDtoDAsync_v2, to, from, bytes, queue->stream);
	return CG_OK;
}

static int copy(struct cg_queue *queue, struct cg_mem to, struct cg_mem from, size_t bytes)
{
	CU_INSIDE(queue->device, copy_within(queue, cg_cu_address(to), cg_cu_address(from), bytes));
}

extern const struct cg_backend cg_backend_cuda;
const struct cg_backend cg_backend_cuda = {
	.name = "cuda", .unasked = "ready", .seconds = 1,
	.list = list, .open = open_device, .adopt = adopt, .close = close_device, .describe = describe, .supports = supports,
	.start = start, .sync = sync_queue, .stop = stop,
	.alloc = alloc, .free = free_mem, .check = check, .copy_in = copy_in, .copy_out = copy_out, .zero = zero, .copy = copy,
	.build = cg_cu_build, .release = cg_cu_release, .launch = cg_cu_launch, .loop_steps = cg_cu_loop_steps, .gemm = cg_cu_gemm, .limits = limits,
	.net = &cg_cu_net,
};
