/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes all steps of a recurrence on the cpu.  The work of a recurrence is divided into shares, which threads compute.  A share is some
 * rows of the batch if the recurrent matrices are small, or the share has rows enough for their size, there are several threads and
 * phases, and there are several rows, or several recurrences that run together.  One thread computes a share of rows in all phases and
 * waits for no other thread.  Otherwise a share is some units of all rows: in each phase a thread multiplies by the share's columns of the
 * matrix and computes the cell on the share's units, right after their product; one barrier ends a phase.  Means over units need all units
 * of a row: of the phases that compute them, a share has some rows.  An element's sum is one chain of additions in the order of k, so
 * neither the threads nor other rows change the sum's bits.
 */
#include <stdio.h>
#include <string.h>

#include "backends/cpu/cpu.h"

/* If a product's operand a must be copied, or the product's sums must be rounded, the product is computed for at most ROWS_AT_ONCE rows at
 * a time. */
enum { ROWS_AT_ONCE = 64 };

/* SHARES_MAX: the most shares, of units or of batch rows, into which a recurrence is divided.  SHARE: the number of multiply-adds in the
 * product of a phase that pay for one more share of units.  WHOLE_SHARE: the number of multiply-adds in a whole recurrence that pay for one
 * more share of rows.  ELEMENT: the number of multiply-adds that take as long as the cell's work on one element.  SMALL: the bytes of
 * matrices that a thread keeps in its own cache.  ROW_PAYS: the bytes of larger matrices that a thread may read in each step for each row
 * of its share: reading them from a cache that threads share then takes less time than the products. */
enum { SHARES_MAX = 64, ELEMENT = 16, SHARE = 1 << 14, WHOLE_SHARE = 1 << 18, SMALL = 1 << 19, ROW_PAYS = 1 << 18, LINE = 64 };
_Static_assert((int)LINE <= (int)CG_PACKED_ALIGN, "a scan skips at most CG_PACKED_ALIGN bytes to align its workspace to a cache line");

static char *at(struct cg_matrix x, int64_t row, int64_t column, size_t bytes)
{
	return (char *)x.mem.data + x.mem.offset + (size_t)(row * x.stride + column) * bytes;
}

