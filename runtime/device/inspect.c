/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of backends and of an open device, for the command.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/device/inspect.h"

const char *cg_inspect_backend(int k)
{
	return cg_backends[k] ? cg_backends[k]->name : NULL;
}

int cg_inspect_find(const char *where)
{
	size_t n = strcspn(where, ":");

	for (int k = 0; cg_backends[k]; k++)
		if (strlen(cg_backends[k]->name) == n && !strncmp(cg_backends[k]->name, where, n) && !strchr(where, ','))
			return k;
	return -1;
}

int cg_inspect_device(int backend, int k, char name[CG_DEVICE_NAME], char *about, size_t bytes)
{
	const struct cg_backend *b = cg_backends[backend];
	const char *device = b->list(k, about, bytes);

	if (device)
		snprintf(name, CG_DEVICE_NAME, "%s%s%s", b->name, *device ? ":" : "", device);
	return device != NULL;
}

const char *cg_inspect_passed_over(int backend)
{
	const struct cg_backend *b = cg_backends[backend];

	return b->likely && b->likely() == CG_NO_DEVICE ? cg_message() : NULL;
}

int cg_inspect_has_networks(int backend)
{
	return cg_backends[backend]->net != NULL;
}

const char *cg_inspect_context(const struct cg_context *context)
{
	return context->backend->name;
}

void cg_inspect_silence(struct cg_context *context)
{
	context->verbose = 0;
}

int cg_inspect_copies(const struct cg_context *context)
{
	return context->backend->copy != NULL;
}

int cg_inspect_copy(struct cg_stream *stream, struct cg_mem to, struct cg_mem from, size_t bytes)
{
	return stream->context->backend->copy(stream->queue, to, from, bytes);
}
