/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures libxsmm's time for peers.sh: the cells of libxsmm 1, in f32, with weights plain or packed and with some sizes of blocks, of
 * which the fastest is taken.
 *
 * libxsmm's LSTM has gates i c f o; the reset gate of libxsmm's GRU acts before the product, so this GRU is cellgrad's gru_block, with
 * gates in cellgrad's order. The GRU of libxsmm 1.17 exchanges the factors h and r h of di and df, its gradients of two gates, so that its
 * gradient of R is not the derivative: peers.sh reports the error.  libxsmm's cell for rnn_tanh gives no gradient of the initial state.
 * The program packs weights outside of the timed calls.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libxsmm.h>

#include "peer.h"

enum { WAYS = 16, WARNINGS = 100000 };           /* a status below WARNINGS is success or a warning */

struct way { int packed; size_t bn, bk, bc; };

struct theirs {
	struct problem *p;
	struct way way;
	libxsmm_dnn_rnncell *cell;
	libxsmm_dnn_rnncell_type type;
	float *w, *r, *bias, *wt, *rt, *h, *cs, *dh, *dcs, *dw, *dr, *db;
	void *rooms[32];
	int n_rooms;
};

static void check(libxsmm_dnn_err_t status, const char *what)
{
	if (status >= WARNINGS)
		fail("%s: %s", what, libxsmm_dnn_get_error(status));
}

/* Allocates floats, which close_way frees. */
static float *make(struct theirs *t, size_t n)
{
	return t->rooms[t->n_rooms++] = allocate(n * sizeof(float));
}

/* ---- weights ---- */

/* Returns the index of cellgrad's gate in the order of libxsmm. */
static size_t get_gate(const struct problem *p, size_t gate)
{
	static const size_t lstm[] = { 0, 2, 1, 3 };

	return p->G == 4 ? lstm[gate] : gate;
}

/* Returns the index of element (c, k) of a matrix [C K] in the packed layout [K/bk C/bc bc bk]; with one block for all it is the plain
   layout. */
static size_t find_packed(size_t c, size_t k, size_t C, size_t bc, size_t bk)
{
	return ((k / bk * (C / bc) + c / bc) * bc + c % bc) * bk + k % bk;
}

/* Copies weights from the problem's layout [G H C] to libxsmm's [C G H], plain or packed, or back. */
static void copy_weights(const struct theirs *t, float *ours, size_t C, size_t bc, float *theirs, int back)
{
	const struct problem *p = t->p;

	for (size_t gate = 0; gate < p->G; gate++)
		for (size_t unit = 0; unit < p->H; unit++)
			for (size_t c = 0; c < C; c++) {
				size_t k = get_gate(p, gate) * p->H + unit;
				float *one = &ours[(gate * p->H + unit) * C + c];
				float *other = &theirs[t->way.packed ? find_packed(c, k, C, bc, t->way.bk) : c * p->G * p->H + k];

				*(back ? one : other) = *(back ? other : one);
			}
}

/* Transposes the weights of each gate on their own, to [C/bc H/bk bk bc]. */
static void copy_transposed(const struct theirs *t, const float *ours, size_t C, size_t bc, float *theirs)
{
	const struct problem *p = t->p;

	for (size_t gate = 0; gate < p->G; gate++)
		for (size_t unit = 0; unit < p->H; unit++)
			for (size_t c = 0; c < C; c++)
				theirs[get_gate(p, gate) * C * p->H + find_packed(unit, c, p->H, t->way.bk, bc)] = ours[(gate * p->H + unit) * C + c];
}

/* ---- a cell ---- */

