/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GRUBlockCell and GRUBlockCellGrad.  Forward runs, in this order, the products for the gates r and u, stage 1 of the cell, the products
 * for the candidate, which read x and h_prev r, and stage 2.  The gradient runs stage 2, the product for the gradient of h_prev r, stage 1,
 * and then the products for the gradients of the weights, h_prev and x.  The equations are in templates/gru_block.cell, the checks of
 * arguments in runtime/op/check.c.
 */
#include <string.h>

#include "runtime/op/run.h"
#include "runtime/block/block.h"

/* The numbers of a kernel's functions, for all stages: forward has stage 1, then 2; grad has stage 2 and its sums, then 1 and its sums. */
enum { FORWARD_1 = 0, FORWARD_2 };
enum { GRAD_2 = 0, SUM_PART_2, SUM_2, GRAD_1, SUM_PART_1, SUM_1 };

static void init(void *op, size_t size)
{
	static const struct cg_gru_block defaults = { .size = 0 };

	cg_sized_init(op, size, &defaults, sizeof defaults);
}

void cg_gru_block_init(struct cg_gru_block *op, size_t size)
{
	init(op, size);
}

static const struct cg_matrix none = { .stride = 0 };
static const struct cg_sized sized = CG_SIZED(struct cg_gru_block, d_b_c, init);

/* The workspace, in the order of its parts. */
struct forward_work { struct cg_mem gates, u, hr, candidate; };
struct grad_work { struct cg_mem dc, dhr, hr, dru, dh, dx, partial; };

static void carve_forward(const struct cg_gru_block *op, struct cg_work *work, struct forward_work *w)
{
	size_t real = cg_dtype_bytes(op->dtype), acc = cg_acc_bytes(op->dtype);

	w->gates     = cg_work_alloc(work, op->B, 2 * op->U, acc);
	w->u         = cg_work_alloc(work, op->B, op->U, real);
	w->hr        = cg_work_alloc(work, op->B, op->U, real);
	w->candidate = cg_work_alloc(work, op->B, op->U, acc);
}

static void carve_grad(const struct cg_gru_block *op, struct cg_work *work, struct grad_work *w)
{
	size_t real = cg_dtype_bytes(op->dtype), acc = cg_acc_bytes(op->dtype);

	w->dc      = cg_work_alloc(work, op->B, op->U, real);
	w->dhr     = cg_work_alloc(work, op->B, op->U, acc);
	w->hr      = cg_work_alloc(work, op->B, op->U, real);
	w->dru     = cg_work_alloc(work, op->B, 2 * op->U, real);
	w->dh      = cg_work_alloc(work, op->B, op->U, acc);
	w->dx      = cg_work_alloc(work, op->B, op->I, acc);
	w->partial = cg_work_alloc(work, (op->B + CG_SUM_ROWS - 1) / CG_SUM_ROWS, 2 * op->U, acc);
}

static size_t work_bytes(const struct cg_gru_block *op, int pass)
{
	struct cg_work work = { .used = 0 };
	struct forward_work forward;
	struct grad_work grad;

	if (pass == CG_FORWARD)
		carve_forward(op, &work, &forward);
	else
		carve_grad(op, &work, &grad);
	return work.used;
}

int cg_gru_block_work(const struct cg_gru_block *op, enum cg_pass pass, size_t *bytes)
{
	struct cg_gru_block whole;

	if (!op || !bytes)
		return cg_fail(CG_BAD_ARGUMENT, "cg_gru_block_work: %s: expected a pointer, got NULL", op ? "bytes" : "op");
	op = cg_sized_complete(&sized, op, &whole);
	CG_TRY(cg_sized_check("cg_gru_block_work", "cg_gru_block", op, sizeof *op));
	if (pass != CG_FORWARD && pass != CG_GRAD)
		return cg_fail(CG_UNSUPPORTED, "cg_gru_block_work: pass: expected CG_FORWARD=%d or CG_GRAD=%d, got %d", CG_FORWARD, CG_GRAD,
		               (int)pass);
	if (op->B < 0 || op->U < 1 || op->I < 1 || !cg_dtype_bytes(op->dtype) || op->B > PTRDIFF_MAX / 256 / op->U ||
	    op->B > PTRDIFF_MAX / 256 / op->I)
		return cg_fail(CG_BAD_ARGUMENT, "cg_gru_block_work: expected B of at least 0, I and U of at least 1, B*I and B*U "
		               "of at most PTRDIFF_MAX/256 and an enum cg_dtype, got B=%lld, I=%lld, U=%lld, dtype=%d", (long long)op->B,
		               (long long)op->I, (long long)op->U, op->dtype);
	*bytes = work_bytes(op, pass);
	return CG_OK;
}

