/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handlers: each reads a call frame of XLA, runs one pass or initialises params, and converts a failure to an error of XLA.
 */
#include <string.h>

#include "bindings/jax/handlers.h"
#include "bindings/jax/network_attributes.h"

#define TEXT_OF(x) #x
#define VERSION_OF(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)
#define PORT(name, type) { #name, offsetof(struct cg_rnn_call, name), type }

/* An argument or a result: its name, its offset in struct cg_rnn_call, and XLA's element type; type 0: the type of argument `input`. */
struct port { const char *name; size_t at; int type; };
/* The first arguments of both passes; lengths and counter follow them, then the pass's own arguments. */
static const struct port COMMON[] = { PORT(input, 0), PORT(input_h, 0), PORT(input_c, 0), PORT(params, 0) };
enum { INPUT, N_COMMON = sizeof COMMON / sizeof *COMMON, LENGTHS = N_COMMON, COUNTER, FIRST_OWN };

struct pass {
	const char *name;
	int (*run)(struct cg_stream *, const struct cg_rnn *, const struct cg_rnn_call *);
	int n_arguments, n_results;              /* the number of arguments, and of results, that only this pass has */
	struct port arguments[4], results[4];
};
static const struct pass FORWARD = {
	"rnn_forward", cg_rnn_forward, 0, 4, { { 0 } },
	{ PORT(output, 0), PORT(output_h, 0), PORT(output_c, 0), PORT(reserve, XLA_U8) },
};
static const struct pass BACKWARD = {
	"rnn_backward", cg_rnn_backward, 4, 4,
	{ PORT(reserve, XLA_U8), PORT(output_backprop, 0), PORT(output_h_backprop, 0), PORT(output_c_backprop, 0) },
	{ PORT(input_backprop, 0), PORT(input_h_backprop, 0), PORT(input_c_backprop, 0), PORT(params_backprop, 0) },
};

/* Sets the call's fields for n ports to the memory of the arguments, or of the results, number first, first + 1, ... */
static void set_ports(struct call_frame *f, struct cg_rnn_call *call, const struct xla_values *values, int first, const struct port *ports,
                      int n, int dtype)
{
	for (int k = 0; k < n; k++)
		*(struct cg_mem *)((char *)call + ports[k].at) =
			jax_memory(f, values, first + k, ports[k].name, ports[k].type ? ports[k].type : dtype);
}

/* Cuts each array of cell states, which has the states one after the other, into the memory of each state. */
static void cut_states(struct call_frame *f, struct cg_rnn_call *call)
{
	const struct { struct cg_mem *first, *others; const char *name; } arrays[] = {
		{ &call->input_c, call->input_s, "input_c" }, { &call->output_c, call->output_s, "output_c" },
		{ &call->output_c_backprop, call->output_s_backprop, "output_c_backprop" },
		{ &call->input_c_backprop, call->input_s_backprop, "input_c_backprop" },
	};
	const int most = 1 + (int)(sizeof call->input_s / sizeof *call->input_s);
	size_t states = (size_t)jax_integer(f, "states", 1, most);

	for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) {
		size_t all = arrays[k].first->bytes;

		if (all % states) {
			jax_refuse(f, CG_BAD_ARGUMENT, "%s: expected %zu cell states of equal size, got %zu bytes in all", arrays[k].name, states, all);
			return;
		}
		arrays[k].first->bytes = all / states;
		for (size_t j = 1; all && j < states; j++) {
			arrays[k].others[j - 1] = *arrays[k].first;
			arrays[k].others[j - 1].data = (char *)arrays[k].first->data + j * (all / states);
		}
	}
}

static void set_lengths(struct call_frame *f, struct cg_rnn_call *call)
{
	struct cg_mem lengths = jax_memory(f, &f->xla->arguments, LENGTHS, "lengths", XLA_S32);

	if (lengths.bytes && lengths.bytes != (size_t)call->B * sizeof *call->lengths)
		jax_refuse(f, CG_BAD_ARGUMENT, "lengths: expected none or %lld numbers, one for each row of the batch, got %zu", (long long)call->B,
		           lengths.bytes / sizeof *call->lengths);
	call->lengths = lengths.data;
}

/* Reads a number of 64 bits, which JAX passes as two of 32 bits. */
static uint64_t read_halves(struct call_frame *f, int k, const char *name)
{
	struct cg_mem halves = jax_memory(f, &f->xla->arguments, k, name, XLA_U32);
	uint32_t half[2] = { 0, 0 };

	if (halves.bytes == sizeof half)
		memcpy(half, halves.data, sizeof half);
	else
		jax_refuse(f, CG_BAD_ARGUMENT, "%s: expected 2 numbers, the halves of a 64-bit number, got %zu", name, halves.bytes / sizeof *half);
	return (uint64_t)half[1] << 32 | half[0];
}

