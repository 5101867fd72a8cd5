/* cg_gemm_f16_nt_32x48: a matrix product in language opencl, made by cg_print_gemm */

/* Every operation must round once, to its own type. */
#pragma OPENCL FP_CONTRACT OFF

typedef ushort real;		/* the type in memory: a half's bits */
typedef float acc;		/* the type of arithmetic */
typedef uint word;		/* an unsigned integer with the bits of an acc */

static inline word bits_of(acc x)
{
	return as_uint(x);
}

static inline acc from_bits(word bits)
{
	return as_float(bits);
}

#if defined __clang__ && defined __F16C__
/* Processors with F16C have an instruction for this conversion, which is exact and flushes no subnormal half. */
static inline acc to_acc(real h)
{
	return __builtin_load_halff((const half *)&h);
}
#else
/* A half has a sign, 5 bits of exponent and 10 of fraction. Subnormal halves are multiples of 2^-24, as are floats
   in [1/2, 1): to_acc() converts a subnormal half by an exact subtraction from such a float, and to_real() by an
   addition that rounds; so neither needs a subnormal float, which a device might flush. */
static inline acc to_acc(real h)
{
	word sign = ((word)h & 0x8000u) << 16;
	word a = (word)h & 0x7fffu;
	word wide = (a << 13) + (a < 0x7c00u ? 0x38000000u : 0x70000000u);
	word tiny = bits_of(from_bits(a + 0x3f000000u) - 0.5f);

	return from_bits((a < 0x400u ? tiny : wide) | sign);
}
#endif

#if defined __clang__ && defined __F16C__
/* Rounds to nearest, ties to even; a NaN stays a NaN, and no subnormal half is flushed. */
static inline real to_real(acc x)
{
	real h;

	__builtin_store_halff(x, (half *)&h);
	return h;
}
#else
/* Rounds to nearest, ties to even. A carry of the rounding goes into the exponent, and can lead to infinity. */
static inline real to_real(acc x)
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
#endif

enum {
	ROWS = 32, COLUMNS = 48,		/* rows and columns of c in a work-item's tile */
	DEPTH = 128,				/* steps of k in a panel */
	ITEM_ROWS = 8, ITEM_COLUMNS = 48,	/* rows and columns of sums in registers */
	VECTOR = 16,
	PACK_ROWS = ITEM_ROWS < VECTOR ? ITEM_ROWS : VECTOR	/* rows of a that are packed at once */
};

typedef float8 acc8;
typedef uint8 word8;

/* to_acc of 8 elements. */
static inline acc8 load8(__global const real *at)
{
	word8 h = convert_uint8(vload8(0, at));
	word8 sign = (h & 0x8000u) << 16;
	word8 a = h & 0x7fffu;
	word8 wide = (a << 13) + select((word8)0x70000000u, (word8)0x38000000u, a < 0x7c00u);
	word8 tiny = as_uint8(as_float8(a + 0x3f000000u) - 0.5f);

	return as_float8(select(wide, tiny, a < 0x400u) | sign);
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
			to[p * pitch + l] = to_acc(from[l * stride + p]);
}

typedef float16 acc16;
typedef uint16 word16;

/* to_acc of 16 elements. */
static inline acc16 load16(__global const real *at)
{
	word16 h = convert_uint16(vload16(0, at));
	word16 sign = (h & 0x8000u) << 16;
	word16 a = h & 0x7fffu;
	word16 wide = (a << 13) + select((word16)0x70000000u, (word16)0x38000000u, a < 0x7c00u);
	word16 tiny = as_uint16(as_float16(a + 0x3f000000u) - 0.5f);

	return as_float16(select(wide, tiny, a < 0x400u) | sign);
}

/* Packs a panel of 16 elements that are a stride apart, by transposing squares: each round interleaves the halves
   of pairs of vectors, and log2(16) rounds bring each element to its place. */
static inline void turn16(int depth, __global const real *from, long stride, __local acc *to, int pitch)
{
	int p = 0;

	for (; p + 16 <= depth; p += 16) {
		acc16 t[16], u[16];

		#pragma unroll
		for (int l = 0; l < 16; l++)
			t[l] = load16(from + l * stride + p);
		#pragma unroll
		for (int round = 1; round < 16; round *= 2) {
			#pragma unroll
			for (int l = 0; l < 16 / 2; l++) {
				u[2 * l] = (acc16)(t[l].lo, t[l + 16 / 2].lo).s08192a3b4c5d6e7f;
				u[2 * l + 1] = (acc16)(t[l].hi, t[l + 16 / 2].hi).s08192a3b4c5d6e7f;
			}
			#pragma unroll
			for (int l = 0; l < 16; l++)
				t[l] = u[l];
		}
		#pragma unroll
		for (int l = 0; l < 16; l++)
			vstore16(t[l], 0, to + (p + l) * pitch);
	}
	for (; p < depth; p++)
		for (int l = 0; l < 16; l++)
			to[p * pitch + l] = to_acc(from[l * stride + p]);
}

/* Packs a panel of which only `there` of the `width` elements exist; zeros stand for the others, whose sums are not
   stored. */
static inline void pack_edge(int depth, int width, int there, __global const real *from, long across, long along,
	__local acc *to, int pitch)
{
	for (int p = 0; p < depth; p++)
		for (int l = 0; l < width; l++)
			to[p * pitch + l] = l < there ? to_acc(from[l * across + p * along]) : 0;
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
		__global const real *from = b + j * stride;
		__local acc *panel = to + j / ITEM_COLUMNS * ITEM_COLUMNS * DEPTH + j % ITEM_COLUMNS;

		if (columns - j < VECTOR)
			pack_edge(depth, VECTOR, columns - j, from, stride, 1, panel, ITEM_COLUMNS);
		else
			turn16(depth, from, stride, panel, ITEM_COLUMNS);
	}
}

static inline acc16 muladds(acc16 a, acc16 b, acc16 c)
{
	return a * b + c;
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
 * cg_gemm_f16_nt_32x48: c [m, n] = start + a [m, k] b [k, n].
 * The products are added to start in acc, one after the other in the order of k, and the sum is rounded once.
 * Strides are in elements, from row to row.  With k = 0, a and b may be null.
 *
 *	a            in  real    [m, k]
 *	b            in  real    [n, k]          transposed
 *	start        in  real    [m, n]          null: zeros; with a stride of 0 every row is the first; may be c itself
 *	c            out real    [m, n]
 */
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void cg_gemm_f16_nt_32x48(
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
			sums[i * COLUMNS + j] = to_acc(start_at[from + j]);
		for (int j = there; j < COLUMNS; j++)
			sums[i * COLUMNS + j] = 0;
	}
	for (long first = 0; first < k; first += DEPTH) {
		const int depth = k - first < DEPTH ? (int)(k - first) : DEPTH;

		pack_a(rows, depth, a_at + a_offset + row * a_stride + first, a_stride, a_panels);
		pack_b(depth, columns, b_at + b_offset + column * b_stride + first, b_stride, b_panels);
		for (int j = 0; j < columns; j += ITEM_COLUMNS)
			for (int i = 0; i < rows; i += ITEM_ROWS)
				add_products(depth, a_panels + i * DEPTH, b_panels + j * DEPTH, sums + i * COLUMNS + j);
	}
	for (int i = 0; i < rows; i++) {
		const ulong to = c_offset + (row + i) * c_stride + column;

		for (int j = 0; j < columns; j++)
			c_at[to + j] = to_real(sums[i * COLUMNS + j]);
	}
}
