/* cg_rows_bf16_src_acc: row copies in language cuda, made by cg_print_rows */

typedef unsigned short real;		/* the type in memory: a float's upper half */
typedef float acc;			/* the type of arithmetic */
typedef unsigned int word;		/* an unsigned integer with the bits of an acc */

static __device__ __forceinline__ acc from_bits(word bits)
{
	return __uint_as_float(bits);
}

/* A bf16 is the upper half of a float; the lower half becomes 0. */
static __device__ __forceinline__ acc to_acc(real h)
{
	return from_bits((word)h << 16);
}

static __device__ __forceinline__ word bits_of(acc x)
{
	return __float_as_uint(x);
}

/* Rounds to nearest, ties to even. A NaN is cut off and made quiet: rounding could turn a NaN into infinity or 0. */
static __device__ __forceinline__ real to_real(acc x)
{
	word u = bits_of(x);
	word near = ((u | (u >> 16 & 1u)) + 0x7fffu) >> 16;

	return (real)(x != x ? u >> 16 | 0x40u : near);
}

struct __align__(8) real4 {
	real of[4];
};

/* Are all four elements inside the row, and aligned so that one access, or two, can move them? */
static __device__ __forceinline__ bool is_whole(const real *row, long long first, long long columns)
{
	return first >= 0 && columns - first >= 4 && (unsigned long long)(row + first) % 8 == 0;
}

/* Loads the four elements from `first` on; elements beyond the row's ends are zeros. */
static __device__ __forceinline__ struct real4 load_real(const real *row, long long first, long long columns)
{
	struct real4 x = {{ 0, 0, 0, 0 }};

	if (is_whole(row, first, columns))
		return *(const struct real4 *)(row + first);
	for (int unit = 0; unit < 4; unit++)
		if (first + unit >= 0 && first + unit < columns)
			x.of[unit] = row[first + unit];
	return x;
}

static __device__ __forceinline__ void store_real(real *row, long long first, long long columns, const struct real4 &x)
{
	if (is_whole(row, first, columns)) {
		*(struct real4 *)(row + first) = x;
		return;
	}
	for (int unit = 0; unit < 4; unit++)
		if (first + unit >= 0 && first + unit < columns)
			row[first + unit] = x.of[unit];
}

struct __align__(16) acc4 {
	acc of[4];
};

/* Are all four elements inside the row, and aligned so that one access, or two, can move them? */
static __device__ __forceinline__ bool is_whole(const acc *row, long long first, long long columns)
{
	return first >= 0 && columns - first >= 4 && (unsigned long long)(row + first) % 16 == 0;
}

/* Loads the four elements from `first` on; elements beyond the row's ends are zeros. */
static __device__ __forceinline__ struct acc4 load_acc(const acc *row, long long first, long long columns)
{
	struct acc4 x = {{ 0, 0, 0, 0 }};

	if (is_whole(row, first, columns))
		return *(const struct acc4 *)(row + first);
	for (int unit = 0; unit < 4; unit++)
		if (first + unit >= 0 && first + unit < columns)
			x.of[unit] = row[first + unit];
	return x;
}

/*
 * cg_rows_bf16_src_acc:
 * dst[to[p], j] = src[from[p], j], or += with add, for 0 <= p < rows and j < columns.
 * Strides are in elements, from row to row.  Index arrays may be null.
 *
 *	src          in  acc     [., columns]    with a stride of 0 every row is the first
 *	from         in  int64   [rows]          null: p
 *	dst          out real    [., columns]    shares no memory with the others
 *	to           in  int64   [rows]          null: p; names no row twice
 */
extern "C" __global__ void cg_rows_bf16_src_acc(
	long long rows, long long columns, int add,
	const acc *__restrict__ src_at, long long src_stride, const long long *__restrict__ from_at,
	real *__restrict__ dst_at, long long dst_stride, const long long *__restrict__ to_at)
{
	const long long start = 4 * (long long)(blockIdx.x * (long long)blockDim.x + threadIdx.x);
	const long long stride = 4 * (long long)(gridDim.x * (long long)blockDim.x);
	const long long row_stride = gridDim.y * (long long)blockDim.y;

	for (long long p = blockIdx.y * (long long)blockDim.y + threadIdx.y; p < rows; p += row_stride) {
		const long long from = from_at ? from_at[p] : p;
		const long long to = to_at ? to_at[p] : p;
		const acc *const src_row = src_at + from * src_stride;
		real *const dst_row = dst_at + to * dst_stride;

		for (long long first = start; first < columns; first += stride) {
			const struct acc4 src = load_acc(src_row, first, columns);
			/* Reads dst only if the result is added to it. */
			struct real4 dst = load_real(dst_row, first, add ? columns : 0);

			#pragma unroll
			for (int unit = 0; unit < 4; unit++) {
				acc x = src.of[unit];

				dst.of[unit] = to_real(add ? to_acc(dst.of[unit]) + x : x);
			}
			store_real(dst_row, first, columns, dst);
		}
	}
}
