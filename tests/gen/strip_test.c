/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter of strips gives the bits of the compiled kernels, for every built-in cell, set of options, pass and dtype, and for the
 * cells of the shelf that the build compiles in f32: it is compared with the kernels that the build compiled, or with the text of a
 * built-in cell's pass that the build did not compile, compiled here. Texts in
 * CUDA C, of every built-in cell and pass with all options in one dtype or more, are compiled as C++, in both forms, and called for each
 * thread of grids that are too small and too large. Inputs have every magnitude and the values at the edges; views have strides and begin
 * at any element; arguments are absent in turn; the numbers of rows and units are small, or near multiples of a block's
 * 64 rows and a strip. NaN equals NaN.
 *
 * Subnormal floats are flushed, as in the library's threads. With the flush on, the test fails if a compiler leaves out an operation that
 * changes nothing but subnormals.
 *
 * Built with the bundles (the compiled kernels) of these cells, with the interpreter strip.c for every dtype, all with
 * CG_ISA=baseline, and with the header of `cellgen cells`. CC and CXX, in the environment, or else cc and c++ compile texts; without
 * them tests are skipped.
 */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#if defined __SSE2__
#include <xmmintrin.h>
#endif

#include <cmocka.h>

#include "tests/gen/every.h"

#include "backends/cpu/cells.h"
#include "backends/cpu/compiled.h"

enum { UNITS = CG_STRIP + 1, ROWS = 130, PAD = 3, SHIFT = 8, POOL = 1 << 16, ARGUMENTS = 128, SLOT = ROWS * (UNITS + PAD) + SHIFT };

#define DECLARE(cell, dtype) extern const struct cg_compiled CG_COMPILED(cell, dtype)[];
#define DECLARE_ALL(with, code, dtype, ...) CG_CELLS(DECLARE, dtype) cg_strip cg_strip_##dtype##_baseline;
CG_DTYPES(DECLARE_ALL,)
CG_FAST_SHELF(DECLARE, f32)

#define NAME(cell, with) #cell,
static const char *const cells[] = { CG_CELLS(NAME,) };
enum { CELLS = sizeof cells / sizeof *cells };

#define TABLE(cell, dtype) CG_COMPILED(cell, dtype),
#define TABLES(with, code, dtype, ...) { CG_CELLS(TABLE, dtype) },
static const struct cg_compiled *const tables[][CELLS] = { CG_DTYPES(TABLES,) };

static const char *const shelf[] = { CG_FAST_SHELF(NAME,) };
static const struct cg_compiled *const shelf_tables[] = { CG_FAST_SHELF(TABLE, f32) };

#define STRIP(with, code, dtype, ...) cg_strip_##dtype##_baseline,
static cg_strip *const strips[] = { CG_DTYPES(STRIP,) };

typedef void call(int64_t rows, int64_t units, const struct cg_bound *);

/* Switches the flush of subnormal floats to zero on or off; the library's threads have it on. */
static void flush(int on)
{
#if defined __SSE2__
	_mm_setcsr(on ? _mm_getcsr() | 0x8040 : _mm_getcsr() & ~0x8040u);
#elif defined __aarch64__
	uint64_t fpcr;

	__asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
	fpcr = on ? fpcr | 1u << 24 : fpcr & ~(UINT64_C(1) << 24);
	__asm__ volatile("msr fpcr, %0" : : "r"(fpcr));
#else
	(void)on;
#endif
}

/* ---- inputs ---- */

static union { double f64[POOL]; float f32[POOL]; uint16_t bits16[POOL]; } pool[2];     /* random elements: [0] in the dtype, [1] in acc */

/* A random number of any sign and magnitude, mostly of the size of activations, sometimes a value at an edge. */
static double anything(double smallest, double largest)
{
	const double edges[] = { 0, 1, INFINITY, NAN, smallest, smallest / 4, smallest / 2, largest, 0.5, 2, 88, 104, 20, 700, 746 };
	double sign = random_bits() & 1 ? -1 : 1;

	switch (random_below(8)) {
	case 0:  return sign * edges[random_below((int)(sizeof edges / sizeof *edges))];
	case 1:  return sign * exp(log(smallest) + random_unit() * (log(largest) - log(smallest)));
	case 2:  return sign * exp(20 * random_unit() - 15);
	default: return sign * (4 * random_unit() - 2);
	}
}

