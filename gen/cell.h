/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler of .cell files: every type its passes share, and the passes in the order they run.  A library without exits, globals
 * or I/O: texts come in as strings and go out as strings, memory comes through one function, and a mistake comes back in a struct
 * cg_mistake.  What the text of a kernel looks like is in templates/, not here.
 *
 *	parse    text -> struct cg_cell            what the author wrote, checked
 *	graph    cell, options -> struct cg_graph  interned nodes, simplified as they are built
 *	derive   nodes -> their adjoints           once for grad, again for gradgrad
 *	pass     cell, options, pass -> functions  which functions a pass needs, what each takes and gives
 *	order    function -> statements            what is computed in which order, under which name
 *	print    functions -> text, manifest       through the dialect's templates
 *	eval     function -> values                the meaning: what every printed kernel is compared with
 */
#ifndef CG_CELL_H
#define CG_CELL_H

#include <stddef.h>
#include <stdint.h>

#include "dtypes.h"
#include "passes.h"

/* Limits; the parser names the one that was passed. */
enum {
	CG_NAME_MAX     = 24,            /* letters in a name */
	CG_GATES_MAX    = 32,
	CG_STATES_MAX   = 4,
	CG_WEIGHTS_MAX  = 32,            /* per-unit weights of all options together */
	CG_OPTIONS_MAX  = 8,
	CG_PARAMS_MAX   = 16,
	CG_STAGES_MAX   = 4,
	CG_FUNCTIONS_MAX = 5 * CG_STAGES_MAX,    /* functions of a pass */
	CG_SAVES_MAX    = 64,
	CG_VALUES_MAX   = 256,           /* equations */
	CG_TERMS_MAX    = 1 << 14,       /* operations in all equations */
	CG_DEPTH_MAX    = 64,            /* parentheses within parentheses */
	CG_NODES_MAX    = 1 << 16,       /* after differentiation */
	CG_TEXT_MAX     = 1 << 20,       /* bytes of a .cell */
	CG_LINE_MAX     = 200,           /* letters of an equation, as it is quoted in a kernel */
	CG_KEY_MAX      = 320,           /* letters of a kernel's name: the cell's, every option's, what else there is */
	CG_SUM_ROWS     = 64             /* rows that a `sum` adds up before it starts another partial */
};

/* ---- memory: one function of the caller's, blocks freed together ---- */

/* As realloc; bytes 0 frees.  NULL when there is none, and p is left as it was. */
typedef void *cg_resize(void *p, size_t bytes);

struct cg_arena {
	cg_resize *resize;
	struct cg_chunk *chunks;
	int failed;                      /* some request was refused: what was built is not to be used */
};
void *cg_arena_alloc(struct cg_arena *, size_t bytes);    /* zeroed; NULL and failed when there is no memory */
void  cg_arena_free(struct cg_arena *);

/* Growing text with a sticky failure: many appends, one check. */
struct cg_text {
	cg_resize *resize;
	char  *at;                       /* always ends with a zero, NULL while empty */
	size_t length, capacity;
	int    failed;
};
void cg_text_put(struct cg_text *, const char *);
void cg_text_put_n(struct cg_text *, const char *, size_t n);
void cg_text_printf(struct cg_text *, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct cg_mistake { char text[640]; };   /* "name:line:column: words", the line and a caret; or words alone */

/* A word of one of the dialects, or of the kernels' own text. */
int cg_is_reserved(const char *name);
/* The nearest of a list of names to a misspelt one, or NULL when none is near. */
const char *cg_nearest(const char *name, const char *const *names, int n);
/* "a, b or c", with the word before the last; as much as fits.  Returns text. */
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
	const char *names[CG_SPELLINGS]; /* ours, safetensors', numpy's, TensorFlow's */
	size_t bytes;
	int acc, digits, top;
	const char *type, *holds, *bits;
};
extern const struct cg_dtype_row cg_dtypes[CG_DTYPE_COUNT];
extern const char *const cg_real_names[CG_DTYPE_COUNT];

