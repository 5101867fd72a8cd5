/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains a user's cell: a network of two layers in both directions, on rows of different lengths, by gradient steps. The losses equal
 * those of the same training on the cpu, to 1 part in 10,000.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "verify/numbers.h"
#include "tests/sequence/suite.h"

enum { STEPS = 50, SIZE = 4096 };

/* A cell with gates for what is kept, what is new and what is output, a per-unit weight outside the gates, and a cell state. */
static const char text[] =
	"cell keeper\n" "gates a_k a_n a_o\n" "state c\n" "output h\n" "option weigh w_c\n" "param slope = 1\n"
	"k = sigmoid(a_k + w_c * c_prev)\n" "n = tanh(slope * a_n)\n" "o = sigmoid(a_o)\n"
	"c = k * c_prev + (1 - k) * n\n" "t = tanh(c)\n" "h = o * t\n" "save k n o t c h\n";

/* Host memory of a training run. */
struct run { float params[SIZE], slope[SIZE], input[SIZE], output[SIZE], wanted[SIZE], above[SIZE]; unsigned char reserve[1 << 18]; };

static struct cg_mem host(void *data, size_t bytes)
{
	return (struct cg_mem){ .data = data, .bytes = bytes };
}

static size_t draw(float *to, size_t n, unsigned long long *state, double scale)
{
	assert_true(n <= SIZE);
	for (size_t k = 0; k < n; k++)
		to[k] = (float)numbers_draw(state, scale);
	return n;
}

/* Returns half the sum of squared errors of the valid steps; sets run->above to the gradient of this sum. */
static double loss_of(struct run *run, const struct network *net, int64_t wide)
{
	double loss = 0;

	for (int64_t t = 0; t < net->T; t++)
		for (int64_t b = 0; b < net->B; b++)
			for (int64_t j = 0; j < wide; j++) {
				size_t k = (size_t)((t * net->B + b) * wide + j);
				float off = t < net->lengths[b] ? run->output[k] - run->wanted[k] : 0;

				run->above[k] = off;
				loss += 0.5 * off * off;
			}
	return loss;
}

/* Trains a network on a device from fixed initial numbers, and stores the losses. */
static void train(const struct network *net, struct cg_context *context, double loss[STEPS])
{
	const int64_t wide = 2 * net->config.units;
	struct run *run = calloc(1, sizeof *run);
	unsigned long long state = 7;
	struct cg_rnn_sizes sizes;
	struct cg_stream *stream;
	struct cg_rnn_call c;
	struct cg_rnn *rnn;
	size_t n;

	assert_non_null(run);
	if (cg_stream_open(context, NULL, &stream) || cg_rnn_open(context, &net->config, &rnn) ||
	    cg_rnn_sizes(rnn, net->T, net->B, net->lengths, &sizes))
		fail_msg("%s", cg_message());
	assert_true(sizes.reserve <= sizeof run->reserve);
	n = draw(run->params, sizes.params / sizeof(float), &state, 0.3);
	cg_rnn_call_init(&c, sizeof c);
	c.T = net->T;
	c.B = net->B;
	c.lengths = net->lengths;
	c.params = host(run->params, sizes.params);
	c.params_backprop = host(run->slope, sizes.params);
	c.reserve = host(run->reserve, sizes.reserve);
	c.input = host(run->input, draw(run->input, (size_t)(net->T * net->B * net->config.input), &state, 1) * sizeof(float));
	c.output = c.output_backprop = host(run->output, draw(run->wanted, (size_t)(net->T * net->B * wide), &state, 0.3) * sizeof(float));
	c.output_backprop.data = run->above;
	for (int step = 0; step < STEPS; step++) {
		if (cg_rnn_forward(stream, rnn, &c))
			fail_msg("%s", cg_message());
		loss[step] = loss_of(run, net, wide);
		if (cg_rnn_backward(stream, rnn, &c))
			fail_msg("%s", cg_message());
		for (size_t k = 0; k < n; k++)
			run->params[k] -= 0.2f * run->slope[k];
	}
	cg_rnn_close(rnn);
	cg_stream_close(stream);
	free(run);
}

void test_training(void **nothing)
{
	static const int32_t lengths[] = { 3, 5, 0, 4 };
	double here[STEPS], there[STEPS];
	struct cg_context *cpu;
	struct cg_cell *cell;
	struct network net;

	(void)nothing;
	assert_int_equal(cg_cell_parse(text, "keeper", &cell), CG_OK);
	network_init(&net);
	net.config.cell = cell;
	net.config.options = "weigh";
	net.config.dtype = CG_F32;
	net.config.layers = 2;
	net.config.bidirectional = 1;
	net.config.input = 3;
	net.config.units = 6;
	net.T = 5;
	net.B = 4;
	memcpy(net.lengths, lengths, sizeof lengths);
	if (cg_open("cpu", &cpu))
		fail_msg("%s", cg_message());
	train(&net, side.context, here);
	train(&net, cpu, there);
	print_message("# training: loss %.6f, after %d steps %.6f\n", here[0], STEPS, here[STEPS - 1]);
	assert_true(here[STEPS - 1] < 0.3 * here[0]);
	for (int step = 0; step < STEPS; step++)
		if (!(fabs(here[step] - there[step]) <= 1e-4 * there[step]))
			fail_msg("step %d: loss %.9g, on the cpu %.9g", step, here[step], there[step]);
	cg_close(cpu);
	cg_cell_close(cell);
}
