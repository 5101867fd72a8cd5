/*
 * A program of 0.1.0: every struct that begins with its size, filled by its _init and given to every call that takes it, and numbers
 * of what comes back.  old.sh compiles it against that version's header and today's; both must print the same.
 */
#include <cellgrad.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 3, B = 2, I = 3, U = 4 };

static float room[1 << 14];
static size_t used;

static struct cg_mem memory(size_t bytes)
{
	static float next;
	float *data = room + used;
	struct cg_mem mem = { data, 0, bytes, CG_HOST };

	for (used += (bytes + 63) / 64 * 16; data < room + used; data++)
		*data = (next += 0.37f) > 1 ? next -= 1.6f : next;
	return mem;
}

static struct cg_mem floats(int n)
{
	return memory((size_t)n * sizeof(float));
}

static void print(const char *name, struct cg_mem mem)
{
	printf("%s", name);
	for (size_t k = 0; k < mem.bytes / sizeof(float); k++)
		printf(" %a", (double)((float *)mem.data)[k]);
	printf("\n");
}

static void must(int code, const char *call)
{
	if (!code)
		return;
	printf("%s: %d: %s\n", call, code, cg_message());
	exit(1);
}

static void lstm(struct cg_stream *stream)
{
	struct cg_lstm_block op;
	size_t bytes;

	cg_lstm_block_init(&op, sizeof op);
	op.T = T; op.B = B; op.I = I; op.U = U;
	op.use_peephole = 1;
	op.x = floats(T * B * I); op.cs_prev = floats(B * U); op.h_prev = floats(B * U);
	op.w = floats((I + U) * 4 * U); op.b = floats(4 * U);
	op.wci = floats(U); op.wcf = floats(U); op.wco = floats(U);
	op.i = floats(T * B * U); op.cs = floats(T * B * U); op.f = floats(T * B * U); op.o = floats(T * B * U);
	op.ci = floats(T * B * U); op.co = floats(T * B * U); op.h = floats(T * B * U);
	must(cg_lstm_block_work(&op, CG_GRAD, &bytes), "cg_lstm_block_work");
	must(cg_lstm_block_forward(stream, &op), "cg_lstm_block_forward");
	op.h_grad = floats(T * B * U);
	op.x_grad = floats(T * B * I);
	op.b_grad = floats(4 * U);
	must(cg_lstm_block_grad(stream, &op), "cg_lstm_block_grad");
	printf("work %zu\n", bytes);
	print("h", op.h);
	print("x_grad", op.x_grad);
	print("b_grad", op.b_grad);
}

static void gru(struct cg_stream *stream)
{
	struct cg_gru_block op;
	size_t bytes;

	cg_gru_block_init(&op, sizeof op);
	op.B = B; op.I = I; op.U = U;
	op.x = floats(B * I); op.h_prev = floats(B * U);
	op.w_ru = floats((I + U) * 2 * U); op.w_c = floats((I + U) * U);
	op.b_ru = floats(2 * U); op.b_c = floats(U);
	op.r = floats(B * U); op.u = floats(B * U); op.c = floats(B * U); op.h = floats(B * U);
	must(cg_gru_block_work(&op, CG_FORWARD, &bytes), "cg_gru_block_work");
	must(cg_gru_block_forward(stream, &op), "cg_gru_block_forward");
	op.d_h = floats(B * U);
	op.d_x = floats(B * I);
	op.d_b_c = floats(U);
	must(cg_gru_block_grad(stream, &op), "cg_gru_block_grad");
	printf("work %zu\n", bytes);
	print("h", op.h);
	print("d_x", op.d_x);
	print("d_b_c", op.d_b_c);
}

static void convert(const struct cg_rnn_config *network, struct cg_mem params)
{
	struct cg_weights weights;
	struct cg_tensor tensor;
	struct cg_mem mem;

	cg_weights_init(&weights, sizeof weights);
	weights.format = "pytorch";
	weights.network = network;
	weights.params = params.data;
	weights.bytes = params.bytes;
	must(cg_weights_tensor(&weights, 0, &tensor), "cg_weights_tensor");
	mem = memory(tensor.bytes);
	must(cg_weights_save(&weights, 0, mem.data, mem.bytes), "cg_weights_save");
	must(cg_weights_load(&weights, 0, mem.data, mem.bytes), "cg_weights_load");
	print(tensor.name, mem);
}

static void rnn(struct cg_context *context, struct cg_stream *stream)
{
	struct cg_rnn_config config;
	struct cg_rnn_sizes sizes;
	struct cg_rnn_call call;
	struct cg_rnn *plan;

	cg_rnn_config_init(&config, sizeof config);
	config.input = I; config.units = U;
	config.layers = 2;
	must(cg_rnn_open(context, &config, &plan), "cg_rnn_open");
	must(cg_rnn_sizes(plan, T, B, NULL, &sizes), "cg_rnn_sizes");
	cg_rnn_call_init(&call, sizeof call);
	call.T = T; call.B = B;
	call.input = floats(T * B * I);
	call.params = memory(sizes.params);
	call.output = floats(T * B * U);
	call.reserve = memory(sizes.reserve);
	must(cg_rnn_forward(stream, plan, &call), "cg_rnn_forward");
	print("output", call.output);
	call.output_backprop = floats(T * B * U);
	call.params_backprop = memory(sizes.params);
	must(cg_rnn_backward(stream, plan, &call), "cg_rnn_backward");
	print("params_backprop", call.params_backprop);
	convert(&config, call.params);
	cg_rnn_close(plan);
}

int main(void)
{
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;

	must(cg_open("cpu", &context), "cg_open");
	must(cg_stream_open(context, NULL, &stream), "cg_stream_open");
	lstm(stream);
	gru(stream);
	rnn(context, stream);
	cg_stream_close(stream);
	cg_close(context);
	return 0;
}
