/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The opencl backend, for any device with a driver for OpenCL 1.2.  The generator prints the backend's kernels and tiled products.  Queues
 * are in order, and launches and copies do not wait for the device.
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

enum { PLATFORMS = 16, DEVICES = 32 };

/* ---- which device ---- */

struct found { struct _cl_platform_id *platform; struct _cl_device_id *id; int p, d; uint64_t type; };

/* Lists at most `most` devices of the first PLATFORMS platforms.  `why` receives the errors of platforms that fail; these count as
 * platforms without devices. */
static int find_devices(struct found *found, int most, int *n, char *why, size_t bytes)
{
	struct _cl_platform_id *platforms[PLATFORMS];
	uint32_t n_platforms = 0;
	size_t used = 0;
	int32_t code;

	*n = 0;
	why[0] = 0;
	CG_TRY(cg_cl_load());
	code = cg_cl.GetPlatformIDs(PLATFORMS, platforms, &n_platforms);
	if (code || !n_platforms)
		return cg_fail(CG_NO_DEVICE, "no OpenCL driver: clGetPlatformIDs of %s: %s; drivers are listed in /etc/OpenCL/vendors by "
		               "default; PoCL (pocl-opencl-icd) is a driver for CPUs", cg_cl_path(),
		               code ? cg_cl_error(code) : "no platform");
	if (n_platforms > PLATFORMS)
		n_platforms = PLATFORMS;
	for (uint32_t p = 0; p < n_platforms; p++) {
		struct _cl_device_id *ids[DEVICES];
		uint32_t n_ids = 0;

		code = cg_cl.GetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, DEVICES, ids, &n_ids);
		if (code || !n_ids) {
			if (used < bytes)
				used += (size_t)snprintf(why + used, bytes - used, "%splatform %u: clGetDeviceIDs: %s (%d)",
				                         used ? "; " : "", p, code ? cg_cl_error(code) : "no device", (int)code);
			continue;
		}
		if (n_ids > DEVICES)
			n_ids = DEVICES;
		for (uint32_t d = 0; d < n_ids && *n < most; d++) {
			struct found f = { platforms[p], ids[d], (int)p, (int)d, 0 };

			cg_cl.GetDeviceInfo(ids[d], CL_DEVICE_TYPE, sizeof f.type, &f.type, NULL);
			found[(*n)++] = f;
		}
	}
	return *n ? CG_OK : cg_fail(CG_NO_DEVICE, "no OpenCL device: %s", why);
}

/* Chooses a device.  "gpu": the first GPU; "P.D": device D of platform P; NULL: the first GPU, else the first device. */
static int choose(const char *where, struct found *chosen)
{
	struct found found[DEVICES];
	int n, p = 0, d = 0, is_number = where && strcmp(where, "gpu");
	char why[512], rest;

	if (is_number && (sscanf(where, "%5d.%5d%c", &p, &d, &rest) != 2 || p < 0 || d < 0))
		return cg_fail(CG_BAD_ARGUMENT, "expected PLATFORM.DEVICE such as 0.0, or gpu, got '%.40s'", where);
	CG_TRY(find_devices(found, DEVICES, &n, why, sizeof why));
	if (is_number) {
		for (int k = 0; k < n; k++)
			if (found[k].p == p && found[k].d == d) {
				*chosen = found[k];
				return CG_OK;
			}
		return cg_fail(CG_NO_DEVICE, "there is no device %d.%d: the number of devices found is %d, the first is %d.%d, the last is "
		               "%d.%d%s%s", p, d, n, found->p, found->d, found[n - 1].p, found[n - 1].d, *why ? "; " : "", why);
	}
	for (int k = 0; k < n; k++)
		if (found[k].type & CL_DEVICE_TYPE_GPU) {
			*chosen = found[k];
			return CG_OK;
		}
	if (where)
		return cg_fail(CG_NO_DEVICE, "none of the %d OpenCL devices is a GPU; open the first device as opencl, or a device by its "
		               "number, as in opencl:0.0", n);
	*chosen = found[0];
	return CG_OK;
}

static const char *list(int i, char *about, size_t bytes)
{
	static _Thread_local char name[16];
	struct found found[DEVICES];
	char why[512];
	size_t used;
	int n;

	if (find_devices(found, DEVICES, &n, why, sizeof why)) {
		if (i)
			return NULL;
		snprintf(about, bytes, "%s", cg_message());
		return "";
	}
	if (i >= n)
		return NULL;
	snprintf(name, sizeof name, "%d.%d", found[i].p, found[i].d);
	about[0] = 0;
	cg_cl.GetDeviceInfo(found[i].id, CL_DEVICE_NAME, bytes, about, NULL);
	used = strlen(about);
	if (*why && used < bytes)
		snprintf(about + used, bytes - used, "; %s", why);
	return name;
}

static int likely(void)
{
	return cg_cl_is_likely("");
}

