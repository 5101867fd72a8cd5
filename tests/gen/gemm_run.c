/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs matrix products on the first OpenCL device: every dtype that it has and every transposition, in tiles of several sizes, with
 * operands through local memory and without, with vectors up to the device's, over awkward sizes.  Each element is within the bound of a
 * product in long double; no byte outside of a matrix affects a result, and none of c's memory outside of c is written; kernels that all
 * fuse multiply-adds, or all do not, give the same bits.
 *
 *	gemm_run [CASES [narrow|f32]]  exit 0: all right; 1: not; 77: there is no device.  CASES: products by each kernel,
 *	                               default 100; narrow: if CASES is below 10, no vectors of more than 4 elements; f32: the
 *	                               driver optimises kernels of f32 alone
 */
#include <math.h>
#include <stdint.h>

#include "tests/gen/every.h"
#include "verify/numbers.h"
#include "verify/reference.h"
#include "backends/opencl/library.h"
#include "runtime/core/core.h"

enum { CL_MEM_COPY_HOST_PTR = 32 };

/* ---- the device ---- */

static struct {
	struct _cl_device_id *id;
	struct _cl_context *context;
	struct _cl_command_queue *queue;
	int doubles;
	uint64_t local_bytes;
	size_t group;
	int vector_bytes;                         /* the bytes of the device's native vectors of floats, at least 16 */
	uint64_t fma[2];                          /* not 0: the device has a fused multiply-add, in f32 and in f64 */
} device;

static int skip(const char *why)
{
	printf("# %s\n", why);
	return 77;
}

/* Any failure of a call ends the program, since later results would mean nothing. */
static void *must(void *result, int code, const char *call)
{
	if (code || !result) {
		printf("# %s: error %d\n", call, code);
		exit(1);
	}
	return result;
}

static int open_device(void)
{
	struct _cl_platform_id *platforms[8];
	char name[200] = "";
	unsigned n = 0, count = 0;
	uint64_t doubles = 0;
	uint32_t floats = 0;
	int code = 0;

	if (cg_cl_load())
		return skip(cg_message());
	if (cg_cl.GetPlatformIDs(8, platforms, &n))
		n = 0;
	for (unsigned k = 0; k < n && k < 8 && !device.id; k++)
		if (cg_cl.GetDeviceIDs(platforms[k], CL_DEVICE_TYPE_ALL, 1, &device.id, &count) || !count)
			device.id = NULL;
	if (!device.id)
		return skip("no OpenCL platform has a device");
	cg_cl.GetDeviceInfo(device.id, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
	cg_cl.GetDeviceInfo(device.id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof doubles, &doubles, NULL);
	cg_cl.GetDeviceInfo(device.id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof device.fma[0], &device.fma[0], NULL);
	cg_cl.GetDeviceInfo(device.id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof device.local_bytes, &device.local_bytes, NULL);
	cg_cl.GetDeviceInfo(device.id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof device.group, &device.group, NULL);
	cg_cl.GetDeviceInfo(device.id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof floats, &floats, NULL);
	device.vector_bytes = floats > 4 ? 4 * (int)floats : 16;
	device.doubles = doubles != 0;
	device.fma[0] &= CL_FP_FMA;
	device.fma[1] = doubles & CL_FP_FMA;
	device.context = must(cg_cl.CreateContext(NULL, 1, &device.id, NULL, NULL, &code), code, "clCreateContext");
	device.queue = must(cg_cl.CreateCommandQueue(device.context, device.id, 0, &code), code, "clCreateCommandQueue");
	printf("# %s%s\n", name, doubles ? "" : ", without f64");
	return 0;
}

/* ---- elements ---- */

static const int sizes[] = { 4, 8, 2, 2 };       /* the bytes of f32, f64, f16 and bf16, in the order of enum ref_dtype */

static double load(int dtype, const unsigned char *bytes, int64_t at)
{
	return numbers_decode(dtype, bytes + at * sizes[dtype]);
}

static void store(int dtype, unsigned char *bytes, int64_t at, double x)
{
	numbers_encode(dtype, x, bytes + at * sizes[dtype]);
}

/* ---- matrices, in memory that is poisoned all around ---- */

struct matrix {
	int dtype;
	int64_t rows, columns, stride, offset, length;    /* length: the number of elements in its memory */
	unsigned char *bytes;
};

/* A random value: mostly in (-1, 1), at times a zero, or 2^6 times larger or 2^10 times smaller. */
static double number(int dtype)
{
	static const double scales[] = { 1, 1, 1, 1, 1, 1, 0x1p-10, 0x1p6, 0, -0.0 };

	return ref_round(dtype, (2 * random_unit() - 1) * scales[random_below(10)]);
}

/* Makes a matrix of random values; behind: how many elements its memory has behind the last row. Everything outside of the rows
   is NaN. */
static struct matrix make(int dtype, int64_t rows, int64_t columns, int behind)
{
	struct matrix x = { dtype, rows, columns, columns + random_below(3) * random_below(9), random_below(2) * random_below(70), 0,
		NULL };

	x.stride += !x.stride;
	x.length = x.offset + (rows ? (rows - 1) * x.stride + columns : 0) + behind;
	x.bytes = resize(NULL, (size_t)(x.length * sizes[dtype]) + 1);
	for (int64_t k = 0; k < x.length; k++)
		store(dtype, x.bytes, k, (double)NAN);
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++)
			store(dtype, x.bytes, x.offset + i * x.stride + j, number(dtype));
	return x;
}

