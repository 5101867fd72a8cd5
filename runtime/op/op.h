/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The op table: every op is a row.  check.c, the command's `run`, and other code that handles the arguments of any op read the row, so
 * that such code does not repeat the names, shapes and attributes of an op.
 */
#ifndef CG_OP_H
#define CG_OP_H

#include "runtime/core/core.h"

/* A size of the op, int64_t in its struct.  The shapes of ports name a size by its symbol. */
struct cg_dim {
	const char *symbol;              /* the letters that stand for the size in shapes: "B" */
	size_t      at;                  /* offset in the op's struct */
	int64_t     least;               /* smallest legal value of the size */
	const char *only;                /* not NULL: sizes other than `least` are CG_UNSUPPORTED, for the reason in this text */
	int         flags;               /* a bitwise or of values of enum cg_dim_flag */
	const char *about;               /* a description in a few words, which the command prints */
};

enum cg_dim_flag {
	CG_INFERRED = 1,                 /* the size follows from other sizes: `infer` of the row computes it, not a shape */
	CG_UNSAID  = 2                   /* the size follows from other sizes: cg_op_describe() leaves it out */
};

enum cg_attribute_kind {
	CG_REAL,                         /* a double in the op's struct, not NaN */
	CG_BOOL,                         /* an int in the op's struct, 0 or 1 */
	CG_INTEGER,                      /* an int64_t in the op's struct, within the attribute's range */
	CG_WORD,                         /* an int in the op's struct: the index of one of the attribute's words */
	CG_TEXT,                         /* a const char * in the op's struct, NULL for no text; cg_attribute_check() does not check the text */
	CG_NATURAL                       /* a uint64_t in the op's struct, with any value */
};

/* An attribute.  Attributes are written with designated initialisers, so that fields that an initialiser does not name are 0. */
struct cg_attribute {
	const char *name;                /* TensorFlow's name of the attribute, "cell_clip", or the library's own if `extra` is 1 */
	int         kind;
	const char *range;               /* CG_INTEGER: "0 T", the least and the largest value, or "1", the least alone; each is a
	                                  * number or the symbol of a size.  NULL: any. */
	const char *const *words;        /* for CG_WORD: the words that are allowed, ended by NULL */
	int         scalar;              /* for CG_INTEGER: TensorFlow's op has the attribute as an input, a tensor of rank 0 */
	int         required;            /* 1: TensorFlow gives the attribute no default */
	int         extra;               /* 1: TensorFlow's op does not have the attribute */
	/* the attribute's default in this library; legal in the op's struct even if it is out of the range */
	double      fallback;
	size_t      at;                  /* offset in the op's struct; an attribute may have the offset of a size */
	const char *about;               /* a remark that the command prints; NULL: none */
};

enum cg_flow {
	CG_IN,
	CG_OUT,
	CG_OUT_SUM                       /* an output, to which results are added if `accumulate` is set */
};

/* An argument: a struct cg_mem in the op's struct. */
struct cg_port {
	const char *name;                /* TensorFlow's name of the argument, or the library's own if TensorFlow does not have the argument */
	const char *shape;               /* the argument's shape, "I+U 4*U": dimensions separated by blanks */
	int         flow;
	/* a text that says when a call must give this input.  NULL: the input is required whenever any output is present.  Names of outputs
	 * and boolean attributes, separated by blanks: the input is required when one of these outputs is present or one of these attributes
	 * is on.  "": the input is never required. */
	const char *need;
	int         extra;               /* 1: TensorFlow's op does not have the argument */
	size_t      at;                  /* offset in the op's struct */
	int         type;                /* the type of the argument's elements, an enum cg_element */
	int         flags;               /* a bitwise or of values of enum cg_port_flag */
	/* 2 to 4: the argument belongs to this state of the cell; an op whose cell lacks that state does not use the argument */
	int         state;
	const char *about;               /* a remark that the command prints; NULL: none */
};

enum cg_element {
	CG_REAL_TYPE,                    /* the elements have the op's dtype */
	CG_INT8, CG_INT32, CG_INT64,     /* the elements are integers in host memory, as in TensorFlow */
	CG_INT_S                         /* CG_INT32 or CG_INT64: TensorFlow's attribute S, a CG_WORD, says which */
};

