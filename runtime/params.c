/*
 * Where the weights of a network lie in its one buffer: all matrices, then all biases, then all per-unit vectors, each by
 * pseudo-layer; the order of cuDNN's buffer as Keras and JAX fill it.
 */
#include "runtime/rnn.h"

/* Of counts: INT64_MAX when it is more, so that no sum or product of them is taken for less than it is. */
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

int64_t cg_rnn_width(const struct cg_rnn *rnn, int layer)
{
	return layer ? times(rnn->directions, rnn->H) : rnn->I;
}

/* Elements of a pseudo-layer's input matrix of one gate, of its matrices; of all that one has of each part. */
static int64_t input_of(const struct cg_rnn *rnn, int pseudo_layer)
{
	int layer = pseudo_layer / rnn->directions;

	return rnn->skip && !layer ? 0 : times(rnn->U, cg_rnn_width(rnn, layer));
}

static int64_t matrices_of(const struct cg_rnn *rnn, int pseudo_layer)
{
	int64_t of_gate = plus(input_of(rnn, pseudo_layer), times(rnn->U, rnn->H));

	return plus(times(rnn->n_weights, of_gate), times(rnn->P, rnn->U));
}

/* Elements of all matrices before a pseudo-layer's: those of layer 0 differ from the rest. */
static int64_t matrices_before(const struct cg_rnn *rnn, int pseudo_layer)
{
	int first = pseudo_layer < rnn->directions ? pseudo_layer : rnn->directions;

	return first * matrices_of(rnn, 0) + (pseudo_layer - first) * matrices_of(rnn, rnn->directions);
}

struct cg_rnn_region cg_rnn_part(const struct cg_rnn *rnn, int pseudo_layer, enum cg_rnn_part part, int k)
{
	int64_t U = rnn->U, G = rnn->n_weights, n = (int64_t)rnn->layers * rnn->directions;
	int64_t offset = matrices_before(rnn, pseudo_layer), biases = matrices_before(rnn, (int)n);
	int64_t in = input_of(rnn, pseudo_layer), vectors = biases + n * 2 * G * U;

	switch (part) {
	case CG_RNN_INPUT:      return (struct cg_rnn_region){ offset + k * in, in ? U : 0, in ? in / U : 0 };
	case CG_RNN_RECURRENT:  return (struct cg_rnn_region){ offset + G * in + k * U * rnn->H, U, rnn->H };
	case CG_RNN_PROJECTION: return (struct cg_rnn_region){ offset + G * (in + U * rnn->H), rnn->P, rnn->P ? U : 0 };
	case CG_RNN_BIAS_W:     return (struct cg_rnn_region){ biases + ((int64_t)pseudo_layer * 2 * G + k) * U, 1, U };
	case CG_RNN_BIAS_R:     return (struct cg_rnn_region){ biases + ((int64_t)pseudo_layer * 2 * G + G + k) * U, 1, U };
	case CG_RNN_VECTOR:     break;
	}
	return (struct cg_rnn_region){ vectors + ((int64_t)pseudo_layer * rnn->n_vectors + k) * U, 1, U };
}

int cg_rnn_count(struct cg_rnn *rnn)
{
	int64_t D = rnn->directions, n = rnn->layers * D, last = rnn->layers > 1 ? matrices_of(rnn, rnn->directions) : 0;
	int64_t vectors = times(2 * rnn->n_weights + rnn->n_vectors, rnn->U);

	rnn->params = plus(plus(times(D, matrices_of(rnn, 0)), times(n - D, last)), times(n, vectors));
	if (rnn->params > (int64_t)(PTRDIFF_MAX / cg_dtype_bytes(rnn->dtype)))
		return cg_fail(CG_BAD_ARGUMENT, "rnn: params: layers=%d, I=%lld, U=%lld, P=%lld: more than memory has room for",
		               rnn->layers, (long long)rnn->I, (long long)rnn->U, (long long)rnn->P);
	return CG_OK;
}

int cg_rnn_region(const struct cg_rnn *rnn, int pseudo_layer, int id, int bias, struct cg_rnn_region *region)
{
	int G = rnn ? rnn->n_weights : 0, most = rnn ? rnn->layers * rnn->directions : 0;
	int last = bias ? 2 * G - 1 : 2 * G + (rnn ? rnn->n_vectors : 0);

	if (!rnn || !region)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: %s: missing", rnn ? "region" : "rnn");
	if (pseudo_layer < 0 || pseudo_layer >= most)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: pseudo_layer: expected 0 to L*D-1=%d, got %d", most - 1, pseudo_layer);
	if (bias != 0 && bias != 1)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: bias: expected 0 or 1, got %d", bias);
	if (id < 0 || id > last)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: id: expected 0 to %d of cell %s, got %d", last, rnn->cell->name, id);
	if (bias)
		*region = cg_rnn_part(rnn, pseudo_layer, id < G ? CG_RNN_BIAS_W : CG_RNN_BIAS_R, id % G);
	else if (id < 2 * G)
		*region = cg_rnn_part(rnn, pseudo_layer, id < G ? CG_RNN_INPUT : CG_RNN_RECURRENT, id % G);
	else
		*region = cg_rnn_part(rnn, pseudo_layer, id == 2 * G ? CG_RNN_PROJECTION : CG_RNN_VECTOR, id - 2 * G - 1);
	return CG_OK;
}