static void bind(struct theirs *t, libxsmm_dnn_tensor_type type, void *data)
{
	libxsmm_dnn_err_t status;
	libxsmm_dnn_tensor_datalayout *layout = libxsmm_dnn_rnncell_create_tensor_datalayout(t->cell, type, &status);
	libxsmm_dnn_tensor *tensor;

	check(status, "create_tensor_datalayout");
	tensor = libxsmm_dnn_link_tensor(layout, data, &status);
	check(status, "link_tensor");
	libxsmm_dnn_destroy_tensor_datalayout(layout);
	check(libxsmm_dnn_rnncell_bind_tensor(t->cell, tensor, type), "bind_tensor");
}

static void create_cell(struct theirs *t)
{
	const struct problem *p = t->p;
	libxsmm_dnn_rnncell_desc about;
	libxsmm_dnn_err_t status;

	memset(&about, 0, sizeof about);
	about.threads = p->threads;
	about.K = (libxsmm_blasint)p->H, about.N = (libxsmm_blasint)p->B, about.C = (libxsmm_blasint)p->I, about.max_T = (libxsmm_blasint)p->T;
	about.bk = (libxsmm_blasint)t->way.bk, about.bn = (libxsmm_blasint)t->way.bn, about.bc = (libxsmm_blasint)t->way.bc;
	about.cell_type = t->type;
	about.datatype_in = about.datatype_out = LIBXSMM_DNN_DATATYPE_F32;
	about.buffer_format = LIBXSMM_DNN_TENSOR_FORMAT_NC;
	about.filter_format = t->way.packed ? LIBXSMM_DNN_TENSOR_FORMAT_CKPACKED : LIBXSMM_DNN_TENSOR_FORMAT_CK;
	t->cell = libxsmm_dnn_create_rnncell(about, &status);
	check(status, "create_rnncell");
	if (t->type == LIBXSMM_DNN_RNNCELL_LSTM)
		check(libxsmm_dnn_rnncell_allocate_forget_bias(t->cell, 0), "allocate_forget_bias");
}

static void bind_weights(struct theirs *t)
{
	const struct problem *p = t->p;
	const size_t n = p->G * p->H;

	t->w = make(t, n * p->I), t->r = make(t, n * p->H), t->bias = make(t, n);
	copy_weights(t, p->in.w, p->I, t->way.bc, t->w, 0);
	copy_weights(t, p->in.r, p->H, t->way.bk, t->r, 0);
	for (size_t k = 0; k < n; k++)
		t->bias[get_gate(p, k / p->H) * p->H + k % p->H] = p->in.bw[k] + p->in.br[k];
	bind(t, LIBXSMM_DNN_RNN_REGULAR_WEIGHT, t->w);
	bind(t, LIBXSMM_DNN_RNN_REGULAR_RECUR_WEIGHT, t->r);
	bind(t, LIBXSMM_DNN_RNN_REGULAR_BIAS, t->bias);
	if (!t->way.packed || t->type == LIBXSMM_DNN_RNNCELL_GRU)
		return;
	t->wt = make(t, n * p->I), t->rt = make(t, n * p->H);
	copy_transposed(t, p->in.w, p->I, t->way.bc, t->wt);
	copy_transposed(t, p->in.r, p->H, t->way.bk, t->rt);
	bind(t, LIBXSMM_DNN_RNN_REGULAR_WEIGHT_TRANS, t->wt);
	bind(t, LIBXSMM_DNN_RNN_REGULAR_RECUR_WEIGHT_TRANS, t->rt);
}

