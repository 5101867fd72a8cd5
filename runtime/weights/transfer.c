/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts weights from one layout to another, region by region: transposes matrices, changes the dtype, sums or splits biases, adds a
 * forget bias.  Elements that are only moved keep their bits.  Counts the pairs of biases and the elements that a conversion loses.
 */
#include <string.h>

#include "runtime/weights/format.h"

enum { TILE = 32 };                              /* rows and columns transposed at a time, for reuse of cache lines */

static const enum cg_rnn_part matrices[] = { CG_RNN_INPUT, CG_RNN_RECURRENT }, biases[] = { CG_RNN_BIAS_W, CG_RNN_BIAS_R };

/* ---- elements: bits and values ---- */

static uint64_t load(const unsigned char *at, int64_t k, size_t bytes)
{
	uint64_t bits = 0;

	if (at)
		memcpy(&bits, at + (size_t)k * bytes, bytes);
	return bits;
}

static void store(unsigned char *at, int64_t k, size_t bytes, uint64_t bits)
{
	memcpy(at + (size_t)k * bytes, &bits, bytes);
}

static double value_of(int dtype, uint64_t bits)
{
	return cg_element_get(dtype, &bits);
}

static uint64_t bits_of(int dtype, double value)
{
	uint64_t bits = 0;

	cg_element_put(dtype, &bits, value);
	return bits;
}

static uint64_t convert_bits(int from, int to, uint64_t bits)
{
	return from == to ? bits : bits_of(to, value_of(from, bits));
}

/* Adds bW and bR in their dtype; if all bits of one bias are zero, the sum has the bits of the other bias. */
static uint64_t sum_biases(int dtype, uint64_t w, uint64_t r)
{
	if (!w || !r)
		return w ? w : r;
	return bits_of(dtype, value_of(dtype, w) + value_of(dtype, r));
}

/* Finds two numbers with the exact sum b, which are unequal only if b / 2 is not representable. */
static void halve_bias(int dtype, uint64_t b, uint64_t *w, uint64_t *r)
{
	double value = value_of(dtype, b);

	*w = bits_of(dtype, value / 2);
	*r = 2 * value_of(dtype, *w) == value || value != value ? *w : bits_of(dtype, value - value_of(dtype, *w));
}

static void split_bias(int dtype, int rule, uint64_t b, uint64_t *w, uint64_t *r)
{
	*w = rule == CG_BIAS_INPUT ? b : 0;
	*r = rule == CG_BIAS_INPUT ? 0 : b;
	if (rule == CG_BIAS_HALVES)
		halve_bias(dtype, b, w, r);
}

/* ---- regions ---- */

static unsigned char *memory_of(const struct cg_tensors *t, int k)
{
	return t->at[k - t->first];
}

static void convert_elements(const struct cg_conversion *m, struct cg_location a, struct cg_location b)
{
	size_t from_bytes = cg_dtype_bytes(m->from.dtype), to_bytes = cg_dtype_bytes(m->to.dtype);
	unsigned char *from = memory_of(&m->from, a.tensor), *to = memory_of(&m->to, b.tensor);

	for (int64_t i = 0; i < a.rows; i += TILE)
		for (int64_t j = 0; j < a.columns; j += TILE)
			for (int64_t r = i; r < a.rows && r < i + TILE; r++)
				for (int64_t c = j; c < a.columns && c < j + TILE; c++) {
					uint64_t bits = load(from, a.offset + r * a.row + c * a.column, from_bytes);

					store(to, b.offset + r * b.row + c * b.column, to_bytes, convert_bits(m->from.dtype, m->to.dtype, bits));
				}
}

static void convert_region(const struct cg_conversion *m, int pseudo_layer, enum cg_rnn_part which, char gate)
{
	struct cg_location a = cg_layout_locate(m->from.layout, pseudo_layer, which, gate);
	struct cg_location b = cg_layout_locate(m->to.layout, pseudo_layer, which, gate);
	const unsigned char *from = a.tensor < 0 ? NULL : memory_of(&m->from, a.tensor);
	size_t bytes = cg_dtype_bytes(m->from.dtype);

	if (!from || m->from.dtype != m->to.dtype || a.column != 1 || b.column != 1) {
		convert_elements(m, a, b);
		return;
	}
	for (int64_t r = 0; r < a.rows; r++)
		memcpy(memory_of(&m->to, b.tensor) + (size_t)(b.offset + r * b.row) * bytes, from + (size_t)(a.offset + r * a.row) * bytes,
		       (size_t)a.columns * bytes);
}