static void fill_pool(int dtype)
{
	for (int k = 0; k < POOL; k++)
		if (dtype == 1) {
			pool[0].f64[k] = pool[1].f64[k] = anything(2.2250738585072014e-308, 1.7976931348623157e308);
		} else {
			float x = (float)anything(1.17549435e-38, 3.40282346e38);

			pool[1].f32[k] = x;
			if (dtype == 0)
				pool[0].f32[k] = x;
			else if (random_below(8))
				/* Numbers of magnitudes from 0.5 to below 1 in f16, and to below 2 in bf16. */
				pool[0].bits16[k] = (uint16_t)((random_bits() & 0x83ff) | (dtype == 2 ? 0x3800 : 0x3f00));
			else
				pool[0].bits16[k] = (uint16_t)random_bits();
		}
}

static size_t size_of(int dtype, int type)
{
	return type == CG_TYPE_ACC ? dtype == 1 ? 8 : 4 : dtype == 1 ? 8 : dtype == 0 ? 4 : 2;
}

/* ---- one function, both ways ---- */

/* The distance in elements from the first to the second place of a sum's result in CUDA C; 0 in the other dialects: there is none. */
enum { SECOND = 2 * UNITS };
static int second;
static char *ours[ARGUMENTS], *theirs[ARGUMENTS], *scratch[2];
static void *registers;
static long elements;

static int same(int dtype, int type, const void *a, const void *b)
{
	size_t size = size_of(dtype, type);

	if (!memcmp(a, b, size))
		return 1;
	if (size == 8)
		return isnan(*(const double *)a) && isnan(*(const double *)b);
	if (size == 4)
		return isnan(*(const float *)a) && isnan(*(const float *)b);
	for (int k = 0; k < 2; k++) {
		uint16_t bits;

		memcpy(&bits, k ? b : a, 2);
		if ((bits & 0x7fff) <= (dtype == 2 ? 0x7c00 : 0x7f80))
			return 0;
	}
	return 1;
}

static unsigned long long bits(const char *at, size_t size)
{
	unsigned long long all = 0;
	uint32_t four;
	uint16_t two;

	if (size == 8)
		memcpy(&all, at, 8);
	else if (size == 4)
		memcpy(&four, at, 4), all = four;
	else
		memcpy(&two, at, 2), all = two;
	return all;
}

/* Is the argument in memory that a call of a function compares: an array, or the means of each row? */
static int is_compared(const struct cg_argument *a)
{
	return cg_is_array(a) || a->kind == CG_KIND_MEANS;
}

/* The number of elements that an argument takes in memory with the longest stride of its rows. */
static size_t count_of(const struct cg_function *function, const struct cg_argument *a, int64_t rows, int64_t units)
{
	if (a->kind == CG_KIND_MEANS)
		return (size_t)(rows * function->means);
	return (size_t)(a->kind == CG_KIND_TENSOR ? rows : 1) * (size_t)(units + PAD);
}

