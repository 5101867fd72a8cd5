/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a line for every kernel of the built-in cells and of two more cells: its key, and a checksum of the bits of its outputs on
 * fixed inputs. The bits are promised to be the same on every processor; cross.sh compares the lines of builds for several processors.
 *
 * Each kernel runs once for each instruction set of the build that runs here: compiled if the build has it compiled, else interpreted. The
 * two further cells have operators that no built-in cell has. If the bits by an instruction set differ from those by the first, that is
 * printed and the exit status is 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "runtime/op/op.h"

enum { ROWS = 67, UNITS = 259, ELEMENTS = ROWS * UNITS };

static const char *const others[] = {
	"cell others\n"
	"gates a b\n"
	"state c\n"
	"output h\n"
	"c = c_prev / (1 + exp(a)) + relu(b)\n"
	"h = exp(clip(c, 3)) / sigmoid(b)\n",
	"cell more\n"
	"gates a b\n"
	"state c\n"
	"output h\n"
	"c = sqrt(abs(c_prev)) * erf(a) + log(abs(b)) + min(a, b)\n"
	"h = log1p(abs(c)) - max(expm1(a), sqrt(b))\n",
};

static uint64_t state;
static int failed;

static void give_up(const char *name, const char *why)
{
	fprintf(stderr, "checksum: %s: %s\n", name, why);
	exit(2);
}

static uint64_t next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static int is_double(int dtype)           { return dtype == CG_F64; }
static int is_half(int dtype, int type)   { return type != CG_TYPE_ACC && (dtype == CG_F16 || dtype == CG_BF16); }

/* Draws a number: mostly one of ordinary size, one time in eight any bits. */
static void draw(int dtype, int type, char *to)
{
	uint64_t any = next(), kind = next() % 8;
	double x = (double)((int64_t)(next() % 2000001) - 1000000) * 0x1p-18;
	float single = (float)x;
	uint32_t word;
	uint16_t half;

	if (is_double(dtype)) {
		memcpy(to, kind ? (void *)&x : (void *)&any, sizeof x);
		return;
	}
	memcpy(&word, &single, sizeof word);
	word = kind ? word : (uint32_t)any;
	/* The bits of a bf16 are the upper half of a float's; an f16 has a magnitude between 1/8 and 8, or any bits. */
	half = (uint16_t)(dtype == CG_BF16 ? word >> 16 : kind ? (any & 0x8000) | (0x3000 + any % 0x1800) : any & 0xffff);
	memcpy(to, is_half(dtype, type) ? (void *)&half : (void *)&word, is_half(dtype, type) ? 2 : 4);
}

/* Adds elements to a checksum, FNV-1a of whole elements in place of bytes; all NaNs of a type count as the same. */
static uint64_t sum(uint64_t so_far, int dtype, int type, const char *data, size_t bytes)
{
	size_t size = is_double(dtype) ? 8 : is_half(dtype, type) ? 2 : 4;
	uint64_t infinity = size == 8 ? UINT64_C(0x7ff) << 52 : size == 4 ? 0x7f800000 : dtype == CG_F16 ? 0x7c00 : 0x7f80;

	for (size_t at = 0; at < bytes; at += size) {
		uint64_t x = 0;

		for (size_t k = 0; k < size; k++)
			x |= (uint64_t)(unsigned char)data[at + k] << 8 * k;
		if ((x & ~(UINT64_C(1) << (8 * size - 1))) > infinity)
			x = infinity + 1;
		so_far = (so_far ^ x) * 0x100000001b3u;
	}
	return so_far;
}

static void run(const struct cg_isa *isa, const struct cg_pass_plan *plan, const struct cg_function *function,
                const struct cg_bound *bound)
{
	struct cg_float_state saved;
	void *registers = malloc(cg_strip_bytes(plan, function));      /* the interpreter's registers */
	void (*call)(int64_t rows, int64_t units, const struct cg_bound *) = NULL;

	for (const struct cg_compiled *const *table = isa->kernels; *table; table++)
		for (const struct cg_compiled *row = *table; row->key; row++)
			if (!strcmp(row->key, function->key))
				call = row->call;
	if (!registers)
		give_up(function->key, "no memory");
	saved = cg_float_enter(plan->dtype);
	if (call)
		call(ROWS, UNITS, bound);
	else
		isa->strip[plan->dtype](plan, function, ROWS, UNITS, bound, registers);
	cg_float_leave(saved);
	free(registers);
}