/* Bytes of an element, and of one of acc, in which sums and states are; 0 for no dtype. */
size_t cg_dtype_bytes(int dtype);
size_t cg_acc_bytes(int dtype);
/* Does memory hold what arithmetic uses? */
int cg_is_plain(int dtype);

/* ---- operators: ops.h holds a row for each ---- */

enum cg_op_code {
	CG_OP_CONST,                     /* value */
	CG_OP_LEAF,                      /* a: index into the graph's leaves */
#define CG_OPERATOR(code, word, arity, section) CG_OP_##code,
#include "ops.h"
#undef CG_OPERATOR
	CG_OP_COUNT
};

struct cg_operator {
	const char *word;                /* in a .cell; NULL: written with signs */
	int         arity;
	const char *section;             /* of the math text that computes it; NULL: the dialects' own signs */
};
extern const struct cg_operator cg_operators[CG_OP_COUNT];

long double cg_op_value(int code, long double a, long double b);

/* ---- a cell as it was written ---- */

enum cg_symbol_kind { CG_SYMBOL_GATE, CG_SYMBOL_PREV, CG_SYMBOL_WEIGHT, CG_SYMBOL_PARAM, CG_SYMBOL_VALUE };

struct cg_term {                         /* an operation or an operand as written */
	int code;                        /* an enum cg_op_code, or one of the next two */
	int a, b;                        /* terms; for a symbol its kind and index */
	long double value;
};
enum { CG_TERM_SYMBOL = CG_OP_COUNT, CG_TERM_SUB, CG_TERM_DIV };

/* whole: of a split gate the gate whose recurrent part it is, or -1; position: in the text. */
struct cg_gate   { char name[CG_NAME_MAX + 1]; int stage, split, whole; const char *position; };
struct cg_option { char name[CG_NAME_MAX + 1]; };
struct cg_weight { char name[CG_NAME_MAX + 1]; int option; };
struct cg_param  { char name[CG_NAME_MAX + 1]; int given; double value; };
struct cg_equation  { char name[CG_NAME_MAX + 1]; int stage, term; char line[CG_LINE_MAX + 1]; };
/* What a state, or the output, was before the step; value: the equation that gives what it is after. */
struct cg_prev   { char name[CG_NAME_MAX + 6]; int value, output; };

struct cg_cell {
	char name[CG_NAME_MAX + 1];
	struct cg_gate   gates[CG_GATES_MAX];     int n_gates;
	struct cg_prev   prevs[CG_STATES_MAX + 1]; int n_prevs;   /* one of them the output */
	struct cg_option options[CG_OPTIONS_MAX]; int n_options;
	struct cg_weight weights[CG_WEIGHTS_MAX]; int n_weights;
	struct cg_param  params[CG_PARAMS_MAX];   int n_params;
	struct cg_equation  values[CG_VALUES_MAX];   int n_values;
	int saves[CG_SAVES_MAX];                  int n_saves;    /* values */
	int feeds[CG_STAGES_MAX];                 int n_stages;   /* feeds[s]: the value whose product stage s + 2 takes */
	struct cg_term *terms; int n_terms;
	const char *text, *file;                                  /* as given, and the name in errors; the cell's own copies */
	int holders;                                              /* the runtime's: who keeps it beside its owner */
	struct cg_arena memory;
};

/* Reads a cell.  NULL: it is wrong (the mistake says where and why), or there is no memory (mistake "" then). */
struct cg_cell *cg_parse(const char *text, const char *name_in_errors, cg_resize *, struct cg_mistake *);
void cg_parse_free(struct cg_cell *);
/* Networks find the weights of split gates by pairs: is each split gate the recurrent part of one gate, which is no other's?
 * -1: no, and the mistake. */
int cg_check_split(const struct cg_cell *, struct cg_mistake *);
/* Is the output among what the cell saves, as it is of cells that are made for sequences? */
int cg_saves_output(const struct cg_cell *);
/* Bits of options named with commas; negative and a mistake for a name the cell does not have. */
int cg_parse_options(const struct cg_cell *, const char *names, struct cg_mistake *);

