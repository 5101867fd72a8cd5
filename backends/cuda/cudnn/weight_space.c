/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts parameters between the library's buffer and cuDNN's weight space, whose layout cuDNN reports at run time.  In every version of
 * cuDNN that was tried the weight space has the layout of the library's buffer; the code does not rely on that.  If the two layouts are
 * equal and one call of cuDNN runs all layers, cuDNN gets the caller's buffer itself, unless a persistent algorithm needs a buffer with a
 * larger alignment.
 */
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"

/* ---- asking cuDNN ---- */

/* A query of cuDNN's layout; cuDNN answers with addresses in a weight space that begins at `base`. */
struct question {
	struct cudnnRNNStruct *rnn;
	struct cg_dnn_layout *layout;
	CUdeviceptr base;
	struct cudnnTensorStruct *matrix, *bias;
};

/* Finds the offset of one of cuDNN's weight tensors in bytes from the base, and its shape; 0 rows: cuDNN has no such tensor.  The
 * elements of the tensor must be contiguous. */
static int find_offset(const struct question *q, struct cudnnTensorStruct *tensor, const void *at, size_t each,
                       struct cg_rnn_region *region, size_t *state)
{
	int dims[3] = { 0 }, strides[3] = { 0 }, n = 0;
	unsigned type;

	*region = (struct cg_rnn_region){ .rows = 0 };
	if (!at)
		return CG_OK;
	CUDNN_TRY(GetTensorNdDescriptor, tensor, 3, &type, &n, dims, strides);
	*state = (size_t)((CUdeviceptr)(uintptr_t)at - q->base);
	region->rows = dims[1];
	region->columns = dims[2];
	if (n == 3 && *state <= q->layout->bytes && *state % each == 0 &&
	    (size_t)(region->rows * region->columns) <= (q->layout->bytes - *state) / each &&
	    (strides[1] == dims[2] || dims[1] <= 1) && (strides[2] == 1 || dims[2] <= 1))
		return CG_OK;
	return cg_fail(CG_UNSUPPORTED, "cuda: cudnnGetRNNWeightParams: expected 3 dimensions, the last two a contiguous matrix of whole "
	               "elements within the weight space, got %d dimensions, [%d, %d, %d] with strides [%d, %d, %d], at byte "
	               "%zu of %zu", n, dims[0], dims[1], dims[2], strides[0], strides[1], strides[2], *state, q->layout->bytes);
}

/* Adds a matrix or bias to the list of parts; fails if cuDNN has that part in another shape.  A part that neither layout has is left
 * out. */
static int add(const struct cg_net *net, const struct cg_dnn_part *part, struct cg_rnn_region ours, struct cg_rnn_region theirs,
               struct cg_dnn_layout *layout)
{
	int is_vector = part->part == CG_RNN_BIAS_W || part->part == CG_RNN_BIAS_R;

	/* cuDNN describes a bias as a column; this library has it as a row. */
	if (is_vector && theirs.columns == 1)
		theirs = (struct cg_rnn_region){ .rows = 1, .columns = theirs.rows };
	if (!theirs.rows && !ours.rows)
		return CG_OK;
	if (theirs.rows && !ours.rows && part->part == CG_RNN_INPUT && net->rnn->skip) {
		layout->parts[layout->n++] = *part;      /* cuDNN has input matrices despite skip_input, which cg_dnn_has_input() reports */
		return CG_OK;
	}
	if (theirs.rows != ours.rows || theirs.columns != ours.columns)
		return cg_fail(CG_UNSUPPORTED, "cuda: cudnnGetRNNWeightParams: pseudo-layer %d: expected a matrix or bias of [%lld, %lld], got "
		               "[%lld, %lld]",
		               part->pseudo_layer, (long long)ours.rows, (long long)ours.columns, (long long)theirs.rows,
		               (long long)theirs.columns);
	layout->parts[layout->n++] = *part;
	return CG_OK;
}

static int ask(const struct cg_net *net, struct question *q, int first, int pseudo_layer, int id, int of_biases)
{
	const struct cg_network *rnn = net->rnn;
	int G = rnn->n_weights, recurrent = id >= G, k = id % G;
	struct cg_dnn_part part = { .pseudo_layer = pseudo_layer, .k = k };
	struct cg_rnn_region theirs;
	void *matrix = NULL, *bias = NULL;

	CUDNN_TRY(GetRNNWeightParams, net->device->dnn, q->rnn, pseudo_layer, q->layout->bytes, (void *)(uintptr_t)q->base, id, q->matrix,
	          &matrix, q->bias, &bias);
	if (id == 2 * G)
		part = (struct cg_dnn_part){ .pseudo_layer = pseudo_layer, .part = CG_RNN_PROJECTION };
	else if (of_biases)
		part.part = recurrent ? CG_RNN_BIAS_R : CG_RNN_BIAS_W;
	else
		part.part = recurrent ? CG_RNN_RECURRENT : CG_RNN_INPUT;
	CG_TRY(find_offset(q, of_biases ? q->bias : q->matrix, of_biases ? bias : matrix, cg_dtype_bytes(rnn->dtype), &theirs, &part.at));
	return add(net, &part, cg_network_part(rnn, first * rnn->directions + pseudo_layer, part.part, part.k), theirs, q->layout);
}

