/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a network's forward and backward pass by cuDNN.  cuDNN gets the caller's memory itself where possible.  Memory that must be
 * gathered, copied, multiplied by dropout masks or cleared before or after a call of cuDNN is handled by one launch, or by several if
 * there are more than CG_ROWS_MOVES moves; a single move of contiguous rows needs no kernel.  In training the last layer's output is saved
 * in the reserve space, since cuDNN's backward reads that output and callers do not pass it again.  If cellgrad, not cuDNN, applies the
 * dropout masks between layers, each layer is a call of cuDNN, and the output of each layer is saved.
 */
#include <pthread.h>
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"

enum { UNTRIED, WORKS, REFUSED };                /* whether cuDNN's persistent algorithms work for the network */

struct range_call {
	struct cg_queue *queue;
	struct cg_net *net;
	const struct cg_network *rnn;
	const struct cg_rnn_call *call;
	struct cg_dnn_state *state;
	const struct cg_dnn_shape *shape;
	int algorithm;
	struct cg_dnn_workspace space;
	struct cg_cu_moves moves;                /* copies that are enqueued together, before the next call of cuDNN or at the end */
};

static const struct cg_mem none = { .bytes = 0 };

static void *pointer(struct cg_mem mem)
{
	return (void *)(uintptr_t)cg_cu_address(mem);
}

static size_t each(const struct range_call *r)
{
	return cg_dtype_bytes(r->rnn->dtype);
}

static int is_lstm(const struct range_call *r)
{
	return r->net->cell == CUDNN_LSTM;
}

/* ---- memory ---- */

static struct cg_mem aligned(struct cg_mem mem)
{
	size_t beyond = (size_t)-cg_cu_address(mem) % CG_DNN_ALIGN;

	return mem.bytes > beyond ? cg_part(mem, beyond, mem.bytes - beyond) : mem;
}

/* Is the memory aligned for cuDNN?  A reserve space may be at another address in the backward pass, so nothing in it may depend on its
 * address. */
static int is_aligned(struct cg_mem mem)
{
	return cg_cu_address(mem) % CG_DNN_ALIGN == 0;
}

/* Returns the part of the reserve space for a segment's output; *reserve receives the part for cuDNN's own reserve. */
static struct cg_mem saved_output(const struct range_call *r, int segment, struct cg_mem *reserve)
{
	struct cg_work work = { .mem = r->call->reserve };
	struct cg_mem y = none;

	cg_dnn_carve_reserve(r->net, r->shape, &work, segment, &y, reserve);
	return y;
}

/* ---- copies ---- */

/* Copies `rows` rows of `width` elements; index arrays `from` and `to`, if present, select the rows.  If src is absent, writes zeros. */
static int copy_rows(struct range_call *r, int64_t rows, int64_t width, struct cg_mem src, struct cg_mem from, struct cg_mem dst,
                     struct cg_mem to)
{
	return cg_cu_move(r->queue, &r->moves, (struct cg_rows_move){
		.src = cg_cu_address(src), .dst = cg_cu_address(dst), .from = cg_cu_address(from), .to = cg_cu_address(to),
		.rows = rows, .columns = width,
	});
}

static int zero(struct range_call *r, struct cg_mem mem, int64_t elements)
{
	return copy_rows(r, 1, elements, none, none, mem, none);
}

/* The number of elements in some bytes of cuDNN's memory, rounded up: the memory has space for the rest of an incomplete element. */
static int64_t elements(const struct range_call *r, size_t bytes)
{
	return (int64_t)(bytes / each(r) + (bytes % each(r) != 0));
}

static int copy_bytes(struct range_call *r, struct cg_mem to, struct cg_mem from, size_t bytes)
{
	return copy_rows(r, 1, elements(r, bytes), from, none, to, none);
}

/* Persistent algorithms load and store PERSISTENT_ALIGN bytes at a time, at addresses that are multiples of it; cuDNN's standard algorithm
 * needs no such alignment. */
enum { PERSISTENT_ALIGN = 16 };

static int suits_algorithm(const struct range_call *r, struct cg_mem mem)
{
	return !r->algorithm || cg_cu_address(mem) % PERSISTENT_ALIGN == 0;
}

/* Lets cuDNN read *mem itself, or, if the algorithm needs aligned memory and *mem is not aligned, a copy in `space`.  A persistent
 * algorithm's sequences and states are contiguous. */