static void bind_states(struct theirs *t)
{
	const struct problem *p = t->p;
	const size_t state = p->B * p->H, steps = p->T * state;
	static const libxsmm_dnn_tensor_type inner[] = {
		LIBXSMM_DNN_RNN_INTERNAL_I, LIBXSMM_DNN_RNN_INTERNAL_F, LIBXSMM_DNN_RNN_INTERNAL_O, LIBXSMM_DNN_RNN_INTERNAL_CI,
		LIBXSMM_DNN_RNN_INTERNAL_CO,
	};
	int n_inner = t->type == LIBXSMM_DNN_RNNCELL_LSTM ? 5 : t->type == LIBXSMM_DNN_RNNCELL_GRU ? 4 : 0;

	t->h = make(t, steps);
	bind(t, LIBXSMM_DNN_RNN_REGULAR_INPUT, p->in.x);
	bind(t, LIBXSMM_DNN_RNN_REGULAR_HIDDEN_STATE_PREV, p->in.h0);
	bind(t, LIBXSMM_DNN_RNN_REGULAR_HIDDEN_STATE, t->h);
	for (int k = 0; k < n_inner; k++)
		bind(t, inner[k], make(t, steps));
	if (!p->has_c)
		return;
	t->cs = make(t, steps);
	bind(t, LIBXSMM_DNN_RNN_REGULAR_CS_PREV, p->in.c0);
	bind(t, LIBXSMM_DNN_RNN_REGULAR_CS, t->cs);
}

static void bind_gradients(struct theirs *t)
{
	const struct problem *p = t->p;
	const size_t state = p->B * p->H, steps = p->T * state, n = p->G * p->H;

	t->dh = make(t, steps);
	for (size_t k = 0; k < steps; k++)
		t->dh[k] = (p->last ? 0 : p->in.dy[k]) + (k >= steps - state ? p->in.dh_n[k - (steps - state)] : 0);
	t->dw = make(t, n * p->I), t->dr = make(t, n * p->H), t->db = make(t, n);
	bind(t, LIBXSMM_DNN_RNN_GRADIENT_HIDDEN_STATE, t->dh);
	bind(t, LIBXSMM_DNN_RNN_GRADIENT_WEIGHT, t->dw);
	bind(t, LIBXSMM_DNN_RNN_GRADIENT_RECUR_WEIGHT, t->dr);
	bind(t, LIBXSMM_DNN_RNN_GRADIENT_BIAS, t->db);
	bind(t, LIBXSMM_DNN_RNN_GRADIENT_INPUT, p->out.dx);
	bind(t, LIBXSMM_DNN_RNN_GRADIENT_HIDDEN_STATE_PREV, p->out.dh0);
	if (!p->has_c)
		return;
	bind(t, LIBXSMM_DNN_RNN_GRADIENT_CS, p->in.dc_n);
	bind(t, LIBXSMM_DNN_RNN_GRADIENT_CS_PREV, p->out.dc0);
}

static void bind_rooms(struct theirs *t)
{
	libxsmm_dnn_compute_kind kind = t->p->grad ? LIBXSMM_DNN_COMPUTE_KIND_ALL : LIBXSMM_DNN_COMPUTE_KIND_FWD;
	libxsmm_dnn_err_t status;
	size_t bytes = libxsmm_dnn_rnncell_get_scratch_size(t->cell, kind, &status);

	check(status, "get_scratch_size");
	check(libxsmm_dnn_rnncell_bind_scratch(t->cell, kind, make(t, bytes / sizeof(float) + 1)), "bind_scratch");
	bytes = libxsmm_dnn_rnncell_get_internalstate_size(t->cell, kind, &status);
	check(status, "get_internalstate_size");
	check(libxsmm_dnn_rnncell_bind_internalstate(t->cell, kind, make(t, bytes / sizeof(float) + 1)), "bind_internalstate");
}

static void open_way(struct theirs *t, struct way way)
{
	t->way = way;
	t->n_rooms = 0;
	create_cell(t);
	bind_weights(t);
	bind_states(t);
	if (t->p->grad)
		bind_gradients(t);
	bind_rooms(t);
}

/* Frees the cell and the arrays.  The tensors of bind() are not freed; they are small. */
static void close_way(struct theirs *t)
{
	libxsmm_dnn_destroy_rnncell(t->cell);
	while (t->n_rooms)
		free(t->rooms[--t->n_rooms]);
}

