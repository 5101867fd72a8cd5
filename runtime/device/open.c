/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses and opens the backend for cg_open: by the caller's list, by CELLGRAD_BACKEND, or by trying all in the order of backends/list.h.
 * A backend that the caller named is never replaced by one that the caller did not name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/cell.h"
#include "runtime/device/device.h"
#include "runtime/core/environment.h"

/* Tests define a list of backends of their own. */
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

int cg_context_of(const struct cg_backend *, struct cg_dev *, struct cg_context **);

static int names(const char **list)
{
	int n = 0;

	for (const struct cg_backend *const *b = cg_backends; *b && n < NAMES_MAX; b++)
		list[n++] = (*b)->name;
	return n;
}

/* Writes the names of all backends as a list: "cpu, opencl". */
static void list_names(char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = 0;
	for (const struct cg_backend *const *b = cg_backends; *b && used < bytes; b++)
		used += (size_t)snprintf(text + used, bytes - used, "%s%s", b == cg_backends ? "" : ", ", (*b)->name);
}

/* Makes a context of an open device; closes the device on failure. */
static int keep(const struct cg_backend *backend, struct cg_dev *device, struct cg_context **context)
{
	int code = cg_context_of(backend, device, context);

	if (code)
		backend->close(device);
	return code;
}

static int open_one(const struct cg_backend *backend, const char *where, struct cg_context **context)
{
	struct cg_dev *device;

	CG_TRY(backend->open(where, &device));
	return keep(backend, device, context);
}

static const struct cg_backend *find(const char *name, size_t length)
{
	for (const struct cg_backend *const *b = cg_backends; *b; b++)
		if (strlen((*b)->name) == length && !memcmp((*b)->name, name, length))
			return *b;
	return NULL;
}

static int refuse_name(const char *from, const char *name, size_t length)
{
	const char *list[NAMES_MAX], *near;
	char word[WORD], all[WORD];

	snprintf(word, sizeof word, "%.*s", (int)length, name);
	list_names(all, sizeof all);
	near = cg_nearest(word, list, names(list));
	return cg_fail(CG_BAD_ARGUMENT, "%s: there is no backend '%.100s'%s%s%s The backends are: %s", from, word,
	               near ? "; did you mean '" : ".", near ? near : "", near ? "'?" : "", all);
}

int cg_backend_check(const char *from, const char *where)
{
	const char *whole = where;
	char all[WORD];

	list_names(all, sizeof all);
	if (!strcmp(where, "help"))
		return cg_fail(CG_BAD_ARGUMENT, "%s: expected NAME, NAME:DEVICE, or a list of them with commas in order of preference. "
		               "The backends are: %s", from, all);
	for (;; where++) {
		size_t length = strcspn(where, ","), name = strcspn(where, ":,");

		if (!length || length >= WORD)
			return cg_fail(CG_BAD_ARGUMENT, "%s: expected NAME or NAME:DEVICE, or several with commas between them, each of 1 to %d bytes, "
			               "got '%.100s'", from, WORD - 1, whole);
		if (!find(where, name))
			return refuse_name(from, where, name);
		where += length;
		if (!*where)
			return CG_OK;
	}
}

/* Opens one word of a checked list: "cpu", "cuda:1". */
static int open_word(const char *from, const char *word, struct cg_context **context)
{
	size_t length = strcspn(word, ":");
	int code = open_one(find(word, length), word[length] ? word + length + 1 : NULL, context);

	return code ? cg_fail_in(code, "%s: %s", from, word) : CG_OK;
}

/* Opens the first word of a checked list that can be opened.  After CG_NO_DEVICE the next word is tried; any other failure is returned. */
static int open_list(const char *from, const char *where, struct cg_context **context)
{
	char reasons[REASONS] = "", word[WORD];
	size_t used = 0;

	for (;; where++) {
		size_t length = strcspn(where, ",");
		int code;

		snprintf(word, sizeof word, "%.*s", (int)length, where);
		code = open_word(from, word, context);
		if (code != CG_NO_DEVICE || (!used && !where[length]))
			return code;
		if (used < sizeof reasons)
			used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s", used ? "; " : "", cg_message());
		where += length;
		if (!*where)
			return cg_fail(CG_NO_DEVICE, "%s", reasons);
	}
}

/* Opens a backend that is tried because the caller named none. */
static int open_unasked(const struct cg_backend *backend, struct cg_context **context)
{
	int code = backend->likely ? backend->likely() : CG_OK;

	if (code == CG_NO_DEVICE)
		return cg_fail_in(code, "passed over");
	CG_TRY(code);
	return open_one(backend, backend->unasked, context);
}

/* Prints which backend was opened, and why the backends before it in the list were not. */
static void report_choice(const struct cg_context *context, const char *reasons)
{
	char line[CG_LINE] = "";

	cg_line_add(line, sizeof line - 1, "# cg_open: %s;", context->backend->name);
	cg_context_add_route(line, sizeof line - 1, context);
	cg_line_add(line, sizeof line - 1, "%s", *reasons ? "; not " : "");
	cg_line_add_plain(line, sizeof line - 1, reasons);
	cg_line_write(line);
}

/* Opens the first backend that can be opened, for a caller that named none.  If none can be opened, the message lists all reasons; a
 * mistake in the environment, or lack of memory, is reported at once and alone. */
static int open_any(int verbose, struct cg_context **context)
{
	char reasons[REASONS] = "";
	size_t used = 0;

	for (const struct cg_backend *const *b = cg_backends; *b; b++) {
		int code = open_unasked(*b, context);

		if (code == CG_OK && verbose)
			report_choice(*context, reasons);
		if (code == CG_OK || code == CG_NO_MEMORY || code == CG_BAD_ARGUMENT)
			return code;
		if (used < sizeof reasons)
			used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s: %s", used ? "; " : "", (*b)->name,
			                         cg_message());
	}
	return cg_fail(CG_NO_DEVICE, "no backend could be opened: %s", reasons);
}

int cg_open(const char *where, struct cg_context **context)
{
	const char *from = "cg_open";
	int verbose;

	if (!context)
		return cg_fail(CG_BAD_ARGUMENT, "cg_open: context: expected a pointer for the result, got NULL");
	*context = NULL;
	CG_TRY(cg_environment_check());
	CG_TRY(cg_verbose_level(&verbose));
	if (verbose)
		cg_environment_warn(NULL);
	if (!where) {
		from = cg_variables[CG_ENV_BACKEND].name;
		where = cg_variable_get(CG_ENV_BACKEND);
		if (!where)
			return open_any(verbose, context);
	}
	CG_TRY(cg_backend_check(from, where));
	return open_list(from, where, context);
}

int cg_adopt(const char *backend, void *native, void *device, struct cg_context **context)
{
	const struct cg_backend *found;
	struct cg_dev *own;

	if (context)
		*context = NULL;
	if (!backend || !native || !context)
		return cg_fail(CG_BAD_ARGUMENT, "cg_adopt: %s: expected a pointer, got NULL",
		               !backend ? "backend" : !native ? "native" : "context");
	CG_TRY(cg_environment_check());
	found = find(backend, strlen(backend));
	if (!found)
		return refuse_name("cg_adopt", backend, strlen(backend));
	if (!found->adopt)
		return cg_fail(CG_UNSUPPORTED, "cg_adopt: backend %s has no contexts to adopt; open it with cg_open", backend);
	CG_TRY(found->adopt(native, device, &own));
	return keep(found, own, context);
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
