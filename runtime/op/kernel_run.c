/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cg_kernel_run: runs the point functions or the sums of one stage of any cell on the caller's memory.  Arguments are matched by name.
 */
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/op/op.h"

/* Without means over units, a stage has at most five functions: for its input, for its elements, for partial sums, for the sums, and for
 * sums over units. */
enum { ARGS_MAX = 4 * CG_SLOTS_MAX, FUNCTIONS = 5 };

struct call {
	struct cg_stream *stream;
	const struct cg_kernel *kernel;
	const struct cg_kernel_entry *entry;
	int64_t rows, units;
	const struct cg_arg *args;
	int n;
};

#define REFUSE(...) cg_fail(CG_BAD_ARGUMENT, "cg_kernel_run: " __VA_ARGS__)

static int find(const struct call *c, const char *name)
{
	for (int k = 0; k < c->n; k++)
		if (!strcmp(c->args[k].name, name))
			return k;
	return -1;
}

/* The index of what the caller gave for an argument; -1: nothing. */
static int find_given(const struct call *c, const struct cg_argument *a)
{
	return cg_is_shared(a) ? -1 : find(c, a->name);
}

static size_t element(const struct call *c, const struct cg_argument *a)
{
	return a->type == CG_TYPE_ACC ? cg_acc_bytes(c->kernel->dtype) : cg_dtype_bytes(c->kernel->dtype);
}

/* The number of elements that an argument has in one row. */
static int64_t width(const struct call *c, const struct cg_argument *a)
{
	return a->kind == CG_KIND_ELEMENT ? 1 : c->units;
}

/* Bytes from an argument's first element to the end of its last. */
static int extent(const struct call *c, const struct cg_argument *a, const struct cg_arg *given, size_t *bytes)
{
	int64_t rows = a->kind == CG_KIND_TENSOR ? c->rows : 1, elements;

	*bytes = 0;
	if (!rows)
		return CG_OK;
	if (rows > 1 && given->stride < c->units)
		return REFUSE("%s: stride: expected at least units=%lld, got %lld", a->name, (long long)c->units,
		              (long long)given->stride);
	if (__builtin_mul_overflow(rows - 1, rows > 1 ? given->stride : 0, &elements) ||
	    __builtin_add_overflow(elements, width(c, a), &elements) || elements > (int64_t)(PTRDIFF_MAX / 8))
		return REFUSE("%s: expected rows that span at most PTRDIFF_MAX/8 elements, got %lld rows with a stride of %lld elements", a->name,
		              (long long)rows, (long long)given->stride);
	*bytes = (size_t)elements * element(c, a);
	return CG_OK;
}

static int check_memory(const struct call *c, const struct cg_argument *a, const struct cg_arg *given)
{
	size_t bytes;

	if (given->mem.place != CG_HOST && given->mem.place != CG_DEVICE)
		return REFUSE("%s: cg_mem.place: expected CG_HOST=%d or CG_DEVICE=%d, got %d", a->name, CG_HOST, CG_DEVICE,
		              given->mem.place);
	CG_TRY(cg_memory_check(c->stream->context, "cg_kernel_run", a->name, given->mem));
	CG_TRY(extent(c, a, given, &bytes));
	if (given->mem.bytes < bytes)
		return REFUSE("%s: expected [%lld, %lld] %s, at least %zu bytes, got %zu bytes", a->name,
		              (long long)(a->kind == CG_KIND_TENSOR ? c->rows : 1), (long long)width(c, a),
		              cg_dtype_name(a->type == CG_TYPE_ACC && c->kernel->dtype != CG_F64 ? CG_F32 : c->kernel->dtype), bytes,
		              given->mem.bytes);
	if (given->mem.offset % element(c, a) ||
	    (given->mem.place == CG_HOST && ((uintptr_t)given->mem.data + given->mem.offset) % element(c, a)))
		return REFUSE("%s: cg_mem: expected an offset and, in host memory, data that are multiples of the %zu bytes of an "
		              "element, got offset %zu and data %p", a->name, element(c, a), given->mem.offset, given->mem.data);
	return CG_OK;
}

