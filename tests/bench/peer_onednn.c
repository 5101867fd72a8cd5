/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures oneDNN's time for peers.sh: forward and backward, or forward in inference alone, on the cpu, in f32 and bf16, versions 2 and 3.
 *
 * Weights, and their gradients, are in the layouts that the primitives choose; the program reorders them outside of the timed calls and
 * says how often it reordered weights.  oneDNN adds to gradients of weights, biases and peepholes, so the program clears these before each
 * backward.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>

#include "peer.h"

enum { X, H0, C0, W, R, PEEPHOLE, BIAS, Y, H_N, C_N, PARTS };

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t layout;
typedef const_dnnl_primitive_desc_t description;
#else
typedef const dnnl_memory_desc_t *layout;
typedef const_dnnl_primitive_desc_t description;
#endif

/* A tensor of the network, which primitives take as an argument: the numbers of the arguments for the tensor and for its gradient, the
   tensor's shape, plain layouts and memory. */
struct part {
	int arg, diff_arg, ndims;
	dnnl_dims_t dims;
	dnnl_format_tag_t tag;
	dnnl_data_type_t type;
	int is_weight;                           /* a weight, whose layout the primitives choose */
	size_t n;                                /* the number of elements; 0: the network does not have this tensor */
	layout plain, diff_plain;
	dnnl_memory_t forward, backward, diff;   /* the tensor for the forward and for the backward primitive, and its gradient */
};

struct theirs {
	struct problem *p;
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	struct part parts[PARTS];
	dnnl_primitive_desc_t forward_description, backward_description;
	dnnl_primitive_t forward, backward;
	dnnl_memory_t workspace;
	dnnl_exec_arg_t forward_args[PARTS + 1], backward_args[2 * PARTS + 1];
	int n_forward, n_backward, reordered;
	struct { void *data; size_t bytes; } cleared[PARTS];
	int n_cleared;
};

static void check(dnnl_status_t status, const char *what)
{
	if (status == dnnl_unimplemented)
		decline("%s: not implemented", what);
	if (status != dnnl_success)
		fail("%s: status %d", what, (int)status);
}

/* ---- layouts and memory ---- */

static layout make_layout(const struct part *part, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
#if DNNL_VERSION_MAJOR >= 3
	dnnl_memory_desc_t made;

	check(dnnl_memory_desc_create_with_tag(&made, part->ndims, part->dims, type, tag), "memory_desc_create_with_tag");
#else
	dnnl_memory_desc_t *made = allocate(sizeof *made);

	check(dnnl_memory_desc_init_by_tag(made, part->ndims, part->dims, type, tag), "memory_desc_init_by_tag");
#endif
	return made;
}

static dnnl_memory_t make_memory(const struct theirs *t, layout as)
{
	dnnl_memory_t memory;

	check(dnnl_memory_create(&memory, as, t->engine, allocate(dnnl_memory_desc_get_size(as))), "memory_create");
	return memory;
}

static void *get_data(dnnl_memory_t memory)
{
	void *data;

	check(dnnl_memory_get_data_handle(memory, &data), "memory_get_data_handle");
	return data;
}

static void reorder(const struct theirs *t, layout from_as, dnnl_memory_t from, layout to_as, dnnl_memory_t to)
{
	dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to } };
	dnnl_primitive_desc_t about;
	dnnl_primitive_t move;

	check(dnnl_reorder_primitive_desc_create(&about, from_as, t->engine, to_as, t->engine, NULL), "reorder_primitive_desc_create");
	check(dnnl_primitive_create(&move, about), "primitive_create");
	check(dnnl_primitive_execute(move, t->stream, 2, args), "primitive_execute");
	check(dnnl_stream_wait(t->stream), "stream_wait");
	dnnl_primitive_destroy(move);
	dnnl_primitive_desc_destroy(about);
}

/* ---- what the network has ---- */

static int is_gru(const struct problem *p)
{
	return !strcmp(p->cell, "gru");
}

/* oneDNN's gates of a GRU are u r o, where u is the z of cellgrad's gru and the u of cellgrad's gru_block. */
static size_t get_gate(const struct problem *p, size_t gate)
{
	return p->G == 3 && gate < 2 ? 1 - gate : gate;
}

