/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes panels of big products of bf16 by AMX, as panels.c does by vector instructions.  A panel of the operand a has ROWS rows for 32
 * steps of k, and behind them the same rows for the next 32 steps; a panel of the operand b has two steps of a column side by side.  Four
 * registers keep the sums while k runs, so each sum is one chain in the order of k, 32 steps at a time, wherever its element stands.
 */
#include <string.h>

#include "backends/cpu/isa.h"

enum { VECTOR_BYTES = 64 };
#include "backends/cpu/items_bf16.h"

/* A register has 16 rows of 64 bytes: a row is 16 columns of sums, 32 steps of a row of a, or one item, two steps, of each of 16 columns of
 * b.  A panel of the operand a is two registers high, and a panel of the operand b is two registers wide.  A panel of b for DEPTH steps
 * fits in the first-level cache, a block of a, HEIGHT rows for DEPTH steps, in the second-level cache. */
enum { HIGH = 16, ROWS = 2 * HIGH, COLUMNS = 2 * LANES_bf16, STEPS = STEPS_bf16 * AT_ONCE_bf16, DEPTH = 512, HEIGHT = 256 };

/* Packs rows of the operand a that are rows of memory: 32 steps of each row side by side. */
static void pack_rows(int64_t k, int64_t width, const uint16_t *from, int64_t ld, uint16_t *panel)
{
	for (int64_t p = 0; p < k; p += STEPS, panel += ROWS * STEPS) {
		const int64_t deep = k - p < STEPS ? k - p : STEPS;

		for (int64_t i = 0; i < width && deep == STEPS; i++)
			memcpy(panel + i * STEPS, from + i * ld + p, STEPS * sizeof *panel);
		for (int64_t i = 0; i < width && deep < STEPS; i++) {
			memcpy(panel + i * STEPS, from + i * ld + p, (size_t)deep * sizeof *panel);
			memset(panel + i * STEPS + deep, 0, (size_t)(STEPS - deep) * sizeof *panel);
		}
		memset(panel + width * STEPS, 0, (size_t)((ROWS - width) * STEPS) * sizeof *panel);
	}
}

/* Packs rows of the operand a that are columns of memory: transposes items of two steps of a row, for 32 steps at a time. */
static void pack_columns(int64_t k, int64_t width, const uint16_t *from, int64_t ld, uint16_t *panel)
{
	for (int64_t p = 0; p < k; p += STEPS)
		for (int i = 0; i < ROWS; i += LANES_bf16, panel += LANES_bf16 * STEPS) {
			item_vector_bf16 r[LANES_bf16];

			for (int s = 0; s < LANES_bf16; s++) {
				const int64_t step = p + s * STEPS_bf16;
				item_bf16 items[LANES_bf16] = { 0 };

				if (step < k)
					pack_item_bf16(LANES_bf16, k - step < STEPS_bf16 ? k - step : STEPS_bf16, width - i, from + step * ld + i, ld, items);
				memcpy(&r[s], items, sizeof r[s]);
			}
			transpose_bf16(r);
			memcpy(panel, r, sizeof r);
		}
}

static void pack_a(int by_rows, int64_t k, int64_t width, const void *from, int64_t ld, void *panel)
{
	if (by_rows)
		pack_rows(k, width, from, ld, panel);
	else
		pack_columns(k, width, from, ld, panel);
}

static void pack_b(int by_rows, int64_t k, int64_t width, const void *from, int64_t ld, void *panel)
{
	const int64_t filled = (k + STEPS_bf16 - 1) / STEPS_bf16, items = count_items_bf16(k);
	const uint16_t *b = from;
	item_bf16 *to = panel;

	for (int64_t p = 0; p < filled && !by_rows; p++) {
		const int64_t step = p * STEPS_bf16;

		pack_item_bf16(COLUMNS, k - step < STEPS_bf16 ? k - step : STEPS_bf16, width, b + step * ld, ld, to + p * COLUMNS);
	}
	for (int j = 0; j < COLUMNS && by_rows; j += LANES_bf16)
		pack_rows_bf16(LANES_bf16, k, width - j, b + j * ld, ld, to + j, COLUMNS);
	memset(to + filled * COLUMNS, 0, (size_t)((items - filled) * COLUMNS) * sizeof *to);
}

static void set_registers(void)
{
	/* The operand of ldtilecfg: the palette, the first row, and for eight registers the bytes of a row and the number of rows. */
	static const struct { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } sizes = {
		.palette = 1, .bytes = { 64, 64, 64, 64, 64, 64, 64, 64 }, .rows = { HIGH, HIGH, HIGH, HIGH, HIGH, HIGH, HIGH, HIGH }
	};

	__asm__ volatile("ldtilecfg %0" : : "m"(sizes));
}

