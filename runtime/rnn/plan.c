/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of networks: checks a caller's config and makes a plan from it.  cell_layout.c sets the fields that follow from the cell; call.c
 * runs calls.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rnn/rnn.h"

#define REFUSE(...) cg_fail(CG_BAD_ARGUMENT, "rnn: " __VA_ARGS__)

static void init(void *config, size_t size)
{
	const struct cg_rnn_config defaults = { .cell = cg_cell_find("lstm"), .layers = 1, .time_major = 1, .training = 1 };

	cg_sized_init(config, size, &defaults, sizeof defaults);
}

void cg_rnn_config_init(struct cg_rnn_config *config, size_t size)
{
	init(config, size);
}

const struct cg_rnn_config *cg_rnn_config_complete(const struct cg_rnn_config *config, struct cg_rnn_config *storage)
{
	static const struct cg_sized sized = CG_SIZED(struct cg_rnn_config, route, init);

	return cg_sized_complete(&sized, config, storage);
}

/* ---- the config ---- */

static int check_flags(const struct cg_rnn_config *c)
{
	const struct { const char *name; int value, most; } flags[] = {
		{ "bidirectional", c->bidirectional, 1 }, { "input_mode", c->input_mode, CG_AUTO }, { "time_major", c->time_major, 1 },
		{ "training", c->training, 1 }, { "allow_tf32", c->allow_tf32, 1 }, { "allow_vendor_dropout", c->allow_vendor_dropout, 1 },
		{ "strict_rounding", c->strict_rounding, 1 },
		{ "states_major", c->states_major, 1 }, { "reverse", c->reverse, 1 },
	};

	for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
		if (flags[k].value < 0 || flags[k].value > flags[k].most)
			return REFUSE("%s: expected 0 to %d, got %d", flags[k].name, flags[k].most, flags[k].value);
	if (c->reverse && c->bidirectional)
		return REFUSE("reverse: a bidirectional network has both directions: expected 0, got 1");
	return CG_OK;
}

static int check_sizes(const struct cg_rnn_config *c)
{
	const struct { const char *name; int64_t value, least; } sizes[] = {
		{ "layers", c->layers, 1 }, { "input", c->input, 1 }, { "units", c->units, 1 }, { "proj", c->proj, 0 },
	};

	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
		if (sizes[k].value < sizes[k].least)
			return REFUSE("%s: expected at least %lld, got %lld", sizes[k].name, (long long)sizes[k].least,
			              (long long)sizes[k].value);
	if (c->layers > INT_MAX / (1 + c->bidirectional))
		return REFUSE("layers: expected at most %d in a bidirectional network, got %d", INT_MAX / 2, c->layers);
	if (c->proj > c->units)
		return REFUSE("proj: expected at most units=%lld, got %lld", (long long)c->units, (long long)c->proj);
	if (c->input_mode == CG_SKIP && c->input != c->units)
		return REFUSE("input_mode: skip needs input and units to be equal, got input=%lld and units=%lld", (long long)c->input,
		              (long long)c->units);
	if (!(c->dropout >= 0 && c->dropout <= 1))
		return REFUSE("dropout: expected 0 to 1, got %g", c->dropout);
	return CG_OK;
}

static int read_options(struct cg_rnn *rnn, const struct cg_rnn_config *c)
{
	struct cg_mistake mistake;

	rnn->options = cg_parse_options(c->cell, c->options, &mistake);
	return rnn->options < 0 ? REFUSE("options: %s", mistake.text) : CG_OK;
}

/* Sets the values of the cell's params: those that the caller gives, else their defaults. */
static int read_values(struct cg_rnn *rnn, const struct cg_rnn_config *c)
{
	const struct cg_cell *cell = c->cell;
	int given[CG_PARAMS_MAX] = { 0 };

	if (c->n_values < 0)
		return REFUSE("n_values: expected at least 0, got %d", c->n_values);
	if (c->n_values && !c->values)
		return REFUSE("values: expected n_values=%d values, got NULL", c->n_values);
	for (int k = 0; k < c->n_values; k++) {
		const struct cg_value *v = &c->values[k];
		int p = 0;

		while (p < cell->n_params && (!v->name || strcmp(v->name, cell->params[p].name)))
			p++;
		if (p == cell->n_params)
			return REFUSE("values: cell %s has no param '%.60s'", cell->name, v->name ? v->name : "NULL");
		if (given[p]++)
			return REFUSE("values: param %s is given twice", v->name);
		if (isnan(v->value))
			return REFUSE("values: param %s: expected a number, got NaN", v->name);
		rnn->values[p] = cg_round(c->dtype, v->value);
	}
	for (int p = 0; p < cell->n_params; p++) {
		if (given[p])
			continue;
		if (!cell->params[p].given)
			return REFUSE("values: cell %s: param %s has no default: expected a value", cell->name, cell->params[p].name);
		rnn->values[p] = cg_round(c->dtype, cell->params[p].value);
	}
	return CG_OK;
}

