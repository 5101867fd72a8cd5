/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler of .cell files: the types that its passes share, and the passes in the order they run.  The compiler is a library that
 * neither exits nor does I/O and has no variable global data: it takes and returns texts as strings, allocates by one function of the
 * caller's, and reports a mistake in a struct cg_mistake.  The files in templates/ define what the text of a kernel looks like.
 *
 *	parse    text -> struct cg_cell            the cell as its author wrote it, checked
 *	graph    cell, options -> struct cg_graph  nodes, each expression once, simplified as they are built
 *	derive   nodes -> their adjoints           once for grad, again for gradgrad
 *	pass     cell, options, pass -> functions  which functions a pass needs, and the arguments of each
 *	order    function -> statements            the order of the computation, and the name of each variable
 *	print    functions -> text, manifest       by the dialect's templates
 *	eval     graph -> values                   the cell's meaning, with which tests compare printed kernels
 */
#ifndef CG_CELL_H
#define CG_CELL_H

#include <stddef.h>
#include <stdint.h>

#include "dtypes.h"
#include "passes.h"

/* Limits.  If a cell exceeds a limit that the parser checks, the message names the limit. */
enum {
	CG_NAME_MAX     = 24,            /* characters in a name */
	CG_GATES_MAX    = 32,
	CG_STATES_MAX   = 4,
	CG_WEIGHTS_MAX  = 32,            /* per-unit weights, those of all options among them */
	CG_OPTIONS_MAX  = 8,
	CG_SCALARS_MAX  = 16,
	CG_PARAMS_MAX   = 16,
	CG_STAGES_MAX   = 4,
	CG_FUNCTIONS_MAX = 256,          /* functions of a pass */
	CG_MEANS_MAX    = 16,            /* levels of means within means */
	CG_MEANS_AT_ONCE = 16,           /* means that one function computes */
	CG_SAVES_MAX    = 64,
	CG_VALUES_MAX   = 256,           /* equations */
	CG_TERMS_MAX    = 1 << 14,       /* operations and operands in all equations of a cell */
	CG_DEPTH_MAX    = 64,            /* levels of nested parentheses */
	CG_NODES_MAX    = 1 << 16,       /* nodes of a graph, with those of its derivatives */
	CG_TEXT_MAX     = 1 << 20,       /* bytes of a .cell */
	CG_LINE_MAX     = 200,           /* characters of an equation, as a kernel quotes it */
	CG_KEY_MAX      = 320,           /* characters of a kernel's name: the names of the cell and of all options, and the rest */
	CG_SUM_ROWS     = 64,            /* rows of the batch that one partial sum adds up */
	CG_LANES        = 64             /* partial sums of a sum or a mean over units: sum j adds units j, j + 64 and so on */
};

/* ---- memory: allocated by one function of the caller, in blocks that are freed together ---- */

/* The caller's allocator: it works as realloc, except that a size of 0 bytes frees p.  Where memory is exhausted the allocator returns
 * NULL and leaves the block p as it was. */
typedef void *cg_resize(void *p, size_t bytes);

struct cg_arena {
	cg_resize *resize;
	struct cg_chunk *chunks;
	int failed;                      /* an allocation failed: what was built must not be used */
};
void *cg_arena_alloc(struct cg_arena *, size_t bytes);    /* the block is zeroed; NULL: memory is exhausted, and `failed` is set */
void  cg_arena_free(struct cg_arena *);