/* Runs a function by the interpreter and by a kernel, and compares the bits. absent: the index of the absent argument, or -1. */
static void try_function(const struct cg_pass_plan *plan, const struct cg_function *function, call *compiled, int64_t rows, int64_t units,
                      int absent)
{
	struct cg_bound a[ARGUMENTS], b[ARGUMENTS];
	size_t parts = (size_t)((rows + CG_SUM_ROWS - 1) / CG_SUM_ROWS * units) * (size_t)cg_sum_values(function);
	int dtype = plan->dtype;

	assert_true(function->n_arguments <= ARGUMENTS);
	memset(a, 0, sizeof a);
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *arg = &function->arguments[k];
		size_t size = size_of(dtype, arg->type), count = count_of(function, arg, rows, units);

		if (arg->role == CG_ROLE_ACCUMULATE)
			a[k].value = random_below(2);
		else if (arg->kind == CG_KIND_SCALAR)
			a[k].value = dtype == 1 ? 4 * random_unit() - 1 : (float)(4 * random_unit() - 1);
		a[k].stride = units + random_below(PAD + 1);
		b[k] = a[k];
		if (arg->kind == CG_KIND_SCRATCH) {
			a[k].data = scratch[0];
			b[k].data = scratch[1];
			if (arg->out)
				memset(scratch[0], 0xa5, parts * size);
			else
				for (size_t j = 0; j < parts; j += POOL)
					memcpy(scratch[0] + j * size, &pool[1], (parts - j < POOL ? parts - j : POOL) * size);
			memcpy(scratch[1], scratch[0], parts * size);
		} else if (is_compared(arg)) {
			size_t at = (size_t)random_below(POOL / 2), shift = random_below(2) ? (size_t)random_below(SHIFT) * size : 0;

			count += SHIFT;
			/* Outputs get random elements, too, since the function may add its sums to them. */
			for (size_t j = 0; j < count; j += POOL / 2)
				memcpy(ours[k] + j * size, (char *)&pool[arg->type == CG_TYPE_ACC] + at * size,
				       (count - j < POOL / 2 ? count - j : POOL / 2) * size);
			memcpy(theirs[k], ours[k], count * size);
			if (second && cg_has_second(function, arg)) {
				b[k].value = second;
				memcpy(theirs[k] + (size_t)second * size, ours[k], count * size);
			}
			a[k].data = k == absent ? NULL : ours[k] + shift;
			b[k].data = k == absent ? NULL : (cg_is_written(function, arg) ? theirs[k] : ours[k]) + shift;
		}
	}
	flush(dtype != 1);
	strips[dtype](plan, function, rows, units, a, registers);
	compiled(rows, units, b);
	flush(0);
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *arg = &function->arguments[k];
		size_t size = size_of(dtype, arg->type), count = count_of(function, arg, rows, units);
		const char *x = ours[k], *y = theirs[k];

		if (arg->kind == CG_KIND_SCRATCH && arg->out)
			x = scratch[0], y = scratch[1], count = parts;
		else if (!cg_is_written(function, arg) || !is_compared(arg))
			continue;
		else
			count += SHIFT;
		for (size_t j = 0; second && cg_has_second(function, arg) && j < count; j++)
			if (!same(dtype, arg->type, y + j * size, y + ((size_t)second + j) * size))
				fail_msg("%s [%d, %d]: the second place of %s differs at %d", function->key, (int)rows, (int)units, arg->name, (int)j);
		elements += (long)count;
		if (!memcmp(x, y, count * size))
			continue;
		for (size_t j = 0; j < count; j++)
			if (!same(dtype, arg->type, x + j * size, y + j * size))
				fail_msg("%s [%d, %d], absent %d: %s differs at %d: %llx, compiled %llx", function->key, (int)rows, (int)units,
				         absent, arg->name, (int)j, bits(x + j * size, size), bits(y + j * size, size));
	}
}

static void try_sizes(const struct cg_pass_plan *plan, const struct cg_function *function, call *compiled)
{
	static const int all_rows[] = { 0, 1, 2, 63, 64, 65, 130 }, all_units[] = { 1, 2, 7, CG_STRIP - 1, CG_STRIP, CG_STRIP + 1 };

	for (int r = 0; r < 7; r++)
		for (int u = 0; u < 6; u++)
			/* Large numbers of rows and units are combined with small ones only, but 65 rows also with those of a
			 * strip and more. */
			if (all_rows[r] < 3 || all_units[u] < 8 || (all_rows[r] == 65 && all_units[u] >= CG_STRIP))
				try_function(plan, function, compiled, all_rows[r], all_units[u], -1);
	for (int k = 0; k < function->n_arguments; k++)
		if (cg_is_array(&function->arguments[k]))
			try_function(plan, function, compiled, 3, 9, k);
}

