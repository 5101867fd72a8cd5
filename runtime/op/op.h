/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The op table: every op as a row.  Validation and its messages, the command's `run` and all other users of an op's arguments read
 * it; names, shapes and attributes of an op are written nowhere else.  The function of a row computes the op.
 */
#ifndef CG_OP_H
#define CG_OP_H

#include "runtime/core/core.h"

/* A size of the op, int64_t in its struct.  Ports name it in their shapes. */
struct cg_dim {
	const char *symbol;              /* "B" */
	size_t      at;                  /* offset in the op's struct */
	int64_t     least;               /* smallest legal value */
	const char *only;                /* NULL, or why no value but `least` is computed: others are CG_UNSUPPORTED */
	int         flags;               /* an or of enum cg_dim_flag */
	const char *about;               /* in a few words, for people */
};

enum cg_dim_flag {
	CG_INFERRED = 1,                 /* follows from others: `infer` of the row computes it, no shape has it */
	CG_UNSAID  = 2                   /* follows from others: the words of a problem are without it */
};

enum cg_attribute_kind {
	CG_REAL,                         /* double in the struct, no NaN */
	CG_BOOL,                         /* int, 0 or 1 */
	CG_INTEGER,                      /* int64_t, of a range */
	CG_WORD,                         /* int: which of the words */
	CG_TEXT,                         /* const char *, NULL for none: the caller's, who reads it */
	CG_NATURAL                       /* uint64_t, any */
};

/* Rows name their fields; what they do not name is 0. */
struct cg_attribute {
	const char *name;                /* TensorFlow's, "cell_clip" */
	int         kind;
	const char *range;               /* CG_INTEGER: "0 T", the least and the largest, or "1", the least alone: numbers or
	                                  * symbols of sizes.  NULL: any. */
	const char *const *words;        /* CG_WORD: ended by NULL */
	int         scalar;              /* CG_INTEGER: an input of TensorFlow's op, a tensor of rank 0 */
	int         required;            /* TensorFlow gives it no default */
	int         extra;               /* TensorFlow's op does not have it */
	double      fallback;            /* the default elsewhere, legal in the struct even where it is out of the range */
	size_t      at;                  /* that of a size, where the two are one */
	const char *about;               /* what its name and values do not say, for people; NULL: nothing */
};

enum cg_flow {
	CG_IN,
	CG_OUT,
	CG_OUT_SUM                       /* an output that `accumulate` adds to */
};

/* An argument: struct cg_mem in the op's struct. */
struct cg_port {
	const char *name;                /* TensorFlow's, or ours where TensorFlow has none */
	const char *shape;               /* "I+U 4*U": dimensions separated by blanks */
	int         flow;
	const char *need;                /* inputs.  NULL: needed by every output.  Else names separated by blanks, of
	                                  * outputs and boolean attributes: needed when one is wanted or on; "" never. */
	int         extra;               /* outputs: TensorFlow's op does not have it */
	size_t      at;
	int         type;                /* of its elements, an enum cg_element */
	int         flags;               /* an or of enum cg_port_flag */
	const char *about;               /* what its name and shape do not say, for people; NULL: nothing */
};

enum cg_element {
	CG_REAL_TYPE,                    /* the op's dtype */
	CG_INT8, CG_INT32, CG_INT64,     /* of the host's memory, like TensorFlow's */
	CG_INT_S                         /* CG_INT32 or CG_INT64: TensorFlow's attribute S, a CG_WORD, says which */
};

enum cg_port_flag {
	CG_ON_HOST     = 1,              /* it is allocated in host memory */
	CG_OPAQUE      = 2,              /* its contents are private to this library and are not compared with expected ones */
	CG_MAY_LACK    = 4,              /* TensorFlow's op requires it; it may be absent here */
	CG_OURS_LACKS  = 8,              /* the same under our name alone */
	CG_LIST        = 16,             /* tensors NAME_0, NAME_1, ... of shapes of their own: `item` of the row says them */
	CG_SHAPE_ALONE = 32,             /* an input like TensorFlow's that no output is computed from */
	CG_UNSET       = 64,             /* TensorFlow leaves steps that are not computed as the memory was; we have zeros there */
	CG_OF_STATE    = 128             /* of the cell state: a cell without a state has none */
};

enum { CG_ITEM_NAME = 32, CG_ITEMS_MAX = 1 << 16, CG_RANK = 3, CG_MULTIPLES_MAX = 2 };
/* Of a row at most; ports without lists. */
enum { CG_DIMS_MAX = 12, CG_PORTS_MAX = 32, CG_ATTRIBUTES_MAX = 32 };

