/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens, fills and runs networks with their arguments between guards, and compares two of them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/device/device.h"
#include "runtime/op/op.h"
#include "verify/numbers.h"
#include "verify/promise.h"
#include "tests/sequence/guarded_network.h"

static struct { const char *test; int number; } now;

/* What gives the width of an array's rows: input, output, h, c, or the size of params, which are one row. */
enum { AS_INPUT, AS_OUTPUT, AS_H, AS_C, AS_PARAMS };
/* state: 2 to 4 for an array of a cell's second to fourth state; else 0. */
static const struct { const char *name; int shape; size_t field; int pass, state; } arrays[ARRAYS] = {
#define CALL(field) offsetof(struct cg_rnn_call, field)
#define STATES(array, name, end, field, pass) \
	[array]     = { name "_s2" end, AS_C, CALL(field[0]), pass, 2 }, \
	[array + 1] = { name "_s3" end, AS_C, CALL(field[1]), pass, 3 }, \
	[array + 2] = { name "_s4" end, AS_C, CALL(field[2]), pass, 4 },
	STATES(INPUT_S, "input", "", input_s, CG_FORWARD)
	STATES(OUTPUT_S_BACKPROP, "output", "_backprop", output_s_backprop, CG_GRAD)
	STATES(OUTPUT_S, "output", "", output_s, CG_FORWARD)
	STATES(INPUT_S_BACKPROP, "input", "_backprop", input_s_backprop, CG_GRAD)
	[INPUT]             = { "input",             AS_INPUT,  CALL(input),             CG_FORWARD, 0 },
	[INPUT_H]           = { "input_h",           AS_H,      CALL(input_h),           CG_FORWARD, 0 },
	[INPUT_C]           = { "input_c",           AS_C,      CALL(input_c),           CG_FORWARD, 0 },
	[PARAMS]            = { "params",            AS_PARAMS, CALL(params),            CG_FORWARD, 0 },
	[OUTPUT_BACKPROP]   = { "output_backprop",   AS_OUTPUT, CALL(output_backprop),   CG_GRAD, 0 },
	[OUTPUT_H_BACKPROP] = { "output_h_backprop", AS_H,      CALL(output_h_backprop), CG_GRAD, 0 },
	[OUTPUT_C_BACKPROP] = { "output_c_backprop", AS_C,      CALL(output_c_backprop), CG_GRAD, 0 },
	[OLD]               = { "old",               AS_PARAMS, 0,                       CG_GRAD, 0 },
	[OUTPUT]            = { "output",            AS_OUTPUT, CALL(output),            CG_FORWARD, 0 },
	[OUTPUT_H]          = { "output_h",          AS_H,      CALL(output_h),          CG_FORWARD, 0 },
	[OUTPUT_C]          = { "output_c",          AS_C,      CALL(output_c),          CG_FORWARD, 0 },
	[INPUT_BACKPROP]    = { "input_backprop",    AS_INPUT,  CALL(input_backprop),    CG_GRAD, 0 },
	[INPUT_H_BACKPROP]  = { "input_h_backprop",  AS_H,      CALL(input_h_backprop),  CG_GRAD, 0 },
	[INPUT_C_BACKPROP]  = { "input_c_backprop",  AS_C,      CALL(input_c_backprop),  CG_GRAD, 0 },
	[PARAMS_BACKPROP]   = { "params_backprop",   AS_PARAMS, CALL(params_backprop),   CG_GRAD, 0 },
#undef CALL
#undef STATES
};

/* ---- cases ---- */