/* ---- the kernels that the build compiled ---- */

static int is_bundled(const struct cg_cell *cell, int pass)
{
	return pass <= CG_PASS_GRAD || (pass != CG_PASS_GRADGRAD && cg_saves_output(cell));
}

/* Tries all kernels of a cell in a dtype, which `table` has.  Returns their number. */
static int try_bundle(const char *name, int dtype, const struct cg_compiled *table)
{
	struct cg_cell *cell = must_find(name);
	int seen = 0;

	fill_pool(dtype);
	for (int n = 0; n < CG_PASS_COUNT << cell->n_options; n++) {
		struct cg_pass_plan *plan;

		if (!is_bundled(cell, n % CG_PASS_COUNT))
			continue;
		plan = must_plan(cell, n / CG_PASS_COUNT, n % CG_PASS_COUNT, 0, dtype);
		for (int k = 0; k < plan->n_functions; k++, seen++) {
			const struct cg_compiled *row = table;

			while (row->key && strcmp(row->key, plan->functions[k].key))
				row++;
			if (!row->key)
				fail_msg("no kernel %s was compiled", plan->functions[k].key);
			try_sizes(plan, &plan->functions[k], row->call);
		}
		cg_plan_free(plan);
	}
	cg_parse_free(cell);
	return seen;
}

static void test_bundles(void **state)
{
	int seen = 0;

	(void)state;
	for (int c = 0; c < CELLS; c++)
		for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
			seen += try_bundle(cells[c], dtype, tables[dtype][c]);
	for (size_t c = 0; c < sizeof shelf / sizeof *shelf; c++)
		seen += try_bundle(shelf[c], CG_DTYPE_F32, shelf_tables[c]);
	printf("# %d kernels, %ld elements\n", seen, elements);
}

/* ---- texts, compiled now ---- */

/* Prints a wrapper around a kernel, with the signature of the kernels in bundles; the kernel is the function's own or its
   second form. */
static void thunk(FILE *file, const struct cg_function *function, const char *key, int lang)
{
	fprintf(file, "%svoid call_%s(int64_t rows, int64_t units, const struct bound *a);\n"
	              "void call_%s(int64_t rows, int64_t units, const struct bound *a)\n{\n",
	        lang == CG_LANG_CUDA ? "extern \"C\" " : "", key, key);
	if (lang == CG_LANG_CUDA)
		fprintf(file, "for (host_first(units, %d); blockIdx.y < gridDim.y; host_next())\n", function->shape != CG_FUNCTION_POINT);
	fprintf(file, "\t%s(rows, units", key);
	for (int k = 2; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];

		if (!cg_is_parameter(function, a))
			continue;
		if (a->kind == CG_KIND_SCALAR || a->kind == CG_KIND_COUNT)
			fprintf(file, ", a[%d].value", k);
		else
			fprintf(file, ", (%s *)a[%d].data", a->type == CG_TYPE_ACC ? "acc" : "real", k);
		if (a->kind == CG_KIND_TENSOR)
			fprintf(file, ", a[%d].stride", k);
		if (lang == CG_LANG_CUDA && cg_has_second(function, a))
			fprintf(file, ", a[%d].value", k);
	}
	fprintf(file, ");\n}\n");
}

/* Sets the key of the function's kernel or, if `one` is 1, of its second form, in which a thread takes one unit.  Returns whether the text
 * has that kernel, and it can run here: threads that run one after the other cannot meet at the barriers of a sum or
 * a mean over units. */
static int key_of(const struct cg_pass_plan *plan, const struct cg_function *function, int lang, int one, char key[CG_KEY_MAX])
{
	if (!one)
		snprintf(key, CG_KEY_MAX, "%s", function->key);
	else
		cg_one_key(function, key);
	if (lang == CG_LANG_CUDA && (function->shape == CG_FUNCTION_SUM_UNITS || function->shape == CG_FUNCTION_MEAN))
		return 0;
	return !one || (lang == CG_LANG_CUDA && function->shape == CG_FUNCTION_POINT && cg_run_units(plan, function) > 1);
}