static void set_text(struct cg_rnn *rnn)
{
	const struct cg_cell *cell = rnn->net.cell;
	char *options = rnn->text.options, *values = rnn->text.values;

	snprintf(rnn->text.cell, sizeof rnn->text.cell, cg_is_listed(cell) ? "%s" : "./%s.cell", cell->name);
	for (int k = 0; k < cell->n_options; k++)
		if (rnn->options >> k & 1)
			options += sprintf(options, "%s%s", *rnn->text.options ? "," : "", cell->options[k].name);
	for (int k = 0; k < cell->n_params; k++)
		if (!cell->params[k].given || rnn->values[k] != cg_round(rnn->net.dtype, cell->params[k].value))
			values += sprintf(values, "%s%s=%.17g", *rnn->text.values ? "," : "", cell->params[k].name, rnn->values[k]);
}

/* ---- the fingerprint ---- */

/* Sets the hash of what the contents and the layout of the reserve space depend on in the config; for a vendor's route, route.c adds the
 * rest. */
static void set_fingerprint(struct cg_rnn *rnn)
{
	const struct cg_network *net = &rnn->net;
	const int64_t numbers[] = { rnn->options, net->dtype, net->layers, net->directions, net->skip, net->I, net->U, net->P,
	                            net->time_major, net->reverse };

	rnn->fingerprint = cg_fingerprint(cg_cell_digest(rnn->net.cell), numbers, sizeof numbers);
	rnn->fingerprint = cg_fingerprint(rnn->fingerprint, rnn->values, sizeof rnn->values);
	rnn->fingerprint = cg_fingerprint(rnn->fingerprint, &rnn->net.dropout, sizeof rnn->net.dropout);
	rnn->fingerprint = cg_fingerprint(rnn->fingerprint, &rnn->net.seed, sizeof rnn->net.seed);
}

/* ---- opening ---- */

static int check_config(const struct cg_rnn_config *c)
{
	CG_TRY(cg_sized_check("rnn", "cg_rnn_config", c, sizeof *c));
	if (!c->cell)
		return REFUSE("cell: expected a cell, got NULL");
	if (!cg_dtype_bytes(c->dtype))
		return REFUSE("dtype: expected an enum cg_dtype, got %d", c->dtype);
	CG_TRY(check_flags(c));
	CG_TRY(check_sizes(c));
	return cg_rnn_check_route(c->route);
}

int cg_rnn_describe(const struct cg_rnn_config *c, struct cg_rnn *rnn)
{
	CG_TRY(check_config(c));
	*rnn = (struct cg_rnn){
		.net = {
			.cell = c->cell, .dtype = c->dtype, .layers = c->layers, .directions = 1 + c->bidirectional,
			.skip = c->input_mode == CG_SKIP || (c->input_mode == CG_AUTO && c->input == c->units),
			.time_major = c->time_major, .states_major = c->time_major || c->states_major, .reverse = c->reverse, .training = c->training, .I = c->input, .U = c->units, .P = c->proj,
			.H = c->proj ? c->proj : c->units, .dropout = c->dropout, .seed = c->seed,
			.allow_tf32 = c->allow_tf32, .allow_vendor_dropout = c->allow_vendor_dropout,
			.strict_rounding = c->strict_rounding,
		},
	};
	snprintf(rnn->route, sizeof rnn->route, "composed");
	CG_TRY(read_options(rnn, c));
	CG_TRY(read_values(rnn, c));
	set_text(rnn);
	CG_TRY(cg_rnn_lay_out_cell(rnn));
	set_fingerprint(rnn);
	return cg_network_count(&rnn->net);
}