static void set_part(struct theirs *t, int which, int arg, int diff_arg, dnnl_format_tag_t tag, int is_weight, const dnnl_dim_t *dims, int ndims)
{
	struct part *part = &t->parts[which];
	int wide = which == C0 || which == C_N || which == BIAS || which == PEEPHOLE;

	part->arg = arg;
	part->diff_arg = diff_arg;
	part->tag = tag;
	part->is_weight = is_weight;
	part->ndims = ndims;
	part->n = 1;
	for (int k = 0; k < ndims; k++) {
		part->dims[k] = dims[k];
		part->n *= (size_t)dims[k];
	}
	part->type = !strcmp(t->p->dtype, "bf16") && !wide ? dnnl_bf16 : dnnl_f32;
	part->plain = make_layout(part, part->type, tag);
	part->diff_plain = make_layout(part, dnnl_f32, tag);
}

static void set_parts(struct theirs *t)
{
	const struct problem *p = t->p;
	const dnnl_dim_t T = (dnnl_dim_t)p->T, B = (dnnl_dim_t)p->B, I = (dnnl_dim_t)p->I, H = (dnnl_dim_t)p->H, G = (dnnl_dim_t)p->G;
	const dnnl_dim_t x[] = { T, B, I }, y[] = { T, B, H }, state[] = { 1, 1, B, H }, w[] = { 1, 1, I, G, H }, r[] = { 1, 1, H, G, H };
	const dnnl_dim_t bias[] = { 1, 1, G + is_gru(p), H }, peephole[] = { 1, 1, 3, H };

	set_part(t, X, DNNL_ARG_SRC_LAYER, DNNL_ARG_DIFF_SRC_LAYER, dnnl_tnc, 0, x, 3);
	set_part(t, H0, DNNL_ARG_SRC_ITER, DNNL_ARG_DIFF_SRC_ITER, dnnl_ldnc, 0, state, 4);
	set_part(t, W, DNNL_ARG_WEIGHTS_LAYER, DNNL_ARG_DIFF_WEIGHTS_LAYER, dnnl_ldigo, 1, w, 5);
	set_part(t, R, DNNL_ARG_WEIGHTS_ITER, DNNL_ARG_DIFF_WEIGHTS_ITER, dnnl_ldigo, 1, r, 5);
	set_part(t, BIAS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_BIAS, dnnl_ldgo, 0, bias, 4);
	set_part(t, Y, DNNL_ARG_DST_LAYER, DNNL_ARG_DIFF_DST_LAYER, dnnl_tnc, 0, y, 3);
	set_part(t, H_N, DNNL_ARG_DST_ITER, DNNL_ARG_DIFF_DST_ITER, dnnl_ldnc, 0, state, 4);
	if (p->has_c) {
		set_part(t, C0, DNNL_ARG_SRC_ITER_C, DNNL_ARG_DIFF_SRC_ITER_C, dnnl_ldnc, 0, state, 4);
		set_part(t, C_N, DNNL_ARG_DST_ITER_C, DNNL_ARG_DIFF_DST_ITER_C, dnnl_ldnc, 0, state, 4);
	}
	if (p->peephole)
		set_part(t, PEEPHOLE, DNNL_ARG_WEIGHTS_PEEPHOLE, DNNL_ARG_DIFF_WEIGHTS_PEEPHOLE, dnnl_ldgo, 0, peephole, 4);
}

/* ---- primitives ---- */

#if DNNL_VERSION_MAJOR >= 3
#define DESCRIBE_FORWARD(cell, ...) dnnl_##cell##_forward_primitive_desc_create(&made, t->engine, kind, __VA_ARGS__, NULL)
#define DESCRIBE_BACKWARD(cell, ...) \
	dnnl_##cell##_backward_primitive_desc_create(&made, t->engine, dnnl_backward, __VA_ARGS__, t->forward_description, NULL)
