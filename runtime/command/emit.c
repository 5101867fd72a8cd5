/*
 * `cellgrad emit`: the source of a cell's kernel and its manifest.  The text is the generator's; here is only
 * which kernel, and where to.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/cell.h"
#include "runtime/command/command.h"
#include "runtime/command/file.h"
#include "runtime/command/print.h"
#include "runtime/op.h"

enum { LIST = OPTION_FIRST, OPTIONS, STAGE, PASS, DTYPE, LANG, MANIFEST, OUTPUT };

static const struct poptOption table[] = {
	OPTION_VALUE("pass", 'p', PASS, "forward (the default), grad, gradgrad; seq_forward or seq_grad, as a step of a sequence",
	             "PASS"),
	OPTION_VALUE("dtype", 'd', DTYPE, "f16, bf16, f32 (the default) or f64", "DTYPE"),
	OPTION_VALUE("lang", 'l', LANG, "c (the default), opencl or cuda", "LANG"),
	OPTION_VALUE("options", '\0', OPTIONS, "options of the cell to switch on, with commas", "NAMES"),
	OPTION_VALUE("stage", '\0', STAGE, "only this stage of the cell; 0: all (the default)", "N"),
	OPTION_VALUE("manifest", 'm', MANIFEST, "write what a caller must know, as JSON; -: print it, not the source",
	             "FILE"),
	OPTION_VALUE("output", 'o', OUTPUT, "write the source to FILE instead of printing it", "FILE"),
	OPTION_FLAG("list", '\0', LIST, "list the built-in cells"),
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "CELL [OPTION]...";
static const char text[] =
	"CELL is a built-in name, or a file: a word with a / in it, or one that ends in\n"
	".cell.  The source compiles alone.  The arguments of its functions stand above\n"
	"each, and in the manifest: name, role, kind and type in order, and how to\n"
	"launch.  With -o, --manifest - prints the manifest and FILE gets the source.\n"
	"--json prints one object that holds both; with --list, one object a cell.\n"
	"\n"
	"Examples:\n"
	"  cellgrad emit lstm_block --options peephole --pass grad -o g.c -m g.json\n"
	"  cellgrad emit gru_block --pass grad --dtype f16 --lang cuda\n"
	"  cellgrad emit lstm --pass seq_grad --lang opencl\n"
	"  cellgrad emit ./mine.cell --pass gradgrad --lang opencl\n";

/* ---- the list ---- */

static const char *options_of(const struct cg_cell *cell, char names[256])
{
	size_t n = 0;

	names[0] = '\0';
	for (int k = 0; k < cell->n_options && n < 256; k++)
		n += (size_t)snprintf(names + n, 256 - n, "%s%s", k ? "," : "", cell->options[k].name);
	return names;
}

static int list_json(const struct cg_cell *cell)
{
	json_t *options = json_array();

	for (int k = 0; k < cell->n_options && options; k++)
		json_array_append_new(options, json_string(cell->options[k].name));
	return print_json(json_pack("{s:s, s:o, s:i}", "cell", cell->name, "options", options,
	                            "stages", cell->n_stages));
}

static int list(int json)
{
	struct print_table t = { .columns = "lll" };
	const char *name;
	char names[256];

	if (!json)
		print_row(&t, "cell", "stages", "options", NULL);
	for (int k = 0; (name = cg_cell_name(k)); k++) {
		const struct cg_cell *cell = cg_cell_find(name);

		if (json) {
			CG_TRY(list_json(cell));
			continue;
		}
		print_cell(&t, "%s", name);
		print_cell(&t, "%d", cell->n_stages);
		print_cell(&t, "%s", cell->n_options ? options_of(cell, names) : "-");
	}
	return print_table(&t, "");
}

/* ---- one kernel ---- */

struct emit {
	struct cg_kernel kernel;
	struct cg_cell *parsed;
	const char *lang;
	char *source, *manifest;
	struct file source_file, manifest_file;
};

