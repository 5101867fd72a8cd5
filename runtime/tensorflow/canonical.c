/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CudnnRNNParamsSize, CudnnRNNParamsToCanonical and CudnnRNNCanonicalToParams: the number of params, and copies between the params buffer
 * and separate tensors of weights and biases, in host or device memory.  rnn/params.c gives the region of each tensor in params.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "runtime/tensorflow/cudnn_rnn.h"

#define REFUSE(row, ...) (cg_fail(CG_BAD_ARGUMENT, __VA_ARGS__), cg_fail_in(CG_BAD_ARGUMENT, "%s", (row)->name))

/* Describes the network by the sizes that TensorFlow's op has as inputs. */
static int describe_rnn(const struct cg_rnn_op *given, struct cg_rnn *rnn)
{
	struct cg_rnn_op op = *given;
	struct cg_rnn_config config;

	op.L = op.num_layers;
	op.U = op.num_units;
	op.I = op.input_size;
	cg_rnn_op_config(&op, CG_FORWARD, &config);
	return cg_rnn_describe(&config, rnn);
}

static int check(const struct cg_op *row, const struct cg_rnn_op *op)
{
	const struct cg_cell *cell = cg_rnn_op_cell(op);

	for (const struct cg_attribute *a = row->attributes; a->name; a++)
		CG_TRY(cg_attribute_check(row, a, op, 1));
	if (op->num_proj && cell->n_prevs < 2)
		return REFUSE(row, "num_proj: cell %s has no cell state: expected 0, got %lld", cell->name, (long long)op->num_proj);
	if (op->num_proj > op->num_units)
		return REFUSE(row, "num_proj: expected at most num_units=%lld, got %lld", (long long)op->num_units, (long long)op->num_proj);
	if (op->input_mode == CG_SKIP && op->input_size != op->num_units)
		return REFUSE(row, "input_mode: skip_input needs equal sizes, got input_size=%lld and num_units=%lld",
		              (long long)op->input_size, (long long)op->num_units);
	return CG_OK;
}

int cg_rnn_params_infer(const struct cg_op *row, void *given, unsigned *bound)
{
	struct cg_rnn_op *op = given;
	struct cg_rnn rnn;

	CG_TRY(check(row, op));
	CG_TRY(describe_rnn(op, &rnn));
	op->H = rnn.net.H;
	op->in = rnn.net.skip ? 0 : rnn.net.I;
	op->wide = rnn.net.directions * rnn.net.H;
	op->params = rnn.net.params;
	if (cg_op_type(row, row->ports, op) == CG_INT32 && op->params > INT32_MAX)
		return REFUSE(row, "S: expected int64, since an int32 cannot hold %lld, the number of parameters", (long long)op->params);
	cg_rnn_op_inferred(row, bound);
	return CG_OK;
}

int cg_rnn_params_size(struct cg_stream *stream, const void *given)
{
	const struct cg_rnn_op *op = given;
	int32_t half = (int32_t)op->params;

	return op->S ? cg_put(stream, op->params_size, &op->params, sizeof op->params) : cg_put(stream, op->params_size, &half, sizeof half);
}

/* ---- lists ---- */

/* The number of weight tensors of a pseudo-layer; n_biases() gives the number of the pseudo-layer's bias tensors. */
static int n_weights(const struct cg_rnn *rnn)
{
	return 2 * rnn->net.n_weights + (rnn->net.P > 0) + rnn->net.n_vectors;
}

static int n_biases(const struct cg_rnn *rnn)
{
	return 2 * rnn->net.n_weights;
}

/* Checks the op's attribute `name`: the number of tensors in one list, or in each of two lists; an op without the attribute passes. */
static int check_count(const struct cg_op *row, const void *op, const struct cg_rnn *rnn, const char *name, int64_t want)
{
	for (const struct cg_attribute *a = row->attributes; a->name; a++)
		if (!strcmp(a->name, name) && (int64_t)cg_attribute_number(a, op) != want)
			return REFUSE(row, "%s: expected the value %lld, the length of a list of tensors of cell %s with L=%d layers, "
			              "D=%d directions%s, got the value %lld", name, (long long)want, rnn->net.cell->name, rnn->net.layers,
			              rnn->net.directions, rnn->net.P ? " and a projection" : "", (long long)cg_attribute_number(a, op));
	return CG_OK;
}

