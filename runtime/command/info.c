/*
 * `cellgrad info`: what there is to compute on and with, and why not more.  The words about a device are its
 * backend's.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/cache.h"
#include "runtime/command/command.h"
#include "runtime/command/print.h"
#include "runtime/op.h"
#include "runtime/rnn.h"

enum { WHY = OPTION_FIRST };

static const struct poptOption table[] = {
	OPTION_VALUE("why", 'w', WHY, "only whether BACKEND opens, and the reasons if it does not", "BACKEND"),
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "[OPTION]...";
static const char text[] =
	"Shows the version, each device with its name for CELLGRAD_BACKEND, which of\n"
	"them is used when none is named, the environment's CELLGRAD_ variables, where\n"
	"compiled kernels are kept, the ops with the dtypes that each device has them in,\n"
	"and which way networks of each cell go there: composed of products and kernels,\n"
	"or by a vendor's library; where not, why.\n"
	"\n"
	"Examples:\n"
	"  cellgrad info\n"
	"  cellgrad info --why cuda\n"
	"  cellgrad info --json | jq .devices\n";

enum { DEVICES = 64, DTYPES = 4 };

extern char **environ;

struct device {
	char *name, *about;              /* about: cg_describe's line, or why it does not open */
	struct cg_context *context;      /* NULL: it does not */
};

static char *copy(const char *words)
{
	char *p = cg_memory(NULL, strlen(words) + 1);

	return p ? strcpy(p, words) : NULL;
}

static int open_devices(struct device *devices, int *n)
{
	const char *name, *about;
	int code = CG_OK;

	for (*n = 0; *n < DEVICES && code != CG_NO_MEMORY && (name = cg_device(*n, &about)); ++*n) {
		struct device *d = &devices[*n];

		*d = (struct device){ .name = copy(name), .about = copy(about ? about : "") };
		if (!d->name || !d->about) {
			++*n;
			return CG_NO_MEMORY;
		}
		code = cg_open(d->name, &d->context);
		if (code)
			d->context = NULL;
	}
	return code == CG_NO_MEMORY ? code : CG_OK;
}

static void close_devices(struct device *devices, int n)
{
	for (int k = 0; k < n; k++) {
		cg_close(devices[k].context);
		cg_memory(devices[k].name, 0);
		cg_memory(devices[k].about, 0);
	}
}

static const int order[DTYPES] = { CG_F16, CG_BF16, CG_F32, CG_F64 };

/* "f16 bf16 f32 f64" */
static const char *supported(const struct device *d, const struct cg_op *op, char list[32])
{
	list[0] = '\0';
	for (int k = 0; k < DTYPES; k++)
		if (!cg_supports(d->context, op->name, order[k]))
			snprintf(list + strlen(list), 32 - strlen(list), "%s%s", *list ? " " : "",
			         cg_dtype_name(order[k]));
	return list;
}

/* ---- which way networks go ---- */

/* The k-th built-in cell, without its options and then with all of them; 0 past the last. */
struct kind { const char *cell; char options[CG_OPTIONS_MAX * (CG_NAME_MAX + 1)]; };

static int kind_of(int k, struct kind *kind)
{
	const char *name;

	for (int c = 0; (name = cg_cell_name(c)); c++) {
		const struct cg_cell *cell = cg_cell_find(name);

		for (int with = 0; with < 1 + (cell->n_options > 0); with++, k--) {
			*kind = (struct kind){ .cell = name };
			for (int o = 0; with && o < cell->n_options; o++)
				sprintf(kind->options + strlen(kind->options), "%s%s", o ? "," : "", cell->options[o].name);
			if (!k)
				return 1;
		}
	}
	return 0;
}

/* The route of a network of two layers, or why there can be none; "" where the device lacks the dtype. */
static const char *route(const struct device *d, const struct kind *kind, int dtype, char words[CG_MESSAGE_MAX])
{
	struct cg_rnn_config c;

	cg_rnn_config_init(&c, sizeof c);
	c.cell = cg_cell_find(kind->cell);
	c.options = kind->options;
	c.dtype = dtype;
	c.layers = 2;
	c.input = c.units = 8;
	*words = '\0';
	if (!cg_supports(d->context, "rnn", dtype) && cg_rnn_would(d->context, &c, words))
		snprintf(words, CG_MESSAGE_MAX, "none: %s", cg_message());
	return words;
}

/* "cudnn", or "f16 f32 f64: cudnn; bf16: composed" where they differ. */
static void print_routes(struct print_table *t, const struct device *d, const struct kind *kind)
{
	static char words[DTYPES][CG_MESSAGE_MAX];
	char line[2 * CG_MESSAGE_MAX] = "";
	int done[DTYPES] = { 0 };

	for (int k = 0; k < DTYPES; k++)
		done[k] = !*route(d, kind, order[k], words[k]);
	for (int k = 0; k < DTYPES; k++) {
		size_t n = strlen(line);

		if (done[k])
			continue;
		for (int j = k; j < DTYPES; j++)
			if (!done[j] && !strcmp(words[j], words[k])) {
				n += (size_t)snprintf(line + n, sizeof line - n, "%s%s", j > k ? " " : *line ? "; " : "", cg_dtype_name(order[j]));
				done[j] = 1;
			}
		snprintf(line + n, sizeof line - n, ": %s", words[k]);
	}
	print_cell(t, "%s", line);
}