static double element(const struct matrix *x, int64_t row, int64_t column)
{
	return load(x->dtype, x->bytes, x->offset + row * x->stride + column);
}

/* ---- a case ---- */

enum start_kind { ABSENT, ROW, MATRIX, ITSELF, STARTS };
static const char *const start_words[] = { "absent", "one row", "a matrix", "c itself" };

struct product {
	struct cg_gemm_shape shape;
	int64_t m, n, k;
	int start_kind;
	struct matrix a, b, start, c;            /* start: what is added to the product; c: the memory of c before the product */
};

static struct product make_product(const struct cg_gemm_shape *s, int64_t m, int64_t n, int64_t k, int start_kind)
{
	struct product p = { *s, m, n, k, start_kind, { 0 }, { 0 }, { 0 }, { 0 } };
	int acc = s->dtype == REF_F64 ? REF_F64 : REF_F32;
	int start = s->start_acc ? acc : s->dtype, c = s->c_acc ? acc : s->dtype;

	p.a = make(s->dtype, s->transpose_a ? k : m, s->transpose_a ? m : k, 0);
	p.b = make(s->dtype, s->transpose_b ? n : k, s->transpose_b ? k : n, 0);
	p.c = make(c, m, n, 37);
	if (start_kind == ITSELF && start != c)
		p.start_kind = MATRIX;
	if (p.start_kind == ITSELF) {
		p.start = p.c;
	} else if (p.start_kind != ABSENT) {
		p.start = make(start, p.start_kind == ROW ? 1 : m, n, 0);
		p.start.stride = p.start_kind == ROW ? 0 : p.start.stride;
	}
	/* A value of a that is not finite must affect one row of c only, and such a value of b one column of c only. */
	if (m && k && random_below(4) == 0)
		store(s->dtype, p.a.bytes, p.a.offset + (p.a.rows - 1) * p.a.stride + random_below((int)p.a.columns), (double)NAN);
	if (n && k && random_below(4) == 0)
		store(s->dtype, p.b.bytes, p.b.offset + (p.b.rows - 1) * p.b.stride + random_below((int)p.b.columns), (double)INFINITY);
	return p;
}

static void free_product(struct product *p)
{
	resize(p->a.bytes, 0);
	resize(p->b.bytes, 0);
	resize(p->c.bytes, 0);
	if (p->start_kind != ITSELF && p->start.bytes)
		resize(p->start.bytes, 0);
}

/* ---- kernels ---- */

struct kernel {
	struct cg_gemm_shape shape;
	char key[CG_KEY_MAX];
	void *program, *kernel;
};

static int all_optimized;       /* 0: the driver optimises only kernels of f32; an optimised kernel takes three times as long to build */