/* Do two arguments share an element?  Arguments in one buffer may be interleaved row by row, as gates are. */
static int overlap(const struct call *c, const struct cg_argument *a, const struct cg_arg *x, const struct cg_argument *b,
                   const struct cg_arg *y)
{
	uintptr_t p = (uintptr_t)x->mem.data + x->mem.offset, q = (uintptr_t)y->mem.data + y->mem.offset;
	size_t m = 0, n = 0, pitch, between;

	/* A handle of device memory need not be an address: ranges are compared only if the handles are equal. */
	if (x->mem.place == CG_DEVICE || y->mem.place == CG_DEVICE) {
		if (x->mem.data != y->mem.data)
			return 0;
		p = x->mem.offset;
		q = y->mem.offset;
	}
	if (extent(c, a, x, &m) || extent(c, b, y, &n) || !m || !n || p + m <= q || q + n <= p)
		return 0;
	pitch = (size_t)x->stride * element(c, a);
	if (a->kind != CG_KIND_TENSOR || b->kind != CG_KIND_TENSOR || element(c, a) != element(c, b) || x->stride != y->stride ||
	    c->rows < 2)
		return 1;
	between = p < q ? (size_t)(q - p) % pitch : (pitch - (size_t)(p - q) % pitch) % pitch;
	return between < (size_t)c->units * element(c, a) || pitch - between < (size_t)c->units * element(c, a);
}

/* Checks that an output shares memory with no other argument of the function. */
static int check_overlap(const struct call *c, const struct cg_function *function)
{
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		int x = a->out ? find_given(c, a) : -1;

		for (int j = 0; x >= 0 && c->args[x].mem.data && j < function->n_arguments; j++) {
			const struct cg_argument *b = &function->arguments[j];
			int y = find_given(c, b);

			if (k != j && y >= 0 && x != y && c->args[y].mem.data && overlap(c, a, &c->args[x], b, &c->args[y]))
				return REFUSE("%s: this output overlaps %s: expected separate memory", a->name, b->name);
		}
	}
	return CG_OK;
}

/* Binds an argument that the caller did not give: a param gets its default, `accumulate` gets 0, an output is absent; a missing input, or a
 * param without a default, is a failure. */
static int bind_missing(const struct call *c, const struct cg_argument *a, struct cg_operand *operand)
{
	const struct cg_param *param = &c->kernel->cell->params[a->kind == CG_KIND_SCALAR ? a->index : 0];

	if (a->out || a->kind == CG_KIND_COUNT)
		return CG_OK;
	if (a->kind != CG_KIND_SCALAR)
		return REFUSE("%s: missing: expected %s", a->name,
		              a->kind == CG_KIND_TENSOR ? "[rows, units]" : a->kind == CG_KIND_PER_UNIT ? "[units]" : "[1]");
	if (!param->given)
		return REFUSE("%s: missing: expected a value, since the param has no default", a->name);
	operand->value = cg_round(c->kernel->dtype, param->value);
	return CG_OK;
}

/* Binds an argument by its name. */
static int bind_given(const void *of, const struct cg_argument *a, struct cg_operand *operand)
{
	const struct call *c = of;
	int k = find_given(c, a);
	const struct cg_arg *given;

	*operand = (struct cg_operand){ .value = 0 };
	if (k < 0)
		return cg_is_shared(a) ? CG_OK : bind_missing(c, a, operand);
	given = &c->args[k];
	if (a->kind == CG_KIND_SCALAR)
		operand->value = cg_round(c->kernel->dtype, given->value);
	else if (a->kind == CG_KIND_COUNT)
		operand->value = given->value != 0;
	else if (given->mem.data) {
		CG_TRY(check_memory(c, a, given));
		operand->mem = given->mem;
		operand->stride = given->stride;
	}
	return CG_OK;
}

