/*
 * The rows of networks, by which cg_rnn_forward and cg_rnn_backward are checked: the CudnnRNN family's inputs and outputs.
 */
#include <string.h>

#include "runtime/op.h"
#include "runtime/rnn.h"

#define CALL(field) offsetof(struct cg_rnn_op, call.field)
#define RNN(field)  offsetof(struct cg_rnn_op, field)

static const struct cg_dim rnn_dims[] = {
	{ "T",       CALL(T),      0, NULL },
	{ "B",       CALL(B),      0, NULL },
	{ "I",       RNN(I),       1, NULL },
	{ "U",       RNN(U),       1, NULL },
	{ "H",       RNN(H),       1, NULL },
	{ "L*D",     RNN(states),  1, NULL },
	{ "D*H",     RNN(wide),    1, NULL },
	{ "params",  RNN(params),  1, NULL },
	{ "reserve", RNN(reserve), 0, NULL },
	{ .symbol = NULL }
};

static const struct cg_attribute rnn_attributes[] = {
	{ .name = NULL }
};

static const struct cg_port rnn_ports[] = {
	{ "input",         "T B I",   CG_IN,  NULL, 0, CALL(input)    },
	{ "input_h",       "L*D B H", CG_IN,  "",   0, CALL(input_h)  },
	{ "input_c",       "L*D B U", CG_IN,  "",   0, CALL(input_c)  },
	{ "params",        "params",  CG_IN,  NULL, 0, CALL(params)   },
	{ "output",        "T B D*H", CG_OUT, NULL, 0, CALL(output)   },
	{ "output_h",      "L*D B H", CG_OUT, NULL, 0, CALL(output_h) },
	{ "output_c",      "L*D B U", CG_OUT, NULL, 0, CALL(output_c) },
	{ "reserve_space", "reserve", CG_OUT, NULL, 0, CALL(reserve)  },
	{ .name = NULL }
};

/* Of what forward wrote only the reserve is read. */
static const struct cg_port rnn_backprop_ports[] = {
	{ "input",             "T B I",   CG_IN,      NULL, 0, CALL(input)             },
	{ "input_h",           "L*D B H", CG_IN,      "",   0, CALL(input_h)           },
	{ "input_c",           "L*D B U", CG_IN,      "",   0, CALL(input_c)           },
	{ "params",            "params",  CG_IN,      NULL, 0, CALL(params)            },
	{ "output",            "T B D*H", CG_IN,      "",   0, CALL(output)            },
	{ "output_h",          "L*D B H", CG_IN,      "",   0, CALL(output_h)          },
	{ "output_c",          "L*D B U", CG_IN,      "",   0, CALL(output_c)          },
	{ "output_backprop",   "T B D*H", CG_IN,      "",   0, CALL(output_backprop)   },
	{ "output_h_backprop", "L*D B H", CG_IN,      "",   0, CALL(output_h_backprop) },
	{ "output_c_backprop", "L*D B U", CG_IN,      "",   0, CALL(output_c_backprop) },
	{ "reserve_space",     "reserve", CG_IN,      NULL, 0, CALL(reserve)           },
	{ "input_backprop",    "T B I",   CG_OUT,     NULL, 0, CALL(input_backprop)    },
	{ "input_h_backprop",  "L*D B H", CG_OUT,     NULL, 0, CALL(input_h_backprop)  },
	{ "input_c_backprop",  "L*D B U", CG_OUT,     NULL, 0, CALL(input_c_backprop)  },
	{ "params_backprop",   "params",  CG_OUT_SUM, NULL, 0, CALL(params_backprop)   },
	{ .name = NULL }
};

static void rnn_init(void *op, size_t size)
{
	memset(op, 0, size);
	((struct cg_rnn_op *)op)->call.size = size;
}

static int rnn_work(const void *op, size_t *bytes)
{
	return cg_rnn_op_work(op, CG_FORWARD, bytes);
}

static int rnn_backprop_work(const void *op, size_t *bytes)
{
	return cg_rnn_op_work(op, CG_GRAD, bytes);
}

#define RNN_STRUCT \
	.type = "cg_rnn_call", .size = sizeof(struct cg_rnn_op), .init = rnn_init, .dims = rnn_dims, .attributes = rnn_attributes, \
	.dtype_at = RNN(dtype), .accumulate_at = CALL(accumulate), .work_at = CALL(work), .time_major_at = RNN(time_major)

const struct cg_op cg_rnn_rows[] = {
	{ .name = "rnn",                  .tensorflow = "CudnnRNNV3",        RNN_STRUCT,
	  .ports = rnn_ports,          .work = rnn_work          },
	{ .name = "rnn_backprop",         .tensorflow = "CudnnRNNBackpropV3", RNN_STRUCT,
	  .ports = rnn_backprop_ports, .work = rnn_backprop_work },
	{ .name = NULL }
};
