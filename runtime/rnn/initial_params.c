/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initial params of a network, by named rules for each kind of weight.  Beside the integer operations that draw random numbers, the rules
 * only add, subtract, multiply, divide and take square roots of doubles, in a fixed order, so that every machine gives the same numbers.
 */
#include <math.h>
#include <string.h>

#include "runtime/rnn/rnn.h"

#define REFUSE(...) cg_fail(CG_BAD_ARGUMENT, "cg_rnn_init_params: " __VA_ARGS__)

/* ---- numbers ---- */

/* Draws a number from [0, 1) by SplitMix64 (Steele, Lea and Flood 2014). */
static double draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* Draws an approximately normal number with mean 0 and variance 1: the sum of twelve uniform numbers, less 6. */
static double draw_normal(uint64_t *state)
{
	double sum = -6;

	for (int k = 0; k < 12; k++)
		sum += draw(state);
	return sum;
}

/* ---- matrices ---- */

/* A dense matrix to be filled.  units: U, the units of the network; state: the state of the random number generator. */
struct matrix { int dtype; char *at; int64_t rows, columns, units; uint64_t state; };

static void put(const struct matrix *m, int64_t k, double value)
{
	cg_element_put(m->dtype, m->at + (size_t)k * cg_dtype_bytes(m->dtype), value);
}

static int fill(struct matrix *m, double low, double high)
{
	for (int64_t k = 0; k < m->rows * m->columns; k++)
		put(m, k, low == high ? low : low + (high - low) * draw(&m->state));
	return CG_OK;
}

static int zeros(struct matrix *m)
{
	return fill(m, 0, 0);
}

static int ones(struct matrix *m)
{
	return fill(m, 1, 1);
}

/* PyTorch's rule: uniform from -1 / sqrt(U) to 1 / sqrt(U). */
static int uniform(struct matrix *m)
{
	double most = 1 / sqrt((double)m->units);

	return fill(m, -most, most);
}

/* The rule xavier_uniform of Glorot and Bengio 2010: uniform, with a bound from the number of the matrix's rows and columns. */
static int xavier_uniform(struct matrix *m)
{
	double most = sqrt(6 / (double)(m->rows + m->columns));

	return fill(m, -most, most);
}

/* The rule kaiming_uniform of He, Zhang, Ren and Sun 2015: uniform, with a bound from the number of the matrix's columns. */
static int kaiming_uniform(struct matrix *m)
{
	double most = sqrt(6 / (double)m->columns);

	return fill(m, -most, most);
}

