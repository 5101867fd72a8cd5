/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The element types: a row for each, in the order of enum cg_dtype of cellgrad.h.
 *
 *	code      the dtype's constant without CG_, as F32, which is also safetensors' name
 *	name      the library's name
 *	numpy     numpy's name
 *	tf        TensorFlow's name
 *	bytes     of an element
 *	acc       the type that its arithmetic uses
 *	digits    significant binary digits, with the hidden one
 *	top       every finite number is below 2^top
 *	type      the type's name in every dialect; NULL: an unsigned integer holds the bits of an element
 *	holds     what that integer holds, in the words of a kernel's source
 *	bits      what that integer holds, in the words of a kernel's header
 *
 * CG_DTYPES(row, with) is row(with, code, name, numpy, tf, bytes, acc, digits, top, type, holds, bits) for each
 * element type.
 */
#ifndef CG_DTYPES_H
#define CG_DTYPES_H

#define CG_DTYPES(row, with) \
	row(with, F32,  f32,  float32,  float,    4, F32, 24,  128, "float",  NULL, NULL) \
	row(with, F64,  f64,  float64,  double,   8, F64, 53, 1024, "double", NULL, NULL) \
	row(with, F16,  f16,  float16,  half,     2, F32, 11,   16, NULL, "a half's bits", "bits of a half") \
	row(with, BF16, bf16, bfloat16, bfloat16, 2, F32,  8,  128, NULL, "a float's upper half", "upper half of a float's bits")

/* The element types in the order in which lists show them: from the fewest bytes up. */
#define CG_DTYPES_SHOWN CG_DTYPE_F16, CG_DTYPE_BF16, CG_DTYPE_F32, CG_DTYPE_F64
#define CG_DTYPES_TEXT  "f16, bf16, f32 or f64"
#define CG_DTYPES_HELP  "f16, bf16, f32 (the default) or f64"
#define CG_DTYPES_CODES "F16, BF16, F32 or F64"

#endif
