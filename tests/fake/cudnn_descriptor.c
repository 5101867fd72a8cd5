/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcudnn: descriptors of networks and of their data, the layout of weights, sizes of memory. */
#include <stdlib.h>
#include <string.h>

#include "cudnn.h"

/* ---- networks ---- */

FAKE_API int cudnnCreateRNNDescriptor(struct rnn **result)
{
	DNN_CALL(cudnnCreateRNNDescriptor, ANY_TIME);
	*result = fake_new(DNN_RNN, sizeof **result);
	return 0;
}

FAKE_API int cudnnDestroyRNNDescriptor(struct rnn *rnn)
{
	DNN_CALL(cudnnDestroyRNNDescriptor, ANY_TIME);
	return fake_dnn_destroy("cudnnDestroyRNNDescriptor", DNN_RNN, rnn);
}

/* bfloat16 came in 9.13. */
static int has_type(int type)
{
	return fake_dnn_type(type) >= 0 && (type != DNN_BFLOAT16 || fake_dnn_version() >= 91300);
}

static int has_precision(int type, int precision, int algorithm)
{
	if (type == DNN_DOUBLE)
		return precision == DNN_DOUBLE && algorithm != PERSIST_STATIC && algorithm != PERSIST_SMALL_H;
	if (type == DNN_HALF && precision == DNN_HALF)
		return algorithm == STANDARD;
	return precision == DNN_FLOAT;
}

/* Do products of f32 use tensor cores with TF32? Products of f32 use TF32 from compute capability 8.0 on, unless the math type forbids
   it. */
static int narrows(int type, unsigned math)
{
	return type == DNN_FLOAT && math != FMA_MATH && fake_setting("ARCH", 86) >= 80;
}

/*
 * In f16 and bf16 the standard algorithm keeps in the data's type everything that one of its kernels passes to the next: x W, R h, c
 * and gates, and in the gradient dgates, dh and dc.  Seen in cuDNN 9.26, libcudnn_adv.so.9 for sm_90a: all 7 inputs and 5 outputs of
 * elemWiseRNNcell<__half, __half, float, LSTM, bias 2> are __half *, those of bf16 __nv_bfloat16 *, the loads of this kernel from memory
 * have 16 bits, and so have the nine loads of LSTM_elementWise_bp1<__half, __half, float>.  cuDNN runs kernels
 * on __half even if the math precision of the network is f32: memcheck's output in pytorch/pytorch#65301 names
 * GRU_elementWise_bp1<__half, __half, float>.  In bf16 on an H200 the static persistent algorithm of cuDNN 9.14 gives the same bits as the
 * standard algorithm.
 */
static int keeps_halves(int type, int algorithm)
{
	return type == DNN_HALF ? algorithm == STANDARD : type == DNN_BFLOAT16 && algorithm != PERSIST_SMALL_H;
}

/*
 * In the small persistent kernels and in the static ones of f16 tanh is the instruction MUFU.TANH, whose relative error is up to
 * 2^-11 (PTX ISA, tanh.approx.f32).  MUFU.TANH was seen in these kernels of cuDNN 9.26, libcudnn_adv.so.9 for sm_90a:
 * RNN_blockPersist_fp_LSTM, _GRU and _RNN <float, float, float, 128>, RNN_blockPersist_bp_LSTM_FMA<float, float, float, 128>;
 * ampere_lstm_tile16.  The small persistent kernels of f16 are assumed to use MUFU.TANH, too.
 */
static int has_coarse_tanh(int type, int algorithm)
{
	return algorithm == PERSIST_SMALL_H || (algorithm == PERSIST_STATIC && type == DNN_HALF);
}