static struct kernel build(const struct cg_gemm_shape *shape)
{
	struct kernel k = { .shape = *shape };
	struct cg_text text = { resize, NULL, 0, 0, 0 };
	char log[4000] = "", options[80];
	int code = 0;

	cg_gemm_key(shape, k.key);
	if (cg_print_gemm(shape, CG_LANG_OPENCL, &text)) {
		printf("# %s: no text\n", k.key);
		exit(1);
	}
	k.program = must(cg_cl.CreateProgramWithSource(device.context, 1, (const char **)&text.at, NULL, &code), code,
	                 "clCreateProgramWithSource");
	snprintf(options, sizeof options, "-cl-std=CL1.2%s%s", shape->dtype == REF_F64 ? "" : " -cl-denorms-are-zero",
	         shape->dtype == REF_F32 || all_optimized ? "" : " -cl-opt-disable");
	code = cg_cl.BuildProgram(k.program, 1, &device.id, options, NULL, NULL);
	cg_cl.GetProgramBuildInfo(k.program, device.id, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
	if (code || strstr(log, "warning")) {
		printf("# %s: clBuildProgram: error %d\n%s\n", k.key, code, log);
		exit(1);
	}
	k.kernel = must(cg_cl.CreateKernel(k.program, k.key, &code), code, "clCreateKernel");
	resize(text.at, 0);
	return k;
}

static void free_kernel(struct kernel *k)
{
	cg_cl.ReleaseKernel(k->kernel);
	cg_cl.ReleaseProgram(k->program);
}

static void *give(const struct matrix *x)
{
	int code = 0;

	/* OpenCL has no buffers of 0 bytes: an empty matrix gets a buffer of one byte. */
	return must(cg_cl.CreateBuffer(device.context, CL_MEM_COPY_HOST_PTR, (size_t)(x->length * sizes[x->dtype]) + !x->length, x->bytes,
	                          &code), code, "clCreateBuffer");
}

static void bind(void *kernel, unsigned *at, void *const *memory, const struct matrix *x)
{
	uint64_t offset = (uint64_t)x->offset;
	int code = cg_cl.SetKernelArg(kernel, (*at)++, sizeof *memory, *memory ? memory : NULL);

	code |= cg_cl.SetKernelArg(kernel, (*at)++, sizeof offset, &offset);
	code |= cg_cl.SetKernelArg(kernel, (*at)++, sizeof x->stride, &x->stride);
	must(kernel, code, "clSetKernelArg");
}

static void launch(const struct kernel *k, const struct product *p, void *a, void *b, void *start, void *c)
{
	size_t global[2], local[2];
	unsigned at = 0;
	int code = 0;

	code |= cg_cl.SetKernelArg(k->kernel, at++, sizeof p->m, &p->m);
	code |= cg_cl.SetKernelArg(k->kernel, at++, sizeof p->n, &p->n);
	code |= cg_cl.SetKernelArg(k->kernel, at++, sizeof p->k, &p->k);
	must(k->kernel, code, "clSetKernelArg");
	bind(k->kernel, &at, &a, &p->a);
	bind(k->kernel, &at, &b, &p->b);
	bind(k->kernel, &at, &start, &p->start);
	bind(k->kernel, &at, &c, &p->c);
	if (cg_gemm_launch(&k->shape, p->m, p->n, global, local))
		must(k->kernel, cg_cl.EnqueueNDRangeKernel(device.queue, k->kernel, 2, NULL, global, local, 0, NULL, NULL),
		     "clEnqueueNDRangeKernel");
}

/* Returns the memory of c after the product.  The caller frees it. */
static unsigned char *run(const struct kernel *k, const struct product *p)
{
	void *a = p->k ? give(&p->a) : NULL, *b = p->k ? give(&p->b) : NULL, *c = give(&p->c);
	void *start = p->start_kind == ABSENT ? NULL : p->start_kind == ITSELF ? c : give(&p->start);
	void *const all[] = { a, b, c, start == c ? NULL : start };
	size_t bytes = (size_t)(p->c.length * sizes[p->c.dtype]);
	unsigned char *after = resize(NULL, bytes + 1);

	launch(k, p, a, b, start, c);
	must(c, cg_cl.EnqueueReadBuffer(device.queue, c, 1, 0, bytes, after, 0, NULL, NULL), "clEnqueueReadBuffer");
	for (int j = 0; j < 4; j++)
		if (all[j])
			cg_cl.ReleaseMemObject(all[j]);
	return after;
}

/* ---- the judge ---- */

static double worst;                      /* the largest error of an element over its tolerance, among matrices c in f32 or f64 */

/* Is an element of c within its bound? By the rules of reference.c products and start are a sum of k + 1 terms, which is
   computed in long double. */
static int is_right(const struct product *p, int64_t i, int64_t j, double got)
{
	int narrow = p->shape.dtype != REF_F64;
	long double u = narrow ? 0x1p-24L : 0x1p-53L, lost = narrow ? 0x1p-126L : 0x1p-1074L, value = 0, size = 0, bound;

	if (p->start_kind != ABSENT)
		value = (long double)element(&p->start, i, j);
	size = fabsl(value);
	for (int64_t q = 0; q < p->k; q++) {
		double x = p->shape.transpose_a ? element(&p->a, q, i) : element(&p->a, i, q);
		double y = p->shape.transpose_b ? element(&p->b, j, q) : element(&p->b, q, j);

		value += (long double)x * (long double)y;
		size += fabsl((long double)x * (long double)y);
	}
	bound = (long double)(p->k + 1) * u / (1 - (long double)(p->k + 1) * u) * size + (long double)(p->k + 1) * 2 * lost;
	bound = isfinite(value) ? bound : 0;
	if (isfinite(value) && bound > 0 && sizes[p->c.dtype] >= 4)
		worst = fmax(worst, (double)(fabsl((long double)got - value) / ref_tolerance(p->c.dtype, value, bound)));
	return ref_within(p->c.dtype, value, bound, got);
}

static int fails(const struct product *p, const struct kernel *k, const char *why, int64_t row, int64_t column)
{
	printf("# %s, depth %d, %dx%d in registers, vector %d: %s at [%lld, %lld]: m=%lld n=%lld k=%lld, strides %lld %lld %lld %lld, "
	       "start %s\n", k->key, k->shape.depth, k->shape.item_rows, k->shape.item_columns, k->shape.vector, why, (long long)row,
	       (long long)column, (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->a.stride, (long long)p->b.stride,
	       (long long)p->start.stride, (long long)p->c.stride, start_words[p->start_kind]);
	return 1;
}

static int is_element(const struct product *p, int64_t at, int64_t *row, int64_t *column)
{
	int64_t k = at - p->c.offset;

	*row = k / p->c.stride;
	*column = k % p->c.stride;
	return k >= 0 && *row < p->m && *column < p->n;
}

static int is_wrong(const struct product *p, const struct kernel *k, const unsigned char *after)
{
	int64_t row, column;

	for (int64_t at = 0; at < p->c.length; at++) {
		int size = sizes[p->c.dtype];

		if (!is_element(p, at, &row, &column)) {
			if (memcmp(after + at * size, p->c.bytes + at * size, (size_t)size))
				return fails(p, k, "written beside c", row, column);
		} else if (!is_right(p, row, column, load(p->c.dtype, after, at))) {
			return fails(p, k, "beyond the bound", row, column);
		}
	}
	return 0;
}

/* NaN equals NaN. */
static int differs(const struct product *p, const struct kernel *k, const unsigned char *x, const unsigned char *y)
{
	int64_t row, column;
	int size = sizes[p->c.dtype];

	for (int64_t at = 0; at < p->c.length; at++)
		if (memcmp(x + at * size, y + at * size, (size_t)size) && is_element(p, at, &row, &column) &&
		    !(isnan(load(p->c.dtype, x, at)) && isnan(load(p->c.dtype, y, at))))
			return fails(p, k, "other bits than the first kernel's", row, column);
	return 0;
}

/* ---- what is run ---- */

static int no_memory;                            /* the number of kernels that need more local memory or larger groups than the device has */

static const int awkward[] = { 1, 2, 3, 5, 16, 17, 33, 64, 65, 100 };
enum { AWKWARD = sizeof awkward / sizeof *awkward, TILES = 8 };

/* Runs one product by several kernels; kernels whose `fma` is that of the first kernel must give the bits of the first kernel. */
static int product_fails(const struct kernel *kernels, int n, int64_t rows, int64_t columns, int64_t depth, int start_kind)
{
	struct product p = make_product(&kernels[0].shape, rows, columns, depth, start_kind);
	unsigned char *first = run(&kernels[0], &p);
	int failed = is_wrong(&p, &kernels[0], first);

	for (int t = 1; t < n && !failed; t++) {
		unsigned char *after = run(&kernels[t], &p);

		failed = is_wrong(&p, &kernels[t], after) ||
		         (kernels[t].shape.fma == kernels[0].shape.fma && differs(&p, &kernels[t], first, after));
		resize(after, 0);
	}
	resize(first, 0);
	free_product(&p);
	return failed;
}

/* Runs products of every m with every n of `awkward` in turn, or of random pairs in fewer than 100 cases; k is random, start varies. */
static int cases_fail(const struct kernel *kernels, int n, int cases)
{
	int failed = 0;

	for (int c = 0; c < cases && !failed; c++) {
		int pick = cases < AWKWARD * AWKWARD ? random_below(AWKWARD * AWKWARD) : c % (AWKWARD * AWKWARD);
		int k = random_below(AWKWARD + 1);

		failed = product_fails(kernels, n, awkward[pick % AWKWARD], awkward[pick / AWKWARD], k < AWKWARD ? awkward[k] : 0,
		                       c % STARTS);
	}
	/* An empty product does nothing, and is no error. */
	return failed || product_fails(kernels, n, 0, 5, 3, ABSENT) || product_fails(kernels, n, 5, 0, 3, ABSENT);
}

struct form { int local, rows, columns, depth, item_rows, item_columns, vector, no_fma; };

/* Returns s with the sizes of a form.  Without local memory a vector of doubles has half of the form's elements, if the form has more
   than 2, and no vector is wider than the device's. */
static struct cg_gemm_shape shape_of(struct cg_gemm_shape s, const struct form *f)
{
	int part = s.dtype == REF_F64 && !f->local && f->vector > 2 ? 2 : 1;

	while (!f->local && f->vector / part * (s.dtype == REF_F64 ? 8 : 4) > device.vector_bytes)
		part *= 2;
	s.local = f->local;
	s.rows = f->rows;
	s.columns = f->columns / part;
	s.depth = f->depth;
	s.item_rows = f->item_rows;
	s.item_columns = f->item_columns / part;
	s.vector = f->vector / part;
	s.fma = !f->no_fma && device.fma[s.dtype == REF_F64];
	return s;
}

static int has_memory(const struct cg_gemm_shape *s)
{
	size_t global[2], local[2];

	cg_gemm_launch(s, 1, 1, global, local);
	return cg_gemm_local_bytes(s) <= device.local_bytes && local[0] <= device.group;
}

/* The forms of kernels. The first two forms are run for every dtype and transposition, and are small, so that there are several groups;
   each further form is run for one dtype and transposition. */
static const struct form forms[] = {
	{ 0, 16, 96, 32, 8, 48, 16, 0 }, { 1, 16, 32, 8, 2, 4, 4, 0 },
	{ 0, 8, 48, 24, 4, 24, 8, 0 },   { 1, 32, 32, 8, 8, 8, 4, 0 },
	{ 0, 16, 24, 20, 4, 12, 4, 0 },  { 1, 8, 16, 16, 1, 4, 2, 1 },
	{ 0, 8, 12, 10, 2, 6, 2, 1 },    { 1, 16, 4, 4, 4, 4, 4, 0 },
};
enum { WIDE, LOCAL, MORE, NARROW = 4, SHORT, FORMS = sizeof forms / sizeof *forms };
static int narrow;                               /* 1: the form NARROW is run instead of WIDE */

static int shape_fails(const struct cg_gemm_shape *s, int which, int cases)
{
	const int wanted[] = { narrow ? NARROW : WIDE, LOCAL, MORE + which / 3 };
	struct kernel kernels[TILES];
	int n = 0, failed;

	for (int k = 0; k < (which % 3 || narrow ? 2 : 3); k++) {
		struct cg_gemm_shape whole = shape_of(*s, &forms[wanted[k]]);

		if (has_memory(&whole))
			kernels[n++] = build(&whole);
		else
			no_memory++;
	}
	failed = !n || cases_fail(kernels, n, cases);
	while (n)
		free_kernel(&kernels[--n]);
	return failed;
}

/* Runs products by a small form and by the tiles that the tables choose for a GPU and for a CPU, where these fit into the device. */
static int chosen_fails(struct cg_gemm_shape s, int64_t m, int64_t n)
{
	const struct cg_gemm_shape small = shape_of(s, &forms[LOCAL]);
	struct kernel kernels[TILES];
	int count = 1, failed;

	kernels[0] = build(&small);
	for (int cpu = 0; cpu < 2; cpu++) {
		struct cg_gemm_limits limits = { cpu, 1, 256, 1 << 20, device.vector_bytes, (int)device.fma[s.dtype == REF_F64] };

		if (cg_gemm_tile(&s, &limits, m, n))
			return 1;
		if (has_memory(&s))
			kernels[count++] = build(&s);
		else
			no_memory++;
	}
	failed = product_fails(kernels, count, m, n, 150, MATRIX) || product_fails(kernels, count, m / 3, n / 5, 260, ITSELF);
	while (count)
		free_kernel(&kernels[--count]);
	return failed;
}

/* Runs a product with more rows than a launch has groups for, so that a group makes more than one tile. */
static int tall_fails(void)
{
	struct cg_gemm_shape s = shape_of((struct cg_gemm_shape){ .dtype = REF_F32 }, &forms[SHORT]);
	struct kernel k;
	size_t global[2], local[2];
	int64_t m = 65535 * (int64_t)s.rows + 3;
	int failed;

	if (!has_memory(&s)) {
		no_memory++;
		return 0;
	}
	k = build(&s);
	failed = !cg_gemm_launch(&s, m, 1, global, local) || global[1] != 65535 || product_fails(&k, 1, m, 1, 1, ROW);
	free_kernel(&k);
	return failed;
}

int main(int argc, char **argv)
{
	static const struct { int dtype, ta, tb; int64_t m, n; } chosen[] = {
		{ REF_F32, 0, 1, 300, 500 }, { REF_F16, 1, 0, 70, 200 }, { REF_F64, 0, 0, 140, 150 }, { REF_BF16, 1, 1, 3, 700 }
	};
	int cases = argc > 1 ? atoi(argv[1]) : 100, failed = 0, which = 0, left = 0, status;

	narrow = argc > 2 && !strcmp(argv[2], "narrow");
	all_optimized = argc < 3 || strcmp(argv[2], "f32");
	random_start();
	status = open_device();
	if (status)
		return status;
	for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
		for (int t = 0; t < 4; t++, which++) {
			/* In f16 and bf16, start and c have each of the four pairs of types, real or acc; each pair has another
			   transposition in f16 than in bf16. */
			int way = dtype == REF_F16 ? t : dtype == REF_BF16 ? 3 - t : 0;
			struct cg_gemm_shape s = { .dtype = dtype, .transpose_a = t >> 1, .transpose_b = t & 1, .start_acc = way & 1,
				.c_acc = way >> 1 };

			if (dtype == REF_F64 && !device.doubles)
				left++;
			else
				failed += shape_fails(&s, which, cases);
		}
	for (size_t k = 0; k < sizeof chosen / sizeof *chosen; k++) {
		struct cg_gemm_shape s = { .dtype = chosen[k].dtype, .transpose_a = chosen[k].ta, .transpose_b = chosen[k].tb };

		if ((s.dtype != REF_F64 || device.doubles) && cases > 9)
			failed += chosen_fails(s, chosen[k].m, chosen[k].n);
	}
	failed += cases > 9 && tall_fails();
	printf("# %d products of a dtype and a transposition: %d wrong, %d left out without f64, %d kernels without enough local "
	       "memory; largest error of a sum %.2f of its tolerance\n", which, failed, left, no_memory, worst);
	return failed != 0;
}
