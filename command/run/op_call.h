/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An op called on tensors from files: which file has which argument, what the attributes are, whether all of it
 * fits; then the answers in host memory, and how they compare with expected ones.  `run` and `demo` are built
 * on it.
 */
#ifndef OP_CALL_H
#define OP_CALL_H

#include "command/run/compare.h"
#include "command/safetensors.h"
#include "runtime/device/inspect.h"

struct call_argument {
	const struct safetensors_tensor *tensor;     /* inputs; NULL: not needed and in no file */
	const struct safetensors *file;
	void   *answer;                  /* outputs that are computed: host memory, aligned for any dtype */
	void   *copy;                    /* inputs that the op takes in the host's memory, aligned */
	size_t  bytes;
	int     rank;
	int64_t shape[CG_RANK];
};

struct call_plan;

struct call {
	const struct cg_op *row;
	const char *name;                /* of the op, as it was given */
	int   theirs;                    /* TensorFlow's: only TensorFlow's outputs are computed */
	void *op;                        /* the op's struct */
	int   dtype;                     /* -1 until it is known */
	unsigned attributes;             /* bits of those given on the command line */
	int   no_files;                  /* the command takes none: a word can only be an attribute */
	const char *type, *type_by;      /* the attribute T as it was given, or NULL; the file whose metadata has it, or NULL */
	int   ignore_metadata;           /* of all files */
	struct safetensors *files;
	size_t n_files;
	struct call_argument *arguments; /* by port */
	int   n;
	struct call_plan *plan;          /* of a row with `plan`, once it is bound */
};

int  call_open(struct call *, const char *op);
void call_close(struct call *);
/* "NAME=VALUE" as on the command line: an attribute the op does not have is an error. */
int  call_attribute(struct call *, const char *word);
/* An argument that is in two files must be the same in both. */
int  call_file(struct call *, const char *path);
/* Attributes from the files, dtype, shapes, all there that must be.  strict: nothing else. */
int  call_bind(struct call *, int strict);
/* Computes every output of the call; *working is set when the work begins. */
int  call_compute(struct call *, struct cg_context *, int *working);

int  call_has_output(const struct call *, const struct cg_port *);
/* Element k of an answer; the dtype that it has, in our words and in the files'. */
double call_element(const struct call *, int port, size_t k);
const char *call_type(const struct call *, int port);
const char *call_code(const struct call *, int port);
/* The op and its attributes, as strings, for the metadata of a file; NULL: no memory. */
json_t *call_metadata(const struct call *);

/* Does a port's shape name the symbol? */
int  call_names(const struct cg_port *, const char *symbol);
/* The code in safetensors of a port of integers, "I32". */
const char *call_integer_code(const struct call *, const struct cg_port *);

/* ---- expected.c ---- */

/* A file of expected answers must have all that are wanted, but those that TensorFlow's op has not, shaped
 * alike. */
int  call_expect(const struct call *, const struct safetensors *);
/* How many elements of an answer there are; and how many of them, the first, an expected one of TensorFlow's has: a port CG_UNSET has
 * none from the last computed step on. */
size_t call_elements(const struct call *, int port);
size_t call_comparable(const struct call *, int port);
/* Compares those of a port's answer with an expected one, by the user's rule where one is given, else by ours. */
void call_compare(const struct call *, int port, const struct safetensors_tensor *want,
                  const struct allowance *user, struct comparison *);

/* ---- attribute_text.c ---- */

/* Does the op have the attribute, under the name that it was given by? */
int  attribute_is_of(const struct call *, const struct cg_attribute *);
/* NULL: it has not. */
const struct cg_attribute *attribute_find(const struct call *, const char *name);
/* Is it there as NAME=VALUE? */
int  attribute_is_given(const struct call *, const char *name);
/* A value from its text; where: what the message says before the attribute, such as the file whose metadata it is from. */
int  attribute_read(const struct cg_attribute *, const char *text, const char *where, void *at);
/* A scalar input of TensorFlow's op, as a tensor of rank 0. */
int  attribute_scalar(const struct cg_attribute *, const struct safetensors *, const struct safetensors_tensor *, int64_t *value);
int  attribute_missing(const struct call *, const struct cg_attribute *);
/* The sizes that attributes are, a bit for each as cg_op_bind has them; once all sizes are known, the ranges. */
unsigned attribute_sizes(const struct call *);
int  attribute_ranges(const struct call *);
/* The dtype of a T, or -1; the same as a failure; and the dtype of the call's T, or f32. */
int  attribute_type_of(const char *text);
int  attribute_check_type(const char *text, const char *where);
int  attribute_dtype(const struct call *);

/* ---- values.c ---- */

/* Reads "leak=0.5,bias=1".  The names of the values are then in *memory, which the caller frees; *n starts as 0. */
int  values_read(const char *text, char **memory, struct cg_value values[], int *n);

/* ---- network_call.c: of networks, in this order ---- */

/* The cell and its values, lists as ports; of other ops, that files name no other cell than theirs. */
int  plan_bind(struct call *, unsigned *bound);
/* Once the dtype is known: that the files' values are the call's. */
int  plan_check_values(const struct call *);
/* Before the sizes are inferred, what the file of a reserve says; once the op is open, the route. */
int  plan_read_reserve(const struct call *);
int  plan_check_route(struct call *);
/* What the files say where the reserve is foreign. */
int  plan_explain_failure(const struct call *, int code);
void plan_close(struct call *);
/* The cell that NAME=VALUE names, by either attribute, or NULL. */
int  plan_find_cell(const struct call *, const char *cell, int mode, const char **word);
/* Warns where options that are off take the cell's recurrence away; command: the name of the subcommand. */
int  plan_warn_recurrence(const struct call *, const char *command);
/* What a message that the port's tensor does not fit lacks: the options with which it would. */
int  plan_explain_misfit(const struct call *, int code, int port);
/* Adds what a reserve is known by. */
int  plan_add_metadata(const struct call *, json_t *);

#endif
