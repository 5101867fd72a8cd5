/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of dialects: their words, the forms of what is printed once per argument, and how many units a thread takes.  Longer texts
 * are in templates/.
 */
#include "cell.h"

#include <stdio.h>

#define NAME(code, name) #name,
const char *const cg_lang_names[CG_LANG_COUNT] = { CG_LANGS(NAME) };

#define AT     "row * @name@_stride + unit"
#define LOAD(given, offset, open, close) \
	.load            = "const acc @name@ = " given " ? " open "@name@_at[" offset AT "]" close " : 0;", \
	.load_unit       = "const acc @name@ = " given " ? " open "@name@_at[" offset "unit]" close " : 0;", \
	.load_element    = "const acc @name@ = " given " ? " open "@name@_at[" offset "0]" close " : 0;"
#define LOAD_PLAIN(given, offset) \
	.load_plain      = "const acc @name@ = " given " ? @name@_at[" offset AT "] : 0;", \
	.load_unit_plain = "const acc @name@ = " given " ? @name@_at[" offset "unit] : 0;", \
	.load_element_plain = "const acc @name@ = " given " ? @name@_at[" offset "0] : 0;"

const struct cg_dialect cg_dialects[CG_LANG_COUNT] = {
	[CG_LANG_C] = {
		.file = "prelude.c.in", .shape = "c", .strips = 1,
		.inlined = "static INLINE", .kernel = "", .restricted = "", .global = "",
		.i64 = "int64_t", .bits = { [2] = "uint16_t", [4] = "uint32_t", [8] = "uint64_t" }, .comments = 32,
		.tensor_in   = "const @type@ *@name@, int64_t @name@_stride",
		.tensor_out  = "@type@ *@name@, int64_t @name@_stride",
		.unit_in     = "const @type@ *@name@",
		.unit_out    = "@type@ *@name@",
		.scratch_in  = "const @type@ *@name@",
		.scratch_out = "@type@ *@name@",
		.scalar      = "@type@ @name@",
		.count       = "int64_t @name@",
		.load            = "const acc @name@ = to_acc(@name@_at[unit]);",
		.load_unit       = "const acc @name@ = to_acc(@name@_at[unit]);",
		.load_plain      = "const acc @name@ = @name@_at[unit];",
		.load_unit_plain = "const acc @name@ = @name@_at[unit];",
		.store       = "@name@_at[unit] = to_real(@value@);",
		.store_plain = "@name@_at[unit] = @value@;",
		.flags = "[\"-O3\", \"-ffp-contract=off\", \"-fno-math-errno\", \"-fno-trapping-math\"]",
	},
	[CG_LANG_OPENCL] = {
		.file = "prelude.cl.in", .shape = "gpu", .offsets = 1, .builds = 1, .panels = 1,
		.inlined = "static inline", .kernel = "__kernel ", .restricted = "restrict ", .global = "__global ",
		.i64 = "long", .bits = { [2] = "ushort", [4] = "uint", [8] = "ulong" }, .comments = 32,
		.unit = "get_global_id(0)", .row = "get_global_id(1)",
		.unit_step = "get_global_size(0)", .row_step = "get_global_size(1)",
		.local = "__local", .aligned = "__attribute__((aligned(16))) ", .item = "(unsigned)get_local_id(0)",
		.group_x = "get_group_id(0)", .group_y = "get_group_id(1)", .groups_y = "get_num_groups(1)",
		.barrier = "barrier(CLK_LOCAL_MEM_FENCE)", .bounds = "__attribute__((reqd_work_group_size(%d, 1, 1)))",
		.tensor_in   = "__global const @type@ *@restrict@@name@_at, ulong @name@_offset, long @name@_stride",
		.tensor_out  = "__global @type@ *@restrict@@name@_at, ulong @name@_offset, long @name@_stride",
		.unit_in     = "__global const @type@ *@restrict@@name@_at, ulong @name@_offset",
		.unit_out    = "__global @type@ *@restrict@@name@_at, ulong @name@_offset",
		.scratch_in  = "__global const acc *@restrict@@name@_at, ulong @name@_offset",
		.scratch_out = "__global acc *@restrict@@name@_at, ulong @name@_offset",
		.scalar      = "acc @name@",
		.count       = "long @name@",
		LOAD("GIVEN(@name@_at)", "@name@_offset + ", "to_acc(", ")"),
		LOAD_PLAIN("GIVEN(@name@_at)", "@name@_offset + "),
		.store       = "if (GIVEN(@name@_at))\n\t@name@_at[@name@_offset + " AT "] = to_real(@value@);",
		.store_plain = "if (GIVEN(@name@_at))\n\t@name@_at[@name@_offset + " AT "] = @value@;",
		.flags = "[\"-cl-std=CL1.2\", \"-cl-denorms-are-zero\"]",
	},
	[CG_LANG_CUDA] = {
		.file = "prelude.cu.in", .shape = "gpu",
		.inlined = "static __device__ __forceinline__", .kernel = "extern \"C\" __global__ ", .restricted = "__restrict__ ",
		.global = "",
		.i64 = "long long", .bits = { [2] = "unsigned short", [4] = "unsigned int", [8] = "unsigned long long" }, .comments = 40,
		.unit = "blockIdx.x * (long long)blockDim.x + threadIdx.x",
		.row = "blockIdx.y * (long long)blockDim.y + threadIdx.y",
		.unit_step = "gridDim.x * (long long)blockDim.x", .row_step = "gridDim.y * (long long)blockDim.y",
		.local = "__shared__", .aligned = "__align__(16) ", .item = "threadIdx.x",
		.group_x = "blockIdx.x", .group_y = "blockIdx.y", .groups_y = "gridDim.y",
		.barrier = "__syncthreads()", .bounds = "__launch_bounds__(%d)",
		.tensor_in   = "const @type@ *@restrict@@name@_at, long long @name@_stride",
		.tensor_out  = "@type@ *@restrict@@name@_at, long long @name@_stride",
		.unit_in     = "const @type@ *@restrict@@name@_at",
		.unit_out    = "@type@ *@restrict@@name@_at",
		.sum_out     = "@type@ *@restrict@@name@_at, long long @name@_second",
		.scratch_in  = "const acc *@restrict@@name@_at",
		.scratch_out = "acc *@restrict@@name@_at",
		.scalar      = "acc @name@",
		.count       = "long long @name@",
		LOAD("@name@_at", "", "to_acc(", ")"),
		LOAD_PLAIN("@name@_at", ""),
		.store       = "if (@name@_at)\n\t@name@_at[" AT "] = to_real(@value@);",
		.store_plain = "if (@name@_at)\n\t@name@_at[" AT "] = @value@;",
		.run_in         = "const run<@type@, RUN> @name@_run = load_run<RUN>(@name@_at, row * @name@_stride + first, count);",
		.run_in_unit    = "const run<@type@, RUN> @name@_run = load_run<RUN>(@name@_at, first, count);",
		.run_out        = "run<@type@, RUN> @name@_run;",
		.run_put        = "store_run(@name@_at, row * @name@_stride + first, count, @name@_run);",
		.from_run       = "const acc @name@ = to_acc(@name@_run.of[unit]);",
		.from_run_plain = "const acc @name@ = @name@_run.of[unit];",
		.to_run         = "@name@_run.of[unit] = to_real(@value@);",
		.to_run_plain   = "@name@_run.of[unit] = @value@;",
		.flags = "[\"-fmad=false\", \"-ftz=true\"]",
	},
};