/* ---- the arguments of a kernel ---- */

/* The pre-activations of the gates r and u are in one matrix of 2U columns, those of the candidate in another of U columns. */
enum { GATES = 3, CANDIDATE = 2 };

/* The memory of the kernels' arguments: gates, biases and saved values in the order of the cell.  In an array of two, entry 0 is the value
 * and entry 1 its gradient.  Memory of a value that is not computed is absent. */
struct kernel_memory {
	const struct cg_gru_block *op;
	struct cg_mem gates[2][GATES], bias[GATES];      /* gates: pre-activations; bias: the biases' gradients */
	struct cg_mem saved[4];                          /* the values r, u, c and h that the forward pass saves */
	/* prev: [0] h_prev, [1] its gradient without the product through the gates r and u; stage_input: [0] h_prev r, [1] its gradient */
	struct cg_mem prev[2], stage_input[2];
	struct cg_mem partial;                           /* partial sums */
};

static void set_gates(const struct cg_gru_block *op, struct cg_mem ru, struct cg_mem candidate, size_t bytes,
                      struct cg_mem gates[GATES])
{
	size_t half = (size_t)op->U * bytes;

	gates[0] = ru;
	gates[1] = cg_part(ru, half, ru.bytes - half);
	gates[CANDIDATE] = candidate;
}

static int bind(const void *of, const struct cg_argument *a, struct cg_operand *operand)
{
	const struct kernel_memory *m = of;
	int d = a->derivative != CG_VALUE;

	*operand = (struct cg_operand){ .stride = a->role == CG_ROLE_GATE && a->index != CANDIDATE ? 2 * m->op->U : m->op->U };
	switch (a->role) {
	case CG_ROLE_GATE:       operand->mem = m->gates[d][a->index]; break;
	case CG_ROLE_BIAS:       operand->mem = m->bias[a->index]; break;
	case CG_ROLE_PREV:       operand->mem = m->prev[d]; break;
	case CG_ROLE_STATE:      operand->mem = m->op->d_h; break;
	case CG_ROLE_SAVED:      operand->mem = m->saved[a->index]; break;
	case CG_ROLE_FEED:       operand->mem = m->stage_input[d]; break;
	case CG_ROLE_SCRATCH:    operand->mem = m->partial; break;
	case CG_ROLE_ACCUMULATE: operand->value = m->op->accumulate; break;
	}
	return CG_OK;
}

static int launch(struct cg_stream *stream, const struct cg_kernel_entry *kernel, int function, const struct kernel_memory *m)
{
	return cg_launch(stream, kernel, function, m->op->B, m->op->U, bind, m);
}

/* ---- products ---- */

/* The rows of a weight matrix that multiply x (side 0) or the recurrent value (side 1). */
static struct cg_matrix side(const struct cg_gru_block *op, struct cg_mem w, int64_t wide, int which)
{
	size_t real = cg_dtype_bytes(op->dtype), at = which ? (size_t)(op->I * wide) * real : 0;

	return (struct cg_matrix){ cg_part(w, at, (size_t)((which ? op->U : op->I) * wide) * real), wide, 0 };
}

/* Computes c = x W_x + v W_v + b, the gate pre-activations of one stage; v is h_prev in stage 1, h_prev r in stage 2. */
static int multiply_gates(struct cg_stream *stream, const struct cg_gru_block *op, struct cg_mem v, struct cg_mem w, struct cg_mem b,
                          int64_t wide, struct cg_mem c)
{
	struct cg_gemm product = { .dtype = op->dtype, .m = op->B, .n = wide, .c = { c, wide, 1 } };

	product.start = (struct cg_matrix){ b, 0, 0 };
	product.a = (struct cg_matrix){ op->x, op->I, 0 };
	product.b = side(op, w, wide, 0);
	product.k = op->I;
	CG_TRY(cg_multiply(stream, &product));
	product.start = product.c;
	product.a = (struct cg_matrix){ v, op->U, 0 };
	product.b = side(op, w, wide, 1);
	product.k = op->U;
	return cg_multiply(stream, &product);
}

