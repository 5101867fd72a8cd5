/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network of one layer on the cpu's route `scan`, forward and backward, which scan.py compares with texts; its input is
 * added to every gate.
 *
 *	scan_net CELL OPTIONS DTYPE T B U    reads elements of the dtype from standard input: the network's input [T B U], the initial h and
 *	                                     c [B U], recurrent matrices [G U U] and vectors [V U], gradients of the output [T B U] and of
 *	                                     the final h and c, if any.  Writes to standard output: output, gradients of the initial h and
 *	                                     c, and of the input.  Exit 77: backend cpu does not open.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cellgrad.h"

static void must(int code)
{
	if (!code)
		return;
	fprintf(stderr, "scan_net: %s\n", cg_message());
	exit(1);
}

static struct cg_mem take(size_t bytes)
{
	struct cg_mem mem = { calloc(1, bytes + 1), 0, bytes, CG_HOST };

	must(mem.data ? CG_OK : CG_NO_MEMORY);
	return mem;
}

static struct cg_mem get(size_t bytes)
{
	struct cg_mem mem = take(bytes);

	must(fread(mem.data, 1, bytes, stdin) == bytes ? CG_OK : CG_BAD_ARGUMENT);
	return mem;
}

static void put(struct cg_mem mem)
{
	must(fwrite(mem.data, 1, mem.bytes, stdout) == mem.bytes ? CG_OK : CG_BAD_ARGUMENT);
	free(mem.data);
}

/* Reads recurrent matrices and vectors into params; everything else in params stays zero. */
static void get_params(const struct cg_rnn *rnn, struct cg_mem params, size_t real)
{
	struct cg_rnn_region last, at;
	int gates = 0;

	/* Finds the first recurrent matrix: the input matrices are absent and have no rows. The absent projection, between
	   recurrent matrices and vectors, has no elements to read. */
	while (!cg_rnn_region(rnn, 0, gates, 0, &at) && !at.rows)
		gates++;
	for (int id = gates; !cg_rnn_region(rnn, 0, id, 0, &last); id++)
		must(fread((char *)params.data + (size_t)last.offset * real, real, (size_t)(last.rows * last.columns), stdin) ==
		     (size_t)(last.rows * last.columns) ? CG_OK : CG_BAD_ARGUMENT);
}

int main(int argc, char **argv)
{
	static const char *const dtypes[] = { "f32", "f64", "f16", "bf16" };
	static const size_t bytes[] = { 4, 8, 2, 2 };
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_rnn *rnn = NULL;
	struct cg_rnn_config network;
	struct cg_rnn_sizes sizes;
	struct cg_rnn_call call;
	size_t step, all;
	int has_state;

	if (argc != 7)
		return 2;
	if (cg_open("cpu:threads=2", &context)) {
		fprintf(stderr, "scan_net: %s\n", cg_message());
		return 77;
	}
	cg_rnn_config_init(&network, sizeof network);
	network.cell = cg_cell_find(argv[1]);
	network.options = argv[2];
	while (network.dtype < 3 && strcmp(dtypes[network.dtype], argv[3]))
		network.dtype++;
	network.input = network.units = atoi(argv[6]);
	network.input_mode = CG_SKIP;
	network.route = "scan";
	must(cg_stream_open(context, NULL, &stream) || cg_rnn_open(context, &network, &rnn));
	cg_rnn_call_init(&call, sizeof call);
	call.T = atoi(argv[4]);
	call.B = atoi(argv[5]);
	must(cg_rnn_sizes(rnn, call.T, call.B, NULL, &sizes));
	step = (size_t)(call.B * network.units) * bytes[network.dtype];
	all = (size_t)call.T * step;
	has_state = !strncmp(argv[1], "lstm", 4);

	call.input = get(all);
	call.input_h = get(step);
	call.input_c = has_state ? get(step) : (struct cg_mem){ NULL, 0, 0, 0 };
	call.params = take(sizes.params);
	get_params(rnn, call.params, bytes[network.dtype]);
	call.output_backprop = get(all);
	call.output_h_backprop = get(step);
	call.output_c_backprop = has_state ? get(step) : (struct cg_mem){ NULL, 0, 0, 0 };
	call.output = take(all);
	call.reserve = take(sizes.reserve);
	must(cg_rnn_forward(stream, rnn, &call));
	call.input_h_backprop = take(step);
	call.input_c_backprop = has_state ? take(step) : call.input_c;
	call.input_backprop = take(all);
	must(cg_rnn_backward(stream, rnn, &call));
	put(call.output);
	put(call.input_h_backprop);
	if (has_state)
		put(call.input_c_backprop);
	put(call.input_backprop);
	free(call.input.data);
	free(call.input_h.data);
	free(call.params.data);
	free(call.output_backprop.data);
	free(call.output_h_backprop.data);
	free(call.reserve.data);
	if (has_state) {
		free(call.input_c.data);
		free(call.output_c_backprop.data);
	}
	cg_rnn_close(rnn);
	cg_stream_close(stream);
	cg_close(context);
	return 0;
}
