/*
 * Weights carried from one layout to another, piece by piece: turned, taken into another dtype, biases put together or taken apart.
 * What is neither is moved as bits.  Also what such a move loses.
 */
#include <string.h>

#include "runtime/weights/format.h"

enum { TILE = 32 };                              /* rows and columns that are turned at a time, so that lines of a cache serve more than once */

static const enum cg_rnn_part matrices[] = { CG_RNN_INPUT, CG_RNN_RECURRENT }, biases[] = { CG_RNN_BIAS_W, CG_RNN_BIAS_R };

/* ---- elements: their bits, and what they say ---- */

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

static double number(int dtype, uint64_t bits)
{
	return cg_element(dtype, &bits);
}

static uint64_t bits_of(int dtype, double value)
{
	uint64_t bits = 0;

	cg_element_put(dtype, &bits, value);
	return bits;
}

static uint64_t change(int from, int to, uint64_t bits)
{
	return from == to ? bits : bits_of(to, number(from, bits));
}

/* Both are in one dtype; a half that is zero leaves the other as it is. */
static uint64_t join(int dtype, uint64_t w, uint64_t r)
{
	if (!w || !r)
		return w ? w : r;
	return bits_of(dtype, number(dtype, w) + number(dtype, r));
}

/* Parts that make up b exactly: where b is too small to be halved they differ. */
static void halve(int dtype, uint64_t b, uint64_t *w, uint64_t *r)
{
	double value = number(dtype, b);

	*w = bits_of(dtype, value / 2);
	*r = 2 * number(dtype, *w) == value || value != value ? *w : bits_of(dtype, value - number(dtype, *w));
}

static void part(int dtype, int rule, uint64_t b, uint64_t *w, uint64_t *r)
{
	*w = rule == CG_BIAS_INPUT ? b : 0;
	*r = rule == CG_BIAS_INPUT ? 0 : b;
	if (rule == CG_BIAS_HALVES)
		halve(dtype, b, w, r);
}

/* ---- pieces ---- */

static unsigned char *memory_of(const struct cg_tensors *t, int k)
{
	return t->at[k - t->first];
}

static void turn(const struct cg_move *m, struct cg_spot a, struct cg_spot b)
{
	size_t from_bytes = cg_dtype_bytes(m->from.dtype), to_bytes = cg_dtype_bytes(m->to.dtype);
	unsigned char *from = memory_of(&m->from, a.tensor), *to = memory_of(&m->to, b.tensor);

	for (int64_t i = 0; i < a.rows; i += TILE)
		for (int64_t j = 0; j < a.columns; j += TILE)
			for (int64_t r = i; r < a.rows && r < i + TILE; r++)
				for (int64_t c = j; c < a.columns && c < j + TILE; c++) {
					uint64_t bits = load(from, a.offset + r * a.row + c * a.column, from_bytes);

					store(to, b.offset + r * b.row + c * b.column, to_bytes, change(m->from.dtype, m->to.dtype, bits));
				}
}

static void piece(const struct cg_move *m, int pseudo_layer, enum cg_rnn_part which, char gate)
{
	struct cg_spot a = cg_layout_spot(m->from.layout, pseudo_layer, which, gate);
	struct cg_spot b = cg_layout_spot(m->to.layout, pseudo_layer, which, gate);
	const unsigned char *from = a.tensor < 0 ? NULL : memory_of(&m->from, a.tensor);
	size_t bytes = cg_dtype_bytes(m->from.dtype);

	if (!from || m->from.dtype != m->to.dtype || a.column != 1 || b.column != 1) {
		turn(m, a, b);
		return;
	}
	for (int64_t r = 0; r < a.rows; r++)
		memcpy(memory_of(&m->to, b.tensor) + (size_t)(b.offset + r * b.row) * bytes, from + (size_t)(a.offset + r * a.row) * bytes,
		       (size_t)a.columns * bytes);
}

