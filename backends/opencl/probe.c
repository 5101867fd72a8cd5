/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes a device.  This file reads the properties that the driver reports, and finds out by test kernels whether fma rounds once, whether
 * products and sums stay apart, whether subnormals are flushed, and whether zeros keep their signs: in these four points it does not trust
 * the driver's report.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/opencl/opencl.h"

static int ask(struct cg_dev *device, uint32_t what, void *to, size_t bytes)
{
	CL_TRY(GetDeviceInfo, device->id, what, bytes, to, NULL);
	return CG_OK;
}

int cg_cl_probe_device(struct cg_dev *device, const char *name)
{
	char model[256] = "", driver[128] = "", version[256] = "";
	uint32_t available = 0, compiler = 0, local = 0;
	uint64_t local_bytes = 0;
	size_t most[16] = { 0 };

	CG_TRY(ask(device, CL_DEVICE_TYPE, &device->type, sizeof device->type));
	CG_TRY(ask(device, CL_DEVICE_AVAILABLE, &available, sizeof available));
	CG_TRY(ask(device, CL_DEVICE_COMPILER_AVAILABLE, &compiler, sizeof compiler));
	CG_TRY(ask(device, CL_DEVICE_MAX_COMPUTE_UNITS, &device->units, sizeof device->units));
	CG_TRY(ask(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, &device->group_most, sizeof device->group_most));
	CG_TRY(ask(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, most, sizeof most));
	CG_TRY(ask(device, CL_DEVICE_LOCAL_MEM_TYPE, &local, sizeof local));
	CG_TRY(ask(device, CL_DEVICE_LOCAL_MEM_SIZE, &local_bytes, sizeof local_bytes));
	CG_TRY(ask(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, &device->vector_f32, sizeof device->vector_f32));
	CG_TRY(ask(device, CL_DEVICE_SINGLE_FP_CONFIG, &device->config_f32, sizeof device->config_f32));
	/* The device's name may be longer than the buffer, which is an error in OpenCL's standard: the result of the call is ignored. */
	cg_cl.GetDeviceInfo(device->id, CL_DEVICE_NAME, sizeof model, model, NULL);
	cg_cl.GetDeviceInfo(device->id, CL_DRIVER_VERSION, sizeof driver, driver, NULL);
	cg_cl.GetDeviceInfo(device->id, CL_DEVICE_VERSION, sizeof version, version, NULL);
	/* The driver of a device without double precision may lack the query of the properties of double precision: the result of the call is
	 * ignored. */
	cg_cl.GetDeviceInfo(device->id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof device->config_f64, &device->config_f64, NULL);
	if (!available || !compiler)
		return cg_fail(CG_NO_DEVICE, "%s: the driver of this device reports that the device %s", model,
		               available ? "has no compiler" : "is not available");
	device->item_most = most[0];
	device->local = local == CL_LOCAL;
	device->local_bytes = (size_t)local_bytes;
	snprintf(device->about, sizeof device->about, "opencl %s: %s; driver %s, %s, by %.300s; f64 %s", name, model, driver, version,
	         cg_cl_path(), device->config_f64 ? "yes" : "no");
	return CG_OK;
}

/* Cases of a b + c.  ROUNDED: rounding the product first gives another result; in the last four such cases of f32 so does adding in double,
 * since the exact result is just beyond a tie.  FLUSHED: a product or factor is subnormal, and the result is 0 if the device flushes
 * subnormals.  SIGNED: the result is a zero with the sign that a sum has, +0 unless both terms are -0. */
