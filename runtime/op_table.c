/*
 * The rows of the ops.  To add one: its lists here, its function in a file of its own; the tests read the rows.
 * What the columns mean is in op.h; the equations behind each `need` are in the ops' files.
 */
#include "runtime/op.h"
#include "runtime/rnn.h"

#define LSTM(field) offsetof(struct cg_lstm_block, field)
#define GRU(field)  offsetof(struct cg_gru_block, field)

#define ABOUT_T "steps"
#define ABOUT_B "rows of the batch"
#define ABOUT_I "width of the input"
#define ABOUT_U "units, the width of the state"
/* Weights on the input and on what the step before gave, one above the other. */
#define ABOUT_CLIP "cs is kept from -cell_clip to cell_clip; 0 or less: no limit"
#define ABOUT_GATES "gradient by the gates, before their functions"
#define ABOUT_W "I rows for the input, then U for h of the step before"

/* ---- LSTMBlockCell, LSTMBlockCellGrad ---- */

static const struct cg_dim lstm_dims[] = {
	{ "T", LSTM(T), 1, .only = "it is one step; sequences are block_lstm's", .about = ABOUT_T },
	{ "B", LSTM(B), .least = 0, .about = ABOUT_B },
	{ "I", LSTM(I), .least = 1, .about = ABOUT_I },
	{ "U", LSTM(U), .least = 1, .about = ABOUT_U },
	{ .symbol = NULL }
};

static const struct cg_attribute lstm_attributes[] = {
	{ .name = "forget_bias",  .kind = CG_REAL, .fallback = 1, .at = LSTM(forget_bias)  },
	{ .name = "cell_clip",    .kind = CG_REAL, .fallback = 3, .at = LSTM(cell_clip), .about = ABOUT_CLIP },
	{ .name = "use_peephole", .kind = CG_BOOL, .fallback = 0, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_port lstm_ports[] = {
	{ "x",       "B I",     CG_IN,  NULL,           0, .at = LSTM(x)       },
	{ "cs_prev", "B U",     CG_IN,  NULL,           0, .at = LSTM(cs_prev) },
	{ "h_prev",  "B U",     CG_IN,  NULL,           0, .at = LSTM(h_prev)  },
	{ "w",       "I+U 4*U", CG_IN,  NULL,           0, .at = LSTM(w), .about = ABOUT_W },
	{ "wci",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wci)     },
	{ "wcf",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wcf)     },
	{ "wco",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wco)     },
	{ "b",       "4*U",     CG_IN,  NULL,           0, .at = LSTM(b)       },
	{ "i",       "B U",     CG_OUT, NULL,           0, .at = LSTM(i)       },
	{ "cs",      "B U",     CG_OUT, NULL,           0, .at = LSTM(cs)      },
	{ "f",       "B U",     CG_OUT, NULL,           0, .at = LSTM(f)       },
	{ "o",       "B U",     CG_OUT, NULL,           0, .at = LSTM(o)       },
	{ "ci",      "B U",     CG_OUT, NULL,           0, .at = LSTM(ci)      },
	{ "co",      "B U",     CG_OUT, NULL,           0, .at = LSTM(co)      },
	{ "h",       "B U",     CG_OUT, NULL,           0, .at = LSTM(h)       },
	{ .name = NULL }
};

