/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes big products on the cpu by the library's own panels.  The threads together pack a part of the operand b; then each thread
 * computes blocks of the result c, and packs the rows of the operand a for them.  If c is one block high, each thread packs a panel of b
 * just before it multiplies by that panel.  Each sum is one chain in the order of k, so that neither blocks nor threads change a bit.
 * f16, and bf16 where no instruction multiplies it, are widened as they are packed; both are summed in f32 and, unless c is in acc, rounded
 * once.
 */
#include <string.h>

#include "backends/cpu/cpu.h"

/* SLAB: the most bytes of the packed operand b, and of sums that are rounded after all blocks.  BLOCK_SUMS: the most bytes of sums that are
 * rounded at the end of their block; so many fit in the second-level cache of a processor with AMX. */
enum { SLAB = 8 << 20, BLOCK_SUMS = 3 << 19, LINE = 64 };
/* The number of blocks that each thread should have: LOW_BLOCKS if each thread packs all of the operand a, else BLOCKS.  LEAST_ROWS: blocks
 * that are made lower so that there are enough of them have about this many rows or more.  STEPS: the number of multiply-adds that pay for
 * one more block, and of elements that pay for more than one thread where they are packed or converted. */
enum { LOW_BLOCKS = 2, BLOCKS = 4, LEAST_ROWS = 24, STEPS = 1 << 16 };