/* Reads bW and bR of one gate and unit of `from`.  The gradient of the sum bW + bR is the gradient of bW and that of bR. */
static void read_biases(const struct cg_conversion *m, const struct cg_location at[2], int64_t u, uint64_t *w, uint64_t *r)
{
	const struct cg_tensors *from = &m->from;
	size_t bytes = cg_dtype_bytes(from->dtype);

	*w = load(memory_of(from, at[0].tensor), at[0].offset + u, bytes);
	if (at[0].shared && !from->layout->gradients)
		split_bias(from->dtype, m->bias, *w, w, r);
	else
		*r = at[0].shared ? *w : load(memory_of(from, at[1].tensor), at[1].offset + u, bytes);
}

/* Returns the bits, in the dtype of `from`, of an element of a bias of `to`, or of the sum if `to` holds sums. */
static uint64_t bias_of(const struct cg_conversion *m, const struct cg_location at[2], int which, int shared, int64_t u)
{
	uint64_t w, r;

	if (at[0].shared && shared)
		return load(memory_of(&m->from, at[0].tensor), at[0].offset + u, cg_dtype_bytes(m->from.dtype));
	if (!at[0].shared && !shared)
		return load(memory_of(&m->from, at[which].tensor), at[which].offset + u, cg_dtype_bytes(m->from.dtype));
	read_biases(m, at, u, &w, &r);
	if (!shared)
		return which ? r : w;
	return m->from.layout->gradients ? w : sum_biases(m->from.dtype, w, r);
}

static void locate_biases(const struct cg_layout *l, int pseudo_layer, char gate, struct cg_location at[2])
{
	for (int k = 0; k < 2; k++)
		at[k] = cg_layout_locate(l, pseudo_layer, biases[k], gate);
}

static void convert_bias(const struct cg_conversion *m, int pseudo_layer, int which, char gate)
{
	struct cg_location to = cg_layout_locate(m->to.layout, pseudo_layer, biases[which], gate), at[2];
	double more = gate == 'f' && (to.shared || which) ? m->forget_bias : 0;

	locate_biases(m->from.layout, pseudo_layer, gate, at);
	for (int64_t u = 0; u < to.columns; u++) {
		uint64_t bits = bias_of(m, at, which, to.shared, u);

		if (more != 0)
			bits = bits_of(m->to.dtype, value_of(m->from.dtype, bits) + more);
		else
			bits = convert_bits(m->from.dtype, m->to.dtype, bits);
		store(memory_of(&m->to, to.tensor), to.offset + u, cg_dtype_bytes(m->to.dtype), bits);
	}
}

/* ---- tensors ---- */

static int is_in(const struct cg_layout *l, int k, int pseudo_layer, enum cg_rnn_part which, char gate)
{
	return cg_layout_locate(l, pseudo_layer, which, gate).tensor == k;
}

/* Converts all regions that tensor k of one of the two layouts holds. */
static void convert_tensor(const struct cg_conversion *m, const struct cg_layout *side, int k)
{
	struct cg_layer_range span = cg_layout_layers(side, k);

	for (int p = span.first; p < span.end; p++) {
		for (const char *gate = side->gates; *gate; gate++)
			for (int w = 0; w < 2; w++) {
				if (is_in(side, k, p, matrices[w], *gate))
					convert_region(m, p, matrices[w], *gate);
				if (is_in(side, k, p, biases[w], *gate))
					convert_bias(m, p, w, *gate);
			}
		for (const char *gate = side->vectors; *gate; gate++)
			if (is_in(side, k, p, CG_RNN_VECTOR, *gate))
				convert_region(m, p, CG_RNN_VECTOR, *gate);
		for (const char *scalar = side->scalars; *scalar; scalar++)
			if (is_in(side, k, p, CG_RNN_SCALAR, *scalar))
				convert_region(m, p, CG_RNN_SCALAR, *scalar);
		if (side->network.P && is_in(side, k, p, CG_RNN_PROJECTION, ' '))
			convert_region(m, p, CG_RNN_PROJECTION, ' ');
	}
}

void cg_convert_into(const struct cg_conversion *m, int k)
{
	convert_tensor(m, m->to.layout, k);
}

