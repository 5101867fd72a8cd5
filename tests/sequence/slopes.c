/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares gradients with differences. The loss is the sum of the elements of output in valid steps, of output_h and of output_c, each
 * times its upstream gradient.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gen/cell.h"
#include "verify/numbers.h"
#include "tests/sequence/slopes.h"

/*
 * With this step the error of a difference by the loss's third derivative is about 1e-12, and the error by roundings of the loss, some
 * 1e-15 of it, about 1e-9. The tolerance is well above both errors, and far below any term of the gradient that may be missing.
 */
#define STEP    0x1p-20
#define ALLOWED 0x1p-26

static long double loss(struct network *net)
{
	static const int states[][2] = { { OUTPUT_H, OUTPUT_H_BACKPROP }, { OUTPUT_C, OUTPUT_C_BACKPROP } };
	long double sum = 0;

	network_forward(net);
	for (int64_t b = 0; b < net->B; b++)
		for (int64_t t = 0; t < network_length(net, b); t++)
			for (int64_t j = 0; j < network_width(net, OUTPUT); j++)
				sum += (long double)network_step(net, OUTPUT, t, b)[j] * network_step(net, OUTPUT_BACKPROP, t, b)[j];
	for (int k = 0; k < 2; k++)
		for (int64_t n = 0; n < net->n[states[k][0]]; n++)
			sum += (long double)net->at[states[k][0]][n] * net->at[states[k][1]][n];
	return sum;
}

/* Sets an array to `from` plus `by` times a direction; an element whose direction is 0, such as padding, is that of `from`. */
static void move(double *to, const double *from, const double *direction, int64_t n, double by)
{
	for (int64_t k = 0; k < n; k++)
		to[k] = direction[k] != 0 ? from[k] + by * direction[k] : from[k];
}

static void check(struct network *net, int array, const double *direction, long double right, const char *what, struct slopes *s)
{
	int64_t n = net->n[array];
	size_t bytes = (size_t)n * sizeof(double);
	double *kept = malloc(bytes + 1);
	long double up, down, here, slope, allowed, off;

	assert_non_null(kept);
	memcpy(kept, net->at[array], bytes);
	move(net->at[array], kept, direction, n, STEP);
	up = loss(net);
	move(net->at[array], kept, direction, n, -STEP);
	down = loss(net);
	memcpy(net->at[array], kept, bytes);
	free(kept);
	slope = (up - down) / (2 * STEP);
	allowed = ALLOWED * (1 + fabsl(right));
	if (!strcmp(net->config.cell->name, "rnn_relu")) {
		/* At a kink of relu the derivative lies between those of both sides. */
		here = loss(net);
		allowed += fabsl(up - here - (here - down)) / STEP;
	}
	off = fabsl(slope - right);
	s->checked++;
	if (off / allowed > s->worst)
		s->worst = (double)(off / allowed);
	if (!(off <= allowed))
		network_fail(net, "%s: expected %.9Lg by differences, got %.9Lg", what, slope, right);
}

static int is_padding(const struct network *net, int array, int64_t n)
{
	return isnan(net->at[array][n]);
}

void slopes_check(struct network *net, unsigned long long *state, int64_t each, struct slopes *s)
{
	static const struct { int array, grad; const char *name; } all[] = {
		{ INPUT, INPUT_BACKPROP, "input_backprop" }, { INPUT_H, INPUT_H_BACKPROP, "input_h_backprop" },
		{ INPUT_C, INPUT_C_BACKPROP, "input_c_backprop" }, { PARAMS, PARAMS_BACKPROP, "params_backprop" },
	};

	network_forward(net);
	network_backward(net);
	for (int64_t k = 0; k < net->n[PARAMS] && net->accumulate; k++)
		net->at[PARAMS_BACKPROP][k] -= net->at[OLD][k];
	for (int a = 0; a < 4; a++) {
		const double *grad = net->at[all[a].grad];
		int64_t n = net->n[all[a].array];
		double *direction = calloc((size_t)n + 1, sizeof *direction);
		long double right = 0;

		assert_non_null(direction);
		if (net->absent >> all[a].array & 1)
			n = 0;
		for (int64_t k = 0; k < n; k++) {
			direction[k] = is_padding(net, all[a].array, k) ? 0 : 2 * numbers_uniform(state) - 1;
			right += (long double)direction[k] * grad[k];
		}
		if (n)
			check(net, all[a].array, direction, right, all[a].name, s);
		memset(direction, 0, (size_t)n * sizeof *direction);
		for (int64_t k = 0; k < (each && each < n ? each : n); k++) {
			int64_t at = each && each < n ? numbers_below(state, (unsigned)n) : k;

			if (is_padding(net, all[a].array, at))
				continue;
			direction[at] = 1;
			check(net, all[a].array, direction, grad[at], all[a].name, s);
			direction[at] = 0;
		}
		free(direction);
	}
}