/* What `from` says of both biases of a gate of a unit; of gradients a sum's is that of either. */
static void both(const struct cg_move *m, const struct cg_spot at[2], int64_t u, uint64_t *w, uint64_t *r)
{
	const struct cg_tensors *from = &m->from;
	size_t bytes = cg_dtype_bytes(from->dtype);

	*w = load(memory_of(from, at[0].tensor), at[0].offset + u, bytes);
	if (at[0].shared && !from->layout->gradients)
		part(from->dtype, m->bias, *w, w, r);
	else
		*r = at[0].shared ? *w : load(memory_of(from, at[1].tensor), at[1].offset + u, bytes);
}

/* The element of one bias, or of the sum, that `to` has. */
static uint64_t bias_of(const struct cg_move *m, const struct cg_spot at[2], int which, int shared, int64_t u)
{
	uint64_t w, r;

	if (at[0].shared && shared)
		return load(memory_of(&m->from, at[0].tensor), at[0].offset + u, cg_dtype_bytes(m->from.dtype));
	if (!at[0].shared && !shared)
		return load(memory_of(&m->from, at[which].tensor), at[which].offset + u, cg_dtype_bytes(m->from.dtype));
	both(m, at, u, &w, &r);
	if (!shared)
		return which ? r : w;
	return m->from.layout->gradients ? w : join(m->from.dtype, w, r);
}

static void spots(const struct cg_layout *l, int pseudo_layer, char gate, struct cg_spot at[2])
{
	for (int k = 0; k < 2; k++)
		at[k] = cg_layout_spot(l, pseudo_layer, biases[k], gate);
}

static void bias(const struct cg_move *m, int pseudo_layer, int which, char gate)
{
	struct cg_spot to = cg_layout_spot(m->to.layout, pseudo_layer, biases[which], gate), at[2];
	double more = gate == 'f' && (to.shared || which) ? m->forget_bias : 0;

	spots(m->from.layout, pseudo_layer, gate, at);
	for (int64_t u = 0; u < m->to.layout->rnn.net.U; u++) {
		uint64_t bits = bias_of(m, at, which, to.shared, u);

		if (more != 0)
			bits = bits_of(m->to.dtype, number(m->from.dtype, bits) + more);
		else
			bits = change(m->from.dtype, m->to.dtype, bits);
		store(memory_of(&m->to, to.tensor), to.offset + u, cg_dtype_bytes(m->to.dtype), bits);
	}
}

/* ---- tensors ---- */

static int is_in(const struct cg_layout *l, int k, int pseudo_layer, enum cg_rnn_part which, char gate)
{
	return cg_layout_spot(l, pseudo_layer, which, gate).tensor == k;
}

/* Everything that tensor k of one of the two sides has a piece of. */
static void move_pieces(const struct cg_move *m, const struct cg_layout *side, int k)
{
	struct cg_span span = cg_layout_span(side, k);

	for (int p = span.first; p < span.end; p++) {
		for (const char *gate = side->gates; *gate; gate++)
			for (int w = 0; w < 2; w++) {
				if (is_in(side, k, p, matrices[w], *gate))
					piece(m, p, matrices[w], *gate);
				if (is_in(side, k, p, biases[w], *gate))
					bias(m, p, w, *gate);
			}
		for (const char *gate = side->vectors; *gate; gate++)
			if (is_in(side, k, p, CG_RNN_VECTOR, *gate))
				piece(m, p, CG_RNN_VECTOR, *gate);
		if (side->rnn.net.P && is_in(side, k, p, CG_RNN_PROJECTION, ' '))
			piece(m, p, CG_RNN_PROJECTION, ' ');
	}
}

void cg_move_into(const struct cg_move *m, int k)
{
	move_pieces(m, m->to.layout, k);
}

void cg_move_out_of(const struct cg_move *m, int k)
{
	move_pieces(m, m->from.layout, k);
}

/* ---- losses ---- */

