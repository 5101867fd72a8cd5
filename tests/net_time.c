/*
 * What a training step of a network costs beyond cuDNN: the three calls of cuDNN's alone, on memory and descriptors of their own,
 * and our forward and backward by route cudnn, taken in turn on one stream of the cuda backend.
 *
 *	net_time [--most PERCENT] [DTYPE]...     a table in Markdown; exit 1 where ours is slower by more than PERCENT
 *
 * NET_TIME: seconds for each row, 1.  NET_SMALL: any value for sizes that a stand-in gets through.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "runtime/op.h"
#include "runtime/runtime.h"

enum { BUFFERS = 24, ROWS_MAX = 512, TURNS_MAX = 4096 };

static const struct { const char *cell; unsigned mode; int has_c; } cells[] = {
	{ "lstm", CUDNN_LSTM, 1 }, { "gru", CUDNN_GRU, 0 }, { "rnn_tanh", CUDNN_RNN_TANH, 0 }, { "rnn_relu", CUDNN_RNN_RELU, 0 }
};
static const struct size { int T, B, I, U, layers; } large[] = {
	{ 100, 64, 512, 512, 1 }, { 50, 128, 1024, 1024, 2 }, { 200, 16, 256, 256, 1 }
}, small[] = { { 4, 3, 5, 6, 1 }, { 3, 2, 4, 4, 2 } };

/* ---- cuDNN alone ---- */

struct bare {
	struct cudnnContext *handle;
	struct cudnnDropoutStruct *dropout;
	struct cudnnRNNStruct *rnn;
	struct cudnnRNNDataStruct *x, *y;
	struct cudnnTensorStruct *h, *c;
	size_t weight_bytes, work_bytes, reserve_bytes;
	struct cg_mem weights, dweights, work, reserve, lengths;
};

struct net {
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_rnn_config config;
	struct size size;
	int cell;
	struct cg_rnn *rnn;
	struct cg_rnn_call call;
	struct cg_mem buffers[BUFFERS];
	int n_buffers;
	struct bare bare;
};

static void *at(struct cg_mem mem)
{
	return (void *)(uintptr_t)cg_cu_address(mem);
}

static unsigned type_of(int dtype)
{
	static const unsigned types[] = {
		[CG_F32] = CUDNN_DATA_FLOAT, [CG_F64] = CUDNN_DATA_DOUBLE, [CG_F16] = CUDNN_DATA_HALF, [CG_BF16] = CUDNN_DATA_BFLOAT16
	};

	return types[dtype];
}

static int take(struct net *n, size_t bytes, struct cg_mem *mem)
{
	CG_TRY(cg_alloc(n->context, bytes, mem));
	n->buffers[n->n_buffers++] = *mem;
	return n->context->backend->zero(n->stream->queue, *mem, bytes);
}

static int describe_data(const struct net *n, int width, struct cudnnRNNDataStruct **data)
{
	int lengths[ROWS_MAX];

	for (int b = 0; b < n->size.B; b++)
		lengths[b] = n->size.T;
	CUDNN_TRY(CreateRNNDataDescriptor, data);
	CUDNN_TRY(SetRNNDataDescriptor, *data, type_of(n->config.dtype), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, n->size.T, n->size.B, width,
	          lengths, NULL);
	return CG_OK;
}

static int describe_state(const struct net *n, struct cudnnTensorStruct **tensor)
{
	int dims[] = { n->size.layers, n->size.B, n->size.U }, strides[] = { n->size.B * n->size.U, n->size.U, 1 };

	CUDNN_TRY(CreateTensorDescriptor, tensor);
	CUDNN_TRY(SetTensorNdDescriptor, *tensor, type_of(n->config.dtype), 3, dims, strides);
	return CG_OK;
}

/* The device's copy of the lengths, for versions that want one. */
static int send_lengths(struct net *n)
{
	int32_t lengths[ROWS_MAX];

	for (int b = 0; b < n->size.B; b++)
		lengths[b] = n->size.T;
	CG_TRY(take(n, (size_t)n->size.B * sizeof *lengths, &n->bare.lengths));
	return cg_put(n->stream, n->bare.lengths, lengths, (size_t)n->size.B * sizeof *lengths);
}

