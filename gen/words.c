/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the reserved words: a dialect, a compiler, the kernels' own text or the language of cells uses these words, so a cell may not have
 * them as names. names.c checks the other rules for names.
 */
#include "cell.h"

#include <string.h>

/* `of` is who uses the words: a message says "a reserved word of C". */
static const struct { const char *of, *const *words; } reserved[] = {
	{ "C", (const char *const[]){
		"auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
		"false", "float", "for", "goto", "if", "inline", "int", "int64_t", "long", "main", "register", "restrict", "return",
		"short", "signed", "sizeof", "static", "struct", "switch", "true", "typedef", "typeof", "typeof_unqual", "union",
		"unsigned", "void", "volatile", "while", NULL } },
	/* macros of some systems' compilers, and AltiVec's types */
	{ "some compilers", (const char *const[]){
		"hppa", "hpux", "i386", "linux", "mips", "powerpc", "sgi", "sparc", "sun", "unix", "pixel", "vector", NULL } },
	{ "C++ and CUDA C", (const char *const[]){
		"alignas", "alignof", "and", "and_eq", "asm", "atomic", "bitand", "bitor", "catch", "char16_t", "char32_t", "char8_t",
		"class", "co_await", "co_return", "co_yield", "compl", "concept", "const_cast", "consteval", "constexpr", "constinit",
		"decltype", "delete", "dim3", "dynamic_cast", "explicit", "export", "friend", "mutable", "namespace", "new", "noexcept",
		"not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "reinterpret_cast", "requires",
		"static_assert", "static_cast", "template", "this", "thread_local", "throw", "try", "typeid", "typename", "using",
		"virtual", "wchar_t", "xor", "xor_eq", "blockDim", "blockIdx", "gridDim", "threadIdx", "warpSize", NULL } },
	{ "OpenCL C", (const char *const[]){
		"access", "clamp", "complex", "constant", "event_t", "generic", "get_global_id", "get_global_size", "global", "half", "image1d_t",
		"image1d_array_t", "image1d_buffer_t", "image2d_t", "image2d_array_t", "image2d_depth_t", "image2d_array_depth_t",
		"image2d_msaa_t", "image2d_array_msaa_t", "image2d_msaa_depth_t", "image3d_t", "imaginary", "kernel", "local", "pipe",
		"mix", "quad", "queue_t", "read_only", "read_write", "sampler_t", "sign", "size_t", "smoothstep", "step", "uchar", "uint",
		"ulong", "ushort", "vec_step", "write_only", NULL } },
	/* names that some compilers know without a header, too */
	{ "compilers' libraries", (const char *const[]){
		"abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "div", "erf", "exp", "exp2", "fabs", "floor", "fma", "fmax", "fmin",
		"gamma", "index", "j0", "j1", "jn", "log", "log2", "max", "min", "pow", "remainder", "round", "rsqrt",
		"sin", "sinh", "sqrt", "tan", "tanh", "trunc", "y0", "y1", "yn", NULL } },
	{ "the kernels' text", (const char *const[]){
		"absent", "absent_acc", "acc", "accumulate", "block", "count", "first", "last", "partial", "real", "row", "rows", "run",
		"unit", "units", "sums", "word", "bits_of", "from_bits", "muladd", "mulsum", "to_acc", "to_real", "strip", NULL } },
	{ "the language of cells", (const char *const[]){
		"cell", "gates", "option", "output", "param", "save", "split", "stage", "state", "clip", "relu", "sigmoid", NULL } },
};

const char *cg_find_reserved(const char *name)
{
	for (size_t k = 0; k < sizeof reserved / sizeof *reserved; k++)
		for (const char *const *word = reserved[k].words; *word; word++)
			if (!strcmp(*word, name))
				return reserved[k].of;
	return NULL;
}