static int make_device(const struct found *f, struct cg_dev **result)
{
	struct cg_dev *device = cg_memory(NULL, sizeof *device);
	pthread_mutex_t *lock = cg_memory(NULL, sizeof *lock);

	if (!device || !lock) {
		cg_memory(device, 0);
		cg_memory(lock, 0);
		return CG_NO_MEMORY;
	}
	memset(device, 0, sizeof *device);
	pthread_mutex_init(lock, NULL);
	*device = (struct cg_dev){ .platform = f->platform, .id = f->id, .lock = lock };
	*result = device;
	return CG_OK;
}

static void close_device(struct cg_dev *device)
{
	if (device->context)
		cg_cl.ReleaseContext(device->context);
	pthread_mutex_destroy(device->lock);
	cg_memory(device->lock, 0);
	cg_memory(device, 0);
}

/* Probes a device whose context exists.  If a probe fails, closes the device. */
static int probe(struct cg_dev *device, const char *name, struct cg_dev **result)
{
	int code = cg_cl_probe_device(device, name);

	if (!code)
		code = cg_cl_probe(device);
	if (code)
		close_device(device);
	else
		*result = device;
	return code;
}

static int open_device(const char *where, struct cg_dev **result)
{
	struct cg_dev *device;
	struct found f;
	char name[16];
	int32_t code;

	CG_TRY(choose(where, &f));
	CG_TRY(make_device(&f, &device));
	device->context = cg_cl.CreateContext((const intptr_t[]){ CL_CONTEXT_PLATFORM, (intptr_t)f.platform, 0 }, 1, &f.id, NULL, NULL,
	                                      &code);
	if (!device->context) {
		close_device(device);
		return cg_cl_check(code ? code : CL_OUT_OF_RESOURCES, "clCreateContext");
	}
	snprintf(name, sizeof name, "%d.%d", f.p, f.d);
	return probe(device, name, result);
}

/* Adopts a caller's cl_context and one of its devices; id may be NULL if the cl_context has only one device. */
static int adopt(void *native, void *id, struct cg_dev **result)
{
	struct found f = { .id = id };
	struct cg_dev *device;
	struct _cl_device_id *ids[DEVICES];
	size_t bytes = 0, k = 0;

	CG_TRY(cg_cl_load());
	CG_TRY(cg_cl_check(cg_cl.GetContextInfo(native, CL_CONTEXT_DEVICES, sizeof ids, ids, &bytes), "clGetContextInfo"));
	bytes /= sizeof *ids;
	if (!id && bytes != 1)
		return cg_fail(CG_BAD_ARGUMENT, "cg_adopt: device: expected one of the %zu devices of the cl_context, got NULL", bytes);
	while (id && k < bytes && ids[k] != id)
		k++;
	if (k == bytes)
		return cg_fail(CG_BAD_ARGUMENT, "cg_adopt: device: expected one of the %zu devices of the cl_context, got another", bytes);
	f.id = ids[k];
	CG_TRY(make_device(&f, &device));
	if (cg_cl_check(cg_cl.RetainContext(native), "clRetainContext")) {
		close_device(device);
		return CG_DRIVER;
	}
	device->context = native;
	return probe(device, "the caller's", result);
}

static const char *describe(const struct cg_dev *device)
{
	return device->about;
}

static int supports(const struct cg_dev *device, int dtype)
{
	if (dtype == CG_F64 && !device->config_f64)
		return cg_fail(CG_UNSUPPORTED, "this device has no double precision (cl_khr_fp64); the cpu has it (CELLGRAD_BACKEND=cpu)");
	return CG_OK;
}

static struct cg_gemm_limits limits(const struct cg_dev *device, int dtype)
{
	uint64_t config = dtype == CG_F64 ? device->config_f64 : device->config_f32;

	return (struct cg_gemm_limits){
		.cpu = !device->local && !(device->type & CL_DEVICE_TYPE_GPU), .units = (int)device->units,
		.group = device->group_most > INT_MAX ? INT_MAX : (int)device->group_most, .local_bytes = device->local_bytes,
		.vector_bytes = 4 * (int)device->vector_f32, .fma = (config & CL_FP_FMA) != 0,
	};
}

/* ---- queues and memory ---- */