static int64_t round_up(int64_t n, int64_t to)
{
	return (n + to - 1) / to * to;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---- tiles ---- */

/* How the columns of a product are cut into tiles.  If a unit has several columns of the product, one for each gate, a tile has a vector of
 * units for each gate.  If a unit has one column, a tile has one or more vectors of units side by side. */
struct cut {
	const struct cg_tiles *tiles;
	int gates, vectors;
	int64_t units;                           /* the number of units of a tile */
	size_t bytes;                            /* bytes of a tile */
};

static struct cut cut_product(const struct cg_dev *d, const struct cg_gemm *g, int64_t units)
{
	struct cut c = { .tiles = d->isa->tiles[g->dtype], .gates = (int)(g->n / units) };

	c.vectors = c.gates;
	/* If a unit has one column, a tile has fewer vectors than the registers hold if otherwise some threads would get no tile. */
	if (c.gates == 1)
		for (c.vectors = CG_TILE_VECTORS; c.vectors > 1 && units < (int64_t)c.vectors * c.tiles->lanes * d->threads; )
			c.vectors /= 2;
	c.units = c.gates == 1 ? c.vectors * c.tiles->lanes : c.tiles->lanes;
	c.bytes = (size_t)(round_up(g->k, c.tiles->steps) * c.vectors * c.tiles->lanes) * c.tiles->bytes;
	return c;
}

/* The tile whose first unit is u; no unit of the tile is at `end` or beyond. */
static struct cg_tile tile_at(const struct cut *c, int64_t units, int64_t u, int64_t end, char *memory)
{
	struct cg_tile tile = { .stored = c->vectors, .width = end - u, .data = memory + (size_t)(u / c->units) * c->bytes };
	int64_t beside = (end - u + c->tiles->lanes - 1) / c->tiles->lanes;

	if (c->gates == 1) {
		tile.vectors = beside < c->vectors ? (int)beside : c->vectors;
		tile.apart = tile.step = c->tiles->lanes;
	} else {
		tile.vectors = c->gates;
		tile.apart = units;
	}
	return tile;
}

/* ---- memory: matrices as tiles in the workspace, what each thread needs in the scratch memory ---- */

struct layout {
	size_t matrix[CG_STAGES_MAX], bytes;     /* matrix: the offset of each packed matrix in the workspace; bytes: the size of all of them */
	/* the bytes of the parts of the scratch memory of one share of units or, if shares are rows, of one thread: the interpreter's
	 * registers; a copy of the operand a; sums to be rounded later */
	size_t registers, operand, sums;
};

/* Must a product's operand a be copied, to widen it to the type acc or to add zeros up to a whole number of steps? */
static int is_copied(const struct cg_gemm *g, const struct cg_tiles *tiles)
{
	return cg_dtype_bytes(g->dtype) != tiles->bytes || g->k % tiles->steps;
}

/* The number of elements from one row of the copy of a product's operand a to the next. */
static int64_t operand_stride(const struct cg_gemm *g, const struct cg_tiles *tiles)
{
	return round_up(g->k, tiles->steps);
}

static size_t larger(size_t bytes, int64_t elements, size_t each)
{
	size_t all = (size_t)round_up(elements * (int64_t)each, LINE);

	return all > bytes ? all : bytes;
}

static void lay_out(const struct cg_dev *d, const struct cg_scan *scan, struct layout *l)
{
	*l = (struct layout){ .registers = larger(0, scan->module ? (int64_t)scan->module->strip_bytes : 0, 1) };
	for (int k = 0; k < scan->n_products; k++) {
		const struct cg_gemm *g = &scan->products[k];
		struct cut c = cut_product(d, g, scan->units);
		int64_t rows = least(g->m, ROWS_AT_ONCE);

		l->matrix[k] = l->bytes;
		l->bytes += (size_t)(round_up(scan->units, c.units) / c.units) * c.bytes;
		if (is_copied(g, c.tiles))
			l->operand = larger(l->operand, rows * operand_stride(g, c.tiles), c.tiles->bytes);
		if (!cg_is_plain(g->dtype) && c.gates == 1)
			l->sums = larger(l->sums, rows * scan->units, cg_acc_bytes(g->dtype));
	}
}

static int64_t most_shares(const struct cg_dev *d)
{
	return d->threads < SHARES_MAX ? d->threads : SHARES_MAX;
}

size_t cg_cpu_scan_work(const struct cg_dev *d, const struct cg_scan *scan, char why[CG_WHY_NOT])
{
	struct layout l;

	for (int k = 0; k < scan->n_products; k++) {
		const struct cg_gemm *g = &scan->products[k];
		size_t bytes;

		/* Refuses a product in which units have different numbers of columns, and sizes for which lay_out() would overflow. */
		if (!scan->units || (g->n && g->k && (g->n < scan->units || g->n % scan->units))) {
			snprintf(why, CG_WHY_NOT, "a product has %lld columns, no multiple of %lld units", (long long)g->n, (long long)scan->units);
			return 0;
		}
		if (__builtin_mul_overflow(g->n + CG_TILE_VECTORS * LINE, (g->k + g->m) * LINE, &bytes) ||
		    __builtin_mul_overflow(g->m + LINE, (g->k + g->n) * LINE * SHARES_MAX, &bytes)) {
			snprintf(why, CG_WHY_NOT, "a product has sizes beyond the address space");
			return 0;
		}
	}
	lay_out(d, scan, &l);
	return l.bytes + LINE;
}

/* ---- packing ---- */

struct packing {
	const struct cg_dev *device;
	const struct cg_gemm *g;
	int64_t units;
	struct cut cut;
	char *memory;
};

/* Packs a tile of an f16 or bf16 matrix: widens it to f32, DEEP steps of k at a time. */
static void pack_narrow(const struct packing *p, struct cg_tile tile, int64_t column)
{
	enum { DEEP = 16, WIDEST = LINE / sizeof(float) };
	const struct cg_gemm *g = p->g;
	const int64_t lanes = p->cut.tiles->lanes, row = tile.stored * lanes, apart = tile.apart;
	const size_t real = cg_dtype_bytes(g->dtype);
	float part[CG_GATES_MAX * WIDEST * DEEP];

	tile.apart = lanes;
	for (int64_t from = 0, k; from < g->k; from += k) {
		k = least(DEEP, g->k - from);
		for (int v = 0; v < tile.stored; v++) {
			int64_t first = column + v * apart, width = least(lanes, tile.width - v * tile.step);

			for (int64_t r = 0; r < width && g->transpose_b; r++)
				p->device->isa->widen[g->dtype](k, at(g->b, first + r, from, real), part + (v * lanes + r) * k);
			for (int64_t r = 0; r < k && width > 0 && !g->transpose_b; r++)
				p->device->isa->widen[g->dtype](width, at(g->b, from + r, first, real), part + r * row + v * lanes);
		}
		p->cut.tiles->pack(&tile, g->transpose_b, k, part, g->transpose_b ? k : row);
		tile.data = (float *)tile.data + k * row;
	}
}

static void pack_tile(void *context, int64_t t, int thread)
{
	const struct packing *p = context;
	const struct cg_gemm *g = p->g;
	const int64_t column = t * p->cut.units;
	struct cg_tile tile = tile_at(&p->cut, p->units, column, p->units, p->memory);

	(void)thread;
	if (cg_dtype_bytes(g->dtype) == p->cut.tiles->bytes)
		p->cut.tiles->pack(&tile, g->transpose_b, g->k,
		                   at(g->b, g->transpose_b ? column : 0, g->transpose_b ? 0 : column, p->cut.tiles->bytes), g->b.stride);
	else
		pack_narrow(p, tile, column);
}

static void pack(struct cg_queue *queue, const struct cg_gemm *g, int64_t units, char *memory)
{
	struct packing p = { queue->device, g, units, cut_product(queue->device, g, units), memory };

	if (g->k && g->n)
		cg_team_run(queue->team, round_up(units, p.cut.units) / p.cut.units, pack_tile, &p);
}

/* ---- a phase ---- */

struct sharing {
	const struct cg_dev *device;
	const struct cg_scan *scan;
	struct layout layout;
	char *work, *scratch;
	/* rows: the number of rows of a share, which then has all units; 0: each share has `units` units of all rows */
	int64_t shares, units, rows;
};

/* What a share computes in a phase: some rows, of which the phase may have only the first ones, and some units. */
struct range { int64_t row, rows_end, unit, units_end; };

/* Writes the values from which a product's sums start (field start) to some columns of the sums; writes zeros if start is absent. */
static void begin(const struct cg_isa *isa, const struct cg_gemm *g, int64_t row, int64_t rows_end, int64_t column, int64_t columns, char *to,
                  size_t stride)
{
	const size_t acc = cg_acc_bytes(g->dtype), bytes = (size_t)columns * acc;
	const int is_widened = !g->start.acc && !cg_is_plain(g->dtype);
	const char *from;

	for (int64_t i = row; i < rows_end; i++, to += stride) {
		if (!g->start.mem.data) {
			memset(to, 0, bytes);
			continue;
		}
		from = at(g->start, i, column, is_widened ? cg_dtype_bytes(g->dtype) : acc);
		if (is_widened)
			isa->widen[g->dtype](columns, from, to);
		else if (from != to)
			memcpy(to, from, bytes);
	}
}

/* Copies some rows of a product's operand a in the form that the multiplication by tiles reads. */
static void copy_operand(const struct cg_dev *d, const struct cg_gemm *g, const struct cg_tiles *tiles, int64_t row, int64_t rows, char *to)
{
	const size_t real = cg_dtype_bytes(g->dtype), whole = (size_t)operand_stride(g, tiles) * tiles->bytes, bytes = (size_t)g->k * real;

	for (int64_t i = 0; i < rows; i++, to += whole) {
		const char *from = at(g->a, row + i, 0, real);

		if (real != tiles->bytes) {
			d->isa->widen[g->dtype](g->k, from, to);
			continue;
		}
		memcpy(to, from, bytes);
		memset(to + bytes, 0, whole - bytes);
	}
}

/* Multiplies some rows of a product, tile by tile.  backwards 1: goes through the tiles from the last to the first, as in every other step,
 * since the tiles that were read last are still in a cache that is too small for all tiles.  scratch: the scratch memory of the share or,
 * if shares are rows, of the thread. */
static void multiply_rows(const struct sharing *s, const struct cg_gemm *g, int stage, const struct range *r, int backwards, char *scratch)
{
	const struct cg_isa *isa = s->device->isa;
	const size_t real = cg_dtype_bytes(g->dtype), acc = cg_acc_bytes(g->dtype);
	const int is_rounded = !g->c.acc && !cg_is_plain(g->dtype);
	struct cut cut = cut_product(s->device, g, s->scan->units);
	int64_t rows = r->rows_end - r->row, units = r->units_end - r->unit, tiles = (units + cut.units - 1) / cut.units;
	int64_t lda = g->a.stride, ldc = is_rounded ? units : g->c.stride;
	char *c = is_rounded ? scratch + s->layout.registers + s->layout.operand : at(g->c, r->row, r->unit, acc), *a;

	for (int64_t gate = 0; gate < cut.gates; gate++)
		begin(isa, g, r->row, r->row + rows, gate * s->scan->units + r->unit, units, c + (size_t)(gate * s->scan->units) * acc,
		      (size_t)ldc * acc);
	a = g->k ? at(g->a, r->row, 0, real) : NULL;
	if (g->k && is_copied(g, cut.tiles)) {
		a = scratch + s->layout.registers;
		lda = operand_stride(g, cut.tiles);
		copy_operand(s->device, g, cut.tiles, r->row, rows, a);
	}
	if (cut.tiles->enter && g->k)
		cut.tiles->enter(rows);
	for (int64_t t = 0; t < tiles && g->k; t++) {
		int64_t u = (backwards ? tiles - 1 - t : t) * cut.units;
		struct cg_tile tile = tile_at(&cut, s->scan->units, r->unit + u, r->units_end, s->work + s->layout.matrix[stage]);

		cut.tiles->multiply(&tile, rows, g->k, a, lda, c + (size_t)u * acc, ldc);
	}
	if (cut.tiles->leave && g->k)
		cut.tiles->leave();
	for (int64_t i = 0; i < rows && is_rounded; i++)
		isa->narrow[g->dtype](units, c + (size_t)(i * ldc) * acc, at(g->c, r->row + i, r->unit, real));
}

static void multiply(const struct sharing *s, const struct cg_gemm *g, int stage, const struct range *r, int backwards, char *scratch)
{
	const int64_t end = least(r->rows_end, g->m), most = s->layout.operand || s->layout.sums ? ROWS_AT_ONCE : end;
	struct range part = *r;

	for (part.row = r->row; part.row < end; part.row = part.rows_end) {
		part.rows_end = least(part.row + most, end);
		multiply_rows(s, g, stage, &part, backwards, scratch);
	}
}

/* Adds the matrix `addend` of a phase to the matrix `sum`, on the rows and units of a share. */
static void add(const struct sharing *s, const struct cg_phase *phase, const struct range *r)
{
	const int dtype = s->scan->module->plan->dtype;
	const struct cg_rows_shape shape = { .dtype = dtype };
	struct cg_rows_bound bound = { .src_stride = phase->addend.stride, .dst_stride = phase->sum.stride, .columns = r->units_end - r->unit,
	                               .add = 1 };

	bound.src = at(phase->addend, 0, r->unit, cg_dtype_bytes(dtype));
	bound.dst = at(phase->sum, 0, r->unit, cg_dtype_bytes(dtype));
	s->device->isa->rows[dtype][cg_rows_index(&shape)](r->row, least(r->rows_end, phase->rows), &bound);
}

static void compute(const struct sharing *s, const struct cg_phase *phase, const struct range *r, char *registers)
{
	const struct cg_module *module = s->scan->module;
	const struct cg_function *function = &module->plan->functions[phase->function];
	int64_t rows = least(r->rows_end, phase->rows) - r->row, units = r->units_end - r->unit;
	struct cg_bound bound[CG_SLOTS_MAX];

	if (rows <= 0)
		return;
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_operand *o = &phase->operands[k];

		bound[k] = (struct cg_bound){ o->mem.data ? (char *)o->mem.data + o->mem.offset : NULL, o->stride, o->value };
		bound[k] = cg_cpu_bind_part(module->plan, function, k, bound[k], s->scan->units, r->row, r->unit);
	}
	if (module->call[phase->function])
		module->call[phase->function](rows, units, bound);
	else
		s->device->isa->strip[module->plan->dtype](module->plan, function, rows, units, bound, registers);
}

