/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed sequences: the order of the valid steps of a call, and the index arrays that describe that order to a device.  A stream keeps the
 * arrays of its last call that needed some, since a backward call has the lengths of its forward call, and often all calls of a training
 * run have the same lengths.
 */
#include <string.h>

#include "runtime/rnn/rnn.h"

struct cache {
	struct cg_attachment attachment;
	struct cg_packed packed;
	int directions, reverse, is_packed, is_vendors, time_major;
	struct cg_rnn_spacing input, output;
	int input_in_place, output_in_place;
	int sent;                                /* a copy of `host` to the device may still be running */
	int32_t *lengths;                        /* valid steps of each batch row, [B]; NULL: all batch rows have T steps */
	int64_t *host;                           /* the host's index arrays, one after the other; the first two are n and off */
	size_t capacity;                         /* the number of elements that fit in `host` */
	struct cg_mem device;
};

static int refuse(const char *argument, int64_t k, const char *name, int64_t most, int got)
{
	return cg_fail(CG_BAD_ARGUMENT, "rnn: %s[%lld]: expected 0 to %s%lld, got %d", argument, (long long)k, name, (long long)most, got);
}

static void count_row(struct cg_rnn_shape *shape, int32_t length)
{
	shape->N += length;
	shape->lengths_stamp = cg_fingerprint(shape->lengths_stamp, &length, sizeof length);
	if (shape->longest < length)
		shape->longest = length;
}

static int check_batch_sizes(const struct cg_rnn_shape *shape, int64_t *longest)
{
	int64_t most = shape->B;

	*longest = 0;
	for (int64_t t = 0; t < shape->T; t++) {
		const int32_t n = shape->batch_sizes[t];

		if (n < 0 || n > most)
			return refuse("batch_sizes", t, t ? "the batch size of the step before, " : "B=", most, n);
		most = n;
		*longest += n > 0;
	}
	return CG_OK;
}

/* Calls `visit` with the length of each batch row, computed from the batch sizes; the lengths never grow from one batch row to the next. */
static void list_lengths(const int32_t *batch_sizes, int64_t longest, int64_t B, void (*visit)(void *, int64_t b, int32_t length), void *user)
{
	int64_t b = 0;

	for (int64_t t = longest; t > 0; t--)
		for (; b < batch_sizes[t - 1]; b++)
			visit(user, b, (int32_t)t);
	for (; b < B; b++)
		visit(user, b, 0);
}

static void count_listed(void *shape, int64_t b, int32_t length)
{
	(void)b;
	count_row(shape, length);
}

int cg_packed_count(struct cg_rnn_shape *shape)
{
	const int64_t T = shape->T, B = shape->B;
	const int32_t *lengths = shape->lengths;
	const int is_ragged = lengths || shape->batch_sizes;
	int64_t longest;

	shape->longest = is_ragged || !B ? 0 : T;
	shape->N = is_ragged ? 0 : T * B;
	shape->lengths_stamp = CG_FINGERPRINT;
	for (int64_t b = 0; lengths && b < B; b++) {
		if (lengths[b] < 0 || lengths[b] > T)
			return refuse("sequence_lengths", b, "T=", T, lengths[b]);
		count_row(shape, lengths[b]);
	}
	if (shape->batch_sizes) {
		CG_TRY(check_batch_sizes(shape, &longest));
		list_lengths(shape->batch_sizes, longest, B, count_listed, shape);
	}
	shape->is_whole = shape->N == T * B;
	return CG_OK;
}

static void write_length(void *lengths, int64_t b, int32_t length)
{
	((int32_t *)lengths)[b] = length;
}

int cg_packed_get_lengths(const struct cg_rnn_shape *shape, int32_t **lengths)
{
	*lengths = NULL;
	if (!shape->batch_sizes || !shape->B)
		return CG_OK;
	*lengths = cg_memory(NULL, (size_t)shape->B * sizeof **lengths);
	if (!*lengths)
		return CG_NO_MEMORY;
	list_lengths(shape->batch_sizes, shape->longest, shape->B, write_length, *lengths);
	return CG_OK;
}

static int64_t length(const struct cache *cache, int64_t b)
{
	return cache->lengths ? cache->lengths[b] : cache->packed.T;
}

