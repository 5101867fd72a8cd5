/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures this library's time for peers.sh: a network of one layer through cg_rnn_forward and cg_rnn_backward, and BlockLSTM through
 * cg_lstm_block, on the cpu, in host memory that is allocated before the first call.
 * The program sets CELLGRAD_CPU_THREADS to the value of --threads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cellgrad.h>

#include "peer.h"

struct ours {
	struct problem *p;
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_rnn *rnn;
	struct cg_rnn_call call;
	struct cg_lstm_block block;
	int dtype;
};

static void check(int code)
{
	if (code)
		fail("%s", cg_message());
}

static struct cg_mem make_mem(const struct problem *p, const float *from, size_t n)
{
	struct cg_mem mem = { NULL, 0, n * get_dtype_bytes(p->dtype), CG_HOST };

	mem.data = from ? convert_new(p->dtype, from, n) : allocate(mem.bytes);
	return mem;
}

static struct cg_mem make_bytes(size_t bytes)
{
	return (struct cg_mem){ allocate(bytes), 0, bytes, CG_HOST };
}

/* Allocates, by cg_alloc, the workspace or the reserve space of a network. */
static struct cg_mem alloc_bytes(struct cg_context *context, size_t bytes)
{
	struct cg_mem mem;

	check(cg_alloc(context, bytes, &mem));
	return mem;
}

static void get_floats(const struct problem *p, struct cg_mem mem, float *to)
{
	if (to)
		convert_from(p->dtype, mem.data, mem.bytes / get_dtype_bytes(p->dtype), to);
}

static void open_device(struct ours *o)
{
	static const char *const names[] = { [CG_F32] = "f32", [CG_F64] = "f64", [CG_F16] = "f16", [CG_BF16] = "bf16" };
	char threads[16];

	for (size_t k = 0; k < sizeof names / sizeof *names; k++)
		if (!strcmp(names[k], o->p->dtype))
			o->dtype = (int)k;
	snprintf(threads, sizeof threads, "%d", o->p->threads);
	setenv("CELLGRAD_CPU_THREADS", threads, 1);
	check(cg_open("cpu", &o->context));
	check(cg_stream_open(o->context, NULL, &o->stream));
}

/* ---- networks ---- */

static void open_network(struct ours *o)
{
	const struct problem *p = o->p;
	struct cg_rnn_config config;
	int code;

	cg_rnn_config_init(&config, sizeof config);
	config.cell = cg_cell_find(p->peephole ? "lstm" : p->cell);
	config.options = p->peephole ? "peephole" : NULL;
	config.dtype = o->dtype;
	config.input = (int64_t)p->I;
	config.units = (int64_t)p->H;
	config.training = p->grad;
	code = cg_rnn_open(o->context, &config, &o->rnn);
	if (code == CG_UNSUPPORTED)
		decline("%s", cg_message());
	check(code);
}

/* In params lie the matrices w and r, the biases bw and br and the peepholes one behind the other, each as in struct numbers. */
static struct cg_mem make_params(const struct problem *p, size_t bytes)
{
	const struct { const float *from; size_t n; } parts[] = {
		{ p->in.w, p->G * p->H * p->I }, { p->in.r, p->G * p->H * p->H }, { p->in.bw, p->G * p->H }, { p->in.br, p->G * p->H },
		{ p->in.peephole, p->peephole ? 3 * p->H : 0 },
	};
	struct cg_mem params = make_bytes(bytes);
	char *at = params.data;

	for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
		if (parts[k].n)
			convert_to(p->dtype, parts[k].from, parts[k].n, at);
		at += parts[k].n * get_dtype_bytes(p->dtype);
	}
	if (at != (char *)params.data + bytes)
		fail("%zu bytes of parameters, expected %zu", bytes, (size_t)(at - (char *)params.data));
	return params;
}

static void give_network(struct ours *o)
{
	const struct problem *p = o->p;
	const size_t rows = p->T * p->B, state = p->B * p->H;
	struct cg_rnn_call *c = &o->call;
	struct cg_rnn_sizes sizes;

	cg_rnn_call_init(c, sizeof *c);
	c->T = (int64_t)p->T;
	c->B = (int64_t)p->B;
	c->spend_reserve = 1;
	check(cg_rnn_sizes(o->rnn, c->T, c->B, NULL, &sizes));
	c->work = alloc_bytes(o->context, sizes.work);
	c->params = make_params(p, sizes.params);
	c->input = make_mem(p, p->in.x, rows * p->I);
	c->input_h = make_mem(p, p->in.h0, state);
	c->output_h = make_mem(p, NULL, state);
	if (!p->last)
		c->output = make_mem(p, NULL, rows * p->H);
	if (p->has_c) {
		c->input_c = make_mem(p, p->in.c0, state);
		c->output_c = make_mem(p, NULL, state);
	}
	if (!p->grad)
		return;
	c->reserve = alloc_bytes(o->context, sizes.reserve);
	c->params_backprop = make_bytes(sizes.params);
	c->input_backprop = make_mem(p, NULL, rows * p->I);
	c->input_h_backprop = make_mem(p, NULL, state);
	c->output_h_backprop = make_mem(p, p->in.dh_n, state);
	if (!p->last)
		c->output_backprop = make_mem(p, p->in.dy, rows * p->H);
	if (p->has_c) {
		c->input_c_backprop = make_mem(p, NULL, state);
		c->output_c_backprop = make_mem(p, p->in.dc_n, state);
	}
}

