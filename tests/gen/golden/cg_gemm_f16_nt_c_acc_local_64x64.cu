/* cg_gemm_f16_nt_c_acc_local_64x64: a matrix product in language cuda, made by cg_print_gemm */

typedef unsigned short real;		/* the type in memory: a half's bits */
typedef float acc;			/* the type of arithmetic */
typedef unsigned int word;		/* an unsigned integer with the bits of an acc */

static __device__ __forceinline__ word bits_of(acc x)
{
	return __float_as_uint(x);
}

static __device__ __forceinline__ acc from_bits(word bits)
{
	return __uint_as_float(bits);
}

/* A half has a sign, 5 bits of exponent and 10 of fraction. Subnormal halves are multiples of 2^-24, as are floats
   in [1/2, 1): to_acc() converts a subnormal half by an exact subtraction from such a float, and to_real() by an
   addition that rounds; so neither needs a subnormal float, which a device might flush. */
static __device__ __forceinline__ acc to_acc(real h)
{
	word sign = ((word)h & 0x8000u) << 16;
	word a = (word)h & 0x7fffu;
	word wide = (a << 13) + (a < 0x7c00u ? 0x38000000u : 0x70000000u);
	word tiny = bits_of(from_bits(a + 0x3f000000u) - 0.5f);

	return from_bits((a < 0x400u ? tiny : wide) | sign);
}

static __device__ __forceinline__ acc muladd(acc a, acc b, acc c)
{
	return __fmaf_rn(a, b, c);
}

enum {
	ROWS = 64, COLUMNS = 64,		/* rows and columns of c in a group's tile */
	DEPTH = 16,				/* steps of k in the tiles of a and b */
	ITEM_ROWS = 4, ITEM_COLUMNS = 4,	/* rows and columns of the sums of a work-item */
	RUN = 4,					/* columns of a work-item that are side by side */
	ROW_RUN = ITEM_ROWS < RUN ? ITEM_ROWS : RUN,
	ACROSS = COLUMNS / ITEM_COLUMNS, DOWN = ROWS / ITEM_ROWS,	/* work-items of a group */
	ITEMS = ACROSS * DOWN,
	A_PITCH = ROWS + 4, B_PITCH = COLUMNS + 4	/* rows are padded, so that fewer accesses collide in a bank */
};

/* row_of(): the distance of the i-th row of a work-item's sums from the first row; column_of(): that of the j-th column
   from the first column. */
static __device__ __forceinline__ int row_of(int i)
{
	return i / ROW_RUN * (DOWN * ROW_RUN) + i % ROW_RUN;
}

static __device__ __forceinline__ int column_of(int j)
{
	return j / RUN * (ACROSS * RUN) + j % RUN;
}

/*
 * cg_gemm_f16_nt_c_acc_local_64x64: c [m, n] = start + a [m, k] b [k, n].
 * The products are added to start in acc, one after the other in the order of k, and the sum is rounded once.
 * Strides are in elements, from row to row.  With k = 0, a and b may be null.
 *
 *	a            in  real    [m, k]
 *	b            in  real    [n, k]          transposed
 *	start        in  real    [m, n]          null: zeros; with a stride of 0 every row is the first; may be c itself
 *	c            out acc     [m, n]
 */
extern "C" __global__ __launch_bounds__(256)
void cg_gemm_f16_nt_c_acc_local_64x64(
	long long m, long long n, long long k,
	const real *__restrict__ a_at, long long a_stride,
	const real *__restrict__ b_at, long long b_stride,
	const real *start_at, long long start_stride,
	acc *c_at, long long c_stride)
{
	__shared__ acc __align__(16) a_tile[DEPTH * A_PITCH];
	__shared__ acc __align__(16) b_tile[DEPTH * B_PITCH];
	const unsigned item = threadIdx.x;
	const int y = item / ACROSS * ROW_RUN, x = item % ACROSS * RUN;
	const long long column = blockIdx.x * (long long)COLUMNS;

	for (long long row = blockIdx.y * (long long)ROWS; row < m; row += gridDim.y * (long long)ROWS) {
		acc sum[ITEM_ROWS][ITEM_COLUMNS];

		#pragma unroll
		for (int i = 0; i < ITEM_ROWS; i++) {
			const long long r = row + y + row_of(i);

			#pragma unroll
			for (int j = 0; j < ITEM_COLUMNS; j++) {
				const long long q = column + x + column_of(j);
				const int there = start_at && r < m && q < n;

				sum[i][j] = there ? to_acc(start_at[r * start_stride + q]) : 0;
			}
		}
		for (long long first = 0; first < k; first += DEPTH) {
			const int depth = k - first < DEPTH ? (int)(k - first) : DEPTH;

			for (unsigned e = item; e < ROWS * DEPTH; e += ITEMS) {
				const int p = e % DEPTH, i = e / DEPTH;
				const long long at = (row + i) * a_stride + first + p;

				if (p < depth)
					a_tile[p * A_PITCH + i] = row + i < m ? to_acc(a_at[at]) : 0;
			}
			for (unsigned e = item; e < COLUMNS * DEPTH; e += ITEMS) {
				const int p = e % DEPTH, j = e / DEPTH;
				const long long at = (column + j) * b_stride + first + p;

				if (p < depth)
					b_tile[p * B_PITCH + j] = column + j < n ? to_acc(b_at[at]) : 0;
			}
			__syncthreads();
			for (int p = 0; p < depth; p++)
				#pragma unroll
				for (int i = 0; i < ITEM_ROWS; i++)
					#pragma unroll
					for (int j = 0; j < ITEM_COLUMNS; j++)
						sum[i][j] = muladd(a_tile[p * A_PITCH + y + row_of(i)],
							b_tile[p * B_PITCH + x + column_of(j)], sum[i][j]);
			__syncthreads();
		}
		#pragma unroll
		for (int i = 0; i < ITEM_ROWS; i++) {
			const long long r = row + y + row_of(i);

			#pragma unroll
			for (int j = 0; j < ITEM_COLUMNS; j++) {
				const long long q = column + x + column_of(j);

				if (r < m && q < n)
					c_at[r * c_stride + q] = sum[i][j];
			}
		}
	}
}