/* ---- the graph ---- */

/* What a leaf or an argument is; with the index and the order it says which one. */
enum cg_role {
	CG_ROLE_GATE,                    /* a pre-activation */
	CG_ROLE_PREV,                    /* a state, or h, before the step */
	CG_ROLE_STATE,                   /* a state, or h, after it */
	CG_ROLE_OUTPUT,                  /* h, as what takes it from a step of a sequence sees it: the layer above */
	CG_ROLE_SAVED,                   /* a value that forward keeps */
	CG_ROLE_FEED,                    /* the value whose product the next stage takes */
	CG_ROLE_WEIGHT,                  /* a per-unit weight */
	CG_ROLE_BIAS,                    /* of a gate */
	CG_ROLE_PARAM,
	CG_ROLE_ROWS, CG_ROLE_UNITS, CG_ROLE_SCRATCH, CG_ROLE_ACCUMULATE,
	CG_ROLE_OPERAND                  /* of a product or of rows: index says which */
};
enum cg_derivative { CG_VALUE, CG_D, CG_G, CG_GD };  /* v, its adjoint dv, the second pass's gv, and gdv the adjoint of dv */

struct cg_leaf { char name[CG_NAME_MAX + 10]; int role, index, derivative; };

struct cg_node {
	int code, a, b;
	long double value;
	int origin;                      /* the equation that this came from, or -1 */
	const char *name;                /* the cell's name for it, or a derived one; NULL: none */
};

struct cg_graph {
	struct cg_arena *memory;
	struct cg_node *nodes; int n, capacity;  /* operands come before what uses them; node 0 is the constant 0 */
	struct cg_leaf *leaves; int n_leaves, leaf_capacity;
	int *table, table_capacity;              /* interning */
	int origin;                              /* given to new nodes */
	int failed;                              /* no memory or too many nodes: results are meaningless */
	int value[CG_VALUES_MAX];                /* the node of each equation */
};

void cg_graph_open(struct cg_graph *, struct cg_arena *);
int  cg_const(struct cg_graph *, long double);
int  cg_add_leaf(struct cg_graph *, const char *name, int role, int index, int derivative);
int  cg_apply(struct cg_graph *, int code, int a, int b);
int  cg_add(struct cg_graph *, int a, int b);
int  cg_mul(struct cg_graph *, int a, int b);
int  cg_neg(struct cg_graph *, int a);
/* The forward equations; options: bits.  Weights of options that are off are the constant 0. */
void cg_graph_build(struct cg_graph *, const struct cg_cell *, int options);
/* Bits of the values of the step before that no equation reads with these options, though one does with all of them on;
 * *add: the fewest options that bring them all back.  -1: no memory. */
int cg_lost_prevs(const struct cg_cell *, int options, cg_resize *, int *add);

/* Adjoints of the first n nodes, given those of some (adjoint[k] = 0: none yet); both arrays hold n nodes.  Names adjoints
 * of named nodes with the prefix. */
void cg_derive(struct cg_graph *, int *adjoint, int n, const char *prefix);

/* ---- passes and their functions ---- */

enum cg_kind { CG_KIND_TENSOR, CG_KIND_PER_UNIT, CG_KIND_SCALAR, CG_KIND_COUNT, CG_KIND_SCRATCH, CG_KIND_PER_ROW };
enum cg_type { CG_TYPE_REAL, CG_TYPE_ACC, CG_TYPE_I64, CG_TYPE_I32 };
/* The last two are of no cell: a product's tiles, and rows gathered or scattered. */
enum cg_function_shape { CG_FUNCTION_POINT, CG_FUNCTION_SUM_PART, CG_FUNCTION_SUM, CG_FUNCTION_PRODUCT, CG_FUNCTION_ROWS };

struct cg_argument {
	const char *name;
	int role, index, derivative;
	int kind, type, out;
	int node;                        /* a leaf, or what an output stores */
};

