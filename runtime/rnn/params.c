/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the region of a weight matrix, a bias, a per-unit weight or a scalar in params, by cuDNN's numbers or by the cell's names.
 */
#include <string.h>

#include "runtime/rnn/rnn.h"

int cg_rnn_region(const struct cg_rnn *rnn, int pseudo_layer, int id, int bias, struct cg_rnn_region *region)
{
	int G = rnn ? rnn->net.n_weights : 0, most = rnn ? rnn->net.layers * rnn->net.directions : 0;
	int vectors = rnn ? rnn->net.n_vectors : 0, last = bias ? 2 * G - 1 : 2 * G + vectors + (rnn ? rnn->net.n_scalars : 0);

	if (!rnn || !region)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: %s: expected a pointer, got NULL", rnn ? "region" : "rnn");
	if (pseudo_layer < 0 || pseudo_layer >= most)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: pseudo_layer: expected 0 to L*D-1=%d, got %d", most - 1, pseudo_layer);
	if (bias != 0 && bias != 1)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: bias: expected 0 or 1, got %d", bias);
	if (id < 0 || id > last)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: id: expected 0 to %d, a region of cell %s, got %d", last,
		               rnn->net.cell->name, id);
	if (bias)
		*region = cg_network_part(&rnn->net, pseudo_layer, id < G ? CG_RNN_BIAS_W : CG_RNN_BIAS_R, id % G);
	else if (id < 2 * G)
		*region = cg_network_part(&rnn->net, pseudo_layer, id < G ? CG_RNN_INPUT : CG_RNN_RECURRENT, id % G);
	else if (id <= 2 * G + vectors)
		*region = cg_network_part(&rnn->net, pseudo_layer, id == 2 * G ? CG_RNN_PROJECTION : CG_RNN_VECTOR, id - 2 * G - 1);
	else
		*region = cg_network_part(&rnn->net, pseudo_layer, CG_RNN_SCALAR, id - 2 * G - 1 - vectors);
	return CG_OK;
}

int cg_rnn_params(const struct cg_rnn_config *config, size_t *bytes)
{
	struct cg_rnn_config whole;
	struct cg_rnn rnn;

	if (!bytes)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_params: bytes: expected a pointer, got NULL");
	CG_TRY(cg_rnn_describe(cg_rnn_config_complete(config, &whole), &rnn));
	*bytes = (size_t)rnn.net.params * cg_dtype_bytes(rnn.net.dtype);
	return CG_OK;
}

#define REFUSE(...) cg_fail(CG_BAD_ARGUMENT, "cg_rnn_config_region: " __VA_ARGS__)

/* Finds a gate, a per-unit weight or a scalar of the network by its name; *k receives its number among those of its kind that have a
 * region in params. */
static int find_part(const struct cg_rnn *rnn, enum cg_rnn_part part, const char *name, int *k)
{
	const struct cg_cell *cell = rnn->net.cell;
	const int is_vector = part == CG_RNN_VECTOR, is_scalar = part == CG_RNN_SCALAR;
	const char *names[CG_WEIGHTS_MAX > CG_GATES_MAX ? CG_WEIGHTS_MAX : CG_GATES_MAX], *near;
	int n = 0;

	for (int gate = 0; gate < cell->n_gates && !is_vector && !is_scalar; gate++)
		if (cell->gates[gate].whole < 0)
			names[n++] = cell->gates[gate].name;
	for (; n < rnn->net.n_vectors && is_vector; n++)
		names[n] = cell->weights[rnn->vectors[n]].name;
	for (; n < cell->n_scalars && is_scalar; n++)
		names[n] = cell->scalars[n].name;
	for (*k = 0; *k < n; ++*k)
		if (!strcmp(names[*k], name))
			return CG_OK;
	near = cg_nearest(name, names, n);
	return REFUSE("name: cell %s has no %s '%.60s'%s%s%s", cell->name,
	              is_vector ? "per-unit weight, with these options," : is_scalar ? "scalar" : "gate", name,
	              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int cg_rnn_config_region(const struct cg_rnn_config *config, int pseudo_layer, enum cg_rnn_part part, const char *name,
                         struct cg_rnn_region *region)
{
	struct cg_rnn_config whole;
	struct cg_rnn rnn;
	int states, k = 0;

	if (!region || (!name && part != CG_RNN_PROJECTION))
		return REFUSE("%s: expected a pointer, got NULL", region ? "name" : "region");
	if ((unsigned)part > CG_RNN_SCALAR)
		return REFUSE("part: expected an enum cg_rnn_part, got %d", (int)part);
	CG_TRY(cg_rnn_describe(cg_rnn_config_complete(config, &whole), &rnn));
	states = rnn.net.layers * rnn.net.directions;
	if (pseudo_layer < 0 || pseudo_layer >= states)
		return REFUSE("pseudo_layer: expected 0 to L*D-1=%d, got %d", states - 1, pseudo_layer);
	if (part != CG_RNN_PROJECTION)
		CG_TRY(find_part(&rnn, part, name, &k));
	*region = cg_network_part(&rnn.net, pseudo_layer, part, k);
	return CG_OK;
}