static int copy_unsuited(struct range_call *r, struct cg_mem space, int64_t elements, struct cg_mem *mem)
{
	struct cg_mem given = *mem;

	if (suits_algorithm(r, given))
		return CG_OK;
	*mem = space;
	return copy_rows(r, 1, elements, given, none, space, none);
}

static int flush(struct range_call *r)
{
	return cg_cu_flush(r->queue, &r->moves);
}

/* Copies the rows of valid steps from the caller's sequence to cuDNN's sequence. */
static int gather(struct range_call *r, struct cg_mem from, struct cg_mem to, int64_t width)
{
	return copy_rows(r, r->shape->N, width, from, r->shape->from, to, r->shape->rows);
}

/* Copies a sequence of cuDNN's to the caller's memory, which may be the same memory.  Clears the padding, to which cuDNN writes values
 * of its own. */
static int hand_out(struct range_call *r, struct cg_mem from, struct cg_mem to, int64_t width)
{
	const struct cg_dnn_shape *s = r->shape;

	if (!cg_present(to))
		return CG_OK;
	if (!s->whole)
		CG_TRY(copy_rows(r, s->T * s->B - s->N, width, none, none, to, s->padding));
	if (cg_cu_address(from) == cg_cu_address(to))
		return CG_OK;
	if (s->whole && !s->compact)
		return copy_rows(r, 1, s->N * width, from, none, to, none);
	return copy_rows(r, s->N, width, from, s->rows, to, s->compact ? s->from : s->rows);
}

/* Clears a caller's sequence that has no valid steps. */
static int hand_out_zeros(struct range_call *r, struct cg_mem to, int64_t width)
{
	return cg_present(to) ? copy_rows(r, r->shape->T * r->shape->B, width, none, none, to, r->shape->padding) : CG_OK;
}

static int64_t state_elements(const struct range_call *r, int64_t width)
{
	return cg_dnn_states(r->rnn) * r->shape->live * width;
}

/* Gives cuDNN a caller's states in cuDNN's order.  cuDNN takes absent states for zeros, as this library does. */
static int copy_states_in(struct range_call *r, struct cg_mem given, struct cg_mem space, int64_t width, struct cg_mem *result)
{
	*result = given;
	if (!cg_present(given))
		return CG_OK;
	if (!r->shape->moves)
		return copy_unsuited(r, space, state_elements(r, width), result);
	*result = space;
	return copy_rows(r, cg_dnn_states(r->rnn) * r->shape->live, width, given, r->shape->states, space, none);
}

/* The memory to which cuDNN writes states: the caller's if its order and alignment suit cuDNN, else a part of the workspace. */
static struct cg_mem states_for(const struct range_call *r, struct cg_mem wanted, struct cg_mem space)
{
	return cg_present(wanted) && (r->shape->moves || !suits_algorithm(r, wanted)) ? space : wanted;
}

/* Copies final states, or in the backward pass the gradients of initial states, to the caller's memory.  For a batch row without a step the
 * final states are its initial states, and the gradients of its initial states are those of its final states. */
static int copy_states_out(struct range_call *r, struct cg_mem from, struct cg_mem given, struct cg_mem to, int64_t width)
{
	const struct cg_dnn_shape *s = r->shape;

	if (!cg_present(to))
		return CG_OK;
	if (!s->moves)
		return cg_cu_address(from) == cg_cu_address(to) ? CG_OK : copy_rows(r, 1, state_elements(r, width), from, none, to, none);
	CG_TRY(copy_rows(r, cg_dnn_states(r->rnn) * s->live, width, from, none, to, s->states));
	return copy_rows(r, cg_dnn_states(r->rnn) * (s->B - s->live), width, given, s->dead, to, s->dead);
}

/* The states of one segment. */
static struct cg_mem of_segment(const struct range_call *r, struct cg_mem mem, int segment, int64_t width)
{
	size_t bytes = (size_t)(r->rnn->directions * r->shape->live * width) * each(r);

	return r->net->n_segments > 1 ? cg_part(mem, (size_t)segment * bytes, bytes) : mem;
}

/* ---- this library's dropout masks ---- */

/* Applies a layer's dropout mask to the layer's output, or to the gradient of that output. */
static int mask(struct range_call *r, int layer, struct cg_mem from, struct cg_mem to)
{
	const struct cg_dnn_shape *s = r->shape;
	uint64_t key = cg_network_drop_key(r->rnn, r->call->counter, layer);

	return cg_cu_move(r->queue, &r->moves, (struct cg_rows_move){
		.src = cg_cu_address(from), .dst = cg_cu_address(to), .from = cg_cu_address(s->rows), .to = cg_cu_address(s->rows),
		.rows = s->N, .columns = cg_dnn_wide(r->rnn), .drop_key = key, .drop = 1,
	});
}