/* The checksum of a kernel on one instruction set, from inputs that are the same for each instruction set. */
static uint64_t bits(const struct cg_isa *isa, const struct cg_pass_plan *plan, const struct cg_function *function, char *const *data,
                     size_t bytes)
{
	struct cg_bound bound[CG_SLOTS_MAX];
	uint64_t result = 0xcbf29ce484222325u;

	state = 1;
	memset(bound, 0, sizeof bound);
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		size_t size = a->type == CG_TYPE_ACC ? cg_acc_bytes(plan->dtype) : cg_dtype_bytes(plan->dtype);

		bound[k] = (struct cg_bound){ data[k], UNITS, 0.25 * (1 + k % 7) };
		if (a->kind == CG_KIND_SCALAR || a->kind == CG_KIND_COUNT)
			continue;
		for (size_t at = 0; at < bytes; at += size)
			draw(plan->dtype, a->type, data[k] + at);
	}
	run(isa, plan, function, bound);
	for (int k = 0; k < function->n_arguments; k++)
		if (function->arguments[k].out)
			result = sum(result, plan->dtype, function->arguments[k].type, data[k], bytes);
	return result;
}

static void check(const struct cg_cell *cell, int options, int pass, int dtype)
{
	struct cg_mistake mistake;
	struct cg_pass_plan *plan = cg_plan(cell, options, pass, 0, dtype, cg_memory, &mistake);
	/* The bytes that each argument gets, at least as many as any argument needs. The scratch memory of a kernel's sums needs at most one
	   value for each argument, each unit and each of two blocks of rows. */
	size_t bytes = (size_t)(ELEMENTS > 2 * CG_SLOTS_MAX * UNITS ? ELEMENTS : 2 * CG_SLOTS_MAX * UNITS) * sizeof(double);
	char *data[CG_SLOTS_MAX];

	if (!plan)
		give_up(cell->name, mistake.text);
	for (int k = 0; k < CG_SLOTS_MAX; k++) {
		data[k] = malloc(bytes);
		if (!data[k])
			give_up(cell->name, "no memory");
	}
	for (int p = 0; p < plan->n_functions; p++) {
		uint64_t first = 0;
		const char *name = NULL;

		for (const struct cg_isa *isa = cg_isas; isa->name; isa++) {
			uint64_t its;

			if (!isa->runs_here())
				continue;
			its = bits(isa, plan, &plan->functions[p], data, bytes);
			if (!name) {
				name = isa->name;
				first = its;
				printf("%s %016llx\n", plan->functions[p].key, (unsigned long long)its);
			} else if (its != first) {
				fprintf(stderr, "checksum: %s: %s and %s differ\n", plan->functions[p].key, name, isa->name);
				failed = 1;
			}
		}
	}
	for (int k = 0; k < CG_SLOTS_MAX; k++)
		free(data[k]);
	cg_plan_free(plan);
}

static void check_all(const struct cg_cell *cell)
{
	for (int options = 0; options < 1 << cell->n_options; options++)
		for (int pass = CG_PASS_FORWARD; pass < CG_PASS_COUNT; pass++)
			for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
				check(cell, options, pass, dtype);
}

int main(void)
{
	struct cg_mistake mistake;

	for (int k = 0; cg_cell_name(k); k++)
		check_all(cg_cell_find(cg_cell_name(k)));
	for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
		struct cg_cell *cell = cg_parse(others[k], "others.cell", cg_memory, &mistake);

		if (!cell)
			give_up("others.cell", mistake.text);
		check_all(cell);
		cg_parse_free(cell);
	}
	return failed;
}