static void try_compiled(const struct cg_pass_plan *plan, const struct cg_function *function, void *library, const char *key)
{
	char name[512];
	void *symbol;
	call *compiled;

	snprintf(name, sizeof name, "call_%s", key);
	symbol = dlsym(library, name);
	assert_non_null(symbol);
	memcpy(&compiled, &symbol, sizeof compiled);
	try_sizes(plan, function, compiled);
}

static void try_text(const struct cg_pass_plan *plan, int lang, const char *folder, const char *compiler)
{
	struct cg_text text = { resize, NULL, 0, 0, 0 };
	char path[1024], command[4096], key[CG_KEY_MAX];
	FILE *file;
	void *library;

	assert_int_equal(cg_print(plan, lang, &text), 0);
	snprintf(path, sizeof path, "%s/%s.%s", folder, plan->key, lang == CG_LANG_C ? "c" : "cc");
	file = fopen(path, "w");
	assert_non_null(file);
	if (lang == CG_LANG_CUDA)
		fputs("#include \"tests/gen/cuda_host.h\"\n", file);
	fputs(text.at, file);
	fputs("struct bound { void *data; int64_t stride; double value; };\n", file);
	for (int k = 0; k < 2 * plan->n_functions; k++)
		if (key_of(plan, &plan->functions[k / 2], lang, k % 2, key))
			thunk(file, &plan->functions[k / 2], key, lang);
	assert_int_equal(fclose(file), 0);
	resize(text.at, 0);
	snprintf(command, sizeof command, "%s -O1 -ffp-contract=off -shared -fPIC -I'%s' -o %s/%s.so %s", compiler,
	         getenv("srcdir") ? getenv("srcdir") : ".", folder, plan->key, path);
	if (system(command))
		fail_msg("failed: %s", command);
	snprintf(path, sizeof path, "%s/%s.so", folder, plan->key);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fail_msg("%s", dlerror());
	second = lang == CG_LANG_CUDA ? SECOND : 0;
	for (int k = 0; k < 2 * plan->n_functions; k++)
		if (key_of(plan, &plan->functions[k / 2], lang, k % 2, key))
			try_compiled(plan, &plan->functions[k / 2], library, key);
	second = 0;
	dlclose(library);
}

/* The command of the compiler that the environment variable names, or of `otherwise`, with flags; NULL if it does not run. */
static const char *compiler(const char *variable, const char *otherwise, const char *flags)
{
	static char command_line[1024];
	const char *given = getenv(variable);
	char command[1100];

	snprintf(command_line, sizeof command_line, "%s", given && *given ? given : otherwise);
	snprintf(command, sizeof command, "%s --version >/dev/null 2>&1", command_line);
	if (system(command)) {
		printf("# no compiler: %s=%s\n", variable, command_line);
		return NULL;
	}
	snprintf(command_line + strlen(command_line), sizeof command_line - strlen(command_line), " %s", flags);
	return command_line;
}

/* Tries the texts of one pass of the built-in cells, of a cell with learnt scalars and of one with means.  all = 1: those built-in cells
   for which the build has not compiled the pass, in every dtype, and the other two cells in one dtype, with every set of options; all = 0:
   lstm_block in every dtype, and each other cell in one dtype, with all options on.  For a step of a sequence this one dtype is f16 or
   bf16. */
static void try_pass(int pass, int lang, int all, const char *command_line)
{
	const char *top = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	char folder[256], command[300], name[32];

	snprintf(folder, sizeof folder, "%s/strip.XXXXXX", top);
	assert_non_null(mkdtemp(folder));
	for (int c = 0; c < built_ins() + 2; c++) {
		struct cg_cell *cell = built_in(c, name) ? must_find(name) : must_read(c == built_ins() ? "learnt" : "means");
		int is_built_in = c < built_ins();

		for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++) {
			int last = (1 << cell->n_options) - 1, one = pass > CG_PASS_GRADGRAD ? 2 + (c + pass) % 2 : (c + pass) % 4;

			if (all && is_built_in ? is_bundled(cell, pass) : dtype != one && strcmp(cell->name, "lstm_block"))
				continue;
			fill_pool(dtype);
			for (int options = all ? 0 : last; options <= last; options++) {
				struct cg_pass_plan *plan = must_plan(cell, options, pass, 0, dtype);

				try_text(plan, lang, folder, command_line);
				cg_plan_free(plan);
			}
		}
		cg_parse_free(cell);
	}
	snprintf(command, sizeof command, "rm -rf '%s'", folder);
	assert_int_equal(system(command), 0);
}

