/*
 * Which backend a caller gets: the names, the order of preference, the environment, and the words when it cannot be.  A named
 * backend opens or explains itself; it is never replaced by another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/cell.h"
#include "runtime/backend.h"
#include "runtime/op.h"

/* Tests have a list of their own. */
#ifndef CG_BACKEND_LIST
#define CG_BACKEND_LIST "backends/list.h"
#endif

#define CG_BACKEND(name) extern const struct cg_backend cg_backend_##name;
#include CG_BACKEND_LIST
#undef CG_BACKEND

const struct cg_backend *const cg_backends[] = {
#define CG_BACKEND(name) &cg_backend_##name,
#include CG_BACKEND_LIST
#undef CG_BACKEND
	NULL
};

enum { NAMES_MAX = 16, REASONS = 2048, WORD = 256 };

int cg_context_of(const struct cg_backend *, struct cg_device *, struct cg_context **);

static int names(const char **list)
{
	int n = 0;

	for (const struct cg_backend *const *b = cg_backends; *b && n < NAMES_MAX; b++)
		list[n++] = (*b)->name;
	return n;
}

/* "cpu, opencl" */
static void list_names(char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = 0;
	for (const struct cg_backend *const *b = cg_backends; *b && used < bytes; b++)
		used += (size_t)snprintf(text + used, bytes - used, "%s%s", b == cg_backends ? "" : ", ", (*b)->name);
}

/* Makes a context of a device, or closes it. */
static int keep(const struct cg_backend *backend, struct cg_device *device, struct cg_context **context)
{
	int code = cg_context_of(backend, device, context);

	if (code)
		backend->close(device);
	return code;
}

static int open_one(const struct cg_backend *backend, const char *where, struct cg_context **context)
{
	struct cg_device *device;

	CG_TRY(backend->open(where, &device));
	return keep(backend, device, context);
}

/* Opens what one word of the list names: "cpu", "cuda:1". */
static int open_word(const char *from, const char *word, struct cg_context **context)
{
	const char *list[NAMES_MAX], *near, *colon = strchr(word, ':');
	char name[WORD], all[WORD];
	size_t length = colon ? (size_t)(colon - word) : strlen(word);

	memcpy(name, word, length);
	name[length] = 0;
	for (const struct cg_backend *const *b = cg_backends; *b; b++)
		if (!strcmp((*b)->name, name)) {
			int code = open_one(*b, colon ? colon + 1 : NULL, context);

			return code ? cg_fail_in(code, "%s: %s", from, word) : CG_OK;
		}
	list_names(all, sizeof all);
	near = cg_nearest(name, list, names(list));
	if (near)
		return cg_fail(CG_BAD_ARGUMENT, "%s: there is no backend '%.100s'; did you mean '%s'? The backends are: %s", from, name,
		               near, all);
	return cg_fail(CG_BAD_ARGUMENT, "%s: there is no backend '%.100s'. The backends are: %s", from, name, all);
}

/* Unset: the first that opens; what the others said is kept in case none does.  A mistake in the environment is told at once. */
static int open_any(struct cg_context **context)
{
	char reasons[REASONS] = "";
	size_t used = 0;

	for (const struct cg_backend *const *b = cg_backends; *b; b++) {
		int code = open_one(*b, (*b)->unasked, context);

		if (code == CG_OK || code == CG_NO_MEMORY || code == CG_BAD_ARGUMENT)
			return code;
		if (used < sizeof reasons)
			used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s: %s", used ? "; " : "", (*b)->name,
			                         cg_message());
	}
	return cg_fail(CG_NO_DEVICE, "no backend opens: %s", reasons);
}

int cg_open(const char *where, struct cg_context **context)
{
	const char *from = "cg_open";
	char reasons[REASONS] = "", word[WORD];
	size_t used = 0;
	int code = CG_OK, words = 0, verbose;

	if (!context)
		return cg_fail(CG_BAD_ARGUMENT, "cg_open: context: expected where to put it, got NULL");
	*context = NULL;
	CG_TRY(cg_verbose_level(&verbose));
	if (!where) {
		from = "CELLGRAD_BACKEND";
		where = getenv(from);
		if (!where || !*where)
			return open_any(context);
	}
	if (!strcmp(where, "help")) {
		list_names(word, sizeof word);
		return cg_fail(CG_BAD_ARGUMENT, "%s: NAME, NAME:DEVICE, or a list of them with commas in order of preference. "
		               "The backends are: %s", from, word);
	}
	for (;;) {
		size_t length = strcspn(where, ",");

		if (!length || length >= sizeof word)
			return cg_fail(CG_BAD_ARGUMENT, "%s: expected names separated by commas, got '%.100s'", from, where);
		memcpy(word, where, length);
		word[length] = 0;
		words++;
		code = open_word(from, word, context);
		/* A device that is not there leaves the next of the list; a name that is no backend's is a mistake. */
		if (code != CG_NO_DEVICE)
			return code;
		if (used < sizeof reasons)
			used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s", used ? "; " : "", cg_message());
		if (!where[length])
			return words > 1 ? cg_fail(CG_NO_DEVICE, "%s", reasons) : code;
		where += length + 1;
	}
}

int cg_adopt(const char *backend, void *native, void *device, struct cg_context **context)
{
	const char *list[NAMES_MAX], *near;
	char all[WORD];

	if (!backend || !native || !context)
		return cg_fail(CG_BAD_ARGUMENT, "cg_adopt: %s: missing", !backend ? "backend" : !native ? "native" : "context");
	*context = NULL;
	for (const struct cg_backend *const *b = cg_backends; *b; b++)
		if (!strcmp((*b)->name, backend)) {
			struct cg_device *own;

			if (!(*b)->adopt)
				return cg_fail(CG_UNSUPPORTED, "cg_adopt: %s has no contexts: cg_open it", backend);
			CG_TRY((*b)->adopt(native, device, &own));
			return keep(*b, own, context);
		}
	list_names(all, sizeof all);
	near = cg_nearest(backend, list, names(list));
	return cg_fail(CG_BAD_ARGUMENT, "cg_adopt: there is no backend '%.100s'%s%s. The backends are: %s", backend,
	               near ? "; nearest: " : "", near ? near : "", all);
}

const char *cg_device(int i, const char **about)
{
	static _Thread_local char name[WORD], line[REASONS];

	for (const struct cg_backend *const *b = cg_backends; *b && i >= 0; b++)
		for (int k = 0;; k++) {
			const char *device = (*b)->list(k, line, sizeof line);

			if (!device)
				break;
			if (i--)
				continue;
			snprintf(name, sizeof name, "%s%s%s", (*b)->name, *device ? ":" : "", device);
			if (about)
				*about = line;
			return name;
		}
	return NULL;
}

int cg_supports(const struct cg_context *context, const char *op, int dtype)
{
	CG_TRY(cg_usable(context, "cg_supports"));
	if (!op || !cg_op_find(op, NULL))
		return op ? CG_BAD_ARGUMENT : cg_fail(CG_BAD_ARGUMENT, "cg_supports: op: missing");
	if (!cg_dtype_bytes(dtype))
		return cg_fail(CG_BAD_ARGUMENT, "cg_supports: dtype: expected an enum cg_dtype, got %d", dtype);
	return context->backend->supports(context->device, dtype);
}