struct blocked {
	const struct cg_dev *device;
	const struct cg_gemm *g;
	const struct cg_panels *panels;
	size_t real, acc;                        /* bytes of an element of the dtype, and of acc */
	cg_widen *widen;                         /* the conversion from the dtype to acc; NULL if both are the same type */
	/* the first of the rows of c that are computed now, and their number; if sums are rounded after all blocks, at most so many rows that
	 * their sums fit in SLAB bytes */
	int64_t row, rows;
	int64_t column, columns;                 /* the first of the columns of b that are packed now, and their number */
	/* from, steps: the part of k that is multiplied now; depth: the steps of a block, a multiple of those that the panels multiply at
	 * once */
	int64_t from, steps, depth;
	int64_t stored;                          /* the number of steps in a panel, including those of zeros at its end */
	int64_t down, across;                    /* the number of blocks of c below each other, and side by side */
	/* sums: those of the current rows and columns of c; start: the values, in acc, from which they start.  If sums are rounded at the end
	 * of a block, they are in block_sums, and starting values in the dtype are converted there, unless they are one repeated row. */
	struct cg_matrix sums, start;
	int is_low;                              /* 1: one block has all current rows of c; each thread packs b panel by panel */
	char *b, *a;                             /* the packed operands; a: one packed block for each thread */
	char *block_sums;                        /* the sums of one block for each thread */
	size_t a_bytes, b_bytes, sums_bytes;     /* bytes for each thread: of packed a; of packed b, 0 unless is_low; of a block's sums, or 0 */
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t divide_up(int64_t n, int64_t by)
{
	return (n + by - 1) / by;
}

static int64_t round_up(int64_t n, int64_t to)
{
	return divide_up(n, to) * to;
}

static char *at(struct cg_matrix x, int64_t row, int64_t column, size_t bytes)
{
	return (char *)x.mem.data + x.mem.offset + (size_t)(row * x.stride + column) * bytes;
}

/* ---- packing ---- */

/* Packs a panel of `width` rows of a, or columns of b, from number `place` on, for the steps of k from step `from` on.  across: the
 * number of rows or columns of a whole panel.  by_rows 1: these rows or columns are rows of memory. */
static void pack(const struct blocked *p, cg_pack_panel *pack, int64_t across, struct cg_matrix x, int by_rows, int64_t place, int64_t width,
                 int64_t from, int64_t steps, char *panel)
{
	enum { DEEP = 64, WIDEST = 64 };
	float part[DEEP * WIDEST];

	if (p->real == p->panels->bytes) {
		pack(by_rows, steps, width, at(x, by_rows ? place : from, by_rows ? from : place, p->real), x.stride, panel);
		return;
	}
	for (int64_t k = 0; k < steps; k += DEEP) {
		int64_t deep = least(DEEP, steps - k), rows = by_rows ? width : deep, columns = by_rows ? deep : width;

		for (int64_t r = 0; r < rows; r++)
			p->widen(columns, at(x, (by_rows ? place : from + k) + r, by_rows ? from + k : place, p->real), part + r * columns);
		pack(by_rows, deep, width, part, columns, panel + (size_t)(k * across) * p->acc);
	}
}

/* Packs a panel of the operand b, from a column on, for some of the steps of k that are multiplied now. */
static void pack_panel(const struct blocked *p, int64_t column, int64_t k, int64_t steps, char *panel)
{
	int64_t across = p->panels->columns;

	pack(p, p->panels->pack_b, across, p->g->b, p->g->transpose_b, p->column + column, least(across, p->columns - column), p->from + k, steps,
	     panel);
}

/* Packs a panel of the operand b for all steps of k that are multiplied now: one block of `depth` steps after the other. */
static void pack_b(void *context, int64_t t, int thread)
{
	const struct blocked *p = context;
	int64_t across = p->panels->columns, column = t * across;

	(void)thread;
	for (int64_t k = 0; k < p->steps; k += p->depth)
		pack_panel(p, column, k, least(p->depth, p->steps - k), p->b + (size_t)(column * p->stored + k * across) * p->panels->bytes);
}

/* ---- blocks ---- */

/* The first element of share k, if n elements in panels of `panel` elements are divided into `shares` shares. */
static int64_t share_start(int64_t n, int64_t panel, int64_t k, int64_t shares)
{
	return least(n, divide_up(n, panel) * k / shares * panel);
}

/* A block of c: its place, its sums, and the values from which the sums start. */
struct block { int64_t row, rows, column, columns; struct cg_matrix sums, start; };

/* The part of a matrix from a row and a column on.  A part of an absent matrix is absent. */
static struct cg_matrix from(struct cg_matrix x, int64_t row, int64_t column, size_t bytes)
{
	if (x.mem.data)
		x.mem.offset += (size_t)(row * x.stride + column) * bytes;
	return x;
}

/* Finds the sums of a block and the values from which they start.  thread: the thread that computes the block. */
static void find_sums(const struct blocked *p, int thread, struct block *c)
{
	const struct cg_matrix *start = &p->g->start;

	c->sums = from(p->sums, c->row, c->column, p->acc);
	c->start = from(p->start, c->row, c->column, p->acc);
	if (!p->sums_bytes)
		return;
	c->sums = (struct cg_matrix){ .mem = { .data = p->block_sums + (size_t)thread * p->sums_bytes }, .stride = c->columns };
	if (!start->mem.data || start->acc || !start->stride)
		return;
	for (int64_t i = 0; i < c->rows; i++) {
		const char *of_row = at(*start, p->row + c->row + i, p->column + c->column, p->real);

		p->widen(c->columns, of_row, at(c->sums, i, 0, p->acc));
	}
	c->start = c->sums;
}

/* Adds the products of some steps of k to some columns of a block: to the sums that they hold or, in the first steps, to the values from
 * which the product's sums start.  column: the first of the columns, counted from that of the block. */
static void add_steps(const struct blocked *p, const struct block *c, int64_t column, int64_t columns, int64_t k, int64_t steps, const char *a,
                      const char *b, int64_t b_apart)
{
	const struct cg_matrix start = p->from || k ? c->sums : c->start;

	p->panels->multiply(c->rows, columns, steps, a, b, b_apart, start.mem.data ? at(start, 0, column, p->acc) : NULL, start.stride,
	                    at(c->sums, 0, column, p->acc), c->sums.stride);
}

static void multiply_block(void *context, int64_t t, int thread)
{
	const struct blocked *p = context;
	int64_t high = p->panels->rows, wide = p->panels->columns;
	struct block c = { .row = share_start(p->rows, high, t / p->across, p->down),
	                   .column = share_start(p->columns, wide, t % p->across, p->across) };
	char *a = p->a + (size_t)thread * p->a_bytes, *b = p->b + (size_t)thread * p->b_bytes;
	struct cg_float_state state = cg_float_enter(p->g->dtype);

	c.rows = share_start(p->rows, high, t / p->across + 1, p->down) - c.row;
	c.columns = share_start(p->columns, wide, t % p->across + 1, p->across) - c.column;
	find_sums(p, thread, &c);
	for (int64_t k = 0; k < p->steps; k += p->depth) {
		int64_t steps = least(p->depth, p->steps - k), stored = round_up(steps, p->panels->steps);

		for (int64_t i = 0; i < c.rows; i += high)
			pack(p, p->panels->pack_a, high, p->g->a, !p->g->transpose_a, p->row + c.row + i, least(high, c.rows - i), p->from + k, steps,
			     a + (size_t)(i * stored) * p->panels->bytes);
		for (int64_t j = 0; j < c.columns && p->is_low; j += wide) {
			pack_panel(p, c.column + j, k, steps, b);
			add_steps(p, &c, j, least(wide, c.columns - j), k, steps, a, b, 0);
		}
		if (!p->is_low)
			add_steps(p, &c, 0, c.columns, k, steps, a, p->b + (size_t)(c.column * p->stored + k * wide) * p->panels->bytes,
			          p->stored * wide);
	}
	for (int64_t i = 0; i < c.rows && p->sums_bytes; i++) {
		char *result = at(p->g->c, p->row + c.row + i, p->column + c.column, p->real);

		p->device->isa->narrow[p->g->dtype](c.columns, at(c.sums, i, 0, p->acc), result);
	}
	cg_float_leave(state);
}

static void round_row(void *context, int64_t row, int thread)
{
	const struct blocked *p = context;
	struct cg_float_state state = cg_float_enter(p->g->dtype);

	(void)thread;
	p->device->isa->narrow[p->g->dtype](p->columns, at(p->sums, row, 0, p->acc), at(p->g->c, p->row + row, p->column, p->real));
	cg_float_leave(state);
}

/* Converts one row of the values from which the product's sums start to acc, and writes it to the row of sums. */
static void begin_row(void *context, int64_t row, int thread)
{
	const struct blocked *p = context;

	(void)thread;
	p->widen(p->columns, at(p->g->start, p->row + row, p->column, p->real), at(p->sums, row, 0, p->acc));
}

/* ---- cuts ---- */

/* Cuts c into blocks that the threads can share evenly: first lower blocks, then narrower ones. */
static void cut_blocks(struct blocked *p, int threads)
{
	int64_t high = p->panels->rows, rows = divide_up(p->rows, high), columns = divide_up(p->columns, p->panels->columns);
	double paid = (double)p->rows * (double)p->columns * (double)p->steps / STEPS;
	int64_t wanted = threads > 1 ? (int64_t)threads * (p->is_low ? LOW_BLOCKS : BLOCKS) : 1;

	if (paid < (double)wanted)
		wanted = paid < 1 ? 1 : (int64_t)paid;
	p->down = p->is_low ? 1 : least(wanted, divide_up(rows * high, LEAST_ROWS));
	if (p->down * p->panels->height < rows * high)
		p->down = round_up(divide_up(rows * high, p->panels->height), threads);
	p->across = least(divide_up(wanted, p->down), columns);
}

/* The offset of each part of the scratch memory, and the size of the scratch memory in bytes. */
struct scratch { size_t b, a, sums, block_sums, start, bytes; };

static size_t carve(struct scratch *s, size_t bytes)
{
	size_t from = s->bytes;

	s->bytes += (bytes + LINE - 1) / LINE * LINE;
	return from;
}

static int is_rounded(const struct cg_gemm *g)
{
	return !cg_is_plain(g->dtype) && !g->c.acc;
}

/* Sets the sizes of the parts of a product that are computed one after the other, and lays out the scratch memory. */
static struct scratch lay_out(struct blocked *p, int threads)
{
	const struct cg_gemm *g = p->g;
	int64_t depth = p->panels->depth, wide = p->panels->columns, at_line = LINE / (int64_t)p->acc;
	struct scratch s = { .bytes = 0 };