/*
 * What the texts of a row say, each read at its first use: "4*U", the dim by its place in the row; "I+U", with the place and length
 * of the text; a port's shape and need, a bit for each output and attribute that is named; an attribute's range, an end of which is
 * a number where dim is -1.
 */
struct cg_multiple  { short factor, dim; };
struct cg_dimension { struct cg_multiple of[CG_MULTIPLES_MAX]; unsigned char n, at, length; };
struct cg_reading   { int state, rank, always, is_states; struct cg_dimension dimensions[CG_RANK]; uint64_t outputs, switches; };
struct cg_range     { int state, has_most; struct cg_range_end { int64_t number; int dim; } least, most; };
/* Storage for what is read, in a row that is static. */
#define CG_READ_ONCE \
	.readings = (struct cg_reading[CG_PORTS_MAX]){ { .state = 0 } }, \
	.ranges = (struct cg_range[CG_ATTRIBUTES_MAX]){ { .state = 0 } }

/* How the rows of an argument lie that are not dense: rows of `width` elements in two directions, n of them `stride` elements apart; the
 * larger stride first. */
struct cg_spacing {
	struct { int64_t n, stride; } of[2];
	int64_t width;
	int is_packed;                   /* one direction: a packed sequence */
};

struct cg_op {
	const char *name;                /* ours, "lstm_block_cell_grad" */
	const char *tensorflow;          /* "LSTMBlockCellGrad" */
	const char *type;                /* its struct in C, "cg_lstm_block" */
	const struct cg_dim       *dims;         /* each list ends with a row whose name is NULL */
	const struct cg_attribute *attributes;
	const struct cg_port      *ports;        /* inputs in TensorFlow's order, then outputs, TensorFlow's first */
	struct cg_reading *readings;             /* what the texts of each port say; NULL: they are read each time */
	struct cg_range   *ranges;               /* the same of each attribute */
	size_t size, dtype_at, accumulate_at, work_at;
	size_t gates_at;                 /* 0: the op has no gate order */
	const char *gates;               /* "i ci f o": what a size that is a multiple of U is made of, for people; NULL: there is none */
	size_t steps_at;                 /* an int64_t, how many of T steps are computed, less than 0 for all; 0: the op computes all */
	size_t time_major_at;            /* where an int is 0, shapes of rank 3 have their first two dimensions exchanged; 0: none */
	size_t states_major_at;          /* where an int is 1, not those of states, which begin with L*D; 0: none */
	const char *means;               /* What holds of every call though no attribute says it, as NAME=VALUE with blanks between.  A
	                                  * name that is an attribute of the op is passed over.  cell: all that the op may be of, with
	                                  * commas between; weights_format: of its weights, in the words of `cellgrad convert`. */
	void (*init)(void *op, size_t size);
	int  (*work)(const void *op, size_t *bytes);     /* cg_op_check calls it, so it must not call cg_op_check */
	int  (*call)(struct cg_stream *, const void *op);

	/* The op is a network and has a plan.  Code that makes arguments from shapes alone leaves such ops out. */
	int  plan;
	/* Called once the given shapes have set their sizes: sets the sizes that follow, with *bound, and checks what must hold of all.
	 * NULL: no sizes follow. */
	int  (*infer)(const struct cg_op *, void *op, unsigned *bound);
	/* Does the op read the input under these attributes?  Else it may be absent, or anything.  NULL: it always does. */
	int  (*reads)(const struct cg_op *, const struct cg_port *, const void *op);
	/* How an argument's rows lie, in an op whose sizes were checked; returns 0 where they are dense.  NULL: they always are. */
	int  (*spacing)(const struct cg_port *, const void *op, struct cg_spacing *);
	/* The number of weights that are multiplied with every valid row, of an open op.  NULL: those are the ports of two dimensions
	 * without B. */
	int64_t (*weights)(const void *op);
	/* The implementation that a call uses, in a few words.  NULL: the backend's. */
	const char *(*route)(const void *op);
	/* Prepares everything that can fail before the call; close undoes it.  Sizes that infer left unbound are known from here on.  A
	 * call without open prepares itself.  NULL: there is nothing to prepare. */
	int  (*open)(struct cg_stream *, const struct cg_op *, void *op);
	void (*close)(void *op);
	/* The number of tensors in the lists, or a failure; and the port of the k-th of them, all but its place.  NULL: the op has no
	 * lists. */
	int  (*items)(const struct cg_op *, const void *op, int *n);
	int  (*item)(const struct cg_op *, const void *op, int k, struct cg_port *, char name[CG_ITEM_NAME]);
};

/* The row after a row, of NULL the first; NULL after the last. */
const struct cg_op *cg_op_next(const struct cg_op *);

/* The row of a name, ours or TensorFlow's; *theirs (may be NULL) says which was given.  NULL: none, and the message has
 * the nearest. */