/* By the algorithm that ours takes. */
static int open_bare(struct net *n, unsigned algorithm)
{
	struct bare *b = &n->bare;
	const struct size *s = &n->size;
	unsigned type = type_of(n->config.dtype), precision = n->config.dtype == CG_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
	unsigned math = n->config.dtype == CG_F32 ? CUDNN_FMA_MATH : n->config.dtype == CG_F64 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;

	CUDNN_TRY(Create, &b->handle);
	CUDNN_TRY(SetStream, b->handle, n->stream->queue->stream);
	CUDNN_TRY(CreateDropoutDescriptor, &b->dropout);
	CUDNN_TRY(SetDropoutDescriptor, b->dropout, b->handle, 0, NULL, 0, 0);
	CUDNN_TRY(CreateRNNDescriptor, &b->rnn);
	CUDNN_TRY(SetRNNDescriptor_v8, b->rnn, algorithm, cells[n->cell].mode, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
	          CUDNN_LINEAR_INPUT, type, precision, math, s->I, s->U, s->U, s->layers, b->dropout, CUDNN_RNN_PADDED_IO_ENABLED);
	CG_TRY(describe_data(n, s->I, &b->x));
	CG_TRY(describe_data(n, s->U, &b->y));
	CG_TRY(describe_state(n, &b->h));
	CG_TRY(describe_state(n, &b->c));
	CUDNN_TRY(GetRNNWeightSpaceSize, b->handle, b->rnn, &b->weight_bytes);
	CUDNN_TRY(GetRNNTempSpaceSizes, b->handle, b->rnn, CUDNN_FWD_MODE_TRAINING, b->x, &b->work_bytes, &b->reserve_bytes);
	CG_TRY(take(n, b->weight_bytes, &b->weights));
	CG_TRY(take(n, b->weight_bytes, &b->dweights));
	CG_TRY(take(n, b->work_bytes, &b->work));
	CG_TRY(take(n, b->reserve_bytes, &b->reserve));
	return send_lengths(n);
}

static int step_bare(struct net *n)
{
	const struct cg_rnn_call *c = &n->call;
	struct bare *b = &n->bare;

	CUDNN_TRY(RNNForward, b->handle, b->rnn, CUDNN_FWD_MODE_TRAINING, at(b->lengths), b->x, at(c->input), b->y, at(c->output), b->h,
	          at(c->input_h), at(c->output_h), b->c, at(c->input_c), at(c->output_c), b->weight_bytes, at(b->weights), b->work_bytes,
	          at(b->work), b->reserve_bytes, at(b->reserve));
	CUDNN_TRY(RNNBackwardData_v8, b->handle, b->rnn, at(b->lengths), b->y, at(c->output), at(c->output_backprop), b->x,
	          at(c->input_backprop), b->h, at(c->input_h), NULL, at(c->input_h_backprop), b->c, at(c->input_c), NULL,
	          at(c->input_c_backprop), b->weight_bytes, at(b->weights), b->work_bytes, at(b->work), b->reserve_bytes, at(b->reserve));
	CUDNN_TRY(RNNBackwardWeights_v8, b->handle, b->rnn, CUDNN_WGRAD_MODE_ADD, at(b->lengths), b->x, at(c->input), b->h, at(c->input_h),
	          b->y, at(c->output), b->weight_bytes, at(b->dweights), b->work_bytes, at(b->work), b->reserve_bytes, at(b->reserve));
	return CG_OK;
}

static void close_bare(struct bare *b)
{
	if (b->x)
		cg_cudnn.DestroyRNNDataDescriptor(b->x);
	if (b->y)
		cg_cudnn.DestroyRNNDataDescriptor(b->y);
	if (b->h)
		cg_cudnn.DestroyTensorDescriptor(b->h);
	if (b->c)
		cg_cudnn.DestroyTensorDescriptor(b->c);
	if (b->rnn)
		cg_cudnn.DestroyRNNDescriptor(b->rnn);
	if (b->dropout)
		cg_cudnn.DestroyDropoutDescriptor(b->dropout);
	if (b->handle)
		cg_cudnn.Destroy(b->handle);
}

/* ---- ours ---- */

/* Which algorithm ours takes is seen in what it sets and then walks. */
static struct cg_cudnn really;
static struct { struct cudnnRNNStruct *rnn; unsigned algorithm; } set[BUFFERS];
static unsigned n_set, algorithm_seen;