/* Computes c = start + a b for one panel of a and one panel of b, each `items` pairs of steps long.  Registers 0 to 3 hold sums, registers
 * 4 and 5 rows of a, registers 6 and 7 columns of b.  The panel of b stays in the first-level cache for all panels of a, which stream past
 * it.  For each 32 steps of k the function prefetches two rows of the sums of the panel below. */
static void multiply_panels(int64_t items, const uint16_t *a, const item_bf16 *b, const float *start, int64_t start_stride, float *c, int64_t ldc)
{
	const int64_t row = ldc * (int64_t)sizeof *c, start_row = start_stride * (int64_t)sizeof *start;
	const float *below = c + ROWS * ldc;

	/* Keeps the compiler from moving earlier stores to memory behind the loads of the registers. */
	__asm__ volatile("" : : : "memory");
	if (start) {
		_tile_loadd(0, start, start_row);
		_tile_loadd(1, start + LANES_bf16, start_row);
		_tile_loadd(2, start + HIGH * start_stride, start_row);
		_tile_loadd(3, start + HIGH * start_stride + LANES_bf16, start_row);
	} else {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
	}
	for (int64_t p = 0; p < items; p += AT_ONCE_bf16, a += ROWS * STEPS, b += AT_ONCE_bf16 * COLUMNS, below += 2 * ldc) {
		__builtin_prefetch(below, 1, 3);
		__builtin_prefetch(below + LANES_bf16, 1, 3);
		__builtin_prefetch(below + ldc, 1, 3);
		__builtin_prefetch(below + ldc + LANES_bf16, 1, 3);
		_tile_stream_loadd(4, a, STEPS * (int64_t)sizeof *a);
		_tile_loadd(6, b, COLUMNS * (int64_t)sizeof *b);
		_tile_dpbf16ps(0, 4, 6);
		_tile_loadd(7, b + LANES_bf16, COLUMNS * (int64_t)sizeof *b);
		_tile_dpbf16ps(1, 4, 7);
		_tile_stream_loadd(5, a + HIGH * STEPS, STEPS * (int64_t)sizeof *a);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
	}
	_tile_stored(0, c, row);
	_tile_stored(1, c + LANES_bf16, row);
	_tile_stored(2, c + HIGH * ldc, row);
	_tile_stored(3, c + HIGH * ldc + LANES_bf16, row);
}

/* Computes c = start + a b at an edge of c, in a buffer of ROWS rows and COLUMNS columns, from which the elements within c are copied. */
static void multiply_edge(int64_t m, int64_t n, int64_t items, const uint16_t *a, const item_bf16 *b, const float *start, int64_t start_stride,
                          float *c, int64_t ldc)
{
	float copy[ROWS * COLUMNS];

	memset(copy, 0, sizeof copy);
	for (int64_t i = 0; i < m && start; i++)
		memcpy(copy + i * COLUMNS, start + i * start_stride, (size_t)n * sizeof *copy);
	multiply_panels(items, a, b, start ? copy : NULL, COLUMNS, copy, COLUMNS);
	for (int64_t i = 0; i < m; i++)
		memcpy(c + i * ldc, copy + i * COLUMNS, (size_t)n * sizeof *copy);
}

static void multiply(int64_t m, int64_t n, int64_t k, const void *a_panels, const void *b_panels, int64_t b_apart, const void *start,
                     int64_t start_stride, void *c, int64_t ldc)
{
	const int64_t items = count_items_bf16(k);
	const item_bf16 *b = b_panels;

	set_registers();
	for (int64_t j = 0; j < n; j += COLUMNS, b += b_apart / STEPS_bf16) {
		const uint16_t *a = a_panels;

		for (int64_t i = 0; i < m; i += ROWS, a += ROWS * STEPS_bf16 * items) {
			const float *from = start ? (const float *)start + i * start_stride + j : NULL;
			float *to = (float *)c + i * ldc + j;

			if (m - i >= ROWS && n - j >= COLUMNS)
				multiply_panels(items, a, b, from, start_stride, to, ldc);
			else
				multiply_edge(m - i < ROWS ? m - i : ROWS, n - j < COLUMNS ? n - j : COLUMNS, items, a, b, from, start_stride, to, ldc);
		}
	}
	_tile_release();
}

const struct cg_panels cg_panels_bf16_amxbf16 = {
	.rows = ROWS, .columns = COLUMNS, .steps = STEPS, .depth = DEPTH, .height = HEIGHT, .bytes = sizeof(uint16_t), .pack_a = pack_a,
	.pack_b = pack_b, .multiply = multiply,
};