const struct cg_op *cg_op_find(const char *name, int *theirs);

/* The gradient of an op, or the op that it is the gradient of, by their names; *is_grad: which of the two the row is.  NULL: it has
 * none. */
const struct cg_op *cg_op_pair(const struct cg_op *, int *is_grad);

/* ---- shapes: shape.c ---- */

enum { CG_SHAPE_TEXT = 64 };
/* The shape as it is in the row, "T B I", with the first two of three dimensions exchanged where the op is not time-major; returns
 * text. */
const char *cg_op_shape_text(const struct cg_op *, const struct cg_port *, const void *op, char text[CG_SHAPE_TEXT]);
/* Reads a shape such as "I+U 4*U" with the sizes in the op's struct: writes at most CG_RANK dimensions and returns how
 * many, or CG_BAD_ARGUMENT, which is negative, when one does not fit in 64 bits. */
int cg_op_shape(const struct cg_op *, const struct cg_port *, const void *op, int64_t shape[CG_RANK]);

/* The type of a port's elements, with CG_INT_S as the attribute has it; its name, "f32" "int32"; bytes of one. */
int         cg_op_type(const struct cg_op *, const struct cg_port *, const void *op);
const char *cg_op_type_name(const struct cg_op *, const struct cg_port *, const void *op);
size_t      cg_op_type_bytes(const struct cg_op *, const struct cg_port *, const void *op);

/* Bytes of the whole argument.  CG_BAD_ARGUMENT: more than an int64_t or a size_t can hold. */
int cg_op_bytes(const struct cg_op *, const struct cg_port *, const void *op, size_t *bytes);

/* Binds the sizes of an op from the shape of one argument.  A bit of *bound says that the dim of that place in the row is known.
 * A dimension of known symbols is compared; one with a single unknown symbol sets it ("I+U" with U known gives I); one with
 * more, or a size that `infer` sets, is passed over, for a second round.  A shape that does not fit binds nothing:
 * CG_BAD_ARGUMENT with "op: w: expected [I+U=7, 4*U=16], got [7, 12]". */
int cg_op_bind(const struct cg_op *, const struct cg_port *, void *op, unsigned *bound, const int64_t *shape, int rank);

/* A row whose lists are tensors: in place of a list a port for each, whose memory stands behind the op's struct, which grows; op
 * stays as it was on failure.  The new row is one block of cg_memory; what it was made of must outlive it. */
int cg_op_widen(const struct cg_op *, void **op, struct cg_op **wide);

/* How many of T steps are computed. */
int64_t cg_op_steps(const struct cg_op *, const void *op, int64_t T);

/* Is any output present? */
int cg_op_has_output(const struct cg_op *, const void *op);

/* Is the port an input that must be there, given the outputs and attributes set in op?  Nothing is when no output is. */
int cg_op_needs(const struct cg_op *, const struct cg_port *, const void *op);

/* ---- attributes: attribute.c ---- */

/* CG_OK, or "op: seq_len_max: expected 0 to T=5, got 7".  given: by a user, who must keep to the range; else the fallback is
 * legal, too. */
int cg_attribute_check(const struct cg_op *, const struct cg_attribute *, const void *op, int given);
/* The value as a number; of a CG_WORD, which word; of a CG_TEXT, whether there is one. */
double cg_attribute_number(const struct cg_attribute *, const void *op);
void   cg_attribute_set(const struct cg_attribute *, void *op, double value);
/* As NAME=VALUE has it, "true" "0.5" "lstm"; what is no boolean or no word, as a number.  Returns text, or a CG_TEXT itself. */
enum { CG_ATTRIBUTE_TEXT = 64 };
const char *cg_attribute_text(const struct cg_attribute *, const void *op, char text[CG_ATTRIBUTE_TEXT]);

/* ---- checks: check.c ---- */

/* Everything that can be checked of an op's arguments before any work: ranges, sizes, presence, bytes, alignment, overlap. */
int cg_op_check(const struct cg_op *, const void *op);

/* ---- a line for each call: verbose.c ---- */

/* The line of a call that took ms and returned code.  options: the kernel's, -1 when it was refused. */
void cg_verbose_print_op(const struct cg_stream *, const struct cg_op *, const void *op, int code, double ms);
void cg_verbose_print_kernel(const struct cg_stream *, const struct cg_kernel *, int options, int64_t rows, int64_t units, int code,
                             double ms);
/* An op's sizes, dtype and attributes as `cellgrad bench` reads them, "--op NAME --B 1 ... use_peephole=true"; returns text. */
const char *cg_op_describe(const struct cg_op *, const char *name, const void *op, char *text, size_t capacity);

#endif