struct cg_function {                     /* one function */
	char key[CG_KEY_MAX];            /* its name */
	int  stage, shape;
	struct cg_argument *arguments; int n_arguments;  /* in the order of the text's parameters */
	int *schedule; int n_schedule;   /* nodes to compute, operands first; leaves are not among them */
};

/* A product's text.  The caller says what it multiplies, cg_gemm_tiles() the rest; shapes that are equal have equal texts, and
 * those that differ in the rest alone give the same bits, but for fma. */
struct cg_gemm_shape {
	int dtype, transpose_a, transpose_b;
	int start_acc, c_acc;            /* elements of start, of c, are acc, else real */
	int fma;                         /* the device's own; else each product is rounded before it is added */
	int local;                       /* a group shares tiles in local memory, else each group is one work-item */
	int rows, columns, depth;        /* a group's tile of c, and how much of k it takes at a time */
	int item_rows, item_columns;     /* sums that a work-item has in registers */
	int vector;                      /* of the columns: those of a vector, or with local those beside each other */
};

/* The text of rows gathered, scattered, added or dropped: rows.h. */
struct cg_rows_shape {
	int dtype;
	int src_acc, dst_acc;            /* elements of src, of dst, are acc, else real */
	int drop;                        /* with dropout */
};

struct cg_pass_plan {
	const struct cg_cell *cell;      /* NULL: of one function that no cell has, a product's or rows' */
	int options, pass, stage, dtype;
	char key[CG_KEY_MAX];            /* of the text */
	struct cg_arena memory;
	struct cg_graph graph;
	struct cg_function *functions; int n_functions;
	int steps;                       /* of all steps of a sequence: steps.h */
	/* Of a plan without a cell: what its function is for, and what prints it. */
	struct cg_gemm_shape gemm;
	struct cg_rows_shape rows;
	int (*print)(const struct cg_pass_plan *, int lang, struct cg_text *);
};

/* passes.h holds a row for each. */
enum {
#define CG_CODE(with, code, ...) CG_PASS_##code,
	CG_PASSES(CG_CODE,)
#undef CG_CODE
	CG_PASS_COUNT
};
extern const char *const cg_pass_names[CG_PASS_COUNT];

/* stage 0: all.  NULL: no memory or too many nodes, and the mistake says which. */
struct cg_pass_plan *cg_plan(const struct cg_cell *, int options, int pass, int stage, int dtype, cg_resize *,
                             struct cg_mistake *);
/* A plan of one function that no cell has; its first two arguments are the rows and units of a launch.  NULL: no memory. */
struct cg_pass_plan *cg_function_plan(const char *key, int shape, int dtype, const struct cg_argument *, int n, cg_resize *);
void cg_plan_free(struct cg_pass_plan *);
/* The saved value, by its index among the cell's saves, that the product after stage feed + 1 multiplies, where the plan's
 * functions have no argument of their own for it; -1: they have one. */
int cg_feed_saved(const struct cg_pass_plan *, int feed);
/* Is an argument one of the function's parameters?  The values of a part go to its scratch. */
int cg_is_parameter(const struct cg_function *, const struct cg_argument *);
/* Does a count NAME_second follow it in CUDA C: elements from it to a second place for the same sum, 0: none? */
int cg_has_second(const struct cg_function *, const struct cg_argument *);
/* Units that a thread of a point function takes at once in CUDA C. */
int cg_run_units(const struct cg_pass_plan *, const struct cg_function *);
/* Where they are several the text has the function a second time, under another name, one unit a thread. */
void cg_one_key(const struct cg_function *, char key[CG_KEY_MAX]);
/* Which of the two a launch takes: 1 the first, where it has at least CG_RUN_THREADS threads for each of the multiprocessors. */
enum { CG_RUN_THREADS = 256 };
int cg_takes_runs(const struct cg_pass_plan *, const struct cg_function *, int64_t rows, int64_t units, int multiprocessors);
/* Sums that a function adds up: for each, its scratch holds [units] in every block of CG_SUM_ROWS rows. */
int cg_sum_values(const struct cg_function *);

