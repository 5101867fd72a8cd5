/* SPDX-License-Identifier: Apache-2.0 */
/* The cases: in each pass a step has one product and one point kernel for each stage of a cell, and one more product for a projection. */
#include "tests/help/step_cases.h"

const struct step_case step_cases[STEP_CASES] = {
	/* name                       cell        options     dtype   two ragged P  products  points */
	{ "lstm",                    "lstm",      NULL,       CG_F32,  0, 0, 0, { 1, 1 }, { 1, 1 } },
	{ "lstm, ragged",            "lstm",      NULL,       CG_F32,  1, 1, 0, { 1, 1 }, { 1, 1 } },
	{ "lstm, f16",               "lstm",      NULL,       CG_F16,  1, 0, 0, { 1, 1 }, { 1, 1 } },
	{ "peepholes",               "lstm",      "peephole", CG_F32,  0, 0, 0, { 1, 1 }, { 1, 1 } },
	{ "peepholes, ragged, bf16", "lstm",      "peephole", CG_BF16, 1, 1, 0, { 1, 1 }, { 1, 1 } },
	{ "projection",              "lstm",      NULL,       CG_F32,  0, 0, 2, { 2, 2 }, { 1, 1 } },
	{ "projection, ragged",      "lstm",      "peephole", CG_F32,  1, 1, 3, { 2, 2 }, { 1, 1 } },
	{ "gru",                     "gru",       NULL,       CG_F32,  1, 0, 0, { 1, 1 }, { 1, 1 } },
	{ "gru, ragged",             "gru",       NULL,       CG_F32,  0, 1, 0, { 1, 1 }, { 1, 1 } },
	{ "rnn_tanh",                "rnn_tanh",  NULL,       CG_F32,  0, 0, 0, { 1, 1 }, { 1, 1 } },
	{ "gru_block",               "gru_block", NULL,       CG_F32,  0, 0, 0, { 2, 2 }, { 2, 2 } },
	{ "gru_block, ragged",       "gru_block", NULL,       CG_F32,  1, 1, 0, { 2, 2 }, { 2, 2 } },
	/* A step loop computes all steps of a cell without a recurrent product. */
	{ "mingru",                  "mingru",    NULL,       CG_F32,  1, 0, 0, { 0, 0 }, { 0, 0 } },
	{ "mingru, ragged",          "mingru",    NULL,       CG_F16,  0, 1, 0, { 0, 0 }, { 0, 0 } },
	{ "sru, ragged",             "sru",       NULL,       CG_F32,  1, 1, 0, { 0, 0 }, { 0, 0 } },
	{ "indrnn",                  "indrnn",    NULL,       CG_F32,  0, 0, 0, { 0, 0 }, { 0, 0 } },
};

int step_case_open(struct net *n, const struct step_case *step_case, int64_t T, int32_t *lengths, struct cg_context *context, struct cg_stream *stream)
{
	net_begin(n, context, stream);
	n->place = CG_DEVICE;
	n->config.route = "composed";
	n->config.cell = cg_cell_find(step_case->cell);
	n->config.options = step_case->options;
	n->config.dtype = step_case->dtype;
	n->config.bidirectional = step_case->bidirectional;
	n->config.proj = step_case->proj;
	n->config.dropout = 0.25;
	n->call.T = T;
	n->call.B = STEP_CASE_ROWS;
	for (int b = 0; b < STEP_CASE_ROWS; b++)
		lengths[b] = (int32_t)(b == 3 ? T : T * b / STEP_CASE_ROWS);
	n->call.lengths = step_case->ragged ? lengths : NULL;
	return net_open(n);
}