/* The range of a share in a phase that computes means: all units of some rows. */
static struct range range_of_means(const struct sharing *s, int64_t rows, int64_t share)
{
	const int64_t each = (rows + s->shares - 1) / s->shares;

	return (struct range){ share * each, (share + 1) * each, 0, s->scan->units };
}

/* Runs a share of a phase.  place: the number of the share, or of the thread, whose scratch memory is used. */
static void run_phase(const struct sharing *s, int64_t k, int64_t share, const struct range *r, int place)
{
	const struct cg_function *functions = s->scan->module->plan->functions;
	char *scratch = s->scratch + (size_t)place * (s->layout.registers + s->layout.operand + s->layout.sums);
	struct cg_phase phase;
	int stage = 0;

	k += s->scan->first;
	s->scan->describe(s->scan->recurrence, k, &phase, &stage);
	if (phase.product.m)
		multiply(s, &phase.product, stage, r, phase.step % 2 == 1, scratch);
	if (phase.addend.mem.data)
		add(s, &phase, r);
	if (phase.function < 0)
		return;
	if (!s->rows && functions[phase.function].shape == CG_FUNCTION_MEAN) {
		const struct range means = range_of_means(s, phase.rows, share);

		compute(s, &phase, &means, scratch);
		return;
	}
	compute(s, &phase, r, scratch);
}

