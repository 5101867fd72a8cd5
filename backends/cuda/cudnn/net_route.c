/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route cudnn: decides which networks cuDNN computes as specified, and opens and closes them.  All calls are of cuDNN's
 * version 8 API, which version 9 still has.
 */
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"

enum { BF16_SINCE = 91300, SMALL_H_SINCE = 8201 };

/* ---- which ---- */

static const struct mode { const char *cell; unsigned mode; } modes[] = {
	{ "lstm", CUDNN_LSTM }, { "gru", CUDNN_GRU }, { "rnn_tanh", CUDNN_RNN_TANH }, { "rnn_relu", CUDNN_RNN_RELU }, { NULL, 0 }
};

/* The cuDNN mode of a built-in cell; NULL: cuDNN has none.  A user's cell with the name of a built-in cell is another cell. */
static const struct mode *mode_of(const struct cg_network *rnn)
{
	const struct mode *m = modes;

	while (m->cell && cg_cell_find(m->cell) != rnn->cell)
		m++;
	return m->cell ? m : NULL;
}

__attribute__((format(printf, 2, 3)))
static int decline(char why[CG_WHY_NOT], const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(why, CG_WHY_NOT, format, list);
	va_end(list);
	return cg_fail(CG_UNSUPPORTED, "%s", why);
}

/* Does cuDNN compute the network's cell, options, projection and direction? */
static int suits_cell(const struct cg_network *rnn, char why[CG_WHY_NOT])
{
	if (!mode_of(rnn))
		return decline(why, "cell %.*s", CG_NAME_MAX, rnn->name);
	if (*rnn->options)
		return decline(why, "%.100s", rnn->options);
	if (rnn->P && mode_of(rnn)->mode != CUDNN_LSTM)
		return decline(why, "projection of %s", mode_of(rnn)->cell);
	if (rnn->P == rnn->U)
		return decline(why, "projection as wide as the units");
	if (rnn->reverse)
		return decline(why, "reverse");
	return CG_OK;
}

static int suits_sizes(const struct cg_network *rnn, char why[CG_WHY_NOT])
{
	const int64_t sizes[] = { rnn->I, rnn->U, rnn->directions * rnn->H };

	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
		if (sizes[k] > INT_MAX)
			return decline(why, "sizes beyond 2^31");
	return CG_OK;
}

static int suits_version(const struct cg_network *rnn, char why[CG_WHY_NOT])
{
	int version = cg_cudnn_version();

	if (rnn->dtype == CG_BF16 && version < BF16_SINCE)
		return decline(why, "bf16 in cuDNN %d.%d.%d", CUDNN_PARTS(version));
	return CG_OK;
}

/*
 * How cuDNN's kernels round; comments in tests/fake/cudnn_descriptor.c and cudnn_cell.c name the kernels and the versions of cuDNN in which
 * these roundings were seen.  `cellgrad info` prints the lines of table `roundings`; runtime/cellgrad.h and the documents repeat the lines,
 * which tests/rounding.sh checks.
 */
static const char *const roundings[CG_DTYPE_COUNT] = {
	[CG_F32] = "everything in f32, sigmoid(x) with a relative error up to (4 + 2 abs(x)) 2^-24; "
	           "under allow_tf32 products in TF32, tanh with a relative error up to 2^-11",
	[CG_F64] = "everything in f64",
	[CG_F16] = "x W, R h, c, h, gates, dgates, dh and dc in 16 bits, tanh with a relative error up to 2^-11; "
	           "with strict_rounding the route is composed",
	[CG_BF16] = "x W, R h, c, h, gates, dgates, dh and dc in 16 bits; with strict_rounding the route is composed",
};

/* Does cuDNN round as the caller demands?  With f16 and bf16 elements cuDNN's kernels pass sums and states on in 16 bits. */
static int suits_rounding(const struct cg_network *rnn, char why[CG_WHY_NOT])
{
	int is_narrow = !cg_is_plain(rnn->dtype);

	return rnn->strict_rounding && is_narrow ? decline(why, "strict_rounding in %s", cg_dtype_name(rnn->dtype)) : CG_OK;
}

/* Does cuDNN suit the network?  If the environment names a library that cannot be loaded, the result is CG_BAD_ARGUMENT, and no other
 * route is taken. */
static int suits(const struct cg_network *rnn, char why[CG_WHY_NOT])
{
	int code;

	CG_TRY(suits_cell(rnn, why));
	CG_TRY(suits_sizes(rnn, why));
	CG_TRY(suits_rounding(rnn, why));
	code = cg_cuda_load(CG_CUDA_CUDNN);
	if (code == CG_UNSUPPORTED)
		snprintf(why, CG_WHY_NOT, "no cuDNN");
	CG_TRY(code);
	return suits_version(rnn, why);
}