const char *cg_type_word(const struct cg_dialect *d, int dtype)
{
	const struct cg_dtype_row *row = &cg_dtypes[dtype];

	return row->type ? row->type : d->bits[row->bytes];
}

/* A thread's run of units has sixteen bytes of reals, or fewer, so that the thread has registers for all runs that it reads and writes.
 * In registers an f16 or bf16 counts as an f32, since a thread widens it, and a compiler works on several elements at a time. */
int cg_run_units(const struct cg_pass_plan *plan, const struct cg_function *function)
{
	enum { REGISTERS = 112 };
	int n = 16 / (int)cg_dtype_bytes(plan->dtype), words = (int)cg_acc_bytes(plan->dtype) / 4, runs = 0;

	for (int k = 0; k < function->n_arguments; k++)
		runs += function->arguments[k].kind == CG_KIND_TENSOR || function->arguments[k].kind == CG_KIND_PER_UNIT;
	while (n > 1 && n * words * runs > REGISTERS)
		n /= 2;
	return n;
}

void cg_one_key(const struct cg_function *function, char key[CG_KEY_MAX])
{
	snprintf(key, CG_KEY_MAX, "%.*s_one", CG_KEY_MAX - (int)sizeof "_one", function->key);
}

int cg_takes_runs(const struct cg_pass_plan *plan, const struct cg_function *function, int64_t rows, int64_t units, int multiprocessors)
{
	int run = cg_run_units(plan, function);
	int64_t runs = units / run + (units % run != 0), least = (int64_t)CG_RUN_THREADS * multiprocessors;

	return run > 1 && runs && rows >= (least + runs - 1) / runs;
}