/* ---- text ---- */

struct cg_embedded { const char *name, *text; };          /* a file of templates/, ends with name NULL */
extern const struct cg_embedded cg_embedded[];

/* A section of a template file: "@@ name [qualifier...]".  NULL when there is none. */
struct cg_section { const char *at; size_t length; const char *needs; size_t needs_length; };
int cg_section_find(const char *file, const char *name, const char *qualifier, struct cg_section *);

/* The dialects: row(code, name) of each.  What they say is in dialect.c. */
#define CG_LANGS(row) row(C, c) row(OPENCL, opencl) row(CUDA, cuda)
enum cg_lang {
#define CG_CODE(code, name) CG_LANG_##code,
	CG_LANGS(CG_CODE)
#undef CG_CODE
	CG_LANG_COUNT
};
extern const char *const cg_lang_names[CG_LANG_COUNT];

/* The whole text of a plan, or, for several plans of one dtype in one file, its parts: prelude once, then functions. */
int cg_print(const struct cg_pass_plan *, int lang, struct cg_text *);
/* Prototypes of the functions of the text in C, for C and C++: the header that a caller includes. */
int cg_print_header(const struct cg_pass_plan *, struct cg_text *);
int cg_print_prelude(const struct cg_pass_plan *const *, int n, int lang, struct cg_text *);
int cg_print_functions(const struct cg_pass_plan *, int lang, const char *linkage, struct cg_text *);
/* The prelude with every operator, for one dtype in C: what the strips are computed with. */
int cg_print_math(int dtype, struct cg_text *);
/* Is the cell one of templates/, identified by its name?  Any other is identified by its file, which should have its name. */
int cg_is_template(const struct cg_cell *);
/* Sections of the prelude and of the math text, by name, after those that they need; the list ends with NULL. */
int cg_print_sections(int dtype, int lang, const char *const *names, struct cg_text *);
void cg_print_command(const struct cg_pass_plan *, int lang, struct cg_text *);
int cg_print_manifest(const struct cg_pass_plan *, int lang, struct cg_text *);

/* Variables for the nodes of a function: name[node], or NULL where the node is written out in the expression that uses it. */
int cg_name_nodes(const struct cg_pass_plan *, const struct cg_function *, struct cg_arena *, const char ***name);

/* All words of a dialect, and the forms of what is printed once per argument.  In a form @name@ is the argument's name, @type@ what
 * its memory holds, @value@ the variable that holds what is stored.  A word that a dialect lacks is NULL. */
struct cg_dialect {
	const char *file, *shape;                 /* its prelude, and its sections in the shapes beside those of its name */
	const char *inlined, *kernel, *restricted, *global;
	const char *i64, *bits[CG_BYTES_MAX + 1]; /* bits: unsigned integers, by their bytes */
	int comments;                             /* the column of comments behind the types */
	const char *row, *row_step, *unit, *unit_step;
	const char *local, *aligned, *item, *group_x, *group_y, *groups_y, *barrier, *bounds;    /* of groups, in a matrix product */
	int panels;                               /* it has matrix products by panels as well */
	int offsets, strips;                      /* a buffer is followed by its offset; the C text works on strips of a row */
	int builds;                               /* a text may be built in several ways: its prelude has a section on them */
	const char *tensor_in, *tensor_out, *unit_in, *unit_out, *scratch_in, *scratch_out, *scalar, *count;
	const char *load, *load_unit, *load_plain, *load_unit_plain, *store, *store_plain;
	const char *sum_out;                      /* of a sum, where it can go to a second place too; NULL: as unit_out */
	/* Where a thread takes runs of units: a run of an input, of a per-unit input, of an output, and that put away; their elements. */
	const char *run_in, *run_in_unit, *run_out, *run_put, *from_run, *from_run_plain, *to_run, *to_run_plain;
	const char *flags;                        /* how a compiler is to be called for the promised bits, as a JSON list */
};
extern const struct cg_dialect cg_dialects[CG_LANG_COUNT];
/* The type that holds an element. */
const char *cg_type_word(const struct cg_dialect *, int dtype);

