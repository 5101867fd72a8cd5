/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, which are shared objects loaded from memory; functions; and the checks of a launch's arguments. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cuda.h"
#include "image.h"

enum { SHARED_BYTES = 49152, MOST_THREADS = 1024, POISON = 0xa5 };

/* ---- images ---- */

/* Decodes PTX to the image that it holds, which the caller frees; returns NULL if it holds none. */
static struct fake_image *from_ptx(const char *text)
{
	const char *digits = strstr(text, "//x");
	size_t n = digits ? strspn(digits += 3, "0123456789abcdef") / 2 : 0;
	unsigned char *bytes = malloc(n + 1);

	if (!bytes)
		abort();
	for (size_t k = 0; k < n; k++)
		sscanf(digits + 2 * k, "%2hhx", bytes + k);
	if (n < sizeof(struct fake_image) || ((struct fake_image *)(void *)bytes)->bytes != n - sizeof(struct fake_image)) {
		free(bytes);
		return NULL;
	}
	return (struct fake_image *)(void *)bytes;
}

/* Returns 0 if this device and driver can run the image, else a code. A cubin runs on devices of the same major number from its minor
   number on, PTX on devices of its number and all later ones, if the driver's CUDA is not older than that of the PTX. */
static int suits(const struct fake_image *image, int ptx)
{
	int arch = (int)fake_setting("ARCH", 86), driver = (int)fake_setting("DRIVER", fake_version());

	if (memcmp(image->magic, FAKE_IMAGE_MAGIC, sizeof image->magic))
		return INVALID_IMAGE;
	if (fake_sum(image + 1, image->bytes) != image->sum)
		return INVALID_IMAGE;
	if (ptx && image->version > driver)
		return UNSUPPORTED_PTX_VERSION;
	if (image->arch > arch || (!ptx && image->arch / 10 != arch / 10))
		return NO_BINARY_FOR_GPU;
	return 0;
}

/* Loads an image's shared object from a file in memory, which stays open while the object is loaded: the loader knows the file by the
   number in the file's path. */
static void *load(const struct fake_image *image, int *file)
{
	char path[40];
	void *library = NULL;

	*file = memfd_create("kernel", MFD_CLOEXEC);
	snprintf(path, sizeof path, "/proc/self/fd/%d", *file);
	if (*file >= 0 && write(*file, image + 1, image->bytes) == (ssize_t)image->bytes)
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fake_report("cuModuleLoadData: %s", dlerror());
		close(*file);
	}
	return library;
}

static void unload(void *library, int file)
{
	dlclose(library);
	close(file);
}

static int load_module(struct module **result, const struct fake_image *image)
{
	struct module *module;
	int file;
	void *library = load(image, &file);
	const struct fake_object *object = library ? dlsym(library, "fake_object") : NULL;

	if (!object)
		return INVALID_IMAGE;
	if (object->shared_end - object->shared > SHARED_BYTES) {
		fake_report("cuModuleLoadData: %td bytes of shared memory, %d at most", object->shared_end - object->shared, SHARED_BYTES);
		unload(library, file);
		return INVALID_IMAGE;
	}
	module = fake_new(MODULE, sizeof *module);
	module->context = fake_current();
	module->library = library;
	module->file = file;
	module->object = object;
	module->flush = image->flush;
	*object->calls = &fake_calls;
	*result = module;
	return 0;
}

FAKE_API int cuModuleLoadData(struct module **module, const void *data)
{
	struct fake_image *image = NULL;
	int code;

	CALL(cuModuleLoadData, NEEDS_CONTEXT);
	if (fake_capturing("cuModuleLoadData"))
		return STREAM_CAPTURE_UNSUPPORTED;
	if (!memcmp(data, "//", 2)) {
		image = from_ptx(data);
		code = image ? suits(image, 1) : INVALID_IMAGE;
		if (!code)
			code = load_module(module, image);
		free(image);
		return code;
	}
	code = suits(data, 0);
	return code ? code : load_module(module, data);
}

