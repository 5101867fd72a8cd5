/* cg_rows_f16_dst_acc_drop: row copies in language c, made by cg_print_rows */

#include <stddef.h>
#include <stdint.h>

/* Every operation must round once, to its own type. */
#if defined __FAST_MATH__ || __FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2
#error "compile without -ffast-math, and for 32-bit x86 with -msse2 -mfpmath=sse"
#endif
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#ifdef __cplusplus
#define restrict __restrict
#endif

/* INLINE forces inlining, since a call in a loop keeps the loop from being vectorised. APART prevents inlining of
   the functions over a strip: in their caller, the compiler would no longer know that their pointers do not
   overlap. */
#ifdef __GNUC__
#define INLINE inline __attribute__((always_inline))
#define APART __attribute__((noinline))
#else
#define INLINE inline
#define APART
#endif

typedef uint16_t real;		/* the type in memory: a half's bits */
typedef float acc;		/* the type of arithmetic */
typedef uint32_t word;		/* an unsigned integer with the bits of an acc */

static INLINE word bits_of(acc x)
{
	union { acc x; word bits; } u;

	u.x = x;
	return u.bits;
}

static INLINE acc from_bits(word bits)
{
	union { word bits; acc x; } u;

	u.bits = bits;
	return u.x;
}

/* A half has a sign, 5 bits of exponent and 10 of fraction. Subnormal halves are multiples of 2^-24, as are floats
   in [1/2, 1): to_acc() converts a subnormal half by an exact subtraction from such a float, and to_real() by an
   addition that rounds; so neither needs a subnormal float, which a device might flush. */
static INLINE acc to_acc(real h)
{
	word sign = ((word)h & 0x8000u) << 16;
	word a = (word)h & 0x7fffu;
	word wide = (a << 13) + (a < 0x7c00u ? 0x38000000u : 0x70000000u);
	word tiny = bits_of(from_bits(a + 0x3f000000u) - 0.5f);

	return from_bits((a < 0x400u ? tiny : wide) | sign);
}

/* Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. */
struct words {
	unsigned of[4];
};

static INLINE struct words philox(unsigned key0, unsigned key1,
	unsigned x0, unsigned x1, unsigned x2)
{
	struct words x = {{ x0, x1, x2, 0 }};

	for (int round = 0; round < 10; round++) {
		const uint64_t a = (uint64_t)0xd2511f53u * x.of[0];
		const uint64_t b = (uint64_t)0xcd9e8d57u * x.of[2];

		x.of[0] = (unsigned)(b >> 32) ^ x.of[1] ^ key0;
		x.of[1] = (unsigned)b;
		x.of[2] = (unsigned)(a >> 32) ^ x.of[3] ^ key1;
		x.of[3] = (unsigned)a;
		key0 += 0x9e3779b9u;
		key1 += 0xbb67ae85u;
	}
	return x;
}

/* Writes the random words of `draws` consecutive draws, from draw x0 on. */
static APART void draw(int draws, unsigned key0, unsigned key1, unsigned x0, unsigned x1, unsigned x2,
	unsigned *restrict words)
{
	for (int k = 0; k < draws; k++) {
		const struct words x = philox(key0, key1, x0 + (unsigned)k, x1, x2);

		for (int unit = 0; unit < 4; unit++)
			words[4 * k + unit] = x.of[unit];
	}
}

static APART void cg_rows_f16_dst_acc_drop_run(int count, int add, const real *restrict src, acc *restrict dst,
	const unsigned *restrict words, int64_t below, acc scale)
{
	for (int unit = 0; unit < count; unit++) {
		acc x = to_acc(src[unit]);

		x = words[unit] < below ? 0 : x * scale;
		dst[unit] = add ? dst[unit] + x : x;
	}
}

/*
 * cg_rows_f16_dst_acc_drop:
 * dst[to[p], j] = drop(src[from[p], j]), or += with add, for row <= p < rows and j < columns.
 * Strides are in elements, from row to row.  Index arrays may be null.
 *
 *	src          in  real    [., columns]    with a stride of 0 every row is the first
 *	from         in  int64   [rows]          null: p
 *	dst          out acc     [., columns]    shares no memory with the others
 *	to           in  int64   [rows]          null: p; names no row twice
 *	t, b         in  int64   [rows]          null: p / batch, p % batch
 *
 * Element j of row p is dropped if word (first_unit + j) % 4 of Philox(key, (first_unit + j) / 4, b[p],
 * first_t + t[p]) is less than `below`: a dropped
 * element becomes 0, any other is multiplied by scale.
 */
void cg_rows_f16_dst_acc_drop(
	int64_t row, int64_t rows, int64_t columns, int add,
	const real *src_at, int64_t src_stride, const int64_t *from_at,
	acc *dst_at, int64_t dst_stride, const int64_t *to_at,
	const int64_t *t_at, const int64_t *b_at, int64_t first_t, int64_t batch, int64_t first_unit,
	unsigned key0, unsigned key1, int64_t below, acc scale)
{
	enum { STRIP = 256 };
	unsigned words[STRIP + 4];

	for (int64_t p = row; p < rows; p++) {
		const real *const src_row = src_at + (from_at ? from_at[p] : p) * src_stride;
		acc *const dst_row = dst_at + (to_at ? to_at[p] : p) * dst_stride;
		const unsigned t = (unsigned)(first_t + (t_at ? t_at[p] : p / batch));
		const unsigned b = (unsigned)(b_at ? b_at[p] : p % batch);

		for (int64_t first = 0; first < columns; first += STRIP) {
			const int count = columns - first < STRIP ? (int)(columns - first) : STRIP;
			const int64_t unit = first_unit + first;
			const int lead = (int)(unit % 4);

			draw((lead + count + 3) / 4, key0, key1, (unsigned)(unit / 4), b, t, words);

			cg_rows_f16_dst_acc_drop_run(count, add,
				src_row + first, dst_row + first, words + lead, below, scale);
		}
	}
}
