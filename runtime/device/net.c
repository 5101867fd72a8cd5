/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a network's params in one buffer: all matrices, then all biases, then all per-unit vectors, then all scalars, each by
 * pseudo-layer.
 * Matrices and biases are in the order in which Keras and JAX fill cuDNN's weight buffer.
 */
#include "gen/rows.h"
#include "runtime/device/net.h"

/* Product and sum of counts that stay at INT64_MAX instead of overflowing. */
static int64_t times(int64_t a, int64_t b)
{
	int64_t c;

	return __builtin_mul_overflow(a, b, &c) ? INT64_MAX : c;
}

static int64_t plus(int64_t a, int64_t b)
{
	int64_t c;

	return __builtin_add_overflow(a, b, &c) ? INT64_MAX : c;
}

int64_t cg_network_width(const struct cg_network *net, int layer)
{
	return layer ? times(net->directions, net->H) : net->I;
}

/* The number of elements of one gate's input matrix in a pseudo-layer. */
static int64_t input_of(const struct cg_network *net, int pseudo_layer)
{
	int layer = pseudo_layer / net->directions;

	return net->skip && !layer ? 0 : times(net->U, cg_network_width(net, layer));
}

/* The number of elements of all matrices of a pseudo-layer. */
static int64_t matrices_of(const struct cg_network *net, int pseudo_layer)
{
	int64_t input = times(net->n_parts[CG_PART_W], input_of(net, pseudo_layer));
	int64_t recurrent = times(net->n_parts[CG_PART_R], times(net->U, net->H));

	return plus(plus(input, recurrent), times(net->P, net->U));
}

/* The number of elements of all matrices of the pseudo-layers before this one.  Layer 0 may have other sizes than the rest. */
static int64_t matrices_before(const struct cg_network *net, int pseudo_layer)
{
	int first = pseudo_layer < net->directions ? pseudo_layer : net->directions;

	return first * net->matrices[0] + (pseudo_layer - first) * net->matrices[1];
}

/* The region of one part of gate k's weights.  The regions of this part of all gates follow one another from `offset` on; that of a gate
 * that lacks the part is empty. */
static struct cg_rnn_region gate_part(const struct cg_network *net, enum cg_gate_part part, int k, int64_t offset, int64_t rows,
                                      int64_t columns)
{
	int n = net->part[part][k];

	if (n < 0)
		return (struct cg_rnn_region){ offset, 0, columns };
	return (struct cg_rnn_region){ offset + n * rows * columns, rows, columns };
}

/* The region of a matrix of a pseudo-layer. */
static struct cg_rnn_region matrix_part(const struct cg_network *net, int pseudo_layer, enum cg_rnn_part part, int k)
{
	int64_t offset = matrices_before(net, pseudo_layer), in = input_of(net, pseudo_layer), U = net->U;
	int64_t recurrent = offset + net->n_parts[CG_PART_W] * in;

	if (part == CG_RNN_INPUT)
		return gate_part(net, CG_PART_W, k, offset, in ? U : 0, in / U);
	if (part == CG_RNN_RECURRENT)
		return gate_part(net, CG_PART_R, k, recurrent, U, net->H);
	return (struct cg_rnn_region){ recurrent + net->n_parts[CG_PART_R] * U * net->H, net->P, net->P ? U : 0 };
}

struct cg_rnn_region cg_network_part(const struct cg_network *net, int pseudo_layer, enum cg_rnn_part part, int k)
{
	const int of_x = net->n_parts[CG_PART_BIAS_W], states = net->layers * net->directions;
	int64_t U = net->U, each = (int64_t)(of_x + net->n_parts[CG_PART_BIAS_R]) * U, biases;

	if (part <= CG_RNN_PROJECTION)
		return matrix_part(net, pseudo_layer, part, k);
	biases = matrices_before(net, states);
	if (part == CG_RNN_BIAS_W)
		return gate_part(net, CG_PART_BIAS_W, k, biases + pseudo_layer * each, 1, U);
	if (part == CG_RNN_BIAS_R)
		return gate_part(net, CG_PART_BIAS_R, k, biases + pseudo_layer * each + of_x * U, 1, U);
	biases += states * each;
	if (part == CG_RNN_VECTOR)
		return (struct cg_rnn_region){ biases + ((int64_t)pseudo_layer * net->n_vectors + k) * U, 1, U };
	return (struct cg_rnn_region){ biases + (int64_t)states * net->n_vectors * U + (int64_t)pseudo_layer * net->n_scalars + k, 1, 1 };
}

int cg_network_count(struct cg_network *net)
{
	int64_t D = net->directions, n = net->layers * D;
	int64_t biases = net->n_parts[CG_PART_BIAS_W] + net->n_parts[CG_PART_BIAS_R];
	int64_t vectors = plus(times(biases + net->n_vectors, net->U), net->n_scalars);

	net->matrices[0] = matrices_of(net, 0);
	net->matrices[1] = net->layers > 1 ? matrices_of(net, net->directions) : 0;
	net->params = plus(plus(times(D, net->matrices[0]), times(n - D, net->matrices[1])), times(n, vectors));
	if (net->params > (int64_t)(PTRDIFF_MAX / cg_dtype_bytes(net->dtype)))
		return cg_fail(CG_BAD_ARGUMENT, "rnn: params: a network of layers=%d, I=%lld, U=%lld, P=%lld has params of more than PTRDIFF_MAX bytes",
		               net->layers, (long long)net->I, (long long)net->U, (long long)net->P);
	return CG_OK;
}

uint64_t cg_network_drop_key(const struct cg_network *net, uint64_t counter, int layer)
{
	return cg_drop_key((int64_t)(net->seed >> 32), (int64_t)(net->seed & UINT32_MAX), counter, layer);
}
