/*
 * The arguments of a case with their numbers and the reference's, and the verdict on what a call wrote to them.
 */
#include <math.h>
#include <string.h>

#include "runtime/op/op.h"
#include "runtime/core/core.h"
#include "verify/answer.h"
#include "verify/numbers.h"
#include "verify/reference.h"

/* Zeroed; one element more than n, so that there is always some. */
static int alloc_array(void *p, size_t n, size_t bytes)
{
	void *memory = n < SIZE_MAX / bytes / 2 ? cg_memory(NULL, (n + 1) * bytes) : NULL;

	if (!memory)
		return cg_fail(CG_NO_MEMORY, "no memory for a case of %zu elements", n);
	memset(memory, 0, (n + 1) * bytes);
	memcpy(p, &memory, sizeof memory);
	return CG_OK;
}

int answer_open(struct answer *a, const char *name, int dtype, size_t n, size_t shift)
{
	size_t each = cg_dtype_bytes(dtype);

	a->name = name;
	a->dtype = dtype;
	a->n = n;
	CG_TRY(alloc_array(&a->d, n, sizeof *a->d));
	CG_TRY(alloc_array(&a->v, n, sizeof *a->v));
	CG_TRY(alloc_array(&a->e, n, sizeof *a->e));
	CG_TRY(alloc_array(&a->first, n, each));
	CG_TRY(alloc_array(&a->other, n, sizeof *a->other));
	CG_TRY(alloc_array(&a->allowed, n, sizeof *a->allowed));
	return area_open(&a->area, n * each, shift * each);
}

void answer_close(struct answer *a)
{
	area_close(&a->area);
	cg_memory(a->d, 0);
	cg_memory(a->v, 0);
	cg_memory(a->e, 0);
	cg_memory(a->first, 0);
	cg_memory(a->other, 0);
	cg_memory(a->allowed, 0);
}

void answer_draw(struct answer *a, unsigned long long *state, double scale)
{
	for (size_t k = 0; k < a->n; k++)
		a->d[k] = ref_round(a->dtype, numbers_draw(state, scale));
}

void answer_encode(struct answer *a)
{
	for (size_t k = 0; k < a->n; k++)
		numbers_encode(a->dtype, a->d[k], area_in(&a->area) + k * cg_dtype_bytes(a->dtype));
}

static int judge(struct answer *a, const struct side *side, int which, struct finding *f)
{
	if (area_touched(&a->area, !a->is_out || !a->given))
		return finding_format(f, FINDING_TOUCHED, "%s: %s: memory beside it, or an input, was written", side->name, a->name);
	for (size_t k = 0; a->is_out && a->given && k < a->n; k++) {
		double got = numbers_decode(a->dtype, area_out(&a->area) + k * cg_dtype_bytes(a->dtype));
		long double tolerance = ref_tolerance(a->dtype, a->v[k], a->e[k]), error = fabsl(got - a->v[k]);
		int bounded = isfinite(tolerance) && tolerance > 0;

		f->elements++;
		f->unbounded += isinf(tolerance);
		if (!ref_within(a->dtype, a->v[k], a->e[k], got))
			return finding_format(f, FINDING_BOUND, "%s: %s[%zu]: expected %.9Lg, got %.9g: off by %.3Lg where %.3Lg is allowed",
			                      side->name, a->name, k, a->v[k], got, error, tolerance);
		if (bounded && error / tolerance > f->worst)
			f->worst = error / tolerance;
		if (!which) {
			a->other[k] = got;
			a->allowed[k] = tolerance;
			continue;
		}
		/* Sides that round by other rules are as far apart as the coarser of them allows. */
		tolerance = fmaxl(tolerance, a->allowed[k]);
		if (bounded && fabsl((long double)got - a->other[k]) / tolerance > f->apart)
			f->apart = fabsl((long double)got - a->other[k]) / tolerance;
	}
	return CG_OK;
}

int answer_judge(struct answer *a, const struct side *side, int which, int again, struct finding *f)
{
	if (again && memcmp(a->first, area_out(&a->area), a->area.bytes))
		return finding_format(f, FINDING_REPEAT, "%s: %s: other bits the second time", side->name, a->name);
	if (again)
		return CG_OK;
	memcpy(a->first, area_out(&a->area), a->area.bytes);
	return judge(a, side, which, f);
}
