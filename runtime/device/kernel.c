/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a context, by cell, options, pass, stage and dtype: each is planned and built at its first use and kept.  A launch binds the
 * arguments of the function by a callback of its caller.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "runtime/device/device.h"

static int check_slots(const struct cg_pass_plan *plan)
{
	for (int p = 0; p < plan->n_functions; p++)
		if (plan->functions[p].n_arguments > CG_SLOTS_MAX)
			return cg_fail(CG_UNSUPPORTED, "kernel %s has more than %d arguments", plan->functions[p].key, CG_SLOTS_MAX);
	return CG_OK;
}

static int make(struct cg_context *context, const struct cg_kernel_entry *key, struct cg_kernel_entry **result)
{
	struct cg_mistake mistake;
	struct cg_kernel_entry *entry = cg_memory(NULL, sizeof *entry);
	int code;

	if (!entry)
		return CG_NO_MEMORY;
	*entry = *key;
	entry->plan = cg_plan(key->cell, key->options, key->pass, key->stage, key->dtype, cg_memory, &mistake);
	if (!entry->plan)
		code = mistake.text[0] ? cg_fail(CG_BUILD, "%s", mistake.text) : CG_NO_MEMORY;
	else
		code = check_slots(entry->plan);
	if (!code)
		code = context->backend->build(context->device, entry->plan, &entry->built);
	if (code) {
		cg_plan_free(entry->plan);
		cg_memory(entry, 0);
		return code;
	}
	*result = entry;
	return CG_OK;
}

/* Finds the kernel of a key among those built so far, or NULL.  The search needs no lock: until the context closes, kernels are only
 * added. */
static struct cg_kernel_entry *find(struct cg_context *context, const struct cg_kernel_entry *key)
{
	struct cg_kernel_entry *entry = atomic_load_explicit(&context->kernels, memory_order_acquire);

	for (; entry; entry = entry->next)
		if (entry->cell == key->cell && entry->options == key->options && entry->pass == key->pass &&
		    entry->stage == key->stage && entry->dtype == key->dtype)
			break;
	return entry;
}

/* Finds the kernel of a key, or builds it. */
static int get(struct cg_context *context, const struct cg_kernel_entry *key, const struct cg_kernel_entry **result)
{
	struct cg_kernel_entry *entry = find(context, key);
	int code = CG_OK;

	if (!entry) {
		pthread_mutex_lock(context->lock);
		entry = find(context, key);
		if (!entry) {
			code = make(context, key, &entry);
			if (!code) {
				cg_cell_retain(key->cell);
				entry->next = atomic_load_explicit(&context->kernels, memory_order_relaxed);
				atomic_store_explicit(&context->kernels, entry, memory_order_release);
			}
		}
		pthread_mutex_unlock(context->lock);
	}
	*result = entry;
	return code;
}

int cg_open_cell_kernel(struct cg_context *context, const struct cg_cell *cell, int options, int pass, int stage, int dtype,
                        const struct cg_kernel_entry **result)
{
	const struct cg_kernel_entry key = { .cell = cell, .options = options, .pass = pass, .stage = stage, .dtype = dtype };

	return get(context, &key, result);
}

int cg_open_kernel(struct cg_context *context, const char *name, const char *options, int pass, int stage, int dtype,
                   const struct cg_kernel_entry **result)
{
	const struct cg_cell *cell = cg_cell_find(name);
	struct cg_mistake mistake;
	int bits;

	if (!cell)
		return CG_NO_MEMORY;
	bits = cg_parse_options(cell, options, &mistake);
	if (bits < 0)
		return cg_fail(CG_BAD_ARGUMENT, "%s", mistake.text);
	return cg_open_cell_kernel(context, cell, bits, pass, stage, dtype, result);
}

int cg_bind(const struct cg_function *function, cg_binding *binding, const void *of, struct cg_operand operands[])
{
	const struct cg_argument *a = function->arguments, *end = a + function->n_arguments;

	for (; a < end; a++, operands++)
		if (a->role == CG_ROLE_ROWS || a->role == CG_ROLE_UNITS)
			*operands = (struct cg_operand){ .value = 0 };
		else
			CG_TRY(binding(of, a, operands));
	return CG_OK;
}

int cg_launch(struct cg_stream *stream, const struct cg_kernel_entry *entry, int function, int64_t rows, int64_t units, cg_binding *binding,
              const void *of)
{
	struct cg_operand operands[CG_SLOTS_MAX];

	CG_TRY(cg_bind(&entry->plan->functions[function], binding, of, operands));
	return stream->context->backend->launch(stream->queue, entry->built, function, rows, units, operands);
}
