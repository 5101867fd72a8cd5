/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parallel_check FILE T B I U L: is the gradient in FILE, which examples/parallel.c wrote, that of the whole batch? Each element is
 * compared with the reference's, within its bound, which allows for sums in any order.
 * exit 0: the gradient is right, and the largest share of the bound is printed; 1: the gradient is wrong, or the bound is too wide to say,
 * as for long sequences, or FILE has another length, or memory ran out; 2: wrong arguments, or FILE cannot be opened.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "verify/bound.h"
#include "verify/sequence.h"

static const double target = 0.5;               /* the target of every output, as in examples/parallel.c */
/* Bounds larger than this, relative to the largest element, would let wrong gradients pass. */
static const long double loosest = 1e-3L;

static void *allocate(size_t n, size_t bytes)
{
	void *memory = calloc(n + 1, bytes);

	if (!memory) {
		fprintf(stderr, "no memory\n");
		exit(1);
	}
	return memory;
}

static struct ref_in read_floats(FILE *file, size_t n)
{
	float *of = allocate(n, sizeof *of);
	double *d = allocate(n, sizeof *d);

	if (fread(of, sizeof *of, n, file) != n) {
		fprintf(stderr, "the file is too short\n");
		exit(1);
	}
	for (size_t k = 0; k < n; k++)
		d[k] = of[k];
	free(of);
	return (struct ref_in){ .d = d };
}

static struct ref_out make_values(size_t n)
{
	return (struct ref_out){ allocate(n, sizeof(long double)), allocate(n, sizeof(long double)) };
}

/* The gradient of half the sum of squares of the outputs' errors, with its bounds. */
static struct ref_out find_gradient(struct ref_rnn *p, size_t n)
{
	const struct kind *k = &ref_kinds[p->dtype];
	const size_t outputs = (size_t)(p->T * p->B * p->U);

	p->output = make_values(outputs);
	p->params_backprop = make_values(n);
	if (ref_rnn_forward(p))
		exit(1);
	for (size_t j = 0; j < outputs; j++) {
		struct val missing = sub(k, (struct val){ p->output.v[j], p->output.e[j] }, (struct val){ target, 0 });

		p->output.v[j] = missing.v;
		p->output.e[j] = missing.e;
	}
	p->output_backprop = (struct ref_in){ .v = p->output.v, .e = p->output.e };
	p->output = (struct ref_out){ 0 };
	if (ref_rnn_backward(p))
		exit(1);
	return p->params_backprop;
}

static int compare(const struct ref_rnn *p, struct ref_out right, const double *got, size_t n)
{
	long double worst = 0, most_allowed = 0, largest = 0;

	for (size_t k = 0; k < n; k++) {
		const long double allowed = ref_tolerance(p->dtype, right.v[k], right.e[k]), error = fabsl(got[k] - right.v[k]);

		if (!isfinite(allowed) || !ref_within(p->dtype, right.v[k], right.e[k], got[k])) {
			printf("params_backprop[%zu]: expected %.9Lg, got %.9g: off by %.3Lg where %.3Lg is allowed\n", k, right.v[k], got[k],
			       error, allowed);
			return 1;
		}
		worst = fmaxl(worst, allowed > 0 ? error / allowed : 0);
		most_allowed = fmaxl(most_allowed, allowed);
		largest = fmaxl(largest, fabsl(right.v[k]));
	}
	printf("%zu elements within %.2Lg of their bounds, which are at most %.1Le of the largest\n", n, worst, most_allowed / largest);
	return most_allowed > loosest * largest;
}

int main(int argc, char **argv)
{
	struct ref_rnn p = { .mode = REF_LSTM, .dtype = REF_F32, .time_major = 1, .is_training = 1 };
	int64_t *const sizes[] = { &p.T, &p.B, &p.I, &p.U, &p.L };
	struct ref_in gradient;
	FILE *file = argc == 7 ? fopen(argv[1], "rb") : NULL;
	size_t n;

	if (!file)
		return fprintf(stderr, "parallel_check FILE T B I U L\n"), 2;
	for (int k = 0; k < 5; k++)
		*sizes[k] = atoi(argv[2 + k]);
	n = (size_t)ref_rnn_size(&p);
	p.params = read_floats(file, n);
	p.input = read_floats(file, (size_t)(p.T * p.B * p.I));
	gradient = read_floats(file, n);
	if (fgetc(file) != EOF)
		return fprintf(stderr, "the file is too long\n"), 1;
	fclose(file);
	return compare(&p, find_gradient(&p, n), gradient.d, n);
}
