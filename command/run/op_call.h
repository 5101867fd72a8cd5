/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls an op on tensors from files: finds each argument in a file, reads the attributes, checks that everything fits, computes the
 * outputs in host memory, and compares them with expected ones. `run` and `demo` use it.
 */
#ifndef OP_CALL_H
#define OP_CALL_H

#include "command/run/compare.h"
#include "command/safetensors.h"
#include "runtime/device/inspect.h"

struct call_argument {
	const struct safetensors_tensor *tensor;     /* of an input; NULL: not needed, and in no file */
	const struct safetensors *file;
	void   *answer;                  /* of an output that is computed: host memory, aligned for any dtype */
	void   *copy;                    /* of an input that the op reads in the host's memory, aligned */
	size_t  bytes;
	int     rank;
	int64_t shape[CG_RANK];
};

struct call_plan;

struct call {
	const struct cg_op *row;
	const char *name;                /* the op's name as the user gave it */
	int   theirs;                    /* the name is TensorFlow's: only TensorFlow's outputs are computed */
	void *op;                        /* the op's struct */
	int   dtype;                     /* -1 until it is known */
	unsigned attributes;             /* one bit for each attribute given on the command line */
	int   no_files;                  /* the command takes no files, so that a word can only be an attribute */
	const char *type, *type_by;      /* attribute T as given, or NULL; the file whose metadata has it, or NULL */
	int   ignore_metadata;           /* of all files */
	struct safetensors *files;
	size_t n_files;
	struct call_argument *arguments; /* by port */
	int   n;
	struct call_plan *plan;          /* of a row with `plan`, after call_bind */
};

int  call_open(struct call *, const char *op);
void call_close(struct call *);
/* Reads "NAME=VALUE" of the command line. An attribute that the op does not have is an error. */
int  call_attribute(struct call *, const char *word);
/* Adds a file. A tensor that two files have must be the same in both. */
int  call_file(struct call *, const char *path);
/* Sets attributes from the files, the dtype and the shapes, and checks that no needed input is missing. strict: tensors that the op
 * does not take are an error. */
int  call_bind(struct call *, int strict);
/* Computes every output; sets *working when the work begins. */
int  call_compute(struct call *, struct cg_context *, int *working);

int  call_has_output(const struct call *, const struct cg_port *);
/* Element k of an output; its dtype by the library's name, and by safetensors'. */
double call_element(const struct call *, int port, size_t k);
const char *call_type(const struct call *, int port);
const char *call_code(const struct call *, int port);
/* The op and its attributes as strings, for a file's metadata; NULL: no memory. */
json_t *call_metadata(const struct call *);

/* Does the port's shape contain this symbol? */
int  call_names(const struct cg_port *, const char *symbol);
/* The type of a port of integers as safetensors names it: "I32". */
const char *call_integer_code(const struct call *, const struct cg_port *);

/* ---- expected.c ---- */

/* Checks that a file of expected outputs has all wanted outputs, in the right shapes, except those that TensorFlow's op does not have. */
int  call_expect(const struct call *, const struct safetensors *);
/* The number of elements of an output; and how many of them, from the first, TensorFlow's output also has: of a port with CG_UNSET
 * only those of computed steps. */
size_t call_elements(const struct call *, int port);
size_t call_comparable(const struct call *, int port);
/* Compares an output with an expected one, by the user's tolerance if there is one, else by the command's. */
void call_compare(const struct call *, int port, const struct safetensors_tensor *want,
                  const struct allowance *user, struct comparison *);

/* ---- attribute_text.c ---- */

/* Does the op have the attribute under the name that the user gave the op? */
int  attribute_is_of(const struct call *, const struct cg_attribute *);
/* NULL: the op has no such attribute. */
const struct cg_attribute *attribute_find(const struct call *, const char *name);
/* Was the attribute given as NAME=VALUE? */
int  attribute_is_given(const struct call *, const char *name);
/* Reads a value from text. where: precedes the attribute in messages, such as the file of the metadata. */
int  attribute_read(const struct cg_attribute *, const char *text, const char *where, void *at);
/* Reads a scalar input of TensorFlow's op from a tensor of rank 0. */
int  attribute_scalar(const struct cg_attribute *, const struct safetensors *, const struct safetensors_tensor *, int64_t *value);
int  attribute_missing(const struct call *, const struct cg_attribute *);
/* attribute_sizes: the sizes that attributes give, one bit each as in cg_op_bind. attribute_ranges: checks ranges, once all sizes
 * are known. */
unsigned attribute_sizes(const struct call *);
int  attribute_ranges(const struct call *);
/* The dtype that a value of T names, or -1; the same with an error message; the dtype of the call's T, or f32. */
int  attribute_type_of(const char *text);
int  attribute_check_type(const char *text, const char *where);
int  attribute_dtype(const struct call *);

/* ---- values.c ---- */

/* Reads "leak=0.5,bias=1". *memory then owns the names, and the caller frees it; *n must be 0 on entry. */
int  values_read(const char *text, char **memory, struct cg_value values[], int *n);

/* ---- network_call.c: for networks, called in this order ---- */

/* Finds the cell and its values, and makes ports for the tensors of lists. For other ops, checks that no file names another cell. */
int  plan_bind(struct call *, unsigned *bound);
/* Checks, once the dtype is known, that the values in files are those of the call. */
int  plan_check_values(const struct call *);
/* plan_read_reserve: reads what the reserve space's file says, before sizes are inferred. plan_check_route: compares its route,
 * once the op is open. */
int  plan_read_reserve(const struct call *);
int  plan_check_route(struct call *);
/* Explains a refused reserve space by what the files say. */
int  plan_explain_failure(const struct call *, int code);
void plan_close(struct call *);
/* Finds the cell that NAME=VALUE names, by attribute cell or rnn_mode; NULL: none. */
int  plan_find_cell(const struct call *, const char *cell, int mode, const char **word);
/* Warns where options that are off remove the cell's recurrence; command: the subcommand's name. */
int  plan_warn_recurrence(const struct call *, const char *command);
/* Adds to the message about a misfit tensor the options with which it would fit. */
int  plan_explain_misfit(const struct call *, int code, int port);
/* Adds to the metadata what identifies a reserve space. */
int  plan_add_metadata(const struct call *, json_t *);

#endif