enum cg_port_flag {
	CG_ON_HOST     = 1,              /* the command passes the argument in host memory; `info --json`: "host_in_c": true */
	CG_OPAQUE      = 2,              /* the bytes are private to this library: `cellgrad run` compares them with no file */
	CG_MAY_LACK    = 4,              /* TensorFlow's op requires the argument; in this library it may be absent */
	/* the command's user may leave the argument out, but only if the user names the op by the library's name and not by TensorFlow's */
	CG_OURS_LACKS  = 8,
	/* the argument is a list of tensors NAME_0, NAME_1, ...; function `item` of the row gives the shape of each */
	CG_LIST        = 16,
	CG_SHAPE_ALONE = 32,             /* an input of TensorFlow's op whose shape is checked and whose values are not read */
	/* for steps that are not computed, TensorFlow leaves the output's memory as it was; this library writes zeros */
	CG_UNSET       = 64,
	/* the argument belongs to the cell's first state; an op whose cell has no state does not use the argument */
	CG_OF_STATE    = 128
};

enum { CG_ITEM_NAME = 32, CG_ITEMS_MAX = 1 << 16, CG_RANK = 3, CG_MULTIPLES_MAX = 2 };
/* The most sizes, ports and attributes of a row; tensors of lists are not counted. */
enum { CG_DIMS_MAX = 12, CG_PORTS_MAX = 32, CG_ATTRIBUTES_MAX = 32 };

/*
 * The parsed texts of a row; each text is parsed at its first use.  cg_multiple: a term "4*U", with the index of the dim in the row.
 * cg_dimension: a sum of terms "I+U", with offset and length of its text.  cg_reading: a port's shape and need; outputs and switches have a
 * bit for each output and boolean attribute that the need names.  cg_range: an attribute's range; an end with dim -1 is a number.
 */
struct cg_multiple  { short factor, dim; };
struct cg_dimension { struct cg_multiple of[CG_MULTIPLES_MAX]; unsigned char n, at, length; };
struct cg_reading   { int state, rank, always, is_states; struct cg_dimension dimensions[CG_RANK]; uint64_t outputs, switches; };
struct cg_range     { int state, has_most; struct cg_range_end { int64_t number; int dim; } least, most; };
/* Static storage for the parsed texts of a static row. */
#define CG_READ_ONCE \
	.readings = (struct cg_reading[CG_PORTS_MAX]){ { .state = 0 } }, \
	.ranges = (struct cg_range[CG_ATTRIBUTES_MAX]){ { .state = 0 } }

/* The layout of an argument whose rows are not dense: rows of `width` elements in two dimensions; dimension k has of[k].n rows that are
 * of[k].stride elements apart, and the larger stride comes first. */
struct cg_spacing {
	struct { int64_t n, stride; } of[2];
	int64_t width;
	int is_packed;                   /* 1: the argument is a packed sequence, whose rows lie in dimension 0 alone */
};

struct cg_op {
	const char *name;                /* the library's own name, "lstm_block_cell_grad" */
	const char *tensorflow;          /* TensorFlow's name, "LSTMBlockCellGrad" */
	const char *type;                /* the name of the op's struct in C, "cg_lstm_block" */
	const struct cg_dim       *dims;         /* each list ends with an entry whose name, or symbol, is NULL */
	const struct cg_attribute *attributes;
	const struct cg_port      *ports;        /* inputs in TensorFlow's order, then outputs, TensorFlow's first */
	struct cg_reading *readings;             /* by port: the port's parsed texts; NULL: texts are parsed at each use */
	struct cg_range   *ranges;               /* by attribute: the parsed range; NULL: ranges are parsed at each use */
	/* Sizes and offsets of the op's struct; an offset of 0 means that the struct has no such field. */
	size_t size, dtype_at, accumulate_at, work_at;
	size_t gates_at;                 /* offset of the field with the order of the gates */
	const char *gates;               /* "i ci f o": the gates of a dimension that is a multiple of U, for the command; NULL: none */
	size_t steps_at;                 /* offset of an int64_t, the number of steps that are computed; a negative number means all T */
	size_t time_major_at;            /* offset of an int: if the int is 0, the first two dimensions of shapes of rank 3 are exchanged */
	/* offset of an int: if the int is 1, the dimensions of shapes that begin with L*D, those of states, are not exchanged */
	size_t states_major_at;
	const char *means;               /* Facts of every call that no attribute states: NAME=VALUE, separated by blanks.  A fact with
	                                  * the name of an attribute of the op is ignored.  cell: the cells that the op may have, separated by
	                                  * commas; weights_format: the format of its weights, as `cellgrad convert` names it. */
	void (*init)(void *op, size_t size);
	/* gives the bytes of the workspace; cg_op_check calls this function, which must not call cg_op_check */
	int  (*work)(const void *op, size_t *bytes);
	int  (*call)(struct cg_stream *, const void *op);

