/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcudnn: how the reserve is divided, how it identifies the call that wrote it, and weights as doubles. */
#include <stdlib.h>
#include <string.h>

#include "cudnn.h"

/* ---- the reserve ---- */

static double *carve(uintptr_t *at, int64_t n)
{
	double *piece = (double *)*at;

	*at += (uintptr_t)n * sizeof(double);
	return piece;
}

static struct pseudo divide(const struct model *m, int64_t T, int64_t B, uintptr_t *at)
{
	int64_t rows = T * B, gates = m->gates * m->U;
	struct pseudo p;

	p.gate = carve(at, rows * gates);
	p.q = carve(at, rows * m->U);
	p.c = carve(at, rows * m->U);
	p.m = carve(at, rows * m->U);
	p.h = carve(at, rows * m->H);
	p.h_first = carve(at, B * m->H);
	p.c_first = carve(at, B * m->U);
	p.da = carve(at, rows * gates);
	p.dq = carve(at, rows * gates);
	p.dh = carve(at, rows * m->H);
	return p;
}

/* Sets the pointers of `saved` to arrays in the memory from `start` on; returns how many bytes the arrays take. */
size_t fake_saved_open(struct saved *saved, const struct model *m, int64_t T, int64_t B, void *start)
{
	uintptr_t at = (uintptr_t)start;

	saved->in = calloc((size_t)(2 * m->L), sizeof *saved->in);
	saved->pseudo = calloc((size_t)(m->L * m->D), sizeof *saved->pseudo);
	if (!saved->in || !saved->pseudo)
		abort();
	saved->factor = saved->in + m->L;
	saved->stamp = (struct stamp *)at;
	at += sizeof *saved->stamp;
	for (int64_t l = 0; l < m->L; l++) {
		saved->in[l] = carve(&at, T * B * fake_width(m, l));
		saved->factor[l] = l ? carve(&at, T * B * fake_width(m, l)) : NULL;
		for (int64_t d = 0; d < m->D; d++)
			saved->pseudo[l * m->D + d] = divide(m, T, B, &at);
	}
	return at - (uintptr_t)start;
}

void fake_saved_close(struct saved *saved)
{
	free(saved->in);
	free(saved->pseudo);
}

size_t fake_reserve_bytes(const struct model *m, int64_t T, int64_t B)
{
	struct saved saved;
	size_t bytes = fake_saved_open(&saved, m, T, B, NULL);

	fake_saved_close(&saved);
	return bytes;
}

/* ---- which call wrote a reserve ---- */

enum { FNV_PRIME = 0x1b3 };
static const uint64_t start = UINT64_C(0xcbf29ce484222325), prime = UINT64_C(0x10000000000) + FNV_PRIME;

static uint64_t sum_bytes(uint64_t sum, const void *data, size_t bytes)
{
	const unsigned char *at = data;

	for (size_t k = 0; k < bytes; k++)
		sum = (sum ^ at[k]) * prime;
	return sum;
}

/* The checksum of bytes of device memory; of an absent argument, whose address is 0, it is 0. */
uint64_t fake_bytes_sum(uint64_t at, size_t bytes)
{
	return at ? sum_bytes(start, fake_data(at), bytes) | 1 : 0;
}

uint64_t fake_stamp_of(const struct net *net)
{
	const struct model *m = &net->m;
	const int64_t words[] = { m->cell, m->gates, m->bias, m->D, m->skip, m->type, m->permuted, m->L, m->I, m->U, m->H, m->P, net->T, net->B };

	return sum_bytes(sum_bytes(start, words, sizeof words), net->lengths, (size_t)net->B * sizeof *net->lengths);
}

/* The checksum of a sequence counts its valid steps alone. */
uint64_t fake_sequence_sum(const struct net *net, const struct sequence *x)
{
	uint64_t sum = start;

	for (int64_t b = 0; b < net->B; b++)
		for (int64_t t = 0; t < net->lengths[b]; t++)
			sum = sum_bytes(sum, fake_data(fake_step_address(net, x, t, b)), (size_t)x->width * fake_type_bytes((unsigned)net->m.type));
	return sum;
}

uint64_t fake_weights_sum(const struct net *net)
{
	size_t element = fake_type_bytes((unsigned)net->m.type);
	uint64_t sum = start;

	for (int p = 0; p < net->m.L * net->m.D; p++)
		for (int k = 0; k < 2 * fake_ids(&net->m); k++) {
			struct region r = fake_region(&net->m, p, k / 2, k % 2);

			sum = sum_bytes(sum, fake_data(net->weights + (size_t)r.offset * element), (size_t)(r.rows * r.columns) * element);
		}
	return sum;
}

uint64_t fake_step_address(const struct net *net, const struct sequence *s, int64_t t, int64_t b)
{
	int64_t row = s->layout == SEQ_MAJOR_UNPACKED ? t * net->B + b : b * net->T + t;

	if (s->layout == SEQ_MAJOR_PACKED) {
		row = b;
		for (int64_t k = 0; k < net->B; k++)
			row += net->lengths[k] < t ? net->lengths[k] : t;
	}
	return s->at + (uint64_t)(row * s->width) * fake_type_bytes((unsigned)net->m.type);
}

/* ---- weights ---- */

static void load_region(const struct net *net, int pseudo_layer, int id, int part, double *to)
{
	struct region r = fake_region(&net->m, pseudo_layer, id, part);
	const char *from = fake_data(net->weights);

	for (int64_t k = 0; k < r.rows * r.columns; k++) {
		double x = fake_load(from, (size_t)(r.offset + k), net->m.type);

		to[k] = net->m.narrow && part == MATRIX ? fake_rounded(x, 10, -126) : x;
	}
}

static void turn(int64_t rows, int64_t columns, const double *from, double *to)
{
	for (int64_t j = 0; j < rows; j++)
		for (int64_t k = 0; k < columns; k++)
			to[k * rows + j] = from[j * columns + k];
}

/* An absent bias is zero. */
struct weights fake_weights(const struct net *net, int pseudo_layer)
{
	const struct model *m = &net->m;
	int64_t in = fake_width(m, pseudo_layer / m->D), GU = m->gates * m->U, n = 2 * (GU * in + GU * m->H + m->P * m->U + GU);
	uintptr_t at = (uintptr_t)calloc((size_t)n, sizeof(double));
	struct weights w;

	if (!at)
		abort();
	w.w = carve(&at, GU * in);
	w.w_turned = carve(&at, GU * in);
	w.r = carve(&at, GU * m->H);
	w.r_turned = carve(&at, GU * m->H);
	w.p = carve(&at, m->P * m->U);
	w.p_turned = carve(&at, m->P * m->U);
	w.b_input = carve(&at, GU);
	w.b_recurrent = carve(&at, GU);
	for (int g = 0; g < m->gates; g++) {
		load_region(net, pseudo_layer, g, MATRIX, w.w + g * m->U * in);
		load_region(net, pseudo_layer, m->gates + g, MATRIX, w.r + g * m->U * m->H);
		load_region(net, pseudo_layer, g, BIAS, w.b_input + g * m->U);
		load_region(net, pseudo_layer, m->gates + g, BIAS, w.b_recurrent + g * m->U);
	}
	if (m->P)
		load_region(net, pseudo_layer, 2 * m->gates, MATRIX, w.p);
	turn(GU, in, w.w, w.w_turned);
	turn(GU, m->H, w.r, w.r_turned);
	turn(m->P, m->U, w.p, w.p_turned);
	return w;
}
