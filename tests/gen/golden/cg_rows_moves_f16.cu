/* cg_rows_moves_f16: several row copies in one launch, in language cuda, made by cg_print_rows_moves */

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

/* Rounds to nearest, ties to even. A carry of the rounding goes into the exponent, and can lead to infinity. */
static __device__ __forceinline__ real to_real(acc x)
{
	word sign = bits_of(x) & 0x80000000u;
	word a = bits_of(x) ^ sign;
	word normal = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
	word tiny = bits_of(from_bits(a) + 0.5f) - 0x3f000000u;
	word h = a < 0x38800000u ? tiny : normal;

	h = a < 0x47800000u ? h : 0x7c00u;
	h = a > 0x7f800000u ? 0x7e00u : h;
	return (real)(h | sign >> 16);
}

/* Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. */
struct words {
	unsigned of[4];
};

static __device__ __forceinline__ struct words philox(unsigned key0, unsigned key1,
	unsigned x0, unsigned x1, unsigned x2)
{
	struct words x = {{ x0, x1, x2, 0 }};

	for (int round = 0; round < 10; round++) {
		const unsigned long long a = (unsigned long long)0xd2511f53u * x.of[0];
		const unsigned long long b = (unsigned long long)0xcd9e8d57u * x.of[2];

		x.of[0] = (unsigned)(b >> 32) ^ x.of[1] ^ key0;
		x.of[1] = (unsigned)b;
		x.of[2] = (unsigned)(a >> 32) ^ x.of[3] ^ key1;
		x.of[3] = (unsigned)a;
		key0 += 0x9e3779b9u;
		key1 += 0xbb67ae85u;
	}
	return x;
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

/* A move of [rows, columns] between matrices whose rows follow each other without gaps. */
struct move {
	const real *src;			/* null: zeros */
	real *dst;
	const long long *from, *to;		/* null: row p itself */
	long long rows, columns;
	unsigned key0, key1;			/* the key of the dropout mask */
	int drop;				/* 1: the move has dropout */
	int wide;				/* log2 of the threads of a block along a row */
	unsigned across, past;			/* blocks along a row; blocks of this move and of those before it */
};

struct moves {
	struct move of[48];
};

/*
 * cg_rows_moves_f16:
 * for each of the moves dst[to[p], j] = src[from[p], j] or drop(src[from[p], j]), for 0 <= p < rows and j < columns;
 * no move reads or writes memory that another move writes.
 *
 *	t, b         in  int64   [rows]          null: p / batch, p % batch
 *
 * Element j of row p is dropped if word j % 4 of Philox(key, j / 4, b[p], first_t + t[p]) is less than `below`: a
 * dropped element becomes 0, any other is multiplied by scale.
 */
extern "C" __global__ void cg_rows_moves_f16(
	const struct moves moves, const long long *__restrict__ t_at, const long long *__restrict__ b_at,
	long long first_t, long long batch, long long below, acc scale)
{
	int k = 0;
	unsigned before = 0;

	while (blockIdx.x >= moves.of[k].past)
		before = moves.of[k++].past;

	const struct move m = moves.of[k];
	const unsigned block = blockIdx.x - before;
	const unsigned down = (m.past - before) / m.across;
	const int tall = blockDim.x >> m.wide;
	const long long start = 4 * ((long long)(block % m.across) << m.wide | (threadIdx.x & ((1u << m.wide) - 1)));
	const long long stride = 4 * ((long long)m.across << m.wide);
	const long long row = block / m.across * (long long)tall + (threadIdx.x >> m.wide);
	const long long row_stride = down * (long long)tall;

	for (long long p = row; p < m.rows; p += row_stride) {
		const real *const src_row = m.src + (m.from ? m.from[p] : p) * m.columns;
		real *const dst_row = m.dst + (m.to ? m.to[p] : p) * m.columns;
		const unsigned t = !m.drop ? 0 : (unsigned)(first_t + (t_at ? t_at[p] : p / batch));
		const unsigned b = !m.drop ? 0 : (unsigned)(b_at ? b_at[p] : p % batch);

		for (long long first = start; first < m.columns; first += stride) {
			struct real4 x = load_real(src_row, first, m.src ? m.columns : 0);

			if (m.drop) {
				const struct words words = philox(m.key0, m.key1, (unsigned)(first / 4), b, t);

				#pragma unroll
				for (int unit = 0; unit < 4; unit++) {
					const acc y = to_acc(x.of[unit]);

					x.of[unit] = words.of[unit] < below ? 0 : to_real(y * scale);
				}
			}
			store_real(dst_row, first, m.columns, x);
		}
	}
}