static void run_network(void *given)
{
	struct ours *o = given;

	check(cg_rnn_forward(o->stream, o->rnn, &o->call));
	if (o->p->grad)
		check(cg_rnn_backward(o->stream, o->rnn, &o->call));
}

static void get_network(const struct ours *o)
{
	const struct problem *p = o->p;
	const struct answers *out = &p->out;
	const struct cg_rnn_call *c = &o->call;
	const struct { float *to; size_t n; } parts[] = {
		{ out->dw, p->G * p->H * p->I }, { out->dr, p->G * p->H * p->H }, { out->db, p->G * p->H }, { out->dbr, p->G * p->H },
		{ out->dpeephole, 3 * p->H },
	};
	const char *at = c->params_backprop.data;

	get_floats(p, c->output, out->y);
	get_floats(p, c->output_h, out->h_n);
	get_floats(p, c->output_c, out->c_n);
	get_floats(p, c->input_backprop, out->dx);
	get_floats(p, c->input_h_backprop, out->dh0);
	get_floats(p, c->input_c_backprop, out->dc0);
	for (size_t k = 0; p->grad && k < sizeof parts / sizeof *parts; at += parts[k++].n * get_dtype_bytes(p->dtype))
		if (parts[k].to)
			convert_from(p->dtype, at, parts[k].n, parts[k].to);
}

/* ---- BlockLSTM ---- */

/* Gate k of BlockLSTM's order i ci f o is gate block_gate[k] of the problem's order i f g o. */
static const size_t block_gate[] = { 0, 2, 1, 3 };

/* Copies the problem's weights [4 H I] and [4 H H] to BlockLSTM's w [I+H, 4 H], or back. */
static void copy_block_weights(const struct problem *p, float *both, float *w, float *r, int back)
{
	for (size_t gate = 0; gate < 4; gate++)
		for (size_t unit = 0; unit < p->H; unit++)
			for (size_t row = 0; row < p->I + p->H; row++) {
				size_t line = gate * p->H + unit;
				float *one = row < p->I ? &w[line * p->I + row] : &r[line * p->H + row - p->I];
				float *other = &both[row * 4 * p->H + block_gate[gate] * p->H + unit];

				*(back ? one : other) = *(back ? other : one);
			}
}

static void give_block_weights(struct ours *o)
{
	const struct problem *p = o->p;
	const size_t n = (p->I + p->H) * 4 * p->H;
	float *both = allocate(n * sizeof *both), *bias = allocate(4 * p->H * sizeof *bias);

	copy_block_weights(p, both, p->in.w, p->in.r, 0);
	for (size_t k = 0; k < 4 * p->H; k++)
		bias[block_gate[k / p->H] * p->H + k % p->H] = p->in.bw[k] + p->in.br[k];
	o->block.w = make_mem(p, both, n);
	o->block.b = make_mem(p, bias, 4 * p->H);
	free(both);
	free(bias);
}

/* Makes the upstream gradient of all steps: that of `steps`, or 0 if `steps` is NULL, with `last` added to the last step. */
static struct cg_mem make_upstream(const struct problem *p, const float *steps, const float *last)
{
	const size_t state = p->B * p->H, n = p->T * state;
	float *sum = allocate(n * sizeof *sum);
	struct cg_mem mem;

	for (size_t k = 0; k < n; k++)
		sum[k] = (steps ? steps[k] : 0) + (k >= n - state ? last[k - (n - state)] : 0);
	mem = make_mem(p, sum, n);
	free(sum);
	return mem;
}