FAKE_API int cuModuleUnload(struct module *module)
{
	CALL(cuModuleUnload, NEEDS_CONTEXT);
	if (!fake_known("cuModuleUnload", MODULE, module))
		return INVALID_HANDLE;
	if (fake_capturing("cuModuleUnload"))
		return STREAM_CAPTURE_UNSUPPORTED;
	if (module->context != fake_current()) {
		fake_report("cuModuleUnload: the module is of another context");
		return INVALID_CONTEXT;
	}
	if (fake_pending(module->context, module)) {
		fake_report("cuModuleUnload: a kernel of it is still to run");
		return INVALID_HANDLE;
	}
	module->handle.dead = 1;
	for (struct handle *h = fake_each(NULL); h; h = fake_each(h))
		if (h->kind == FUNCTION && ((struct function *)h)->module == module)
			h->dead = 1;
	unload(module->library, module->file);
	return 0;
}

FAKE_API int cuModuleGetFunction(struct function **result, struct module *module, const char *name)
{
	const struct fake_kernel *kernel;
	struct function *function;

	CALL(cuModuleGetFunction, NEEDS_CONTEXT);
	if (!fake_known("cuModuleGetFunction", MODULE, module))
		return INVALID_HANDLE;
	for (kernel = module->object->kernels; kernel->name && strcmp(kernel->name, name); )
		kernel++;
	/* A name that C++ has mangled is not found by its plain form. */
	if (!kernel->name || !dlsym(module->library, name))
		return NOT_FOUND;
	function = fake_new(FUNCTION, sizeof *function);
	function->module = module;
	function->kernel = kernel;
	*result = function;
	return 0;
}

static unsigned most_threads(const struct function *function)
{
	return function->kernel->threads ? function->kernel->threads : MOST_THREADS;
}

FAKE_API int cuFuncGetAttribute(int *value, unsigned attribute, struct function *function)
{
	enum { MAX_THREADS, SHARED, CONSTANT, LOCAL, REGISTERS };

	CALL(cuFuncGetAttribute, NEEDS_CONTEXT);
	if (!fake_known("cuFuncGetAttribute", FUNCTION, function))
		return INVALID_HANDLE;
	switch (attribute) {
	case MAX_THREADS:
		*value = (int)most_threads(function);
		return 0;
	case SHARED:
		*value = (int)(function->module->object->shared_end - function->module->object->shared);
		return 0;
	case CONSTANT:
	case LOCAL:
		*value = 0;
		return 0;
	case REGISTERS:
		*value = 32;
		return 0;
	}
	return INVALID_VALUE;
}

/* ---- launches ---- */

enum { MOST_ARGUMENTS = 256 };

/* Copies n ranges between `here` and `there` without a fault, whatever the addresses, by one system call, since a launch has many ranges.
   Returns how many ranges were copied whole; if these are not all, the range after them is not accessible. */
static int copy_ranges(int to_there, const struct iovec *here, const struct iovec *there, int n)
{
	unsigned long ranges = (unsigned long)n;
	ssize_t bytes = to_there ? process_vm_writev(getpid(), here, ranges, there, ranges, 0) :
	                           process_vm_readv(getpid(), here, ranges, there, ranges, 0);
	int whole = 0;

	for (; whole < n && bytes >= (ssize_t)here[whole].iov_len; whole++)
		bytes -= (ssize_t)here[whole].iov_len;
	return whole;
}

/* CUDA has copied the arguments when a launch returns, so the caller's values may change.  poison() overwrites at most 64 bytes of each
   value, and the array of pointers, except where they are read-only. */