/* What cg_open(NULL) takes, or why nothing. */
static char *chosen(int *opens)
{
	struct cg_context *context;
	char *line;
	int code = cg_open(NULL, &context);

	*opens = !code;
	if (code)
		return code == CG_NO_MEMORY ? NULL : copy(cg_message());
	line = copy(cg_describe(context));
	cg_close(context);
	return line;
}

static const char *variable(int *k)
{
	while (environ[*k] && strncmp(environ[*k], "CELLGRAD_", 9))
		++*k;
	return environ[*k];
}

/* ---- as text ---- */

static void columns(char *letters, const struct device *devices, int n)
{
	strcpy(letters, "ll");
	for (int k = 0; k < n; k++)
		if (devices[k].context)
			strcat(letters, "l");
}

static int show_ops(const struct device *devices, int n)
{
	char letters[DEVICES + 3], list[32];
	struct print_table t = { .columns = letters };

	columns(letters, devices, n);
	print_row(&t, "op", "TensorFlow's name", NULL);
	for (int k = 0; k < n; k++)
		if (devices[k].context)
			print_cell(&t, "on %s", devices[k].name);
	for (const struct cg_op *op = cg_ops; op->name; op++) {
		print_row(&t, op->name, op->tensorflow, NULL);
		for (int k = 0; k < n; k++)
			if (devices[k].context)
				print_cell(&t, "%s", supported(&devices[k], op, list));
	}
	return print_table(&t, "  ");
}

static int show_networks(const struct device *devices, int n)
{
	char letters[DEVICES + 3];
	struct print_table t = { .columns = letters };
	struct kind kind;

	columns(letters, devices, n);
	print_row(&t, "cell", "options", NULL);
	for (int k = 0; k < n; k++)
		if (devices[k].context)
			print_cell(&t, "on %s", devices[k].name);
	for (int i = 0; kind_of(i, &kind); i++) {
		print_row(&t, kind.cell, kind.options, NULL);
		for (int k = 0; k < n; k++)
			if (devices[k].context)
				print_routes(&t, &devices[k], &kind);
	}
	CG_TRY(print_table(&t, "  "));
	for (int k = 0; k < n; k++)
		if (devices[k].context && devices[k].context->backend->net) {
			printf("  %s: ", devices[k].name);
			print_plain(stdout, devices[k].about);
			putchar('\n');
		}
	return CG_OK;
}

static void show_variables(void)
{
	const char *entry;
	int k = 0, any = 0;

	printf("\nEnvironment:\n");
	for (; (entry = variable(&k)); k++, any = 1) {
		printf("  ");
		print_plain(stdout, entry);
		putchar('\n');
	}
	if (!any)
		printf("  no CELLGRAD_ variable is set\n");
}

static void show_cache(void)
{
	struct cg_cache_place place;

	cg_cache_place(&place);
	printf("\nCompiled kernels on disk:\n  ");
	print_plain(stdout, place.why[0] ? "none: " : place.path);
	print_plain(stdout, place.why);
	putchar('\n');
}

static int show(const struct device *devices, int n, const char *line, int opens)
{
	struct print_table t = { .columns = "ll" };
	const char *name;

	printf("cellgrad %s\n\nDevices:\n", cg_version());
	for (int k = 0; k < n; k++) {
		print_cell(&t, "%s", devices[k].name);
		print_cell(&t, "%s", devices[k].context ? cg_describe(devices[k].context) : devices[k].about);
	}
	CG_TRY(print_table(&t, "  "));
	printf("\n%s\n  ", opens ? "Used when none is named:" : "None can be used:");
	print_plain(stdout, line);
	putchar('\n');
	show_variables();
	show_cache();
	printf("\nOps:\n");
	CG_TRY(show_ops(devices, n));
	printf("\nCells:\n ");
	for (int k = 0; (name = cg_cell_name(k)); k++)
		printf(" %s", name);
	printf("\n\nNetworks:\n");
	return show_networks(devices, n);
}

/* ---- as JSON: one object, since nothing here is a list of results ---- */

/* { "lstm": { "f32": "cudnn", ... }, "lstm peephole": ... } */
static json_t *networks_json(const struct device *d)
{
	char words[CG_MESSAGE_MAX], name[sizeof(struct kind) + CG_NAME_MAX];
	json_t *all = json_object();
	struct kind kind;

	for (int i = 0; d->context && kind_of(i, &kind); i++) {
		json_t *routes = json_object();

		for (int k = 0; k < DTYPES; k++)
			if (*route(d, &kind, order[k], words))
				json_object_set_new(routes, cg_dtype_name(order[k]), json_string(words));
		snprintf(name, sizeof name, "%s%s%s", kind.cell, *kind.options ? " " : "", kind.options);
		json_object_set_new(all, name, routes);
	}
	return all;
}

