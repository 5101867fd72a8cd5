/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares an op of TensorFlow as a row of a table, a kernel of the op, and one call of the kernel.
 */
#ifndef CG_TF_OP_H
#define CG_TF_OP_H

#include <stdatomic.h>

#include "bindings/tensorflow/tf_api.h"
#include "runtime/cellgrad.h"

/* ---- rows ---- */

/* The sizes that shapes of tensors consist of.  L is the number of layers, D that of directions; H is the width of the hidden state:
 * that of the projection, or U. */
enum cg_tf_dim {
	CG_TF_T = 1, CG_TF_B, CG_TF_I, CG_TF_U, CG_TF_H,
	CG_TF_LD,                                /* L * D */
	CG_TF_P,                                 /* the number of elements of params */
	CG_TF_R,                                 /* the number of elements of reserve_space */
	CG_TF_KNOWN,                             /* the sizes from CG_TF_KNOWN on follow from those before it */
	CG_TF_DH = CG_TF_KNOWN,                  /* D * H */
	CG_TF_IU,                                /* I + U */
	CG_TF_2U, CG_TF_4U,
	CG_TF_DIMS
};

enum cg_tf_type { CG_TF_REAL, CG_TF_INT8, CG_TF_INT32, CG_TF_INT64 };

enum cg_tf_flag {
	/* Flags that say when an argument is not in use.  An input that is not in use may have any shape; an output that is not in use is a
	 * scalar 0, except outputs of peepholes. */
	CG_TF_STATE    = 1,                      /* not in use for a cell without a cell state */
	CG_TF_PEEPHOLE = 2,                      /* not in use without peepholes: an output then keeps its shape, full of zeros */
	CG_TF_TRAINING = 4,                      /* not in use outside of training */
	CG_TF_UNUSED   = 8                       /* the argument is never in use */
};

enum { CG_TF_RANK = 3, CG_TF_PORTS = 20 };
#define CG_TF_NOWHERE ((size_t)-1)

/* An input or an output of an op. */
struct cg_tf_port {
	const char *name;                        /* TensorFlow's name of the argument; NULL ends a list */
	unsigned char shape[CG_TF_RANK];         /* the sizes of the argument's shape, enum cg_tf_dim; 0 past the last */
	unsigned char type;                      /* the type of the elements, an enum cg_tf_type */
	unsigned char flags;
	size_t at;                               /* the offset of the argument's cg_mem in the library's struct, or CG_TF_NOWHERE */
};

struct cg_tf_call;

struct cg_tf_op {
	const char *name;
	int (*run)(struct cg_tf_call *call);     /* runs the op; returns CG_OK, or a status after it made the call fail */
	const struct cg_tf_port *inputs, *outputs;
	int is_gradient;
	int gates;                               /* the order of the gates, an enum cg_gates, for the LSTM block ops */
	int replaces;                            /* 1: TensorFlow has a cpu kernel of its own for the op, which the plugin's kernel replaces */
};

/* ---- a kernel: an op with its attributes ---- */

struct cg_tf_kernel {
	const struct cg_tf_op *op;
	TF_DataType type;                        /* TensorFlow's attribute T */
	int dtype;                               /* attribute T as an enum cg_dtype */
	size_t element;                          /* bytes of an element of this dtype */
	int has_state;                           /* 1: rnn_mode is lstm, whose cell has a cell state */
	struct cg_rnn_config config;             /* the network's config, except the sizes */
	TF_DataType S;                           /* attribute S of CudnnRNNParamsSize */
	int64_t n_weights, n_biases;             /* lengths of the lists of weights and biases of the canonical ops */
	float forget_bias, cell_clip;
	int use_peephole;
	_Atomic uint64_t counter;                /* the number of forward calls so far, from which the masks of dropout follow */
};

/* Makes a kernel and reads its attributes.  If an attribute is refused, TensorFlow receives the message and will not run the kernel.
 * NULL: no memory. */
struct cg_tf_kernel *cg_tf_kernel_create(TF_OpKernelConstruction *construction, const struct cg_tf_op *op);
void cg_tf_kernel_destroy(void *kernel);

/* ---- a call ---- */

struct cg_tf_call {
	struct cg_tf_kernel *kernel;
	TF_OpKernelContext *context;
	TF_Status *status;
	int64_t dims[CG_TF_KNOWN];               /* the sizes of the call, by enum cg_tf_dim; -1: the size is not known yet */
	int directions;
	TF_Tensor *inputs[CG_TF_PORTS], *outputs[CG_TF_PORTS];
};

/* The function that TensorFlow calls to compute a kernel's op: runs the op and gives TensorFlow the status. */
void cg_tf_compute(void *kernel, TF_OpKernelContext *context);
/* Makes the call fail with a message of the op's name and the formatted text, unless the call failed before.  Returns `status`. */
int cg_tf_fail(struct cg_tf_call *call, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define cg_tf_refuse(call, ...) cg_tf_fail(call, CG_BAD_ARGUMENT, __VA_ARGS__)
/* If `status`, which a call of the library returned, is a failure, makes the call fail with the op's name and cg_message().  Returns
 * `status`. */
int cg_tf_pass(struct cg_tf_call *call, int status);

/* Takes all inputs of the op's list and finds the sizes in the shapes of those in use: refuses a shape that contradicts those before it. */
int cg_tf_read_inputs(struct cg_tf_call *call);
/* Gets one input tensor of the call, which the caller frees; does not check the tensor's element type and rank. */
int cg_tf_take_input(struct cg_tf_call *call, int index, TF_Tensor **tensor);
/* cg_tf_place_inputs() writes the inputs that are in use to the library's struct; cg_tf_make_outputs() allocates the outputs and writes
 * the outputs that are in use to the struct. */
void cg_tf_place_inputs(const struct cg_tf_call *call, void *arguments);
int cg_tf_make_outputs(struct cg_tf_call *call, void *arguments);
/* Allocates one output tensor of the call, which the caller frees. */
int cg_tf_make_output(struct cg_tf_call *call, int index, TF_DataType type, const int64_t *dims, int rank, size_t element,
                      TF_Tensor **tensor);
/* The memory of a tensor; for an empty tensor it is absent. */
struct cg_mem cg_tf_mem(const TF_Tensor *tensor);
/* The value of a size of the call, an enum cg_tf_dim; -1: it is not known yet. */
int64_t cg_tf_dim(const struct cg_tf_call *call, int dim);

/* ---- the device ---- */

/* Gives the process's context, opened by the first call in it and opened again in a forked child, on a backend that CELLGRAD_BACKEND names,
 * else on the cpu.  The call fails if CELLGRAD_BACKEND names opencl, unless CELLGRAD_TF_FORCE is 1. */
int cg_tf_get_context(struct cg_tf_call *call, struct cg_context **context);
/* Arranges that forked children forget the process's context.  To be called once. */
void cg_tf_watch_forks(void);
/* Is this environment variable set to 1? */
int cg_tf_is_set(const char *variable);

/* ---- functions that run the ops ---- */

int cg_tf_run_network(struct cg_tf_call *call);
int cg_tf_run_params_size(struct cg_tf_call *call);
int cg_tf_run_to_canonical(struct cg_tf_call *call);
int cg_tf_run_from_canonical(struct cg_tf_call *call);
int cg_tf_run_lstm_block(struct cg_tf_call *call);
int cg_tf_run_gru_block(struct cg_tf_call *call);

/* The rows of ops: each file of kernels has its own list, which ends with a row whose name is NULL. */
extern const struct cg_tf_op cg_tf_network_ops[], cg_tf_params_ops[], cg_tf_block_ops[];

#endif