int cg_rnn_items(const struct cg_op *row, const void *op, int *n)
{
	int64_t states, weights, biases;
	struct cg_rnn rnn;

	CG_TRY(check(row, op));
	CG_TRY(describe_rnn(op, &rnn));
	for (int part = 0; part < CG_GATE_PARTS; part++)
		if (rnn.net.n_parts[part] != rnn.net.n_weights)
			return REFUSE(row, "cell: expected gates that each have both matrices, W and R, and both biases, which cell %s does not have",
			              rnn.net.cell->name);
	if (rnn.net.n_scalars)
		return REFUSE(row, "cell: expected no learnt scalars, since the tensors hold matrices and vectors alone, got %d of cell %s",
		              rnn.net.n_scalars, rnn.net.cell->name);
	states = (int64_t)rnn.net.layers * rnn.net.directions;
	weights = states * n_weights(&rnn);
	biases = states * n_biases(&rnn);
	CG_TRY(check_count(row, op, &rnn, "num_params", biases));
	CG_TRY(check_count(row, op, &rnn, "num_params_weights", weights));
	CG_TRY(check_count(row, op, &rnn, "num_params_biases", biases));
	if (weights + biases > CG_ITEMS_MAX)
		return REFUSE(row, "num_layers: expected at most %d tensors of weights and biases, got %lld", CG_ITEMS_MAX,
		              (long long)(weights + biases));
	*n = (int)(weights + biases);
	return CG_OK;
}

struct part { int pseudo_layer, id, bias; };

/* The k-th tensor: weights by pseudo-layer and id, then biases.  With G gates, id 2 G is the projection's, and is skipped in a
 * network without a projection. */
static struct part part_of(const struct cg_rnn *rnn, int k)
{
	int weights = rnn->net.layers * rnn->net.directions * n_weights(rnn), each = n_weights(rnn), id = k % each;

	if (k >= weights)
		return (struct part){ (k - weights) / n_biases(rnn), (k - weights) % n_biases(rnn), 1 };
	return (struct part){ k / each, id + (id >= 2 * rnn->net.n_weights && !rnn->net.P), 0 };
}

static const char *shape_of(const struct cg_rnn *rnn, struct part p)
{
	if (p.bias || p.id > 2 * rnn->net.n_weights)
		return "U";
	if (p.id == 2 * rnn->net.n_weights)
		return "H U";
	if (p.id >= rnn->net.n_weights)
		return "U H";
	return p.pseudo_layer / rnn->net.directions ? "U D*H" : "U in";
}

int cg_rnn_item(const struct cg_op *row, const void *op, int k, struct cg_port *port, char name[CG_ITEM_NAME])
{
	struct cg_rnn rnn;
	int weights;

	(void)row;
	CG_TRY(describe_rnn(op, &rnn));
	weights = rnn.net.layers * rnn.net.directions * n_weights(&rnn);
	snprintf(name, CG_ITEM_NAME, "%s_%d", k < weights ? "weights" : "biases", k < weights ? k : k - weights);
	port->shape = shape_of(&rnn, part_of(&rnn, k));
	port->name = name;
	return CG_OK;
}

/* ---- copies ---- */

/* Copies those items of an op that are present to or from a host copy of the params.  The
 * op's row is one of cg_op_widen(), which has a port for each item. */
static int copy_items(struct cg_stream *stream, const struct cg_rnn_op *op, const struct cg_rnn *rnn, char *params, int from_items)
{
	const struct cg_mem *items = (const struct cg_mem *)(const void *)(op + 1);
	size_t each = cg_dtype_bytes(op->dtype);
	int n = rnn->net.layers * rnn->net.directions * (n_weights(rnn) + n_biases(rnn));

	for (int k = 0; k < n; k++) {
		struct part p = part_of(rnn, k);
		struct cg_rnn_region region;
		size_t bytes;

		CG_TRY(cg_rnn_region(rnn, p.pseudo_layer, p.id, p.bias, &region));
		bytes = (size_t)(region.rows * region.columns) * each;
		if (!bytes || !cg_present(items[k]))
			continue;
		if (from_items)
			CG_TRY(cg_get(stream, params + (size_t)region.offset * each, items[k], bytes));
		else
			CG_TRY(cg_put(stream, items[k], params + (size_t)region.offset * each, bytes));
	}
	return CG_OK;
}

static int copy(struct cg_stream *stream, const struct cg_rnn_op *op, int from_items)
{
	size_t bytes = (size_t)op->params * cg_dtype_bytes(op->dtype);
	struct cg_rnn rnn;
	char *params;
	int code;

	CG_TRY(describe_rnn(op, &rnn));
	params = cg_memory(NULL, bytes);
	if (!params)
		return CG_NO_MEMORY;
	code = from_items ? CG_OK : cg_get(stream, params, op->call.params, bytes);
	if (!code)
		code = copy_items(stream, op, &rnn, params, from_items);
	if (!code && from_items)
		code = cg_put(stream, op->call.params, params, bytes);
	cg_memory(params, 0);
	return code;
}

int cg_rnn_to_canonical(struct cg_stream *stream, const void *op)
{
	return copy(stream, op, 0);
}

int cg_rnn_from_canonical(struct cg_stream *stream, const void *op)
{
	return copy(stream, op, 1);
}
