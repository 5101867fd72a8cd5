/* cg_gemm_f32_nn_128x192: a matrix product in language opencl, made by cg_print_gemm */

/* Every operation must round once, to its own type. */
#pragma OPENCL FP_CONTRACT OFF

typedef float real;		/* the type in memory */
typedef float acc;		/* the type of arithmetic */
typedef uint word;		/* an unsigned integer with the bits of an acc */

enum {
	ROWS = 128, COLUMNS = 192,		/* rows and columns of c in a work-item's tile */
	DEPTH = 128,				/* steps of k in a panel */
	ITEM_ROWS = 8, ITEM_COLUMNS = 48,	/* rows and columns of sums in registers */
	VECTOR = 16,
	PACK_ROWS = ITEM_ROWS < VECTOR ? ITEM_ROWS : VECTOR	/* rows of a that are packed at once */
};

typedef float8 acc8;

static inline acc8 load8(__global const real *at)
{
	return vload8(0, at);
}

/* Packs a panel of 8 elements that are a stride apart, by transposing squares: each round interleaves the halves
   of pairs of vectors, and log2(8) rounds bring each element to its place. */
static inline void turn8(int depth, __global const real *from, long stride, __local acc *to, int pitch)
{
	int p = 0;

	for (; p + 8 <= depth; p += 8) {
		acc8 t[8], u[8];

		#pragma unroll
		for (int l = 0; l < 8; l++)
			t[l] = load8(from + l * stride + p);
		#pragma unroll
		for (int round = 1; round < 8; round *= 2) {
			#pragma unroll
			for (int l = 0; l < 8 / 2; l++) {
				u[2 * l] = (acc8)(t[l].lo, t[l + 8 / 2].lo).s04152637;
				u[2 * l + 1] = (acc8)(t[l].hi, t[l + 8 / 2].hi).s04152637;
			}
			#pragma unroll
			for (int l = 0; l < 8; l++)
				t[l] = u[l];
		}
		#pragma unroll
		for (int l = 0; l < 8; l++)
			vstore8(t[l], 0, to + (p + l) * pitch);
	}
	for (; p < depth; p++)
		for (int l = 0; l < 8; l++)
			to[p * pitch + l] = from[l * stride + p];
}

typedef float16 acc16;

static inline acc16 load16(__global const real *at)
{
	return vload16(0, at);
}

/* Packs a panel: `depth` times 16 elements that are side by side in memory, each time a stride further. */
static inline void copy16(int depth, __global const real *from, long stride, __local acc *to, int pitch)
{
	for (int p = 0; p < depth; p++)
		vstore16(load16(from + p * stride), 0, to + p * pitch);
}

/* Packs a panel of which only `there` of the `width` elements exist; zeros stand for the others, whose sums are not
   stored. */
static inline void pack_edge(int depth, int width, int there, __global const real *from, long across, long along,
	__local acc *to, int pitch)
{
	for (int p = 0; p < depth; p++)
		for (int l = 0; l < width; l++)
			to[p * pitch + l] = l < there ? from[l * across + p * along] : 0;
}

/* Packs [rows, depth] of a in panels [DEPTH, ITEM_ROWS]. */
static inline void pack_a(int rows, int depth, __global const real *a, long stride, __local acc *to)
{
	for (int i = 0; i < (rows + ITEM_ROWS - 1) / ITEM_ROWS * ITEM_ROWS; i += PACK_ROWS) {
		__global const real *from = a + i * stride;
		__local acc *panel = to + i / ITEM_ROWS * ITEM_ROWS * DEPTH + i % ITEM_ROWS;

		if (rows - i < PACK_ROWS)
			pack_edge(depth, PACK_ROWS, rows - i, from, stride, 1, panel, ITEM_ROWS);
		else
			turn8(depth, from, stride, panel, ITEM_ROWS);
	}
}

/* Packs [depth, columns] of b in panels [DEPTH, ITEM_COLUMNS]. */
static inline void pack_b(int depth, int columns, __global const real *b, long stride, __local acc *to)
{
	for (int j = 0; j < (columns + ITEM_COLUMNS - 1) / ITEM_COLUMNS * ITEM_COLUMNS; j += VECTOR) {
		__global const real *from = b + j;
		__local acc *panel = to + j / ITEM_COLUMNS * ITEM_COLUMNS * DEPTH + j % ITEM_COLUMNS;

		if (columns - j < VECTOR)
			pack_edge(depth, VECTOR, columns - j, from, 1, stride, panel, ITEM_COLUMNS);
		else
			copy16(depth, from, stride, panel, ITEM_COLUMNS);
	}
}