static void poison(const struct fake_kernel *kernel, void **values, void **parameters)
{
	unsigned char bytes[64];
	struct iovec here[2 * MOST_ARGUMENTS], there[2 * MOST_ARGUMENTS];

	memset(bytes, POISON, sizeof bytes);
	for (int k = 0; k < kernel->n; k++) {
		size_t size = kernel->sizes[k] < sizeof bytes ? kernel->sizes[k] : sizeof bytes;

		here[2 * k] = (struct iovec){ bytes, size };
		there[2 * k] = (struct iovec){ values[k], size };
		here[2 * k + 1] = (struct iovec){ bytes, sizeof *parameters };
		there[2 * k + 1] = (struct iovec){ parameters + k, sizeof *parameters };
	}
	for (int k = 0; k < 2 * kernel->n; k++)
		k += copy_ranges(1, here + k, there + k, 2 * kernel->n - k);
}

/* Reports argument values of a launch that overlap in memory: the caller's variables are narrower than the kernel's parameters. */
static int overlap(const struct fake_kernel *kernel, void **values)
{
	for (int k = 0; k < kernel->n; k++)
		for (int l = 0; l < kernel->n; l++) {
			uintptr_t distance = (uintptr_t)values[l] - (uintptr_t)values[k];

			if (k == l || distance >= kernel->sizes[k] || (!distance && kernel->sizes[k] == kernel->sizes[l]))
				continue;
			fake_report("cuLaunchKernel: %s: argument %d, of %d bytes, runs into argument %d", kernel->name, k, kernel->sizes[k], l);
			return INVALID_VALUE;
		}
	return 0;
}

/* Reports an integer of 8 bytes whose magnitude is 2^48 or more: an integer that is passed as a narrower type may have garbage in its upper
   half, and no integer that this library passes is so large. */
static int implausible(const struct fake_kernel *kernel, int k, const void *value)
{
	int64_t number;

	if (kernel->sorts[k] != 2 || kernel->sizes[k] != sizeof number)
		return 0;
	memcpy(&number, value, sizeof number);
	if (number > -(INT64_C(1) << 48) && number < INT64_C(1) << 48)
		return 0;
	fake_report("cuLaunchKernel: %s: argument %d, of 8 bytes, is %#llx: was it given as a narrower one?", kernel->name, k,
	            (unsigned long long)number);
	return INVALID_VALUE;
}

static int translate_one(const struct function *function, int k, void *value)
{
	char call[160], what[40];
	uint64_t at;
	void *data;
	int code;

	memcpy(&at, value, sizeof at);
	snprintf(call, sizeof call, "cuLaunchKernel: %s", function->kernel->name);
	snprintf(what, sizeof what, "argument %d", k);
	code = fake_owned(call, what, function->module->context, at, 1);
	data = fake_data(at);
	if (!code)
		memcpy(value, &data, sizeof data);
	return code;
}

/* A pointer must be null or point to device memory of the context; the kernel gets the address at which the host stores that memory.  Which
   words of a structure are pointers is unknown: those that are addresses of device memory are taken for pointers. */
static int translate(const struct function *function, int k, void *value)
{
	enum { OTHER, POINTER, INTEGER, STRUCTURE };
	int sort = function->kernel->sorts[k], code = 0;
	uint64_t word;

	for (size_t at = 0; at + sizeof word <= function->kernel->sizes[k] && (sort == POINTER || sort == STRUCTURE) && !code;
	     at += sizeof word) {
		memcpy(&word, (char *)value + at, sizeof word);
		if (sort == POINTER ? word != 0 : fake_is_device(word))
			code = translate_one(function, k, (char *)value + at);
	}
	return code;
}

