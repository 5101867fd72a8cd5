/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/dnn_stand_in.h"

struct dnn dnn;

void dnn_begin(void)
{
	const char *version = getenv("CELLGRAD_FAKE_CUDNN"), *cuda = getenv("CELLGRAD_FAKE_CUDA");
	int old = version ? *version == '8' : cuda && !strncmp(cuda, "11", 2);
	void *library = load_library(old ? "libcudnn.so.8" : "libcudnn.so.9");

#define CUDNN_CALL(name, parameters, names) find(library, "cudnn", #name, &dnn.name); EXPECT(dnn.name);
#define CUDNN_COUNT CUDNN_CALL
#define CUDNN_WORDS CUDNN_CALL
#define CUDNN_TELLS(name, parameters, names) find(library, "cudnn", #name, &dnn.name);
#include "backends/cuda/cuda.fn"
	begin();
}

void dnn_end(void)
{
	end();
}

unsigned dnn_error(unsigned status)
{
	static const struct { unsigned status, old; } all[] = { { 2000, 3 }, { 3000, 9 }, { 4000, 4 }, { 4003, 2 }, { 5000, 8 } };

	for (size_t k = 0; dnn.GetVersion() < 10000 && k < sizeof all / sizeof *all; k++)
		if (all[k].status == status)
			return all[k].old;
	return status;
}

double fill_rule(int64_t k, int tag)
{
	return (double)((7 * k + tag) % 13 - 6) / 10;
}

/* ---- arrays ---- */

static size_t bytes_of(const struct net *n)
{
	return n->type == DOUBLE ? 8 : n->type == FLOAT ? 4 : 2;
}

struct array make_array(const struct net *n, int64_t elements)
{
	struct array a = { 0, elements };

	CHECK(cu.MemAlloc_v2(&a.at, (size_t)elements * bytes_of(n)));
	return a;
}

/* Converts a number to the network's type; in 16 bits it rounds ties away from 0, and in f16 numbers below the normal ones become 0. */
static void narrow(const struct net *n, double x, void *to)
{
	float f = (float)x;
	uint32_t bits;
	int exponent;

	memcpy(&bits, &f, sizeof bits);
	switch (n->type) {
	case DOUBLE:
		memcpy(to, &x, sizeof x);
		return;
	case FLOAT:
		memcpy(to, &f, sizeof f);
		return;
	case BFLOAT16:
		bits = (bits + 0x8000) >> 16;
		break;
	default:
		bits += 0x1000;
		exponent = (int)(bits >> 23 & 255) - 112;
		bits = (bits >> 16 & 0x8000) | (exponent <= 0 ? 0 : (uint32_t)exponent << 10 | (bits >> 13 & 1023));
	}
	memcpy(to, &bits, 2);
}

static double widen(const struct net *n, const void *from)
{
	uint16_t half;
	double x;
	float f;

	if (n->type == DOUBLE)
		return memcpy(&x, from, sizeof x), x;
	if (n->type == FLOAT)
		return memcpy(&f, from, sizeof f), (double)f;
	memcpy(&half, from, sizeof half);
	if (n->type == BFLOAT16) {
		uint32_t bits = (uint32_t)half << 16;

		return memcpy(&f, &bits, sizeof f), (double)f;
	}
	if ((half >> 10 & 31) == 31)
		return half & 1023 ? NAN : half >> 15 ? -INFINITY : INFINITY;
	x = half >> 10 & 31 ? ldexp(1024 + (half & 1023), (half >> 10 & 31) - 25) : ldexp(half & 1023, -24);
	return half >> 15 ? -x : x;
}

void put_array(const struct net *n, struct array a, const double *from)
{
	char *memory = malloc((size_t)a.n * 8);

	EXPECT(memory);
	for (int64_t k = 0; k < a.n; k++)
		narrow(n, from[k], memory + (size_t)k * bytes_of(n));
	CHECK(cu.MemcpyHtoDAsync_v2(a.at, memory, (size_t)a.n * bytes_of(n), stream));
	CHECK(cu.StreamSynchronize(stream));
	free(memory);
}