FAKE_API int cudnnSetRNNDescriptor_v8(struct rnn *rnn, unsigned algorithm, unsigned cell, unsigned bias, unsigned direction,
                                      unsigned input, unsigned type, unsigned precision, unsigned math, int32_t input_size,
                                      int32_t hidden_size, int32_t projection_size, int32_t layers, struct dropout *dropout,
                                      uint32_t flags)
{
	const char *call = "cudnnSetRNNDescriptor_v8";
	static const int gates[] = { [RELU] = 1, [TANH] = 1, [LSTM] = 4, [GRU] = 3 };

	DNN_CALL(cudnnSetRNNDescriptor_v8, ANY_TIME);
	if (!fake_known(call, DNN_RNN, rnn) || !fake_dnn_set(call, DNN_DROPOUT, dropout))
		return fake_dnn_bad(call);
	if (algorithm > PERSIST_SMALL_H || cell > GRU || bias > SINGLE_RECURRENT_BIAS || direction > 1 || input > 1 || math > FMA_MATH ||
	    flags & ~(uint32_t)PADDED_IO)
		return fake_dnn_wrong(call, "algorithm %u, cell %u, bias %u, direction %u, input %u, math %u, flags %#x: one is not valid",
		                      algorithm, cell, bias, direction, input, math, flags);
	if (input_size < 1 || hidden_size < 1 || projection_size < 1 || layers < 1)
		return fake_dnn_wrong(call, "input %d, hidden %d, projection %d, layers %d: one is less than 1", input_size, hidden_size,
		                      projection_size, layers);
	if (!has_type((int)type) || !has_precision((int)type, (int)precision, (int)algorithm))
		return fake_dnn_lacks(call, "type %u with sums of %u by algorithm %u", type, precision, algorithm);
	if (projection_size > hidden_size || (projection_size < hidden_size && (cell != LSTM || algorithm != STANDARD)))
		return fake_dnn_lacks(call, "a projection of %d units to %d", hidden_size, projection_size);
	if (bias != DOUBLE_BIAS && algorithm != STANDARD)
		return fake_dnn_lacks(call, "algorithm %u without two biases", algorithm);
	*rnn = (struct rnn){
		.handle = rnn->handle, .set = 1, .algorithm = (int)algorithm, .dnn_type = (int)type, .flags = (int)flags, .dropout = dropout,
		.model = {
			.cell = (int)cell, .gates = gates[cell], .bias = (int)bias, .D = 1 + (int)direction, .skip = (int)input,
			.type = fake_dnn_type((int)type), .narrow = narrows((int)type, math),
			.in_halves = keeps_halves((int)type, (int)algorithm), .coarse_tanh = has_coarse_tanh((int)type, (int)algorithm),
			.permuted = fake_dnn_chance("LAYOUT", CHANCE_LAYOUT), .shows_input = (int)fake_setting("CUDNN_SKIP", 0),
			.L = layers, .I = input_size, .U = hidden_size, .H = projection_size,
			.P = projection_size < hidden_size ? projection_size : 0,
		},
	};
	return 0;
}

/* The persistent kernels hold a part of R in registers, which limits the number of units; none of them accepts sequences of different
   lengths.  cuDNN 9.14 on an H200 accepts 1536 units for a static LSTM or GRU and refuses 2048, which it accepts for an RNN. */
int fake_persists(const char *call, const struct rnn *rnn, const struct data *x, int backward)
{
	int64_t U = rnn->model.U, plain = rnn->model.cell <= TANH;
	int64_t most[] = {
		[PERSIST_STATIC] = plain ? 2048 : 1536, [PERSIST_DYNAMIC] = plain ? 2560 : 1536,
		[PERSIST_SMALL_H] = (plain ? 384 : 192) / 3 * (backward ? 2 : 3)
	};

	if (rnn->algorithm == STANDARD)
		return 0;
	/* It is not known whether cuDNN's persistent algorithms accept a batch-major sequence; PyTorch never passes one to them. */
	if (x->layout == BATCH_MAJOR_UNPACKED)
		return fake_dnn_lacks(call, "algorithm %d with a batch-major sequence", rnn->algorithm);
	for (int b = 0; b < x->B; b++)
		if (x->lengths[b] != x->T)
			return fake_dnn_lacks(call, "algorithm %d with rows of different lengths", rnn->algorithm);
	if (U > most[rnn->algorithm] || (rnn->algorithm == PERSIST_STATIC && U % 32))
		return fake_dnn_lacks(call, "algorithm %d with %lld units", rnn->algorithm, (long long)U);
	if (fake_setting("ARCH", 86) < 60)
		return fake_dnn_lacks(call, "algorithm %d on this device", rnn->algorithm);
	return rnn->algorithm != PERSIST_DYNAMIC || rnn->built == x->B ? 0
	       : fake_dnn_wrong(call, "cudnnBuildRNNDynamic was for a batch of %d, not of %d", rnn->built, x->B);
}