/* ---- recurrences at once ---- */

/* Recurrences of equal sizes.  The shares of all recurrences of the group, of rows or of units, are numbered one after the other. */
struct group { const struct sharing *each; int n; };

/* Finds the recurrence that a share of the group belongs to; *share becomes the share's number within that recurrence. */
static const struct sharing *find_recurrence(const struct group *g, int64_t *share)
{
	const struct sharing *s = g->each;

	for (; *share >= s->shares; s++)
		*share -= s->shares;
	return s;
}

/* Runs a share of units in one phase. */
static void run_units(void *context, int64_t k, int place, int thread)
{
	int64_t share = place;
	const struct sharing *s = find_recurrence(context, &share);
	const struct range r = { 0, INT64_MAX, share * s->units, least((share + 1) * s->units, s->scan->units) };
	struct cg_float_state state;

	(void)thread;
	if (k >= s->scan->phases)
		return;
	state = cg_float_enter(s->scan->module->plan->dtype);
	run_phase(s, k, share, &r, place);
	cg_float_leave(state);
}

/* Runs a share of rows of a recurrence in all phases of the recurrence. */
static void run_rows(void *context, int64_t share, int thread)
{
	const struct sharing *s = find_recurrence(context, &share);
	const struct range r = { share * s->rows, (share + 1) * s->rows, 0, s->scan->units };
	struct cg_float_state state = cg_float_enter(s->scan->module->plan->dtype);

	for (int64_t k = 0; k < s->scan->phases; k++)
		run_phase(s, k, share, &r, thread);
	cg_float_leave(state);
}