double *get_array(const struct net *n, struct array a)
{
	double *to = malloc(((size_t)a.n + 1) * sizeof *to);
	char *memory = malloc((size_t)a.n * 8);

	EXPECT(to && memory);
	CHECK(cu.MemcpyDtoHAsync_v2(memory, a.at, (size_t)a.n * bytes_of(n), stream));
	CHECK(cu.StreamSynchronize(stream));
	for (int64_t k = 0; k < a.n; k++)
		to[k] = widen(n, memory + (size_t)k * bytes_of(n));
	free(memory);
	return to;
}

static struct array filled(const struct net *n, int64_t elements, int tag)
{
	struct array a = make_array(n, elements);
	double *from = malloc((size_t)elements * sizeof *from);

	EXPECT(from);
	for (int64_t k = 0; k < elements; k++)
		from[k] = fill_rule(k, tag);
	put_array(n, a, from);
	free(from);
	return a;
}

/* ---- parameters ---- */

static int gates_of(const struct net *n)
{
	return n->cell == LSTM ? 4 : n->cell == GRU ? 3 : 1;
}

/* Calls a function for each region of the parameters that has elements, in the order of put_params; returns the number of elements. */
static int64_t each_region(const struct net *n, uint64_t base, void (*act)(const struct net *, struct array, void *), void *data)
{
	struct cudnnTensorStruct *matrix, *bias;
	int64_t all = 0;

	CHECK(dnn.CreateTensorDescriptor(&matrix));
	CHECK(dnn.CreateTensorDescriptor(&bias));
	for (int part = 0; part < 2; part++)
		for (int p = 0; p < n->L * n->D; p++)
			for (int id = 0; id <= 2 * gates_of(n); id++) {
				void *at[2];
				unsigned type;
				int rank, dims[3], strides[3];

				CHECK(dnn.GetRNNWeightParams(n->handle, n->rnn, p, n->weight_bytes, (void *)(uintptr_t)base, id, matrix, &at[0], bias, &at[1]));
				CHECK(dnn.GetTensorNdDescriptor(part ? bias : matrix, 3, &type, &rank, dims, strides));
				EXPECT(!rank == !at[part] && (!rank || (rank == 3 && dims[0] == 1 && strides[1] == dims[2] && strides[2] == 1)));
				if (!rank)
					continue;
				if (act)
					act(n, (struct array){ (uintptr_t)at[part], (int64_t)dims[1] * dims[2] }, data);
				all += (int64_t)dims[1] * dims[2];
			}
	CHECK(dnn.DestroyTensorDescriptor(matrix));
	CHECK(dnn.DestroyTensorDescriptor(bias));
	return all;
}

int64_t count_params(const struct net *n)
{
	return each_region(n, n->weights, NULL, NULL);
}

static void put_region(const struct net *n, struct array a, void *data)
{
	const double **from = data;

	put_array(n, a, *from);
	*from += a.n;
}

void put_params(const struct net *n, const double *from)
{
	each_region(n, n->weights, put_region, &from);
}

static void get_region(const struct net *n, struct array a, void *data)
{
	double **to = data, *part = get_array(n, a);

	memcpy(*to, part, (size_t)a.n * sizeof *part);
	*to += a.n;
	free(part);
}

double *get_dparams(const struct net *n)
{
	double *all = malloc((size_t)count_params(n) * sizeof *all), *to = all;

	EXPECT(all);
	each_region(n, n->dweights, get_region, &to);
	return all;
}

/* ---- a network ---- */

struct net a_net(void)
{
	return (struct net){
		.cell = LSTM, .type = DOUBLE, .math = FMA_MATH, .bias = 2, .D = 1, .L = 1, .T = 2, .B = 2, .I = 2, .U = 2, .flags = 1, .fills = 1,
		.lengths = { 2, 1 },
	};
}

int64_t net_h(const struct net *n)
{
	return n->P ? n->P : n->U;
}

