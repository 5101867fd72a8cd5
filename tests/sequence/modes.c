/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients compared with differences, in f64: seven networks (cells, peepholes, projections), each in one and both directions, with
 * linear and skipped input, ragged or not, with dropout or not, time-major or not; where network_is_slow() fewer of these.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "verify/numbers.h"
#include "tests/sequence/slopes.h"
#include "tests/sequence/suite.h"

static const struct { const char *cell, *options; int64_t P; } kinds[] = {
	{ "lstm", NULL, 0 }, { "lstm", "peephole", 0 }, { "lstm", NULL, 2 }, { "lstm", "peephole", 2 }, { "gru", NULL, 0 },
	{ "rnn_tanh", NULL, 0 }, { "rnn_relu", NULL, 0 },
};
enum { KINDS = sizeof kinds / sizeof *kinds, WAYS = 1 << 5 };

static void choose(struct network *net, int kind, int way)
{
	static const int32_t lengths[] = { 2, 0, 4 };

	network_init(net);
	net->config.cell = cg_cell_find(kinds[kind].cell);
	net->config.options = kinds[kind].options;
	net->config.proj = kinds[kind].P;
	net->config.layers = 2;
	net->config.units = 3;
	net->config.bidirectional = way & 1;
	net->config.input_mode = way >> 1 & 1 ? CG_SKIP : CG_LINEAR;
	net->ragged = way >> 2 & 1;
	net->config.dropout = way >> 3 & 1 ? 0.4 : 0;
	net->config.seed = 99;
	net->counter = 3;
	net->config.time_major = way >> 4 & 1;
	net->accumulate = way >> 1 & 1;
	net->T = 4;
	net->B = 3;
	for (int b = 0; b < 3; b++)
		net->lengths[b] = lengths[b];
}

void test_modes(void **nothing)
{
	struct slopes s = { .checked = 0 };
	int cases = KINDS * WAYS, fewer = network_cases(cases);
	unsigned long long state;
	struct network net;

	(void)nothing;
	if (!network_has(CG_F64)) {
		print_message("# the device has no f64\n");
		skip();
		return;
	}
	/* With fewer cases each of the seven networks gets some of the 32 combinations: the step of 37 is coprime to 7 and to 32. */
	for (int k = 0; k < fewer; k++) {
		int which = fewer < cases ? k * 37 % cases : k;

		network_case("differences", which, &state);
		choose(&net, which % KINDS, which / KINDS);
		network_open(&net);
		network_draw(&net, &state, 0.5);
		slopes_check(&net, &state, network_is_slow() ? 3 : 24, &s);
		network_close(&net);
	}
	print_message("# differences: %ld slopes, worst over what is allowed %.3f\n", s.checked, s.worst);
}
