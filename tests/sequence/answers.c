/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the independent reference's answer for a network, and judges the library's.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gen/cell.h"
#include "verify/promise.h"
#include "verify/sequence.h"
#include "tests/sequence/guarded_network.h"

static struct { long double ratio; int array; long judged, unbounded; } seen;

static const char *const names[ARRAYS] = {
	[OUTPUT] = "output", [OUTPUT_H] = "output_h", [OUTPUT_C] = "output_c", [INPUT_BACKPROP] = "input_backprop",
	[OUTPUT_S] = "output_s2", [OUTPUT_S + 1] = "output_s3", [OUTPUT_S + 2] = "output_s4", [INPUT_S_BACKPROP] = "input_s2_backprop",
	[INPUT_S_BACKPROP + 1] = "input_s3_backprop", [INPUT_S_BACKPROP + 2] = "input_s4_backprop",
	[INPUT_H_BACKPROP] = "input_h_backprop", [INPUT_C_BACKPROP] = "input_c_backprop", [PARAMS_BACKPROP] = "params_backprop",
};

static int mode_of(const struct network *net)
{
	static const char *const cells[] = { [REF_LSTM] = "lstm", [REF_GRU] = "gru", [REF_RNN_TANH] = "rnn_tanh", [REF_RNN_RELU] = "rnn_relu" };
	int mode = 0;

	while (strcmp(cells[mode], net->config.cell->name))
		mode++;
	return mode;
}

static struct ref_rnn problem(const struct network *net)
{
	const struct cg_rnn_config *c = &net->config;

	return (struct ref_rnn){
		.T = net->T, .B = net->B, .I = c->input, .U = c->units, .L = c->layers, .P = c->proj, .mode = mode_of(net), .dtype = c->dtype,
		.bidirectional = c->bidirectional, .input_mode = c->input_mode, .time_major = c->time_major, .states_major = c->states_major, .reverse = c->reverse, .is_training = c->training,
		.peephole = c->options != NULL, .accumulate = net->accumulate, .by_vendor = is_by_vendor(cg_rnn_route(net->rnn)),
		.lengths = net->ragged ? net->lengths : NULL,
		.dropout = c->dropout, .key = c->seed, .call = net->counter, .first_step = net->first_step,
		.input = { .d = net->at[INPUT] }, .input_h = { .d = net->at[INPUT_H] }, .input_c = { .d = net->at[INPUT_C] },
		.params = { .d = net->at[PARAMS] }, .output_backprop = { .d = net->at[OUTPUT_BACKPROP] },
		.output_h_backprop = { .d = net->at[OUTPUT_H_BACKPROP] }, .output_c_backprop = { .d = net->at[OUTPUT_C_BACKPROP] },
		.params_backprop_old = { .d = net->at[OLD] },
	};
}

void answers_alloc(const struct network *net, struct answers *answers)
{
	memset(answers, 0, sizeof *answers);
	for (int a = OUTPUT; a < ARRAYS; a++) {
		answers->v[a] = calloc((size_t)net->n[a] * 2 + 1, sizeof(long double));
		assert_non_null(answers->v[a]);
		answers->e[a] = answers->v[a] + net->n[a];
	}
}

void answers_get(const struct network *net, struct answers *answers)
{
	struct ref_rnn r = problem(net);
	struct ref_out *outs[ARRAYS] = {
		[OUTPUT] = &r.output, [OUTPUT_H] = &r.output_h, [OUTPUT_C] = &r.output_c, [INPUT_BACKPROP] = &r.input_backprop,
		[INPUT_H_BACKPROP] = &r.input_h_backprop, [INPUT_C_BACKPROP] = &r.input_c_backprop,
		[PARAMS_BACKPROP] = &r.params_backprop,
	};

	if (net->n[PARAMS] != ref_rnn_size(&r))
		network_fail(net, "params: expected %lld, got %lld", (long long)ref_rnn_size(&r), (long long)net->n[PARAMS]);
	answers_alloc(net, answers);
	for (int a = OUTPUT; a < ARRAYS; a++)
		if (outs[a])
			*outs[a] = (struct ref_out){ answers->v[a], answers->e[a] };
	assert_int_equal(ref_rnn_forward(&r), 0);
	if (net->config.training)
		assert_int_equal(ref_rnn_backward(&r), 0);
}

void answers_free(struct answers *answers)
{
	for (int a = 0; a < ARRAYS; a++)
		free(answers->v[a]);
}

void answers_judge(const struct network *net, const struct answers *answers, unsigned which)
{
	for (int a = OUTPUT; a < ARRAYS; a++)
		for (int64_t n = 0; n < net->n[a] && which >> a & 1 && !(net->absent >> a & 1); n++) {
			double got = net->at[a][n];
			long double right = answers->v[a][n], allowed = ref_tolerance(net->config.dtype, right, answers->e[a][n]);
			long double ratio = fabsl(got - right) / allowed;

			if (!ref_within(net->config.dtype, right, answers->e[a][n], got))
				network_fail(net, "%s[%lld]: expected %.9Lg within %.3Lg, got %.9g", names[a], (long long)n, right, allowed, got);
			if (isfinite(allowed) && allowed > 0 && ratio > seen.ratio) {
				seen.ratio = ratio;
				seen.array = a;
			}
			seen.judged++;
			seen.unbounded += !isfinite(allowed);
		}
}

void answers_print_worst(const char *test)
{
	long double ratio = seen.ratio, unbounded = (long double)seen.unbounded / seen.judged;

	print_message("# %s: worst over bound %.3Lf, in %s; %ld judged, %.2Lf%% unbounded\n", test, ratio, names[seen.array], seen.judged,
	              100 * unbounded);
	memset(&seen, 0, sizeof seen);
	assert_true(ratio > 0.01L && unbounded < 0.2L);
}
