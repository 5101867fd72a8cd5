/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcudnn: descriptors, sizes and versions, and the mistakes that are reported before anything runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fake/dnn_stand_in.h"

#define AT(a) ((void *)(uintptr_t)(a))

/* ---- handles and descriptors ---- */

static void right(void)
{
	ready();
	net_train(&net);
	leave();
}

static void all_left(void)
{
	ready();
	exit(0);
}

static void handle_gone(void)
{
	size_t bytes;

	ready();
	CHECK(dnn.Destroy(net.handle));
	EXPECT(dnn.GetRNNWeightSpaceSize(net.handle, net.rnn, &bytes) == BAD_PARAM);
	exit(0);
}

static void handle_of_another_context(void)
{
	void *other;

	setenv("CELLGRAD_FAKE_DEVICES", "2", 1);
	ready();
	CHECK(cu.DevicePrimaryCtxRetain(&other, 1));
	CHECK(cu.CtxPushCurrent_v2(other));
	EXPECT(net_forward(&net, 1) == BAD_PARAM);
	exit(0);
}

static void never_set(void)
{
	struct cudnnRNNStruct *rnn;
	size_t bytes;

	ready();
	CHECK(dnn.CreateRNNDescriptor(&rnn));
	EXPECT(dnn.GetRNNWeightSpaceSize(net.handle, rnn, &bytes) == BAD_PARAM);
	exit(0);
}

static void dropout_never_set(void)
{
	ready();
	CHECK(dnn.DestroyDropoutDescriptor(net.dropout));
	CHECK(dnn.CreateDropoutDescriptor(&net.dropout));
	EXPECT(net_set(&net) == BAD_PARAM);
	exit(0);
}

static void no_dropout(void)
{
	ready();
	net.dropout = NULL;
	EXPECT(net_set(&net) == BAD_PARAM);
	exit(0);
}

static void dropout_gone(void)
{
	ready();
	CHECK(dnn.DestroyDropoutDescriptor(net.dropout));
	EXPECT(net_forward(&net, 1) == BAD_PARAM);
	exit(0);
}

static void network_gone(void)
{
	ready();
	CHECK(dnn.DestroyRNNDescriptor(net.rnn));
	EXPECT(net_forward(&net, 1) == BAD_PARAM);
	exit(0);
}

static void data_gone(void)
{
	ready();
	CHECK(dnn.DestroyRNNDataDescriptor(net.y_data));
	EXPECT(net_forward(&net, 1) == BAD_PARAM);
	exit(0);
}

static void wrong_kind(void)
{
	ready();
	net.c = (struct cudnnTensorStruct *)net.x_data;
	EXPECT(net_forward(&net, 1) == BAD_PARAM);
	exit(0);
}

static void stream_gone(void)
{
	ready();
	CHECK(cu.StreamSynchronize(stream));
	CHECK(cu.StreamDestroy_v2(stream));
	EXPECT(net_forward(&net, 1) == BAD_PARAM);
	exit(0);
}

static void captured(void)
{
	struct cudnnContext *handle;

	dnn_begin();
	setenv("CELLGRAD_FAKE_CAPTURE", "1", 1);
	EXPECT(dnn.Create(&handle) == BAD_PARAM);
	unsetenv("CELLGRAD_FAKE_CAPTURE");
	dnn_end();
}

