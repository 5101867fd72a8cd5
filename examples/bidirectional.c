/* SPDX-License-Identifier: Apache-2.0 */
/* A bidirectional LSTM of two layers, over rows of different lengths, and the gradient of its weights. */
#include <cellgrad.h>
#include <stdio.h>

enum { T = 5, B = 3, I = 4, U = 6, LAYERS = 2, DIRECTIONS = 2 };

static struct cg_mem floats(size_t bytes)       /* host memory of this size, filled with numbers from -0.6 to 1 */
{
	static float room[1 << 15], next;
	static size_t used;
	size_t n = bytes / sizeof *room;
	float *data = room + used;

	for (used += n; data < room + used; data++)
		*data = (next += 0.37f) > 1 ? next -= 1.6f : next;
	return (struct cg_mem){ data - n, 0, bytes, CG_HOST };
}

int main(void)
{
	static const int32_t lengths[B] = { 5, 2, 4 };
	const size_t wide = T * B * DIRECTIONS * U * sizeof(float);
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_rnn *rnn = NULL;
	struct cg_rnn_config network;
	struct cg_rnn_sizes sizes;
	struct cg_rnn_call call;

	cg_rnn_config_init(&network, sizeof network);           /* an LSTM in f32; cell, dtype, dropout and more are fields */
	network.input = I; network.units = U;
	network.layers = LAYERS; network.bidirectional = 1;
	if (cg_open(NULL, &context) || cg_stream_open(context, NULL, &stream) || cg_rnn_open(context, &network, &rnn) ||
	    cg_rnn_sizes(rnn, T, B, lengths, &sizes))
		return fprintf(stderr, "%s\n", cg_message()), 1;

	cg_rnn_call_init(&call, sizeof call);
	call.T = T; call.B = B; call.lengths = lengths;
	call.input = floats(T * B * I * sizeof(float));         /* without input_h and input_c, the initial states are zeros */
	call.params = floats(sizes.params);
	call.output = floats(wide);
	call.reserve = floats(sizes.reserve);                   /* the reserve space, which forward writes and backward reads */
	if (cg_rnn_forward(stream, rnn, &call))
		return fprintf(stderr, "%s\n", cg_message()), 1;

	call.output_backprop = floats(wide);
	call.params_backprop = floats(sizes.params);
	if (cg_rnn_backward(stream, rnn, &call))
		return fprintf(stderr, "%s\n", cg_message()), 1;

	printf("%s\nbias_grad", cg_describe(context));
	for (int layer = 0; layer < LAYERS; layer++) {
		struct cg_rnn_region bias;

		cg_rnn_region(rnn, layer * DIRECTIONS, 1, 1, &bias);     /* the region of the forget gate's input bias, first direction */
		printf(" %9.5f", ((float *)call.params_backprop.data)[bias.offset]);
	}
	printf("\n");
	cg_rnn_close(rnn);
	cg_stream_close(stream);
	cg_close(context);
	return 0;
}