static json_t *device_json(const struct device *d)
{
	json_t *ops = json_object();
	char list[32];

	for (const struct cg_op *op = cg_ops; op->name && d->context; op++) {
		json_t *dtypes = json_array();
		char *rest = strcpy(list, supported(d, op, (char[32]){ 0 })), *word;

		while ((word = strtok_r(rest, " ", &rest)))
			json_array_append_new(dtypes, json_string(word));
		json_object_set_new(ops, op->name, dtypes);
	}
	return json_pack("{s:s, s:b, s:s, s:o, s:o, s:s}", "name", d->name, "opens", !!d->context, "about",
	                 d->context ? cg_describe(d->context) : d->about, "ops", ops, "networks", networks_json(d), "parts", d->about);
}

static json_t *cache_json(void)
{
	struct cg_cache_place place;
	json_t *cache = json_object();

	cg_cache_place(&place);
	json_object_set_new(cache, "path", json_string(place.path));
	json_object_set_new(cache, "why", json_string(place.why));
	return cache;
}

static int show_json(const struct device *devices, int n, const char *line, int opens)
{
	json_t *list = json_array(), *set = json_object(), *names = json_array(), *ops = json_object();
	const char *entry, *name;
	char key[64];
	int k = 0;

	for (; (entry = variable(&k)); k++) {
		snprintf(key, sizeof key, "%.*s", (int)strcspn(entry, "="), entry);
		json_object_set_new(set, key, json_string(strchr(entry, '=') ? strchr(entry, '=') + 1 : ""));
	}
	for (k = 0; k < n; k++)
		json_array_append_new(list, device_json(&devices[k]));
	for (k = 0; (name = cg_cell_name(k)); k++)
		json_array_append_new(names, json_string(name));
	for (const struct cg_op *op = cg_ops; op->name; op++)
		json_object_set_new(ops, op->name, json_string(op->tensorflow));
	return print_json(json_pack("{s:s, s:o, s:{s:b, s:s}, s:o, s:o, s:o, s:o}",
	                            "version", cg_version(), "devices", list,
	                            "default", "opens", opens, "about", line,
	                            "environment", set, "cache", cache_json(), "ops", ops, "cells", names));
}

static int show_all(int json)
{
	struct device devices[DEVICES];
	int n, opens, code = open_devices(devices, &n);
	char *line = chosen(&opens);

	if (!line)
		code = CG_NO_MEMORY;
	if (!code)
		code = json ? show_json(devices, n, line, opens) : show(devices, n, line, opens);
	cg_memory(line, 0);
	close_devices(devices, n);
	return code;
}

/* Is a device one of the backend that --why names, with or without a device? */
static int is_of(const char *name, const char *backend)
{
	size_t n = strcspn(backend, ":");

	return !strncmp(name, backend, n) && (!name[n] || name[n] == ':');
}

/* What there is of the backend that the line does not say: other devices, and the libraries that a device needs, there or not. */
static void show_devices(const char *backend, const char *line)
{
	const char *name, *about;

	for (int i = 0; (name = cg_device(i, &about)); i++)
		if (is_of(name, backend) && about && !strstr(line, about)) {
			printf("  %s  ", name);
			print_plain(stdout, about);
			putchar('\n');
		}
}

static json_t *devices_json(const char *backend)
{
	const char *name, *about;
	json_t *list = json_array();

	for (int i = 0; (name = cg_device(i, &about)); i++)
		if (is_of(name, backend))
			json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "about", about ? about : ""));
	return list;
}

/* The answer is what was asked for, whichever it is; only a name that no backend has is an error. */
static int why(const char *backend, int json)
{
	struct cg_context *context = NULL;
	int code = cg_open(backend, &context), failed = CG_OK;
	const char *line = code ? cg_message() : cg_describe(context);

	if (code == CG_BAD_ARGUMENT || code == CG_NO_MEMORY)
		return code;
	if (json) {
		failed = print_json(json_pack("{s:s, s:b, s:s, s:o}", "backend", backend, "opens", !code,
		                              "about", line, "devices", code ? json_array() : devices_json(backend)));
	} else {
		printf("%s: %s", backend, code ? "" : "opens: ");
		print_plain(stdout, line);
		putchar('\n');
		if (!code)
			show_devices(backend, line);
	}
	cg_close(context);
	return failed;
}

int command_info(int argc, const char **argv)
{
	struct options o;
	int code = options_open(&o, "info", argc, argv, table), json = !code && o.value[OPTION_JSON];
	char shown[PRINT_NAME];

	if (!code && o.value[OPTION_HELP])
		options_help(&o, usage, text);
	else if (!code && o.words[0])
		code = cg_fail(CG_BAD_ARGUMENT, "%s: info takes no words; --why BACKEND asks about one",
		               print_name(shown, o.words[0]));
	else if (!code)
		code = o.value[WHY] ? why(o.value[WHY], json) : show_all(json);
	options_close(&o);
	return code ? command_failed("info", code, 0) : EXIT_OK;
}