static int check_queue(const struct cg_dev *device, struct _cl_command_queue *queue)
{
	struct _cl_context *context = NULL;
	struct _cl_device_id *id = NULL;
	uint64_t properties = 0;

	CL_TRY(GetCommandQueueInfo, queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
	CL_TRY(GetCommandQueueInfo, queue, CL_QUEUE_DEVICE, sizeof id, &id, NULL);
	CL_TRY(GetCommandQueueInfo, queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
	if (context != device->context)
		return cg_fail(CG_BAD_ARGUMENT, "cg_stream_open: native: the queue belongs to another cl_context; adopt that context with cg_adopt");
	if (id != device->id)
		return cg_fail(CG_BAD_ARGUMENT, "cg_stream_open: native: the queue belongs to another device of the context");
	if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
		return cg_fail(CG_BAD_ARGUMENT, "cg_stream_open: native: expected a queue that runs in order, got one created with "
		               "CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE");
	return CG_OK;
}

static int adopt_queue(struct cg_dev *device, void *native, struct _cl_command_queue **queue)
{
	int32_t code;

	if (native) {
		CG_TRY(check_queue(device, native));
		CL_TRY(RetainCommandQueue, native);
		*queue = native;
		return CG_OK;
	}
	*queue = cg_cl.CreateCommandQueue(device->context, device->id, 0, &code);
	return *queue ? CG_OK : cg_cl_check(code ? code : CL_OUT_OF_RESOURCES, "clCreateCommandQueue");
}

static int start(struct cg_dev *device, void *native, struct cg_queue **result)
{
	struct cg_queue *queue = cg_memory(NULL, sizeof *queue);
	int code;

	if (!queue)
		return CG_NO_MEMORY;
	*queue = (struct cg_queue){ .device = device };
	code = adopt_queue(device, native, &queue->queue);
	if (code)
		cg_memory(queue, 0);
	else
		*result = queue;
	return code;
}

static int sync_queue(struct cg_queue *queue)
{
	CL_TRY(Finish, queue->queue);
	return CG_OK;
}

static void stop(struct cg_queue *queue)
{
	cg_cl.Finish(queue->queue);
	cg_cl_release_kernels(queue);
	cg_cl.ReleaseCommandQueue(queue->queue);
	cg_memory(queue, 0);
}

static int alloc(struct cg_dev *device, struct cg_queue *queue, size_t bytes, struct cg_mem *mem)
{
	int32_t code = 0;
	struct _cl_mem *buffer = cg_cl.CreateBuffer(device->context, CL_MEM_READ_WRITE, bytes, NULL, &code);

	(void)queue;
	if (!buffer)
		return cg_fail_in(cg_cl_check(code ? code : CL_MEM_OBJECT_ALLOCATION_FAILURE, "clCreateBuffer"), "%zu bytes", bytes);
	*mem = (struct cg_mem){ buffer, 0, bytes, CG_DEVICE };
	return CG_OK;
}

static void free_mem(struct cg_dev *device, struct cg_queue *queue, struct cg_mem *mem)
{
	(void)device;
	(void)queue;
	cg_cl.ReleaseMemObject(mem->data);
}

static int check(struct cg_dev *device, struct cg_mem mem)
{
	struct _cl_context *context = NULL;
	size_t bytes = 0;

	CL_TRY(GetMemObjectInfo, mem.data, CL_MEM_CONTEXT, sizeof context, &context, NULL);
	CL_TRY(GetMemObjectInfo, mem.data, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
	if (context != device->context)
		return cg_fail(CG_BAD_ARGUMENT, "the cl_mem belongs to another cl_context than the stream");
	if (mem.offset > bytes || mem.bytes > bytes - mem.offset)
		return cg_fail(CG_BAD_ARGUMENT, "expected a cl_mem of at least %zu bytes, the offset, plus %zu bytes, the argument's size, got a "
		               "cl_mem of %zu bytes", mem.offset, mem.bytes, bytes);
	return CG_OK;
}

static int copy_in(struct cg_queue *queue, struct cg_mem to, const void *from, size_t bytes)
{
	CL_TRY(EnqueueWriteBuffer, queue->queue, to.data, 0, to.offset, bytes, from, 0, NULL, NULL);
	return CG_OK;
}

static int copy_out(struct cg_queue *queue, void *to, struct cg_mem from, size_t bytes)
{
	CL_TRY(EnqueueReadBuffer, queue->queue, from.data, 0, from.offset, bytes, to, 0, NULL, NULL);
	return CG_OK;
}

static int zero(struct cg_queue *queue, struct cg_mem mem, size_t bytes)
{
	const char nothing = 0;

	CL_TRY(EnqueueFillBuffer, queue->queue, mem.data, &nothing, 1, mem.offset, bytes, 0, NULL, NULL);
	return CG_OK;
}

static int copy(struct cg_queue *queue, struct cg_mem to, struct cg_mem from, size_t bytes)
{
	CL_TRY(EnqueueCopyBuffer, queue->queue, from.data, to.data, from.offset, to.offset, bytes, 0, NULL, NULL);
	return CG_OK;
}

extern const struct cg_backend cg_backend_opencl;
const struct cg_backend cg_backend_opencl = {
	.name = "opencl", .unasked = "gpu", .likely = likely, .all_tiles = 1,
	.list = list, .open = open_device, .adopt = adopt, .close = close_device, .describe = describe, .supports = supports,
	.start = start, .sync = sync_queue, .stop = stop,
	.alloc = alloc, .free = free_mem, .check = check, .copy_in = copy_in, .copy_out = copy_out, .zero = zero, .copy = copy,
	.build = cg_cl_build, .release = cg_cl_release, .launch = cg_cl_launch, .loop_steps = cg_cl_loop_steps, .limits = limits,
};
