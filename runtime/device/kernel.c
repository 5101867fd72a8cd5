/*
 * Kernels that a context has ready: asked for by cell, options, pass, stage and dtype, planned and built at the first call and
 * kept.  What a kernel is called with is matched to its arguments by name, once, here.
 */
#include <pthread.h>
#include <string.h>

#include "runtime/device/device.h"

static int find_slots(struct cg_ready *ready)
{
	for (int p = 0; p < ready->plan->n_pieces; p++) {
		const struct cg_piece *piece = &ready->plan->pieces[p];

		if (piece->n_arguments > CG_SLOTS_MAX)
			return cg_fail(CG_UNSUPPORTED, "%s: more than %d arguments", piece->key, CG_SLOTS_MAX);
		for (int a = 0; a < piece->n_arguments && ready->names; a++) {
			const char *name = piece->arguments[a].name;
			int k = 0;

			while (ready->names[k] && strcmp(ready->names[k], name))
				k++;
			ready->slot[p][a] = (short)(ready->names[k] ? k : -1);
			if (!ready->names[k] && piece->arguments[a].role != CG_ROLE_ROWS && piece->arguments[a].role != CG_ROLE_UNITS)
				return cg_fail(CG_BAD_ARGUMENT, "%s: nothing is given for '%s'", piece->key, name);
		}
	}
	return CG_OK;
}

static int make(struct cg_context *context, const struct cg_ready *key, struct cg_ready **result)
{
	struct cg_mistake mistake;
	struct cg_ready *ready = cg_memory(NULL, sizeof *ready);
	int code;

	if (!ready)
		return CG_NO_MEMORY;
	*ready = *key;
	ready->plan = cg_plan(key->cell, key->options, key->pass, key->stage, key->dtype, cg_memory, &mistake);
	if (!ready->plan)
		code = mistake.text[0] ? cg_fail(CG_BUILD, "%s", mistake.text) : CG_NO_MEMORY;
	else
		code = find_slots(ready);
	if (!code)
		code = context->backend->build(context->device, ready->plan, &ready->built);
	if (code) {
		cg_plan_free(ready->plan);
		cg_memory(ready, 0);
		return code;
	}
	*result = ready;
	return CG_OK;
}

/* The kernel of a key, from those that are ready, or made now. */
static int get(struct cg_context *context, const struct cg_ready *key, const struct cg_ready **result)
{
	struct cg_ready *ready;
	int code = CG_OK;

	pthread_mutex_lock(context->lock);
	for (ready = context->ready; ready; ready = ready->next)
		if (ready->cell == key->cell && ready->names == key->names && ready->options == key->options &&
		    ready->pass == key->pass && ready->stage == key->stage && ready->dtype == key->dtype)
			break;
	if (!ready) {
		code = make(context, key, &ready);
		if (!code) {
			cg_cell_hold(key->cell);
			ready->next = context->ready;
			context->ready = ready;
		}
	}
	pthread_mutex_unlock(context->lock);
	*result = ready;
	return code;
}

int cg_ready(struct cg_context *context, const char *cell, const char *options, int pass, int stage, int dtype,
             const char *const *names, const struct cg_ready **result)
{
	struct cg_ready key = { .cell = cg_cell_find(cell), .names = names, .pass = pass, .stage = stage, .dtype = dtype };
	struct cg_mistake mistake;

	if (!key.cell)
		return CG_NO_MEMORY;
	key.options = cg_parse_options(key.cell, options, &mistake);
	if (key.options < 0)
		return cg_fail(CG_BAD_ARGUMENT, "%s", mistake.text);
	return get(context, &key, result);
}

int cg_ready_cell(struct cg_context *context, const struct cg_cell *cell, int options, int pass, int stage, int dtype,
                  const struct cg_ready **result)
{
	struct cg_ready key = { .cell = cell, .options = options, .pass = pass, .stage = stage, .dtype = dtype };

	return get(context, &key, result);
}

int cg_launch(struct cg_stream *stream, const struct cg_ready *ready, int piece, int64_t rows, int64_t units,
              const struct cg_operand *operands)
{
	struct cg_operand ordered[CG_SLOTS_MAX];
	const struct cg_piece *p = &ready->plan->pieces[piece];

	for (int a = 0; a < p->n_arguments; a++) {
		int slot = ready->slot[piece][a];

		if (slot >= 0)
			ordered[a] = operands[slot];
		else
			ordered[a] = (struct cg_operand){ .value = 0 };
	}
	return stream->context->backend->launch(stream->queue, ready->built, piece, rows, units, ordered);
}
