/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two tensor files: both must have tensors of the same names, dtypes and shapes, and each number must be within the tolerance of
 * `cellgrad run --expect`.
 *
 *	alike GOT WANT DEPTH    DEPTH: the number of terms of the longest sum from which the numbers come
 *
 * Exits with 1 if the files differ, with a line for each tensor that differs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cellgrad.h"
#include "runtime/op/op.h"
#include "command/run/compare.h"
#include "command/safetensors.h"

static int same_kind(const struct safetensors_tensor *a, const struct safetensors_tensor *b)
{
	return a->cg >= 0 && a->cg == b->cg && a->rank == b->rank && !memcmp(a->shape, b->shape, a->rank * sizeof(*a->shape));
}

static size_t elements(const struct safetensors_tensor *t)
{
	return t->bytes / cg_dtype_bytes(t->cg);
}

/* Returns the largest magnitude of the file's numbers: the file's tensors are parts of one tensor of the library, judged as a whole. */
static double largest_of(const struct safetensors *file)
{
	double largest = 0;

	for (size_t k = 0; k < file->n; k++)
		for (size_t j = 0; file->tensors[k].cg >= 0 && j < elements(&file->tensors[k]); j++)
			largest = fmax(largest, fabs(compare_element(file->tensors[k].cg, file->tensors[k].data, j)));
	return largest;
}

static int differ(const struct safetensors_tensor *got, const struct safetensors_tensor *want, const struct allowance *a)
{
	size_t wrong = 0;

	for (size_t j = 0; j < elements(want); j++) {
		double g = compare_element(got->cg, got->data, j), w = compare_element(want->cg, want->data, j);

		if (fabs(g - w) <= cg_allowance(a, w))
			continue;
		if (!wrong++)
			printf("%s: element %zu is %.9g, expected %.9g within %.3g\n", want->name, j, g, w, cg_allowance(a, w));
	}
	return wrong > 0;
}

/* Returns whether the file lacks a wanted tensor, or has the tensor with another dtype, another shape or other numbers. */
static int lacks(const struct safetensors *file, const struct safetensors_tensor *want, struct allowance a)
{
	const struct safetensors_tensor *t = safetensors_find(file, want->name);

	if (!t || !same_kind(t, want)) {
		printf("%s: %s\n", want->name, t ? "another dtype or shape" : "missing");
		return 1;
	}
	a.dtype = a.expected = want->cg;
	return differ(t, want, &a);
}

int main(int argc, char **argv)
{
	struct allowance a = { .rounded = 1 };
	struct safetensors got, want;
	int wrong = 0;

	if (argc != 4 || safetensors_open(&got, argv[1]) || safetensors_open(&want, argv[2])) {
		fprintf(stderr, "alike: %s\n", argc != 4 ? "expected GOT WANT DEPTH" : cg_message());
		return 2;
	}
	a.depth = atoll(argv[3]);
	a.largest = largest_of(&want);
	for (size_t k = 0; k < want.n; k++)
		wrong |= lacks(&got, &want.tensors[k], a);
	for (size_t k = 0; k < got.n; k++) {
		if (safetensors_find(&want, got.tensors[k].name))
			continue;
		printf("%s: not expected\n", got.tensors[k].name);
		wrong = 1;
	}
	safetensors_close(&got);
	safetensors_close(&want);
	return wrong;
}