/* Prepares a segment's input: the caller's input, or the output of the segment below with that segment's dropout mask applied. */
static int prepare_input(struct range_call *r, int segment, struct cg_mem *x)
{
	struct cg_mem reserve;

	if (segment) {
		*x = r->space.masked;
		return mask(r, segment - 1, saved_output(r, segment - 1, &reserve), *x);
	}
	*x = r->call->input;
	if (!r->shape->compact)
		return copy_unsuited(r, r->space.x, r->shape->N * r->rnn->I, x);
	*x = r->space.x;
	return gather(r, r->call->input, *x, r->rnn->I);
}

/* ---- parameters ---- */

static const struct cg_dnn_algorithm *algorithm_of(const struct range_call *r, int segment)
{
	return &cg_dnn_segment_of(r->net, segment)->algorithms[r->algorithm];
}

static struct cudnnRNNStruct *descriptor(const struct range_call *r, int segment)
{
	return r->state->algorithms[r->algorithm] ? r->state->algorithms[r->algorithm] : algorithm_of(r, segment)->rnn;
}

static int prepare_weights(struct range_call *r, int segment, struct cg_mem *theirs)
{
	const struct cg_dnn_layout *layout = &algorithm_of(r, segment)->layout;

	*theirs = r->call->params;
	if (layout->is_identity && suits_algorithm(r, *theirs))
		return CG_OK;
	*theirs = r->space.weights;
	return cg_dnn_copy_in(r->queue, &r->moves, r->net, segment, layout, r->call->params, *theirs);
}

/* ---- beginning ---- */

static int is_refused(const struct cg_net *net)
{
	return __atomic_load_n(&net->persistent, __ATOMIC_ACQUIRE) == REFUSED;
}

static int begin(struct range_call *r, struct cg_queue *queue, struct cg_net *net, const struct cg_dnn_range *range,
                 const struct cg_rnn_call *call, struct cg_mem work, int pass)
{
	struct cg_work carved = { .mem = aligned(work) };

	memset(r, 0, sizeof *r);
	r->queue = queue;
	r->net = net;
	r->rnn = net->rnn;
	r->call = call;
	CG_TRY(cg_dnn_find_state(net, queue, &r->state));
	CG_TRY(cg_dnn_find_shape(net, r->state, range, &r->shape));
	r->algorithm = is_refused(net) ? 0 : r->shape->algorithm;
	cg_dnn_carve_workspace(net, r->shape, pass, &carved, &r->space);
	r->moves.dtype = r->rnn->dtype;
	r->moves.drop = (struct cg_drop){
		.rate = call->no_dropout ? 0 : r->rnn->dropout, .t = r->shape->t, .b = r->shape->b, .first_t = call->first_step, .batch = r->shape->B,
	};
	return CG_OK;
}

/* ---- forward ---- */

/* The arguments in memory of one forward call of cuDNN. */
struct forward_memory { struct cg_mem x, y, hx, cx, hy, cy, reserve; };

static int call_forward(const struct range_call *r, int segment, const struct forward_memory *w, struct cg_mem theirs)
{
	const struct cg_dnn_shape *s = r->shape;

	CUDNN_TRY(RNNForward, r->queue->dnn, descriptor(r, segment), r->rnn->training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
	          pointer(s->device_lengths), s->x[segment > 0], pointer(w->x), s->y, pointer(w->y), s->h, pointer(w->hx), pointer(w->hy),
	          s->c, pointer(w->cx), pointer(w->cy), algorithm_of(r, segment)->layout.bytes, pointer(theirs), s->work, pointer(r->space.vendor),
	          r->rnn->training ? s->reserve[segment > 0] : 0, pointer(w->reserve));
	return CG_OK;
}

/* Tries a persistent algorithm.  The first forward call that tries a persistent algorithm decides for good whether the network uses
 * persistent algorithms or only cuDNN's standard one: cuDNN refuses them only in a call, and a reserve space belongs to one algorithm. */
static int try_persistent(const struct range_call *r, int segment, const struct forward_memory *w, struct cg_mem theirs)
{
	struct cg_net *net = r->net;
	int code;

	pthread_mutex_lock(net->device->lock);
	code = net->persistent == REFUSED ? CG_UNSUPPORTED : call_forward(r, segment, w, theirs);
	if (net->persistent == UNTRIED && (!code || code == CG_UNSUPPORTED))
		__atomic_store_n(&net->persistent, code ? REFUSED : WORKS, __ATOMIC_RELEASE);
	pthread_mutex_unlock(net->device->lock);
	return code;
}

