/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An op of TensorFlow as a row of a table, its kernel, and one call of it.
 */
#ifndef CG_TF_OP_H
#define CG_TF_OP_H

#include <stdatomic.h>

#include "bindings/tensorflow/tf_api.h"
#include "runtime/cellgrad.h"

/* ---- rows ---- */

/* Sizes that shapes are made of.  L layers, D directions; H is the width of h, the projection's or U. */
enum cg_tf_dim {
	CG_TF_T = 1, CG_TF_B, CG_TF_I, CG_TF_U, CG_TF_H,
	CG_TF_LD,                                /* L * D */
	CG_TF_P,                                 /* elements of params */
	CG_TF_R,                                 /* elements of reserve_space */
	CG_TF_KNOWN,                             /* those from here on follow from the others */
	CG_TF_DH = CG_TF_KNOWN,                  /* D * H */
	CG_TF_IU,                                /* I + U */
	CG_TF_2U, CG_TF_4U,
	CG_TF_DIMS
};

enum cg_tf_type { CG_TF_REAL, CG_TF_INT8, CG_TF_INT32, CG_TF_INT64 };

enum cg_tf_flag {
	/* Where an argument is not in use, an input may have any shape, and an output is a scalar 0, but for those of peepholes. */
	CG_TF_STATE    = 1,                      /* without a cell state */
	CG_TF_PEEPHOLE = 2,                      /* without peepholes; the output is zeros in its shape */
	CG_TF_TRAINING = 4,                      /* outside of training */
	CG_TF_UNUSED   = 8                       /* never in use */
};

enum { CG_TF_RANK = 3, CG_TF_PORTS = 20 };
#define CG_TF_NOWHERE ((size_t)-1)

/* An input or an output. */
struct cg_tf_port {
	const char *name;                        /* TensorFlow's; NULL ends a list */
	unsigned char shape[CG_TF_RANK];         /* enum cg_tf_dim, 0 past the last */
	unsigned char type;                      /* enum cg_tf_type */
	unsigned char flags;
	size_t at;                               /* of its cg_mem in the library's struct, or CG_TF_NOWHERE */
};

struct cg_tf_call;

struct cg_tf_op {
	const char *name;
	int (*run)(struct cg_tf_call *call);     /* CG_OK, or what cg_tf_refuse or cg_tf_pass returned */
	const struct cg_tf_port *inputs, *outputs;
	int is_gradient;
	int gates;                               /* enum cg_gates, of the LSTM block ops */
	int replaces;                            /* 1: TensorFlow has a kernel of its own for the cpu */
};

/* ---- a kernel: an op with its attributes ---- */

struct cg_tf_kernel {
	const struct cg_tf_op *op;
	TF_DataType type;                        /* attribute T */
	int dtype;                               /* the same as an enum cg_dtype */
	size_t element;                          /* bytes */
	int has_state;                           /* lstm */
	struct cg_rnn_config config;             /* all but the sizes */
	TF_DataType S;                           /* of CudnnRNNParamsSize */
	int64_t n_weights, n_biases;             /* of the canonical ops */
	float forget_bias, cell_clip;
	int use_peephole;
	_Atomic uint64_t counter;                /* of forward calls with dropout */
};

/* Reads the attributes.  On failure TensorFlow has the words and will not run the kernel.  NULL: no memory. */
struct cg_tf_kernel *cg_tf_kernel_create(TF_OpKernelConstruction *construction, const struct cg_tf_op *op);
void cg_tf_kernel_destroy(void *kernel);

/* ---- a call ---- */

struct cg_tf_call {
	struct cg_tf_kernel *kernel;
	TF_OpKernelContext *context;
	TF_Status *status;
	int64_t dims[CG_TF_KNOWN];               /* by enum cg_tf_dim; -1: not known yet */
	int directions;
	TF_Tensor *inputs[CG_TF_PORTS], *outputs[CG_TF_PORTS];
};

/* TensorFlow's compute: runs the kernel's op and gives TensorFlow its status. */
void cg_tf_compute(void *kernel, TF_OpKernelContext *context);
/* Fails the call with the op's name and these words, unless it failed before.  Returns the status. */
int cg_tf_fail(struct cg_tf_call *call, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define cg_tf_refuse(call, ...) cg_tf_fail(call, CG_BAD_ARGUMENT, __VA_ARGS__)
/* Hands a status of the library on, with the op and cg_message().  Returns it. */
int cg_tf_pass(struct cg_tf_call *call, int status);

/* Takes all inputs of the op's list and finds the sizes in their shapes: refuses a shape that contradicts those before it. */
int cg_tf_read_inputs(struct cg_tf_call *call);
/* Takes one input, the caller's to free; of element type and rank alone nothing is checked. */
int cg_tf_take_input(struct cg_tf_call *call, int index, TF_Tensor **tensor);
/* Writes the inputs that are in use, or, with outputs, allocates these, into the library's struct. */
void cg_tf_place_inputs(const struct cg_tf_call *call, void *arguments);
int cg_tf_make_outputs(struct cg_tf_call *call, void *arguments);
/* Allocates one output, the caller's to free. */
int cg_tf_make_output(struct cg_tf_call *call, int index, TF_DataType type, const int64_t *dims, int rank, size_t element,
                      TF_Tensor **tensor);
/* A tensor's memory; that of an empty one is absent. */
struct cg_mem cg_tf_mem(const TF_Tensor *tensor);
/* The number of a port, for words. */
int64_t cg_tf_dim(const struct cg_tf_call *call, int dim);

/* ---- the device ---- */

/* The process's context, opened by the first call in it and again in a forked child: what CELLGRAD_BACKEND names, else the cpu. */
int cg_tf_get_context(struct cg_tf_call *call, struct cg_context **context);
/* Forgets the context in forked children.  To be called once. */
void cg_tf_watch_forks(void);
/* Is a variable of the environment 1? */
int cg_tf_is_set(const char *variable);

/* ---- what the rows run ---- */

int cg_tf_run_network(struct cg_tf_call *call);
int cg_tf_run_params_size(struct cg_tf_call *call);
int cg_tf_run_to_canonical(struct cg_tf_call *call);
int cg_tf_run_from_canonical(struct cg_tf_call *call);
int cg_tf_run_lstm_block(struct cg_tf_call *call);
int cg_tf_run_gru_block(struct cg_tf_call *call);

/* The rows: each op's file has its own, ended by name NULL. */
extern const struct cg_tf_op cg_tf_network_ops[], cg_tf_params_ops[], cg_tf_block_ops[];

#endif