static void test_not_bundled(void **state)
{
	const char *command_line = compiler("CC", "cc", "-std=c11");

	(void)state;
	if (!command_line)
		skip();
	for (int pass = 0; pass < CG_PASS_COUNT; pass++)
		try_pass(pass, CG_LANG_C, 1, command_line);
}

/* Tries each pass of lstm_block in every dtype, and each pass of the other built-in cells and of learnt and means in one dtype. */
static void test_cuda(void **state)
{
	const char *command_line = compiler("CXX", "c++", "-std=c++17 -Wno-unknown-pragmas");

	(void)state;
	if (!command_line)
		skip();
	for (int pass = 0; pass < CG_PASS_COUNT; pass++)
		try_pass(pass, CG_LANG_CUDA, 0, command_line);
}

/* ---- f16 and bf16: numbers that a step of a sequence passes to the next are not rounded, although a half cannot hold them ---- */

struct element { const char *name; float acc; uint16_t half; };

static const struct carried {
	const char *cell;
	int options, pass, function;
	struct element inputs[4];             /* `acc` is the value of an input of type acc, `half` of one of type real; others: absent */
	const char *gives;
	float want;
} carried[] = {
	{ "lstm", 0, CG_PASS_SEQ_FORWARD, 0, { { "a_f", 100, 0 }, { "c_prev", 1 + 0x1p-20f, 0 } }, "c", 1 + 0x1p-20f },
	{ "lstm", 0, CG_PASS_SEQ_GRAD, 0, { { "dc", 1 + 0x1p-20f, 0 }, { "f", 0, 0x3c00 } }, "dc_prev", 1 + 0x1p-20f },
	{ "lstm", 1, CG_PASS_SEQ_GRAD, 1, { { "da_f", 0, 0x3c00 }, { "c_prev", 1 + 0x1p-20f, 0 } }, "dp_f", 1 + 0x1p-20f },
	{ "lstm", 1, CG_PASS_SEQ_GRAD, 1, { { "da_o", 0, 0x3c00 }, { "c", 1 + 0x1p-20f, 0 } }, "dp_o", 1 + 0x1p-20f },
	/* dh and dh_out: 2^-13 is a half, 1 + 2^-13 is not */
	{ "gru", 0, CG_PASS_SEQ_GRAD, 0, { { "dh", 1, 0 }, { "dh_out", 0, 0x0800 }, { "z", 0, 0x3c00 } }, "dh_prev", 1 + 0x1p-13f },
	{ "gru", 0, CG_PASS_SEQ_GRAD, 0, { { "dh", 1 + 0x1p-20f, 0 }, { "z", 0, 0x3c00 } }, "dh_prev", 1 + 0x1p-20f },
	{ "gru", 0, CG_PASS_SEQ_GRAD, 0, { { "dh_out", 0, 0x0800 }, { "z", 0, 0x3c00 } }, "dh_prev", 0x1p-13f },
	{ "gru", 0, CG_PASS_SEQ_GRAD, 0, { { "z", 0, 0x3c00 } }, "dh_prev", 0 },
};

static call *bundled(const char *key)
{
	for (int c = 0; c < CELLS; c++)
		for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
			for (const struct cg_compiled *row = tables[dtype][c]; row->key; row++)
				if (!strcmp(row->key, key))
					return row->call;
	fail_msg("no kernel %s was compiled", key);
	return NULL;
}