static int run_forward(struct range_call *r, int segment, const struct forward_memory *w)
{
	struct cg_mem theirs;
	int code;

	CG_TRY(prepare_weights(r, segment, &theirs));
	CG_TRY(flush(r));
	if (!r->algorithm || __atomic_load_n(&r->net->persistent, __ATOMIC_ACQUIRE) == WORKS)
		return call_forward(r, segment, w, theirs);
	code = try_persistent(r, segment, w, theirs);
	if (code != CG_UNSUPPORTED || !is_refused(r->net))
		return code;
	r->algorithm = 0;
	CG_TRY(prepare_weights(r, segment, &theirs));
	CG_TRY(flush(r));
	return call_forward(r, segment, w, theirs);
}

/* The memory to which cuDNN writes the last layer's output, if that output is not saved in the reserve space. */
static struct cg_mem output_for(const struct range_call *r)
{
	return cg_present(r->call->output) && !r->shape->compact && suits_algorithm(r, r->call->output) ? r->call->output : r->space.y;
}

/* Clears a part of the reserve space from an offset up to the beginning of the next part. */
static int clear_end(struct range_call *r, struct cg_mem part, size_t from)
{
	size_t end = part.bytes + (size_t)-part.bytes % CG_DNN_ALIGN;

	from += (size_t)-from % each(r);
	return part.data && from < end ? zero(r, cg_part(part, from, end - from), (int64_t)((end - from) / each(r))) : CG_OK;
}

/* Clears the bytes of the reserve space that no call of cuDNN writes, so that equal calls leave equal bytes: the header, which the
 * runtime fills, and the gaps between the parts; if there are no steps, the whole reserve space. */
static int clear_gaps(struct range_call *r)
{
	for (int n = 0; n < r->net->n_segments; n++) {
		struct cg_mem theirs, y = saved_output(r, n, &theirs);

		CG_TRY(clear_end(r, y, r->shape->live ? y.bytes : 0));
		CG_TRY(clear_end(r, theirs, r->shape->live ? theirs.bytes : 0));
	}
	return clear_end(r, cg_part(r->call->reserve, 0, CG_DNN_ALIGN), 0);
}

/* Copies a segment's output, and cuDNN's reserve, to the reserve space if cuDNN wrote them to the workspace.  The segment of the layer
 * above reads this output in the reserve space. */
static int save_output(struct range_call *r, int segment, const struct forward_memory *w)
{
	struct cg_mem theirs, y = saved_output(r, segment, &theirs);

	if (!r->rnn->training)
		return CG_OK;
	if (cg_cu_address(w->y) != cg_cu_address(y))
		CG_TRY(copy_bytes(r, y, w->y, y.bytes));
	if (cg_cu_address(w->reserve) != cg_cu_address(theirs))
		CG_TRY(copy_bytes(r, theirs, w->reserve, theirs.bytes));
	return segment < r->net->n_segments - 1 ? flush(r) : CG_OK;
}

static int run_segments_forward(struct range_call *r, struct forward_memory *all)
{
	const struct cg_network *rnn = r->rnn;

	for (int n = 0; n < r->net->n_segments; n++) {
		struct forward_memory w = {
			.hx = of_segment(r, all->hx, n, rnn->H), .cx = of_segment(r, all->cx, n, rnn->U),
			.hy = of_segment(r, all->hy, n, rnn->H), .cy = of_segment(r, all->cy, n, rnn->U),
		};
		struct cg_mem ours = none;

		CG_TRY(prepare_input(r, n, &w.x));
		w.y = rnn->training ? saved_output(r, n, &ours) : output_for(r);
		if (!suits_algorithm(r, w.y))
			w.y = r->space.y;
		w.reserve = is_aligned(ours) ? ours : r->space.reserve;
		all->y = w.y;
		CG_TRY(run_forward(r, n, &w));
		CG_TRY(save_output(r, n, &w));
	}
	return CG_OK;
}

