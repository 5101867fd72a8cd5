/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of weight formats: tensor names, gate order, orientation of matrices, parts combined in one tensor, treatment of the two
 * biases.  A format cannot hold a network that its rows cannot describe.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/weights/format.h"

#define END { .name = NULL }
#define END_FORMS { .templates = NULL }

/* ---- ours ---- */

static const struct cg_template buffer[] = { { "params%g", "", NULL, CG_BUFFER }, END };
static const struct cg_form cellgrad[] = { { .templates = buffer }, END_FORMS };

/* cuDNN's matrices and biases in the order of its linLayerID; per-unit vectors follow the matrices. */
static const struct cg_template lists[] = {
	{ "weights_%n", "W", NULL, CG_EACH },
	{ "weights_%n", "R", NULL, CG_EACH },
	{ "weights_%n", "P", NULL, 0       },
	{ "weights_%n", "v", NULL, CG_EACH },
	{ "biases_%n",  "w", NULL, CG_EACH },
	{ "biases_%n",  "r", NULL, CG_EACH },
	END
};
static const struct cg_form canonical[] = { { .templates = lists }, END_FORMS };

/* ---- PyTorch's state_dict ---- */

static const struct cg_template torch[] = {
	{ "weight_ih_l%l%r", "W", NULL, 0 },
	{ "weight_hh_l%l%r", "R", NULL, 0 },
	{ "weight_hr_l%l%r", "P", NULL, 0 },
	{ "bias_ih_l%l%r",   "w", NULL, 0 },
	{ "bias_hh_l%l%r",   "r", NULL, 0 },
	END
};
static const struct cg_form pytorch[] = {
	{ "lstm",     "ifco", .templates = torch },
	{ "gru",      "rzn",  .templates = torch },
	{ "rnn_tanh", "h",    .templates = torch },
	{ "rnn_relu", "h",    .templates = torch },
	END_FORMS
};

/* ---- Keras ---- */

#define KERNELS { "kernel", "W", NULL, CG_ACROSS }, { "recurrent_kernel", "R", NULL, CG_ACROSS }
static const struct cg_template one_bias[] = { KERNELS, { "bias", "b", NULL, 0 }, END };
static const struct cg_template two_biases[] = { KERNELS, { "bias", "wr", NULL, CG_PAIR }, END };
static const struct cg_form keras[] = {
	{ "lstm",      "ifco", .templates = one_bias,   .prefix = "lstm",       .word = "lstm_cell"       },
	/* Keras's GRU with reset_after */
	{ "gru",       "zrn",  .templates = two_biases, .prefix = "gru",        .word = "gru_cell"        },
	/* Keras's GRU without reset_after */
	{ "gru_block", "zrn",  .templates = one_bias,   .prefix = "gru",        .word = "gru_cell"        },
	{ "rnn_tanh",  "h",    .templates = one_bias,   .prefix = "simple_rnn", .word = "simple_rnn_cell" },
	{ "rnn_relu",  "h",    .templates = one_bias,   .prefix = "simple_rnn", .word = "simple_rnn_cell" },
	END_FORMS
};

/* ---- TensorFlow's block ops ---- */

static const struct cg_template lstm_block[] = {
	{ "w",   "WR", NULL, CG_ACROSS },
	{ "b",   "b",  NULL, 0         },
	{ "wci", "v",  "i",  0         },
	{ "wcf", "v",  "f",  0         },
	{ "wco", "v",  "o",  0         },
	END
};
static const struct cg_template gru_block[] = {
	{ "w_ru", "WR", "rz", CG_ACROSS },
	{ "w_c",  "WR", "n",  CG_ACROSS },
	{ "b_ru", "b",  "rz", 0         },
	{ "b_c",  "b",  "n",  0         },
	END
};
static const struct cg_form block[] = {
	{ "lstm_block", "icfo", .templates = lstm_block, .params = CG_HAS_FORGET_BIAS | CG_HAS_CELL_CLIP },
	{ "gru_block",  "rzn",  .templates = gru_block },
	END_FORMS
};
static const struct cg_form block_v2[] = {
	{ "lstm", "ifco", .templates = lstm_block, .params = CG_HAS_CELL_CLIP },
	END_FORMS
};

/* ---- checkpoints of TensorFlow's cuDNN layers ---- */

