/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of a case with their numbers and the reference's answers, and the verdict on what a call wrote.
 */
#include <math.h>
#include <string.h>

#include "runtime/op/op.h"
#include "runtime/core/core.h"
#include "verify/answer.h"
#include "verify/numbers.h"
#include "verify/reference.h"

/* Allocates n + 1 zeroed elements: one more than n, so that n may be 0. */
static int alloc_array(void *p, size_t n, size_t bytes)
{
	void *memory = n < SIZE_MAX / bytes / 2 ? cg_memory(NULL, (n + 1) * bytes) : NULL;

	if (!memory)
		return cg_fail(CG_NO_MEMORY, "no memory for an array of %zu elements", n);
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

int answer_spread(struct answer *a, size_t span, size_t shift, size_t *at)
{
	size_t each = cg_dtype_bytes(a->dtype);

	a->at = at;
	a->span = span;
	area_close(&a->area);
	cg_memory(a->first, 0);
	a->first = NULL;
	CG_TRY(alloc_array(&a->first, span, each));
	return area_open(&a->area, span * each, shift * each);
}

/* Finds where element k of an argument is in its memory, in bytes from the start; returns 0 where memory does not contain the element. */
static int find(const struct answer *a, size_t k, size_t *byte)
{
	const size_t at = a->at ? a->at[k] : k;

	*byte = at == ANSWER_NOWHERE ? 0 : at * cg_dtype_bytes(a->dtype);
	return at != ANSWER_NOWHERE;
}

void answer_close(struct answer *a)
{
	cg_memory(a->at, 0);
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
	size_t byte;

	for (size_t k = 0; k < a->n; k++)
		if (find(a, k, &byte))
			numbers_encode(a->dtype, a->d[k], area_in(&a->area) + byte);
}

/* Did the call write between the elements of an argument?  *is_touched is 1 if it did, else 0.  CG_NO_MEMORY: memory is exhausted, and the
 * answer is unknown. */
static int find_touched_gaps(const struct answer *a, int *is_touched)
{
	const size_t each = cg_dtype_bytes(a->dtype);
	unsigned char *is_element;
	size_t byte;

	*is_touched = 0;
	if (!a->at)
		return CG_OK;
	CG_TRY(alloc_array(&is_element, a->span, 1));
	for (size_t k = 0; k < a->n; k++)
		if (find(a, k, &byte))
			is_element[byte / each] = 1;
	for (size_t k = 0; k < a->span; k++)
		*is_touched |= !is_element[k] && memcmp(area_in(&a->area) + k * each, area_out(&a->area) + k * each, each);
	cg_memory(is_element, 0);
	return CG_OK;
}

static int judge(struct answer *a, const struct side *side, int which, struct finding *f)
{
	int is_touched;
	size_t byte;

	CG_TRY(find_touched_gaps(a, &is_touched));
	if (is_touched)
		return finding_format(f, FINDING_TOUCHED, "the call on %s wrote between the rows of argument %s", side->name, a->name);
	if (area_touched(&a->area, !a->is_out || !a->given))
		return finding_format(f, FINDING_TOUCHED, "the call on %s wrote beside argument %s or, if that is an input, into it",
		                      side->name, a->name);
	for (size_t k = 0; a->is_out && a->given && k < a->n; k++) {
		long double tolerance = ref_tolerance(a->dtype, a->v[k], a->e[k]), error;
		int bounded = isfinite(tolerance) && tolerance > 0;
		double got;

		if (!find(a, k, &byte))
			continue;
		got = numbers_decode(a->dtype, area_out(&a->area) + byte);
		error = fabsl(got - a->v[k]);
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
		/* The answers of two sides that round by different rules may differ by the larger of the sides' tolerances. */
		tolerance = fmaxl(tolerance, a->allowed[k]);
		if (bounded && fabsl((long double)got - a->other[k]) / tolerance > f->apart)
			f->apart = fabsl((long double)got - a->other[k]) / tolerance;
	}
	return CG_OK;
}

int answer_judge(struct answer *a, const struct side *side, int which, int again, struct finding *f)
{
	if (again && memcmp(a->first, area_out(&a->area), a->area.bytes))
		return finding_format(f, FINDING_REPEAT, "a second call on %s with the same inputs gave argument %s other bits",
		                      side->name, a->name);
	if (again)
		return CG_OK;
	memcpy(a->first, area_out(&a->area), a->area.bytes);
	return judge(a, side, which, f);
}
