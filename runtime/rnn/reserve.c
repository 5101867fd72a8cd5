/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of the reserve space.  The header identifies the network and the forward call that wrote it.  A backward call that checks
 * the header rejects the reserve space of another network, and of a forward call with another T, B, lengths, counter, first_step or
 * no_dropout.
 */
#include <string.h>

#include "runtime/core/environment.h"
#include "runtime/rnn/rnn.h"

#define REFUSE(...) cg_fail(CG_BAD_ARGUMENT, "rnn: reserve: " __VA_ARGS__)

#define MAGIC "cellgrad"
struct header { char magic[8]; uint64_t fingerprint, lengths, counter; int64_t T, B, N; uint32_t first_step, no_dropout; };
_Static_assert(sizeof(struct header) == CG_RESERVE_HEADER, "struct header must have CG_RESERVE_HEADER bytes");
_Static_assert(sizeof(struct header) == sizeof((struct cg_stream *)0)->header, "cg_stream.header must have the size of struct header");

static struct header header_of(const struct cg_rnn *rnn, const struct cg_rnn_call *c, const struct cg_rnn_shape *shape)
{
	struct header h = { .magic = MAGIC, .fingerprint = rnn->fingerprint, .counter = c->counter, .T = shape->T, .B = shape->B,
	                    .N = shape->N, .first_step = (uint32_t)c->first_step, .no_dropout = (uint32_t)c->no_dropout };

	/* If all batch rows have T steps, the header is the same with and without lengths. */
	if (!shape->is_whole)
		h.lengths = shape->lengths_stamp;
	return h;
}

/* Sets *checked to 1 if calls write and check the header.  If the reserve space is in device memory, calls write and check the header only
 * if CELLGRAD_CHECK is 1, since they then wait for the device. */
static int is_checked(const struct cg_rnn_call *c, int *checked)
{
	uint64_t word = 0;

	CG_TRY(cg_variable_read(CG_ENV_CHECK, &word));
	*checked = c->reserve.place == CG_HOST || word == 1;
	return CG_OK;
}

int cg_reserve_write(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *c,
                     const struct cg_rnn_shape *shape)
{
	struct header h;
	int checked;

	CG_TRY(is_checked(c, &checked));
	if (!checked)
		return CG_OK;
	h = header_of(rnn, c, shape);
	memcpy(stream->header, &h, sizeof h);
	return cg_put(stream, c->reserve, stream->header, sizeof h);
}

int cg_rnn_reserve_counter(const void *reserve, size_t bytes, uint64_t *counter)
{
	struct header h;

	if (!reserve || !counter)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_reserve_counter: %s: expected a pointer, got NULL", reserve ? "counter" : "reserve");
	if (bytes < sizeof h)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_reserve_counter: reserve: expected at least %zu bytes, got %zu", sizeof h, bytes);
	memcpy(&h, reserve, sizeof h);
	if (memcmp(h.magic, (struct header){ .magic = MAGIC }.magic, sizeof h.magic))
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_reserve_counter: reserve: expected a reserve space that cg_rnn_forward wrote, got other bytes");
	*counter = h.counter;
	return CG_OK;
}

int cg_reserve_check(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *c,
                     const struct cg_rnn_shape *shape)
{
	struct header want, got;
	int checked;

	CG_TRY(is_checked(c, &checked));
	if (!checked)
		return CG_OK;
	want = header_of(rnn, c, shape);
	CG_TRY(cg_get(stream, stream->header, c->reserve, sizeof got));
	memcpy(&got, stream->header, sizeof got);
	if (!memcmp(&want, &got, sizeof want))
		return CG_OK;
	if (memcmp(want.magic, got.magic, sizeof want.magic))
		return REFUSE("expected a reserve space that a forward call of this plan wrote, got other bytes");
	if (want.fingerprint != got.fingerprint)
		return REFUSE("expected a reserve space of this plan, got one of a plan that differs, for example in network, "
		              "dropout, seed or route");
	if (want.T != got.T || want.B != got.B)
		return REFUSE("expected a reserve space of a call with T=%lld, B=%lld, got one of a call with T=%lld, B=%lld",
		              (long long)want.T, (long long)want.B, (long long)got.T, (long long)got.B);
	return REFUSE("expected a reserve space of a forward call with the arguments of this call, got one of a call with %s",
	              want.N != got.N || want.lengths != got.lengths ? "other lengths" : want.counter != got.counter ? "another counter" :
	              want.first_step != got.first_step ? "another first_step" : "another no_dropout");
}