enum kind { ROUNDED, FLUSHED, SIGNED };
struct hard { enum kind kind; double a, b, c, right; };
static const struct hard in_f32[] = {
	{ ROUNDED, 0x1.000002p0, 0x1.000002p0, -0x1.000004p0, 0x1p-46 },
	{ ROUNDED, 0x1.fffffep0, 0x1.fffffep0, -0x1.fffffcp1, 0x1p-46 },
	{ ROUNDED, 0x1.000002p0, 0x1.fffffcp-1, -1, -0x1p-46 },
	{ ROUNDED, 0x1.8p0, 0x1.555556p-1, -1, 0x1p-25 },
	{ ROUNDED, 0x1.6a540ap0, 0x1.69bfd2p-25, 0x1.24fdfp0, 0x1.24fdf2p0 },
	{ ROUNDED, -0x1.88decp0, 0x1.4da076p-25, 0x1.09079p0, 0x1.09078ep0 },
	{ ROUNDED, -0x1.f7778ap0, 0x1.0456bep-25, 0x1.321eaap0, 0x1.321eaap0 },
	{ ROUNDED, 0x1.38a676p0, 0x1.a33a96p-25, 0x1.6570cp0, 0x1.6570c2p0 },
	{ FLUSHED, 0x1p-100, 0x1p-30, 0, 0 },
	{ FLUSHED, 0x1p-130, 0x1p20, 0, 0 },
	{ SIGNED, 1, -0.0, 0, 0 },
	{ SIGNED, -0.0, 1, 0, 0 },
	{ SIGNED, 1, -0.0, -0.0, -0.0 },
};
static const struct hard in_f64[] = {
	{ ROUNDED, 0x1.0000000000001p0, 0x1.0000000000001p0, -0x1.0000000000002p0, 0x1p-104 },
	{ ROUNDED, 0x1.fffffffffffffp0, 0x1.fffffffffffffp0, -0x1.ffffffffffffep1, 0x1p-104 },
	{ ROUNDED, 0x1.0000000000001p0, 0x1.ffffffffffffep-1, -1, -0x1p-104 },
	{ ROUNDED, 0x1.8p0, 0x1.5555555555555p-1, -1, -0x1p-54 },
	{ SIGNED, 1, -0.0, 0, 0 },
	{ SIGNED, -0.0, 1, 0, 0 },
	{ SIGNED, 1, -0.0, -0.0, -0.0 },
};
enum { CASES = 13, ROW = 6 };

static const char text[] =
	"#pragma OPENCL FP_CONTRACT OFF\n"
	"%s\n"
	"__kernel void probe(__global %s *x)\n"
	"{\n"
	"	const long k = 6 * get_global_id(0);\n"
	"\n"
	"	x[k + 3] = fma(x[k], x[k + 1], x[k + 2]);\n"
	"	x[k + 4] = x[k] * x[k + 1] + x[k + 2];\n"
	"	x[k + 5] = x[k] + 0;\n"
	"}\n";

/* Runs the probing kernel on n rows of numbers, `bytes` bytes in all. */
static int run(struct cg_queue *queue, struct _cl_kernel *kernel, struct _cl_mem *memory, void *rows, size_t bytes, size_t n)
{
	CL_TRY(SetKernelArg, kernel, 0, sizeof memory, &memory);
	CL_TRY(EnqueueWriteBuffer, queue->queue, memory, 1, 0, bytes, rows, 0, NULL, NULL);
	CL_TRY(EnqueueNDRangeKernel, queue->queue, kernel, 1, NULL, &n, NULL, 0, NULL, NULL);
	CL_TRY(EnqueueReadBuffer, queue->queue, memory, 1, 0, bytes, rows, 0, NULL, NULL);
	return CG_OK;
}

