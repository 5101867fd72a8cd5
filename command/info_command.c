/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cellgrad info`: prints the devices and libraries that are available, and why other devices cannot be used; with OP, describes the op.
 * The command's own process loads no driver; inspect_json.c queries drivers in child processes. The texts about a device come from the
 * backend of the device.
 */
#include <string.h>

#include "runtime/device/inspect.h"
#include "command/command.h"
#include "command/describe.h"
#include "command/inspect_json.h"
#include "command/output.h"

enum { WHY = OPTION_FIRST };

static const struct poptOption table[] = {
	OPTION_VALUE("why", 'w', WHY, "print only whether BACKEND opens, and the reasons if not", "BACKEND"),
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "[OP] [OPTION]...";
static const char text[] =
	"Prints the version; each device by its name for CELLGRAD_BACKEND; the device\n"
	"that is used if none is named; the CELLGRAD_ variables of the environment and\n"
	"their effects; where compiled kernels are kept; the ops, with the dtypes that\n"
	"each device supports; the route of each cell's networks on each device: composed\n"
	"of products and kernels, or a vendor's library, and why no vendor's library is\n"
	"used; and how each route rounds numbers of each dtype.\n"
	"Each device is opened in a process of its own; if that process fails, the line\n"
	"about the device says so.\n"
	"\n"
	"With OP, TensorFlow's name or cellgrad's, prints the op's tensors and their\n"
	"shapes, which tensors are required, what a gradient op takes from its forward op,\n"
	"and the op's attributes.\n"
	"\n"
	"Examples:\n"
	"  cellgrad info\n"
	"  cellgrad info --why cuda\n"
	"  cellgrad info LSTMBlockCellGrad\n"
	"  cellgrad info --json | jq .devices\n";

static const char *text_of(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}

static int opens(const json_t *object)
{
	return json_is_true(json_object_get(object, "opens"));
}

/* ---- the environment ---- */

/* A text that says what is wrong with the value of an environment variable, without the variable's name; "": nothing is wrong. */
static const char *fault(int which, const char *value, char *why, size_t capacity)
{
	if (!*value || cg_variable_judge(which, value, NULL, why, capacity))
		return "";
	return why + strlen(cg_variables[which].name) + 2;
}

/* Is the environment variable, which is not cellgrad's, one that a backend's driver or another library of the vendor reads? */
static int is_of_backend(const struct cg_variable *v)
{
	return strncmp(v->name, "CELLGRAD_", 9) && cg_inspect_find(v->reader) >= 0;
}

/* The k-th entry of the environment that is shown: all variables with the prefix CELLGRAD_, even unknown ones, and those that
 * is_of_backend() finds. */
static const char *shown_entry(int k)
{
	const char *entry;
	int ours = 0;

	for (; (entry = cg_environment_entry("CELLGRAD_", ours)); ours++)
		if (ours == k)
			return entry;
	for (const struct cg_variable *v = cg_variables; v < cg_variables + CG_ENV_VARIABLES; v++) {
		entry = is_of_backend(v) ? cg_environment_entry(v->name, 0) : NULL;
		if (entry && entry[strlen(v->name)] == '=' && ours++ == k)
			return entry;
	}
	return NULL;
}

enum { KEY = 256 };

static const char *key_of(const char *entry, char key[KEY])
{
	snprintf(key, KEY, "%.*s", (int)strcspn(entry, "="), entry);
	return key;
}

static const char *value_of(const char *entry)
{
	const char *equals = strchr(entry, '=');

	return equals ? equals + 1 : "";
}

static void show_variables(void)
{
	const char *entry;
	char key[KEY], why[640];
	const char *wrong;

	printf("\nEnvironment:\n");
	for (int k = 0; (entry = shown_entry(k)); k++) {
		int which = cg_variable_find(key_of(entry, key));

		printf("  ");
		print_plain(stdout, entry);
		if (cg_environment_unknown(entry, why, sizeof why)) {
			printf("\n    %s\n", why);
			continue;
		}
		wrong = fault(which, value_of(entry), why, sizeof why);
		printf("\n    %s%s", cg_variables[which].what, *wrong ? "; refused: " : "");
		print_plain(stdout, wrong);
		putchar('\n');
	}
	if (!shown_entry(0))
		printf("  no CELLGRAD_ variable is set\n");
}

/* { NAME: VALUE } */
static json_t *values_json(void)
{
	json_t *set = json_object();
	const char *entry;
	char key[KEY];

	for (int k = 0; (entry = shown_entry(k)); k++)
		json_object_set_new(set, key_of(entry, key), print_string(value_of(entry)));
	return set;
}

static json_t *variable_json(const char *entry)
{
	char key[KEY], allowed[256], why[640];
	int which = cg_variable_find(key_of(entry, key));
	const struct cg_variable *v;
	const char *wrong;

	if (cg_environment_unknown(entry, why, sizeof why))
		return json_pack("{s:o, s:o, s:b, s:o}", "name", print_string(key), "value", print_string(value_of(entry)), "known", 0,
		                 "what", print_string(why));
	v = &cg_variables[which];
	wrong = fault(which, value_of(entry), why, sizeof why);
	return json_pack("{s:o, s:o, s:b, s:s, s:s, s:s, s:o, s:o}", "name", print_string(key), "value", print_string(value_of(entry)),
	                 "known", 1, "what", v->what, "reader", v->reader, "allowed", cg_variable_allowed(which, allowed, sizeof allowed),
	                 "default", v->fallback ? json_string(v->fallback) : json_null(),
	                 "refused", *wrong ? print_string(wrong) : json_null());
}

static json_t *variables_json(void)
{
	json_t *list = json_array();
	const char *entry;

	for (int k = 0; (entry = shown_entry(k)); k++)
		json_array_append_new(list, variable_json(entry));
	return list;
}

/* ---- as text ---- */

/* Begins a table with two columns, and one more for each device that opens. */
static void begin_columns(struct print_table *t, const json_t *devices, char *alignments, const char *first, const char *second)
{
	json_t *d;
	size_t k;

	strcpy(alignments, "ll");
	t->columns = alignments;
	print_row(t, first, second, NULL);
	json_array_foreach(devices, k, d)
		if (opens(d)) {
			strcat(alignments, "l");
			print_cell(t, "on %s", text_of(d, "name"));
		}
}

/* "f16 bf16 f32 f64" */
static void print_dtypes(struct print_table *t, const json_t *list)
{
	char line[64] = "";
	json_t *dtype;
	size_t k;

	json_array_foreach(list, k, dtype)
		snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", k ? " " : "", json_string_value(dtype));
	print_cell(t, "%s", line);
}

static int show_ops(json_t *devices)
{
	char *alignments = cg_memory(NULL, json_array_size(devices) + 3);
	struct print_table t = { .columns = alignments };
	json_t *d;
	size_t k;
	int code;

	if (!alignments)
		return CG_NO_MEMORY;
	begin_columns(&t, devices, alignments, "op", "TensorFlow's name");
	for (const struct cg_op *op = NULL; (op = cg_op_next(op));) {
		print_row(&t, op->name, op->tensorflow, NULL);
		json_array_foreach(devices, k, d)
			if (opens(d))
				print_dtypes(&t, json_object_get(json_object_get(d, "ops"), op->name));
	}
	code = print_all_rows(&t, "  ");
	cg_memory(alignments, 0);
	return code;
}

/* Is `dtype` the first dtype in `routes` with the route `route`? */
static int is_first(json_t *routes, const char *dtype, const json_t *route)
{
	const char *other;
	json_t *theirs;

	json_object_foreach(routes, other, theirs)
		if (json_equal(theirs, route))
			return !strcmp(other, dtype);
	return 0;
}

/* "f16 f32 f64: cudnn; bf16: composed" */
static void print_routes(struct print_table *t, json_t *routes)
{
	char line[2 * CG_MESSAGE_MAX] = "";
	const char *dtype, *other;
	json_t *route, *theirs;

	json_object_foreach(routes, dtype, route) {
		size_t n = strlen(line);

		if (!is_first(routes, dtype, route))
			continue;
		if (n)
			n += (size_t)snprintf(line + n, sizeof line - n, ";");
		json_object_foreach(routes, other, theirs)
			if (n < sizeof line && json_equal(theirs, route))
				n += (size_t)snprintf(line + n, sizeof line - n, "%s%s", n ? " " : "", other);
		if (n < sizeof line)
			snprintf(line + n, sizeof line - n, ": %s", json_string_value(route));
	}
	print_cell(t, "%s", line);
}

static int show_networks(json_t *devices)
{
	char *alignments = cg_memory(NULL, json_array_size(devices) + 3), key[INSPECT_KEY];
	struct print_table t = { .columns = alignments };
	struct inspect_cell kind;
	json_t *d;
	size_t k;
	int code;

	if (!alignments)
		return CG_NO_MEMORY;
	begin_columns(&t, devices, alignments, "cell", "options");
	for (int i = 0; inspect_find_cell(i, &kind); i++) {
		print_row(&t, kind.cell, kind.options, NULL);
		json_array_foreach(devices, k, d)
			if (opens(d))
				print_routes(&t, json_object_get(json_object_get(d, "networks"), inspect_key(&kind, key)));
	}
	code = print_all_rows(&t, "  ");
	cg_memory(alignments, 0);
	json_array_foreach(devices, k, d)
		if (opens(d) && cg_inspect_has_networks(cg_inspect_find(text_of(d, "name")))) {
			printf("  %s: ", text_of(d, "name"));
			print_plain(stdout, text_of(d, "parts"));
			putchar('\n');
		}
	return code;
}

static int show_rounding(void)
{
	struct print_table t = { .columns = "lll" };
	const char *const *roundings;
	const char *route;

	printf("\nRounding of networks, by route and dtype:\n");
	for (int k = 0; (route = cg_rnn_route_name(k, &roundings)); k++)
		for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
			if (roundings[dtype])
				print_row(&t, route, cg_dtype_name(dtype), roundings[dtype], NULL);
	return print_all_rows(&t, "  ");
}

static json_t *rounding_json(void)
{
	json_t *list = json_array();
	const char *const *roundings;
	const char *route;

	for (int k = 0; (route = cg_rnn_route_name(k, &roundings)); k++)
		for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
			if (roundings[dtype])
				json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "route", route, "dtype", cg_dtype_name(dtype),
				                                      "rounding", roundings[dtype]));
	return list;
}

static void show_cache(void)
{
	struct cg_cache_directory directory;

	cg_cache_find_directory(&directory);
	printf("\nCompiled kernels on disk:\n  ");
	print_plain(stdout, directory.why[0] ? "none: " : directory.path);
	print_plain(stdout, directory.why);
	putchar('\n');
}

static void show_default(json_t *unnamed)
{
	const char *backend;
	json_t *why;

	printf("\n%s\n  ", opens(unnamed) ? "Used when no backend is named:" : "No backend can be used:");
	print_plain(stdout, text_of(unnamed, "about"));
	putchar('\n');
	json_object_foreach(opens(unnamed) ? json_object_get(unnamed, "passed_over") : NULL, backend, why) {
		printf("  %s is passed over: ", backend);
		print_plain(stdout, json_string_value(why));
		putchar('\n');
	}
}

static int show(json_t *devices, json_t *unnamed)
{
	struct print_table t = { .columns = "ll" };
	const char *name;
	json_t *d;
	size_t k;

	printf("cellgrad %s\n\nDevices:\n", cg_version());
	json_array_foreach(devices, k, d)
		print_row(&t, text_of(d, "name"), text_of(d, "about"), NULL);
	CG_TRY(print_all_rows(&t, "  "));
	show_default(unnamed);
	show_variables();
	show_cache();
	printf("\nOps:\n");
	CG_TRY(show_ops(devices));
	printf("\nCells:\n ");
	for (int c = 0; (name = cg_cell_name(c)); c++)
		printf(" %s", name);
	printf("\n\nNetworks:\n");
	CG_TRY(show_networks(devices));
	return show_rounding();
}

/* ---- as JSON: one object, since info prints no list of results ---- */

static json_t *cache_json(void)
{
	struct cg_cache_directory directory;
	json_t *cache = json_object();

	cg_cache_find_directory(&directory);
	json_object_set_new(cache, "path", json_string(directory.path));
	json_object_set_new(cache, "why", json_string(directory.why));
	return cache;
}

static int show_json(json_t *devices, json_t *unnamed)
{
	json_t *names = json_array(), *ops = json_object();
	const char *name;

	for (int k = 0; (name = cg_cell_name(k)); k++)
		json_array_append_new(names, json_string(name));
	for (const struct cg_op *op = NULL; (op = cg_op_next(op));)
		json_object_set_new(ops, op->name, json_string(op->tensorflow));
	return print_json(json_pack("{s:s, s:O, s:O, s:o, s:o, s:o, s:o, s:o, s:o}",
	                            "version", cg_version(), "devices", devices, "default", unnamed,
	                            "environment", values_json(), "variables", variables_json(), "cache", cache_json(),
	                            "ops", ops, "cells", names, "rounding", rounding_json()));
}

static int show_all(int json)
{
	json_t *devices = inspect_devices(), *unnamed = devices ? inspect_default() : NULL;
	int code = !unnamed || print_json_lost() ? CG_NO_MEMORY : json ? show_json(devices, unnamed) : show(devices, unnamed);

	json_decref(unnamed);
	json_decref(devices);
	return code;
}

/* ---- one backend ---- */

static void show_why(const char *backend, const json_t *answer)
{
	const char *line = text_of(answer, "about"), *passed_over = text_of(answer, "passed_over");
	json_t *d;
	size_t k;

	printf("%s: %s", backend, opens(answer) ? "opens: " : "");
	print_plain(stdout, line);
	putchar('\n');
	/* Prints what the line about the backend does not say: its other devices, and the libraries that a device needs, whether found or
	 * not. */
	json_array_foreach(json_object_get(answer, "devices"), k, d) {
		const char *about = json_string_value(json_array_get(d, 1));

		if (strstr(line, about))
			continue;
		printf("  %s  ", json_string_value(json_array_get(d, 0)));
		print_plain(stdout, about);
		putchar('\n');
	}
	if (*passed_over) {
		printf("  the backend is passed over when no backend is named: ");
		print_plain(stdout, passed_over);
		putchar('\n');
	}
}

static int show_why_json(const char *backend, json_t *answer)
{
	json_t *devices = json_array(), *d;
	size_t k;

	json_array_foreach(json_object_get(answer, "devices"), k, d)
		json_array_append_new(devices, json_pack("{s:O, s:O}", "name", json_array_get(d, 0), "about", json_array_get(d, 1)));
	return print_json(json_pack("{s:o, s:O, s:O, s:o, s:O}", "backend", print_string(backend), "opens", json_object_get(answer, "opens"),
	                            "about", json_object_get(answer, "about"), "devices", devices,
	                            "passed_over", json_object_get(answer, "passed_over")));
}

/* Prints whether a backend opens, and if not, why. Either answer counts as success; a name that no backend has is an error. */
static int why(const char *backend, int json)
{
	json_t *answer;
	int code = CG_OK;

	CG_TRY(cg_backend_check("--why", backend));
	answer = inspect_why(backend);
	if (!answer)
		return CG_NO_MEMORY;
	if (json)
		code = show_why_json(backend, answer);
	else
		show_why(backend, answer);
	json_decref(answer);
	return code;
}

int command_info(int argc, const char **argv)
{
	struct options o;
	int code = options_open(&o, "info", argc, argv, table), json = !code && o.value[OPTION_JSON];
	char shown[PRINT_NAME];

	if (!code && o.value[OPTION_HELP])
		options_help(&o, usage, text);
	else if (!code && o.operands[0] && (o.operands[1] || o.value[WHY]))
		code = cg_fail(CG_BAD_ARGUMENT, "op %s: expected one op, or --why without an op, got several ops or both",
		               print_name(shown, o.operands[o.operands[1] ? 1 : 0]));
	else if (!code && o.operands[0])
		code = describe_op(o.operands[0], json);
	else if (!code)
		code = o.value[WHY] ? why(o.value[WHY], json) : show_all(json);
	options_close(&o);
	return code ? command_fail("info", code, 0) : EXIT_OK;
}
