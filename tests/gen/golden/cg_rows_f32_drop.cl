/* cg_rows_f32_drop: row copies in language opencl, made by cg_print_rows */

/* Every operation must round once, to its own type. */
#pragma OPENCL FP_CONTRACT OFF

typedef float real;		/* the type in memory */
typedef float acc;		/* the type of arithmetic */
typedef uint word;		/* an unsigned integer with the bits of an acc */

/* Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. */
struct words {
	unsigned of[4];
};

static inline struct words philox(unsigned key0, unsigned key1,
	unsigned x0, unsigned x1, unsigned x2)
{
	struct words x = {{ x0, x1, x2, 0 }};

	for (int round = 0; round < 10; round++) {
		const ulong a = (ulong)0xd2511f53u * x.of[0];
		const ulong b = (ulong)0xcd9e8d57u * x.of[2];

		x.of[0] = (unsigned)(b >> 32) ^ x.of[1] ^ key0;
		x.of[1] = (unsigned)b;
		x.of[2] = (unsigned)(a >> 32) ^ x.of[3] ^ key1;
		x.of[3] = (unsigned)a;
		key0 += 0x9e3779b9u;
		key1 += 0xbb67ae85u;
	}
	return x;
}

struct real4 {
	real of[4];
};

/* Loads the four elements from `first` on; elements beyond the row's ends are zeros. */
static inline struct real4 load_real(__global const real *row, long first, long columns)
{
	struct real4 x = {{ 0, 0, 0, 0 }};

	if (first >= 0 && columns - first >= 4)
		vstore4(vload4(0, row + first), 0, x.of);
	else
		for (int unit = 0; unit < 4; unit++)
			if (first + unit >= 0 && first + unit < columns)
				x.of[unit] = row[first + unit];
	return x;
}

static inline void store_real(__global real *row, long first, long columns, struct real4 x)
{
	if (first >= 0 && columns - first >= 4)
		vstore4(vload4(0, x.of), 0, row + first);
	else
		for (int unit = 0; unit < 4; unit++)
			if (first + unit >= 0 && first + unit < columns)
				row[first + unit] = x.of[unit];
}

/*
 * cg_rows_f32_drop:
 * dst[to[p], j] = drop(src[from[p], j]), or += with add, for 0 <= p < rows and j < columns.
 * Strides are in elements, from row to row.  Index arrays may be null.
 *
 *	src          in  real    [., columns]    with a stride of 0 every row is the first
 *	from         in  int64   [rows]          null: p
 *	dst          out real    [., columns]    shares no memory with the others
 *	to           in  int64   [rows]          null: p; names no row twice
 *	t, b         in  int64   [rows]          null: p / batch, p % batch
 *
 * Element j of row p is dropped if word (first_unit + j) % 4 of Philox(key, (first_unit + j) / 4, b[p],
 * first_t + t[p]) is less than `below`: a dropped
 * element becomes 0, any other is multiplied by scale.
 */
__kernel void cg_rows_f32_drop(
	long rows, long columns, int add,
	__global const real *restrict src_at, ulong src_offset, long src_stride,
	__global const long *restrict from_at, ulong from_offset,
	__global real *restrict dst_at, ulong dst_offset, long dst_stride,
	__global const long *restrict to_at, ulong to_offset,
	__global const long *restrict t_at, ulong t_offset, __global const long *restrict b_at, ulong b_offset,
	long first_t, long batch, long first_unit, uint key0, uint key1, long below, acc scale)
{
	const long start = 4 * (long)(get_global_id(0)) - first_unit % 4;
	const long stride = 4 * (long)(get_global_size(0));
	const long row_stride = get_global_size(1);

	for (long p = get_global_id(1); p < rows; p += row_stride) {
		const long from = from_at ? from_at[from_offset + p] : p;
		const long to = to_at ? to_at[to_offset + p] : p;
		__global const real *const src_row = src_at + src_offset + from * src_stride;
		__global real *const dst_row = dst_at + dst_offset + to * dst_stride;
		const unsigned t = (unsigned)(first_t + (t_at ? t_at[t_offset + p] : p / batch));
		const unsigned b = (unsigned)(b_at ? b_at[b_offset + p] : p % batch);

		for (long first = start; first < columns; first += stride) {
			const struct words words = philox(key0, key1, (unsigned)((first_unit + first) / 4), b, t);
			const struct real4 src = load_real(src_row, first, columns);
			/* Reads dst only if the result is added to it. */
			struct real4 dst = load_real(dst_row, first, add ? columns : 0);

			#pragma unroll
			for (int unit = 0; unit < 4; unit++) {
				acc x = src.of[unit];

				x = words.of[unit] < below ? 0 : x * scale;
				dst.of[unit] = add ? dst.of[unit] + x : x;
			}
			store_real(dst_row, first, columns, dst);
		}
	}
}
