/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries each device in a child process of its own. The functions under "in a child" run in the child; those
 * under "in the parent" combine the answers.
 */
#include <string.h>

#include "command/command.h"
#include "command/inspect_json.h"
#include "command/output.h"
#include "command/child_process.h"
#include "runtime/device/inspect.h"

enum { DEVICES = 64, LINE = 2048 };

static const int dtypes[] = { CG_DTYPES_SHOWN };
enum { DTYPES = sizeof dtypes / sizeof *dtypes };
_Static_assert((int)DTYPES == (int)CG_DTYPE_COUNT, "CG_DTYPES_SHOWN lacks a dtype");

int inspect_find_cell(int k, struct inspect_cell *kind)
{
	const char *name;

	for (int c = 0; (name = cg_cell_name(c)); c++) {
		const struct cg_cell *cell = cg_cell_find(name);

		for (int with = 0; with < 1 + (cell->n_options > 0); with++, k--) {
			*kind = (struct inspect_cell){ .cell = name };
			for (int o = 0; with && o < cell->n_options; o++)
				sprintf(kind->options + strlen(kind->options), "%s%s", o ? "," : "", cell->options[o].name);
			if (!k)
				return 1;
		}
	}
	return 0;
}

const char *inspect_key(const struct inspect_cell *kind, char key[INSPECT_KEY])
{
	snprintf(key, INSPECT_KEY, "%s%s%s", kind->cell, *kind->options ? " " : "", kind->options);
	return key;
}

/* ---- in a child ---- */

/* Lists the devices of a backend as JSON: [[name, line]]. */
static json_t *ask_list(const void *about)
{
	const int *backend = about;
	json_t *list = json_array();
	char line[LINE], name[CG_DEVICE_NAME];

	for (int k = 0; k < DEVICES && cg_inspect_device(*backend, k, name, line, sizeof line); k++)
		json_array_append_new(list, json_pack("[s, o]", name, print_string(line)));
	return list;
}

/* The dtypes that the device has for every op: { name: [dtype] }. */
static json_t *ops_of(const struct cg_context *context)
{
	json_t *ops = json_object();

	for (const struct cg_op *op = NULL; (op = cg_op_next(op));) {
		json_t *list = json_array();

		for (int k = 0; k < DTYPES; k++)
			if (!cg_supports(context, op->name, dtypes[k]))
				json_array_append_new(list, json_string(cg_dtype_name(dtypes[k])));
		json_object_set_new(ops, op->name, list);
	}
	return ops;
}

/* The route that the device takes for a network of two layers, or why the network is not possible; "" where the device lacks the dtype. */
static const char *route(struct cg_context *context, const struct inspect_cell *kind, int dtype, char text[CG_MESSAGE_MAX])
{
	struct cg_rnn_config c;

	cg_rnn_config_init(&c, sizeof c);
	c.cell = cg_cell_find(kind->cell);
	c.options = kind->options;
	c.dtype = dtype;
	c.layers = 2;
	c.input = c.units = 8;
	*text = '\0';
	if (!cg_supports(context, "rnn", dtype) && cg_rnn_find_route(context, &c, text))
		snprintf(text, CG_MESSAGE_MAX, "none: %s", cg_message());
	return text;
}

/* The routes of all kinds of networks: { "lstm": { "f32": "cudnn", ... }, "lstm peephole": ... }. */
static json_t *networks_of(struct cg_context *context)
{
	char text[CG_MESSAGE_MAX], key[INSPECT_KEY];
	json_t *all = json_object();
	struct inspect_cell kind;

	for (int i = 0; inspect_find_cell(i, &kind); i++) {
		json_t *routes = json_object();

		for (int k = 0; k < DTYPES; k++)
			if (*route(context, &kind, dtypes[k], text))
				json_object_set_new(routes, cg_dtype_name(dtypes[k]), print_string(text));
		json_object_set_new(all, inspect_key(&kind, key), routes);
	}
	return all;
}

/* Why a device does not open, without the device's name at the front. */
static json_t *reason(const char *name)
{
	const char *text;
	size_t n = strlen(name);

	command_reword(CG_NO_DEVICE, NULL);
	text = cg_message();
	return print_string(!strncmp(text, name, n) && !strncmp(text + n, ": ", 2) ? text + n + 2 : text);
}