static int run_forward(struct cg_stream *stream, const void *given, struct cg_work *work)
{
	const struct cg_gru_block *op = given;
	struct kernel_memory m = { .op = op, .saved = { op->r, op->u, op->c, op->h }, .prev = { op->h_prev } };
	const struct cg_kernel_entry *kernel;
	struct forward_work w;

	CG_TRY(cg_open_kernel(stream->context, "gru_block", "", CG_FORWARD, 0, op->dtype, &kernel));
	carve_forward(op, work, &w);
	set_gates(op, w.gates, w.candidate, cg_acc_bytes(op->dtype), m.gates[0]);
	m.stage_input[0] = w.hr;
	if (!cg_present(op->u))
		m.saved[1] = w.u;
	CG_TRY(multiply_gates(stream, op, op->h_prev, op->w_ru, op->b_ru, 2 * op->U, w.gates));
	CG_TRY(launch(stream, kernel, FORWARD_1, &m));
	CG_TRY(multiply_gates(stream, op, w.hr, op->w_c, op->b_c, op->U, w.candidate));
	return launch(stream, kernel, FORWARD_2, &m);
}

/* Computes c = start + d W^T, where d [B wide] are gradients of gate pre-activations, and W has the rows of w that multiply x or the
 * recurrent value: adds to the gradient of x or of the recurrent value the part that passes through these gates. */
static int multiply_back(struct cg_stream *stream, const struct cg_gru_block *op, struct cg_mem d, struct cg_mem w, int64_t wide,
                         int which, struct cg_matrix start, struct cg_matrix c)
{
	struct cg_gemm product = { .dtype = op->dtype, .m = op->B, .n = which ? op->U : op->I, .k = wide, .transpose_b = 1,
	                           .a = { d, wide, 0 }, .b = side(op, w, wide, which), .start = start, .c = c };

	return cg_multiply(stream, &product);
}

/* Computes [x v]^T d, the gradient of a weight matrix, where v is the recurrent value, and writes it to `grad`, or adds it if the op
 * accumulates. */
static int multiply_weights(struct cg_stream *stream, const struct cg_gru_block *op, struct cg_mem v, struct cg_mem d, int64_t wide,
                            struct cg_mem grad)
{
	for (int which = 0; which < 2 && cg_present(grad); which++) {
		int64_t width = which ? op->U : op->I;
		struct cg_gemm product = { .dtype = op->dtype, .m = width, .n = wide, .k = op->B, .transpose_a = 1,
		                           .a = { which ? v : op->x, width, 0 }, .b = { d, wide, 0 },
		                           .c = side(op, grad, wide, which) };

		if (op->accumulate)
			product.start = product.c;
		CG_TRY(cg_multiply(stream, &product));
	}
	return CG_OK;
}

/* Computes the gradients of h_prev and x, each only if it is requested.  The gradient of h_prev is w->dh, which the kernel of stage 1
 * writes, plus a product through the gates r and u. */
static int compute_input_gradients(struct cg_stream *stream, const struct cg_gru_block *op, struct cg_mem dru, struct cg_mem dc,
                                   const struct grad_work *w)
{
	const struct cg_matrix direct = { w->dh, op->U, 1 }, d_h_prev = { op->d_h_prev, op->U, 0 };
	const struct cg_matrix part = { w->dx, op->I, 1 }, d_x = { op->d_x, op->I, 0 };

	if (cg_present(op->d_h_prev))
		CG_TRY(multiply_back(stream, op, dru, op->w_ru, 2 * op->U, 1, direct, d_h_prev));
	if (!cg_present(op->d_x))
		return CG_OK;
	CG_TRY(multiply_back(stream, op, dc, op->w_c, op->U, 0, none, part));
	return multiply_back(stream, op, dru, op->w_ru, 2 * op->U, 0, part, d_x);
}

/* Computes the gradient of a stage's biases, which is a sum over the rows of the batch, if it is requested. */
static int launch_sums(struct cg_stream *stream, const struct cg_kernel_entry *kernel, int part, struct cg_mem bias,
                       const struct kernel_memory *m)
{
	if (!cg_present(bias))
		return CG_OK;
	CG_TRY(launch(stream, kernel, part, m));
	return launch(stream, kernel, part + 1, m);
}