/* Sorts the batch rows by falling length, stably, by a counting sort, into order; sets n and off of each step. */
static void sort_rows(struct cache *cache, int64_t *n, int64_t *off, int64_t *order)
{
	const struct cg_packed *packed = &cache->packed;

	for (int64_t s = 0; s <= packed->S; s++)
		n[s] = 0;
	for (int64_t b = 0; b < packed->B; b++)
		n[packed->S - length(cache, b)]++;
	/* Here n[S - l] is the number of batch rows of length l; this loop replaces it by the position of the first such row in the order of
	 * falling length. */
	for (int64_t k = 0, at = 0; k <= packed->S; k++) {
		int64_t count = n[k];

		n[k] = at;
		at += count;
	}
	for (int64_t b = 0; b < packed->B; b++)
		order[n[packed->S - length(cache, b)]++] = b;
	/* Now n[S - l] is the number of rows of length l or more, and step s has n[S - s - 1] rows: reverse the array. */
	for (int64_t s = 0; 2 * s < packed->S - 1; s++) {
		int64_t swapped = n[s];

		n[s] = n[packed->S - 1 - s];
		n[packed->S - 1 - s] = swapped;
	}
	off[0] = 0;
	for (int64_t s = 0; s < packed->S; s++)
		off[s + 1] = off[s] + n[s];
}

/* ---- the index of a caller's rows ---- */

/* The unit of an index, in elements: the greatest common divisor of both strides, so that sequences that differ only in width have the same
 * indices. */
static int64_t unit_of(struct cg_rnn_spacing rows)
{
	int64_t unit = (int64_t)cg_common_divisor((uint64_t)rows.t, (uint64_t)rows.b);

	return unit ? unit : 1;
}

/* The unit of an index, in elements, if the caller's rows are evenly spaced: the distance from one row to the next. */
static int64_t even_unit(const struct cg_packed *packed, struct cg_rnn_spacing rows)
{
	return packed->B > 1 ? rows.b : rows.t;
}

static struct cg_rnn_spacing in_units(struct cg_rnn_spacing rows)
{
	int64_t unit = unit_of(rows);

	return (struct cg_rnn_spacing){ rows.t / unit, rows.b / unit };
}

/* Can input and output share their index arrays? */
static int is_shared(const struct cache *cache)
{
	struct cg_rnn_spacing input = in_units(cache->input), output = in_units(cache->output);

	if (cache->packed.is_dense && cache->input_in_place != cache->output_in_place)
		return 0;
	return cache->is_packed || (input.t == output.t && input.b == output.b);
}

/* Is the caller's sequence packed, and in the order of this direction? */
static int is_callers_order(const struct cache *cache, int direction)
{
	return cache->is_packed && direction == cache->reverse;
}

static int has_index(const struct cache *cache, int in_place, int direction)
{
	if (cache->packed.is_dense)
		return !in_place && !direction;          /* direction 1 uses the array of direction 0 */
	return direction < cache->directions && !is_callers_order(cache, direction);
}

/* Lays out all index arrays in `base`, and their copies in device memory; with base NULL only measures.  Returns the number of elements of
 * all index arrays together. */
struct arrays { int64_t *n, *off, *order, *last, *input[2], *output[2], *dense, *t[2], *b, *reversed_index, *prev; };

static size_t lay_out(struct cache *cache, int64_t *base, struct cg_mem device, struct arrays *a)
{
	static const struct cg_mem absent = { .bytes = 0 };
	struct cg_packed *s = &cache->packed;
	const int apart = !is_shared(cache), in = cache->input_in_place, out = cache->output_in_place;
	const int64_t B = s->is_dense ? 0 : s->B, rows = s->is_dense ? 0 : s->N, two = cache->directions == 2 ? rows : 0;
	const struct { int64_t **array, elements; struct cg_mem *mem; } list[] = {
		{ &a->n, s->S + 1, NULL }, { &a->off, s->S + 1, s->is_dense ? NULL : &s->offsets }, { &a->order, B, &s->order }, { &a->last, B, &s->last },
		{ &a->input[0], has_index(cache, in, 0) ? s->N : 0, &s->input[0] }, { &a->input[1], has_index(cache, in, 1) ? s->N : 0, &s->input[1] },
		{ &a->output[0], apart && has_index(cache, out, 0) ? s->N : 0, &s->output[0] },
		{ &a->output[1], apart && has_index(cache, out, 1) ? s->N : 0, &s->output[1] },
		{ &a->dense, cache->is_vendors ? s->N : 0, &s->dense }, { &a->t[0], rows, &s->t[0] },
		{ &a->t[1], two, &s->t[1] }, { &a->b, rows, &s->b }, { &a->reversed_index, two, &s->reversed_index }, { &a->prev, rows, &s->prev },
	};
	size_t at = 0;

	for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
		*list[k].array = base && list[k].elements ? base + at : NULL;
		if (list[k].mem)
			*list[k].mem = list[k].elements ? cg_part(device, at * sizeof *base, (size_t)list[k].elements * sizeof *base) : absent;
		at += (size_t)list[k].elements;
	}
	for (int d = 0; d < 2 && !apart; d++)
		s->output[d] = s->input[d];
	if (s->is_dense) {
		s->input[1] = s->input[0];
		s->output[1] = s->output[0];
	}
	s->input_unit = s->is_dense && in ? even_unit(s, cache->input) : unit_of(cache->input);
	s->output_unit = s->is_dense && out ? even_unit(s, cache->output) : unit_of(cache->output);
	return at;
}