static json_t *ask_device(const void *about)
{
	const char *name = about;
	struct cg_context *context;
	json_t *device;

	if (cg_open(name, &context))
		return json_pack("{s:s, s:b, s:o, s:{}, s:{}}", "name", name, "opens", 0, "about", reason(name), "ops", "networks");
	device = json_pack("{s:s, s:b, s:o, s:o, s:o}", "name", name, "opens", 1, "about", print_string(cg_describe(context)),
	                   "ops", ops_of(context), "networks", networks_of(context));
	cg_close(context);
	return device;
}

/* Opens a device in the child and describes it. about: the name of a device or backend; NULL: the device that cg_open(NULL)
 * chooses. */
static json_t *ask_open(const void *about)
{
	const char *where = about;
	int backend = where ? cg_inspect_find(where) : -1;
	struct cg_context *context;
	json_t *answer, *list;

	if (cg_open(where, &context))
		return json_pack("{s:b, s:o, s:[]}", "opens", 0, "about", where ? reason(where) : print_string(cg_message()), "devices");
	list = backend >= 0 ? ask_list(&backend) : json_array();
	answer = json_pack("{s:b, s:o, s:o}", "opens", 1, "about", print_string(cg_describe(context)), "devices", list);
	cg_close(context);
	return answer;
}

/* ---- in the parent ---- */

/* The child's answer about a device; where the child gives none, an answer that says why; NULL: no memory. */
static json_t *probe_open(const char *where)
{
	char why[CHILD_WHY];
	json_t *answer = ask_in_child(ask_open, where, CHILD_SECONDS, why);

	return answer || !*why ? answer : json_pack("{s:b, s:s, s:[]}", "opens", 0, "about", why, "devices");
}

static json_t *probe_device(const char *name, const char *parts)
{
	char why[CHILD_WHY];
	json_t *device = ask_in_child(ask_device, name, CHILD_SECONDS, why);

	if (!device && *why)
		device = json_pack("{s:s, s:b, s:s, s:{}, s:{}}", "name", name, "opens", 0, "about", why, "ops", "networks");
	if (device)
		json_object_set_new(device, "parts", json_string(parts));
	return device;
}

/* Adds the devices of a backend. If the child process that lists them gives no answer, since a driver ends it or hangs, adds one entry with
 * the backend's name. */
static int add_devices(int backend, json_t *devices)
{
	char why[CHILD_WHY];
	json_t *list = ask_in_child(ask_list, &backend, CHILD_SECONDS, why);
	int code = CG_OK;

	if (!list && !*why)
		return CG_NO_MEMORY;
	if (!list)
		json_array_append_new(devices, json_pack("{s:s, s:b, s:s, s:{}, s:{}, s:s}", "name", cg_inspect_backend(backend), "opens", 0, "about",
		                                         why, "ops", "networks", "parts", ""));
	for (size_t k = 0; k < json_array_size(list) && !code; k++) {
		json_t *entry = json_array_get(list, k);
		json_t *device = probe_device(json_string_value(json_array_get(entry, 0)), json_string_value(json_array_get(entry, 1)));

		code = device ? CG_OK : CG_NO_MEMORY;
		json_array_append_new(devices, device);
	}
	json_decref(list);
	return code;
}

json_t *inspect_devices(void)
{
	json_t *devices = json_array();
	int code = CG_OK;

	for (int k = 0; cg_inspect_backend(k) && !code; k++)
		code = add_devices(k, devices);
	if (!code)
		return devices;
	json_decref(devices);
	return NULL;
}

json_t *inspect_default(void)
{
	json_t *answer = probe_open(NULL), *over = json_object();

	for (int k = 0; cg_inspect_backend(k) && !cg_variable_get(CG_ENV_BACKEND); k++) {
		const char *why = cg_inspect_passed_over(k);

		if (why)
			json_object_set_new(over, cg_inspect_backend(k), print_string(why));
	}
	if (answer) {
		json_object_del(answer, "devices");
		json_object_set(answer, "passed_over", over);
	}
	json_decref(over);
	return answer;
}

json_t *inspect_why(const char *where)
{
	int backend = cg_inspect_find(where);
	const char *why = backend < 0 ? NULL : cg_inspect_passed_over(backend);
	json_t *answer = probe_open(where);

	if (answer)
		json_object_set_new(answer, "passed_over", why ? print_string(why) : json_null());
	return answer;
}