/* Biases of a gate that the rule does not give back, or gradients that are two. */
static int64_t differ(const struct cg_move *m, int rule, const struct cg_spot at[2])
{
	int64_t n = 0;

	for (int64_t u = 0; u < m->from.layout->rnn.net.U; u++) {
		uint64_t w, r, w_again, r_again;

		both(m, at, u, &w, &r);
		part(m->from.dtype, rule, join(m->from.dtype, w, r), &w_again, &r_again);
		n += m->from.layout->gradients ? w != r : w != w_again || r != r_again;
	}
	return n;
}

/* Of the biases that end in tensor k of `to`, -1: in any; of: how many are summed. */
static int64_t lost_biases(const struct cg_move *m, int rule, int k, int64_t *of)
{
	const struct cg_layout *from = m->from.layout, *to = m->to.layout;
	struct cg_span span = k < 0 ? (struct cg_span){ 0, to->rnn.net.layers * to->rnn.net.directions } : cg_layout_span(to, k);
	int64_t n = 0;

	for (int p = span.first; p < span.end; p++)
		for (const char *gate = to->gates; *gate; gate++) {
			struct cg_spot end = cg_layout_spot(to, p, CG_RNN_BIAS_W, *gate), at[2];

			spots(from, p, *gate, at);
			if (!end.shared || at[0].shared || (k >= 0 && end.tensor != k))
				continue;
			n += differ(m, rule, at);
			*of += to->rnn.net.U;
		}
	return n;
}

int64_t cg_move_lost_biases(const struct cg_move *m, int rule, int k)
{
	int64_t of = 0;

	return lost_biases(m, rule, k, &of);
}

/* Of the vectors that only `from` has, those not zero. */
static int64_t lost_vectors(const struct cg_move *m)
{
	const struct cg_layout *from = m->from.layout;
	int64_t n = 0;

	if (m->to.layout->rnn.net.n_vectors)
		return 0;
	for (int p = 0; p < from->rnn.net.layers * from->rnn.net.directions; p++)
		for (const char *gate = from->vectors; *gate; gate++) {
			struct cg_spot at = cg_layout_spot(from, p, CG_RNN_VECTOR, *gate);

			for (int64_t u = 0; u < at.columns; u++)
				n += load(memory_of(&m->from, at.tensor), at.offset + u, cg_dtype_bytes(m->from.dtype)) != 0;
		}
	return n;
}

static int64_t rounded(const struct cg_move *m)
{
	int from = m->from.dtype, to = m->to.dtype;
	size_t bytes = cg_dtype_bytes(from);
	int64_t n = 0;

	for (int k = 0; from != to && k < m->from.layout->n; k++) {
		int64_t elements = cg_layout_elements(m->from.layout, k);

		for (int64_t e = 0; e < elements && memory_of(&m->from, k); e++) {
			uint64_t bits = load(memory_of(&m->from, k), e, bytes);

			n += change(to, from, change(from, to, bits)) != bits;
		}
	}
	return n;
}

int64_t cg_move_biases(const struct cg_move *m)
{
	const struct cg_layout *from = m->from.layout;
	int64_t n = 0;

	for (int p = 0; p < from->rnn.net.layers * from->rnn.net.directions; p++)
		for (const char *gate = from->gates; *gate; gate++) {
			struct cg_spot at[2];

			spots(from, p, *gate, at);
			for (int64_t u = 0; u < from->rnn.net.U; u++) {
				uint64_t w, r;

				both(m, at, u, &w, &r);
				n += w || r;
			}
		}
	return n;
}

void cg_move_losses(const struct cg_move *m, int bias, struct cg_losses *losses)
{
	*losses = (struct cg_losses){ .bias = bias };
	losses->biases = lost_biases(m, bias, -1, &losses->of_biases);
	for (int rule = 0; losses->biases && rule < CG_BIASES; rule++) {
		int64_t of = 0, n = lost_biases(m, rule, -1, &of);

		if (n < losses->biases) {
			losses->biases = n;
			losses->bias = rule;
		}
	}
	losses->vectors = lost_vectors(m);
	losses->rounded = rounded(m);
}