/* A growing text.  A failed allocation stays recorded in the text, so a caller appends many times and checks once. */
struct cg_text {
	cg_resize *resize;
	char  *at;                       /* ends with a zero byte; NULL while the text is empty */
	size_t length, capacity;
	int    failed;
};
void cg_text_put(struct cg_text *, const char *);
void cg_text_put_n(struct cg_text *, const char *, size_t n);
void cg_text_printf(struct cg_text *, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct cg_mistake { char text[640]; };   /* "name:line:column: message", then the line and a caret; or the message alone */

/* What uses a name as a reserved word, in words that fit behind "a reserved word of": a dialect, some compilers or their libraries, the
 * kernels' text or the language of cells.  NULL: the name is not reserved. */
const char *cg_find_reserved(const char *name);
/* The name in a list that is nearest to a misspelt name, or NULL where no name of the list is near. */
const char *cg_nearest(const char *name, const char *const *names, int n);
/* Writes a list of names as "a, b or c", with `word` before the last name, cut off at the capacity of `text`.  Returns `text`. */
const char *cg_list_names(char *text, size_t capacity, const char *const *names, int n, const char *word);

/* ---- element types: dtypes.h holds a row for each ---- */

enum {
#define CG_CODE(with, code, ...) CG_DTYPE_##code,
	CG_DTYPES(CG_CODE,)
#undef CG_CODE
	CG_DTYPE_COUNT
};

enum { CG_SPELLINGS = 4, CG_BYTES_MAX = 8 };             /* bytes of an element */
struct cg_dtype_row {
	const char *names[CG_SPELLINGS]; /* the library's name of the dtype, then safetensors', numpy's and TensorFlow's */
	size_t bytes;
	int acc, digits, top;
	const char *type, *holds, *bits;
};
extern const struct cg_dtype_row cg_dtypes[CG_DTYPE_COUNT];
extern const char *const cg_real_names[CG_DTYPE_COUNT];

/* Bytes of an element of the dtype, and of an element of its acc, the type of its arithmetic; 0 where there is no such dtype. */
size_t cg_dtype_bytes(int dtype);
size_t cg_acc_bytes(int dtype);
/* Is the dtype, the type of elements in memory, also the type of arithmetic, as for f32 and f64? */
int cg_is_plain(int dtype);

/* ---- operators: ops.h holds a row for each ---- */

enum cg_op_code {
	CG_OP_CONST,                     /* a constant number, in `value` */
	CG_OP_LEAF,                      /* a variable; operand `a` is its index among the graph's leaves */
#define CG_OPERATOR(code, word, arity, section) CG_OP_##code,
#include "ops.h"
#undef CG_OPERATOR
	CG_OP_COUNT
};

struct cg_operator {
	const char *word;                /* the operator's name in a .cell; NULL: a .cell has a sign for it, or has no such operator */
	int         arity;
	const char *section;             /* the operator's section of templates/math.in; NULL: a sign in each dialect, or the mean over units */
};
extern const struct cg_operator cg_operators[CG_OP_COUNT];

long double cg_op_value(int code, long double a, long double b);

/* ---- a cell as its author wrote it ---- */

enum cg_symbol_kind { CG_SYMBOL_GATE, CG_SYMBOL_PREV, CG_SYMBOL_WEIGHT, CG_SYMBOL_SCALAR, CG_SYMBOL_PARAM, CG_SYMBOL_VALUE };

struct cg_term {                         /* an operation or an operand, as written */
	int code;                        /* an enum cg_op_code, or one of the CG_TERM_ codes below */
	int a, b;                        /* indices of the operands' terms; for a symbol its kind and its index */
	long double value;
};
enum { CG_TERM_SYMBOL = CG_OP_COUNT, CG_TERM_SUB, CG_TERM_DIV };

/* The weights of a gate.  The pre-activation of a gate is the sum of the gate's products and biases: x W + b, h R + b, or both. */
enum cg_gate_part { CG_PART_W, CG_PART_R, CG_PART_BIAS_W, CG_PART_BIAS_R, CG_GATE_PARTS };
enum { CG_GATE_BIASES = 1 << CG_PART_BIAS_W | 1 << CG_PART_BIAS_R };   /* in a gate's `parts`, the bits of both biases */
/* parts: a bit for each part that the pre-activation is the sum of.  A split gate may be the recurrent part of another gate, `whole`, whose
 * weights it has; a gate with weights of its own has whole -1.  position: where the cell's text declares the gate. */
struct cg_gate   { char name[CG_NAME_MAX + 1]; int stage, split, whole; unsigned parts; const char *position; };
struct cg_option { char name[CG_NAME_MAX + 1]; };
/* option: the index of the option with which a cell has the weight; -1: always.  start: if given, the value with which training starts. */
struct cg_weight { char name[CG_NAME_MAX + 1]; int option, given; double start; };
/* A learnt scalar. start: the value of the scalar with which training starts. */
struct cg_scalar { char name[CG_NAME_MAX + 1]; double start; };
struct cg_param  { char name[CG_NAME_MAX + 1]; int given; double value; };
struct cg_equation  { char name[CG_NAME_MAX + 1]; int stage, term; char line[CG_LINE_MAX + 1]; };
/* A previous value: that of a state, or of the output, before the step.  value: the index of the equation that computes the state or
 * output after the step. */
struct cg_prev   { char name[CG_NAME_MAX + 6]; int value, output; };

struct cg_cell {
	char name[CG_NAME_MAX + 1];
	struct cg_gate   gates[CG_GATES_MAX];     int n_gates;
	struct cg_prev   prevs[CG_STATES_MAX + 1]; int n_prevs;   /* a previous value of each state, and one of the output */
	struct cg_option options[CG_OPTIONS_MAX]; int n_options;
	struct cg_weight weights[CG_WEIGHTS_MAX]; int n_weights;
	struct cg_scalar scalars[CG_SCALARS_MAX]; int n_scalars;
	struct cg_param  params[CG_PARAMS_MAX];   int n_params;
	struct cg_equation  values[CG_VALUES_MAX];   int n_values;
	int saves[CG_SAVES_MAX];                  int n_saves;    /* indices of values */
	int feeds[CG_STAGES_MAX];                 int n_stages;   /* feeds[s]: the index of the value that the product of stage s + 2 takes */
	struct cg_term *terms; int n_terms;
	const char *text, *file;                                  /* copies of the cell's text, and of its name in messages */
	int holders;                                              /* for the runtime: the number of references beside the owner's */
	struct cg_arena memory;
};

/* Reads a cell.  Returns NULL where the text is wrong (the mistake says where and why) or where memory is exhausted (the mistake is then
 * ""). */
struct cg_cell *cg_parse(const char *text, const char *name_in_errors, cg_resize *, struct cg_mistake *);
void cg_parse_free(struct cg_cell *);
/* Checks, for a cell of a network, that no gate has two split gates, which would have the same weights.  Returns -1 and sets the mistake
 * where a gate has two split gates. */
int cg_check_split(const struct cg_cell *, struct cg_mistake *);
/* Does a cell with these options have the per-unit weight?  options: a bit for each option that is on. */
int cg_has_weight(const struct cg_weight *, int options);
/* Returns a bit for each enum cg_gate_part of which a gate with weights of its own has weights: the gate's parts, and those of its split
 * gate. */
unsigned cg_gate_weights(const struct cg_cell *, int gate);
/* Does a recurrent product add to gates of the stage? */
int cg_has_product(const struct cg_cell *, int stage);
/* Does the cell save its output? A cell must save its output if its kernels are to compute steps of a sequence. */
int cg_saves_output(const struct cg_cell *);
/* Returns a bit for each option of the cell that `names`, a list with commas, contains.  Returns -1 and sets the mistake for a name that
 * is no option of the cell. */
int cg_parse_options(const struct cg_cell *, const char *names, struct cg_mistake *);

/* ---- the graph ---- */

/* What a leaf or an argument is.  A role, an index and a derivative together identify a leaf or an argument. */
enum cg_role {
	CG_ROLE_GATE,                    /* a gate pre-activation */
	CG_ROLE_PREV,                    /* a state, or the output, before the step */
	CG_ROLE_STATE,                   /* a state, or the output, after the step */
	CG_ROLE_OUTPUT,                  /* the output of a step of a sequence, as the layer above takes it */
	CG_ROLE_SAVED,                   /* a value that forward saves */
	CG_ROLE_FEED,                    /* a value that the matrix product of the cell's next stage takes */
	CG_ROLE_WEIGHT,                  /* a per-unit weight */
	CG_ROLE_BIAS,                    /* the bias of a gate */
	CG_ROLE_SCALAR,                  /* a learnt scalar */
	CG_ROLE_MEAN,                    /* a mean over units; index: its place among the means of a row in memory */
	CG_ROLE_PARAM,
	CG_ROLE_ROWS, CG_ROLE_UNITS, CG_ROLE_SCRATCH, CG_ROLE_ACCUMULATE,
	CG_ROLE_MEANS,                   /* the memory of means: those of a row stand side by side */
	CG_ROLE_OPERAND                  /* an operand of a matrix product or of row copies; index: its place among the function's arguments */
};
enum cg_derivative { CG_VALUE, CG_D, CG_G, CG_GD };  /* value v; its adjoint dv; in gradgrad the adjoint gv of v, and gdv of dv */

struct cg_leaf { char name[CG_NAME_MAX + 10]; int role, index, derivative; };

struct cg_node {
	int code, a, b;
	long double value;
	int origin;                      /* the index of the equation from which the node comes, or -1 */
	const char *name;                /* the node's name, from the cell or derived; NULL: none */
};

struct cg_graph {
	struct cg_arena *memory;
	struct cg_node *nodes; int n, capacity;  /* a node stands behind its operands; node 0 is the constant 0 */
	struct cg_leaf *leaves; int n_leaves, leaf_capacity;
	int *table, table_capacity;              /* a hash table by which equal nodes are found */
	int origin;                              /* the index of the equation from which new nodes come, or -1 */
	int failed;                              /* no memory or too many nodes: the graph must not be used */
	int value[CG_VALUES_MAX];                /* the node of each equation */
};

void cg_graph_open(struct cg_graph *, struct cg_arena *);
int  cg_const(struct cg_graph *, long double);
int  cg_add_leaf(struct cg_graph *, const char *name, int role, int index, int derivative);
int  cg_apply(struct cg_graph *, int code, int a, int b);
int  cg_add(struct cg_graph *, int a, int b);
int  cg_mul(struct cg_graph *, int a, int b);
int  cg_neg(struct cg_graph *, int a);
/* Builds the nodes of the cell's equations.  options: a bit for each option that is on; the per-unit weights of an option that is off are
 * the constant 0. */
void cg_graph_build(struct cg_graph *, const struct cg_cell *, int options);
/* Returns a bit for each previous value on which no state, output, product or saved value depends with these options, though one does with
 * all options on.  *add: the fewest further options with which one depends on each of these previous values.  Returns -1 where memory is
 * exhausted. */
int cg_lost_prevs(const struct cg_cell *, int options, cg_resize *, int *add);

/* Adds to the graph the adjoints of the first n nodes, from the adjoints that the caller gives.  adjoint[k], for k < n, is the node that
 * is the adjoint of node k; 0 on entry: none is given.  The adjoint of a named node gets that node's name with the prefix before it, unless
 * the adjoint has a name, or is a constant, a leaf or a negation. */
void cg_derive(struct cg_graph *, int *adjoint, int n, const char *prefix);

/* ---- passes and their functions ---- */

enum cg_kind {
	CG_KIND_TENSOR, CG_KIND_PER_UNIT,
	CG_KIND_ELEMENT,                 /* one element in memory */
	CG_KIND_SCALAR,                  /* a number that the caller passes by value */
	CG_KIND_COUNT, CG_KIND_SCRATCH, CG_KIND_PER_ROW,
	CG_KIND_MEAN,                    /* a mean, one number of a row, in the memory of kind CG_KIND_MEANS; no parameter of a function */
	CG_KIND_MEANS
};
enum cg_type { CG_TYPE_REAL, CG_TYPE_ACC, CG_TYPE_I64, CG_TYPE_I32 };
/* The last two shapes, a matrix product and row copies, are of functions that belong to no cell. */
enum cg_function_shape {
	CG_FUNCTION_POINT,
	CG_FUNCTION_SUM_PART,            /* a function that sums over blocks of rows: it writes partial sums to scratch */
	CG_FUNCTION_SUM,                 /* for each unit, the sum of the partial sums of all blocks of rows */
	CG_FUNCTION_SUM_UNITS,           /* the sum of the partial sums of all blocks of rows and of all units */
	CG_FUNCTION_MEAN,                /* for each row, means over the units, which another function of the plan reads */
	CG_FUNCTION_PRODUCT, CG_FUNCTION_ROWS
};

struct cg_argument {
	const char *name;
	int role, index, derivative;
	int kind, type, out;
	int node;                        /* the node whose value an input loads, or the node that an output stores */
	int place;                       /* of an output: the interpreter's register that has its values */
};

/* An operation of the interpreter.  to, a, b: registers; of CG_OP_CONST a is the node, of CG_OP_LEAF the argument that is loaded.
 * is_even: the result is the same for all units of a row, as one of means and scalars alone is, and is computed once for a strip. */
struct cg_operation { int code, to, a, b, is_even; };

struct cg_function {                     /* one function */
	char key[CG_KEY_MAX];            /* the function's name in the text */
	int  stage, shape;
	int  serves;                     /* of means: the shape of the function that reads them; else the function's own shape */
	/* means: the number of means of a row in memory; mean_functions: how many functions just before this one compute these means */
	int  means, mean_functions;
	struct cg_argument *arguments; int n_arguments;  /* in the order of the function's parameters */
	int *schedule; int n_schedule;   /* the nodes to compute, operands first, without constants and loaded nodes */
	struct cg_operation *operations; int n_operations; /* the operations, in order; the first n_fixed run once for all strips */
	int n_fixed, registers;          /* registers: how many the interpreter needs, each for a strip of values */
	int sum_values;                  /* of a sum: the number of values in each block of its scratch; those of scalars stand last */
};

/* What the text of a matrix product depends on.  The caller sets the members from dtype to c_acc, cg_gemm_tiles() those from fma on.
 * Equal shapes have equal texts.  Shapes with equal members from dtype to fma give the same bits. */
struct cg_gemm_shape {
	int dtype, transpose_a, transpose_b;
	int start_acc, c_acc;            /* 1: the elements of matrix start, or of the result c, have type acc; 0: type real */
	int fma;                         /* the device has a fused multiply-add; else each product is rounded before it is added */
	int local;                       /* 1: a group's work-items share tiles in local memory; 0: each group is one work-item */
	int rows, columns, depth;        /* rows, columns: of a group's tile of matrix c; depth: its steps of k at a time */
	int item_rows, item_columns;     /* rows and columns of the sums that a work-item keeps in registers */
	int vector;                      /* columns of matrix c in a vector or, with local, in a run of neighbours that a work-item computes */
};

/* What the text of row copies depends on: rows are gathered, scattered or added, with or without dropout of their elements.  See rows.h. */
struct cg_rows_shape {
	int dtype;
	int src_acc, dst_acc;            /* 1: the elements of memory src, or of dst, have type acc; 0: type real */
	int drop;                        /* with dropout */
};

struct cg_pass_plan {
	const struct cg_cell *cell;      /* NULL: a plan of one function that belongs to no cell, a matrix product or row copies */
	int options, pass, stage, dtype;
	char key[CG_KEY_MAX];            /* the name of the whole text */
	struct cg_arena memory;
	struct cg_graph graph;
	struct cg_function *functions; int n_functions;
	int steps;                       /* the text computes all steps of a sequence: see steps.h */
	/* For a plan without a cell: the shape of its function, and what prints it. */
	struct cg_gemm_shape gemm;
	struct cg_rows_shape rows;
	int (*print)(const struct cg_pass_plan *, int lang, struct cg_text *);
};

/* passes.h holds a row for each pass. */
enum {
#define CG_CODE(with, code, ...) CG_PASS_##code,
	CG_PASSES(CG_CODE,)
#undef CG_CODE
	CG_PASS_COUNT
};
extern const char *const cg_pass_names[CG_PASS_COUNT];

/* Plans a pass.  stage 0: all stages.  Returns NULL where memory is exhausted, where the graph would have too many nodes or the plan
 * too many functions, or where acc cannot hold a constant of an equation; unless memory is exhausted, the mistake's text says which. */
struct cg_pass_plan *cg_plan(const struct cg_cell *, int options, int pass, int stage, int dtype, cg_resize *,
                             struct cg_mistake *);
/* Makes a plan of one function that belongs to no cell.  If the function has arguments, the first two are the rows and units of a launch.
 * NULL: no memory. */
struct cg_pass_plan *cg_function_plan(const char *key, int shape, int dtype, const struct cg_argument *, int n, cg_resize *);
void cg_plan_free(struct cg_pass_plan *);
/* Feed number `feed`, from 0 on, is the value that the product after stage feed + 1 takes.  If no function of the plan has an argument for
 * that feed, returns the index, among the cell's saved values, of the value that this product takes; -1: a function has such an
 * argument. */
int cg_feed_saved(const struct cg_pass_plan *, int feed);
/* Is an argument a parameter of the function in its text?  The values of a sum part, which the function stores in its scratch, are no
 * parameters; nor are means, which are in memory together. */
int cg_is_parameter(const struct cg_function *, const struct cg_argument *);
/* Is an argument of a cell's function an array of the caller: a tensor, a vector per unit or one element? */
int cg_is_array(const struct cg_argument *);
/* Does the function add up partial sums, over the blocks of rows or also over the units? */
int cg_is_sum(const struct cg_function *);
/* The index in `prevs` of the state or output that an equation computes; -1: it computes neither. */
int cg_find_prev(const struct cg_cell *, int value);
/* In CUDA C, does a parameter NAME_second follow the argument NAME, an output of a sum?  NAME_second is the distance, in elements, from
 * NAME to a second place for the same sum, or 0. */
int cg_has_second(const struct cg_function *, const struct cg_argument *);
/* The number of units that a thread of a point function takes at once in CUDA C. */
int cg_run_units(const struct cg_pass_plan *, const struct cg_function *);
/* The name of the function's second form, in which a thread takes one unit.  The text has the second form where cg_run_units() is above
 * 1. */
void cg_one_key(const struct cg_function *, char key[CG_KEY_MAX]);
/* Which form of a function is to be launched?  1: the first, where its launch has at least CG_RUN_THREADS threads for each
 * multiprocessor; 0: the second, or the only one, in which a thread takes one unit. */
enum { CG_RUN_THREADS = 256 };
int cg_takes_runs(const struct cg_pass_plan *, const struct cg_function *, int64_t rows, int64_t units, int multiprocessors);
/*
 * The step loop: in the dialects of GPUs, a second form of a function over elements that computes all steps of a sequence in one launch.
 * Cells whose elements depend on no other unit's element of the step before have one: cells without a recurrent product and without means.
 * A thread computes an element of all steps, one step after the other, backward from the last step on, with the bits of a launch for each
 * step.
 */
int cg_has_step_loop(const struct cg_pass_plan *, const struct cg_function *);
/* The name of the function's step loop. */
void cg_step_loop_key(const struct cg_function *, char key[CG_KEY_MAX]);
/* What memory a step loop takes for an argument of the function. */
enum cg_in_steps {
	CG_STEPS_SAME,                   /* what the function takes: the steps share a weight, a scalar or a param */
	CG_STEPS_ROWS,                   /* the rows of all steps */
	/* The step before, backward the step after, passes the value in a register; the memory has the value for the first step that is
	 * computed.  Backward the second memory, with the rows of all steps, receives each step's value. */
	CG_STEPS_PASSED,
	/* Backward, the value before a step: the memory has that before the sequence, the second memory has the values after all steps. */
	CG_STEPS_BEFORE,
	CG_STEPS_FIRST                   /* backward, the gradient of the value before the sequence */
};
int cg_in_steps(const struct cg_pass_plan *, const struct cg_argument *);
/* The parameters of a step loop are rows and units; the number of steps; the table of their first rows; the first row of step 0, and the
 * number of rows from there to the first row of the next step; then, for each argument of the function behind rows and units, its
 * parameters, and those of its second memory if it has one.  own, second: the names of an argument's memory and of its second memory;
 * second is "" if there is none. */
enum { CG_STEP_NAME_MAX = CG_NAME_MAX + 32 };
void cg_step_loop_names(const struct cg_pass_plan *, const struct cg_argument *, char own[CG_STEP_NAME_MAX], char second[CG_STEP_NAME_MAX]);
int cg_has_second_memory(const struct cg_pass_plan *, const struct cg_argument *);

/* Does the function write the argument?  A function that computes means writes the memory of means. */
int cg_is_written(const struct cg_function *, const struct cg_argument *);
/* Does the function that computes means read means of a lower level, too? */
int cg_reads_means(const struct cg_function *);
/* Is the argument in memory that the functions of a pass share, partial sums or means, and that the caller only provides? */
int cg_is_shared(const struct cg_argument *);
/* Does the function write or read partial sums? */
int cg_has_partial(const struct cg_function *);
/* The number of outputs of a function beside its scratch. */
int cg_count_outputs(const struct cg_function *);
/* The number of values that are summed over rows.  The scratch of a sum holds, for each value, a partial sum [units] of every block of
 * CG_SUM_ROWS rows.  A function of shape CG_FUNCTION_SUM_PART computes all partial sums, CG_FUNCTION_SUM adds those of biases and per-unit
 * weights, and CG_FUNCTION_SUM_UNITS those of scalars, which stand last. */
int cg_sum_values(const struct cg_function *);

/* ---- text ---- */

struct cg_embedded { const char *name, *text; };          /* a file of templates/; the list ends with name NULL */
extern const struct cg_embedded cg_embedded[];
extern const struct cg_embedded cg_shelf[];                     /* the cells of templates/cells; the build compiles kernels of a few */

/* Finds a section of a template file: it begins with the line "@@ name [qualifier...]". Returns -1 where the template file has no such
 * section. */
struct cg_section { const char *at; size_t length; const char *needs; size_t needs_length; };
int cg_section_find(const char *file, const char *name, const char *qualifier, struct cg_section *);

/* The dialects: row(code, name) of each.  dialect.c has their words. */
#define CG_LANGS(row) row(C, c) row(OPENCL, opencl) row(CUDA, cuda)
enum cg_lang {
#define CG_CODE(code, name) CG_LANG_##code,
	CG_LANGS(CG_CODE)
#undef CG_CODE
	CG_LANG_COUNT
};
extern const char *const cg_lang_names[CG_LANG_COUNT];

/* Prints the whole text of a plan.  For several plans of one dtype in one file print the parts of that text: the prelude once, then each
 * plan's functions. */
int cg_print(const struct cg_pass_plan *, int lang, struct cg_text *);
/* Prints the header that a caller includes, in C or C++: prototypes of the functions of a plan's text in C. */
int cg_print_header(const struct cg_pass_plan *, struct cg_text *);
int cg_print_prelude(const struct cg_pass_plan *const *, int n, int lang, struct cg_text *);
int cg_print_functions(const struct cg_pass_plan *, int lang, const char *linkage, struct cg_text *);
/* Prints, in C for one dtype, the prelude with every operator: the mathematics with which strip.c interprets functions. */
int cg_print_math(int dtype, struct cg_text *);
/* Is the cell a built-in one, that is, does a file of templates/ have the cell's name and text? */
int cg_is_template(const struct cg_cell *);
/* Is the cell a built-in one or one of the shelf, so that cg_cell_find() finds it by its name?  A cell that is neither built in nor of the
 * shelf is identified by its file, which should have the cell's name. */
int cg_is_listed(const struct cg_cell *);
/* Prints the named sections of the prelude and of the math text, each after the sections that it needs.  The list of names ends with
 * NULL. */
int cg_print_sections(int dtype, int lang, const char *const *names, struct cg_text *);
void cg_print_command(const struct cg_pass_plan *, int lang, struct cg_text *);
int cg_print_manifest(const struct cg_pass_plan *, int lang, struct cg_text *);

/* Names the variables of a function's nodes.  name[node]: the variable's name, or NULL where the node is written out in the expression
 * that uses it. */
int cg_name_nodes(const struct cg_pass_plan *, const struct cg_function *, struct cg_arena *, const char ***name);

/* All words of a dialect, and the forms of what is printed once per argument.  In a form @name@ is the argument's name, @type@ the
 * type in memory, @value@ the variable to store.  A word that a dialect lacks is NULL. */
struct cg_dialect {
	const char *file, *shape;                 /* file: the prelude's template; shape: "c" or "gpu", a qualifier of template sections */
	const char *inlined, *kernel, *restricted, *global;
	const char *i64, *bits[CG_BYTES_MAX + 1]; /* bits[n]: the unsigned integer type of n bytes */
	int comments;                             /* the column of the comments behind typedefs */
	const char *row, *row_step, *unit, *unit_step;
	const char *local, *aligned, *item, *group_x, *group_y, *groups_y, *barrier, *bounds;    /* for matrix products by work-groups */
	int panels;                               /* the dialect has matrix products by panels, too */
	int offsets, strips;                      /* offsets: an offset follows each buffer; strips: the text works on strips of a row */
	int builds;                               /* 1: compiler flags choose one form of a text, by section "builds" of the prelude */
	const char *tensor_in, *tensor_out, *unit_in, *unit_out, *scratch_in, *scratch_out, *scalar, *count;
	const char *load, *load_unit, *load_plain, *load_unit_plain, *store, *store_plain;
	const char *load_element, *load_element_plain;           /* the load of one element; NULL: the text passes the element by value */
	const char *sum_out;                      /* the parameters of a sum's output that may have a second place; NULL: unit_out has them */
	/* For threads that take runs of units: the load of a run of an input and of a per-unit input, the declaration of an output's
	 * run and its store; then the elements of runs. */
	const char *run_in, *run_in_unit, *run_out, *run_put, *from_run, *from_run_plain, *to_run, *to_run_plain;
	const char *flags;                        /* the compiler flags for the promised bits, as a JSON list */
};
extern const struct cg_dialect cg_dialects[CG_LANG_COUNT];
/* The name of the type that holds an element. */
const char *cg_type_word(const struct cg_dialect *, int dtype);

/* Appends a template with its @holes@ filled.  holes: pairs of a name and a text; the list ends with NULL.  Where a hole stands alone
 * on a line, each line of its text gets the line's indent; where the text is empty, the line is left out. */
void cg_fill(struct cg_text *, const char *form, size_t length, const char *const *holes);

/* ---- matrix products: c [m n] = start + op(a) [m k] op(b) [k n], for devices without a BLAS ---- */

struct cg_gemm_limits {                  /* the limits of a device */
	int    cpu;                      /* is a CPU: local memory is ordinary memory, and a work-item has a whole thread's registers */
	int    units;                    /* compute units */
	int    group;                    /* the most work-items in a group */
	size_t local_bytes;
	int    vector_bytes;             /* for a CPU: the bytes of a vector, 4 times its native vector width for float */
	int    fma;                      /* has a fused multiply-add in acc: CL_FP_FMA */
};

/* The shapes that fit a device, from the largest tile down.  Returns the number of these shapes; 0: local memory or the groups are too
 * small for any. */
enum { CG_GEMM_TILES = 5 };
int  cg_gemm_tiles(const struct cg_gemm_shape *, const struct cg_gemm_limits *, struct cg_gemm_shape tiles[CG_GEMM_TILES]);
/* The index of the tile for a matrix c [m, n].  The choice depends on the sizes and the device's limits alone; nothing is timed. */
int  cg_gemm_choose(const struct cg_gemm_shape *tiles, int n_tiles, const struct cg_gemm_limits *, int64_t m, int64_t n);
/* Sets the shape to the tile for a matrix c [m, n], by cg_gemm_tiles and cg_gemm_choose.  Where no tile fits the device, cg_gemm_tile
 * returns -1 and leaves the shape as it was. */
int  cg_gemm_tile(struct cg_gemm_shape *, const struct cg_gemm_limits *, int64_t m, int64_t n);
/* The name of the text's one function: dtype, transpositions, types, local and tile, without fma, depth, vector and items. */
void cg_gemm_key(const struct cg_gemm_shape *, char key[CG_KEY_MAX]);
/* Prints the text of a matrix product, complete with its prelude.  Returns -1 where memory is exhausted, where the shape's sizes do not fit
 * each other, or where a dialect has no such text: C has none, and CUDA C none without local memory. */
int  cg_print_gemm(const struct cg_gemm_shape *, int lang, struct cg_text *);
/* Sizes the launch of a matrix product.  global: the work-items in each direction, as OpenCL counts them; divided by local, the
 * work-items of a group, they are CUDA's blocks.  Returns 0 where nothing is to be launched. */
int  cg_gemm_launch(const struct cg_gemm_shape *, int64_t m, int64_t n, size_t global[2], size_t local[2]);
size_t cg_gemm_local_bytes(const struct cg_gemm_shape *);
/* The arguments of the text's function, in order.  m and n are the rows and units of the function's launch. */
enum { CG_GEMM_M, CG_GEMM_N, CG_GEMM_K, CG_GEMM_A, CG_GEMM_B, CG_GEMM_START, CG_GEMM_C, CG_GEMM_ARGUMENTS };
/* Makes a plan of one function: the text of a matrix product.  NULL: no memory. */
struct cg_pass_plan *cg_gemm_plan(const struct cg_gemm_shape *, cg_resize *);

/* ---- the meaning ---- */

/* Computes the values of the graph's first n nodes in long double: value[k] is that of node k.  The caller sets the values of the leaves
 * before the call. */
void cg_eval(const struct cg_graph *, long double *value, int n);
/* The same as cg_eval() for a row of several units: value[k * units + u] is the value of node k in unit u. */
void cg_eval_row(const struct cg_graph *, long double *value, int n, int units);

/* The value of one argument in a call of a function. */
struct cg_bound {
	void   *data;                    /* NULL: absent */
	int64_t stride;                  /* distance in elements from one row to the next */
	double  value;                   /* the number, for a scalar or a count */
};
/* Computes a function over [rows, units] by interpreting it over strips of rows, in acc, with the kernels' own mathematics, so that the
 * results have the kernels' bits.  Each dtype has a function of this type for each instruction set with kernels:
 * cg_strip_f32_baseline and so on (strip.c).
 * registers: cg_strip_bytes() bytes of scratch, aligned for a double. */
typedef void cg_strip(const struct cg_pass_plan *, const struct cg_function *, int64_t rows, int64_t units,
                      const struct cg_bound *, void *registers);
size_t cg_strip_bytes(const struct cg_pass_plan *, const struct cg_function *);
/* The number of values in the interpreter's memory: CG_STRIP for each register and, where the function computes means, for each mean. */
enum { CG_STRIP = 512 };
size_t cg_strip_values(const struct cg_function *);

#endif
