/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the memory of a network's call: the numbers and the size of each argument, in memory of the host or of a device. */
#include <stdlib.h>
#include <string.h>

#include "verify/numbers.h"
#include "tests/help/small_net.h"

enum { POISON = 0xa5, ALIGN = 64 };

#define CALL(field) offsetof(struct cg_rnn_call, field)

const struct net_port net_ports[NET_PORTS] = {
	{ "input",             CALL(input),             NET_MUST, NET_MUST },
	{ "input_h",           CALL(input_h),           NET_IN,   NET_IN   },
	{ "input_c",           CALL(input_c),           NET_IN,   NET_IN   },
	{ "params",            CALL(params),            NET_MUST, NET_MUST },
	{ "output",            CALL(output),            NET_OUT,  NET_NOT  },
	{ "output_h",          CALL(output_h),          NET_OUT,  NET_NOT  },
	{ "output_c",          CALL(output_c),          NET_OUT,  NET_NOT  },
	{ "output_backprop",   CALL(output_backprop),   NET_NOT,  NET_IN   },
	{ "output_h_backprop", CALL(output_h_backprop), NET_NOT,  NET_IN   },
	{ "output_c_backprop", CALL(output_c_backprop), NET_NOT,  NET_IN   },
	{ "reserve_space",     CALL(reserve),           NET_OUT,  NET_MUST },
	{ "input_backprop",    CALL(input_backprop),    NET_NOT,  NET_OUT  },
	{ "input_h_backprop",  CALL(input_h_backprop),  NET_NOT,  NET_OUT  },
	{ "input_c_backprop",  CALL(input_c_backprop),  NET_NOT,  NET_OUT  },
	{ "params_backprop",   CALL(params_backprop),   NET_NOT,  NET_OUT  },
};

void net_begin(struct net *n, struct cg_context *context, struct cg_stream *stream)
{
	memset(n, 0, sizeof *n);
	n->context = context;
	n->stream = stream;
	cg_rnn_config_init(&n->config, sizeof n->config);
	n->config.layers = 2;
	n->config.input = 3;
	n->config.units = 4;
	cg_rnn_call_init(&n->call, sizeof n->call);
	n->call.T = 3;
	n->call.B = 2;
	n->place = CG_HOST;
}

struct cg_mem *net_mem(struct net *n, const struct net_port *port)
{
	return (struct cg_mem *)(void *)((char *)&n->call + port->at);
}

static int is(const struct net_port *port, const char *start)
{
	return !strncmp(port->name, start, strlen(start));
}

/* Has the cell a cell state? Calls get arguments of cell states only if the cell has one. */
static int has_state(const struct net *n)
{
	struct cg_cell_parts parts;

	cg_cell_parts_init(&parts, sizeof parts);
	return !cg_cell_info(n->config.cell, &parts) && parts.has_state;
}

size_t net_bytes(const struct net *n, const struct net_port *port)
{
	static const int bytes[] = { [CG_F32] = 4, [CG_F64] = 8, [CG_F16] = 2, [CG_BF16] = 2 };
	const struct cg_rnn_config *c = &n->config;
	int64_t D = 1 + c->bidirectional, H = c->proj ? c->proj : c->units, states = c->layers * D * n->call.B, elements;
	struct cg_rnn_sizes sizes;

	if (is(port, "reserve") || is(port, "params")) {
		if (cg_rnn_sizes(n->rnn, n->call.T, n->call.B, n->call.lengths, &sizes))
			return 0;
		return is(port, "params") ? sizes.params : sizes.reserve;
	}
	if (is(port, "input_h") || is(port, "output_h"))
		elements = states * H;
	else if (is(port, "input_c") || is(port, "output_c"))
		elements = has_state(n) ? states * c->units : 0;
	else
		elements = n->call.T * n->call.B * (is(port, "input") ? c->input : D * H);
	return (size_t)elements * (size_t)bytes[c->dtype];
}

/* Allocates an argument's memory. Host memory does not come from the library's allocator, so that a test counts the library's requests
   alone. */
