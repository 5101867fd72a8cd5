/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weight calls of cellgrad.h: convert one tensor of another format to or from a network's params.
 */
#include <string.h>

#include "runtime/rnn/rnn.h"
#include "runtime/weights/format.h"

#define REFUSE(...) cg_fail(CG_BAD_ARGUMENT, "weights: " __VA_ARGS__)

const char *cg_format_name(int i)
{
	int k = 0;

	while (k < i && cg_formats[k].name)
		k++;
	return k == i ? cg_formats[k].name : NULL;
}

static void init(void *weights, size_t size)
{
	static const struct cg_weights defaults = { .size = 0 };

	cg_sized_init(weights, size, &defaults, sizeof defaults);
}

void cg_weights_init(struct cg_weights *weights, size_t size)
{
	init(weights, size);
}

static const struct cg_weights *complete(const struct cg_weights *weights, struct cg_weights *storage)
{
	static const struct cg_sized sized = CG_SIZED(struct cg_weights, bytes, init);

	return cg_sized_complete(&sized, weights, storage);
}

/* Opens the layout of the named format and, unless `ours` is NULL, that of params. */
static int open_layouts(const struct cg_weights *w, struct cg_layout *theirs, struct cg_layout *ours)
{
	const struct cg_format *format;
	const struct cg_rnn_config *network;
	struct cg_rnn_config whole;

	CG_TRY(cg_sized_check("weights", "cg_weights", w, sizeof *w));
	network = cg_rnn_config_complete(w->network, &whole);
	if (!network)
		return REFUSE("network: expected a struct cg_rnn_config, got NULL");
	if (w->gradients != 0 && w->gradients != 1)
		return REFUSE("gradients: expected 0 or 1, got %d", w->gradients);
	format = cg_format_find(w->format);
	if (!format)
		return cg_fail_in(CG_BAD_ARGUMENT, "weights: format");
	CG_TRY(cg_layout_open(theirs, format, network, w->gradients));
	return ours ? cg_layout_open(ours, cg_formats, network, w->gradients) : CG_OK;
}

static int describe(const struct cg_layout *l, int k, struct cg_tensor *tensor)
{
	cg_layout_tensor(l, k, tensor, NULL, NULL);
	tensor->bytes = (size_t)cg_layout_elements(l, k) * cg_dtype_bytes(l->network.dtype);
	return CG_OK;
}

int cg_weights_tensor(const struct cg_weights *w, int k, struct cg_tensor *tensor)
{
	struct cg_layout layout;
	struct cg_weights whole;

	if (!tensor)
		return REFUSE("tensor: expected a struct cg_tensor, got NULL");
	w = complete(w, &whole);
	CG_TRY(open_layouts(w, &layout, NULL));
	if (k < 0)
		return REFUSE("k: expected the index of a tensor, at least 0, got %d", k);
	*tensor = (struct cg_tensor){ .rank = 0 };
	return k < layout.n ? describe(&layout, k, tensor) : CG_OK;
}

static int check(const struct cg_weights *w, const struct cg_layout *l, int k, const void *memory, size_t bytes)
{
	size_t params = (size_t)l->network.params * cg_dtype_bytes(l->network.dtype);
	struct cg_tensor t;

	if (k < 0 || k >= l->n)
		return REFUSE("k: expected the index of a tensor, 0 to %d in format %s, got %d", l->n - 1, l->format->name, k);
	if (!w->params)
		return REFUSE("params: expected %zu bytes, got NULL", params);
	if (w->bytes != params)
		return REFUSE("bytes: expected %zu, the size of params, got %zu%s", params, w->bytes,
		              w->bytes > params ? "; if the buffer is larger, shorten bytes to the size of params" : "");
	describe(l, k, &t);
	if (!memory && t.bytes)
		return REFUSE("tensor: expected the %zu bytes of %s, got NULL", t.bytes, t.name);
	if (bytes != t.bytes)
		return REFUSE("%s: expected %zu bytes, got %zu", t.name, t.bytes, bytes);
	return CG_OK;
}

int cg_weights_load(const struct cg_weights *w, int k, const void *tensor, size_t bytes)
{
	struct cg_layout theirs, ours;
	unsigned char *from = (unsigned char *)(uintptr_t)tensor, *to;
	struct cg_weights whole;

	w = complete(w, &whole);
	CG_TRY(open_layouts(w, &theirs, &ours));
	CG_TRY(check(w, &theirs, k, tensor, bytes));
	to = w->params;
	cg_convert_out_of(&(struct cg_conversion){ .from = { &theirs, theirs.network.dtype, k, &from }, .to = { &ours, ours.network.dtype, 0, &to },
	                                  .bias = theirs.format->bias }, k);
	return CG_OK;
}

int cg_weights_save(const struct cg_weights *w, int k, void *tensor, size_t bytes)
{
	struct cg_layout theirs, ours;
	unsigned char *from, *to = tensor;
	struct cg_conversion conversion;
	struct cg_weights whole;
	struct cg_tensor t;
	int64_t lost;

	w = complete(w, &whole);
	CG_TRY(open_layouts(w, &theirs, &ours));
	CG_TRY(check(w, &theirs, k, tensor, bytes));
	from = w->params;
	conversion = (struct cg_conversion){
		.from = { &ours, ours.network.dtype, 0, &from }, .to = { &theirs, theirs.network.dtype, k, &to }
	};
	lost = w->lossy ? 0 : cg_count_lost_biases(&conversion, theirs.format->bias, k);
	describe(&theirs, k, &t);
	if (lost && w->gradients)
		return cg_fail(CG_UNSUPPORTED, "weights: %s: expected equal gradients of the biases bW and bR, but %lld of the elements differ; "
		               "lossy=1 saves the gradients of bW", t.name, (long long)lost);
	if (lost)
		return cg_fail(CG_UNSUPPORTED, "weights: %s: format %s has one bias, bW + bR, from which load would restore %lld pairs of elements "
		               "of bW and bR with other bits; lossy=1 saves the sum nevertheless", t.name, theirs.format->name, (long long)lost);
	cg_convert_into(&conversion, k);
	return CG_OK;
}