static int read_kernel(struct emit *e, const struct options *o)
{
	const char *pass = o->value[PASS], *dtype = o->value[DTYPE], *lang = o->value[LANG];
	const char *stage = o->value[STAGE];
	char *end = "", shown[PRINT_NAME];
	int k;

	if (!o->words[0])
		return cg_fail(CG_BAD_ARGUMENT,
		               "which cell?  --list shows the built-in ones, --help has examples");
	if (o->words[1])
		return cg_fail(CG_BAD_ARGUMENT, "%s: one cell at a time", print_name(shown, o->words[1]));
	e->kernel.shape = CG_POINT;
	e->kernel.options = o->value[OPTIONS];
	CG_TRY(options_choose("--pass", pass ? pass : "forward", cg_pass_names, CG_PASS_COUNT, &e->kernel.pass));
	CG_TRY(options_choose("--dtype", dtype ? dtype : "f32", cg_real_names, 4, &e->kernel.dtype));
	CG_TRY(options_choose("--lang", lang ? lang : "c", cg_lang_names, CG_LANG_COUNT, &k));
	e->lang = cg_lang_names[k];
	if (stage) {
		long n = strtol(stage, &end, 10);

		if (*end || end == stage || n < 0 || n > CG_STAGES_MAX)
			return cg_fail(CG_BAD_ARGUMENT, "--stage: expected 0 to %d, got \"%s\"", CG_STAGES_MAX,
			               print_name(shown, stage));
		e->kernel.stage = (int)n;
	}
	CG_TRY(file_cell(o->words[0], 1, &e->kernel.cell, &e->parsed));
	if (e->kernel.stage > e->kernel.cell->n_stages)
		return cg_fail(CG_BAD_ARGUMENT, "--stage: %s has %d", e->kernel.cell->name,
		               e->kernel.cell->n_stages);
	return CG_OK;
}

static int write_file(struct file *f, const char *content)
{
	CG_TRY(file_begin(f));
	return file_put(f, content, strlen(content));
}

/* Both files are filled before either gets its name. */
static int write_files(struct emit *e, int source, int manifest)
{
	int code = CG_OK;

	if (source)
		code = write_file(&e->source_file, e->source);
	if (!code && manifest)
		code = write_file(&e->manifest_file, e->manifest);
	if (!code && source)
		code = file_end(&e->source_file);
	if (!code && manifest)
		code = file_end(&e->manifest_file);
	file_drop(&e->source_file);
	file_drop(&e->manifest_file);
	return code;
}

static int print_both(const struct emit *e)
{
	json_t *manifest = json_loads(e->manifest, JSON_REJECT_DUPLICATES, NULL);

	if (!manifest)
		return cg_fail(CG_NO_MEMORY, "no memory to print JSON");
	return print_json(json_pack("{s:s, s:s, s:o}", "lang", e->lang, "source", e->source,
	                            "manifest", manifest));
}

static int emit(struct emit *e, const struct options *o, int *working)
{
	const char *output = o->value[OUTPUT], *manifest = o->value[MANIFEST];
	int show_manifest = manifest && !strcmp(manifest, "-"), json = !!o->value[OPTION_JSON];

	CG_TRY(read_kernel(e, o));
	if (json && (output || manifest))
		return cg_fail(CG_BAD_ARGUMENT,
		               "--json prints the source and the manifest: give it without --output and "
		               "--manifest");
	if (output)
		CG_TRY(file_check(&e->source_file, output));
	if (manifest && !show_manifest)
		CG_TRY(file_check(&e->manifest_file, manifest));
	CG_TRY(cg_kernel_emit(&e->kernel, e->lang, &e->source));
	if (manifest || json)
		CG_TRY(cg_kernel_manifest(&e->kernel, e->lang, &e->manifest));
	*working = 1;
	if (json)
		return print_both(e);
	CG_TRY(write_files(e, !!output, manifest && !show_manifest));
	if (show_manifest)
		fputs(e->manifest, stdout);
	else if (!output)
		fputs(e->source, stdout);
	return CG_OK;
}

int command_emit(int argc, const char **argv)
{
	struct emit e = { .source_file = { .fd = -1 }, .manifest_file = { .fd = -1 } };
	struct options o;
	int code = options_open(&o, "emit", argc, argv, table), working = 0;

	if (!code && o.value[OPTION_HELP])
		options_help(&o, usage, text);
	else if (!code && o.value[LIST])
		code = list(!!o.value[OPTION_JSON]);
	else if (!code)
		code = emit(&e, &o, &working);
	cg_text_free(e.source);
	cg_text_free(e.manifest);
	cg_cell_close(e.parsed);
	options_close(&o);
	return code ? command_failed("emit", code, working) : EXIT_OK;
}