/* ---- opening ---- */

static void close_segment(struct cg_dnn_segment *segment)
{
	for (int k = 0; k < CG_DNN_ALGORITHMS; k++) {
		if (segment->algorithms[k].rnn)
			cg_cudnn.DestroyRNNDescriptor(segment->algorithms[k].rnn);
		cg_dnn_release_layout(&segment->algorithms[k].layout);
	}
}

static void unlink_net(struct cg_net *net)
{
	struct cg_net **at = &net->device->nets;

	pthread_mutex_lock(net->device->lock);
	while (*at && *at != net)
		at = &(*at)->next;
	if (*at)
		*at = net->next;
	while (net->states_of_queues)
		cg_dnn_leave_state(&net->states_of_queues);
	pthread_mutex_unlock(net->device->lock);
}

static void close_inside(struct cg_net *net)
{
	struct cg_dev *device = net->device;

	unlink_net(net);
	for (size_t k = 0; k < sizeof net->sizes / sizeof *net->sizes; k++)
		cg_dnn_release_shape(device, NULL, net->sizes[k]);
	close_segment(&net->segments[0]);
	close_segment(&net->segments[1]);
	if (net->dropout)
		cg_cudnn.DestroyDropoutDescriptor(net->dropout);
	/* The seeding of the generator may still run if waiting for it has failed. */
	if (net->generator) {
		cg_cu.StreamSynchronize(device->dnn_stream);
		cg_cu_free(device, NULL, net->generator);
	}
}

static void close_net(struct cg_dev *device, struct cg_net *net)
{
	if (!cg_cu_enter_anyway(device)) {
		close_inside(net);
		cg_cu_leave(device, CG_OK);
	}
	cg_memory(net, 0);
}

/* Adds an algorithm to a segment.  An algorithm that cuDNN refuses is left out, except for the first one, which is required. */
static int add_algorithm(struct cg_net *net, struct cg_dnn_segment *segment, unsigned algorithm)
{
	struct cg_dnn_algorithm *entry = &segment->algorithms[segment->n_algorithms];
	int code;

	entry->algorithm = algorithm;
	code = cg_dnn_describe(net, segment, algorithm, net->dropout, &entry->rnn);
	if (!code)
		code = cg_dnn_lay_out(net, segment, entry);
	if (!code)
		segment->n_algorithms++;
	if (code == CG_UNSUPPORTED && segment->n_algorithms) {
		if (entry->rnn)
			cg_cudnn.DestroyRNNDescriptor(entry->rnn);
		cg_dnn_release_layout(&entry->layout);
		*entry = (struct cg_dnn_algorithm){ .rnn = NULL };
		code = CG_OK;
	}
	return code;
}

/*
 * Adds cuDNN's standard algorithm, then, if the network's dtype and options allow them, its persistent algorithms, the fastest last;
 * rnn_data.c chooses by the sizes of a call.  The tanh of persistent algorithms is an instruction that is accurate to 2^-11, so f32
 * networks use these algorithms only if TF32 is allowed.  In bf16 cuDNN 9.14 on an H200 accepts the static algorithm, but runs the standard
 * one: calls with either algorithm take as long and give the same bits.
 */
static int add_algorithms(struct cg_net *net, struct cg_dnn_segment *segment)
{
	const struct cg_network *rnn = net->rnn;
	int may = rnn->dtype == CG_F16 || (rnn->dtype == CG_F32 && rnn->allow_tf32);

	CG_TRY(add_algorithm(net, segment, CUDNN_RNN_ALGO_STANDARD));
	if (!may || rnn->P || segment->skip)
		return CG_OK;
	if (rnn->dtype == CG_F16)
		CG_TRY(add_algorithm(net, segment, CUDNN_RNN_ALGO_PERSIST_STATIC));
	return net->version >= SMALL_H_SINCE ? add_algorithm(net, segment, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H) : CG_OK;
}

static int drops(const struct cg_network *rnn)
{
	return rnn->training && rnn->dropout > 0 && rnn->layers > 1;
}

void cg_cu_release_queries(struct cg_dev *device)
{
	if (device->dnn)
		cg_cudnn.Destroy(device->dnn);
	if (device->dnn_stream)
		cg_cu.StreamDestroy_v2(device->dnn_stream);
	device->dnn = NULL;
	device->dnn_stream = NULL;
}

static int make_queries(struct cg_dev *device)
{
	int code;

	CU_TRY(device, StreamCreate, &device->dnn_stream, CU_STREAM_NON_BLOCKING);
	code = cg_cudnn_error(cg_cudnn.Create(&device->dnn), "cudnnCreate");
	if (code) {
		device->dnn = NULL;
		return cg_fail(code, "%s; the library of cuDNN is %.300s; CELLGRAD_CUDNN_LIB=none runs without cuDNN", cg_message(),
		               cg_cuda_path(CG_CUDA_CUDNN));
	}
	CUDNN_TRY(SetStream, device->dnn, device->dnn_stream);
	return CG_OK;
}