/* The number of units of a share, of which the last share may have fewer.  A share's number of units is a multiple of the units of every
 * product's tile, and so large that there are no more shares than there is work for. */
static int64_t share_units(const struct cg_dev *d, const struct cg_scan *scan)
{
	int64_t whole = 1, shares = most_shares(d);

	for (int k = 0; k < scan->n_products; k++) {
		const struct cg_gemm *g = &scan->products[k];
		double steps = (double)g->m * (double)g->n * (double)g->k / SHARE + 1;
		int64_t tile = cut_product(d, g, scan->units).units;

		shares = steps < (double)shares ? (int64_t)steps : shares;
		whole = tile > whole ? tile : whole;
	}
	return round_up((scan->units + shares - 1) / shares, whole);
}

/* The number of rows of a share if a recurrence is cut into at most `shares` shares of rows. */
static int64_t share_rows(const struct cg_scan *scan, int64_t shares)
{
	int64_t rows = scan->n_products ? scan->products[0].m : 0;
	double steps = 1;

	for (int k = 0; k < scan->n_products; k++) {
		double terms = (double)scan->products[k].n * (double)scan->products[k].k;

		/* If a recurrence has no recurrent product, its work is the computation of the cell's elements alone. */
		terms = terms > 0 ? terms : (double)(ELEMENT * scan->units);
		steps += (double)scan->phases / scan->n_products * (double)rows * terms / WHOLE_SHARE;
	}
	shares = steps < (double)shares ? (int64_t)steps : shares;
	return (rows + shares - 1) / shares;
}

static int64_t count_rows(const struct cg_scan *scan, int64_t phase)
{
	struct cg_phase p;
	int stage;

	scan->describe(scan->recurrence, scan->first + phase, &p, &stage);
	return p.rows;
}

/* The most shares into which the rows of a recurrence are cut: one for each thread, or up to four for each thread if the first step and the
 * last have different numbers of rows, but at most SHARES_MAX in all.  The last phase may have no launch and so no number of rows; the
 * first phase and the last but one have a launch. */
static int64_t most_row_shares(const struct cg_dev *d, const struct cg_scan *scan)
{
	int64_t most = most_shares(d);

	return count_rows(scan, 0) == count_rows(scan, scan->phases - 2) ? most : least(4 * most, SHARES_MAX);
}

/* Does a share have `each` rows of the batch rather than some units?  If several recurrences run together, each may have a single row; a
 * recurrence that runs alone with one row has shares of units. */
