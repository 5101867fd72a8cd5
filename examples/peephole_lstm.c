/* SPDX-License-Identifier: Apache-2.0 */
/* One step of an LSTM with peepholes and its gradient, on the backend that CELLGRAD_BACKEND names. */
#include <cellgrad.h>
#include <stdio.h>

enum { B = 2, I = 3, U = 4 };

static struct cg_mem tensor(int n)              /* n floats in host memory: numbers from -0.6 to 1 */
{
	static float room[1024], next;
	static int used;
	float *data = room + used;

	for (used += n; data < room + used; data++)
		*data = (next += 0.37f) > 1 ? next -= 1.6f : next;
	return (struct cg_mem){ data - n, 0, (size_t)n * sizeof *data, CG_HOST };
}

int main(void)
{
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_lstm_block step;

	cg_lstm_block_init(&step, sizeof step);
	step.B = B; step.I = I; step.U = U;
	step.use_peephole = 1;
	step.x = tensor(B * I); step.cs_prev = tensor(B * U); step.h_prev = tensor(B * U);
	step.w = tensor((I + U) * 4 * U); step.b = tensor(4 * U);
	step.wci = tensor(U); step.wcf = tensor(U); step.wco = tensor(U);
	step.i = tensor(B * U); step.cs = tensor(B * U); step.f = tensor(B * U); step.o = tensor(B * U);
	step.ci = tensor(B * U); step.co = tensor(B * U); step.h = tensor(B * U);

	if (cg_open(NULL, &context) || cg_stream_open(context, NULL, &stream) || cg_lstm_block_forward(stream, &step))
		return fprintf(stderr, "%s\n", cg_message()), 1;

	step.h_grad = tensor(B * U);                    /* the upstream gradient of h; that of cs is absent, so zero */
	step.x_grad = tensor(B * I);                    /* only the gradients that are present are computed */
	step.cs_prev_grad = tensor(B * U);
	step.w_grad = tensor((I + U) * 4 * U);
	if (cg_lstm_block_grad(stream, &step))
		return fprintf(stderr, "%s\n", cg_message()), 1;

	printf("%s\nx_grad ", cg_describe(context));
	for (int k = 0; k < B * I; k++)
		printf(" %8.5f", ((float *)step.x_grad.data)[k]);
	printf("\n");
	cg_stream_close(stream);
	cg_close(context);
	return 0;
}