static unsigned set_data(struct net *n, struct cudnnRNNDataStruct *data, int width)
{
	char fill[8];

	for (int b = 0; b < n->B; b++)
		n->lengths[b] = n->lengths[b] ? n->lengths[b] : n->T;
	narrow(n, (double)n->fill, fill);
	return dnn.SetRNNDataDescriptor(data, (unsigned)n->type, (unsigned)n->layout, n->T, n->B, width, n->lengths, n->fills ? fill : NULL);
}

static unsigned set_state(struct net *n, struct cudnnTensorStruct *tensor, int64_t width)
{
	const int dims[] = { n->L * n->D, n->B, (int)width }, strides[] = { n->B * (int)width, (int)width, 1 };

	return dnn.SetTensorNdDescriptor(tensor, (unsigned)n->type, 3, dims, strides);
}

unsigned net_set(struct net *n)
{
	unsigned code = dnn.SetRNNDescriptor_v8(n->rnn, (unsigned)n->algorithm, (unsigned)n->cell, (unsigned)n->bias, n->D == 2,
	                                        (unsigned)n->skip, (unsigned)n->type, n->type == DOUBLE, (unsigned)n->math, n->I, n->U,
	                                        (int)net_h(n), n->L, n->dropout, (uint32_t)n->flags);

	if (code)
		return code;
	CHECK(set_data(n, n->x_data, n->I));
	CHECK(set_data(n, n->y_data, n->D * (int)net_h(n)));
	CHECK(set_state(n, n->h, net_h(n)));
	CHECK(set_state(n, n->c, n->U));
	CHECK(cu.MemcpyHtoDAsync_v2(n->device_lengths, n->lengths, (size_t)n->B * sizeof *n->lengths, stream));
	CHECK(cu.StreamSynchronize(stream));
	return 0;
}

static void make_descriptors(struct net *n)
{
	size_t bytes = 0;

	CHECK(dnn.Create(&n->handle));
	CHECK(dnn.SetStream(n->handle, stream));
	CHECK(dnn.CreateRNNDescriptor(&n->rnn));
	CHECK(dnn.CreateRNNDataDescriptor(&n->x_data));
	CHECK(dnn.CreateRNNDataDescriptor(&n->y_data));
	CHECK(dnn.CreateTensorDescriptor(&n->h));
	CHECK(dnn.CreateTensorDescriptor(&n->c));
	CHECK(dnn.CreateDropoutDescriptor(&n->dropout));
	if (n->rate > 0) {
		CHECK(dnn.DropoutGetStatesSize(n->handle, &bytes));
		CHECK(cu.MemAlloc_v2(&n->states, bytes));
	}
	CHECK(dnn.SetDropoutDescriptor(n->dropout, n->handle, n->rate, (void *)(uintptr_t)n->states, bytes, n->seed));
}

static void make_spaces(struct net *n)
{
	int64_t all;
	double *params;

	CHECK(dnn.GetRNNWeightSpaceSize(n->handle, n->rnn, &n->weight_bytes));
	CHECK(dnn.GetRNNTempSpaceSizes(n->handle, n->rnn, 1, n->x_data, &n->work_bytes, &n->reserve_bytes));
	CHECK(cu.MemAlloc_v2(&n->weights, n->weight_bytes));
	CHECK(cu.MemAlloc_v2(&n->dweights, n->weight_bytes));
	CHECK(cu.MemAlloc_v2(&n->work, n->work_bytes));
	CHECK(cu.MemAlloc_v2(&n->reserve, n->reserve_bytes));
	all = count_params(n);
	params = malloc((size_t)all * sizeof *params);
	EXPECT(params);
	for (int64_t k = 0; k < all; k++)
		params[k] = fill_rule(k, 4);
	put_params(n, params);
	free(params);
}