FAKE_API int cudnnBuildRNNDynamic(struct dnn *handle, struct rnn *rnn, int batch)
{
	const char *call = "cudnnBuildRNNDynamic";

	DNN_CALL(cudnnBuildRNNDynamic, NEEDS_CONTEXT);
	if (!fake_dnn_handle(call, handle) || !fake_dnn_set(call, DNN_RNN, rnn) || fake_capturing(call))
		return fake_dnn_bad(call);
	if (batch < 1 || rnn->algorithm != PERSIST_DYNAMIC)
		return fake_dnn_wrong(call, "a batch of %d, algorithm %d", batch, rnn->algorithm);
	rnn->built = batch;
	return 0;
}

/* ---- their data ---- */

FAKE_API int cudnnCreateRNNDataDescriptor(struct data **result)
{
	DNN_CALL(cudnnCreateRNNDataDescriptor, ANY_TIME);
	*result = fake_new(DNN_DATA, sizeof **result);
	return 0;
}

FAKE_API int cudnnDestroyRNNDataDescriptor(struct data *data)
{
	DNN_CALL(cudnnDestroyRNNDataDescriptor, ANY_TIME);
	if (data && fake_known("cudnnDestroyRNNDataDescriptor", DNN_DATA, data))
		free(data->lengths);
	return fake_dnn_destroy("cudnnDestroyRNNDataDescriptor", DNN_DATA, data);
}

static int check_lengths(const char *call, unsigned layout, int longest, int batch, const int *lengths)
{
	int most = 0;

	for (int b = 0; b < batch; b++) {
		if (lengths[b] < 1 || lengths[b] > longest)
			return fake_dnn_wrong(call, "length %d of row %d is not from 1 to %d", lengths[b], b, longest);
		if (layout == SEQ_MAJOR_PACKED && b && lengths[b] > lengths[b - 1])
			return fake_dnn_wrong(call, "packed rows are not sorted: length %d after %d", lengths[b], lengths[b - 1]);
		most = lengths[b] > most ? lengths[b] : most;
	}
	if (layout == SEQ_MAJOR_PACKED && most != longest)
		return fake_dnn_wrong(call, "the longest of packed rows has %d steps, not %d", most, longest);
	return 0;
}

FAKE_API int cudnnSetRNNDataDescriptor(struct data *data, unsigned type, unsigned layout, int longest, int batch, int width,
                                       const int *lengths, void *padding)
{
	const char *call = "cudnnSetRNNDataDescriptor";
	int code;

	DNN_CALL(cudnnSetRNNDataDescriptor, ANY_TIME);
	if (!fake_known(call, DNN_DATA, data))
		return fake_dnn_bad(call);
	if (layout > BATCH_MAJOR_UNPACKED || longest < 1 || batch < 1 || width < 1 || !lengths)
		return fake_dnn_wrong(call, "layout %u, %d steps, %d rows, width %d, lengths at %p: one is not valid", layout, longest, batch,
		                      width, (const void *)lengths);
	/* cuDNN 9.26 rejects 65536 steps, and accepts 65535. */
	if (!has_type((int)type) || longest > 65535)
		return fake_dnn_lacks(call, "type %u, %d steps", type, longest);
	code = check_lengths(call, layout, longest, batch, lengths);
	if (code)
		return code;
	free(data->lengths);
	*data = (struct data){ data->handle, 1, (int)type, (int)layout, longest, batch, width, padding != NULL, NULL, 0 };
	data->lengths = malloc((size_t)batch * sizeof *lengths);
	if (!data->lengths)
		abort();
	memcpy(data->lengths, lengths, (size_t)batch * sizeof *lengths);
	if (padding)
		data->fill = fake_load(padding, 0, fake_dnn_type((int)type));
	return 0;
}