void cg_convert_out_of(const struct cg_conversion *m, int k)
{
	convert_tensor(m, m->from.layout, k);
}

/* ---- losses ---- */

/* Counts the pairs of biases of a gate that the rule does not restore from their sum; for gradients, the pairs that are not equal. */
static int64_t count_lost(const struct cg_conversion *m, int rule, const struct cg_location at[2])
{
	int64_t n = 0;

	for (int64_t u = 0; u < m->from.layout->network.U; u++) {
		uint64_t w, r, w_again, r_again;

		read_biases(m, at, u, &w, &r);
		split_bias(m->from.dtype, rule, sum_biases(m->from.dtype, w, r), &w_again, &r_again);
		n += m->from.layout->gradients ? w != r : w != w_again || r != r_again;
	}
	return n;
}

/* Counts the lost pairs in tensor k of `to`, or in all tensors for k = -1; *of grows by the number of pairs that the conversion sums. */
static int64_t count_lost_biases(const struct cg_conversion *m, int rule, int k, int64_t *of)
{
	const struct cg_layout *from = m->from.layout, *to = m->to.layout;
	struct cg_layer_range span = k < 0 ? (struct cg_layer_range){ 0, to->network.layers * to->network.directions } : cg_layout_layers(to, k);
	int64_t n = 0;

	for (int p = span.first; p < span.end; p++)
		for (const char *gate = to->gates; *gate; gate++) {
			struct cg_location end = cg_layout_locate(to, p, CG_RNN_BIAS_W, *gate), at[2];

			locate_biases(from, p, *gate, at);
			if (!end.shared || at[0].shared || (k >= 0 && end.tensor != k))
				continue;
			n += count_lost(m, rule, at);
			*of += to->network.U;
		}
	return n;
}

int64_t cg_count_lost_biases(const struct cg_conversion *m, int rule, int k)
{
	int64_t of = 0;

	return count_lost_biases(m, rule, k, &of);
}

/* Counts the nonzero elements of per-unit vectors that only `from` holds. */
static int64_t count_lost_vectors(const struct cg_conversion *m)
{
	const struct cg_layout *from = m->from.layout;
	int64_t n = 0;

	if (m->to.layout->network.n_vectors)
		return 0;
	for (int p = 0; p < from->network.layers * from->network.directions; p++)
		for (const char *gate = from->vectors; *gate; gate++) {
			struct cg_location at = cg_layout_locate(from, p, CG_RNN_VECTOR, *gate);

			for (int64_t u = 0; u < at.columns; u++)
				n += load(memory_of(&m->from, at.tensor), at.offset + u, cg_dtype_bytes(m->from.dtype)) != 0;
		}
	return n;
}

static int64_t count_rounded(const struct cg_conversion *m)
{
	int from = m->from.dtype, to = m->to.dtype;
	size_t bytes = cg_dtype_bytes(from);
	int64_t n = 0;

	for (int k = 0; from != to && k < m->from.layout->n; k++) {
		int64_t elements = cg_layout_elements(m->from.layout, k);

		for (int64_t e = 0; e < elements && memory_of(&m->from, k); e++) {
			uint64_t bits = load(memory_of(&m->from, k), e, bytes);

			n += convert_bits(to, from, convert_bits(from, to, bits)) != bits;
		}
	}
	return n;
}

int64_t cg_count_biases(const struct cg_conversion *m)
{
	const struct cg_layout *from = m->from.layout;
	int64_t n = 0;

	for (int p = 0; p < from->network.layers * from->network.directions; p++)
		for (const char *gate = from->gates; *gate; gate++) {
			struct cg_location at[2];

			locate_biases(from, p, *gate, at);
			for (int64_t u = 0; u < from->network.U; u++) {
				uint64_t w, r;

				read_biases(m, at, u, &w, &r);
				n += w || r;
			}
		}
	return n;
}

void cg_count_losses(const struct cg_conversion *m, int bias, struct cg_losses *losses)
{
	*losses = (struct cg_losses){ .bias = bias };
	losses->biases = count_lost_biases(m, bias, -1, &losses->of_biases);
	for (int rule = 0; losses->biases && rule < CG_BIASES; rule++) {
		int64_t of = 0, n = count_lost_biases(m, rule, -1, &of);

		if (n < losses->biases) {
			losses->biases = n;
			losses->bias = rule;
		}
	}
	losses->vectors = count_lost_vectors(m);
	losses->rounded = count_rounded(m);
}
