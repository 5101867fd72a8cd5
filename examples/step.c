/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One training step on the weights of a PyTorch model: loads its state_dict, saved as safetensors, into the library's params, computes the
 * gradient, takes a step of gradient descent, and saves the weights under the same names:
 *     step FILE PREFIX LR OUT
 * FILE has the weights of an LSTM or a GRU, in f32 or f64, with PREFIX before their names, `input` [T B I] and the loss's gradient
 * `output_backprop` [T B D*H].  OUT is FILE with the weights after the step.
 */
#include <cellgrad.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *file, *header, *data, *prefix;     /* the file; its header's text, with a final NUL; the data after the header; PREFIX */
static size_t length, each;                     /* bytes of the file; bytes of a number in the file */

static int stop(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static void read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint64_t bytes = 0;

	if (!f || fseek(f, 0, SEEK_END) || ftell(f) < 8)
		stop(path, "cannot be read");
	length = (size_t)ftell(f);
	rewind(f);
	file = malloc(length + 1);
	if (!file || fread(file, 1, length, f) != length)
		stop(path, "cannot be read");
	fclose(f);
	memcpy(&bytes, file, 8);
	if (bytes > length - 8)
		stop(path, "is no safetensors file");
	header = calloc(1, (size_t)bytes + 1);
	if (!header)
		stop(path, "no memory");
	memcpy(header, file + 8, (size_t)bytes);
	data = file + 8 + bytes;
}

/* Finds a tensor's data, which may be unaligned, and its shape; NULL: there is none.  A real program would use a JSON parser. */
static char *tensor(const char *before, const char *name, int64_t shape[3], size_t bytes)
{
	char key[256], *at;
	unsigned long long begin = 0, end = 0;

	snprintf(key, sizeof key, "\"%s%s\":", before, name);
	at = strstr(header, key);
	if (!at)
		return NULL;
	at += strlen(key);
	if (!each)
		each = strncmp(at, "{\"dtype\":\"F32\"", 14) ? 8 : 4;
	if (strncmp(at, each == 4 ? "{\"dtype\":\"F32\"" : "{\"dtype\":\"F64\"", 14))
		stop(name, "expected dtype F32 or F64, the same for all tensors");
	at = strstr(at, "\"shape\":[");
	for (int d = 0; shape && d < 3 && at && *(at = strpbrk(at, "[,]")) != ']'; d++)
		shape[d] = strtoll(++at, NULL, 10);
	at = at ? strstr(at, "\"data_offsets\":[") : NULL;
	if (!at || sscanf(at, "\"data_offsets\":[%llu,%llu]", &begin, &end) != 2 || begin > end || end > length - (size_t)(data - file))
		stop(name, "is damaged");
	if (bytes && end - begin != bytes)
		stop(name, "is of another size");
	return data + begin;
}

/* Sets the network's configuration from the names and shapes of the weights in the file. */
static void look(struct cg_rnn_config *network, int64_t x[3])
{
	int64_t in[3], h[3], proj[3];
	char name[64] = "weight_ih_l0";

	cg_rnn_config_init(network, sizeof *network);
	if (!tensor(prefix, name, in, 0) || !tensor(prefix, "weight_hh_l0", h, 0) || !tensor("", "input", x, 0))
		stop(prefix, "the file lacks weight_ih_l0, weight_hh_l0 or input");
	network->dtype = each == 4 ? CG_F32 : CG_F64;
	if (tensor(prefix, "weight_hr_l0", proj, 0))
		network->proj = proj[0];
	if (!network->proj && in[0] == 3 * h[1])
		network->cell = cg_cell_find("gru");
	network->input = in[1];
	network->units = network->proj ? in[0] / 4 : h[1];
	network->bidirectional = tensor(prefix, "weight_ih_l0_reverse", NULL, 0) != NULL;
	while (snprintf(name, sizeof name, "weight_ih_l%d", network->layers), tensor(prefix, name, NULL, 0))
		network->layers++;
}