static const struct cg_attribute lstm_grad_attributes[] = {
	{ .name = "use_peephole", .kind = CG_BOOL, .required = 1, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

/* All outputs come from the point gradient, which reads cs_prev, the gates and co; cs, in wco_grad alone, only when
 * peepholes are on.  x, h_prev and w are in the products. */
static const struct cg_port lstm_grad_ports[] = {
	{ "x",            "B I",     CG_IN,      "w_grad",             0, .at = LSTM(x)            },
	{ "cs_prev",      "B U",     CG_IN,      NULL,                 0, .at = LSTM(cs_prev)      },
	{ "h_prev",       "B U",     CG_IN,      "w_grad",             0, .at = LSTM(h_prev)       },
	{ "w",            "I+U 4*U", CG_IN,      "x_grad h_prev_grad", 0, .at = LSTM(w), .about = ABOUT_W },
	{ "wci",          "U",       CG_IN,      "use_peephole",       0, .at = LSTM(wci)          },
	{ "wcf",          "U",       CG_IN,      "use_peephole",       0, .at = LSTM(wcf)          },
	{ "wco",          "U",       CG_IN,      "use_peephole",       0, .at = LSTM(wco)          },
	{ "b",            "4*U",     CG_IN,      "",                   0, .at = LSTM(b), .flags = CG_SHAPE_ALONE },
	{ "i",            "B U",     CG_IN,      NULL,                 0, .at = LSTM(i)            },
	{ "cs",           "B U",     CG_IN,      "use_peephole",       0, .at = LSTM(cs)           },
	{ "f",            "B U",     CG_IN,      NULL,                 0, .at = LSTM(f)            },
	{ "o",            "B U",     CG_IN,      NULL,                 0, .at = LSTM(o)            },
	{ "ci",           "B U",     CG_IN,      NULL,                 0, .at = LSTM(ci)           },
	{ "co",           "B U",     CG_IN,      NULL,                 0, .at = LSTM(co)           },
	{ "cs_grad",      "B U",     CG_IN,      "",                   0, .at = LSTM(cs_grad)      },
	{ "h_grad",       "B U",     CG_IN,      "",                   0, .at = LSTM(h_grad)       },
	{ "cs_prev_grad", "B U",     CG_OUT,     NULL,                 0, .at = LSTM(cs_prev_grad) },
	{ "dicfo",        "B 4*U",   CG_OUT,     NULL,                 0, .at = LSTM(dgates), .about = ABOUT_GATES },
	{ "wci_grad",     "U",       CG_OUT_SUM, NULL,                 0, .at = LSTM(wci_grad)     },
	{ "wcf_grad",     "U",       CG_OUT_SUM, NULL,                 0, .at = LSTM(wcf_grad)     },
	{ "wco_grad",     "U",       CG_OUT_SUM, NULL,                 0, .at = LSTM(wco_grad)     },
	{ "x_grad",       "B I",     CG_OUT,     NULL,                 1, .at = LSTM(x_grad)       },
	{ "h_prev_grad",  "B U",     CG_OUT,     NULL,                 1, .at = LSTM(h_prev_grad)  },
	{ "w_grad",       "I+U 4*U", CG_OUT_SUM, NULL,                 1, .at = LSTM(w_grad)       },
	{ "b_grad",       "4*U",     CG_OUT_SUM, NULL,                 1, .at = LSTM(b_grad)       },
	{ .name = NULL }
};

/* ---- BlockLSTM, BlockLSTMGrad, and V2 of both ---- */

static const struct cg_dim block_lstm_dims[] = {
	{ "T", LSTM(T), .least = 0, .about = ABOUT_T },
	{ "B", LSTM(B), .least = 0, .about = ABOUT_B },
	{ "I", LSTM(I), .least = 1, .about = ABOUT_I },
	{ "U", LSTM(U), .least = 1, .about = ABOUT_U },
	{ .symbol = NULL }
};

/* In C -1 stands for T. */
#define SEQ_LEN_MAX { .name = "seq_len_max", .kind = CG_INTEGER, .range = "0 T", .scalar = 1, .required = 1, .fallback = -1, \
                      .at = LSTM(seq_len_max), .about = "steps that are computed, of T" }

static const struct cg_attribute block_lstm_attributes[] = {
	SEQ_LEN_MAX,
	{ .name = "forget_bias",  .kind = CG_REAL, .fallback = 1, .at = LSTM(forget_bias)  },
	{ .name = "cell_clip",    .kind = CG_REAL, .fallback = 3, .at = LSTM(cell_clip), .about = ABOUT_CLIP },
	{ .name = "use_peephole", .kind = CG_BOOL, .fallback = 0, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_attribute block_lstm_v2_attributes[] = {
	SEQ_LEN_MAX,
	{ .name = "cell_clip",    .kind = CG_REAL, .fallback = 0, .at = LSTM(cell_clip), .about = ABOUT_CLIP },
	{ .name = "use_peephole", .kind = CG_BOOL, .fallback = 0, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_attribute block_lstm_grad_attributes[] = {
	SEQ_LEN_MAX,
	{ .name = "use_peephole", .kind = CG_BOOL, .required = 1, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_port block_lstm_ports[] = {
	{ "x",       "T B I",   CG_IN,  NULL,           0, .at = LSTM(x)       },
	{ "cs_prev", "B U",     CG_IN,  NULL,           0, .at = LSTM(cs_prev) },
	{ "h_prev",  "B U",     CG_IN,  NULL,           0, .at = LSTM(h_prev)  },
	{ "w",       "I+U 4*U", CG_IN,  NULL,           0, .at = LSTM(w), .about = ABOUT_W },
	{ "wci",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wci)     },
	{ "wcf",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wcf)     },
	{ "wco",     "U",       CG_IN,  "use_peephole", 0, .at = LSTM(wco)     },
	{ "b",       "4*U",     CG_IN,  NULL,           0, .at = LSTM(b)       },
	{ "i",       "T B U",   CG_OUT, NULL,           0, .at = LSTM(i), .flags = CG_UNSET },
	{ "cs",      "T B U",   CG_OUT, NULL,           0, .at = LSTM(cs)      },
	{ "f",       "T B U",   CG_OUT, NULL,           0, .at = LSTM(f), .flags = CG_UNSET },
	{ "o",       "T B U",   CG_OUT, NULL,           0, .at = LSTM(o), .flags = CG_UNSET },
	{ "ci",      "T B U",   CG_OUT, NULL,           0, .at = LSTM(ci), .flags = CG_UNSET },
	{ "co",      "T B U",   CG_OUT, NULL,           0, .at = LSTM(co), .flags = CG_UNSET },
	{ "h",       "T B U",   CG_OUT, NULL,           0, .at = LSTM(h)       },
	{ .name = NULL }
};

/* A step's gradient goes through w to the step before, and reads its cs: all outputs need both.  h is in the products alone. */
static const struct cg_port block_lstm_grad_ports[] = {
	{ "x",            "T B I",   CG_IN,      "w_grad",       0, .at = LSTM(x)            },
	{ "cs_prev",      "B U",     CG_IN,      NULL,           0, .at = LSTM(cs_prev)      },
	{ "h_prev",       "B U",     CG_IN,      "w_grad",       0, .at = LSTM(h_prev)       },
	{ "w",            "I+U 4*U", CG_IN,      NULL,           0, .at = LSTM(w), .about = ABOUT_W },
	{ "wci",          "U",       CG_IN,      "use_peephole", 0, .at = LSTM(wci)          },
	{ "wcf",          "U",       CG_IN,      "use_peephole", 0, .at = LSTM(wcf)          },
	{ "wco",          "U",       CG_IN,      "use_peephole", 0, .at = LSTM(wco)          },
	{ "b",            "4*U",     CG_IN,      "",             0, .at = LSTM(b), .flags = CG_SHAPE_ALONE },
	{ "i",            "T B U",   CG_IN,      NULL,           0, .at = LSTM(i)            },
	{ "cs",           "T B U",   CG_IN,      NULL,           0, .at = LSTM(cs)           },
	{ "f",            "T B U",   CG_IN,      NULL,           0, .at = LSTM(f)            },
	{ "o",            "T B U",   CG_IN,      NULL,           0, .at = LSTM(o)            },
	{ "ci",           "T B U",   CG_IN,      NULL,           0, .at = LSTM(ci)           },
	{ "co",           "T B U",   CG_IN,      NULL,           0, .at = LSTM(co)           },
	{ "h",            "T B U",   CG_IN,      "w_grad",       0, .at = LSTM(h)            },
	{ "cs_grad",      "T B U",   CG_IN,      "",             0, .at = LSTM(cs_grad)      },
	{ "h_grad",       "T B U",   CG_IN,      "",             0, .at = LSTM(h_grad)       },
	{ "x_grad",       "T B I",   CG_OUT,     NULL,           0, .at = LSTM(x_grad)       },
	{ "cs_prev_grad", "B U",     CG_OUT,     NULL,           0, .at = LSTM(cs_prev_grad) },
	{ "h_prev_grad",  "B U",     CG_OUT,     NULL,           0, .at = LSTM(h_prev_grad)  },
	{ "w_grad",       "I+U 4*U", CG_OUT_SUM, NULL,           0, .at = LSTM(w_grad)       },
	{ "wci_grad",     "U",       CG_OUT_SUM, NULL,           0, .at = LSTM(wci_grad)     },
	{ "wcf_grad",     "U",       CG_OUT_SUM, NULL,           0, .at = LSTM(wcf_grad)     },
	{ "wco_grad",     "U",       CG_OUT_SUM, NULL,           0, .at = LSTM(wco_grad)     },
	{ "b_grad",       "4*U",     CG_OUT_SUM, NULL,           0, .at = LSTM(b_grad)       },
	{ "dgates",       "T B 4*U", CG_OUT,     NULL,           1, .at = LSTM(dgates), .about = ABOUT_GATES },
	{ .name = NULL }
};

static void lstm_init(void *op, size_t size)
{
	cg_lstm_block_init(op, size);
}

static void lstm_v2_init(void *op, size_t size)
{
	struct cg_lstm_block *v2 = op;

	cg_lstm_block_init(op, size);
	v2->gates = CG_IFCO;
	v2->forget_bias = v2->cell_clip = 0;
}

static int lstm_work(const void *op, size_t *bytes)
{
	return cg_lstm_block_work(op, CG_FORWARD, bytes);
}

static int lstm_grad_work(const void *op, size_t *bytes)
{
	return cg_lstm_block_work(op, CG_GRAD, bytes);
}

static int lstm(struct cg_stream *stream, const void *op)
{
	return cg_lstm_block_forward(stream, op);
}

static int lstm_grad(struct cg_stream *stream, const void *op)
{
	return cg_lstm_block_grad(stream, op);
}

/* ---- GRUBlockCell, GRUBlockCellGrad ---- */

static const struct cg_dim gru_dims[] = {
	{ "B", GRU(B), .least = 0, .about = ABOUT_B },
	{ "I", GRU(I), .least = 1, .about = ABOUT_I },
	{ "U", GRU(U), .least = 1, .about = ABOUT_U },
	{ .symbol = NULL }
};

static const struct cg_attribute gru_attributes[] = {
	{ .name = NULL }
};

static const struct cg_port gru_ports[] = {
	{ "x",      "B I",     CG_IN,  NULL, 0, .at = GRU(x)      },
	{ "h_prev", "B U",     CG_IN,  NULL, 0, .at = GRU(h_prev) },
	{ "w_ru",   "I+U 2*U", CG_IN,  NULL, 0, .at = GRU(w_ru), .about = ABOUT_W },
	{ "w_c",    "I+U U",   CG_IN,  NULL, 0, .at = GRU(w_c), .about = ABOUT_W },
	{ "b_ru",   "2*U",     CG_IN,  NULL, 0, .at = GRU(b_ru)   },
	{ "b_c",    "U",       CG_IN,  NULL, 0, .at = GRU(b_c)    },
	{ "r",      "B U",     CG_OUT, NULL, 0, .at = GRU(r)      },
	{ "u",      "B U",     CG_OUT, NULL, 0, .at = GRU(u)      },
	{ "c",      "B U",     CG_OUT, NULL, 0, .at = GRU(c)      },
	{ "h",      "B U",     CG_OUT, NULL, 0, .at = GRU(h)      },
	{ .name = NULL }
};

/* d_r_bar goes back through w_c and ends in r (1 - r): what reads it needs both.  d_w_c needs r for h_prev r. */
#define READS_D_R_BAR "d_x d_h_prev d_r_bar_u_bar d_w_ru d_b_ru"

static const struct cg_port gru_grad_ports[] = {
	{ "x",             "B I",     CG_IN,      "d_w_ru d_w_c",          0, .at = GRU(x)             },
	{ "h_prev",        "B U",     CG_IN,      NULL,                    0, .at = GRU(h_prev)        },
	{ "w_ru",          "I+U 2*U", CG_IN,      "d_x d_h_prev",          0, .at = GRU(w_ru), .about = ABOUT_W },
	{ "w_c",           "I+U U",   CG_IN,      READS_D_R_BAR,           0, .at = GRU(w_c), .about = ABOUT_W },
	{ "b_ru",          "2*U",     CG_IN,      "",                      0, .at = GRU(b_ru), .flags = CG_SHAPE_ALONE },
	{ "b_c",           "U",       CG_IN,      "",                      0, .at = GRU(b_c),  .flags = CG_SHAPE_ALONE },
	{ "r",             "B U",     CG_IN,      READS_D_R_BAR " d_w_c",  0, .at = GRU(r)             },
	{ "u",             "B U",     CG_IN,      NULL,                    0, .at = GRU(u)             },
	{ "c",             "B U",     CG_IN,      NULL,                    0, .at = GRU(c)             },
	{ "d_h",           "B U",     CG_IN,      "",                      0, .at = GRU(d_h)           },
	{ "d_x",           "B I",     CG_OUT,     NULL,                    0, .at = GRU(d_x)           },
	{ "d_h_prev",      "B U",     CG_OUT,     NULL,                    0, .at = GRU(d_h_prev)      },
	{ "d_c_bar",       "B U",     CG_OUT,     NULL,                    0, .at = GRU(d_c_bar), .about = ABOUT_GATES },
	{ "d_r_bar_u_bar", "B 2*U",   CG_OUT,     NULL,                    0, .at = GRU(d_r_bar_u_bar), .about = ABOUT_GATES },
	{ "d_w_ru",        "I+U 2*U", CG_OUT_SUM, NULL,                    1, .at = GRU(d_w_ru)        },
	{ "d_w_c",         "I+U U",   CG_OUT_SUM, NULL,                    1, .at = GRU(d_w_c)         },
	{ "d_b_ru",        "2*U",     CG_OUT_SUM, NULL,                    1, .at = GRU(d_b_ru)        },
	{ "d_b_c",         "U",       CG_OUT_SUM, NULL,                    1, .at = GRU(d_b_c)         },
	{ .name = NULL }
};

static void gru_init(void *op, size_t size)
{
	cg_gru_block_init(op, size);
}

static int gru_work(const void *op, size_t *bytes)
{
	return cg_gru_block_work(op, CG_FORWARD, bytes);
}

static int gru_grad_work(const void *op, size_t *bytes)
{
	return cg_gru_block_work(op, CG_GRAD, bytes);
}

static int gru(struct cg_stream *stream, const void *op)
{
	return cg_gru_block_forward(stream, op);
}

static int gru_grad(struct cg_stream *stream, const void *op)
{
	return cg_gru_block_grad(stream, op);
}

/* ---- the rows ---- */

#define LSTM_STRUCT \
	.type = "cg_lstm_block", .size = sizeof(struct cg_lstm_block), \
	.dtype_at = LSTM(dtype), .accumulate_at = LSTM(accumulate), .work_at = LSTM(work)
#define ONE_LAYER   "num_layers=1 direction=unidirectional input_mode=linear_input num_proj=0"
#define LSTM_MEANS  ONE_LAYER " cell=lstm_block weights_format=block"
/* Without a forget_bias, and with nothing clipped, the equations are those of lstm. */
#define V2_MEANS    ONE_LAYER " cell=lstm_block,lstm weights_format=block_v2 time_major=true"
#define GRU_MEANS   ONE_LAYER " cell=gru_block weights_format=block"
#define LSTM_CELL  LSTM_STRUCT, .init = lstm_init, .dims = lstm_dims, .gates_at = LSTM(gates), .gates = "i ci f o", .means = LSTM_MEANS
#define BLOCK_LSTM LSTM_STRUCT, .init = lstm_init, .dims = block_lstm_dims, .steps_at = LSTM(seq_len_max), .gates_at = LSTM(gates), \
	.gates = "i ci f o", .means = LSTM_MEANS " time_major=true"
#define BLOCK_LSTM_V2 LSTM_STRUCT, .init = lstm_v2_init, .dims = block_lstm_dims, .steps_at = LSTM(seq_len_max), .gates = "i f ci o"
#define LSTM_FORWARD .work = lstm_work, .call = lstm
#define LSTM_GRAD    .work = lstm_grad_work, .call = lstm_grad
#define GRU_STRUCT \
	.type = "cg_gru_block", .size = sizeof(struct cg_gru_block), .init = gru_init, .dims = gru_dims, .gates = "r u", .means = GRU_MEANS, \
	.dtype_at = GRU(dtype), .accumulate_at = GRU(accumulate), .work_at = GRU(work)

/* The CudnnRNN family, whose lists are in rnn_table.c.  Our name is TensorFlow's newest version, and what it does beyond. */
#define RNN_STRUCT \
	.type = "cg_rnn_call", .size = sizeof(struct cg_rnn_op), .init = cg_rnn_op_init, .plan = 1, \
	.dtype_at = offsetof(struct cg_rnn_op, dtype), .accumulate_at = offsetof(struct cg_rnn_op, call.accumulate), \
	.work_at = offsetof(struct cg_rnn_op, call.work)
#define RNN_MEANS "weights_format=cellgrad num_proj=0 time_major=true counter=0 first_step=0"
#define RNN RNN_STRUCT, .means = RNN_MEANS, .dims = cg_rnn_dims, .settle = cg_rnn_op_settle, .reads = cg_rnn_op_reads, .route = cg_rnn_op_route, \
	.weights = cg_rnn_op_weights, .open = cg_rnn_op_open, .close = cg_rnn_op_close, .time_major_at = offsetof(struct cg_rnn_op, time_major)
#define RNN_FORWARD  RNN, .work = cg_rnn_forward_work, .call = cg_rnn_op_forward
#define RNN_BACKWARD RNN, .work = cg_rnn_backward_work, .call = cg_rnn_op_backward
#define RNN_PARAMS RNN_STRUCT, .dims = cg_rnn_params_dims, .settle = cg_rnn_params_settle, .work = cg_rnn_no_work
#define RNN_LISTS  RNN_PARAMS, .items = cg_rnn_items, .item = cg_rnn_item
#define TO_LISTS   RNN_LISTS, .means = "weights_format=cellgrad num_proj=0"
#define FROM_LISTS RNN_LISTS, .means = "weights_format=canonical num_proj=0"

const struct cg_op cg_ops[] = {
	{ .name = "lstm_block_cell",      .tensorflow = "LSTMBlockCell",     LSTM_CELL, LSTM_FORWARD,
	  .attributes = lstm_attributes, .ports = lstm_ports },
	{ .name = "lstm_block_cell_grad", .tensorflow = "LSTMBlockCellGrad", LSTM_CELL, LSTM_GRAD,
	  .attributes = lstm_grad_attributes, .ports = lstm_grad_ports },
	{ .name = "gru_block_cell",       .tensorflow = "GRUBlockCell",      GRU_STRUCT,
	  .attributes = gru_attributes, .ports = gru_ports, .work = gru_work, .call = gru },
	{ .name = "gru_block_cell_grad",  .tensorflow = "GRUBlockCellGrad",  GRU_STRUCT,
	  .attributes = gru_attributes, .ports = gru_grad_ports, .work = gru_grad_work, .call = gru_grad },
	{ .name = "block_lstm",           .tensorflow = "BlockLSTM",         BLOCK_LSTM, LSTM_FORWARD,
	  .attributes = block_lstm_attributes, .ports = block_lstm_ports },
	{ .name = "block_lstm_grad",      .tensorflow = "BlockLSTMGrad",     BLOCK_LSTM, LSTM_GRAD,
	  .attributes = block_lstm_grad_attributes, .ports = block_lstm_grad_ports },
	{ .name = "block_lstm_v2",        .tensorflow = "BlockLSTMV2",       BLOCK_LSTM_V2, LSTM_FORWARD, .means = V2_MEANS " forget_bias=0",
	  .attributes = block_lstm_v2_attributes, .ports = block_lstm_ports },
	{ .name = "block_lstm_grad_v2",   .tensorflow = "BlockLSTMGradV2",   BLOCK_LSTM_V2, LSTM_GRAD, .means = V2_MEANS,
	  .attributes = block_lstm_grad_attributes, .ports = block_lstm_grad_ports },
	{ .name = "rnn",                 .tensorflow = "CudnnRNNV3",         RNN_FORWARD,
	  .attributes = cg_rnn_attributes,             .ports = cg_rnn_ports },
	{ .name = "rnn_v2",              .tensorflow = "CudnnRNNV2",         RNN_FORWARD,
	  .attributes = cg_rnn_v1_attributes,          .ports = cg_rnn_v2_ports },
	{ .name = "rnn_v1",              .tensorflow = "CudnnRNN",           RNN_FORWARD,
	  .attributes = cg_rnn_v1_attributes,          .ports = cg_rnn_v1_ports },
	{ .name = "rnn_backprop",        .tensorflow = "CudnnRNNBackpropV3", RNN_BACKWARD,
	  .attributes = cg_rnn_backprop_attributes,    .ports = cg_rnn_backprop_ports },
	{ .name = "rnn_backprop_v2",     .tensorflow = "CudnnRNNBackpropV2", RNN_BACKWARD,
	  .attributes = cg_rnn_backprop_v1_attributes, .ports = cg_rnn_backprop_v2_ports },
	{ .name = "rnn_backprop_v1",     .tensorflow = "CudnnRNNBackprop",   RNN_BACKWARD,
	  .attributes = cg_rnn_backprop_v1_attributes, .ports = cg_rnn_backprop_v1_ports },
	{ .name = "rnn_params_size",     .tensorflow = "CudnnRNNParamsSize", RNN_PARAMS, .call = cg_rnn_params_size, .means = "num_proj=0",
	  .attributes = cg_rnn_params_size_attributes, .ports = cg_rnn_params_size_ports },
	{ .name = "rnn_params_to_canonical",    .tensorflow = "CudnnRNNParamsToCanonicalV2", TO_LISTS, .call = cg_rnn_to_canonical,
	  .attributes = cg_rnn_canonical_attributes,    .ports = cg_rnn_to_canonical_ports },
	{ .name = "rnn_params_to_canonical_v1", .tensorflow = "CudnnRNNParamsToCanonical",   TO_LISTS, .call = cg_rnn_to_canonical,
	  .attributes = cg_rnn_canonical_v1_attributes, .ports = cg_rnn_to_canonical_ports },
	{ .name = "rnn_canonical_to_params",    .tensorflow = "CudnnRNNCanonicalToParamsV2", FROM_LISTS, .call = cg_rnn_from_canonical,
	  .attributes = cg_rnn_canonical_attributes,    .ports = cg_rnn_from_canonical_ports },
	{ .name = "rnn_canonical_to_params_v1", .tensorflow = "CudnnRNNCanonicalToParams",   FROM_LISTS, .call = cg_rnn_from_canonical,
	  .attributes = cg_rnn_canonical_v1_attributes, .ports = cg_rnn_from_canonical_ports },
	{ .name = NULL }
};