void net_open(struct net *n)
{
	int64_t rows = (int64_t)n->T * n->B, H = net_h(n), states = (int64_t)n->L * n->D * n->B;

	make_descriptors(n);
	CHECK(cu.MemAlloc_v2(&n->device_lengths, (size_t)n->B * sizeof *n->lengths));
	n->given_lengths = dnn.GetVersion() < 8901 ? (void *)(uintptr_t)n->device_lengths : NULL;
	CHECK(net_set(n));
	n->x = filled(n, rows * n->I, 1);
	n->y = make_array(n, rows * n->D * H);
	n->dy = filled(n, rows * n->D * H, 8);
	n->dx = make_array(n, rows * n->I);
	n->hx = filled(n, states * H, 3);
	n->hy = make_array(n, states * H);
	n->dhy = filled(n, states * H, 9);
	n->dhx = make_array(n, states * H);
	n->cx = filled(n, states * n->U, 2);
	n->cy = make_array(n, states * n->U);
	n->dcy = filled(n, states * n->U, 10);
	n->dcx = make_array(n, states * n->U);
	make_spaces(n);
}

#define AT(a) ((void *)(uintptr_t)(a))

unsigned net_forward(struct net *n, int training)
{
	return dnn.RNNForward(n->handle, n->rnn, (unsigned)training, n->given_lengths, n->x_data, AT(n->x.at), n->y_data, AT(n->y.at), n->h,
	                      AT(n->hx.at), AT(n->hy.at), n->c, AT(n->cx.at), AT(n->cy.at), n->weight_bytes, AT(n->weights),
	                      n->work_bytes, AT(n->work), training ? n->reserve_bytes : 0, training ? AT(n->reserve) : NULL);
}

unsigned net_data(struct net *n)
{
	return dnn.RNNBackwardData_v8(n->handle, n->rnn, n->given_lengths, n->y_data, AT(n->y.at), AT(n->dy.at), n->x_data, AT(n->dx.at), n->h,
	                              AT(n->hx.at), AT(n->dhy.at), AT(n->dhx.at), n->c, AT(n->cx.at), AT(n->dcy.at), AT(n->dcx.at),
	                              n->weight_bytes, AT(n->weights), n->work_bytes, AT(n->work), n->reserve_bytes, AT(n->reserve));
}

unsigned net_weights(struct net *n)
{
	return dnn.RNNBackwardWeights_v8(n->handle, n->rnn, 0, n->given_lengths, n->x_data, AT(n->x.at), n->h, AT(n->hx.at), n->y_data,
	                                 AT(n->y.at), n->weight_bytes, AT(n->dweights), n->work_bytes, AT(n->work), n->reserve_bytes,
	                                 AT(n->reserve));
}

void net_train(struct net *n)
{
	CHECK(cu.MemsetD8Async(n->dweights, 0, n->weight_bytes, stream));
	CHECK(net_forward(n, 1));
	CHECK(net_data(n));
	CHECK(net_weights(n));
	CHECK(cu.StreamSynchronize(stream));
}

void net_close(struct net *n)
{
	const uint64_t all[] = { n->x.at, n->y.at, n->dy.at, n->dx.at, n->hx.at, n->hy.at, n->cx.at, n->cy.at, n->dhy.at, n->dhx.at, n->dcy.at,
		n->dcx.at, n->weights, n->dweights, n->work, n->reserve, n->states, n->device_lengths };

	CHECK(cu.StreamSynchronize(stream));
	for (size_t k = 0; k < sizeof all / sizeof *all; k++)
		CHECK(cu.MemFree_v2(all[k]));
	CHECK(dnn.DestroyRNNDescriptor(n->rnn));
	CHECK(dnn.DestroyRNNDataDescriptor(n->x_data));
	CHECK(dnn.DestroyRNNDataDescriptor(n->y_data));
	CHECK(dnn.DestroyTensorDescriptor(n->h));
	CHECK(dnn.DestroyTensorDescriptor(n->c));
	CHECK(dnn.DestroyDropoutDescriptor(n->dropout));
	CHECK(dnn.Destroy(n->handle));
}

/* ---- the network of a trial ---- */

struct net net;

void ready(void)
{
	net = a_net();
	dnn_begin();
	net_open(&net);
}

void leave(void)
{
	net_close(&net);
	dnn_end();
}

void wait_for(int code)
{
	EXPECT(cu.StreamSynchronize(stream) == code);
	exit(0);
}