static void give_block(struct ours *o)
{
	const struct problem *p = o->p;
	const size_t state = p->B * p->H, rows = p->T * state;
	struct cg_lstm_block *b = &o->block;
	struct cg_mem *const saved[] = { &b->i, &b->cs, &b->f, &b->o, &b->ci, &b->co, &b->h };
	size_t bytes[2];

	cg_lstm_block_init(b, sizeof *b);
	b->T = (int64_t)p->T, b->B = (int64_t)p->B, b->I = (int64_t)p->I, b->U = (int64_t)p->H;
	b->dtype = o->dtype;
	b->forget_bias = 0;
	b->cell_clip = 0;
	check(cg_lstm_block_work(b, CG_FORWARD, &bytes[0]));
	check(cg_lstm_block_work(b, CG_GRAD, &bytes[1]));
	b->work = make_bytes(bytes[bytes[1] > bytes[0]]);
	b->x = make_mem(p, p->in.x, p->T * p->B * p->I);
	b->h_prev = make_mem(p, p->in.h0, state);
	b->cs_prev = make_mem(p, p->in.c0, state);
	give_block_weights(o);
	for (size_t k = 0; k < sizeof saved / sizeof *saved; k++)
		*saved[k] = make_mem(p, NULL, rows);
	if (!p->grad)
		return;
	b->h_grad = make_upstream(p, p->last ? NULL : p->in.dy, p->in.dh_n);
	b->cs_grad = make_upstream(p, NULL, p->in.dc_n);
	b->x_grad = make_mem(p, NULL, p->T * p->B * p->I);
	b->h_prev_grad = make_mem(p, NULL, state);
	b->cs_prev_grad = make_mem(p, NULL, state);
	b->w_grad = make_mem(p, NULL, (p->I + p->H) * 4 * p->H);
	b->b_grad = make_mem(p, NULL, 4 * p->H);
}

static void run_block(void *given)
{
	struct ours *o = given;

	check(cg_lstm_block_forward(o->stream, &o->block));
	if (o->p->grad)
		check(cg_lstm_block_grad(o->stream, &o->block));
}

/* Returns the final step of an array [T B H]. */
static struct cg_mem take_last(const struct problem *p, struct cg_mem steps)
{
	size_t bytes = steps.bytes / p->T;

	return (struct cg_mem){ (char *)steps.data + steps.bytes - bytes, 0, bytes, CG_HOST };
}

static void get_block(const struct ours *o)
{
	const struct problem *p = o->p;
	const struct cg_lstm_block *b = &o->block;
	float *both, *bias;

	get_floats(p, b->h, p->out.y);
	get_floats(p, take_last(p, b->h), p->out.h_n);
	get_floats(p, take_last(p, b->cs), p->out.c_n);
	if (!p->grad)
		return;
	get_floats(p, b->x_grad, p->out.dx);
	get_floats(p, b->h_prev_grad, p->out.dh0);
	get_floats(p, b->cs_prev_grad, p->out.dc0);
	both = allocate((p->I + p->H) * 4 * p->H * sizeof *both);
	bias = allocate(4 * p->H * sizeof *bias);
	get_floats(p, b->w_grad, both);
	get_floats(p, b->b_grad, bias);
	copy_block_weights(p, both, p->out.dw, p->out.dr, 1);
	for (size_t k = 0; k < 4 * p->H; k++)
		p->out.db[k] = bias[block_gate[k / p->H] * p->H + k % p->H];
	free(both);
	free(bias);
}

/* ---- both ---- */

/* Writes members of a JSON object; backslashes and control characters become blanks. */
static void describe(const struct ours *o, char *to, size_t room)
{
	/* memory: the bytes of a network's reserve and workspace, or of BlockLSTM's workspace. */
	snprintf(to, room, "\"threads\": %d, \"route\": \"%s\", \"device\": \"%s\", \"memory\": %zu", o->p->threads,
	         o->rnn ? cg_rnn_route(o->rnn) : "BlockLSTM", cg_describe(o->context),
	         o->rnn ? o->call.reserve.bytes + o->call.work.bytes : o->block.work.bytes);
	for (char *at = to; *at; at++)
		if (*at == '\\' || (unsigned char)*at < ' ')
			*at = ' ';
}

int main(int argc, char **argv)
{
	static struct problem p;
	static struct ours o = { .p = &p };
	char settings[1024];
	int is_block;

	read_problem(&p, argc, argv);
	is_block = !strcmp(p.cell, "block_lstm");
	open_device(&o);
	if (is_block) {
		give_block(&o);
		run_block(&o);
		get_block(&o);
	} else {
		open_network(&o);
		give_network(&o);
		run_network(&o);
		get_network(&o);
	}
	describe(&o, settings, sizeof settings);
	serve_turns(&p, "cellgrad", cg_version(), settings, is_block ? run_block : run_network, &o);
	cg_rnn_close(o.rnn);
	cg_stream_close(o.stream);
	cg_close(o.context);
	return 0;
}