static void run(void *given)
{
	struct theirs *t = given;
	libxsmm_dnn_err_t forward = 0, backward = 0;

#pragma omp parallel num_threads(t->p->threads) reduction(max : forward, backward)
	{
		forward = libxsmm_dnn_rnncell_execute_st(t->cell, LIBXSMM_DNN_COMPUTE_KIND_FWD, 0, omp_get_thread_num());
		if (t->p->grad) {
#pragma omp barrier
			backward = libxsmm_dnn_rnncell_execute_st(t->cell, LIBXSMM_DNN_COMPUTE_KIND_BWDUPD, 0, omp_get_thread_num());
		}
	}
	check(forward, "forward");
	check(backward, "backward");
}

/* ---- which blocks ---- */

static int list_ways(const struct problem *p, struct way ways[WAYS])
{
	static const size_t blocks[] = { 16, 32, 64, 128 };
	const size_t rows[] = { p->B, p->B % 16 || p->B == 16 ? 0 : 16 };
	int n = 0;

	for (int packed = 0; packed < 2; packed++)
		for (int r = 0; r < 2; r++)
			for (size_t k = 0; k < 4; k++)
				if (rows[r] && p->H % blocks[k] == 0)
					ways[n++] = (struct way){ packed, rows[r], blocks[k], p->I % blocks[k] ? p->I : blocks[k] };
	return n;
}

static void choose_way(struct theirs *t)
{
	struct way ways[WAYS], best = { 0, 0, 0, 0 };
	int n = list_ways(t->p, ways);
	double least = INFINITY;

	if (!n)
		decline("no block divides %zu units", t->p->H);
	for (int k = 0; k < n; k++) {
		double ms;

		open_way(t, ways[k]);
		ms = time_calls(run, t);
		close_way(t);
		if (ms < least) {
			least = ms;
			best = ways[k];
		}
	}
	open_way(t, best);
}

static void get_answers(struct theirs *t)
{
	const struct problem *p = t->p;
	const size_t state = p->B * p->H, last = (p->T - 1) * state;

	if (p->out.y)
		memcpy(p->out.y, t->h, p->T * state * sizeof(float));
	memcpy(p->out.h_n, t->h + last, state * sizeof(float));
	if (p->has_c)
		memcpy(p->out.c_n, t->cs + last, state * sizeof(float));
	if (!p->grad)
		return;
	copy_weights(t, p->out.dw, p->I, t->way.bc, t->dw, 1);
	copy_weights(t, p->out.dr, p->H, t->way.bk, t->dr, 1);
	for (size_t k = 0; k < p->G * p->H; k++)
		p->out.db[k] = t->db[get_gate(p, k / p->H) * p->H + k % p->H];
}

int main(int argc, char **argv)
{
	static struct problem p;
	static struct theirs t = { .p = &p };
	char settings[256];

	read_problem(&p, argc, argv);
	if (strcmp(p.cell, "lstm") && strcmp(p.cell, "gru_block") && strcmp(p.cell, "rnn_tanh"))
		decline("has no %s", p.cell);
	if (strcmp(p.dtype, "f32"))
		decline("is measured in f32 alone");
	if (!strcmp(p.cell, "rnn_tanh") && p.grad)
		decline("gives no gradient of the initial state of rnn_tanh");
	t.type = p.has_c ? LIBXSMM_DNN_RNNCELL_LSTM : p.G == 3 ? LIBXSMM_DNN_RNNCELL_GRU : LIBXSMM_DNN_RNNCELL_RNN_TANH;
	libxsmm_init();
	choose_way(&t);
	run(&t);
	run(&t);
	get_answers(&t);
	snprintf(settings, sizeof settings, "\"threads\": %d, \"target\": \"%s\", \"weights\": \"%s\", \"bn\": %zu, \"bk\": %zu, \"bc\": %zu",
	         p.threads, libxsmm_get_target_arch(), t.way.packed ? "packed" : "plain", t.way.bn, t.way.bk, t.way.bc);
	serve_turns(&p, "libxsmm", LIBXSMM_VERSION, settings, run, &t);
	return 0;
}