static int compute(struct cg_dev *device, struct _cl_program *program, void *rows, size_t bytes, size_t n)
{
	struct cg_queue queue = { .device = device };
	struct _cl_kernel *kernel = NULL;
	struct _cl_mem *memory = NULL;
	int32_t error = CL_OUT_OF_RESOURCES;
	const char *call = "clCreateCommandQueue";
	int code;

	queue.queue = cg_cl.CreateCommandQueue(device->context, device->id, 0, &error);
	if (queue.queue) {
		call = "clCreateKernel";
		kernel = cg_cl.CreateKernel(program, "probe", &error);
	}
	if (kernel) {
		call = "clCreateBuffer";
		memory = cg_cl.CreateBuffer(device->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
	}
	code = memory ? run(&queue, kernel, memory, rows, bytes, n) : cg_cl_check(error ? error : CL_OUT_OF_RESOURCES, call);
	if (memory)
		cg_cl.ReleaseMemObject(memory);
	if (kernel)
		cg_cl.ReleaseKernel(kernel);
	if (queue.queue)
		cg_cl.ReleaseCommandQueue(queue.queue);
	return code;
}

/* The result of a b + c if the product is rounded first, then the sum. */
static double apart(int dtype, const struct hard *h)
{
	volatile float narrow = (float)h->a * (float)h->b;
	volatile double wide = h->a * h->b;

	return dtype == CG_F64 ? wide + h->c : narrow + (float)h->c;
}

static int differ(double x, double y)
{
	return x != y || !signbit(x) != !signbit(y);
}

struct found { int fma, contracted, subnormals, signless; }; /* numbers of wrong results */

/* Counts the wrong results of one case.  got: the device's results of fma, of a product and a sum that should be rounded separately, and
 * of a + 0. */
static void judge(const struct hard *h, int dtype, const double got[3], struct found *wrong)
{
	int fma = differ(got[0], h->right), sum = differ(got[1], h->kind == FLUSHED ? 0 : apart(dtype, h));
	int more = differ(got[2], fabs(h->a) < 0x1p-126 ? 0 : h->a);

	switch (h->kind) {
	case ROUNDED:
		wrong->fma += fma;
		wrong->contracted += sum;
		break;
	case FLUSHED:
		wrong->subnormals += fma + sum + more;
		break;
	case SIGNED:
		wrong->signless += fma + sum + more;
	}
}

static int probe(struct cg_dev *device, int dtype, const struct hard *cases, size_t n, struct found *wrong)
{
	char source[sizeof text + 64];
	struct _cl_program *program;
	double rows[ROW * CASES] = { 0 };
	float narrow[ROW * CASES];
	int code;

	for (size_t k = 0; k < n; k++)
		memcpy(rows + ROW * k, (const double[]){ cases[k].a, cases[k].b, cases[k].c }, 3 * sizeof *rows);
	for (size_t k = 0; k < ROW * n; k++)
		narrow[k] = (float)rows[k];
	snprintf(source, sizeof source, text, dtype == CG_F64 ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable" : "",
	         dtype == CG_F64 ? "double" : "float");
	CG_TRY(cg_cl_compile(device, source, "the probe of fma", dtype, &program));
	code = dtype == CG_F64 ? compute(device, program, rows, ROW * n * sizeof *rows, n)
	                       : compute(device, program, narrow, ROW * n * sizeof *narrow, n);
	cg_cl.ReleaseProgram(program);
	CG_TRY(code);
	for (size_t k = 0; k < ROW * n && dtype != CG_F64; k++)
		rows[k] = narrow[k];
	for (size_t k = 0; k < n; k++)
		judge(&cases[k], dtype, rows + ROW * k + 3, wrong);
	return CG_OK;
}

int cg_cl_probe(struct cg_dev *device)
{
	struct found wrong = { 0, 0, 0, 0 };
	char *about = device->about;
	size_t capacity = sizeof device->about;

	CG_TRY(probe(device, CG_F32, in_f32, sizeof in_f32 / sizeof *in_f32, &wrong));
	if (device->config_f64)
		CG_TRY(probe(device, CG_F64, in_f64, sizeof in_f64 / sizeof *in_f64, &wrong));
	snprintf(about + strlen(about), capacity - strlen(about), "; %s%s%s%s%s", wrong.fma ? "fma rounds twice, " : "",
	         wrong.contracted ? "the compiler fuses products and sums unasked, " : "",
	         wrong.subnormals ? "the device does not flush subnormal numbers, " : "",
	         wrong.signless ? "zeros lose their signs, " : "",
	         wrong.fma || wrong.contracted || wrong.subnormals || wrong.signless
	                 ? "so results are within the error bound, but not the same bits as on other devices" : "arithmetic as promised");
	return CG_OK;
}