/* Makes the cuDNN handle that serves all queries of a device. */
static int begin_queries(struct cg_dev *device)
{
	int code = device->dnn ? CG_OK : make_queries(device);

	if (code)
		cg_cu_release_queries(device);
	return code;
}

/* Fills the fields of a network that is being opened; called under the device's lock. */
static int fill(struct cg_net *net)
{
	const struct cg_network *rnn = net->rnn;

	CG_TRY(begin_queries(net->device));
	CG_TRY(cg_dnn_make_dropout(net, net->device->dnn, NULL, &net->generator, &net->dropout));
	net->segments[0] = (struct cg_dnn_segment){ .layers = net->n_segments > 1 ? 1 : rnn->layers, .skip = rnn->skip, .width = rnn->I };
	CG_TRY(add_algorithms(net, &net->segments[0]));
	if (net->n_segments == 1)
		return CG_OK;
	net->segments[1] = (struct cg_dnn_segment){ .layers = 1, .width = rnn->directions * rnn->H };
	return add_algorithms(net, &net->segments[1]);
}

static int fill_inside(struct cg_net *net)
{
	int code;

	CG_TRY(cg_cu_enter(net->device));
	pthread_mutex_lock(net->device->lock);
	code = fill(net);
	if (!code) {
		net->next = net->device->nets;
		net->device->nets = net;
	}
	pthread_mutex_unlock(net->device->lock);
	return cg_cu_leave(net->device, code);
}

static unsigned type_of(int dtype)
{
	static const unsigned types[] = {
		[CG_F32] = CUDNN_DATA_FLOAT, [CG_F64] = CUDNN_DATA_DOUBLE, [CG_F16] = CUDNN_DATA_HALF, [CG_BF16] = CUDNN_DATA_BFLOAT16
	};

	_Static_assert(sizeof types / sizeof *types == CG_DTYPE_COUNT, "the table has one cuDNN data type for each dtype");
	return types[dtype];
}

static int make(struct cg_net *net, char why[CG_WHY_NOT])
{
	int code = fill_inside(net);

	if (code == CG_UNSUPPORTED)
		snprintf(why, CG_WHY_NOT, "refused by cuDNN %d.%d.%d", CUDNN_PARTS(net->version));
	if (!code && net->rnn->skip && cg_dnn_has_input(&net->segments[0].algorithms[0].layout))
		code = decline(why, "input matrices despite skip_input in cuDNN %d.%d.%d", CUDNN_PARTS(net->version));
	return code;
}

/* Fails while a stream is being captured, since no route can then load the code that it needs. */
static int is_possible_now(struct cg_dev *device)
{
	CU_INSIDE(device, cg_cu_check_all_uncaptured(device, "the opening of a network"));
}

static int open_net(struct cg_dev *device, const struct cg_network *rnn, struct cg_net **result, char why[CG_WHY_NOT])
{
	struct cg_net *net;
	int code;

	CG_TRY(suits(rnn, why));
	CG_TRY(is_possible_now(device));
	net = cg_memory(NULL, sizeof *net);
	if (!net)
		return CG_NO_MEMORY;
	memset(net, 0, sizeof *net);
	net->device = device;
	net->rnn = rnn;
	net->version = cg_cudnn_version();
	net->cell = mode_of(rnn)->mode;
	net->type = type_of(rnn->dtype);
	/* cuDNN's dropout multiplies the elements that it keeps by 1 / (1 - rate); at rate 1 this library's masks are used instead. */
	net->vendor_dropout = drops(rnn) && rnn->allow_vendor_dropout && rnn->dropout < 1;
	net->n_segments = drops(rnn) && !net->vendor_dropout ? rnn->layers : 1;
	code = make(net, why);
	if (code)
		close_net(device, net);
	else
		*result = net;
	return code;
}

/* A value that identifies the layout of cuDNN's reserve, which may depend on cuDNN's version, the device, allow_tf32 and whether cuDNN
 * draws the dropout masks. */
static uint64_t stamp(const struct cg_net *net)
{
	const int parts[] = { net->version, net->device->major, net->device->minor, net->device->units, net->vendor_dropout,
	                      net->rnn->allow_tf32 };
	uint64_t print = CG_FINGERPRINT;

	return cg_fingerprint(print, parts, sizeof parts);
}

const struct cg_net_route cg_cu_net = {
	.name = "cudnn", .roundings = roundings, .open = open_net, .close = close_net, .stamp = stamp, .declines = cg_dnn_declines, .sizes = cg_dnn_needs,
	.forward = cg_dnn_forward, .backward = cg_dnn_backward,
};