static int forward(struct range_call *r)
{
	const struct cg_rnn_call *c = r->call;
	const struct cg_network *rnn = r->rnn;
	struct forward_memory all = { .hy = states_for(r, c->output_h, r->space.hy), .cy = states_for(r, c->output_c, r->space.cy) };

	if (r->shape->live) {
		CG_TRY(copy_states_in(r, c->input_h, r->space.hx, rnn->H, &all.hx));
		CG_TRY(copy_states_in(r, c->input_c, r->space.cx, rnn->U, &all.cx));
		CG_TRY(run_segments_forward(r, &all));
		CG_TRY(hand_out(r, all.y, c->output, cg_dnn_wide(rnn)));
	} else {
		CG_TRY(hand_out_zeros(r, c->output, cg_dnn_wide(rnn)));
	}
	CG_TRY(copy_states_out(r, all.hy, c->input_h, c->output_h, rnn->H));
	if (is_lstm(r))
		CG_TRY(copy_states_out(r, all.cy, c->input_c, c->output_c, rnn->U));
	if (rnn->training)
		CG_TRY(clear_gaps(r));
	return flush(r);
}

/* ---- backward ---- */

struct backward_memory { struct cg_mem x, y, dy, dx, hx, cx, dhy, dcy, dhx, dcx, reserve, weights, dweights; };

/* Gives cuDNN a reserve that cuDNN may overwrite: cuDNN's backward call for the data writes there what its backward call for the weights
 * reads. */
static int open_reserve(struct range_call *r, int segment, struct backward_memory *b)
{
	struct cg_mem theirs;

	b->y = saved_output(r, segment, &theirs);
	CG_TRY(copy_unsuited(r, r->space.y, cg_dnn_rows(r->shape) * cg_dnn_wide(r->rnn), &b->y));
	b->reserve = theirs;
	if (r->call->spend_reserve && is_aligned(theirs))
		return CG_OK;
	b->reserve = r->space.reserve;
	return copy_bytes(r, b->reserve, theirs, r->shape->reserve[segment > 0]);
}

/* Prepares the memory of the parameters' gradients, to which cuDNN can only add: writes zeros or, to accumulate, the caller's values. */
static int open_sums(struct range_call *r, int segment, struct backward_memory *b)
{
	const struct cg_dnn_layout *layout = &algorithm_of(r, segment)->layout;
	struct cg_mem ours = r->call->params_backprop;
	int is_direct = layout->is_identity && suits_algorithm(r, ours);

	if (!cg_present(ours))
		return CG_OK;
	/* The other array of space.dweights still holds the weight gradients of the segment computed before, which are yet to be copied. */
	b->dweights = is_direct ? ours : r->space.dweights[segment % 2];
	if (!r->call->accumulate)
		return zero(r, b->dweights, elements(r, layout->bytes));
	if (is_direct)
		return CG_OK;
	return cg_dnn_copy_in(r->queue, &r->moves, r->net, segment, layout, ours, b->dweights);
}

static int run_backward(const struct range_call *r, int segment, const struct backward_memory *b)
{
	const struct cg_dnn_shape *s = r->shape;

	CUDNN_TRY(RNNBackwardData_v8, r->queue->dnn, descriptor(r, segment), pointer(s->device_lengths), s->y, pointer(b->y), pointer(b->dy),
	          s->x[segment > 0], pointer(b->dx), s->h, pointer(b->hx), pointer(b->dhy), pointer(b->dhx), s->c,
	          pointer(b->cx), pointer(b->dcy), pointer(b->dcx), algorithm_of(r, segment)->layout.bytes, pointer(b->weights), s->work,
	          pointer(r->space.vendor), s->reserve[segment > 0], pointer(b->reserve));
	return CG_OK;
}

static int sum_up(struct range_call *r, int segment, const struct backward_memory *b)
{
	const struct cg_dnn_layout *layout = &algorithm_of(r, segment)->layout;
	const struct cg_dnn_shape *s = r->shape;
	struct cg_mem ours = r->call->params_backprop;

	if (!cg_present(ours))
		return CG_OK;
	CUDNN_TRY(RNNBackwardWeights_v8, r->queue->dnn, descriptor(r, segment), CUDNN_WGRAD_MODE_ADD, pointer(s->device_lengths),
	          s->x[segment > 0], pointer(b->x), s->h, pointer(b->hx), s->y, pointer(b->y), layout->bytes, pointer(b->dweights), s->work,
	          pointer(r->space.vendor), s->reserve[segment > 0], pointer(b->reserve));
	if (cg_cu_address(b->dweights) == cg_cu_address(ours))
		return CG_OK;
	return cg_dnn_copy_out(r->queue, &r->moves, r->net, segment, layout, b->dweights, ours);
}

/* Prepares the gradient of the output of a segment's last layer, which cuDNN requires; for the last segment zeros if the caller gives no
 * gradient. */