/* Mixes nearby seeds into unrelated ones: the last steps of splitmix64. */
static unsigned long long mixed(unsigned long long x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

void network_case(const char *test, int number, unsigned long long *state)
{
	now.test = test;
	now.number = number;
	*state = seed_of_run;
	for (const char *p = test; *p; p++)
		*state = *state * 31 + (unsigned char)*p;
	*state = mixed(*state + 0x9e3779b97f4a7c15u * (unsigned)(number + 1));
}

int network_is_slow(void)
{
	return !side.context->backend->host;
}

int network_cases(int many)
{
	return !network_is_slow() ? many : many < 8 ? 1 : many < 400 ? many / 4 : many / 8;
}

int network_has(int dtype)
{
	return !side.context->backend->supports(side.context->device, dtype);
}

static void print_lengths(const struct network *net, char *to, size_t capacity)
{
	size_t used = 0;

	*to = 0;
	for (int64_t b = 0; net->ragged && b < net->B && used < capacity; b++)
		used += (size_t)snprintf(to + used, capacity - used, b ? ",%d" : " lengths %d", net->lengths[b]);
}

void network_fail(const struct network *net, const char *format, ...)
{
	const struct cg_rnn_config *c = &net->config;
	char text[512], lengths[256];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	print_lengths(net, lengths, sizeof lengths);
	if (!cg_is_template(c->cell))
		print_message("%s\n", c->cell->text);
	fail_msg("%s: CELLGRAD_TEST_SEED=%llu, case %d: %s %s %s T %lld B %lld I %lld U %lld P %lld L %d D %d input %d time_major %d training %d "
	         "dropout %g first_step %lld accumulate %d absent %x %s%s: %s", now.test, seed_of_run, now.number, c->cell->name,
	         c->options ? c->options : "", cg_dtype_name(c->dtype), (long long)net->T, (long long)net->B, (long long)c->input,
	         (long long)c->units, (long long)c->proj, c->layers, 1 + c->bidirectional, c->input_mode, c->time_major, c->training,
	         c->dropout, (long long)net->first_step, net->accumulate, net->absent, area_memories[net->memory], lengths, text);
}

static void check(const struct network *net, int code)
{
	if (code)
		network_fail(net, "%s", cg_message());
}

/* ---- sizes ---- */

int64_t network_directions(const struct network *net)
{
	return 1 + net->config.bidirectional;
}

int64_t network_states(const struct network *net)
{
	return net->config.layers * network_directions(net);
}

int64_t network_width(const struct network *net, int array)
{
	const struct cg_rnn_config *c = &net->config;
	int64_t H = c->proj ? c->proj : c->units;

	switch (arrays[array].shape) {
	case AS_INPUT:  return c->input;
	case AS_OUTPUT: return network_directions(net) * H;
	case AS_H:      return H;
	case AS_C:      return c->cell->n_prevs > (arrays[array].state ? arrays[array].state : 1) ? c->units : 0;
	}
	return (int64_t)(net->sizes.params / cg_dtype_bytes(c->dtype));
}

static int is_sequence(int array)
{
	return arrays[array].shape == AS_INPUT || arrays[array].shape == AS_OUTPUT;
}

int64_t network_length(const struct network *net, int64_t b)
{
	return net->ragged ? net->lengths[b] : net->T;
}

double *network_step(const struct network *net, int array, int64_t t, int64_t b)
{
	return net->at[array] + (net->config.time_major ? t * net->B + b : b * net->T + t) * network_width(net, array);
}

double *network_state(const struct network *net, int array, int64_t state, int64_t b)
{
	return net->at[array] + (net->config.time_major || net->config.states_major ? state * net->B + b : b * network_states(net) + state) * network_width(net, array);
}

void network_copy_step(struct network *to, int64_t t, int64_t b, const struct network *from, int64_t u, int64_t c, int array)
{
	memcpy(network_step(to, array, t, b), network_step(from, array, u, c), (size_t)network_width(to, array) * sizeof(double));
}

void network_copy_states(struct network *to, int64_t b, const struct network *from, int64_t c, int array)
{
	for (int64_t s = 0; s < network_states(to); s++)
		memcpy(network_state(to, array, s, b), network_state(from, array, s, c), (size_t)network_width(to, array) * sizeof(double));
}

/* ---- opening ---- */

void network_init(struct network *net)
{
	memset(net, 0, sizeof *net);
	cg_rnn_config_init(&net->config, sizeof net->config);
	net->config.dtype = CG_F64;
	net->config.input = 3;
	net->config.units = 2;
	net->T = 3;
	net->B = 2;
}

static void *alloc_zeros(size_t n, size_t size)
{
	void *p = calloc(n + 1, size);

	assert_non_null(p);
	return p;
}

/* CELLGRAD_TEST_ROUTE names the route that a network must take if it can: cuDNN has four cells, without options, and projections narrower
   than the units. */
static void check_route(const struct network *net)
{
	static const char *const cells[] = { "lstm", "gru", "rnn_tanh", "rnn_relu" };
	const char *wanted = getenv("CELLGRAD_TEST_ROUTE"), *route = cg_rnn_route(net->rnn);
	const struct cg_rnn_config *c = &net->config;
	int known = 0;

	for (int k = 0; k < 4; k++)
		known |= c->cell == cg_cell_find(cells[k]) && (!c->options || !*c->options) && c->proj < c->units;
	if (!wanted || c->route != side.route)
		return;
	if (strncmp(route, is_by_vendor(wanted) && !known ? "composed (" : wanted, strlen(wanted)))
		network_fail(net, "expected route %s, got %s", wanted, route);
}

void network_open(struct network *net)
{
	net->config.values = net->config.n_values ? net->values : NULL;
	if (!net->config.route)
		net->config.route = side.route;
	if (net->first_step > UINT32_MAX - net->T)
		net->first_step = UINT32_MAX - net->T;
	assert_true(net->B <= ROWS_MAX);
	check(net, cg_rnn_open(side.context, &net->config, &net->rnn));
	check_route(net);
	check(net, cg_rnn_sizes(net->rnn, net->T, net->B, net->ragged ? net->lengths : NULL, &net->sizes));
	for (int a = 0; a < ARRAYS; a++) {
		int64_t rows = is_sequence(a) ? net->T * net->B : arrays[a].shape == AS_PARAMS ? 1 : network_states(net) * net->B;

		net->n[a] = rows * network_width(net, a);
		net->at[a] = alloc_zeros((size_t)net->n[a], sizeof(double));
	}
	check(net, area_open(&net->reserve, net->sizes.reserve, 0));
	memset(area_in(&net->reserve), 0xff, net->sizes.reserve);
}

void network_close(struct network *net)
{
	for (int a = 0; a < ARRAYS; a++)
		free(net->at[a]);
	area_close(&net->reserve);
	cg_rnn_close(net->rnn);
}

void network_like(struct network *net, const struct network *other, int64_t T, int64_t B)
{
	int ragged = net->ragged;
	int32_t lengths[ROWS_MAX];

	memcpy(lengths, net->lengths, sizeof lengths);
	*net = *other;
	memcpy(net->lengths, lengths, sizeof lengths);
	net->ragged = ragged;
	net->T = T;
	net->B = B;
	network_open(net);
	memcpy(net->at[PARAMS], other->at[PARAMS], (size_t)net->n[PARAMS] * sizeof(double));
}

void network_copy(struct network *net, const struct network *other)
{
	*net = *other;
	network_open(net);
	for (int a = 0; a < INPUTS; a++)
		memcpy(net->at[a], other->at[a], (size_t)net->n[a] * sizeof(double));
}

void network_pad(struct network *net, double value)
{
	static const int padded[] = { INPUT, OUTPUT_BACKPROP };

	for (int k = 0; k < 2; k++)
		for (int64_t b = 0; b < net->B; b++)
			for (int64_t t = network_length(net, b); t < net->T; t++)
				for (int64_t j = 0; j < network_width(net, padded[k]); j++)
					network_step(net, padded[k], t, b)[j] = value;
}

void network_draw(struct network *net, unsigned long long *state, double scale)
{
	for (int a = 0; a < INPUTS; a++)
		for (int64_t n = 0; n < net->n[a]; n++)
			net->at[a][n] = net->absent >> a & 1 ? 0 : cg_round(net->config.dtype, numbers_draw(state, scale));
	network_pad(net, NAN);
}

/* ---- running ---- */

/* Is the array an argument of a call of this pass? */
static int reads(const struct network *net, int pass, int a)
{
	if (!net->n[a] || net->absent >> a & 1 || a == OLD)
		return 0;
	return arrays[a].pass == pass || (a < INPUTS && pass == CG_GRAD);
}

static void encode(const struct network *net, int a, struct area *area)
{
	size_t each = cg_dtype_bytes(net->config.dtype);
	const double *from = a < INPUTS ? net->at[a] : net->at[OLD];

	if (a >= INPUTS && !(a == PARAMS_BACKPROP && net->accumulate)) {
		memset(area_in(area), 0xff, area->bytes);
		return;
	}
	for (int64_t n = 0; n < net->n[a]; n++)
		numbers_encode(net->config.dtype, from[n], area_in(area) + (size_t)n * each);
}

void network_lend(struct network *net, int pass)
{
	size_t each = cg_dtype_bytes(net->config.dtype);
	struct cg_rnn_call *call = &net->call;

	cg_rnn_call_init(call, sizeof *call);
	call->T = net->T;
	call->B = net->B;
	call->lengths = net->ragged ? net->lengths : NULL;
	call->counter = net->counter;
	call->first_step = net->first_step;
	call->accumulate = net->accumulate;
	for (int a = 0; a < ARRAYS; a++)
		if (reads(net, pass, a)) {
			check(net, area_open(&net->areas[a], (size_t)net->n[a] * each, (size_t)a % 3 * each));
			encode(net, a, &net->areas[a]);
			check(net, area_lend(&net->areas[a], &side, net->memory, (unsigned)a, (struct cg_mem *)((char *)call + arrays[a].field)));
		}
	if (net->config.training)
		check(net, area_lend(&net->reserve, &side, net->memory, 0, &call->reserve));
	if (net->own_work)
		return;
	check(net, area_open(&net->work, net->sizes.work, 0));
	memset(area_in(&net->work), 0xff, net->sizes.work);
	check(net, area_lend(&net->work, &side, net->memory == AREA_ARENA ? AREA_ARENA : AREA_DEVICE, 0, &call->work));
}

void network_enqueue(struct network *net, int pass)
{
	check(net, (pass == CG_FORWARD ? cg_rnn_forward : cg_rnn_backward)(side.stream, net->rnn, &net->call));
}

static void collect(struct network *net, int a)
{
	size_t each = cg_dtype_bytes(net->config.dtype);
	struct area *area = &net->areas[a];

	check(net, area_back(area, &side));
	if (area_touched(area, a < INPUTS))
		network_fail(net, "wrote %s %s", a < INPUTS ? "to" : "beside", arrays[a].name);
	for (int64_t n = 0; n < net->n[a] && a >= INPUTS; n++)
		net->at[a][n] = numbers_decode(net->config.dtype, area_out(area) + (size_t)n * each);
	area_close(area);
}

void network_collect(struct network *net, int pass)
{
	for (int a = 0; a < ARRAYS; a++)
		if (reads(net, pass, a))
			collect(net, a);
	if (net->config.training) {
		check(net, area_back(&net->reserve, &side));
		if (area_touched(&net->reserve, pass == CG_GRAD))
			network_fail(net, "%s", pass == CG_GRAD ? "backward changed the reserve" : "forward wrote beside the reserve");
		memcpy(area_in(&net->reserve), area_out(&net->reserve), net->sizes.reserve);
	}
	if (net->own_work)
		return;
	check(net, area_back(&net->work, &side));
	if (area_touched(&net->work, 0))
		network_fail(net, "wrote beside the work memory");
	area_close(&net->work);
}

void network_forward(struct network *net)
{
	network_lend(net, CG_FORWARD);
	network_enqueue(net, CG_FORWARD);
	network_collect(net, CG_FORWARD);
}

void network_backward(struct network *net)
{
	network_lend(net, CG_GRAD);
	network_enqueue(net, CG_GRAD);
	network_collect(net, CG_GRAD);
}

void network_run(struct network *net)
{
	network_forward(net);
	if (net->config.training)
		network_backward(net);
}

unsigned network_outputs(const struct network *net)
{
	return net->config.training ? ALL_OUTPUTS : FORWARD_OUTPUTS;
}

/* How far sums in different orders may differ: the largest magnitude in array k, times a factor that depends on the dtype. */
static double apart(const struct network *net, int k)
{
	static const double part[] = { [CG_F32] = 1e-4, [CG_F64] = 1e-11, [CG_F16] = 0.02, [CG_BF16] = 0.16 };
	double most = 0;

	for (int64_t n = 0; n < net->n[k]; n++)
		most = fmax(most, fabs(net->at[k][n]));
	return part[net->config.dtype] * most;
}

static void compare(const struct network *a, const struct network *b, unsigned which, const char *what, int by_bits)
{
	for (int k = OUTPUT; k < ARRAYS; k++) {
		double allowed = by_bits ? 0 : apart(a, k);

		if (!(which >> k & 1) || (a->absent | b->absent) >> k & 1)
			continue;
		assert_int_equal(a->n[k], b->n[k]);
		for (int64_t n = 0; n < a->n[k]; n++)
			if (memcmp(&a->at[k][n], &b->at[k][n], sizeof(double)) && !(allowed > 0 && fabs(a->at[k][n] - b->at[k][n]) <= allowed))
				network_fail(a, "%s: %s[%lld]: %.17g and %.17g", what, arrays[k].name, (long long)n, a->at[k][n], b->at[k][n]);
	}
}

void network_same(const struct network *a, const struct network *b, unsigned which, const char *what)
{
	compare(a, b, which, what, promises_bits(cg_rnn_route(a->rnn)));
}

void network_alike(const struct network *a, const struct network *b, unsigned which, const char *what)
{
	compare(a, b, which, what, strncmp(cg_describe(side.context), "cuda", 4) != 0);
}