static int is_wanted(const struct call *c, const struct cg_function *function)
{
	for (int k = 0; k < function->n_arguments; k++) {
		int given = function->arguments[k].out ? find_given(c, &function->arguments[k]) : -1;

		if (given >= 0 && c->args[given].mem.data)
			return 1;
	}
	return 0;
}

static int check_names(const struct call *c)
{
	const struct cg_pass_plan *plan = c->entry->plan;
	const char *names[CG_SLOTS_MAX * FUNCTIONS], *near;
	unsigned char known[ARGS_MAX] = { 0 };
	int n = 0;

	for (int p = 0; p < plan->n_functions; p++)
		for (int k = 2; k < plan->functions[p].n_arguments; k++) {
			const struct cg_argument *a = &plan->functions[p].arguments[k];
			int given = find_given(c, a);

			if (given >= 0)
				known[given] = 1;
			if (!cg_is_shared(a) && n < CG_SLOTS_MAX * FUNCTIONS)
				names[n++] = a->name;
		}
	for (int k = 0; k < c->n; k++) {
		if (known[k])
			continue;
		near = cg_nearest(c->args[k].name, names, n);
		return near ? REFUSE("kernel %s has no argument '%.60s'; did you mean '%s'?", plan->key, c->args[k].name, near)
		            : REFUSE("kernel %s has no argument '%.60s'", plan->key, c->args[k].name);
	}
	return CG_OK;
}

/* The index of the function that computes the partial sums which function p adds. */
static int part_of(const struct cg_pass_plan *plan, int p)
{
	while (plan->functions[p].shape != CG_FUNCTION_SUM_PART)
		p--;
	return p;
}

/* Marks the functions to launch: those of the kernel's shape of which an output is present, and the partial sums and means that these
 * need. */
static void choose_functions(const struct call *c, unsigned char wanted[CG_FUNCTIONS_MAX])
{
	const struct cg_pass_plan *plan = c->entry->plan;
	int point = c->kernel->shape == CG_POINT;

	for (int p = 0; p < plan->n_functions; p++) {
		const struct cg_function *function = &plan->functions[p];

		if ((function->serves == CG_FUNCTION_POINT) != point || !is_wanted(c, function))
			continue;
		wanted[p] = 1;
		/* A sum adds the partial sums that a function before it computes. */
		if (function->shape != CG_FUNCTION_POINT)
			wanted[part_of(plan, p)] = 1;
	}
	for (int p = 0; p < plan->n_functions; p++)
		for (int k = p - plan->functions[p].mean_functions; wanted[p] && k < p; k++)
			wanted[k] = 1;
}

/* Raises *partial and *means to the bytes of a function's partial sums and of its means, which one function writes and the next ones
 * read. */
static int measure_own(const struct call *c, const struct cg_function *function, size_t *partial, size_t *means)
{
	int64_t blocks = c->rows / CG_SUM_ROWS + (c->rows % CG_SUM_ROWS != 0), sums, of_rows;
	size_t bytes = cg_acc_bytes(c->kernel->dtype);

	if (__builtin_mul_overflow(blocks, cg_sum_values(function), &sums) || __builtin_mul_overflow(sums, c->units, &sums) ||
	    __builtin_mul_overflow(c->rows, function->means, &of_rows) || sums > PTRDIFF_MAX / 16 || of_rows > PTRDIFF_MAX / 16)
		return REFUSE("rows: expected fewer, since the partial sums or means of %lld rows are more than PTRDIFF_MAX/16 elements",
		              (long long)c->rows);
	*partial = (size_t)sums * bytes > *partial ? (size_t)sums * bytes : *partial;
	*means = (size_t)of_rows * bytes > *means ? (size_t)of_rows * bytes : *means;
	return CG_OK;
}

/* The operands of each function of a kernel; wanted[p] is 1 if the call launches function p. */
struct operands {
	unsigned char wanted[CG_FUNCTIONS_MAX];
	struct cg_operand (*of)[CG_SLOTS_MAX];
};

