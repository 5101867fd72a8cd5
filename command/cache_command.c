/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cellgrad cache`: prints the folder of compiled kernels, lists the kernels, or removes the kernels. The code in runtime/cache/ checks the
 * folder and its files.
 */
#include <string.h>

#include "runtime/device/inspect.h"
#include "command/command.h"
#include "command/output.h"

static const struct poptOption table[] = {
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "path|list|clear [OPTION]...";
static const char text[] =
	"path prints the folder in which backends that compile slowly keep compiled\n"
	"kernels.  If no folder is used for kernels, path prints the reason and the exit\n"
	"status is 2.\n"
	"list prints the kernels: what identifies each, its size in bytes, and how long\n"
	"ago it was used.  A damaged kernel is not used; it is compiled again when needed.\n"
	"clear removes all kernels, also unfinished ones, and no other file in the folder.\n"
	"\n"
	"The folder is CELLGRAD_CACHE_DIR, else $XDG_CACHE_HOME/cellgrad, else\n"
	"~/.cache/cellgrad.\n"
	"The folder must belong to you, and no other user may write to the folder.\n"
	"With CELLGRAD_CACHE=ro no kernel is written; with CELLGRAD_CACHE=off no kernel\n"
	"is written or read; clear and list ignore CELLGRAD_CACHE.\n"
	"CELLGRAD_CACHE_MAXSIZE is the maximum size in bytes of all files, by default\n"
	"268435456: if a new file would exceed this size, the least recently used files\n"
	"are removed first.\n"
	"\n"
	"Examples:\n"
	"  cellgrad cache list\n"
	"  cellgrad cache list --json | jq -s 'map(.bytes) | add'\n"
	"  CELLGRAD_CACHE_DIR=/var/cache/mine cellgrad cache path\n"
	"  cellgrad cache clear\n";

/* Adds a path to a JSON object and prints the object. The JSON library accepts only UTF-8, but a path may contain any bytes. */
static int print_paths(json_t *path, json_t *object)
{
	if ((!path || !object) && !print_json_lost()) {
		json_decref(path);
		json_decref(object);
		return cg_fail(CG_FILE, "the folder's path is not UTF-8, so JSON cannot contain the path");
	}
	json_object_set_new(object, "path", path);
	return print_json(object);
}

static int show_path(int json)
{
	struct cg_cache_directory directory;

	cg_cache_find_directory(&directory);
	if (json)
		return print_paths(json_string(directory.path), json_pack("{s:b, s:b, s:s, s:I}", "reads", directory.reads,
		                   "writes", directory.writes, "why", directory.why, "most", (json_int_t)directory.most));
	if (directory.why[0])
		return cg_fail(CG_UNSUPPORTED, "nothing is kept: %s", directory.why);
	print_plain(stdout, directory.path);
	putchar('\n');
	return CG_OK;
}

/* ---- list ---- */

struct cache_listing {
	struct print_table table;
	int json, files;
	uint64_t bytes;
};

/* Prints how long ago a kernel was last used, as "3 min ago". */
static void print_age(struct print_table *t, int64_t age)
{
	static const struct { int seconds; const char *name; } units[] = {
		{ 86400, "days" }, { 3600, "h" }, { 60, "min" }, { 1, "s" }
	};
	int k = 0;

	if (age < 0)
		age = 0;
	while (k < 3 && age < 2 * units[k].seconds)
		k++;
	print_cell(t, "%lld %s ago", (long long)(age / units[k].seconds), units[k].name);
}

static int list_one(const struct cg_cache_entry *e, void *user)
{
	struct cache_listing *list = user;

	if (!list->files++ && !list->json)
		print_row(&list->table, "kernel", "bytes", "last used", NULL);
	list->bytes += e->bytes;
	if (list->json)
		return print_json(json_pack("{s:s, s:b, s:s, s:I, s:I}", "file", e->file, "whole", !!e->about, "kernel",
		                            e->about ? e->about : "", "bytes", (json_int_t)e->bytes, "age", (json_int_t)e->age));
	print_cell(&list->table, "%s", e->about ? e->about : "damaged");
	print_cell(&list->table, "%llu", (unsigned long long)e->bytes);
	print_age(&list->table, e->age);
	return CG_OK;
}

static int show_list(int json)
{
	struct cache_listing list = { .table = { .columns = "lrr" }, .json = json };
	struct cg_cache_directory directory;
	int code = cg_cache_list(list_one, &list), shown = print_all_rows(&list.table, "");

	if (code || shown || json)
		return code ? code : shown;
	cg_cache_find_directory(&directory);
	printf("%d kernel%s, %llu of %llu bytes, in ", list.files, list.files == 1 ? "" : "s", (unsigned long long)list.bytes,
	       (unsigned long long)directory.most);
	print_plain(stdout, directory.path);
	putchar('\n');
	return CG_OK;
}

/* ---- clear ---- */

static int clear(int json)
{
	struct cg_cache_directory directory;
	uint64_t bytes;
	size_t files;

	CG_TRY(cg_cache_clear(&files, &bytes));
	cg_cache_find_directory(&directory);
	if (json)
		return print_paths(json_string(directory.path), json_pack("{s:I, s:I}", "removed", (json_int_t)files, "bytes",
		                   (json_int_t)bytes));
	printf("removed %zu file%s, %llu bytes, from ", files, files == 1 ? "" : "s", (unsigned long long)bytes);
	print_plain(stdout, directory.path);
	putchar('\n');
	return CG_OK;
}

int command_cache(int argc, const char **argv)
{
	static const char *const names[] = { "path", "list", "clear" };
	static int (*const acts[])(int json) = { show_path, show_list, clear };
	struct options o;
	int code = options_open(&o, "cache", argc, argv, table), act;
	char shown[PRINT_NAME];

	if (!code && o.value[OPTION_HELP]) {
		options_help(&o, usage, text);
	} else if (!code && !o.operands[0]) {
		code = cg_fail(CG_BAD_ARGUMENT, "path, list or clear?  --help has examples");
	} else if (!code && o.operands[1]) {
		code = cg_fail(CG_BAD_ARGUMENT, "expected one word, path, list or clear, got a second, %s", print_name(shown, o.operands[1]));
	} else if (!code) {
		code = options_choose("path, list or clear", o.operands[0], names, 3, &act);
		if (!code)
			code = acts[act](!!o.value[OPTION_JSON]);
	}
	options_close(&o);
	return code ? command_fail("cache", code, code == CG_FILE) : EXIT_OK;
}