static const struct cg_template whole[] = { { "kernel", "WR", NULL, CG_ACROSS }, { "bias", "b", NULL, 0 }, END };
static const struct cg_template apart[] = {
	{ "gates/kernel",                       "WR", "rz", CG_ACROSS },
	{ "gates/bias",                         "b",  "rz", 0         },
	{ "candidate/input_projection/kernel",  "W",  "n",  CG_ACROSS },
	{ "candidate/input_projection/bias",    "w",  "n",  0         },
	{ "candidate/hidden_projection/kernel", "R",  "n",  CG_ACROSS },
	{ "candidate/hidden_projection/bias",   "r",  "n",  0         },
	END
};
static const struct cg_form checkpoint[] = {
	{ "lstm",     "icfo", .templates = whole, .word = "cudnn_compatible_lstm_cell" },
	{ "gru",      "rzn",  .templates = apart, .word = "cudnn_compatible_gru_cell"  },
	{ "rnn_tanh", "h",    .templates = whole, .word = "basic_rnn_cell"             },
	{ "rnn_relu", "h",    .templates = whole, .word = "basic_rnn_cell"             },
	END_FORMS
};

/* ---- ONNX ---- */

#define INPUTS { "W", "W", NULL, 0 }, { "R", "R", NULL, 0 }, { "B", "wr", NULL, 0 }
static const struct cg_template node[] = { INPUTS, END };
static const struct cg_template lstm_node[] = { INPUTS, { "P", "v", "iof", 0 }, END };
static const struct cg_form onnx[] = {
	{ "lstm",      "iofc", .templates = lstm_node },
	{ "gru",       "zrn",  .templates = node      },         /* ONNX's GRU with linear_before_reset 1 */
	{ "gru_block", "zrn",  .templates = node      },         /* ONNX's GRU with linear_before_reset 0 */
	{ "rnn_tanh",  "h",    .templates = node      },
	{ "rnn_relu",  "h",    .templates = node      },
	END_FORMS
};

const struct cg_format cg_formats[] = {
	{ "cellgrad",   { "", "" },         .skips = 1, .forms = cellgrad  },
	{ "canonical",  { "", "" },         .skips = 1, .forms = canonical },
	{ "pytorch",    { "", "" },         .optional_biases = 1, .forms = pytorch },
	{ "keras",      { "%s%u/%c/", "bidirectional%u/%w_%s%u/%c/" }, .optional_biases = 1, .forms = keras },
	{ "block",      { "%L", "%L%d/" },  .forms = block, .forget_bias = 1, .cell_clip = 3 },
	{ "block_v2",   { "%L", "%L%d/" },  .forms = block_v2 },
	{ "checkpoint", { "rnn/multi_rnn_cell/cell_%l/%c/", "stack_bidirectional_rnn/cell_%l/bidirectional_rnn/%d/%c/" },
	  .bias = CG_BIAS_HALVES, .forms = checkpoint },
	{ "onnx",       { "%L", "%L" },     .stacked = 1, .optional_biases = 1, .forms = onnx },
	END
};
enum { FORMATS = sizeof cg_formats / sizeof *cg_formats - 1 };

const struct cg_format *cg_format_find(const char *name)
{
	const char *names[FORMATS], *nearest;
	char list[128] = "";

	for (int k = 0; k < FORMATS; k++) {
		if (name && !strcmp(name, cg_formats[k].name))
			return &cg_formats[k];
		names[k] = cg_formats[k].name;
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", k ? ", " : "", names[k]);
	}
	nearest = name ? cg_nearest(name, names, FORMATS) : NULL;
	if (nearest)
		cg_fail(CG_BAD_ARGUMENT, "no format \"%.40s\"; did you mean %s?", name, nearest);
	else
		cg_fail(CG_BAD_ARGUMENT, "no format \"%.40s\"; the formats are %s", name ? name : "NULL", list);
	return NULL;
}

/* ---- gate codes of the built-in cells ---- */

static const struct cg_gate_codes cells[] = {
	{ "lstm",       "ifco", "ifo" },
	{ "lstm_block", "icfo", "ifo" },
	{ "gru",        "rzn",  ""    },
	{ "gru_block",  "rzn",  ""    },
	{ "rnn_tanh",   "h",    ""    },
	{ "rnn_relu",   "h",    ""    },
};

const struct cg_gate_codes *cg_find_gate_codes(const struct cg_cell *cell)
{
	for (size_t k = 0; cg_is_template(cell) && k < sizeof cells / sizeof *cells; k++)
		if (!strcmp(cell->name, cells[k].cell))
			return &cells[k];
	return NULL;
}
