/*
 * Packed sequences: the order of the valid rows of a call, and the index arrays that describe it to a device.  A stream keeps those
 * of its last call: a backward has the lengths of its forward, and all calls of a training run may have the same.
 */
#include <string.h>

#include "runtime/rnn/rnn.h"

struct cache {
	struct cg_attachment attachment;
	struct cg_packed packed;
	int directions, time_major, reverse;
	int sent;                                /* to a device, which may still be reading the host's side */
	int32_t *lengths;                        /* [B]; NULL: all T */
	int64_t *host;                           /* all arrays, one after the other; the first are n and off */
	size_t capacity;                         /* elements of it */
	struct cg_mem device;
};

int cg_packed_count(struct cg_rnn_shape *shape)
{
	const int64_t T = shape->T, B = shape->B;
	const int32_t *lengths = shape->lengths;

	shape->longest = lengths || !B ? 0 : T;
	shape->N = lengths ? 0 : T * B;
	shape->lengths_stamp = CG_FINGERPRINT;
	for (int64_t b = 0; lengths && b < B; b++) {
		if (lengths[b] < 0 || lengths[b] > T)
			return cg_fail(CG_BAD_ARGUMENT, "rnn: sequence_lengths: [%lld]: expected 0 to T=%lld, got %d", (long long)b,
			               (long long)T, lengths[b]);
		shape->N += lengths[b];
		shape->lengths_stamp = cg_fingerprint(shape->lengths_stamp, &lengths[b], sizeof *lengths);
		if (shape->longest < lengths[b])
			shape->longest = lengths[b];
	}
	shape->is_whole = shape->N == T * B;
	return CG_OK;
}

static int64_t length(const struct cache *cache, int64_t b)
{
	return cache->lengths ? cache->lengths[b] : cache->packed.T;
}

/* n and off of each step from how many rows have each length; order: batch rows by falling length, equal ones as they came. */
static void sort_rows(struct cache *cache, int64_t *n, int64_t *off, int64_t *order)
{
	const struct cg_packed *packed = &cache->packed;

	for (int64_t s = 0; s <= packed->S; s++)
		n[s] = 0;
	for (int64_t b = 0; b < packed->B; b++)
		n[packed->S - length(cache, b)]++;
	/* n[S - l] rows have length l: where the first of them comes, longest first. */
	for (int64_t k = 0, at = 0; k <= packed->S; k++) {
		int64_t count = n[k];

		n[k] = at;
		at += count;
	}
	for (int64_t b = 0; b < packed->B; b++)
		order[n[packed->S - length(cache, b)]++] = b;
	/* Now n[S - l] is how many rows are of length l or more, so step s has n[S - s - 1]. */
	for (int64_t s = 0; 2 * s < packed->S - 1; s++) {
		int64_t swapped = n[s];

		n[s] = n[packed->S - 1 - s];
		n[packed->S - 1 - s] = swapped;
	}
	for (int64_t s = 0, at = 0; s < packed->S; at += n[s++])
		off[s] = at;
}

/* The arrays in the order in which they lie, each with its place on the device; together the elements of all. */
struct arrays { int64_t *n, *off, *order, *last, *row[2], *t[2], *b, *reversed_index, *prev; };

static size_t lay_out(struct cache *cache, int64_t *base, struct cg_mem device, struct arrays *a)
{
	struct cg_packed *s = &cache->packed;
	int two = cache->directions == 2;
	const struct { int64_t **array, elements; struct cg_mem *mem; } list[] = {
		{ &a->n, s->S + 1, NULL }, { &a->off, s->S, NULL }, { &a->order, s->B, &s->order }, { &a->last, s->B, &s->last },
		{ &a->row[0], s->N, &s->row[0] }, { &a->row[1], two ? s->N : 0, &s->row[1] }, { &a->t[0], s->N, &s->t[0] },
		{ &a->t[1], two ? s->N : 0, &s->t[1] }, { &a->b, s->N, &s->b }, { &a->reversed_index, two ? s->N : 0, &s->reversed_index },
		{ &a->prev, s->N, &s->prev },
	};
	size_t at = 0;

	for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
		*list[k].array = base ? base + at : NULL;
		if (list[k].mem)
			*list[k].mem = cg_part(device, at * sizeof *base, (size_t)list[k].elements * sizeof *base);
		at += (size_t)list[k].elements;
	}
	return at;
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
			for (int d = 0; d < cache->directions; d++) {
				int64_t t = d != cache->reverse ? ends - s : s;

				a->t[d][p] = t;
				a->row[d][p] = cache->time_major ? t * packed->B + b : b * packed->T + t;
			}
			if (cache->directions == 2)
				a->reversed_index[p] = a->off[ends - s] + k;
			if (s == ends)
				a->last[k] = p;
		}
}

/* Grows the arrays to so many elements, on the host and, where a backend does not work there, on the device. */
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

static int same(const struct cache *cache, const struct cg_rnn *rnn, const struct cg_rnn_shape *shape)
{
	const struct cg_packed *s = &cache->packed;
	const int32_t *lengths = shape->lengths;

	return s->n && s->T == shape->T && s->B == shape->B &&
	       cache->directions == rnn->net.directions && cache->time_major == rnn->net.time_major &&
	       cache->reverse == rnn->net.reverse &&
	       !lengths == !cache->lengths && (!lengths || !memcmp(lengths, cache->lengths, (size_t)s->B * sizeof *lengths));
}

static int copy_lengths(struct cache *cache, int64_t B, const int32_t *lengths)
{
	int32_t *copy = lengths ? cg_memory(NULL, (size_t)B * sizeof *copy) : NULL;

	if (lengths && !copy)
		return CG_NO_MEMORY;
	if (lengths)
		memcpy(copy, lengths, (size_t)B * sizeof *copy);
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
	cache->packed = (struct cg_packed){ .T = shape->T, .B = shape->B, .N = shape->N, .S = shape->longest };
	cache->directions = rnn->net.directions;
	cache->time_major = rnn->net.time_major;
	cache->reverse = rnn->net.reverse;
	CG_TRY(copy_lengths(cache, shape->B, shape->lengths));
	elements = lay_out(cache, NULL, cache->device, &a);
	CG_TRY(grow(stream, cache, elements));
	lay_out(cache, cache->host, cache->device, &a);
	fill(cache, &a);
	if (!backend->host) {
		cache->sent = 1;
		CG_TRY(backend->copy_in(stream->queue, cache->device, cache->host, elements * sizeof *cache->host));
	}
	cache->packed.n = a.n;
	cache->packed.off = a.off;
	return CG_OK;
}

/* ---- what a stream keeps ---- */

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

	if (shape->is_dense) {
		*packed = (struct cg_packed){ .T = shape->T, .B = shape->B, .N = shape->N, .S = shape->longest, .is_dense = 1 };
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