static int read_arguments(struct launch *l, char *copy, void **parameters)
{
	const struct fake_kernel *kernel = l->function->kernel;
	void *values[MOST_ARGUMENTS];
	struct iovec here[MOST_ARGUMENTS], there[MOST_ARGUMENTS];
	int code = 0, reached;

	here[0] = (struct iovec){ values, (size_t)kernel->n * sizeof *values };
	there[0] = (struct iovec){ parameters, here[0].iov_len };
	if (kernel->n && !copy_ranges(0, here, there, 1)) {
		fake_report("cuLaunchKernel: %s: the addresses of %d arguments are not all there", kernel->name, kernel->n);
		return INVALID_VALUE;
	}
	for (int k = 0; k < kernel->n; k++) {
		l->arguments[k] = copy;
		here[k] = (struct iovec){ copy, kernel->sizes[k] };
		there[k] = (struct iovec){ values[k], kernel->sizes[k] };
		copy += (kernel->sizes[k] + 15) / 16 * 16;
	}
	reached = copy_ranges(0, here, there, kernel->n);
	code = overlap(kernel, values);
	for (int k = 0; k < kernel->n && !code; k++) {
		if (k == reached) {
			fake_report("cuLaunchKernel: %s: argument %d of %d: no %d bytes at %p", kernel->name, k, kernel->n, kernel->sizes[k],
			            values[k]);
			return INVALID_VALUE;
		}
		code = implausible(kernel, k, l->arguments[k]);
		if (!code)
			code = translate(l->function, k, l->arguments[k]);
	}
	if (!code)
		poison(kernel, values, parameters);
	return code;
}

/* Checks the sizes of a launch by limits that all CUDA devices known today have, and by the kernel's own launch bounds. */
static int check_sizes(const struct function *function, struct fake_dim grid, struct fake_dim block, unsigned shared)
{
	const struct fake_object *object = function->module->object;
	uint64_t threads = (uint64_t)block.x * block.y * block.z;

	if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) {
		fake_report("cuLaunchKernel: %s: grid %u %u %u, block %u %u %u: a size of none", function->kernel->name, grid.x, grid.y,
		            grid.z, block.x, block.y, block.z);
		return INVALID_VALUE;
	}
	if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535 || block.x > 1024 || block.y > 1024 || block.z > 64) {
		fake_report("cuLaunchKernel: %s: grid %u %u %u, block %u %u %u: more than a device has", function->kernel->name, grid.x,
		            grid.y, grid.z, block.x, block.y, block.z);
		return INVALID_VALUE;
	}
	if (threads > most_threads(function)) {
		fake_report("cuLaunchKernel: %s: blocks of %llu threads, %u at most", function->kernel->name, (unsigned long long)threads,
		            most_threads(function));
		return threads > MOST_THREADS ? INVALID_VALUE : LAUNCH_OUT_OF_RESOURCES;
	}
	if (shared + (size_t)(object->shared_end - object->shared) > SHARED_BYTES) {
		fake_report("cuLaunchKernel: %s: %u bytes of shared memory beside its own, %d at most", function->kernel->name, shared,
		            SHARED_BYTES);
		return INVALID_VALUE;
	}
	return 0;
}

FAKE_API int cuLaunchKernel(struct function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared, struct stream *handle, void **parameters,
                            void **extra)
{
	struct fake_dim grid = { grid_x, grid_y, grid_z }, block = { block_x, block_y, block_z };
	struct stream *stream;
	struct launch *l;
	size_t bytes;
	int code;

	CALL(cuLaunchKernel, NEEDS_CONTEXT);
	if (!fake_known("cuLaunchKernel", FUNCTION, function))
		return INVALID_HANDLE;
	stream = fake_stream("cuLaunchKernel", handle);
	if (!stream)
		return INVALID_HANDLE;
	if (stream->context != function->module->context) {
		fake_report("cuLaunchKernel: %s: its module is of another context", function->kernel->name);
		return INVALID_HANDLE;
	}
	if (extra || (function->kernel->n && !parameters)) {
		fake_report("cuLaunchKernel: %s: arguments are taken by kernelParams only", function->kernel->name);
		return INVALID_VALUE;
	}
	code = check_sizes(function, grid, block, shared);
	if (code)
		return code;
	bytes = sizeof *l + (size_t)function->kernel->n * sizeof *l->arguments;
	bytes = (bytes + 15) / 16 * 16;
	l = calloc(1, bytes + (size_t)function->kernel->n * 16 + 4096);
	if (!l)
		abort();
	l->function = function;
	l->grid = grid;
	l->block = block;
	code = read_arguments(l, (char *)l + bytes, parameters);
	if (code)
		free(l);
	return code ? code : fake_enqueue_launch(stream, function->module, fake_run, l);
}