/* ---- weights ---- */

int fake_ids(const struct model *m)
{
	return 2 * m->gates + (m->P > 0);
}

int64_t fake_width(const struct model *m, int64_t layer)
{
	return layer ? m->D * m->H : m->I;
}

static struct region shape_of(const struct model *m, int pseudo_layer, int id, int part)
{
	static const int has[][2] = { [NO_BIAS] = { 0, 0 }, [SINGLE_INPUT_BIAS] = { 1, 0 }, [DOUBLE_BIAS] = { 1, 1 },
		[SINGLE_RECURRENT_BIAS] = { 0, 1 } };
	int layer = pseudo_layer / m->D, recurrent = id >= m->gates, projection = id == 2 * m->gates;

	if (part == BIAS)
		return (struct region){ 0, !projection && has[m->bias][recurrent] ? m->U : 0, 1 };
	if (projection)
		return (struct region){ 0, m->P, m->U };
	if (!recurrent && !layer && m->skip && !m->shows_input)
		return (struct region){ 0, 0, m->I };
	return (struct region){ 0, m->U, recurrent ? m->H : fake_width(m, layer) };
}

/*
 * The weights are all matrices and then all biases, each by pseudo-layer and id; with the permuted layout in reverse order, with gaps
 * between them. An absent matrix or bias has the offset at which the one before it ends; for pseudo-layer -1 the offset is that of the end
 * of all.
 */
struct region fake_region(const struct model *m, int pseudo_layer, int id, int part)
{
	int n = (int)m->L * m->D, ids = fake_ids(m), all = 2 * n * ids;
	struct region r;
	int64_t end = 0;

	for (int k = 0; k < all; k++) {
		int at = m->permuted ? all - 1 - k : k, its_part = at / (n * ids), its_layer = at / ids % n, its_id = at % ids;

		r = shape_of(m, its_layer, its_id, its_part);
		if (m->permuted && r.rows)
			end = (end + 8 + 31) / 32 * 32;
		r.offset = end;
		if (its_part == part && its_layer == pseudo_layer && its_id == id)
			return r;
		end += r.rows * r.columns;
	}
	return (struct region){ end, 0, 0 };
}

size_t fake_weight_bytes(const struct model *m)
{
	return (size_t)fake_region(m, -1, 0, 0).offset * fake_type_bytes((unsigned)m->type);
}

FAKE_API int cudnnGetRNNWeightSpaceSize(struct dnn *handle, struct rnn *rnn, size_t *bytes)
{
	const char *call = "cudnnGetRNNWeightSpaceSize";

	DNN_CALL(cudnnGetRNNWeightSpaceSize, NEEDS_CONTEXT);
	if (!fake_dnn_handle(call, handle) || !fake_dnn_set(call, DNN_RNN, rnn) || !bytes)
		return fake_dnn_bad(call);
	*bytes = fake_weight_bytes(&rnn->model);
	return 0;
}

/* An absent matrix has no address, and a descriptor without dimensions. */
static void describe(const struct rnn *rnn, struct region r, const char *weights, struct tensor *tensor, void **at)
{
	const int dims[] = { 1, (int)r.rows, (int)r.columns }, strides[] = { (int)(r.rows * r.columns), (int)r.columns, 1 };

	tensor->set = 1;
	tensor->type = rnn->dnn_type;
	tensor->n = r.rows ? 3 : 0;
	memcpy(tensor->dims, dims, sizeof dims);
	memcpy(tensor->strides, strides, sizeof strides);
	*at = r.rows ? (void *)(uintptr_t)(weights + (size_t)r.offset * fake_type_bytes((unsigned)rnn->model.type)) : NULL;
}