#else
#define DESCRIBE_FORWARD(cell, ...) \
	(status = dnnl_##cell##_forward_desc_init(&about, kind, __VA_ARGS__)) != dnnl_success ? status : \
	dnnl_primitive_desc_create(&made, &about, NULL, t->engine, NULL)
#define DESCRIBE_BACKWARD(cell, ...) \
	(status = dnnl_##cell##_backward_desc_init(&about, dnnl_backward, __VA_ARGS__)) != dnnl_success ? status : \
	dnnl_primitive_desc_create(&made, &about, NULL, t->engine, t->forward_description)
#define dnnl_lstm_forward_desc_init  dnnl_lstm_forward_desc_init_v3
#define dnnl_lstm_backward_desc_init dnnl_lstm_backward_desc_init_v3
#endif
#define DIRECTION dnnl_unidirectional_left2right

/* Lists the layouts that a primitive is created with: any layout for weights, NULL for tensors that the network does not have. */
static void list_layouts(const struct theirs *t, int diff, layout as[PARTS])
{
	for (int k = 0; k < PARTS; k++) {
		const struct part *part = &t->parts[k];

		as[k] = !part->n ? NULL : diff ? part->diff_plain : part->plain;
		if (part->n && part->is_weight)
			as[k] = make_layout(part, diff ? dnnl_f32 : part->type, dnnl_format_tag_any);
	}
}

static dnnl_primitive_desc_t describe_forward(struct theirs *t)
{
	const char *cell = t->p->cell;
	dnnl_prop_kind_t kind = t->p->grad ? dnnl_forward_training : dnnl_forward_inference;
	dnnl_primitive_desc_t made;
	dnnl_status_t status;
	layout as[PARTS];
#if DNNL_VERSION_MAJOR < 3
	dnnl_rnn_desc_t about;
#endif

	list_layouts(t, 0, as);
	if (t->p->has_c)
		status = DESCRIBE_FORWARD(lstm, DIRECTION, as[X], as[H0], as[C0], as[W], as[R], as[PEEPHOLE], NULL, as[BIAS], as[Y], as[H_N], as[C_N], 0);
	else if (is_gru(t->p))
		status = DESCRIBE_FORWARD(lbr_gru, DIRECTION, as[X], as[H0], as[W], as[R], as[BIAS], as[Y], as[H_N], 0);
	else if (!strcmp(cell, "gru_block"))
		status = DESCRIBE_FORWARD(gru, DIRECTION, as[X], as[H0], as[W], as[R], as[BIAS], as[Y], as[H_N], 0);
	else
		status = DESCRIBE_FORWARD(vanilla_rnn, dnnl_eltwise_tanh, DIRECTION, as[X], as[H0], as[W], as[R], as[BIAS], as[Y], as[H_N], 0, 0, 0);
	check(status, "forward");
	return made;
}

static dnnl_primitive_desc_t describe_backward(struct theirs *t)
{
	const char *cell = t->p->cell;
	dnnl_primitive_desc_t made;
	dnnl_status_t status;
	layout as[PARTS], d[PARTS];
#if DNNL_VERSION_MAJOR < 3
	dnnl_rnn_desc_t about;
#endif

	list_layouts(t, 0, as);
	list_layouts(t, 1, d);
	if (t->p->has_c)
		status = DESCRIBE_BACKWARD(lstm, DIRECTION, as[X], as[H0], as[C0], as[W], as[R], as[PEEPHOLE], NULL, as[BIAS], as[Y], as[H_N], as[C_N],
		                           d[X], d[H0], d[C0], d[W], d[R], d[PEEPHOLE], NULL, d[BIAS], d[Y], d[H_N], d[C_N], 0);
	else if (is_gru(t->p))
		status = DESCRIBE_BACKWARD(lbr_gru, DIRECTION, as[X], as[H0], as[W], as[R], as[BIAS], as[Y], as[H_N],
		                           d[X], d[H0], d[W], d[R], d[BIAS], d[Y], d[H_N], 0);
	else if (!strcmp(cell, "gru_block"))
		status = DESCRIBE_BACKWARD(gru, DIRECTION, as[X], as[H0], as[W], as[R], as[BIAS], as[Y], as[H_N],
		                           d[X], d[H0], d[W], d[R], d[BIAS], d[Y], d[H_N], 0);
	else
		status = DESCRIBE_BACKWARD(vanilla_rnn, dnnl_eltwise_tanh, DIRECTION, as[X], as[H0], as[W], as[R], as[BIAS], as[Y], as[H_N],
		                           d[X], d[H0], d[W], d[R], d[BIAS], d[Y], d[H_N], 0, 0, 0);
	check(status, "backward");
	return made;
}

static layout get_layout(description about, int arg)
{
	return dnnl_primitive_desc_query_md(about, dnnl_query_exec_arg_md, arg);
}

/* ---- numbers in and out ---- */

static const float *find_numbers(const struct problem *p, int which, int diff)
{
	const struct numbers *in = &p->in;
	const float *plain[] = { [X] = in->x, [H0] = in->h0, [C0] = in->c0, [PEEPHOLE] = in->peephole };
	const float *upstream[] = { [Y] = p->last ? NULL : in->dy, [H_N] = in->dh_n, [C_N] = in->dc_n };

	return diff ? which >= Y ? upstream[which] : NULL : which <= PEEPHOLE ? plain[which] : NULL;
}

/* Copies weights from the problem's [G H columns] to oneDNN's [columns G H], with gates in oneDNN's order, or back. */
static void copy_weights(const struct problem *p, float *ours, size_t columns, float *theirs, int back)
{
	for (size_t gate = 0; gate < p->G; gate++)
		for (size_t unit = 0; unit < p->H; unit++)
			for (size_t c = 0; c < columns; c++) {
				float *one = &ours[(gate * p->H + unit) * columns + c];
				float *other = &theirs[(c * p->G + get_gate(p, gate)) * p->H + unit];

				*(back ? one : other) = *(back ? other : one);
			}
}

/* Adds the two biases of each gate into a single bias; the two biases of the gru's candidate stay separate. */
static void make_bias(const struct problem *p, float *to)
{
	for (size_t k = 0; k < p->G * p->H; k++) {
		size_t gate = k / p->H, at = get_gate(p, gate) * p->H + k % p->H;
		int apart = is_gru(p) && gate == 2;

		to[at] = p->in.bw[k] + (apart ? 0 : p->in.br[k]);
		if (apart)
			to[at + p->H] = p->in.br[k];
	}
}

static void put_numbers(const struct problem *p, int which, const struct part *part, void *to)
{
	const char *dtype = part->type == dnnl_bf16 ? "bf16" : "f32";
	const float *from = find_numbers(p, which, 0);
	float *made = allocate(part->n * sizeof *made);

	if (which == W)
		copy_weights(p, p->in.w, p->I, made, 0);
	else if (which == R)
		copy_weights(p, p->in.r, p->H, made, 0);
	else if (which == BIAS)
		make_bias(p, made);
	else if (from)
		memcpy(made, from, part->n * sizeof *made);
	convert_to(dtype, made, part->n, to);
	free(made);
}

/* Returns the tensor in the layout of a primitive: `plain` itself if `plain` has that layout, else new memory, to which `plain` is
   reordered. */
static dnnl_memory_t bring(struct theirs *t, const struct part *part, dnnl_memory_t plain, description about)
{
	layout as = part->is_weight ? get_layout(about, part->arg) : part->plain;
	dnnl_memory_t memory;

	if (dnnl_memory_desc_equal(as, part->plain))
		return plain;
	memory = make_memory(t, as);
	reorder(t, part->plain, plain, as, memory);
	t->reordered++;
	return memory;
}

static void prepare_part(struct theirs *t, int which)
{
	struct part *part = &t->parts[which];
	dnnl_memory_t plain = make_memory(t, part->plain);
	const float *upstream = find_numbers(t->p, which, 1);
	layout as;

	put_numbers(t->p, which, part, get_data(plain));
	part->forward = bring(t, part, plain, t->forward_description);
	t->forward_args[t->n_forward++] = (dnnl_exec_arg_t){ part->arg, part->forward };
	if (!t->p->grad)
		return;
	part->backward = bring(t, part, plain, t->backward_description);
	as = part->is_weight ? get_layout(t->backward_description, part->diff_arg) : part->diff_plain;
	part->diff = make_memory(t, as);
	if (upstream)
		memcpy(get_data(part->diff), upstream, part->n * sizeof *upstream);
	t->backward_args[t->n_backward++] = (dnnl_exec_arg_t){ part->arg, part->backward };
	t->backward_args[t->n_backward++] = (dnnl_exec_arg_t){ part->diff_arg, part->diff };
	if (part->is_weight || which == BIAS || which == PEEPHOLE) {
		t->cleared[t->n_cleared].data = get_data(part->diff);
		t->cleared[t->n_cleared++].bytes = dnnl_memory_desc_get_size(as);
	}
}

static void prepare(struct theirs *t)
{
	check(dnnl_engine_create(&t->engine, dnnl_cpu, 0), "engine_create");
	check(dnnl_stream_create(&t->stream, t->engine, dnnl_stream_default_flags), "stream_create");
	set_parts(t);
	t->forward_description = describe_forward(t);
	check(dnnl_primitive_create(&t->forward, t->forward_description), "primitive_create");
	if (t->p->grad) {
		t->backward_description = describe_backward(t);
		check(dnnl_primitive_create(&t->backward, t->backward_description), "primitive_create");
	}
	for (int k = 0; k < PARTS; k++)
		if (t->parts[k].n)
			prepare_part(t, k);
	if (!t->p->grad)
		return;
	t->workspace = make_memory(t, dnnl_primitive_desc_query_md(t->forward_description, dnnl_query_workspace_md, 0));
	t->forward_args[t->n_forward++] = (dnnl_exec_arg_t){ DNNL_ARG_WORKSPACE, t->workspace };
	t->backward_args[t->n_backward++] = (dnnl_exec_arg_t){ DNNL_ARG_WORKSPACE, t->workspace };
}

static void run(void *given)
{
	struct theirs *t = given;

	check(dnnl_primitive_execute(t->forward, t->stream, t->n_forward, t->forward_args), "forward");
	if (t->p->grad) {
		for (int k = 0; k < t->n_cleared; k++)
			memset(t->cleared[k].data, 0, t->cleared[k].bytes);
		check(dnnl_primitive_execute(t->backward, t->stream, t->n_backward, t->backward_args), "backward");
	}
	check(dnnl_stream_wait(t->stream), "stream_wait");
}

static void get_weights(struct theirs *t, int which, size_t columns, float *to)
{
	struct part *part = &t->parts[which];
	layout as = get_layout(t->backward_description, part->diff_arg);
	dnnl_memory_t plain = make_memory(t, part->diff_plain);

	reorder(t, as, part->diff, part->diff_plain, plain);
	copy_weights(t->p, to, columns, get_data(plain), 1);
}

/* Gets the gradients of biases. oneDNN's bias of a gate is the sum of cellgrad's two biases, so both have its gradient; the candidate of
   cellgrad's gru has two biases, with two gradients. */
static void get_bias(struct theirs *t)
{
	const struct problem *p = t->p;
	const float *from = get_data(t->parts[BIAS].diff);

	for (size_t k = 0; k < p->G * p->H; k++) {
		size_t gate = k / p->H, at = get_gate(p, gate) * p->H + k % p->H;

		p->out.db[k] = from[at];
		if (p->out.dbr)
			p->out.dbr[k] = from[gate == 2 ? at + p->H : at];
	}
}

static void get_answers(struct theirs *t)
{
	const struct answers *out = &t->p->out;
	const struct { int which; float *to; } outputs[] = { { Y, out->y }, { H_N, out->h_n }, { C_N, out->c_n } };
	const struct { int which; float *to; } gradients[] = { { X, out->dx }, { H0, out->dh0 }, { C0, out->dc0 }, { PEEPHOLE, out->dpeephole } };

	for (int k = 0; k < 3; k++) {
		const struct part *part = &t->parts[outputs[k].which];

		if (outputs[k].to)
			convert_from(part->type == dnnl_bf16 ? "bf16" : "f32", get_data(part->forward), part->n, outputs[k].to);
	}
	if (!t->p->grad)
		return;
	for (int k = 0; k < 4; k++)
		if (gradients[k].to)
			memcpy(gradients[k].to, get_data(t->parts[gradients[k].which].diff), t->parts[gradients[k].which].n * sizeof(float));
	get_weights(t, W, t->p->I, out->dw);
	get_weights(t, R, t->p->H, out->dr);
	get_bias(t);
}

/* Returns the bytes of memory beside the arguments: what forward keeps for the gradient, plus the larger of what forward and backward
   allocate for themselves. */
static long long count_memory(const struct theirs *t)
{
	int64_t forward = 0, backward = 0;

	dnnl_primitive_desc_query(t->forward_description, dnnl_query_memory_consumption_s64, 0, &forward);
	if (!t->p->grad)
		return (long long)forward;
	dnnl_primitive_desc_query(t->backward_description, dnnl_query_memory_consumption_s64, 0, &backward);
	return (long long)(forward > backward ? forward : backward) +
	       (long long)dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(t->forward_description, dnnl_query_workspace_md, 0));
}

/* oneDNN's texts have no characters that JSON would escape. */
static void describe(const struct theirs *t, char *to, size_t room)
{
	const char *forward = "", *backward = "";

	dnnl_primitive_desc_query(t->forward_description, dnnl_query_impl_info_str, 0, &forward);
	if (t->p->grad)
		dnnl_primitive_desc_query(t->backward_description, dnnl_query_impl_info_str, 0, &backward);
	snprintf(to, room, "\"threads\": %d, \"forward\": \"%s\", \"backward\": \"%s\", \"reordered_weights\": %d, \"memory\": %lld", t->p->threads, forward, backward,
	         t->reordered, count_memory(t));
}

int main(int argc, char **argv)
{
	static struct problem p;
	static struct theirs t = { .p = &p };
	const dnnl_version_t *version = dnnl_version();
	char settings[512], number[64];

	read_problem(&p, argc, argv);
	if (!strcmp(p.cell, "block_lstm"))
		decline("has no block_lstm");
	if (strcmp(p.dtype, "f32") && strcmp(p.dtype, "bf16"))
		decline("no training in %s", p.dtype);
	prepare(&t);
	run(&t);
	get_answers(&t);
	describe(&t, settings, sizeof settings);
	snprintf(number, sizeof number, "%d.%d.%d", version->major, version->minor, version->patch);
	serve_turns(&p, "onednn", number, settings, run, &t);
	return 0;
}