static int run_grad(struct cg_stream *stream, const void *given, struct cg_work *work)
{
	const struct cg_gru_block *op = given;
	size_t real = cg_dtype_bytes(op->dtype);
	struct kernel_memory m = { .op = op, .saved = { op->r, op->u, op->c }, .prev = { op->h_prev } };
	struct cg_mem dc, dru;
	const struct cg_kernel_entry *kernel;
	struct grad_work w;
	int gates_further = cg_present(op->d_x) || cg_present(op->d_h_prev) || cg_present(op->d_r_bar_u_bar) ||
	                    cg_present(op->d_w_ru) || cg_present(op->d_b_ru);

	CG_TRY(cg_open_kernel(stream->context, "gru_block", "", CG_GRAD, 0, op->dtype, &kernel));
	carve_grad(op, work, &w);
	dc  = cg_present(op->d_c_bar) ? op->d_c_bar : w.dc;
	dru = cg_present(op->d_r_bar_u_bar) ? op->d_r_bar_u_bar : w.dru;
	set_gates(op, gates_further ? dru : none.mem, dc, real, m.gates[1]);
	set_gates(op, op->d_b_ru, op->d_b_c, real, m.bias);
	m.partial = w.partial;
	CG_TRY(launch(stream, kernel, GRAD_2, &m));
	CG_TRY(launch_sums(stream, kernel, SUM_PART_2, op->d_b_c, &m));
	if (!gates_further && !cg_present(op->d_w_c))
		return CG_OK;
	m.stage_input[0] = w.hr;
	if (gates_further) {
		CG_TRY(multiply_back(stream, op, dc, op->w_c, op->U, 1, none, (struct cg_matrix){ w.dhr, op->U, 1 }));
		m.stage_input[1] = w.dhr;
		m.prev[1] = w.dh;
	}
	CG_TRY(launch(stream, kernel, GRAD_1, &m));
	CG_TRY(multiply_weights(stream, op, w.hr, dc, op->U, op->d_w_c));
	CG_TRY(multiply_weights(stream, op, op->h_prev, dru, 2 * op->U, op->d_w_ru));
	CG_TRY(launch_sums(stream, kernel, SUM_PART_1, op->d_b_ru, &m));
	return compute_input_gradients(stream, op, dru, dc, &w);
}

int cg_gru_block_forward(struct cg_stream *stream, const struct cg_gru_block *op)
{
	struct cg_gru_block whole;

	return cg_op_run(stream, &cg_gru_block_cell_ops[0], cg_sized_complete(&sized, op, &whole), run_forward);
}

int cg_gru_block_grad(struct cg_stream *stream, const struct cg_gru_block *op)
{
	struct cg_gru_block whole;

	return cg_op_run(stream, &cg_gru_block_cell_ops[1], cg_sized_complete(&sized, op, &whole), run_grad);
}

/* ---- GRUBlockCell, GRUBlockCellGrad ---- */

#define GRU(field) offsetof(struct cg_gru_block, field)

static const struct cg_dim gru_dims[] = {
	{ "B", GRU(B), .least = 0, .about = ABOUT_B },
	{ "I", GRU(I), .least = 1, .about = ABOUT_I },
	{ "U", GRU(U), .least = 1, .about = ABOUT_U },
	{ .symbol = NULL }
};

static const struct cg_attribute gru_attributes[] = {
	{ .name = NULL }
};

static const struct cg_port gru_ports[] = {
	{ "x",      "B I",     CG_IN,  NULL, 0, .at = GRU(x)      },
	{ "h_prev", "B U",     CG_IN,  NULL, 0, .at = GRU(h_prev) },
	{ "w_ru",   "I+U 2*U", CG_IN,  NULL, 0, .at = GRU(w_ru), .about = ABOUT_W },
	{ "w_c",    "I+U U",   CG_IN,  NULL, 0, .at = GRU(w_c), .about = ABOUT_W_C },
	{ "b_ru",   "2*U",     CG_IN,  NULL, 0, .at = GRU(b_ru)   },
	{ "b_c",    "U",       CG_IN,  NULL, 0, .at = GRU(b_c)    },
	{ "r",      "B U",     CG_OUT, NULL, 0, .at = GRU(r)      },
	{ "u",      "B U",     CG_OUT, NULL, 0, .at = GRU(u)      },
	{ "c",      "B U",     CG_OUT, NULL, 0, .at = GRU(c)      },
	{ "h",      "B U",     CG_OUT, NULL, 0, .at = GRU(h)      },
	{ .name = NULL }
};