static void test_handles(void **state)
{
	static const struct trial trials[] = {
		{ "all as it should be", right, NULL, 0 },
		{ "a handle left", all_left, "at exit: a handle of cuDNN was not destroyed, 1 of them", 0 },
		{ "tensors left", all_left, "at exit: a tensor descriptor was not destroyed, 2 of them", 0 },
		{ "data left", all_left, "at exit: an RNN data descriptor was not destroyed, 2 of them", 0 },
		{ "a network left", all_left, "at exit: an RNN descriptor was not destroyed, 1 of them", 0 },
		{ "dropout left", all_left, "at exit: a dropout descriptor was not destroyed, 1 of them", 0 },
		{ "a handle gone", handle_gone, "cudnnGetRNNWeightSpaceSize: got a handle of cuDNN that was destroyed", 0 },
		{ "another context", handle_of_another_context, "cudnnRNNForward: the handle is of another context than the current one", 0 },
		{ "a network never set", never_set, "cudnnGetRNNWeightSpaceSize: a descriptor that was made, but never set", 0 },
		{ "dropout never set", dropout_never_set, "cudnnSetRNNDescriptor_v8: a descriptor that was made, but never set", 0 },
		{ "no dropout", no_dropout, "is not a dropout descriptor", 0 },
		{ "dropout gone", dropout_gone, "cudnnRNNForward: got a dropout descriptor that was destroyed", 0 },
		{ "a network gone", network_gone, "cudnnRNNForward: got an RNN descriptor that was destroyed", 0 },
		{ "data gone", data_gone, "cudnnRNNForward: got an RNN data descriptor that was destroyed", 0 },
		{ "data for a tensor", wrong_kind, "is not a tensor descriptor", 0 },
		{ "a stream gone", stream_gone, "cudnnRNNForward: got a stream that was destroyed", 0 },
		{ "a handle while captured", captured, "cudnnCreate: not permitted while a stream is captured", 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- values ---- */

/* The stand-in refuses and reports each value of `all`. Two trials run this function; each looks for the report of one of the values. */
static void wrong_values(void)
{
	static const struct { size_t at; int value; } all[] = {
#define WRONG(field, value) { offsetof(struct net, field), value },
		WRONG(algorithm, 4) WRONG(cell, 4) WRONG(bias, 4) WRONG(skip, 2) WRONG(math, 4) WRONG(flags, 2) WRONG(I, 0) WRONG(U, 0)
		WRONG(L, 0) WRONG(P, -1)
#undef WRONG
	};

	ready();
	for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
		struct net other = net;

		memcpy((char *)&other + all[k].at, &all[k].value, sizeof(int));
		EXPECT(net_set(&other) == BAD_PARAM);
	}
	leave();
}

static unsigned set_with(int algorithm, int cell, int type, int P, int bias)
{
	struct net other = net;

	other.algorithm = algorithm;
	other.cell = cell;
	other.type = type;
	other.P = P;
	other.bias = bias;
	return net_set(&other);
}

static void lacking_values(void)
{
	ready();
	EXPECT(set_with(STANDARD, LSTM, DOUBLE, 3, 2) == NOT_SUPPORTED);
	EXPECT(set_with(STANDARD, GRU, DOUBLE, 1, 2) == NOT_SUPPORTED && !set_with(STANDARD, LSTM, DOUBLE, 1, 2));
	EXPECT(set_with(DYNAMIC, LSTM, DOUBLE, 1, 2) == NOT_SUPPORTED && !set_with(DYNAMIC, LSTM, DOUBLE, 0, 2));
	EXPECT(set_with(STATIC, LSTM, DOUBLE, 0, 2) == NOT_SUPPORTED && !set_with(STATIC, LSTM, FLOAT, 0, 2));
	EXPECT(set_with(SMALL_H, LSTM, DOUBLE, 0, 2) == NOT_SUPPORTED && !set_with(SMALL_H, LSTM, HALF, 0, 2));
	EXPECT(set_with(SMALL_H, LSTM, FLOAT, 0, 1) == NOT_SUPPORTED && !set_with(STANDARD, LSTM, FLOAT, 0, 1));
	EXPECT(set_with(STANDARD, LSTM, 3, 0, 2) == NOT_SUPPORTED);
	EXPECT(!set_with(STANDARD, LSTM, DOUBLE, 0, 2));
	leave();
}

static void wrong_data(void)
{
	struct net other;

	ready();
	for (int k = 0; k < 5; k++) {
		static const int lengths[][2] = { { 0, 1 }, { 3, 1 }, { 1, 2 }, { 1, 1 }, { -1, 2 } };

		/* The third and the fourth array of lengths are wrong only for packed sequences. */
		EXPECT((dnn.SetRNNDataDescriptor(net.x_data, DOUBLE, 0, 2, 2, 2, lengths[k], NULL) == BAD_PARAM) == (k != 2 && k != 3));
		EXPECT(dnn.SetRNNDataDescriptor(net.x_data, DOUBLE, 1, 2, 2, 2, lengths[k], NULL) == BAD_PARAM);
	}
	other = net;
	EXPECT(dnn.SetRNNDataDescriptor(net.x_data, DOUBLE, 3, 2, 2, 2, net.lengths, NULL) == BAD_PARAM);
	EXPECT(dnn.SetRNNDataDescriptor(net.x_data, DOUBLE, 0, 2, 2, 2, NULL, NULL) == BAD_PARAM);
	EXPECT(dnn.SetRNNDataDescriptor(net.x_data, DOUBLE, 0, 2, 0, 2, net.lengths, NULL) == BAD_PARAM);
	EXPECT(dnn.SetRNNDataDescriptor(net.x_data, DOUBLE, 0, 65536, 2, 2, net.lengths, NULL) == NOT_SUPPORTED);
	EXPECT(dnn.SetRNNDataDescriptor(net.x_data, 3, 0, 2, 2, 2, net.lengths, NULL) == NOT_SUPPORTED);
	net_close(&other);
	dnn_end();
}

static void wrong_tensors(void)
{
	static const int dims[] = { 1, 2, 3, 1, 1, 1, 1, 1, 1 }, none[] = { 1, 0, 3 }, strides[] = { 6, 3, 1 }, flat[] = { 6, 0, 1 };

	ready();
	EXPECT(dnn.SetTensorNdDescriptor(net.h, DOUBLE, 3, none, strides) == BAD_PARAM);
	EXPECT(dnn.SetTensorNdDescriptor(net.h, DOUBLE, 3, dims, flat) == BAD_PARAM);
	EXPECT(dnn.SetTensorNdDescriptor(net.h, DOUBLE, 0, dims, strides) == BAD_PARAM);
	EXPECT(dnn.SetTensorNdDescriptor(net.h, DOUBLE, 9, dims, dims) == NOT_SUPPORTED);
	CHECK(dnn.SetTensorNdDescriptor(net.h, DOUBLE, 3, dims, strides));
	leave();
}

static void wrong_weight(void)
{
	void *matrix, *bias;

	ready();
	EXPECT(dnn.GetRNNWeightParams(net.handle, net.rnn, 1, net.weight_bytes, AT(net.weights), 0, net.h, &matrix, net.c, &bias) == BAD_PARAM);
	EXPECT(dnn.GetRNNWeightParams(net.handle, net.rnn, 0, net.weight_bytes, AT(net.weights), 9, net.h, &matrix, net.c, &bias) == BAD_PARAM);
	EXPECT(dnn.GetRNNWeightParams(net.handle, net.rnn, 0, net.weight_bytes - 1, AT(net.weights), 0, net.h, &matrix, net.c, &bias) == BAD_PARAM);
	EXPECT(dnn.GetRNNWeightParams(net.handle, net.rnn, 0, net.weight_bytes, NULL, 0, net.h, &matrix, net.c, &bias) == BAD_PARAM);
	CHECK(dnn.GetRNNWeightParams(net.handle, net.rnn, 0, net.weight_bytes, AT(net.weights), 8, net.h, &matrix, net.c, &bias));
	EXPECT(!matrix && !bias);
	leave();
}

static void test_values(void **state)
{
	static const struct trial trials[] = {
		{ "values", wrong_values, "cudnnSetRNNDescriptor_v8: input 2, hidden 2, projection 2, layers 0: one is less than 1", 0 },
		{ "an algorithm", wrong_values, "cudnnSetRNNDescriptor_v8: algorithm 4, cell 2, bias 2", 0 },
		{ "what it does not have", lacking_values, NULL, 0 },
		{ "length 0", wrong_data, "cudnnSetRNNDataDescriptor: length 0 of row 0 is not from 1 to 2", 0 },
		{ "a long length", wrong_data, "cudnnSetRNNDataDescriptor: length 3 of row 0 is not from 1 to 2", 0 },
		{ "unsorted", wrong_data, "cudnnSetRNNDataDescriptor: packed rows are not sorted: length 2 after 1", 0 },
		{ "short", wrong_data, "cudnnSetRNNDataDescriptor: the longest of packed rows has 1 steps, not 2", 0 },
		{ "tensors", wrong_tensors, "cudnnSetTensorNdDescriptor: dimension 1 is 0, its stride 3", 0 },
		{ "weights", wrong_weight, "cudnnGetRNNWeightParams: pseudo-layer 1, matrix 0: there is none", 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- what does not go together ---- */

/* Expects that cudnnRNNForward is refused; the trial compares the report with the expected one. */
static void refuse(void)
{
	EXPECT(net_forward(&net, 1) == BAD_PARAM);
	exit(0);
}

static void other_width(void)
{
	ready();
	CHECK(dnn.SetRNNDataDescriptor(net.x_data, DOUBLE, 0, 2, 2, 3, net.lengths, NULL));
	refuse();
}

static void other_type(void)
{
	ready();
	CHECK(dnn.SetRNNDataDescriptor(net.y_data, FLOAT, 0, 2, 2, 2, net.lengths, NULL));
	refuse();
}

static void other_lengths(void)
{
	ready();
	CHECK(dnn.SetRNNDataDescriptor(net.y_data, DOUBLE, 0, 2, 2, 2, (int[]){ 1, 2 }, NULL));
	refuse();
}

static void other_layout(void)
{
	ready();
	CHECK(dnn.SetRNNDataDescriptor(net.y_data, DOUBLE, 2, 2, 2, 2, net.lengths, NULL));
	refuse();
}

static void not_padded(void)
{
	ready();
	net.flags = 0;
	CHECK(net_set(&net));
	refuse();
}

/* Rows without padding need no CUDNN_RNN_PADDED_IO_ENABLED. */
static void whole_rows(void)
{
	net = a_net();
	net.flags = 0;
	net.lengths[1] = 2;
	dnn_begin();
	net_open(&net);
	net_train(&net);
	leave();
}

static void other_state(void)
{
	ready();
	CHECK(dnn.SetTensorNdDescriptor(net.h, DOUBLE, 3, (int[]){ 2, 1, 2 }, (int[]){ 2, 2, 1 }));
	refuse();
}

static void gaps_in_state(void)
{
	ready();
	CHECK(dnn.SetTensorNdDescriptor(net.c, DOUBLE, 3, (int[]){ 1, 2, 2 }, (int[]){ 8, 4, 1 }));
	refuse();
}

static void wide_skip(void)
{
	ready();
	net.skip = 1;
	net.I = 3;
	CHECK(net_set(&net));
	refuse();
}

static void test_descriptors(void **state)
{
	static const struct trial trials[] = {
		{ "x of another width", other_width, "cudnnRNNForward: x of type 1 and width 3, y of type 1 and width 2, for type 1, 2 and 2", 0 },
		{ "y of another type", other_type, "y of type 0 and width 2, for type 1, 2 and 2", 0 },
		{ "other lengths", other_lengths, "cudnnRNNForward: x and y differ in layout, steps, rows or lengths", 0 },
		{ "another layout", other_layout, "cudnnRNNForward: x and y differ in layout, steps, rows or lengths", 0 },
		{ "padding that is not said", not_padded, "cudnnRNNForward: padding in x and y without CUDNN_RNN_PADDED_IO_ENABLED", 0 },
		{ "no padding", whole_rows, NULL, 0 },
		{ "h of another shape", other_state, "cudnnRNNForward: h: type 1, 3 dimensions 2 1 2 by 2 2 1, expected type 1 and 1 2 2, packed", 0 },
		{ "c with gaps", gaps_in_state, "cudnnRNNForward: c: type 1, 3 dimensions 1 2 2 by 8 4 1, expected type 1 and 1 2 2, packed", 0 },
		{ "an input that cannot skip", wide_skip, "cudnnRNNForward: an input of 3 that is to skip to 2 units", 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- versions, error texts, failures ---- */

static void versions(void)
{
	static const struct { const char *version; size_t count; int bf16; unsigned bad; } all[] = {
		{ "8.1.0", 8100, 0, 3 }, { "8.9.7", 8907, 0, 3 }, { "9.0.0", 90000, 0, 2000 }, { "9.13.0", 91300, 1, 2000 },
		{ "9.19.1", 91901, 1, 2000 },
	};

	const char *cuda = getenv("CELLGRAD_FAKE_CUDA");

	ready();
	EXPECT((int)dnn.GetCudartVersion() / 1000 == (cuda ? atoi(cuda) : 13));
	for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
		setenv("CELLGRAD_FAKE_CUDNN", all[k].version, 1);
		EXPECT(dnn.GetVersion() == all[k].count);
		EXPECT((set_with(STANDARD, LSTM, BFLOAT16, 0, 2) == 0) == all[k].bf16);
		EXPECT(dnn.SetTensorNdDescriptor(net.h, DOUBLE, 0, NULL, NULL) == all[k].bad);
		EXPECT(!strcmp(dnn.GetErrorString(all[k].bad), "CUDNN_STATUS_BAD_PARAM"));
	}
	setenv("CELLGRAD_FAKE_CUDART", "12", 1);
	EXPECT(dnn.GetCudartVersion() / 1000 == 12);
	exit(0);
}

/* cuDNN 8 has no cudnnGetLastErrorString; version 9 has it. */
static void last_words(void)
{
	char text[200] = "";

	ready();
	EXPECT(set_with(STATIC, LSTM, DOUBLE, 0, 2) == NOT_SUPPORTED);
	EXPECT((dnn.GetLastErrorString == NULL) == (dnn.GetVersion() < 10000));
	if (dnn.GetLastErrorString) {
		dnn.GetLastErrorString(text, sizeof text);
		EXPECT(!strcmp(text, "type 1 with sums of 1 by algorithm 1"));
	}
	leave();
}

static void fails(void)
{
	struct cudnnContext *handle;

	dnn_begin();
	setenv("CELLGRAD_FAKE_FAIL", "cudnnCreate:1,cudnnCreate:2:5000,cudnnCreate:3:4003", 1);
	EXPECT(dnn.Create(&handle) == INTERNAL_ERROR && dnn.Create(&handle) == EXECUTION_FAILED && dnn.Create(&handle) == ALLOC_FAILED);
	CHECK(dnn.Create(&handle));
	CHECK(dnn.Destroy(handle));
	dnn_end();
}

static void lost(void)
{
	ready();
	setenv("CELLGRAD_FAKE_FAIL", "cuStreamSynchronize:1:719", 1);
	EXPECT(cu.StreamSynchronize(stream) == 719 && net_forward(&net, 1) == EXECUTION_FAILED);
	exit(0);
}

static void counted(void)
{
	long (*count)(const char *);
	void *library;

	ready();
	library = load_library("libcuda.so.1");
	find(library, "fake_", "count", &count);
	EXPECT(count("cudnnCreate") == 1 && count("cudnnCreate*Descriptor") >= 6 && !count("cudnnRNN*"));
	net_train(&net);
	EXPECT(count("cudnnRNN*") == 3);
	leave();
}

static void test_versions(void **state)
{
	static const struct trial trials[] = {
		{ "versions", versions, "cudnnSetTensorNdDescriptor: 0 dimensions", 0 }, { "the last words", last_words, NULL, 0 },
		{ "failures", fails, NULL, 0 }, { "a lost context", lost, "at exit: the context of device 0 was not released", 0 },
		{ "calls are counted", counted, NULL, 0 },
	};

	(void)state;
	RUN(trials);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_handles), cmocka_unit_test(test_values), cmocka_unit_test(test_descriptors), cmocka_unit_test(test_versions),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("calls of the stand-in for cuDNN", tests, NULL, NULL);
}
