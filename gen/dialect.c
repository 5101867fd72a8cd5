/*
 * The dialects: their words, and how each says what is said once per argument.  Longer texts are in templates/.
 */
#include "cell.h"

const char *const cg_lang_names[CG_LANG_COUNT] = { "c", "opencl", "cuda" };

#define AT     "row * @name@_stride + unit"
#define LOAD(offset, open, close) \
	.load            = "const acc @name@ = @name@_at ? " open "@name@_at[" offset AT "]" close " : 0;", \
	.load_unit       = "const acc @name@ = @name@_at ? " open "@name@_at[" offset "unit]" close " : 0;"
#define LOAD_PLAIN(offset) \
	.load_plain      = "const acc @name@ = @name@_at ? @name@_at[" offset AT "] : 0;", \
	.load_unit_plain = "const acc @name@ = @name@_at ? @name@_at[" offset "unit] : 0;"

const struct cg_dialect cg_dialects[CG_LANG_COUNT] = {
	[CG_LANG_C] = {
		.name = "c", .file = "prelude.c.in", .shape = "c",
		.linkage = "", .inlined = "static inline", .kernel = "", .i64 = "int64_t", .strips = 1,
		.tensor_in   = "const @type@ *@name@, int64_t @name@_stride",
		.tensor_out  = "@type@ *@name@, int64_t @name@_stride",
		.unit_in     = "const @type@ *@name@",
		.unit_out    = "@type@ *@name@",
		.scratch_in  = "const acc *@name@",
		.scratch_out = "acc *@name@",
		.scalar      = "acc @name@",
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
		.name = "opencl", .file = "prelude.cl.in", .shape = "gpu",
		.linkage = "", .inlined = "static inline", .kernel = "__kernel ", .i64 = "long", .offsets = 1,
		.unit = "get_global_id(0)", .row = "get_global_id(1)", .row_step = "get_global_size(1)",
		.tensor_in   = "__global const @type@ *@name@_at, ulong @name@_offset, long @name@_stride",
		.tensor_out  = "__global @type@ *@name@_at, ulong @name@_offset, long @name@_stride",
		.unit_in     = "__global const @type@ *@name@_at, ulong @name@_offset",
		.unit_out    = "__global @type@ *@name@_at, ulong @name@_offset",
		.scratch_in  = "__global const acc *@name@_at, ulong @name@_offset",
		.scratch_out = "__global acc *@name@_at, ulong @name@_offset",
		.scalar      = "acc @name@",
		.count       = "long @name@",
		LOAD("@name@_offset + ", "to_acc(", ")"),
		LOAD_PLAIN("@name@_offset + "),
		.store       = "if (@name@_at)\n\t@name@_at[@name@_offset + " AT "] = to_real(@value@);",
		.store_plain = "if (@name@_at)\n\t@name@_at[@name@_offset + " AT "] = @value@;",
		.flags = "[\"-cl-std=CL1.2\", \"-cl-denorms-are-zero\"]",
	},
	[CG_LANG_CUDA] = {
		.name = "cuda", .file = "prelude.cu.in", .shape = "gpu",
		.linkage = "", .inlined = "static __device__ __forceinline__", .kernel = "extern \"C\" __global__ ",
		.i64 = "long long",
		.unit = "blockIdx.x * (long long)blockDim.x + threadIdx.x",
		.row = "blockIdx.y * (long long)blockDim.y + threadIdx.y",
		.row_step = "gridDim.y * (long long)blockDim.y",
		.tensor_in   = "const @type@ *__restrict__ @name@_at, long long @name@_stride",
		.tensor_out  = "@type@ *__restrict__ @name@_at, long long @name@_stride",
		.unit_in     = "const @type@ *__restrict__ @name@_at",
		.unit_out    = "@type@ *__restrict__ @name@_at",
		.scratch_in  = "const acc *__restrict__ @name@_at",
		.scratch_out = "acc *__restrict__ @name@_at",
		.scalar      = "acc @name@",
		.count       = "long long @name@",
		LOAD("", "to_acc(", ")"),
		LOAD_PLAIN(""),
		.store       = "if (@name@_at)\n\t@name@_at[" AT "] = to_real(@value@);",
		.store_plain = "if (@name@_at)\n\t@name@_at[" AT "] = @value@;",
		.flags = "[\"-fmad=false\", \"-ftz=true\"]",
	},
};