/* The inner product, by eight sums, which compilers turn into vector code. */
static double multiply(const double *a, const double *b, int64_t n)
{
	double sum[8] = { 0 };
	int64_t k = 0;

	for (; k + 8 <= n; k += 8)
		for (int j = 0; j < 8; j++)
			sum[j] += a[k + j] * b[k + j];
	for (int j = 0; k < n; k++, j++)
		sum[j] += a[k] * b[k];
	return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/* Makes n orthogonal vectors of norm 1, each of `length` elements, by the Gram-Schmidt method, applied twice to each vector; n is at most
 * `length`. */
static void make_orthogonal(double *vectors, int64_t n, int64_t length, uint64_t *state)
{
	for (int64_t i = 0; i < n; i++) {
		double *v = vectors + i * length, norm;

		for (int64_t k = 0; k < length; k++)
			v[k] = draw_normal(state);
		for (int64_t pass = 0; pass < 2 * i; pass++) {
			const double *other = vectors + pass % i * length;
			double along = multiply(v, other, length);

			for (int64_t k = 0; k < length; k++)
				v[k] -= along * other[k];
		}
		norm = sqrt(multiply(v, v, length));
		for (int64_t k = 0; k < length; k++)
			v[k] /= norm;
	}
}

/* The rule orthogonal of Saxe, McClelland and Ganguli 2014: makes a matrix's columns orthogonal with norm 1, or its rows if it has fewer
 * rows than columns. */
static int orthogonal(struct matrix *m)
{
	const int of_rows = m->rows < m->columns;
	const int64_t n = of_rows ? m->rows : m->columns, length = of_rows ? m->columns : m->rows;
	double *vectors = cg_memory(NULL, (size_t)(n * length) * sizeof *vectors);

	if (!vectors)
		return CG_NO_MEMORY;
	make_orthogonal(vectors, n, length, &m->state);
	for (int64_t r = 0; r < m->rows; r++)
		for (int64_t c = 0; c < m->columns; c++)
			put(m, r * m->columns + c, of_rows ? vectors[r * length + c] : vectors[c * length + r]);
	cg_memory(vectors, 0);
	return CG_OK;
}

/* ---- the rules by name ---- */

static const struct rule { const char *name; int (*run)(struct matrix *); int of_bias; } rules[] = {
	{ "zeros", zeros, 1 }, { "ones", ones, 1 }, { "uniform", uniform, 1 }, { "xavier_uniform", xavier_uniform, 0 },
	{ "kaiming_uniform", kaiming_uniform, 0 }, { "orthogonal", orthogonal, 0 },
};
enum { INPUT, RECURRENT, BIAS, KINDS, RULES = sizeof rules / sizeof *rules };
static const char *const kinds[KINDS] = { "input matrices", "recurrent matrices", "biases" };
static const char unit_forget[] = "unit_forget";

/* The rules that a caller chose.  forget: the gate whose bW becomes 1 and whose bR becomes 0; -1: none. */
struct choice { const struct rule *rule[KINDS]; int forget; };

static int find_forget(const struct cg_rnn *rnn, int *gate)
{
	const struct cg_cell *cell = rnn->net.cell;

	for (int k = 0, number = 0; k < cell->n_gates; number += cell->gates[k++].whole < 0)
		if (!cell->gates[k].split && !strcmp(cell->gates[k].name, "a_f")) {
			*gate = number;
			return CG_OK;
		}
	return REFUSE("words: %s needs a gate a_f of a line 'gates' or 'input', which cell %s does not have", unit_forget, cell->name);
}

static int read_rule(const char *word, int kind, const struct rule **rule)
{
	const char *names[RULES], *near;
	int n = 0;

	for (int k = 0; k < RULES; k++) {
		if (kind == BIAS && !rules[k].of_bias)
			continue;
		names[n++] = rules[k].name;
		if (!strcmp(rules[k].name, word)) {
			*rule = &rules[k];
			return CG_OK;
		}
	}
	near = cg_nearest(word, names, n);
	return REFUSE("words: there is no rule '%.40s' for %s%s%s%s", word, kinds[kind], near ? "; did you mean '" : "", near ? near : "",
	              near ? "'?" : "");
}

/* Parses "INPUT RECURRENT BIAS", which "unit_forget" may follow. */
static int read_rules(const struct cg_rnn *rnn, const char *text, struct choice *choice)
{
	char word[48];
	int n = 0;

	choice->forget = -1;
	for (; *text; text += strcspn(text, " ")) {
		size_t length;

		text += strspn(text, " ");
		length = strcspn(text, " ");
		if (!length)
			break;
		if (length >= sizeof word)
			return REFUSE("words: there is no rule '%.40s...'", text);
		memcpy(word, text, length);
		word[length] = '\0';
		if (n == KINDS && !strcmp(word, unit_forget))
			CG_TRY(find_forget(rnn, &choice->forget));
		else if (n < KINDS)
			CG_TRY(read_rule(word, n, &choice->rule[n]));
		else
			return REFUSE("words: expected %s or nothing after three rules, got '%s'", unit_forget, word);
		n += n < KINDS;
	}
	return n == KINDS ? CG_OK : REFUSE("words: expected three rules, for initial %s, %s and %s, got %d", kinds[0], kinds[1], kinds[2],
	                                   n);
}

/* ---- params ---- */

struct filling { const struct cg_rnn *rnn; char *params; uint64_t seed; const struct choice *choice; };

/* Fills `count` adjacent parts, such as the matrices of all gates, as one matrix. */
static int fill_part(const struct filling *f, int pseudo_layer, enum cg_rnn_part part, int count, int kind)
{
	const struct cg_network *net = &f->rnn->net;
	struct cg_rnn_region region = cg_network_part(net, pseudo_layer, part, 0);
	const int place[] = { pseudo_layer, part };
	struct matrix m = {
		.dtype = net->dtype, .at = f->params + (size_t)region.offset * cg_dtype_bytes(net->dtype), .rows = count * region.rows,
		.columns = region.columns, .units = net->U, .state = cg_fingerprint(cg_fingerprint(CG_FINGERPRINT, &f->seed, sizeof f->seed), place,
		sizeof place),
	};

	/* If the first gate lacks the part, the region's sizes are those of the first gate that has the part. */
	for (int k = 1; !region.rows && k < net->n_weights && part != CG_RNN_PROJECTION && part != CG_RNN_VECTOR; k++)
		region = cg_network_part(net, pseudo_layer, part, k);
	m.rows = count * region.rows;
	m.columns = region.columns;
	return m.rows && m.columns ? f->choice->rule[kind]->run(&m) : CG_OK;
}

/* Sets the per-unit weights that the cell's text gives a number, and the scalars, to these numbers. */
static void fill_starts(const struct filling *f, int pseudo_layer)
{
	const struct cg_network *net = &f->rnn->net;

	for (int k = 0; k < net->n_vectors; k++) {
		const struct cg_weight *weight = &net->cell->weights[f->rnn->vectors[k]];
		const struct cg_rnn_region region = cg_network_part(net, pseudo_layer, CG_RNN_VECTOR, k);

		for (int64_t u = 0; weight->given && u < region.columns; u++)
			cg_element_put(net->dtype, f->params + (size_t)(region.offset + u) * cg_dtype_bytes(net->dtype), weight->start);
	}

	for (int k = 0; k < net->n_scalars; k++) {
		const struct cg_rnn_region region = cg_network_part(net, pseudo_layer, CG_RNN_SCALAR, k);

		cg_element_put(net->dtype, f->params + (size_t)region.offset * cg_dtype_bytes(net->dtype), net->cell->scalars[k].start);
	}
}

static void fill_forget(const struct filling *f, int pseudo_layer)
{
	const struct cg_network *net = &f->rnn->net;

	for (int part = CG_RNN_BIAS_W; part <= CG_RNN_BIAS_R; part++) {
		const struct cg_rnn_region region = cg_network_part(net, pseudo_layer, part, f->choice->forget);

		for (int64_t u = 0; region.rows && u < region.columns; u++)
			cg_element_put(net->dtype, f->params + (size_t)(region.offset + u) * cg_dtype_bytes(net->dtype), part == CG_RNN_BIAS_W);
	}
}

int cg_rnn_init_params(const struct cg_rnn *rnn, const char *words, uint64_t seed, struct cg_mem params)
{
	struct filling f = { .rnn = rnn, .seed = seed };
	struct choice choice;
	size_t bytes;

	if (!rnn || !words || !params.data)
		return REFUSE("%s: expected a pointer, got NULL", !rnn ? "rnn" : !words ? "words" : "params");
	bytes = (size_t)rnn->net.params * cg_dtype_bytes(rnn->net.dtype);
	if (params.place != CG_HOST && params.place != CG_DEVICE)
		return REFUSE("params: cg_mem.place: expected CG_HOST=%d, got %d", CG_HOST, params.place);
	if (params.place != CG_HOST)
		return cg_fail(CG_UNSUPPORTED, "cg_rnn_init_params: params: cg_mem.place: expected CG_HOST=%d, got %d; cg_put "
		               "copies params to a device", CG_HOST, params.place);
	if (params.bytes != bytes)
		return REFUSE("params: expected %zu bytes, got %zu", bytes, params.bytes);
	CG_TRY(read_rules(rnn, words, &choice));
	f.choice = &choice;
	f.params = (char *)params.data + params.offset;
	for (int at = 0; at < rnn->net.layers * rnn->net.directions; at++) {
		CG_TRY(fill_part(&f, at, CG_RNN_INPUT, rnn->net.n_parts[CG_PART_W], INPUT));
		CG_TRY(fill_part(&f, at, CG_RNN_RECURRENT, rnn->net.n_parts[CG_PART_R], RECURRENT));
		CG_TRY(fill_part(&f, at, CG_RNN_PROJECTION, 1, RECURRENT));
		CG_TRY(fill_part(&f, at, CG_RNN_BIAS_W, rnn->net.n_parts[CG_PART_BIAS_W], BIAS));
		CG_TRY(fill_part(&f, at, CG_RNN_BIAS_R, rnn->net.n_parts[CG_PART_BIAS_R], BIAS));
		CG_TRY(fill_part(&f, at, CG_RNN_VECTOR, rnn->net.n_vectors, BIAS));
		fill_starts(&f, at);
		if (choice.forget >= 0)
			fill_forget(&f, at);
	}
	return CG_OK;
}