/* Runs the function on one element, and returns the output `gives`; that of a sum's part is in scratch memory. */
static float give(const struct carried *t, const struct cg_pass_plan *plan, int compiled)
{
	const struct cg_function *function = &plan->functions[t->function];
	struct element memory[ARGUMENTS] = { { NULL, 0, 0 } };
	struct cg_bound bound[ARGUMENTS] = { { NULL, 0, 0 } };
	float sums[ARGUMENTS] = { 0 };
	const float *result = NULL;
	int value = 0, named = 0;

	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];

		for (int j = 0; j < 4 && t->inputs[j].name; j++)
			if (!strcmp(t->inputs[j].name, a->name)) {
				assert_true(!a->out && (a->type == CG_TYPE_ACC) == !t->inputs[j].half);
				memory[k] = t->inputs[j];
				bound[k].data = a->type == CG_TYPE_ACC ? (void *)&memory[k].acc : &memory[k].half;
				named++;
			}
		if (a->kind == CG_KIND_SCRATCH) {
			bound[k].data = sums;
		} else if (a->out && !strcmp(a->name, t->gives)) {
			assert_true(function->shape == CG_FUNCTION_SUM_PART || a->type == CG_TYPE_ACC);
			result = function->shape == CG_FUNCTION_SUM_PART ? &sums[value] : &memory[k].acc;
			bound[k].data = function->shape == CG_FUNCTION_SUM_PART ? NULL : &memory[k].acc;
		}
		value += a->out && a->kind != CG_KIND_SCRATCH;
	}
	for (int j = 0; j < 4 && t->inputs[j].name; j++)
		named--;
	assert_true(result && !named);
	flush(1);
	if (compiled)
		bundled(function->key)(1, 1, bound);
	else
		strips[plan->dtype](plan, function, 1, 1, bound, registers);
	flush(0);
	return *result;
}

static void test_carried(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof carried / sizeof *carried; k++)
		for (int dtype = 2; dtype < CG_DTYPE_COUNT; dtype++)
			for (int compiled = 0; compiled < 2; compiled++) {
				struct carried t = carried[k];
				struct cg_cell *cell = must_find(t.cell);
				struct cg_pass_plan *plan = must_plan(cell, t.options, t.pass, 0, dtype);
				float got;

				for (int j = 0; j < 4 && dtype == 3; j++)        /* the same numbers in bf16 */
					t.inputs[j].half = t.inputs[j].half == 0x3c00 ? 0x3f80 : t.inputs[j].half ? 0x3900 : 0;
				got = give(&t, plan, compiled);
				if (got != t.want)
					fail_msg("%s: %s is %.9g, not %.9g", plan->functions[t.function].key, t.gives, got, t.want);
				cg_plan_free(plan);
				cg_parse_free(cell);
			}
}

static int set_up(void **state)
{
	size_t most = 0;
	struct cg_cell *cell;

	(void)state;
	for (int c = 0; (cell = every_cell(c)); c++) {
		struct cg_pass_plan *plan = must_plan(cell, (1 << cell->n_options) - 1, CG_PASS_GRADGRAD, 0, 1);

		for (int k = 0; k < plan->n_functions; k++)
			most = most > cg_strip_bytes(plan, &plan->functions[k]) ? most : cg_strip_bytes(plan, &plan->functions[k]);
		cg_plan_free(plan);
		cg_parse_free(cell);
	}
	registers = malloc(most);
	for (int k = 0; k < ARGUMENTS; k++) {
		ours[k] = malloc(SLOT * 8);
		theirs[k] = malloc(SLOT * 8);
	}
	for (int k = 0; k < 2; k++)
		scratch[k] = malloc((size_t)3 * UNITS * ARGUMENTS * 8);
	return !registers;
}

static int tear_down(void **state)
{
	(void)state;
	free(registers);
	for (int k = 0; k < ARGUMENTS; k++)
		free(ours[k]), free(theirs[k]);
	for (int k = 0; k < 2; k++)
		free(scratch[k]);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bundles),
		cmocka_unit_test(test_not_bundled),
		cmocka_unit_test(test_carried),
		cmocka_unit_test(test_cuda),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	random_start();
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