static void describe_call(struct call_frame *f, const struct pass *pass, const struct xla_buffer *input, struct cg_rnn_call *call)
{
	const struct xla_values *arguments = &f->xla->arguments;
	int is_time_major = jax_integer(f, "time_major", 0, 1) == 1;

	cg_rnn_call_init(call, sizeof *call);
	call->T = input->dims[!is_time_major];
	call->B = input->dims[is_time_major];
	call->no_dropout = !jax_integer(f, "drop", 0, 1);
	set_ports(f, call, arguments, INPUT, COMMON, N_COMMON, input->dtype);
	set_lengths(f, call);
	call->counter = read_halves(f, COUNTER, "counter");
	set_ports(f, call, arguments, FIRST_OWN, pass->arguments, pass->n_arguments, input->dtype);
	set_ports(f, call, &f->xla->results, 0, pass->results, pass->n_results, input->dtype);
	cut_states(f, call);
}

/* Asks for huge pages for large results.  XLA allocates new memory for the results in each call; in huge pages this memory has few
 * page faults. */
static void advise(const struct cg_rnn_call *call, const struct port *ports, int n)
{
	for (int k = 0; k < n; k++) {
		const struct cg_mem *mem = (const struct cg_mem *)((const char *)call + ports[k].at);

		cg_prefer_huge_pages(mem->data, mem->bytes);
	}
}

/* Runs a pass.  If giving the stream back fails, the call fails, since that is when errors of the computation may be reported. */
static void run_pass(struct call_frame *f, const struct pass *pass)
{
	const struct xla_buffer *input;
	struct cg_stream *stream;
	struct cg_rnn_call call;
	struct cg_rnn *rnn;
	int dtype;

	if (!jax_has_buffers(f, FIRST_OWN + pass->n_arguments, pass->n_results))
		return;
	input = f->xla->arguments.items[INPUT];
	dtype = jax_dtype(f, input, "input");
	if (input->rank != 3)
		jax_refuse(f, CG_BAD_ARGUMENT, "input: expected 3 dimensions, got %lld", (long long)input->rank);
	if (f->code)
		return;
	describe_call(f, pass, input, &call);
	if (f->code || !jax_open_network(f, dtype, input->dims[2], &rnn, &stream))
		return;
	advise(&call, pass->results, pass->n_results);
	jax_has_failed(f, pass->run(stream, rnn, &call));
	jax_has_failed(f, cg_stream_give(stream));
	cg_rnn_close(rnn);
}

static struct xla_error *handle_pass(struct xla_frame *xla, const struct pass *pass)
{
	struct call_frame f = { .xla = xla, .name = pass->name };

	if (jax_is_answered(xla))
		return NULL;
	run_pass(&f, pass);
	return jax_error(&f);
}

struct xla_error *cellgrad_jax_forward(struct xla_frame *xla)
{
	return handle_pass(xla, &FORWARD);
}

struct xla_error *cellgrad_jax_backward(struct xla_frame *xla)
{
	return handle_pass(xla, &BACKWARD);
}

static void init_params(struct call_frame *f)
{
	const struct xla_buffer *params;
	struct cg_stream *stream;
	struct cg_rnn *rnn;
	struct cg_mem mem;
	char rules[256];
	uint64_t seed;
	int64_t input;
	int dtype;

	if (!jax_has_buffers(f, 1, 1))
		return;
	params = f->xla->results.items[0];
	dtype = jax_dtype(f, params, "params");
	input = jax_integer(f, "input", 0, INT64_MAX);
	seed = read_halves(f, 0, "seed");
	jax_copy_text(f, "rules", rules, sizeof rules);
	if (f->code)
		return;
	mem = jax_memory(f, &f->xla->results, 0, "params", params->dtype);
	if (!jax_open_network(f, dtype, input, &rnn, &stream))
		return;
	jax_has_failed(f, cg_rnn_init_params(rnn, rules, seed, mem));
	jax_has_failed(f, cg_stream_give(stream));
	cg_rnn_close(rnn);
}

struct xla_error *cellgrad_jax_init_params(struct xla_frame *xla)
{
	struct call_frame f = { .xla = xla, .name = "rnn_init_params" };

	if (jax_is_answered(xla))
		return NULL;
	init_params(&f);
	return jax_error(&f);
}

const char *cellgrad_jax_version(void)
{
	return VERSION_OF(CG_VERSION_MAJOR, CG_VERSION_MINOR, CG_VERSION_PATCH);
}