FAKE_API int cudnnGetRNNWeightParams(struct dnn *handle, struct rnn *rnn, int32_t pseudo_layer, size_t bytes, const void *weights,
                                     int32_t id, struct tensor *matrix, void **matrix_at, struct tensor *bias, void **bias_at)
{
	const char *call = "cudnnGetRNNWeightParams";
	struct region none = { 0, 0, 0 };
	int exists;

	DNN_CALL(cudnnGetRNNWeightParams, NEEDS_CONTEXT);
	if (!fake_dnn_handle(call, handle) || !fake_dnn_set(call, DNN_RNN, rnn) || !fake_known(call, DNN_TENSOR, matrix) ||
	    !fake_known(call, DNN_TENSOR, bias))
		return fake_dnn_bad(call);
	if (!weights || !matrix_at || !bias_at || matrix == bias)
		return fake_dnn_wrong(call, "weights at %p, addresses to %p and %p: one is not valid", weights, (void *)matrix_at, (void *)bias_at);
	if (bytes < fake_weight_bytes(&rnn->model) || (uintptr_t)weights % fake_type_bytes((unsigned)rnn->model.type))
		return fake_dnn_wrong(call, "weights of %zu bytes at %p, where there are to be %zu", bytes, weights, fake_weight_bytes(&rnn->model));
	if (pseudo_layer < 0 || pseudo_layer >= rnn->model.L * rnn->model.D || id < 0 || id > 2 * rnn->model.gates)
		return fake_dnn_wrong(call, "pseudo-layer %d, matrix %d: there is none", pseudo_layer, id);
	exists = id < fake_ids(&rnn->model);
	describe(rnn, exists ? fake_region(&rnn->model, pseudo_layer, id, MATRIX) : none, weights, matrix, matrix_at);
	describe(rnn, exists ? fake_region(&rnn->model, pseudo_layer, id, BIAS) : none, weights, bias, bias_at);
	return 0;
}

/* ---- memory of a call ---- */

/* The workspace grows with the number of valid steps, and has at least 4096 bytes. */
size_t fake_work_bytes(const struct model *m, const struct data *x)
{
	size_t steps = 0;

	for (int b = 0; b < x->B; b++)
		steps += (size_t)x->lengths[b];
	return 4096 + 4 * (steps + 1) * (size_t)(m->gates * m->U + m->H);
}

FAKE_API int cudnnGetRNNTempSpaceSizes(struct dnn *handle, struct rnn *rnn, unsigned mode, struct data *x, size_t *work_bytes,
                                       size_t *reserve_bytes)
{
	const char *call = "cudnnGetRNNTempSpaceSizes";
	int code;

	DNN_CALL(cudnnGetRNNTempSpaceSizes, NEEDS_CONTEXT);
	if (!fake_dnn_handle(call, handle) || !fake_dnn_set(call, DNN_RNN, rnn) || !fake_dnn_set(call, DNN_DATA, x))
		return fake_dnn_bad(call);
	if (mode > TRAINING || x->type != rnn->dnn_type || x->width != rnn->model.I)
		return fake_dnn_wrong(call, "mode %u, type %d, width %d for a network of type %d and input %lld", mode, x->type, x->width,
		                      rnn->dnn_type, (long long)rnn->model.I);
	code = fake_persists(call, rnn, x, 0);
	if (code)
		return code;
	if (work_bytes)
		*work_bytes = fake_work_bytes(&rnn->model, x);
	if (reserve_bytes)
		*reserve_bytes = mode == TRAINING ? fake_reserve_bytes(&rnn->model, x->T, x->B) : 0;
	return 0;
}