/* The outputs that depend on d_r_bar, the gradient of gate r's pre-activation.  All outputs that depend on d_r_bar need w_c and r, since
 * d_r_bar passes through w_c and is multiplied by r (1 - r).  d_w_c needs r for h_prev r. */
#define READS_D_R_BAR "d_x d_h_prev d_r_bar_u_bar d_w_ru d_b_ru"

static const struct cg_port gru_grad_ports[] = {
	{ "x",             "B I",     CG_IN,      "d_w_ru d_w_c",          0, .at = GRU(x)             },
	{ "h_prev",        "B U",     CG_IN,      NULL,                    0, .at = GRU(h_prev)        },
	{ "w_ru",          "I+U 2*U", CG_IN,      "d_x d_h_prev",          0, .at = GRU(w_ru), .about = ABOUT_W },
	{ "w_c",           "I+U U",   CG_IN,      READS_D_R_BAR,           0, .at = GRU(w_c), .about = ABOUT_W_C },
	{ "b_ru",          "2*U",     CG_IN,      "",                      0, .at = GRU(b_ru), .flags = CG_SHAPE_ALONE },
	{ "b_c",           "U",       CG_IN,      "",                      0, .at = GRU(b_c),  .flags = CG_SHAPE_ALONE },
	{ "r",             "B U",     CG_IN,      READS_D_R_BAR " d_w_c",  0, .at = GRU(r)             },
	{ "u",             "B U",     CG_IN,      NULL,                    0, .at = GRU(u)             },
	{ "c",             "B U",     CG_IN,      NULL,                    0, .at = GRU(c)             },
	{ "d_h",           "B U",     CG_IN,      "",                      0, .at = GRU(d_h)           },
	{ "d_x",           "B I",     CG_OUT,     NULL,                    0, .at = GRU(d_x)           },
	{ "d_h_prev",      "B U",     CG_OUT,     NULL,                    0, .at = GRU(d_h_prev)      },
	{ "d_c_bar",       "B U",     CG_OUT,     NULL,                    0, .at = GRU(d_c_bar), .about = ABOUT_GATES },
	{ "d_r_bar_u_bar", "B 2*U",   CG_OUT,     NULL,                    0, .at = GRU(d_r_bar_u_bar), .about = ABOUT_GATES },
	{ "d_w_ru",        "I+U 2*U", CG_OUT_SUM, NULL,                    1, .at = GRU(d_w_ru)        },
	{ "d_w_c",         "I+U U",   CG_OUT_SUM, NULL,                    1, .at = GRU(d_w_c)         },
	{ "d_b_ru",        "2*U",     CG_OUT_SUM, NULL,                    1, .at = GRU(d_b_ru)        },
	{ "d_b_c",         "U",       CG_OUT_SUM, NULL,                    1, .at = GRU(d_b_c)         },
	{ .name = NULL }
};

static void gru_init(void *op, size_t size)
{
	cg_gru_block_init(op, size);
}

static int gru_work(const void *op, size_t *bytes)
{
	return cg_gru_block_work(op, CG_FORWARD, bytes);
}

static int gru_grad_work(const void *op, size_t *bytes)
{
	return cg_gru_block_work(op, CG_GRAD, bytes);
}

static int gru(struct cg_stream *stream, const void *op)
{
	return cg_gru_block_forward(stream, op);
}

static int gru_grad(struct cg_stream *stream, const void *op)
{
	return cg_gru_block_grad(stream, op);
}

#define GRU_MEANS   ONE_LAYER " cell=gru_block weights_format=block"
#define GRU_STRUCT CG_READ_ONCE, \
	.type = "cg_gru_block", .size = sizeof(struct cg_gru_block), .init = gru_init, .dims = gru_dims, .gates = "r u", .means = GRU_MEANS, \
	.dtype_at = GRU(dtype), .accumulate_at = GRU(accumulate), .work_at = GRU(work)

const struct cg_op cg_gru_block_cell_ops[] = {
	{ .name = "gru_block_cell",       .tensorflow = "GRUBlockCell",      GRU_STRUCT,
	  .attributes = gru_attributes, .ports = gru_ports, .work = gru_work, .call = gru },
	{ .name = "gru_block_cell_grad",  .tensorflow = "GRUBlockCellGrad",  GRU_STRUCT,
	  .attributes = gru_attributes, .ports = gru_grad_ports, .work = gru_grad_work, .call = gru_grad },
	{ .name = NULL }
};