static int alloc(struct net *n, size_t bytes, const unsigned char *values, struct cg_mem *mem)
{
	int code;

	*mem = (struct cg_mem){ .bytes = 0 };
	if (!bytes)
		return CG_OK;
	if (n->place == CG_HOST) {
		mem->data = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
		mem->bytes = mem->data ? bytes : 0;
		if (mem->data)
			memcpy(mem->data, values, bytes);
		return mem->data ? CG_OK : CG_NO_MEMORY;
	}
	code = cg_alloc(n->context, bytes, mem);
	return code ? code : cg_put(n->stream, *mem, values, bytes);
}

/* Frees host memory that cg_put() read or cg_get() wrote. If cg_put() or cg_get() failed, waits for the stream first, since
   the copy may still be running. */
static void free_copied(struct net *n, int code, void *bytes)
{
	if (code)
		cg_stream_sync(n->stream);
	free(bytes);
}

static int fill(struct net *n, struct cg_mem *mem, size_t bytes, int is_input, int salt)
{
	static const size_t size[] = { [CG_F32] = 4, [CG_F64] = 8, [CG_F16] = 2, [CG_BF16] = 2 };
	unsigned char *values = malloc(bytes ? bytes : 1);
	int code;

	if (!values)
		return CG_NO_MEMORY;
	memset(values, POISON, bytes);
	for (size_t k = 0; is_input && k < bytes / size[n->config.dtype]; k++) {
		/* The values repeat after 61 elements, a prime number, of which no width of a row or a gate in the tests is a multiple. */
		int number = (int)(k * 37 + (size_t)(salt + 3 * n->salt) * 11) % 61 - 30;

		numbers_encode(n->config.dtype, (double)number / 64, values + k * size[n->config.dtype]);
	}
	code = alloc(n, bytes, values, mem);
	free_copied(n, code, values);
	return code;
}

int net_open(struct net *n)
{
	struct cg_rnn_sizes sizes;
	int code = cg_rnn_open(n->context, &n->config, &n->rnn);

	if (!code)
		code = cg_rnn_sizes(n->rnn, n->call.T, n->call.B, n->call.lengths, &sizes);
	for (int k = 0; k < NET_PORTS && !code; k++) {
		const struct net_port *p = &net_ports[k];
		int is_input = p->forward == NET_MUST || p->forward == NET_IN || p->backward == NET_IN;

		code = fill(n, net_mem(n, p), net_bytes(n, p), is_input, k);
	}
	return code ? code : fill(n, &n->call.work, sizes.work, 0, 0);
}

void net_free(struct net *n, struct cg_mem *mem)
{
	if (n->place == CG_HOST)
		free(mem->data);
	else
		cg_free(n->context, mem);
	memset(mem, 0, sizeof *mem);
}

void net_close(struct net *n)
{
	for (int k = 0; k < NET_PORTS; k++)
		net_free(n, net_mem(n, &net_ports[k]));
	net_free(n, &n->call.work);
	cg_rnn_close(n->rnn);
	n->rnn = NULL;
}

int net_forward(struct net *n)
{
	return cg_rnn_forward(n->stream, n->rnn, &n->call);
}

int net_backward(struct net *n)
{
	return cg_rnn_backward(n->stream, n->rnn, &n->call);
}

int net_print(struct net *n, uint64_t *print)
{
	*print = 0xcbf29ce484222325u;
	for (int k = 0; k < NET_PORTS; k++) {
		const struct net_port *p = &net_ports[k];
		struct cg_mem *mem = net_mem(n, p);
		unsigned char *bytes;
		int code;

		if ((p->forward != NET_OUT && p->backward != NET_OUT) || !mem->bytes || mem == &n->call.reserve)
			continue;
		bytes = malloc(mem->bytes);
		code = bytes ? cg_get(n->stream, bytes, *mem, mem->bytes) : CG_NO_MEMORY;
		for (size_t b = 0; b < mem->bytes && !code; b++)
			*print = (*print ^ bytes[b]) * 0x100000001b3u;
		free_copied(n, code, bytes);
		if (code)
			return code;
	}
	return CG_OK;
}