/* Sets the attributes and sizes that all calls of the plan share. */
static void fill_op(struct cg_rnn *rnn)
{
	struct cg_rnn_op *op = &rnn->op;

	cg_rnn_op_init(op, sizeof *op);
	op->rnn = rnn;
	for (int k = 0; cg_rnn_modes[k]; k++)
		if (cg_cell_find(cg_rnn_modes[k]) == rnn->net.cell)
			op->rnn_mode = k;
	op->cell = rnn->net.cell;
	op->cell_name = cg_cell_find(cg_rnn_modes[op->rnn_mode]) == rnn->net.cell ? NULL : rnn->text.cell;
	op->options = *rnn->text.options ? rnn->text.options : NULL;
	op->values_text = *rnn->text.values ? rnn->text.values : NULL;
	op->input_mode = rnn->net.skip ? CG_SKIP : CG_LINEAR;
	op->direction = rnn->net.directions - 1;
	op->is_training = rnn->net.training;
	op->strict_rounding = rnn->net.strict_rounding;
	op->seed = (int64_t)(rnn->net.seed >> 32);
	op->seed2 = (int32_t)(uint32_t)rnn->net.seed;
	op->num_proj = rnn->net.P;
	op->dropout = rnn->net.dropout;
	op->L = rnn->net.layers;
	op->I = rnn->net.I;
	op->U = rnn->net.U;
	op->H = rnn->net.H;
	op->C = rnn->n_states ? rnn->net.U : 0;
	op->states = (int64_t)rnn->net.layers * rnn->net.directions;
	op->wide = rnn->net.directions * rnn->net.H;
	op->params = rnn->net.params;
	op->dtype = rnn->net.dtype;
	op->time_major = rnn->net.time_major;
	op->states_major = rnn->net.states_major && !rnn->net.time_major;
	op->reverse = rnn->net.reverse;
}

static int fill(struct cg_rnn *rnn, struct cg_context *context, const struct cg_rnn_config *config)
{
	CG_TRY(cg_rnn_describe(config, rnn));
	rnn->context = context;
	if (context->backend->supports(context->device, rnn->net.dtype))
		return cg_fail_in(CG_UNSUPPORTED, "rnn");
	CG_TRY(cg_rnn_analyse_gradient(rnn));
	CG_TRY(cg_rnn_open_route(rnn, config->route));
	return rnn->vendor ? CG_OK : cg_rnn_compile(rnn);
}

int cg_rnn_open(struct cg_context *context, const struct cg_rnn_config *config, struct cg_rnn **result)
{
	struct cg_rnn_config whole;
	struct cg_rnn *rnn;
	int code;

	if (!result)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_open: rnn: expected a pointer for the result, got NULL");
	*result = NULL;
	CG_TRY(cg_context_check(context, "cg_rnn_open"));
	rnn = cg_memory(NULL, sizeof *rnn);
	if (!rnn)
		return CG_NO_MEMORY;
	code = fill(rnn, context, cg_rnn_config_complete(config, &whole));
	if (code) {
		cg_memory(rnn, 0);
		return code;
	}
	fill_op(rnn);
	cg_cell_retain(rnn->net.cell);
	cg_context_retain(context);
	rnn->holders = 1;
	*result = rnn;
	return CG_OK;
}

void cg_rnn_free(struct cg_rnn *rnn)
{
	cg_rnn_close_route(rnn);
	cg_cell_release(rnn->net.cell);
	cg_memory(rnn, 0);
}

int cg_rnn_find_route(struct cg_context *context, const struct cg_rnn_config *config, char route[CG_ROUTE_MAX])
{
	struct cg_rnn rnn;
	int code;

	CG_TRY(cg_rnn_describe(config, &rnn));
	rnn.context = context;
	CG_TRY(context->backend->supports(context->device, rnn.net.dtype));
	CG_TRY(cg_rnn_analyse_gradient(&rnn));
	code = cg_rnn_open_route(&rnn, config->route);
	cg_rnn_close_route(&rnn);
	snprintf(route, CG_ROUTE_MAX, "%s", rnn.route);
	return code;
}

const char *cg_rnn_route(const struct cg_rnn *rnn)
{
	return rnn ? rnn->route : "";
}

const char *cg_rnn_route_at(const struct cg_rnn *rnn, int64_t T)
{
	return rnn && cg_rnn_is_beyond(rnn, T) ? rnn->beyond : cg_rnn_route(rnn);
}