/* The operand of the same argument in a function before function p, or NULL. */
static struct cg_operand *find_earlier(const struct cg_pass_plan *plan, const struct operands *all, int p, const struct cg_argument *a)
{
	for (int q = 0; q < p; q++)
		for (int k = 0; all->wanted[q] && k < plan->functions[q].n_arguments; k++) {
			const struct cg_argument *b = &plan->functions[q].arguments[k];

			if (!cg_is_shared(b) && cg_is_parameter(&plan->functions[q], b) && !strcmp(a->name, b->name))
				return &all->of[q][k];
		}
	return NULL;
}

/* Is the operand in host memory, which is to be copied?  The copies are dense. */
static int is_staged(const struct call *c, const struct cg_function *function, const struct cg_argument *a, const struct cg_operand *operand)
{
	return !c->stream->context->backend->host && cg_is_parameter(function, a) && !cg_is_shared(a) && operand->mem.data &&
	       operand->mem.place != CG_DEVICE;
}

/* Stages the operands of function p that are in host memory, each argument once. */
static int stage_operands(const struct call *c, const struct operands *all, int p, struct cg_staging *stage)
{
	const struct cg_function *function = &c->entry->plan->functions[p];

	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		struct cg_operand *operand = &all->of[p][k];
		size_t bytes = (size_t)width(c, a) * element(c, a);

		if (!is_staged(c, function, a, operand) || find_earlier(c->entry->plan, all, p, a))
			continue;
		if (stage->n == CG_STAGED_MAX)
			return cg_fail(CG_UNSUPPORTED, "cg_kernel_run: kernel %s has more than %d arguments in host memory", c->entry->plan->key,
			               CG_STAGED_MAX);
		cg_staging_add(stage, &operand->mem,
		               (struct cg_staged_rows){ .blocks = { 1, bytes, bytes },
		                                        .rows = { a->kind == CG_KIND_TENSOR ? c->rows : 1,
		                                                  (size_t)operand->stride * element(c, a), bytes }, .bytes = bytes },
		               !a->out || function->shape != CG_FUNCTION_POINT, a->out);
		operand->stride = c->units;
	}
	return CG_OK;
}

/* Binds the operands of function p that are in memory of the call's own, partial sums or means, or that an earlier function staged. */
static void bind_own(const struct call *c, const struct operands *all, int p, struct cg_mem partial, struct cg_mem means)
{
	const struct cg_function *function = &c->entry->plan->functions[p];

	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		struct cg_operand *operand = &all->of[p][k];

		if (cg_is_shared(a))
			operand->mem = a->kind == CG_KIND_SCRATCH ? partial : means;
		else if (is_staged(c, function, a, operand))
			*operand = *find_earlier(c->entry->plan, all, p, a);
	}
}

static int launch(const struct call *c, const struct operands *all, struct cg_mem partial, struct cg_mem means)
{
	for (int p = 0; p < c->entry->plan->n_functions; p++)
		if (all->wanted[p]) {
			bind_own(c, all, p, partial, means);
			CG_TRY(c->stream->context->backend->launch(c->stream->queue, c->entry->built, p, c->rows, c->units, all->of[p]));
		}
	return CG_OK;
}

/* Checks and binds all arguments before the call gets its workspace or launches a function, so that a call that fails its checks changes no
 * argument. */
static int run_with(const struct call *c, struct operands *all)
{
	const struct cg_pass_plan *plan = c->entry->plan;
	size_t partial = 0, means = 0;
	struct cg_staging stage;
	struct cg_mem scratch;

	cg_staging_begin(&stage, c->stream);
	choose_functions(c, all->wanted);
	for (int p = 0; p < plan->n_functions; p++)
		if (all->wanted[p]) {
			CG_TRY(cg_bind(&plan->functions[p], bind_given, c, all->of[p]));
			CG_TRY(check_overlap(c, &plan->functions[p]));
		}
	for (int p = 0; p < plan->n_functions; p++)
		if (all->wanted[p])
			CG_TRY(measure_own(c, &plan->functions[p], &partial, &means));
	for (int p = 0; p < plan->n_functions; p++)
		if (all->wanted[p])
			CG_TRY(stage_operands(c, all, p, &stage));
	/* The means stand behind the partial sums, aligned as these are. */
	partial = (partial + CG_WORK_ALIGN - 1) / CG_WORK_ALIGN * CG_WORK_ALIGN;
	CG_TRY(cg_staging_open(&stage, partial + means, &scratch));
	return cg_staging_close(&stage, launch(c, all, scratch, means ? cg_part(scratch, partial, means) : (struct cg_mem){ .bytes = 0 }));
}

