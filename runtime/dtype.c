/*
 * The element types: their names, sizes and other people's spellings.  What is computed in each is the kernels'.
 */
#include <string.h>

#include "runtime/op.h"
#include "runtime/runtime.h"

enum { SPELLINGS = 4 };

/* Ours, safetensors', numpy's, TensorFlow's where it is another. */
static const struct {
	size_t      bytes;
	const char *names[SPELLINGS];
} dtypes[] = {
	[CG_F32]  = { 4, { "f32",  "F32",  "float32",  "float"  } },
	[CG_F64]  = { 8, { "f64",  "F64",  "float64",  "double" } },
	[CG_F16]  = { 2, { "f16",  "F16",  "float16",  "half"   } },
	[CG_BF16] = { 2, { "bf16", "BF16", "bfloat16", NULL     } }
};

enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *cg_dtype_name(int dtype)
{
	return dtype >= 0 && dtype < DTYPES ? dtypes[dtype].names[0] : "?";
}

size_t cg_dtype_bytes(int dtype)
{
	return dtype >= 0 && dtype < DTYPES ? dtypes[dtype].bytes : 0;
}

int cg_dtype_find(const char *name)
{
	int dtype, i;

	for (dtype = 0; name && dtype < DTYPES; dtype++)
		for (i = 0; i < SPELLINGS && dtypes[dtype].names[i]; i++)
			if (!strcmp(name, dtypes[dtype].names[i]))
				return dtype;
	cg_fail(CG_BAD_ARGUMENT, "dtype: expected f16, bf16, f32 or f64, got %.64s", name ? name : "NULL");
	return -1;
}