static unsigned see_set(struct cudnnRNNStruct *rnn, unsigned algorithm, unsigned cell, unsigned bias, unsigned direction, unsigned input,
                        unsigned type, unsigned precision, unsigned math, int32_t input_size, int32_t hidden_size,
                        int32_t projection_size, int32_t layers, struct cudnnDropoutStruct *dropout, uint32_t flags)
{
	set[n_set % BUFFERS].rnn = rnn;
	set[n_set++ % BUFFERS].algorithm = algorithm;
	return really.SetRNNDescriptor_v8(rnn, algorithm, cell, bias, direction, input, type, precision, math, input_size, hidden_size,
	                                  projection_size, layers, dropout, flags);
}

static unsigned see_forward(struct cudnnContext *handle, struct cudnnRNNStruct *rnn, unsigned mode, const int32_t *lengths,
                            struct cudnnRNNDataStruct *x_data, const void *x, struct cudnnRNNDataStruct *y_data, void *y,
                            struct cudnnTensorStruct *h, const void *hx, void *hy, struct cudnnTensorStruct *c, const void *cx,
                            void *cy, size_t weight_bytes, const void *weights, size_t work_bytes, void *work,
                            size_t reserve_bytes, void *reserve)
{
	for (unsigned k = 0; k < BUFFERS && k < n_set; k++)
		if (set[k].rnn == rnn)
			algorithm_seen = set[k].algorithm;
	return really.RNNForward(handle, rnn, mode, lengths, x_data, x, y_data, y, h, hx, hy, c, cx, cy, weight_bytes, weights, work_bytes,
	                         work, reserve_bytes, reserve);
}

/* The table has its calls from the first plan on. */
static void look(void)
{
	really = cg_cudnn;
	cg_cudnn.SetRNNDescriptor_v8 = see_set;
	cg_cudnn.RNNForward = see_forward;
	n_set = 0;
}

static void look_away(void)
{
	cg_cudnn = really;
}

static int open_ours(struct net *n)
{
	const struct size *s = &n->size;
	size_t each = cg_dtype_bytes(n->config.dtype), rows = (size_t)s->T * (size_t)s->B;
	size_t states = (size_t)s->layers * (size_t)s->B * (size_t)s->U;
	struct cg_rnn_call *c = &n->call;
	struct cg_rnn_sizes sizes;
	const struct { struct cg_mem *mem; size_t elements; } all[] = {
		{ &c->input, rows * (size_t)s->I }, { &c->input_backprop, rows * (size_t)s->I }, { &c->output, rows * (size_t)s->U },
		{ &c->output_backprop, rows * (size_t)s->U }, { &c->output_h, states }, { &c->input_h_backprop, states },
		{ &c->output_c, cells[n->cell].has_c ? states : 0 }, { &c->input_c_backprop, cells[n->cell].has_c ? states : 0 },
	};

	CG_TRY(cg_rnn_open(n->context, &n->config, &n->rnn));
	CG_TRY(cg_rnn_sizes(n->rnn, s->T, s->B, NULL, &sizes));
	cg_rnn_call_init(c, sizeof *c);
	c->T = s->T;
	c->B = s->B;
	c->spend_reserve = 1;
	c->accumulate = 1;
	for (size_t k = 0; k < sizeof all / sizeof *all; k++)
		if (all[k].elements)
			CG_TRY(take(n, all[k].elements * each, all[k].mem));
	CG_TRY(take(n, sizes.params, &c->params));
	CG_TRY(take(n, sizes.params, &c->params_backprop));
	CG_TRY(take(n, sizes.reserve, &c->reserve));
	return take(n, sizes.work, &c->work);
}

static int step_ours(struct net *n)
{
	CG_TRY(cg_rnn_forward(n->stream, n->rnn, &n->call));
	return cg_rnn_backward(n->stream, n->rnn, &n->call);
}

/* ---- in turn ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int time_one(struct net *n, int (*step)(struct net *), double *ms)
{
	double began = cg_milliseconds();

	CG_TRY(step(n));
	CG_TRY(cg_stream_sync(n->stream));
	*ms = cg_milliseconds() - began;
	return CG_OK;
}

/* Medians over turns; the first ones make ready. */
static int time_both(struct net *n, double seconds, double ms[2], int *turns)
{
	static double all[2][TURNS_MAX];
	double until = 0;

	for (int k = -2; k < TURNS_MAX; k++) {
		double one[2];

		CG_TRY(time_one(n, k & 1 ? step_ours : step_bare, &one[k & 1]));
		CG_TRY(time_one(n, k & 1 ? step_bare : step_ours, &one[!(k & 1)]));
		if (k < 0) {
			until = cg_milliseconds() + seconds * 1000;
			continue;
		}
		all[0][k] = one[0];
		all[1][k] = one[1];
		*turns = k + 1;
		if (k > 3 && cg_milliseconds() > until)
			break;
	}
	for (int side = 0; side < 2; side++) {
		qsort(all[side], (size_t)*turns, sizeof **all, compare);
		ms[side] = all[side][*turns / 2];
	}
	return CG_OK;
}