static int takes_rows(const struct cg_scan *scan, size_t matrices, int64_t each, int n)
{
	int64_t rows = scan->n_products ? scan->products[0].m : 0;

	return rows >= (n > 1 ? 1 : 2) && (matrices <= SMALL || (matrices - 1) / ROW_PAYS < (size_t)each);
}

int cg_cpu_scans_at_once(const struct cg_dev *d, const struct cg_scan *scan, int lag)
{
	int64_t rows = scan->n_products ? scan->products[0].m : 0, all = scan->units, each = share_units(d, scan), of_rows;
	struct layout l;

	/* With lag 1 each recurrence runs one span of steps behind the recurrence before it.  A product then has the rows of one span, not
	 * of all steps, and a BLAS may add the terms of a sum in another order.  So with lag 1 and a BLAS only one recurrence runs at a
	 * time. */
	if (lag && cg_cpu_has_product(d->blas, scan->products[0].dtype))
		return 1;
	lay_out(d, scan, &l);
	of_rows = share_rows(scan, most_shares(d));
	if (most_shares(d) > 1 && takes_rows(scan, l.bytes, of_rows, CG_SCANS_MAX)) {
		all = rows;
		each = of_rows;
	}
	return (int)least(most_shares(d) / ((all + each - 1) / each), CG_SCANS_MAX);
}

/* Sets the shares of a recurrence that runs together with n - 1 others. */
static void share_out(struct sharing *s, int n)
{
	const struct cg_scan *scan = s->scan;
	int64_t rows = scan->n_products ? scan->products[0].m : 0, each;

	s->units = share_units(s->device, scan);
	s->rows = 0;
	if (scan->phases >= 2 && most_shares(s->device) > 1) {
		each = share_rows(scan, most_row_shares(s->device, scan));
		s->rows = takes_rows(scan, s->layout.bytes, each, n) ? each : 0;
	}
	s->shares = s->rows ? (rows + s->rows - 1) / s->rows : (scan->units + s->units - 1) / s->units;
}

/* Runs recurrences that all have shares of rows or all have shares of units. */
static void run_group(struct cg_queue *queue, const struct sharing *each, int n)
{
	struct group group = { each, n };
	struct cg_team_count counts[SHARES_MAX + 1];
	int64_t shares = 0, phases = 0;

	for (int k = 0; k < n; k++) {
		shares += each[k].shares;
		phases = each[k].scan->phases > phases ? each[k].scan->phases : phases;
	}
	if (each->rows)
		cg_team_run(queue->team, shares, run_rows, &group);
	else
		cg_team_run_phases(queue->team, (int)shares, phases, counts, run_units, &group);
}

/* The number of recurrences that run together: the first of `each` and those after it, while all have shares of rows, or all have shares of
 * units and there is a thread for each share. */
static int count_beside(const struct cg_dev *d, const struct sharing *each, int n)
{
	int64_t shares = each->shares;
	int k = 1;

	for (; k < n && !each[k].rows == !each->rows; k++) {
		shares += each[k].shares;
		if (!each->rows && shares > most_shares(d))
			break;
	}
	return k;
}

static int begin_scan(struct cg_queue *queue, const struct cg_scan *scan, int n, struct sharing *s)
{
	size_t scratch;

	*s = (struct sharing){ .device = queue->device, .scan = scan };
	lay_out(s->device, scan, &s->layout);
	s->work = (char *)scan->work.data + scan->work.offset;
	s->work += (LINE - (uintptr_t)s->work % LINE) % LINE;
	scratch = s->layout.registers + s->layout.operand + s->layout.sums;
	if (scratch) {
		s->scratch = cg_cpu_scratch(queue, scratch * (size_t)s->device->threads);
		if (!s->scratch)
			return CG_NO_MEMORY;
	}
	for (int k = 0; k < scan->n_products && !scan->is_packed; k++)
		pack(queue, &scan->products[k], scan->units, s->work + s->layout.matrix[k]);
	share_out(s, n);
	return CG_OK;
}

int cg_cpu_scan(struct cg_queue *queue, const struct cg_scan *scans, int n)
{
	struct sharing each[CG_SCANS_MAX];

	for (int k = 0; k < n; k++)
		CG_TRY(begin_scan(queue, &scans[k], n, &each[k]));
	for (int k = 0, beside; k < n; k += beside) {
		beside = count_beside(queue->device, &each[k], n - k);
		run_group(queue, &each[k], beside);
	}
	return CG_OK;
}