/* Copies every tensor of weights into params, or out of params, by the function `how`. */
static void carry(const struct cg_weights *weights, int (*how)(const struct cg_weights *, int, char *, size_t))
{
	struct cg_tensor t;

	for (int k = 0; ; k++) {
		char *at;

		if (cg_weights_tensor(weights, k, &t))
			stop("weights", cg_message());
		if (!*t.name)
			return;
		at = tensor(prefix, t.name, NULL, t.bytes);
		if (!at)
			stop(t.name, "is not in the file");
		if (how(weights, k, at, t.bytes))
			stop("weights", cg_message());
	}
}

static int load(const struct cg_weights *weights, int k, char *at, size_t bytes)
{
	return cg_weights_load(weights, k, at, bytes);
}

static int save(const struct cg_weights *weights, int k, char *at, size_t bytes)
{
	return cg_weights_save(weights, k, at, bytes);
}

/* Allocates host memory and fills it with the file's tensor of this name, or, where name is NULL, with zeros. */
static struct cg_mem room(const char *name, size_t bytes)
{
	const char *from = name ? tensor("", name, NULL, bytes) : NULL;
	void *memory = calloc(1, bytes + 1);

	if (!memory || (name && !from))
		stop(name ? name : "step", memory ? "is not in the file" : "no memory");
	if (from)
		memcpy(memory, from, bytes);
	return (struct cg_mem){ memory, 0, bytes, CG_HOST };
}

/* weights -= rate * gradient */
static void descend(void *weights, const void *gradient, size_t n, double rate)
{
	for (size_t k = 0; k < n; k++)
		if (each == 4)
			((float *)weights)[k] -= (float)rate * ((const float *)gradient)[k];
		else
			((double *)weights)[k] -= rate * ((const double *)gradient)[k];
}

int main(int argc, char **argv)
{
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_rnn *rnn = NULL;
	struct cg_rnn_config network;
	struct cg_rnn_sizes sizes;
	struct cg_rnn_call call;
	struct cg_weights weights;
	int64_t x[3];
	size_t wide, n;
	FILE *out;

	if (argc != 5)
		return fprintf(stderr, "step FILE PREFIX LR OUT\n"), 2;
	read_file(argv[1]);
	prefix = argv[2];
	look(&network, x);
	if (cg_open(NULL, &context) || cg_stream_open(context, NULL, &stream) || cg_rnn_open(context, &network, &rnn) ||
	    cg_rnn_sizes(rnn, x[0], x[1], NULL, &sizes))
		stop("network", cg_message());

	cg_rnn_call_init(&call, sizeof call);
	call.T = x[0]; call.B = x[1];
	call.params = room(NULL, sizes.params);
	call.params_backprop = room(NULL, sizes.params);
	call.reserve = room(NULL, sizes.reserve);
	wide = (size_t)(x[0] * x[1] * (1 + network.bidirectional) * (network.proj ? network.proj : network.units)) * each;
	call.input = room("input", (size_t)(x[0] * x[1] * network.input) * each);
	call.output = room(NULL, wide);
	call.output_backprop = room("output_backprop", wide);

	cg_weights_init(&weights, sizeof weights);
	weights.format = "pytorch";
	weights.network = &network;
	weights.params = call.params.data;
	weights.bytes = sizes.params;
	carry(&weights, load);
	if (cg_rnn_forward(stream, rnn, &call) || cg_rnn_backward(stream, rnn, &call))
		stop("step", cg_message());
	n = sizes.params / each;
	descend(call.params.data, call.params_backprop.data, n, strtod(argv[3], NULL));
	carry(&weights, save);

	out = fopen(argv[4], "wb");
	if (!out || fwrite(file, 1, length, out) != length || fclose(out))
		stop(argv[4], "cannot be written");
	printf("%lld weights by %s\n", (long long)n, cg_describe(context));
	free(call.params.data); free(call.params_backprop.data); free(call.reserve.data);
	free(call.output.data); free(call.output_backprop.data); free(call.input.data);
	cg_rnn_close(rnn);
	cg_stream_close(stream);
	cg_close(context);
	free(header);
	free(file);
	return 0;
}