/* The index of the row for step t and batch row b in the caller's sequence. */
static int64_t index_of(const struct cache *cache, const struct arrays *a, struct cg_rnn_spacing units, int64_t t, int64_t b)
{
	return cache->is_packed ? a->off[t] + b : t * units.t + b * units.b;
}

static void fill_row(const struct cache *cache, const struct arrays *a, int d, int64_t p, int64_t t, int64_t b)
{
	const struct cg_packed *packed = &cache->packed;

	if (a->t[d])
		a->t[d][p] = t;
	if (a->input[d])
		a->input[d][p] = index_of(cache, a, in_units(cache->input), t, b);
	if (a->output[d])
		a->output[d][p] = index_of(cache, a, in_units(cache->output), t, b);
	if (a->dense && !d)
		a->dense[p] = cache->time_major ? t * packed->B + b : b * packed->T + t;
}

static void fill_dense(const struct cache *cache, const struct arrays *a)
{
	for (int64_t p = 0; p < cache->packed.N; p++)
		fill_row(cache, a, 0, p, p / cache->packed.B, p % cache->packed.B);
}

static void fill(struct cache *cache, const struct arrays *a)
{
	const struct cg_packed *packed = &cache->packed;

	sort_rows(cache, a->n, a->off, a->order);
	for (int64_t s = 0; s < packed->S; s++)
		for (int64_t k = 0; k < a->n[s]; k++) {
			int64_t p = a->off[s] + k, b = a->order[k], ends = length(cache, b) - 1;

			a->b[p] = b;
			a->prev[p] = s ? a->off[s - 1] + k : k;
			for (int d = 0; d < cache->directions; d++)
				fill_row(cache, a, d, p, d != cache->reverse ? ends - s : s, b);
			if (cache->directions == 2)
				a->reversed_index[p] = a->off[ends - s] + k;
			if (s == ends)
				a->last[k] = p;
		}
}

/* Grows the arrays to at least `elements` elements, on the host and, unless the backend works on host memory, on the device. */
static int grow(struct cg_stream *stream, struct cache *cache, size_t elements)
{
	const struct cg_backend *backend = stream->context->backend;
	int64_t *host;

	if (cache->capacity < elements) {
		host = cg_memory(cache->host, elements * sizeof *host);
		if (!host)
			return CG_NO_MEMORY;
		cache->host = host;
		cache->capacity = elements;
	}
	if (backend->host) {
		cache->device = (struct cg_mem){ .data = cache->host, .bytes = cache->capacity * sizeof *host };
	} else if (cache->device.bytes < elements * sizeof *host) {
		struct cg_mem more;

		CG_TRY(backend->alloc(stream->context->device, stream->queue, elements * sizeof *host, &more));
		if (cache->device.data)
			backend->free(stream->context->device, stream->queue, &cache->device);
		cache->device = more;
	}
	return CG_OK;
}

struct compared { const int32_t *lengths; int same; };

static void compare_length(void *user, int64_t b, int32_t length)
{
	struct compared *c = user;

	c->same &= c->lengths[b] == length;
}

static int has_lengths(const struct cache *cache, const struct cg_rnn_shape *shape)
{
	struct compared c = { cache->lengths, 1 };

	if (!cache->is_packed)
		return !shape->lengths == !cache->lengths &&
		       (!shape->lengths || !memcmp(shape->lengths, cache->lengths, (size_t)shape->B * sizeof *shape->lengths));
	if (shape->B)
		list_lengths(shape->batch_sizes, shape->longest, shape->B, compare_length, &c);
	return c.same;
}

static int has_spacing(struct cg_rnn_spacing a, struct cg_rnn_spacing b)
{
	return a.t == b.t && a.b == b.b;
}

static int same(const struct cache *cache, const struct cg_rnn *rnn, const struct cg_rnn_shape *shape)
{
	const struct cg_packed *s = &cache->packed;

	return s->n && s->T == shape->T && s->B == shape->B && s->N == shape->N && s->S == shape->longest &&
	       cache->directions == rnn->net.directions && cache->reverse == rnn->net.reverse &&
	       cache->is_packed == (shape->batch_sizes != NULL) && cache->is_vendors == shape->is_vendors &&
	       cache->time_major == rnn->net.time_major && has_spacing(cache->input, shape->input) && has_spacing(cache->output, shape->output) &&
	       has_lengths(cache, shape);
}

