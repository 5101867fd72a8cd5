/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls an op on tensors from files: finds each input in a file, reads the attributes, checks that everything fits, computes the outputs on
 * a device, copies them to host memory, and compares them with expected ones. The subcommands `run` and `demo` use these functions; `bench`
 * and `convert` use those that open a call and read its attributes and cell.
 */
#ifndef OP_CALL_H
#define OP_CALL_H

#include "command/run/compare.h"
#include "command/safetensors.h"
#include "runtime/device/inspect.h"

struct call_argument {
	const struct safetensors_tensor *tensor;     /* of an input: its tensor; NULL: it is in no file, or the op does not read it */
	const struct safetensors *file;
	void   *answer;                  /* of an output that is computed: its host memory, aligned for any dtype */
	void   *copy;                    /* of an input that the op reads in the host's memory: an aligned copy */
	size_t  bytes;
	int     rank;
	int64_t shape[CG_RANK];
};

struct call_plan;

struct call {
	const struct cg_op *row;
	const char *name;                /* the op's name as the user gave it */
	int   theirs;                    /* 1: the name is TensorFlow's, and only TensorFlow's outputs are computed */
	void *op;                        /* the op's struct */
	int   dtype;                     /* the dtype of the call; -1 until the dtype is known */
	unsigned attributes;             /* one bit for each attribute that the command line gives */
	int   no_files;                  /* 1: the command takes no files, so that a word can only be an attribute */
	/* type: the text of attribute T, from T=VALUE, else from a file's metadata, or NULL; type_by: that file, NULL if T=VALUE gave it */
	const char *type, *type_by;
	int   ignore_metadata;           /* 1: the metadata of all files is ignored */
	struct safetensors *files;
	size_t n_files;
	struct call_argument *arguments; /* [n]: one for each port of the row */
	int   n;
	struct call_plan *plan;          /* set by plan_bind if the row has `plan`; else NULL */
};

int  call_open(struct call *, const char *op);
void call_close(struct call *);
/* Reads a word "NAME=VALUE" of the command line. An attribute that the op does not have is an error. */
int  call_attribute(struct call *, const char *word);
/* Adds a file to the call's files. A tensor that two files have must be the same in both if the op reads it; call_bind checks that. */
int  call_file(struct call *, const char *path);
/* Sets the op's attributes from the files, and its dtype and sizes from the tensors, and checks that no needed input is missing. strict: 1:
 * a tensor that the op does not take is an error. */
int  call_bind(struct call *, int strict);
/* Computes every output of the call; sets *working to 1 when the work begins. */
int  call_compute(struct call *, struct cg_context *, int *working);

int  call_has_output(const struct call *, const struct cg_port *);
/* call_element: the value of element k of an output. call_type: the library's name of the output's dtype, such as "f32"; call_code:
 * safetensors' name of it, such as "F32". */
double call_element(const struct call *, int port, size_t k);
const char *call_type(const struct call *, int port);
const char *call_code(const struct call *, int port);
/* A JSON object with the op and its attributes as strings, for the metadata of a file; NULL: no memory. */
json_t *call_metadata(const struct call *);

/* Does the shape of the port contain the symbol of a size? */
int  call_names(const struct cg_port *, const char *symbol);
/* The type of a port whose elements are integers, as safetensors names it: "I32". */
const char *call_integer_code(const struct call *, const struct cg_port *);

/* ---- expected.c ---- */

/* Checks that a file of expected outputs has outputs of the op, in the right types and shapes. If the user called the op by TensorFlow's
 * name, the file must have all outputs of the op that are neither empty nor opaque; if by the library's name, at least one output. */
int  call_expect(const struct call *, const struct safetensors *);
/* call_elements: the number of elements of an output. call_comparable: how many of these, from the first on, TensorFlow also
 * computes; of a port with CG_UNSET these are only the elements of computed steps. */
size_t call_elements(const struct call *, int port);
size_t call_comparable(const struct call *, int port);
/* Compares an output with an expected one, by the user's tolerance if the user gave one, else by the command's; integers must be equal. */
void call_compare(const struct call *, int port, const struct safetensors_tensor *want,
                  const struct allowance *user, struct comparison *);

/* ---- attribute_text.c ---- */

/* Does the op, under the name by which the user called it, have the attribute? */
int  attribute_is_of(const struct call *, const struct cg_attribute *);
/* Finds an attribute of the op by name; NULL: the op has no such attribute. */
const struct cg_attribute *attribute_find(const struct call *, const char *name);
/* Did the user give the attribute as NAME=VALUE? */
int  attribute_is_given(const struct call *, const char *name);
/* Reads the value of an attribute from text. where: the text before the attribute in messages, such as the file of the metadata. */
int  attribute_read(const struct cg_attribute *, const char *text, const char *where, void *at);
/* Reads a scalar input of TensorFlow's op from a tensor of rank 0. */
int  attribute_scalar(const struct cg_attribute *, const struct safetensors *, const struct safetensors_tensor *, int64_t *value);
int  attribute_missing(const struct call *, const struct cg_attribute *);
/* attribute_sizes: the sizes that attributes give, one bit each as in cg_op_bind. attribute_ranges: checks the ranges of attributes, once
 * all sizes are known. */
unsigned attribute_sizes(const struct call *);
int  attribute_ranges(const struct call *);
/* attribute_type_of: the dtype that a value of attribute T names, or -1. attribute_check_type refuses a value that names none;
 * attribute_dtype returns the dtype that the call's T names, or f32. */
int  attribute_type_of(const char *text);
int  attribute_check_type(const char *text, const char *where);
int  attribute_dtype(const struct call *);

/* ---- values.c ---- */

/* Reads "leak=0.5,bias=1". After the call the names are in *memory, which the caller frees; *n must be 0 on entry. */
int  values_read(const char *text, char **memory, struct cg_value values[], int *n);

/* ---- network_call.c: for networks; call_bind and call_compute call the first four functions in this order ---- */

/* Finds the network's cell and the values of its params, and makes ports for the tensors of lists. For an op that is no network it checks
 * that no file names a cell that the op does not compute. */
int  plan_bind(struct call *, unsigned *bound);
/* Checks, once the dtype is known, that the params have the same values in the files as in the call. */
int  plan_check_values(const struct call *);
/* plan_read_reserve: refuses a reserve space whose file's metadata says that it is of a forward with is_training=false, before sizes are
 * inferred. plan_check_route: compares the route in that metadata with the call's route, once the op is open. */
int  plan_read_reserve(const struct call *);
int  plan_check_route(struct call *);
/* Explains in the message why a reserve space is refused, by what the metadata of files says. */
int  plan_explain_failure(const struct call *, int code);
void plan_close(struct call *);
/* Finds the cell that NAME=VALUE names, by attribute cell or rnn_mode; *word NULL: neither is given. A call with both cell and rnn_mode is
 * an error. */
int  plan_find_cell(const struct call *, const char *cell, int mode, const char **word);
/* Warns if the cell reads a state, or the output, of the step before only with options that are off; command: the subcommand's name. */
int  plan_warn_recurrence(const struct call *, const char *command);
/* Adds to the message about params of another length the options with which the network would have that length, if there are such. */
int  plan_explain_misfit(const struct call *, int code, int port);
/* Adds to the metadata of an output file the properties that identify a reserve space. */
int  plan_add_metadata(const struct call *, json_t *);

#endif