/* One step of ours, to see how it goes. */
static int try_ours(struct net *n)
{
	int code;

	look();
	code = open_ours(n);
	if (!code)
		code = step_ours(n);
	look_away();
	return code;
}

static int measure(struct net *n, double seconds, double most, int *slow)
{
	static const char *const names[] = { "standard", "persistent, static", "persistent, dynamic", "persistent, small" };
	double ms[2];
	int turns = 0;

	CG_TRY(try_ours(n));
	CG_TRY(open_bare(n, algorithm_seen));
	CG_TRY(time_both(n, seconds, ms, &turns));
	printf("| %s | %s | %d | %d | %d | %d | %d | %s | %d | %.4f | %.4f | %+.2f %% |\n", cells[n->cell].cell,
	       cg_dtype_name(n->config.dtype), n->size.T, n->size.B, n->size.I, n->size.U, n->size.layers, names[algorithm_seen & 3], turns, ms[0], ms[1],
	       (ms[1] / ms[0] - 1) * 100);
	*slow |= most >= 0 && ms[1] > ms[0] * (1 + most / 100);
	return CG_OK;
}

static int row(struct cg_context *context, struct cg_stream *stream, int cell, int dtype, struct size size, double most, int *slow)
{
	const char *seconds = getenv("NET_TIME");
	struct net n = { .context = context, .stream = stream, .cell = cell, .size = size };
	int code;

	cg_rnn_config_init(&n.config, sizeof n.config);
	n.config.cell = cg_cell_find(cells[cell].cell);
	n.config.dtype = dtype;
	n.config.layers = size.layers;
	n.config.input = size.I;
	n.config.units = size.U;
	n.config.route = "cudnn";
	code = cg_cu_enter(context->device);
	if (!code)
		code = cg_cu_leave(context->device, measure(&n, seconds ? strtod(seconds, NULL) : 1, most, slow));
	cg_stream_sync(stream);
	if (!cg_cu_enter(context->device)) {
		close_bare(&n.bare);
		cg_cu_leave(context->device, CG_OK);
	}
	cg_rnn_close(n.rnn);
	for (int k = 0; k < n.n_buffers; k++)
		cg_free(context, &n.buffers[k]);
	return code;
}

static int table(struct cg_context *context, struct cg_stream *stream, const int *dtypes, int n, double most, int *slow)
{
	int is_small = getenv("NET_SMALL") != NULL, rows = is_small ? sizeof small / sizeof *small : sizeof large / sizeof *large;

	printf("| network | dtype | T | B | I | U | layers | algorithm | turns | cuDNN alone, ms | ours, ms | more |\n");
	printf("|---|---|---|---|---|---|---|---|---|---|---|---|\n");
	for (int d = 0; d < n; d++)
		for (int k = 0; k < 4; k++)
			for (int s = 0; s < rows; s++)
				CG_TRY(row(context, stream, k, dtypes[d], is_small ? small[s] : large[s], most, slow));
	return CG_OK;
}

static int refuse(const char *words)
{
	fprintf(stderr, "net_time: %s\n", words);
	return 2;
}

int main(int argc, char **argv)
{
	int dtypes[4] = { CG_F32, CG_F16 }, n = 0, slow = 0, code;
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	double most = -1;

	for (int k = 1; k < argc; k++) {
		if (!strcmp(argv[k], "--most") && k + 1 < argc)
			most = strtod(argv[++k], NULL);
		else if (n < 4 && (dtypes[n] = cg_dtype_find(argv[k])) >= 0)
			n++;
		else
			return refuse("expected --most PERCENT and dtypes");
	}
	if (cg_cuda_load(CG_CUDA_DRIVER) || cg_cuda_load(CG_CUDA_CUDNN) || cg_open("cuda", &context))
		return refuse(cg_message());
	code = cg_stream_open(context, NULL, &stream);
	if (!code)
		code = table(context, stream, dtypes, n ? n : 2, most, &slow);
	if (code)
		fprintf(stderr, "net_time: %s\n", cg_message());
	cg_stream_close(stream);
	cg_close(context);
	return code || slow;
}