static int copy_lengths(struct cache *cache, const struct cg_rnn_shape *shape)
{
	const size_t bytes = (size_t)shape->B * sizeof *shape->lengths;
	int32_t *copy;

	CG_TRY(cg_packed_get_lengths(shape, &copy));
	if (shape->lengths && !(copy = cg_memory(NULL, bytes)))
		return CG_NO_MEMORY;
	if (shape->lengths)
		memcpy(copy, shape->lengths, bytes);
	cg_memory(cache->lengths, 0);
	cache->lengths = copy;
	return CG_OK;
}

static int make(struct cg_stream *stream, struct cache *cache, const struct cg_rnn *rnn, const struct cg_rnn_shape *shape)
{
	const struct cg_backend *backend = stream->context->backend;
	struct arrays a;
	size_t elements;

	if (cache->sent)
		CG_TRY(backend->sync(stream->queue));
	cache->sent = 0;
	cache->packed = (struct cg_packed){ .T = shape->T, .B = shape->B, .N = shape->N, .S = shape->longest,
	                                     .is_dense = shape->is_whole && !shape->is_vendors };
	cache->directions = rnn->net.directions;
	cache->reverse = rnn->net.reverse;
	cache->is_packed = shape->batch_sizes != NULL;
	cache->is_vendors = shape->is_vendors;
	cache->time_major = rnn->net.time_major;
	cache->input = shape->input;
	cache->output = shape->output;
	cache->input_in_place = shape->input_in_place;
	cache->output_in_place = shape->output_in_place;
	CG_TRY(copy_lengths(cache, shape));
	elements = lay_out(cache, NULL, cache->device, &a);
	CG_TRY(grow(stream, cache, elements));
	lay_out(cache, cache->host, cache->device, &a);
	if (cache->packed.is_dense)
		fill_dense(cache, &a);
	else
		fill(cache, &a);
	if (!backend->host) {
		cache->sent = 1;
		CG_TRY(backend->copy_in(stream->queue, cache->device, cache->host, elements * sizeof *cache->host));
	}
	cache->packed.n = a.n;
	cache->packed.off = a.off;
	return CG_OK;
}

/* ---- the arrays that a stream keeps ---- */

static void free_device(struct cg_stream *stream, struct cg_attachment *attachment)
{
	struct cache *cache = (struct cache *)attachment;

	if (cache->device.data && !stream->context->backend->host)
		stream->context->backend->free(stream->context->device, stream->queue, &cache->device);
}

static void free_host(struct cg_attachment *attachment)
{
	struct cache *cache = (struct cache *)attachment;

	cg_memory(cache->lengths, 0);
	cg_memory(cache->host, 0);
}

static const struct cg_attachment_kind cached_sequence = { free_device, free_host };

int cg_packed_get(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_shape *shape, struct cg_packed *packed)
{
	struct cache *cache;

	if (shape->is_whole && !shape->is_vendors && shape->input_in_place && shape->output_in_place) {
		*packed = (struct cg_packed){ .T = shape->T, .B = shape->B, .N = shape->N, .S = shape->longest, .is_dense = 1 };
		packed->input_unit = even_unit(packed, shape->input);
		packed->output_unit = even_unit(packed, shape->output);
		return CG_OK;
	}
	cache = (struct cache *)cg_stream_get_attachment(stream, &cached_sequence, sizeof *cache);
	if (!cache)
		return CG_NO_MEMORY;
	if (!same(cache, rnn, shape))
		CG_TRY(make(stream, cache, rnn, shape));
	*packed = cache->packed;
	return CG_OK;
}

/* ---- padding ---- */

int cg_packed_clear(struct cg_stream *stream, int dtype, const struct cg_rnn_shape *shape, struct cg_rnn_spacing rows, int64_t width,
                    struct cg_mem mem, struct cg_mem any)
{
	const size_t each = cg_dtype_bytes(dtype);
	const int by_steps = rows.t > rows.b;
	const int64_t outer = by_steps ? shape->T : shape->B, inner = by_steps ? shape->B : shape->T;
	const int64_t far = by_steps ? rows.t : rows.b, near = by_steps ? rows.b : rows.t;

	if (shape->is_whole || shape->batch_sizes || !cg_present(mem))
		return CG_OK;
	if (near == width && far == inner * width)
		return stream->context->backend->zero(stream->queue, mem, (size_t)(outer * far) * each);
	for (int64_t k = 0; k < outer; k++) {
		const size_t at = (size_t)(k * far) * each;
		const struct cg_rows r = { .dtype = dtype, .rows = inner, .columns = width, .src = { any, 0, 0 },
		                           .dst = { cg_part(mem, at, mem.bytes - at), near, 0 }, .drop = { .rate = 1, .batch = 1 } };

		CG_TRY(cg_copy_rows(stream, &r));
	}
	return CG_OK;
}