static int run(const struct call *c)
{
	struct cg_operand few[FUNCTIONS][CG_SLOTS_MAX];
	struct operands all = { .of = few };
	int n = c->entry->plan->n_functions, code;

	if (n <= FUNCTIONS)
		return run_with(c, &all);
	all.of = cg_memory(NULL, (size_t)n * sizeof *all.of);
	if (!all.of)
		return CG_NO_MEMORY;
	code = run_with(c, &all);
	cg_memory(all.of, 0);
	return code;
}

/* Checks the call and runs it.  *known is set to the kernel's options once the kernel has been checked. */
static int check_and_run(struct cg_stream *stream, const struct cg_kernel *kernel, int64_t rows, int64_t units,
                         const struct cg_arg *args, int n, int *known)
{
	struct call c = { stream, kernel, NULL, rows, units, args, n };
	int options;

	CG_TRY(cg_context_check(stream ? stream->context : NULL, "cg_kernel_run"));
	CG_TRY(cg_kernel_check(kernel, "cg_kernel_run", &options));
	if (kernel->shape != CG_POINT && kernel->shape != CG_SUM)
		return cg_fail(CG_UNSUPPORTED, "cg_kernel_run: shape: expected CG_POINT=%d or CG_SUM=%d, got %d", CG_POINT, CG_SUM, kernel->shape);
	*known = options;
	if (!kernel->stage && kernel->cell->n_stages > 1)
		return REFUSE("stage: expected one stage of cell %s, 1 to %d, since matrix products lie between its stages, got 0 for all",
		              kernel->cell->name,
		              kernel->cell->n_stages);
	if (rows < 0 || units < 1)
		return REFUSE("expected rows of at least 0 and units of at least 1, got rows=%lld and units=%lld", (long long)rows,
		              (long long)units);
	if (n < 0 || n > ARGS_MAX)
		return REFUSE("n: expected a number of arguments from 0 to %d, got %d", ARGS_MAX, n);
	if (n && !args)
		return REFUSE("args: expected n=%d arguments, got NULL", n);
	for (int k = 0; k < n; k++) {
		if (!args[k].name)
			return REFUSE("args[%d]: name: expected the name of an argument, got NULL", k);
		if (find(&c, args[k].name) != k)
			return REFUSE("args: argument '%.60s' is given twice", args[k].name);
	}
	if (stream->context->backend->supports(stream->context->device, kernel->dtype))
		return cg_fail_in(CG_UNSUPPORTED, "cg_kernel_run");
	CG_TRY(cg_open_cell_kernel(stream->context, kernel->cell, options, kernel->pass, kernel->cell->n_stages > 1 ? kernel->stage : 0,
	                           kernel->dtype, &c.entry));
	CG_TRY(check_names(&c));
	return run(&c);
}

int cg_kernel_run(struct cg_stream *stream, const struct cg_kernel *kernel, int64_t rows, int64_t units,
                  const struct cg_arg *args, int n)
{
	int options = -1, code;
	double start;

	if (!cg_is_verbose(stream))
		return check_and_run(stream, kernel, rows, units, args, n, &options);
	start = cg_milliseconds();
	code = check_and_run(stream, kernel, rows, units, args, n, &options);
	cg_verbose_print_kernel(stream, kernel, options, rows, units, code, cg_milliseconds() - start);
	return code;
}
