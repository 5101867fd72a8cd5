/*
 * Staging: host arguments of a call on a device that does not reach host memory.  Each has a place in the stream's scratch, filled
 * before the work and read back after it.
 */
#include <string.h>

#include "runtime/device/device.h"

/* As drivers like buffers to begin. */
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

void cg_staging_add(struct cg_staging *stage, struct cg_mem *mem, int64_t rows, size_t row_bytes, size_t pitch, int in, int out)
{
	stage->staged[stage->n++] = (struct cg_staged){ mem, *mem, rows, row_bytes, pitch, stage->bytes, in, out };
	stage->bytes += aligned((size_t)rows * row_bytes);
}

/* Enqueues copies of a tensor, to the device or back: in one when the host's rows have nothing between them. */
static int copy(const struct cg_staging *stage, const struct cg_staged *p, int back)
{
	const struct cg_backend *backend = stage->stream->context->backend;
	int64_t rows = p->pitch == p->row_bytes ? 1 : p->rows;
	size_t bytes = p->pitch == p->row_bytes ? (size_t)p->rows * p->row_bytes : p->row_bytes;

	for (int64_t row = 0; row < rows && bytes; row++) {
		char *host = (char *)p->host.data + p->host.offset + (size_t)row * p->pitch;
		struct cg_mem device = cg_part(*p->mem, (size_t)row * p->row_bytes, bytes);

		CG_TRY(back ? backend->copy_out(stage->stream->queue, host, device, bytes)
		            : backend->copy_in(stage->stream->queue, device, host, bytes));
	}
	return CG_OK;
}

int cg_staging_open(struct cg_staging *stage, size_t more, struct cg_mem *work)
{
	struct cg_mem scratch;

	CG_TRY(cg_stream_get_scratch(stage->stream, aligned(more) + stage->bytes, &scratch));
	*work = more ? cg_part(scratch, 0, more) : (struct cg_mem){ .bytes = 0 };
	for (int k = 0; k < stage->n; k++) {
		const struct cg_staged *p = &stage->staged[k];

		*p->mem = cg_part(scratch, aligned(more) + p->at, (size_t)p->rows * p->row_bytes);
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
	/* Waits even after a failure, since enqueued work uses the host's memory.  The first failure is reported. */
	memcpy(first, cg_message(), strlen(cg_message()) + 1);
	return backend->sync(stage->stream->queue) ? cg_fail(code, "%s", first) : code;
}
