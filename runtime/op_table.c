/*
 * The rows of the ops.  To add one: its lists here, its function in a file of its own; the tests read the rows.
 * What the columns mean is in op.h; the equations behind each `need` are in the ops' files.
 */
#include "runtime/op.h"

#define LSTM(field) offsetof(struct cg_lstm_block, field)
#define GRU(field)  offsetof(struct cg_gru_block, field)

/* ---- LSTMBlockCell, LSTMBlockCellGrad ---- */

static const struct cg_dim lstm_dims[] = {
	{ "T", LSTM(T), 1, "it is one step; sequences are block_lstm's" },
	{ "B", LSTM(B), 0, NULL },
	{ "I", LSTM(I), 1, NULL },
	{ "U", LSTM(U), 1, NULL },
	{ .symbol = NULL }
};

static const struct cg_attribute lstm_attributes[] = {
	{ .name = "forget_bias",  .kind = CG_REAL, .fallback = 1, .at = LSTM(forget_bias)  },
	{ .name = "cell_clip",    .kind = CG_REAL, .fallback = 3, .at = LSTM(cell_clip)    },
	{ .name = "use_peephole", .kind = CG_BOOL, .fallback = 0, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_port lstm_ports[] = {
	{ "x",       "B I",     CG_IN,  NULL,           0, LSTM(x)       },
	{ "cs_prev", "B U",     CG_IN,  NULL,           0, LSTM(cs_prev) },
	{ "h_prev",  "B U",     CG_IN,  NULL,           0, LSTM(h_prev)  },
	{ "w",       "I+U 4*U", CG_IN,  NULL,           0, LSTM(w)       },
	{ "wci",     "U",       CG_IN,  "use_peephole", 0, LSTM(wci)     },
	{ "wcf",     "U",       CG_IN,  "use_peephole", 0, LSTM(wcf)     },
	{ "wco",     "U",       CG_IN,  "use_peephole", 0, LSTM(wco)     },
	{ "b",       "4*U",     CG_IN,  NULL,           0, LSTM(b)       },
	{ "i",       "B U",     CG_OUT, NULL,           0, LSTM(i)       },
	{ "cs",      "B U",     CG_OUT, NULL,           0, LSTM(cs)      },
	{ "f",       "B U",     CG_OUT, NULL,           0, LSTM(f)       },
	{ "o",       "B U",     CG_OUT, NULL,           0, LSTM(o)       },
	{ "ci",      "B U",     CG_OUT, NULL,           0, LSTM(ci)      },
	{ "co",      "B U",     CG_OUT, NULL,           0, LSTM(co)      },
	{ "h",       "B U",     CG_OUT, NULL,           0, LSTM(h)       },
	{ .name = NULL }
};

static const struct cg_attribute lstm_grad_attributes[] = {
	{ .name = "use_peephole", .kind = CG_BOOL, .required = 1, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

/* All outputs come from the point gradient, which reads cs_prev, the gates and co; cs, in wco_grad alone, only when
 * peepholes are on.  x, h_prev and w are in the products. */
static const struct cg_port lstm_grad_ports[] = {
	{ "x",            "B I",     CG_IN,      "w_grad",             0, LSTM(x)            },
	{ "cs_prev",      "B U",     CG_IN,      NULL,                 0, LSTM(cs_prev)      },
	{ "h_prev",       "B U",     CG_IN,      "w_grad",             0, LSTM(h_prev)       },
	{ "w",            "I+U 4*U", CG_IN,      "x_grad h_prev_grad", 0, LSTM(w)            },
	{ "wci",          "U",       CG_IN,      "use_peephole",       0, LSTM(wci)          },
	{ "wcf",          "U",       CG_IN,      "use_peephole",       0, LSTM(wcf)          },
	{ "wco",          "U",       CG_IN,      "use_peephole",       0, LSTM(wco)          },
	{ "b",            "4*U",     CG_IN,      "",                   0, LSTM(b)            },
	{ "i",            "B U",     CG_IN,      NULL,                 0, LSTM(i)            },
	{ "cs",           "B U",     CG_IN,      "use_peephole",       0, LSTM(cs)           },
	{ "f",            "B U",     CG_IN,      NULL,                 0, LSTM(f)            },
	{ "o",            "B U",     CG_IN,      NULL,                 0, LSTM(o)            },
	{ "ci",           "B U",     CG_IN,      NULL,                 0, LSTM(ci)           },
	{ "co",           "B U",     CG_IN,      NULL,                 0, LSTM(co)           },
	{ "cs_grad",      "B U",     CG_IN,      "",                   0, LSTM(cs_grad)      },
	{ "h_grad",       "B U",     CG_IN,      "",                   0, LSTM(h_grad)       },
	{ "cs_prev_grad", "B U",     CG_OUT,     NULL,                 0, LSTM(cs_prev_grad) },
	{ "dicfo",        "B 4*U",   CG_OUT,     NULL,                 0, LSTM(dgates)       },
	{ "wci_grad",     "U",       CG_OUT_SUM, NULL,                 0, LSTM(wci_grad)     },
	{ "wcf_grad",     "U",       CG_OUT_SUM, NULL,                 0, LSTM(wcf_grad)     },
	{ "wco_grad",     "U",       CG_OUT_SUM, NULL,                 0, LSTM(wco_grad)     },
	{ "x_grad",       "B I",     CG_OUT,     NULL,                 1, LSTM(x_grad)       },
	{ "h_prev_grad",  "B U",     CG_OUT,     NULL,                 1, LSTM(h_prev_grad)  },
	{ "w_grad",       "I+U 4*U", CG_OUT_SUM, NULL,                 1, LSTM(w_grad)       },
	{ "b_grad",       "4*U",     CG_OUT_SUM, NULL,                 1, LSTM(b_grad)       },
	{ .name = NULL }
};

/* ---- BlockLSTM, BlockLSTMGrad, and V2 of both ---- */

static const struct cg_dim block_lstm_dims[] = {
	{ "T", LSTM(T), 0, NULL },
	{ "B", LSTM(B), 0, NULL },
	{ "I", LSTM(I), 1, NULL },
	{ "U", LSTM(U), 1, NULL },
	{ .symbol = NULL }
};

/* In C -1 stands for T. */
#define SEQ_LEN_MAX { .name = "seq_len_max", .kind = CG_INTEGER, .range = "0 T", .scalar = 1, .required = 1, .fallback = -1, \
                      .at = LSTM(seq_len_max) }

static const struct cg_attribute block_lstm_attributes[] = {
	SEQ_LEN_MAX,
	{ .name = "forget_bias",  .kind = CG_REAL, .fallback = 1, .at = LSTM(forget_bias)  },
	{ .name = "cell_clip",    .kind = CG_REAL, .fallback = 3, .at = LSTM(cell_clip)    },
	{ .name = "use_peephole", .kind = CG_BOOL, .fallback = 0, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_attribute block_lstm_v2_attributes[] = {
	SEQ_LEN_MAX,
	{ .name = "cell_clip",    .kind = CG_REAL, .fallback = 0, .at = LSTM(cell_clip)    },
	{ .name = "use_peephole", .kind = CG_BOOL, .fallback = 0, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_attribute block_lstm_grad_attributes[] = {
	SEQ_LEN_MAX,
	{ .name = "use_peephole", .kind = CG_BOOL, .required = 1, .at = LSTM(use_peephole) },
	{ .name = NULL }
};

static const struct cg_port block_lstm_ports[] = {
	{ "x",       "T B I",   CG_IN,  NULL,           0, LSTM(x)       },
	{ "cs_prev", "B U",     CG_IN,  NULL,           0, LSTM(cs_prev) },
	{ "h_prev",  "B U",     CG_IN,  NULL,           0, LSTM(h_prev)  },
	{ "w",       "I+U 4*U", CG_IN,  NULL,           0, LSTM(w)       },
	{ "wci",     "U",       CG_IN,  "use_peephole", 0, LSTM(wci)     },
	{ "wcf",     "U",       CG_IN,  "use_peephole", 0, LSTM(wcf)     },
	{ "wco",     "U",       CG_IN,  "use_peephole", 0, LSTM(wco)     },
	{ "b",       "4*U",     CG_IN,  NULL,           0, LSTM(b)       },
	{ "i",       "T B U",   CG_OUT, NULL,           0, LSTM(i)       },
	{ "cs",      "T B U",   CG_OUT, NULL,           0, LSTM(cs)      },
	{ "f",       "T B U",   CG_OUT, NULL,           0, LSTM(f)       },
	{ "o",       "T B U",   CG_OUT, NULL,           0, LSTM(o)       },
	{ "ci",      "T B U",   CG_OUT, NULL,           0, LSTM(ci)      },
	{ "co",      "T B U",   CG_OUT, NULL,           0, LSTM(co)      },
	{ "h",       "T B U",   CG_OUT, NULL,           0, LSTM(h)       },
	{ .name = NULL }
};

/* A step's gradient goes through w to the step before, and reads its cs: all outputs need both.  h is in the products alone. */
static const struct cg_port block_lstm_grad_ports[] = {
	{ "x",            "T B I",   CG_IN,      "w_grad",       0, LSTM(x)            },
	{ "cs_prev",      "B U",     CG_IN,      NULL,           0, LSTM(cs_prev)      },
	{ "h_prev",       "B U",     CG_IN,      "w_grad",       0, LSTM(h_prev)       },
	{ "w",            "I+U 4*U", CG_IN,      NULL,           0, LSTM(w)            },
	{ "wci",          "U",       CG_IN,      "use_peephole", 0, LSTM(wci)          },
	{ "wcf",          "U",       CG_IN,      "use_peephole", 0, LSTM(wcf)          },
	{ "wco",          "U",       CG_IN,      "use_peephole", 0, LSTM(wco)          },
	{ "b",            "4*U",     CG_IN,      "",             0, LSTM(b)            },
	{ "i",            "T B U",   CG_IN,      NULL,           0, LSTM(i)            },
	{ "cs",           "T B U",   CG_IN,      NULL,           0, LSTM(cs)           },
	{ "f",            "T B U",   CG_IN,      NULL,           0, LSTM(f)            },
	{ "o",            "T B U",   CG_IN,      NULL,           0, LSTM(o)            },
	{ "ci",           "T B U",   CG_IN,      NULL,           0, LSTM(ci)           },
	{ "co",           "T B U",   CG_IN,      NULL,           0, LSTM(co)           },
	{ "h",            "T B U",   CG_IN,      "w_grad",       0, LSTM(h)            },
	{ "cs_grad",      "T B U",   CG_IN,      "",             0, LSTM(cs_grad)      },
	{ "h_grad",       "T B U",   CG_IN,      "",             0, LSTM(h_grad)       },
	{ "x_grad",       "T B I",   CG_OUT,     NULL,           0, LSTM(x_grad)       },
	{ "cs_prev_grad", "B U",     CG_OUT,     NULL,           0, LSTM(cs_prev_grad) },
	{ "h_prev_grad",  "B U",     CG_OUT,     NULL,           0, LSTM(h_prev_grad)  },
	{ "w_grad",       "I+U 4*U", CG_OUT_SUM, NULL,           0, LSTM(w_grad)       },
	{ "wci_grad",     "U",       CG_OUT_SUM, NULL,           0, LSTM(wci_grad)     },
	{ "wcf_grad",     "U",       CG_OUT_SUM, NULL,           0, LSTM(wcf_grad)     },
	{ "wco_grad",     "U",       CG_OUT_SUM, NULL,           0, LSTM(wco_grad)     },
	{ "b_grad",       "4*U",     CG_OUT_SUM, NULL,           0, LSTM(b_grad)       },
	{ "dgates",       "T B 4*U", CG_OUT,     NULL,           1, LSTM(dgates)       },
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
	{ "B", GRU(B), 0, NULL },
	{ "I", GRU(I), 1, NULL },
	{ "U", GRU(U), 1, NULL },
	{ .symbol = NULL }
};

static const struct cg_attribute gru_attributes[] = {
	{ .name = NULL }
};

static const struct cg_port gru_ports[] = {
	{ "x",      "B I",     CG_IN,  NULL, 0, GRU(x)      },
	{ "h_prev", "B U",     CG_IN,  NULL, 0, GRU(h_prev) },
	{ "w_ru",   "I+U 2*U", CG_IN,  NULL, 0, GRU(w_ru)   },
	{ "w_c",    "I+U U",   CG_IN,  NULL, 0, GRU(w_c)    },
	{ "b_ru",   "2*U",     CG_IN,  NULL, 0, GRU(b_ru)   },
	{ "b_c",    "U",       CG_IN,  NULL, 0, GRU(b_c)    },
	{ "r",      "B U",     CG_OUT, NULL, 0, GRU(r)      },
	{ "u",      "B U",     CG_OUT, NULL, 0, GRU(u)      },
	{ "c",      "B U",     CG_OUT, NULL, 0, GRU(c)      },
	{ "h",      "B U",     CG_OUT, NULL, 0, GRU(h)      },
	{ .name = NULL }
};

/* d_r_bar goes back through w_c and ends in r (1 - r): what reads it needs both.  d_w_c needs r for h_prev r. */
#define READS_D_R_BAR "d_x d_h_prev d_r_bar_u_bar d_w_ru d_b_ru"

static const struct cg_port gru_grad_ports[] = {
	{ "x",             "B I",     CG_IN,      "d_w_ru d_w_c",          0, GRU(x)             },
	{ "h_prev",        "B U",     CG_IN,      NULL,                    0, GRU(h_prev)        },
	{ "w_ru",          "I+U 2*U", CG_IN,      "d_x d_h_prev",          0, GRU(w_ru)          },
	{ "w_c",           "I+U U",   CG_IN,      READS_D_R_BAR,           0, GRU(w_c)           },
	{ "b_ru",          "2*U",     CG_IN,      "",                      0, GRU(b_ru)          },
	{ "b_c",           "U",       CG_IN,      "",                      0, GRU(b_c)           },
	{ "r",             "B U",     CG_IN,      READS_D_R_BAR " d_w_c",  0, GRU(r)             },
	{ "u",             "B U",     CG_IN,      NULL,                    0, GRU(u)             },
	{ "c",             "B U",     CG_IN,      NULL,                    0, GRU(c)             },
	{ "d_h",           "B U",     CG_IN,      "",                      0, GRU(d_h)           },
	{ "d_x",           "B I",     CG_OUT,     NULL,                    0, GRU(d_x)           },
	{ "d_h_prev",      "B U",     CG_OUT,     NULL,                    0, GRU(d_h_prev)      },
	{ "d_c_bar",       "B U",     CG_OUT,     NULL,                    0, GRU(d_c_bar)       },
	{ "d_r_bar_u_bar", "B 2*U",   CG_OUT,     NULL,                    0, GRU(d_r_bar_u_bar) },
	{ "d_w_ru",        "I+U 2*U", CG_OUT_SUM, NULL,                    1, GRU(d_w_ru)        },
	{ "d_w_c",         "I+U U",   CG_OUT_SUM, NULL,                    1, GRU(d_w_c)         },
	{ "d_b_ru",        "2*U",     CG_OUT_SUM, NULL,                    1, GRU(d_b_ru)        },
	{ "d_b_c",         "U",       CG_OUT_SUM, NULL,                    1, GRU(d_b_c)         },
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
#define LSTM_CELL  LSTM_STRUCT, .init = lstm_init, .dims = lstm_dims, .gates_at = LSTM(gates)
#define BLOCK_LSTM LSTM_STRUCT, .init = lstm_init, .dims = block_lstm_dims, .gates_at = LSTM(gates)
#define BLOCK_LSTM_V2 LSTM_STRUCT, .init = lstm_v2_init, .dims = block_lstm_dims
#define LSTM_FORWARD .work = lstm_work, .call = lstm
#define LSTM_GRAD    .work = lstm_grad_work, .call = lstm_grad
#define GRU_STRUCT \
	.type = "cg_gru_block", .size = sizeof(struct cg_gru_block), .init = gru_init, .dims = gru_dims, \
	.dtype_at = GRU(dtype), .accumulate_at = GRU(accumulate), .work_at = GRU(work)

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
	{ .name = "block_lstm_v2",        .tensorflow = "BlockLSTMV2",       BLOCK_LSTM_V2, LSTM_FORWARD,
	  .attributes = block_lstm_v2_attributes, .ports = block_lstm_ports },
	{ .name = "block_lstm_grad_v2",   .tensorflow = "BlockLSTMGradV2",   BLOCK_LSTM_V2, LSTM_GRAD,
	  .attributes = block_lstm_grad_attributes, .ports = block_lstm_grad_ports },
	{ .name = NULL }
};