static inline acc16 muladds(acc16 a, acc16 b, acc16 c)
{
	return fma(a, b, c);
}

/* Adds a panel of a times a panel of b to a block of sums. */
static inline void add_products(int depth, __local const acc *a, __local const acc *b, __local acc *sums)
{
	acc16 s[ITEM_ROWS][ITEM_COLUMNS / VECTOR];

	#pragma unroll
	for (int i = 0; i < ITEM_ROWS; i++)
		#pragma unroll
		for (int j = 0; j < ITEM_COLUMNS / VECTOR; j++)
			s[i][j] = vload16(j, sums + i * COLUMNS);
	for (int p = 0; p < depth; p++, a += ITEM_ROWS, b += ITEM_COLUMNS)
		#pragma unroll
		for (int i = 0; i < ITEM_ROWS; i++)
			#pragma unroll
			for (int j = 0; j < ITEM_COLUMNS / VECTOR; j++)
				s[i][j] = muladds(a[i], vload16(j, b), s[i][j]);
	#pragma unroll
	for (int i = 0; i < ITEM_ROWS; i++)
		#pragma unroll
		for (int j = 0; j < ITEM_COLUMNS / VECTOR; j++)
			vstore16(s[i][j], j, sums + i * COLUMNS);
}

/*
 * cg_gemm_f32_nn_128x192: c [m, n] = start + a [m, k] b [k, n].
 * The products are added to start in acc, one after the other in the order of k, and the sum is rounded once.
 * Strides are in elements, from row to row.  With k = 0, a and b may be null.
 *
 *	a            in  real    [m, k]
 *	b            in  real    [k, n]
 *	start        in  real    [m, n]          null: zeros; with a stride of 0 every row is the first; may be c itself
 *	c            out real    [m, n]
 */
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void cg_gemm_f32_nn_128x192(
	long m, long n, long k,
	__global const real *a_at, ulong a_offset, long a_stride,
	__global const real *b_at, ulong b_offset, long b_stride,
	__global const real *start_at, ulong start_offset, long start_stride,
	__global real *c_at, ulong c_offset, long c_stride)
{
	__local acc a_panels[ROWS * DEPTH] __attribute__((aligned(64)));
	__local acc b_panels[COLUMNS * DEPTH] __attribute__((aligned(64)));
	__local acc sums[ROWS * COLUMNS] __attribute__((aligned(64)));
	const long row = get_group_id(1) * (long)ROWS;
	const long column = get_group_id(0) * (long)COLUMNS;
	const int rows = m - row < ROWS ? (int)(m - row) : ROWS;
	const int columns = n - column < COLUMNS ? (int)(n - column) : COLUMNS;

	for (int i = 0; i < (rows + ITEM_ROWS - 1) / ITEM_ROWS * ITEM_ROWS; i++) {
		const int there = start_at && i < rows ? columns : 0;
		const ulong from = start_offset + (row + i) * start_stride + column;

		for (int j = 0; j < there; j++)
			sums[i * COLUMNS + j] = start_at[from + j];
		for (int j = there; j < COLUMNS; j++)
			sums[i * COLUMNS + j] = 0;
	}
	for (long first = 0; first < k; first += DEPTH) {
		const int depth = k - first < DEPTH ? (int)(k - first) : DEPTH;

		pack_a(rows, depth, a_at + a_offset + row * a_stride + first, a_stride, a_panels);
		pack_b(depth, columns, b_at + b_offset + first * b_stride + column, b_stride, b_panels);
		for (int j = 0; j < columns; j += ITEM_COLUMNS)
			for (int i = 0; i < rows; i += ITEM_ROWS)
				add_products(depth, a_panels + i * DEPTH, b_panels + j * DEPTH, sums + i * COLUMNS + j);
	}
	for (int i = 0; i < rows; i++) {
		const ulong to = c_offset + (row + i) * c_stride + column;

		for (int j = 0; j < columns; j++)
			c_at[to + j] = sums[i * COLUMNS + j];
	}
}