	p->depth = round_up(divide_up(g->k, divide_up(g->k, depth)), p->panels->steps < at_line ? at_line : p->panels->steps);
	p->columns = least(round_up(g->n, wide), SLAB / (depth * (int64_t)p->panels->bytes) / wide * wide);
	p->steps = SLAB / (p->columns * (int64_t)p->acc) / p->depth * p->depth;
	p->steps = least(g->k, p->steps < p->depth ? p->depth : p->steps);
	p->stored = round_up(p->steps, p->panels->steps);
	p->sums_bytes = (size_t)round_up((p->panels->height + p->panels->rows) * p->columns * (int64_t)p->acc, LINE);
	if (!is_rounded(g) || p->steps < g->k || p->sums_bytes > BLOCK_SUMS)
		p->sums_bytes = 0;
	p->rows = is_rounded(g) && !p->sums_bytes ? least(g->m, SLAB / (p->columns * (int64_t)p->acc)) : g->m;
	p->is_low = p->rows <= p->panels->height;
	p->a_bytes = (size_t)((p->panels->height + p->panels->rows) * p->depth) * p->panels->bytes;
	p->b_bytes = p->is_low ? (size_t)round_up(wide * p->depth * (int64_t)p->panels->bytes, LINE) : 0;
	s.b = carve(&s, p->is_low ? p->b_bytes * (size_t)threads : (size_t)(p->columns * p->stored) * p->panels->bytes);
	s.a = carve(&s, p->a_bytes * (size_t)threads);
	s.sums = carve(&s, is_rounded(g) && !p->sums_bytes ? (size_t)(p->rows * p->columns) * p->acc : 0);
	s.block_sums = carve(&s, p->sums_bytes * (size_t)threads);
	s.start = carve(&s, p->widen && !g->start.acc ? (size_t)p->columns * p->acc : 0);
	return s;
}

/* The team of threads for a pass over rows x columns elements; NULL, which stands for one thread, if there are few elements. */
static struct cg_team *team_for(struct cg_queue *queue, int64_t rows, int64_t columns)
{
	return rows * columns < STEPS ? NULL : queue->team;
}

/* Sets where the sums of a part of c are, and from which values these sums start. */
static void set_sums(struct blocked *p, struct cg_queue *queue, char *sums, char *start)
{
	const struct cg_gemm *g = p->g;

	p->sums = from(g->c, p->row, p->column, p->acc);
	if (is_rounded(g))
		p->sums = (struct cg_matrix){ .mem = { .data = sums }, .stride = p->columns };
	p->start = from(g->start, p->row, p->column, p->acc);
	if (!p->widen || g->start.acc || !g->start.mem.data)
		return;
	if (g->start.stride && p->sums_bytes) {
		p->start = (struct cg_matrix){ .stride = 0 };
		return;
	}
	if (g->start.stride) {
		cg_team_run(team_for(queue, p->rows, p->columns), p->rows, begin_row, p);
		p->start = p->sums;
		return;
	}
	p->start = (struct cg_matrix){ .mem = { .data = start } };
	p->widen(p->columns, at(g->start, 0, p->column, p->real), start);
}

/* Computes a part of c: the sums and, unless multiply_block() rounds them, the rounded sums. */
static void multiply_part(struct blocked *p, struct cg_queue *queue, int64_t steps)
{
	const struct cg_gemm *g = p->g;

	for (p->from = 0; p->from < g->k; p->from += steps) {
		p->steps = least(steps, g->k - p->from);
		p->stored = round_up(p->steps, p->panels->steps);
		if (!p->is_low)
			cg_team_run(team_for(queue, p->steps, p->columns), divide_up(p->columns, p->panels->columns), pack_b, p);
		cut_blocks(p, cg_team_threads(queue->team));
		cg_team_run(queue->team, p->down * p->across, multiply_block, p);
	}
	if (is_rounded(g) && !p->sums_bytes)
		cg_team_run(team_for(queue, p->rows, p->columns), p->rows, round_row, p);
}

int cg_cpu_blocked_gemm(struct cg_queue *queue, const struct cg_gemm *g)
{
	const struct cg_isa *isa = queue->device->isa;
	struct blocked p = { .device = queue->device, .g = g, .panels = isa->panels[g->dtype],
	                     .real = cg_dtype_bytes(g->dtype), .acc = cg_acc_bytes(g->dtype),
	                     .widen = cg_is_plain(g->dtype) ? NULL : isa->widen[g->dtype] };
	struct scratch s = lay_out(&p, cg_team_threads(queue->team));
	char *scratch = cg_cpu_scratch(queue, s.bytes);
	int64_t rows = p.rows, columns = p.columns, steps = p.steps;

	if (!scratch)
		return CG_NO_MEMORY;
	p.b = scratch + s.b;
	p.a = scratch + s.a;
	p.block_sums = scratch + s.block_sums;
	for (p.row = 0; p.row < g->m; p.row += rows)
		for (p.column = 0; p.column < g->n; p.column += columns) {
			p.rows = least(rows, g->m - p.row);
			p.columns = least(columns, g->n - p.column);
			set_sums(&p, queue, scratch + s.sums, scratch + s.start);
			multiply_part(&p, queue, steps);
		}
	return CG_OK;
}