/* Asks for all parts in the library's order, the matrices first. */
static int ask_all(const struct cg_net *net, const struct cg_dnn_segment *segment, struct question *q)
{
	int n = segment->layers * net->rnn->directions, G = net->rnn->n_weights, first = segment == &net->segments[1];

	for (int p = 0; p < n; p++)
		for (int id = 0; id < 2 * G + (net->rnn->P > 0); id++)
			CG_TRY(ask(net, q, first, p, id, 0));
	for (int p = 0; p < n; p++)
		for (int id = 0; id < 2 * G; id++)
			CG_TRY(ask(net, q, first, p, id, 1));
	return CG_OK;
}

static struct cg_rnn_region ours_of(const struct cg_net *net, int first, const struct cg_dnn_part *part)
{
	return cg_network_part(net->rnn, first * net->rnn->directions + part->pseudo_layer, part->part, part->k);
}

static int maps_to_itself(const struct cg_net *net, const struct cg_dnn_layout *layout)
{
	size_t each = cg_dtype_bytes(net->rnn->dtype);

	for (int k = 0; k < layout->n; k++)
		if (layout->parts[k].at != (size_t)ours_of(net, 0, &layout->parts[k]).offset * each)
			return 0;
	return net->n_segments == 1 && layout->bytes == (size_t)net->rnn->params * each;
}

static int ask_with(const struct cg_net *net, const struct cg_dnn_segment *segment, struct question *q)
{
	CUDNN_TRY(CreateTensorDescriptor, &q->matrix);
	CUDNN_TRY(CreateTensorDescriptor, &q->bias);
	CG_TRY(cg_cu_alloc(net->device, NULL, q->layout->bytes, &q->base));
	return ask_all(net, segment, q);
}

int cg_dnn_lay_out(const struct cg_net *net, const struct cg_dnn_segment *segment, struct cg_dnn_algorithm *algorithm)
{
	int parts = segment->layers * net->rnn->directions * (4 * net->rnn->n_weights + 1), code;
	struct question q = { .rnn = algorithm->rnn, .layout = &algorithm->layout };

	algorithm->layout = (struct cg_dnn_layout){ .parts = cg_memory(NULL, (size_t)parts * sizeof *algorithm->layout.parts) };
	if (!algorithm->layout.parts)
		return CG_NO_MEMORY;
	CUDNN_TRY(GetRNNWeightSpaceSize, net->device->dnn, algorithm->rnn, &algorithm->layout.bytes);
	code = ask_with(net, segment, &q);
	if (q.base)
		cg_cu.MemFree_v2(q.base);
	if (q.bias)
		cg_cudnn.DestroyTensorDescriptor(q.bias);
	if (q.matrix)
		cg_cudnn.DestroyTensorDescriptor(q.matrix);
	algorithm->layout.is_identity = !code && maps_to_itself(net, &algorithm->layout);
	return code;
}

void cg_dnn_release_layout(struct cg_dnn_layout *layout)
{
	cg_memory(layout->parts, 0);
	layout->parts = NULL;
}

int cg_dnn_has_input(const struct cg_dnn_layout *layout)
{
	for (int k = 0; k < layout->n; k++)
		if (layout->parts[k].part == CG_RNN_INPUT && layout->parts[k].pseudo_layer == 0)
			return 1;
	return 0;
}

/* ---- copying ---- */

/* A run of parameters that is contiguous in both layouts so far. */
struct contiguous { size_t ours, theirs, bytes; };

struct weight_copy {
	struct cg_queue *queue;
	struct cg_cu_moves *moves;
	const struct cg_net *net;
	struct cg_mem ours, theirs;
	int out;                                 /* 1: copies from cuDNN's weight space to the library's buffer */
	struct contiguous pending;
};

static int copy_contiguous(struct weight_copy *c)
{
	CUdeviceptr ours = cg_cu_address(c->ours) + c->pending.ours, theirs = cg_cu_address(c->theirs) + c->pending.theirs;
	struct cg_rows_move move = { .src = c->out ? theirs : ours, .dst = c->out ? ours : theirs, .rows = 1 };

	move.columns = (int64_t)(c->pending.bytes / cg_dtype_bytes(c->net->rnn->dtype));
	c->pending.bytes = 0;
	return cg_cu_move(c->queue, c->moves, move);
}

static int copy_part(struct weight_copy *c, struct cg_rnn_region r, const struct cg_dnn_part *part)
{
	size_t each = cg_dtype_bytes(c->net->rnn->dtype), at = (size_t)r.offset * each, bytes = (size_t)(r.rows * r.columns) * each;

	if (c->pending.ours + c->pending.bytes != at || c->pending.theirs + c->pending.bytes != part->at) {
		CG_TRY(copy_contiguous(c));
		c->pending = (struct contiguous){ at, part->at, 0 };
	}
	c->pending.bytes += bytes;
	return CG_OK;
}

static int copy_all(struct weight_copy c, int first, const struct cg_dnn_layout *layout)
{
	for (int k = 0; k < layout->n; k++)
		CG_TRY(copy_part(&c, ours_of(c.net, first, &layout->parts[k]), &layout->parts[k]));
	return copy_contiguous(&c);
}

int cg_dnn_copy_in(struct cg_queue *queue, struct cg_cu_moves *moves, const struct cg_net *net, int first,
                   const struct cg_dnn_layout *layout, struct cg_mem ours, struct cg_mem theirs)
{
	return copy_all((struct weight_copy){ queue, moves, net, ours, theirs, 0, { 0 } }, first, layout);
}

int cg_dnn_copy_out(struct cg_queue *queue, struct cg_cu_moves *moves, const struct cg_net *net, int first,
                    const struct cg_dnn_layout *layout, struct cg_mem theirs, struct cg_mem ours)
{
	return copy_all((struct weight_copy){ queue, moves, net, ours, theirs, 1, { 0 } }, first, layout);
}