	/* 1: the op's struct is struct cg_rnn_op, which ops of networks and ops on their params share.  Code that makes arguments from shapes
	 * alone skips ops with plan = 1. */
	int  plan;
	/* Called after the shapes of the given arguments have set sizes: sets the sizes that follow from those sizes, and the bits of the
	 * new sizes in *bound, and checks that all sizes agree.  NULL: no sizes follow. */
	int  (*infer)(const struct cg_op *, void *op, unsigned *bound);
	/* Does the op use this port, given the values of its attributes?  An input that the op does not use may be absent or contain
	 * anything.  NULL: the op uses every port. */
	int  (*reads)(const struct cg_op *, const struct cg_port *, const void *op);
	/* Sets the layout of an argument's rows, in an op whose sizes were checked; returns 0 if the rows are dense.  NULL: the rows of
	 * every argument are dense. */
	int  (*spacing)(const struct cg_port *, const void *op, struct cg_spacing *);
	/* The number of weights that each valid step of a batch row is multiplied with, in an open op.  NULL: the number is that of the
	 * elements of the ports of two dimensions without B. */
	int64_t (*weights)(const void *op);
	/* The route of a call, in a few words.  NULL: the op has no routes. */
	const char *(*route)(const void *op);
	/* Function `open` makes the plan before the call, checks what needs the plan, and sets the sizes that `infer` left unset; function
	 * `close` closes the plan.  A call that `open` did not precede makes a plan itself.  NULL: the op needs no plan. */
	int  (*open)(struct cg_stream *, const struct cg_op *, void *op);
	void (*close)(void *op);
	/* Function `items` gives the number of tensors in the op's lists, or fails.  Function `item` gives the port of the k-th tensor of
	 * the lists, except the port's offset.  NULL: the op has no lists. */
	int  (*items)(const struct cg_op *, const void *op, int *n);
	int  (*item)(const struct cg_op *, const void *op, int k, struct cg_port *, char name[CG_ITEM_NAME]);
};

/* Returns the row after the given row of the op table; for NULL the first row, and for the last row NULL. */
const struct cg_op *cg_op_next(const struct cg_op *);

/* The row of an op, by the library's own name or by TensorFlow's; *theirs is 1 if the name is TensorFlow's; the pointer `theirs` may be
 * NULL.  Returns NULL if there is no such op; the message suggests the nearest name if one is near. */
const struct cg_op *cg_op_find(const char *name, int *theirs);

/* The row of the gradient of an op, or, for a gradient, that of its op; *is_grad is 1 if the given row is the gradient.
 * Returns NULL if the op has no gradient and is no gradient. */
const struct cg_op *cg_op_pair(const struct cg_op *, int *is_grad);

/* ---- shapes: shape.c ---- */

enum { CG_SHAPE_TEXT = 64 };
/* Writes the shape of a port as the row has it, "T B I".  If the op is not time-major, the first two of three dimensions are exchanged,
 * except in the shape of a state if states_major is set.  Returns the buffer `text`. */
const char *cg_op_shape_text(const struct cg_op *, const struct cg_port *, const void *op, char text[CG_SHAPE_TEXT]);
/* Computes a shape such as "I+U 4*U" from the sizes in the op's struct: writes at most CG_RANK dimensions and returns their number, or
 * CG_BAD_ARGUMENT, which is negative, if one does not fit in 64 bits. */
