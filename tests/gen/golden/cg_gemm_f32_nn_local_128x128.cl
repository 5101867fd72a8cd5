/* cg_gemm_f32_nn_local_128x128: a matrix product in language opencl, made by cg_print_gemm */

/* Every operation must round once, to its own type. */
#pragma OPENCL FP_CONTRACT OFF

typedef float real;		/* the type in memory */
typedef float acc;		/* the type of arithmetic */
typedef uint word;		/* an unsigned integer with the bits of an acc */

static inline acc muladd(acc a, acc b, acc c)
{
	return fma(a, b, c);
}

enum {
	ROWS = 128, COLUMNS = 128,		/* rows and columns of c in a group's tile */
	DEPTH = 16,				/* steps of k in the tiles of a and b */
	ITEM_ROWS = 8, ITEM_COLUMNS = 8,	/* rows and columns of the sums of a work-item */
	RUN = 4,					/* columns of a work-item that are side by side */
	ROW_RUN = ITEM_ROWS < RUN ? ITEM_ROWS : RUN,
	ACROSS = COLUMNS / ITEM_COLUMNS, DOWN = ROWS / ITEM_ROWS,	/* work-items of a group */
	ITEMS = ACROSS * DOWN,
	A_PITCH = ROWS + 4, B_PITCH = COLUMNS + 4	/* rows are padded, so that fewer accesses collide in a bank */
};

/* row_of(): the distance of the i-th row of a work-item's sums from the first row; column_of(): that of the j-th column
   from the first column. */
static inline int row_of(int i)
{
	return i / ROW_RUN * (DOWN * ROW_RUN) + i % ROW_RUN;
}

static inline int column_of(int j)
{
	return j / RUN * (ACROSS * RUN) + j % RUN;
}

/*
 * cg_gemm_f32_nn_local_128x128: c [m, n] = start + a [m, k] b [k, n].
 * The products are added to start in acc, one after the other in the order of k, and the sum is rounded once.
 * Strides are in elements, from row to row.  With k = 0, a and b may be null.
 *
 *	a            in  real    [m, k]
 *	b            in  real    [k, n]
 *	start        in  real    [m, n]          null: zeros; with a stride of 0 every row is the first; may be c itself
 *	c            out real    [m, n]
 */
__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void cg_gemm_f32_nn_local_128x128(
	long m, long n, long k,
	__global const real *a_at, ulong a_offset, long a_stride,
	__global const real *b_at, ulong b_offset, long b_stride,
	__global const real *start_at, ulong start_offset, long start_stride,
	__global real *c_at, ulong c_offset, long c_stride)
{
	__local acc __attribute__((aligned(16))) a_tile[DEPTH * A_PITCH];
	__local acc __attribute__((aligned(16))) b_tile[DEPTH * B_PITCH];
	const unsigned item = (unsigned)get_local_id(0);
	const int y = item / ACROSS * ROW_RUN, x = item % ACROSS * RUN;
	const long column = get_group_id(0) * (long)COLUMNS;

	for (long row = get_group_id(1) * (long)ROWS; row < m; row += get_num_groups(1) * (long)ROWS) {
		acc sum[ITEM_ROWS][ITEM_COLUMNS];

		#pragma unroll
		for (int i = 0; i < ITEM_ROWS; i++) {
			const long r = row + y + row_of(i);

			#pragma unroll
			for (int j = 0; j < ITEM_COLUMNS; j++) {
				const long q = column + x + column_of(j);
				const int there = start_at && r < m && q < n;

				sum[i][j] = there ? start_at[start_offset + r * start_stride + q] : 0;
			}
		}
		for (long first = 0; first < k; first += DEPTH) {
			const int depth = k - first < DEPTH ? (int)(k - first) : DEPTH;

			for (unsigned e = item; e < ROWS * DEPTH; e += ITEMS) {
				const int p = e % DEPTH, i = e / DEPTH;
				const long at = (row + i) * a_stride + first + p;

				if (p < depth)
					a_tile[p * A_PITCH + i] = row + i < m ? a_at[a_offset + at] : 0;
			}
			for (unsigned e = item; e < COLUMNS * DEPTH; e += ITEMS) {
				const int p = e / COLUMNS, j = e % COLUMNS;
				const long at = (first + p) * b_stride + column + j;

				if (p < depth)
					b_tile[p * B_PITCH + j] = column + j < n ? b_at[b_offset + at] : 0;
			}
			barrier(CLK_LOCAL_MEM_FENCE);
			for (int p = 0; p < depth; p++)
				#pragma unroll
				for (int i = 0; i < ITEM_ROWS; i++)
					#pragma unroll
					for (int j = 0; j < ITEM_COLUMNS; j++)
						sum[i][j] = muladd(a_tile[p * A_PITCH + y + row_of(i)],
							b_tile[p * B_PITCH + x + column_of(j)], sum[i][j]);
			barrier(CLK_LOCAL_MEM_FENCE);
		}
		#pragma unroll
		for (int i = 0; i < ITEM_ROWS; i++) {
			const long r = row + y + row_of(i);

			#pragma unroll
			for (int j = 0; j < ITEM_COLUMNS; j++) {
				const long q = column + x + column_of(j);

				if (r < m && q < n)
					c_at[c_offset + r * c_stride + q] = sum[i][j];
			}
		}
	}
}