static int prepare_dy(struct range_call *r, int segment, struct cg_mem *dy)
{
	struct cg_mem given = r->call->output_backprop;

	*dy = r->space.dy;
	if (segment < r->net->n_segments - 1)
		return mask(r, segment, r->space.dx, *dy);
	if (!cg_present(given))
		return zero(r, *dy, cg_dnn_rows(r->shape) * cg_dnn_wide(r->rnn));
	if (r->shape->compact)
		return gather(r, given, *dy, cg_dnn_wide(r->rnn));
	*dy = given;
	return copy_unsuited(r, r->space.dy, cg_dnn_rows(r->shape) * cg_dnn_wide(r->rnn), dy);
}

static int run_segment_backward(struct range_call *r, int segment, struct backward_memory *b)
{
	CG_TRY(prepare_dy(r, segment, &b->dy));
	CG_TRY(open_reserve(r, segment, b));
	CG_TRY(prepare_weights(r, segment, &b->weights));
	if (cg_present(r->call->params_backprop))
		CG_TRY(prepare_input(r, segment, &b->x));
	CG_TRY(open_sums(r, segment, b));
	CG_TRY(flush(r));
	CG_TRY(run_backward(r, segment, b));
	return sum_up(r, segment, b);
}

static int run_segments_backward(struct range_call *r, const struct backward_memory *all)
{
	const struct cg_network *rnn = r->rnn;

	for (int n = r->net->n_segments - 1; n >= 0; n--) {
		struct backward_memory b = {
			.dx = n ? r->space.dx : all->dx,
			.hx = of_segment(r, all->hx, n, rnn->H), .cx = of_segment(r, all->cx, n, rnn->U),
			.dhy = of_segment(r, all->dhy, n, rnn->H), .dcy = of_segment(r, all->dcy, n, rnn->U),
			.dhx = of_segment(r, all->dhx, n, rnn->H), .dcx = of_segment(r, all->dcx, n, rnn->U),
		};

		CG_TRY(run_segment_backward(r, n, &b));
	}
	return CG_OK;
}

/* Runs the backward pass of a call without steps: zeros the gradients of the input and, unless they accumulate, of the parameters.  In a
 * call without steps the gradients of the final states become those of the initial states. */
static int run_without_steps(struct range_call *r)
{
	const struct cg_rnn_call *c = r->call;

	CG_TRY(hand_out_zeros(r, c->input_backprop, r->rnn->I));
	return cg_present(c->params_backprop) && !c->accumulate ? zero(r, c->params_backprop, r->rnn->params) : CG_OK;
}

static int backward(struct range_call *r)
{
	const struct cg_rnn_call *c = r->call;
	const struct cg_network *rnn = r->rnn;
	struct backward_memory all = {
		.dx = cg_present(c->input_backprop) && !r->shape->compact && suits_algorithm(r, c->input_backprop) ? c->input_backprop
		      : r->space.dx,
		.dhx = states_for(r, c->input_h_backprop, r->space.dhx), .dcx = states_for(r, c->input_c_backprop, r->space.dcx),
	};

	if (r->shape->live) {
		CG_TRY(copy_states_in(r, c->input_h, r->space.hx, rnn->H, &all.hx));
		CG_TRY(copy_states_in(r, c->input_c, r->space.cx, rnn->U, &all.cx));
		CG_TRY(copy_states_in(r, c->output_h_backprop, r->space.dhy, rnn->H, &all.dhy));
		CG_TRY(copy_states_in(r, c->output_c_backprop, r->space.dcy, rnn->U, &all.dcy));
		CG_TRY(run_segments_backward(r, &all));
		CG_TRY(hand_out(r, all.dx, c->input_backprop, rnn->I));
	} else {
		CG_TRY(run_without_steps(r));
	}
	CG_TRY(copy_states_out(r, all.dhx, c->output_h_backprop, c->input_h_backprop, rnn->H));
	if (is_lstm(r))
		CG_TRY(copy_states_out(r, all.dcx, c->output_c_backprop, c->input_c_backprop, rnn->U));
	return flush(r);
}

/* ---- both ---- */

int cg_dnn_range_run(struct cg_queue *queue, struct cg_net *net, int pass, const struct cg_dnn_range *range, const struct cg_rnn_call *call,
                     struct cg_mem work)
{
	struct range_call r;

	CG_TRY(begin(&r, queue, net, range, call, work, pass));
	return pass == CG_FORWARD ? forward(&r) : backward(&r);
}