int cg_op_shape(const struct cg_op *, const struct cg_port *, const void *op, int64_t shape[CG_RANK]);

/* Three functions: the type of a port's elements, where attribute S has replaced CG_INT_S; the name of that type, "f32" or "int32"; the
 * bytes of one element. */
int         cg_op_type(const struct cg_op *, const struct cg_port *, const void *op);
const char *cg_op_type_name(const struct cg_op *, const struct cg_port *, const void *op);
size_t      cg_op_type_bytes(const struct cg_op *, const struct cg_port *, const void *op);

/* Computes the bytes of a whole argument.  CG_BAD_ARGUMENT: the number of bytes is more than an int64_t or a size_t can hold. */
int cg_op_bytes(const struct cg_op *, const struct cg_port *, const void *op, size_t *bytes);

/* Sets sizes of an op from the shape of one argument.  Bit k of *bound is set if the row's k-th size is known.  A dimension whose symbols
 * are all known is compared with the shape; one with a single unknown symbol sets that symbol's size ("I+U" with U known gives I); one with
 * more, or whose unknown symbol `infer` sets, is skipped until a later call.  A shape that does not fit sets nothing: CG_BAD_ARGUMENT with
 * "op: w: expected [I+U=7, 4*U=16], got [7, 12]". */
int cg_op_bind(const struct cg_op *, const struct cg_port *, void *op, unsigned *bound, const int64_t *shape, int rank);

/* Copies a row, with a port for each tensor in place of the lists of tensors.  The op's struct grows: a cg_mem for each tensor of the lists
 * follows it; on failure *op is unchanged.  The new row is one block of cg_memory that the caller frees; the old row must outlive it. */
int cg_op_widen(const struct cg_op *, void **op, struct cg_op **wide);

/* The number of steps, among the T steps of the sequence, that the op computes. */
int64_t cg_op_steps(const struct cg_op *, const void *op, int64_t T);

/* Is any output of the op present? */
int cg_op_has_output(const struct cg_op *, const void *op);

/* Is the port an input that is required, given the outputs and attributes that are set in op?  If no output is present, no input is
 * required. */
int cg_op_needs(const struct cg_op *, const struct cg_port *, const void *op);

/* ---- attributes: attribute.c ---- */

/* Checks a value; a message is "op: seq_len_max: expected 0 to T=5, got 7".  given 0: the value may also be the default, even if that is
 * out of the range; 1: a user gave the value, which must be within the range. */
int cg_attribute_check(const struct cg_op *, const struct cg_attribute *, const void *op, int given);
/* An attribute's value as a number: for a CG_WORD its index, for a CG_TEXT 1 if there is one. */
double cg_attribute_number(const struct cg_attribute *, const void *op);
void   cg_attribute_set(const struct cg_attribute *, void *op, double value);
/* An attribute's value as text, "true" "0.5" "lstm"; a number if it is not a legal boolean or word.  Returns the buffer `text`, or for
 * kind CG_TEXT the attribute's own text. */
enum { CG_ATTRIBUTE_TEXT = 64 };
const char *cg_attribute_text(const struct cg_attribute *, const void *op, char text[CG_ATTRIBUTE_TEXT]);

/* ---- checks: check.c ---- */

/* Checks the arguments of an op by its row, before any computation: ranges, sizes, presence, bytes, alignment, overlap. */
int cg_op_check(const struct cg_op *, const void *op);

/* ---- a line for each call: verbose.c ---- */

/* Prints the line of a call that took ms milliseconds and returned code.  options: the kernel's options, as bits; -1: its checks failed. */
void cg_verbose_print_op(const struct cg_stream *, const struct cg_op *, const void *op, int code, double ms);
void cg_verbose_print_kernel(const struct cg_stream *, const struct cg_kernel *, int options, int64_t rows, int64_t units, int code,
                             double ms);
/* Writes arguments of `cellgrad bench`, "--op NAME --B 1 ... use_peephole=true": an op's sizes that are neither fixed nor CG_UNSAID, its
 * dtype, its required attributes (except scalar inputs), and attributes that differ from their defaults.  Returns text. */
const char *cg_op_describe(const struct cg_op *, const char *name, const void *op, char *text, size_t capacity);

#endif
