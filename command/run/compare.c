/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares answers with expected ones. The comment above cg_allowance in compare.h has the rule for the allowed error; the subcommands
 * choose which tensors are compared and print the result.
 */
#include <math.h>
#include <string.h>

#include "command/run/compare.h"
#include "runtime/device/inspect.h"

double compare_element(int dtype, const void *data, size_t k)
{
	return cg_element_get(dtype, (const char *)data + k * cg_dtype_bytes(dtype));
}

static double unit(int dtype)
{
	return ldexp(1, -cg_dtypes[dtype].digits);
}

/* The smallest positive number that the dtype's arithmetic keeps; arithmetic in f32 may flush subnormal numbers. */
static double smallest(int dtype)
{
	const struct cg_dtype_row *row = &cg_dtypes[dtype], *f32 = &cg_dtypes[CG_F32];
	int lowest = 3 - row->top - row->digits;

	return ldexp(1, row->acc == CG_F32 && lowest < 2 - f32->top ? 2 - f32->top : lowest);
}

double cg_allowance(const struct allowance *a, double want)
{
	double real = fmax(unit(a->dtype), unit(a->expected));
	double acc = unit(cg_dtypes[a->dtype].acc);

	if (a->given)
		return a->rtol * fabs(want) + a->atol;
	if (a->rounded)
		acc = fmax(acc, unit(a->dtype));
	return 2 * real * fabs(want) + (16 + 4 * sqrt((double)a->depth)) * acc * a->largest + smallest(a->dtype);
}

static double error_of(double got, double want)
{
	if ((isnan(got) && isnan(want)) || got == want)
		return 0;
	if (!isfinite(got) || !isfinite(want))
		return INFINITY;
	return fabs(got - want);
}

void compare(struct allowance a, const void *got, const void *want, size_t n, struct comparison *c)
{
	double worst = -1;

	*c = (struct comparison){ .n = n };
	for (size_t k = 0; k < n; k++) {
		double size = fabs(compare_element(a.expected, want, k));

		if (isfinite(size) && size > c->largest)
			c->largest = size;
	}
	a.largest = c->largest;
	for (size_t k = 0; k < n; k++) {
		double g = compare_element(a.dtype, got, k), w = compare_element(a.expected, want, k);
		double error = error_of(g, w), allowed = isfinite(w) ? cg_allowance(&a, w) : 0;
		double share = error > 0 ? error / allowed : 0;

		c->wrong += error > allowed;
		if (error > c->most)
			c->most = error;
		if (share > worst) {
			worst = share;
			c->at = k;
			c->got = g;
			c->want = w;
			c->error = error;
			c->allowance = allowed;
		}
	}
}
