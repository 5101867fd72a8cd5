/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: copies host arguments of a call for a device that cannot read host memory.  Each host argument has a copy in the stream's
 * scratch: that of an input is filled before the computation, that of an output is copied back after it.
 */
#include <string.h>

#include "runtime/device/device.h"

/* The alignment of each copy, as drivers prefer. */
enum { ALIGN = 256 };

static size_t aligned(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

void cg_staging_begin(struct cg_staging *stage, struct cg_stream *stream)
{
	stage->stream = stream;
	stage->n = 0;
	stage->bytes = 0;
}

void cg_staging_add(struct cg_staging *stage, struct cg_mem *mem, struct cg_staged_rows lie, int in, int out)
{
	size_t bytes = lie.blocks.n && lie.rows.n
		? (size_t)(lie.blocks.n - 1) * lie.blocks.copy_pitch + (size_t)(lie.rows.n - 1) * lie.rows.copy_pitch + lie.bytes : 0;

	/* Rows without bytes between them are copied as one row, and blocks without bytes between them as one block. */
	if (lie.rows.pitch == lie.bytes && lie.rows.copy_pitch == lie.bytes) {
		lie.bytes *= (size_t)lie.rows.n;
		lie.rows.n = 1;
	}
	if (lie.rows.n == 1 && lie.blocks.pitch == lie.bytes && lie.blocks.copy_pitch == lie.bytes) {
		lie.bytes *= (size_t)lie.blocks.n;
		lie.blocks.n = 1;
	}
	stage->staged[stage->n++] = (struct cg_staged){ mem, *mem, lie, stage->bytes, bytes, in, out };
	stage->bytes += aligned(bytes);
}

static int copy_row(const struct cg_staging *stage, const struct cg_staged *p, size_t host_at, size_t at, int back)
{
	const struct cg_backend *backend = stage->stream->context->backend;
	char *host = (char *)p->host.data + p->host.offset + host_at;
	struct cg_mem device = cg_part(*p->mem, at, p->lie.bytes);

	return back ? backend->copy_out(stage->stream->queue, host, device, p->lie.bytes)
	            : backend->copy_in(stage->stream->queue, device, host, p->lie.bytes);
}

/* Enqueues the copies of an argument, to the device or back. */
static int copy(const struct cg_staging *stage, const struct cg_staged *p, int back)
{
	const struct cg_staged_rows *lie = &p->lie;

	for (int64_t block = 0; block < lie->blocks.n && p->bytes; block++)
		for (int64_t row = 0; row < lie->rows.n; row++)
			CG_TRY(copy_row(stage, p, (size_t)block * lie->blocks.pitch + (size_t)row * lie->rows.pitch,
			                (size_t)block * lie->blocks.copy_pitch + (size_t)row * lie->rows.copy_pitch, back));
	return CG_OK;
}

int cg_staging_open(struct cg_staging *stage, size_t more, struct cg_mem *work)
{
	struct cg_mem scratch;

	CG_TRY(cg_stream_get_scratch(stage->stream, aligned(more) + stage->bytes, &scratch));
	*work = more ? cg_part(scratch, 0, more) : (struct cg_mem){ .bytes = 0 };
	for (int k = 0; k < stage->n; k++) {
		const struct cg_staged *p = &stage->staged[k];

		*p->mem = cg_part(scratch, aligned(more) + p->at, p->bytes);
	}
	for (int k = 0; k < stage->n; k++)
		if (stage->staged[k].in) {
			int code = copy(stage, &stage->staged[k], 0);

			if (code)
				return cg_staging_close(stage, code);
		}
	return CG_OK;
}

int cg_staging_close(struct cg_staging *stage, int code)
{
	const struct cg_backend *backend = stage->stream->context->backend;
	char first[CG_MESSAGE_MAX];

	for (int k = 0; k < stage->n && !code; k++)
		if (stage->staged[k].out)
			code = copy(stage, &stage->staged[k], 1);
	if (!stage->n)
		return code;
	if (!code)
		return backend->sync(stage->stream->queue);
	/* Waits even after a failure, since enqueued work may use host memory.  Reports the first failure. */
	memcpy(first, cg_message(), strlen(cg_message()) + 1);
	return backend->sync(stage->stream->queue) ? cg_fail(code, "%s", first) : code;
}
