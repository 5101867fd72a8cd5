/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of the matrices, biases and per-unit vectors of a CudnnRNN model in its one buffer, and TensorFlow's canonical lists.
 */
#include "verify/sequence.h"

static const int gates[] = { [REF_LSTM] = 4, [REF_GRU] = 3, [REF_RNN_TANH] = 1, [REF_RNN_RELU] = 1 };

enum { VECTORS = 3 };

/* The number of ids that a pseudo-layer has in one part of params: weights, biases or vectors. first() gives the lowest of these ids. */
static int ids(const struct ref_rnn *p, int part)
{
	switch (part) {
	case REF_WEIGHT: return 2 * gates[p->mode] + (p->P > 0);
	case REF_BIAS:   return 2 * gates[p->mode];
	default:         return p->peephole && p->mode == REF_LSTM ? VECTORS : 0;
	}
}

static int first(const struct ref_rnn *p, int part)
{
	return part == REF_VECTOR ? 2 * gates[p->mode] + 1 : 0;
}

static struct ref_region shape(const struct ref_rnn *p, int64_t pseudo_layer, int id, int part)
{
	int64_t D = 1 + !!p->bidirectional, H = p->P ? p->P : p->U, G = gates[p->mode];
	int skip = p->input_mode == REF_SKIP || (p->input_mode == REF_AUTO && p->I == p->U);

	if (part != REF_WEIGHT)
		return (struct ref_region){ 0, 1, p->U };
	if (id == 2 * G)
		return (struct ref_region){ 0, H, p->U };
	if (id >= G)
		return (struct ref_region){ 0, p->U, H };
	if (pseudo_layer >= D)
		return (struct ref_region){ 0, p->U, D * H };
	return skip ? (struct ref_region){ 0, 0, 0 } : (struct ref_region){ 0, p->U, p->I };
}

/* Finds a region of the params buffer by adding the lengths of all regions before it. pseudo_layer = -1: finds the end of the buffer. */
static struct ref_region find_region(const struct ref_rnn *p, int64_t pseudo_layer, int id, int part)
{
	int64_t offset = 0, n = p->L * (1 + !!p->bidirectional);
	struct ref_region r;

	for (int a = REF_WEIGHT; a <= REF_VECTOR; a++) {
		for (int64_t l = 0; l < n; l++) {
			for (int j = first(p, a); j < first(p, a) + ids(p, a); j++) {
				r = shape(p, l, j, a);
				r.offset = offset;
				if (a == part && l == pseudo_layer && j == id)
					return r;
				offset += r.rows * r.columns;
			}
		}
	}
	return (struct ref_region){ offset, 0, 0 };
}

int64_t ref_rnn_size(const struct ref_rnn *p)
{
	return find_region(p, -1, 0, 0).offset;
}

struct ref_region ref_rnn_region(const struct ref_rnn *p, int64_t pseudo_layer, int id, int part)
{
	return find_region(p, pseudo_layer, id, part);
}

int64_t ref_rnn_canonical_count(const struct ref_rnn *p, int part)
{
	return p->L * (1 + !!p->bidirectional) * ids(p, part);
}

struct ref_region ref_rnn_canonical(const struct ref_rnn *p, int64_t n, int part)
{
	return find_region(p, n / ids(p, part), (int)(n % ids(p, part)), part);
}

void ref_rnn_to_canonical(const struct ref_rnn *p, const double *params, double *const *weights, double *const *biases)
{
	struct ref_region r;

	for (int part = REF_WEIGHT; part <= REF_BIAS; part++) {
		for (int64_t n = 0; n < ref_rnn_canonical_count(p, part); n++) {
			r = ref_rnn_canonical(p, n, part);
			for (int64_t j = 0; j < r.rows * r.columns; j++)
				(part == REF_WEIGHT ? weights : biases)[n][j] = params[r.offset + j];
		}
	}
}

void ref_rnn_from_canonical(const struct ref_rnn *p, const double *const *weights, const double *const *biases,
	double *params)
{
	struct ref_region r;

	for (int part = REF_WEIGHT; part <= REF_BIAS; part++) {
		for (int64_t n = 0; n < ref_rnn_canonical_count(p, part); n++) {
			r = ref_rnn_canonical(p, n, part);
			for (int64_t j = 0; j < r.rows * r.columns; j++)
				params[r.offset + j] = (part == REF_WEIGHT ? weights : biases)[n][j];
		}
	}
}