/* Appends a template with its @holes@ replaced; holes: pairs of hole and text, ended by NULL.  A hole that stands alone on a
 * line takes the line's indent for each of its own lines; when its text is empty the line goes. */
void cg_fill(struct cg_text *, const char *form, size_t length, const char *const *holes);

/* ---- matrix products: c [m n] = start + op(a) [m k] op(b) [k n], for devices without a BLAS ---- */

struct cg_gemm_limits {                  /* the limits of a device */
	int    cpu;                      /* local memory is memory like any other, and a work-item may have a thread's registers */
	int    units;                    /* compute units */
	int    group;                    /* work-items in a group, at most */
	size_t local_bytes;
	int    vector_bytes;             /* of a cpu: 4 times its native vector width for float */
	int    fma;                      /* has a fused multiplication and addition in acc: CL_FP_FMA */
};

/* The shapes, from the largest tile down, that fit into a device: a table's rows, at most.  0: too little local memory. */
enum { CG_GEMM_TILES = 5 };
int  cg_gemm_tiles(const struct cg_gemm_shape *, const struct cg_gemm_limits *, struct cg_gemm_shape tiles[CG_GEMM_TILES]);
/* Which of them is for c [m, n]: by the sizes, never by the clock. */
int  cg_gemm_choose(const struct cg_gemm_shape *tiles, int n_tiles, const struct cg_gemm_limits *, int64_t m, int64_t n);
/* Both at once.  -1, and the shape as it was: too little local memory. */
int  cg_gemm_tile(struct cg_gemm_shape *, const struct cg_gemm_limits *, int64_t m, int64_t n);
/* The name of the text's one function: of its operands' and tile's sizes, not of fma, depth, vector and items. */
void cg_gemm_key(const struct cg_gemm_shape *, char key[CG_KEY_MAX]);
/* The text alone has all it needs, local memory too.  -1: no memory, or no such text: in C, or in CUDA C without local. */
int  cg_print_gemm(const struct cg_gemm_shape *, int lang, struct cg_text *);
/* Work-items of a launch, in OpenCL's way of counting; CUDA's blocks are their quotients.  0: nothing is to be launched. */
int  cg_gemm_launch(const struct cg_gemm_shape *, int64_t m, int64_t n, size_t global[2], size_t local[2]);
size_t cg_gemm_local_bytes(const struct cg_gemm_shape *);
/* The arguments of the text's function, in order; m and n are the rows and units of its launch. */
enum { CG_GEMM_M, CG_GEMM_N, CG_GEMM_K, CG_GEMM_A, CG_GEMM_B, CG_GEMM_START, CG_GEMM_C, CG_GEMM_ARGUMENTS };
/* The text as a plan of one function.  NULL: no memory. */
struct cg_pass_plan *cg_gemm_plan(const struct cg_gemm_shape *, cg_resize *);

/* ---- the meaning ---- */

/* Computes nodes in long double: value[k] for k < n; the caller has set those of the leaves. */
void cg_eval(const struct cg_graph *, long double *value, int n);

/* What a function is called with, by argument. */
struct cg_bound {
	void   *data;                    /* NULL: absent */
	int64_t stride;                  /* elements from row to row */
	double  value;                   /* of a scalar or a count */
};
/* Computes a function over [rows, units] by interpreting it over strips of rows, in acc, with the kernels' own mathematics:
 * the same bits.  There is one for each dtype and instruction set, cg_strip_f32_baseline and so on (strip.c).
 * registers: cg_strip_bytes() of scratch, aligned for a double. */
typedef void cg_strip(const struct cg_pass_plan *, const struct cg_function *, int64_t rows, int64_t units,
                      const struct cg_bound *, void *registers);
size_t cg_strip_bytes(const struct cg_pass_plan *, const struct cg_function *);

#endif
