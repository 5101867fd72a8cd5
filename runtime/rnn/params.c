/*
 * cg_rnn_region: the region of a weight matrix or bias in params, by the numbers that cuDNN gives them.
 */
#include "runtime/rnn/rnn.h"

int cg_rnn_region(const struct cg_rnn *rnn, int pseudo_layer, int id, int bias, struct cg_rnn_region *region)
{
	int G = rnn ? rnn->net.n_weights : 0, most = rnn ? rnn->net.layers * rnn->net.directions : 0;
	int last = bias ? 2 * G - 1 : 2 * G + (rnn ? rnn->net.n_vectors : 0);

	if (!rnn || !region)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: %s: missing", rnn ? "region" : "rnn");
	if (pseudo_layer < 0 || pseudo_layer >= most)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: pseudo_layer: expected 0 to L*D-1=%d, got %d", most - 1, pseudo_layer);
	if (bias != 0 && bias != 1)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: bias: expected 0 or 1, got %d", bias);
	if (id < 0 || id > last)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_region: id: expected 0 to %d of cell %s, got %d", last,
		               rnn->net.cell->name, id);
	if (bias)
		*region = cg_network_part(&rnn->net, pseudo_layer, id < G ? CG_RNN_BIAS_W : CG_RNN_BIAS_R, id % G);
	else if (id < 2 * G)
		*region = cg_network_part(&rnn->net, pseudo_layer, id < G ? CG_RNN_INPUT : CG_RNN_RECURRENT, id % G);
	else
		*region = cg_network_part(&rnn->net, pseudo_layer, id == 2 * G ? CG_RNN_PROJECTION : CG_RNN_VECTOR, id - 2 * G - 1);
	return CG_OK;
}
