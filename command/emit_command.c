/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cellgrad emit`: prints the source of a cell's kernel, and its manifest. The library generates the text; this file chooses the
 * kernel and where the text goes.
 */
#include <stdlib.h>
#include <string.h>

#include "command/command.h"
#include "command/file.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

enum { LIST = OPTION_FIRST, SOURCE, HEADER, OPTIONS, SHAPE, STAGE, PASS, DTYPE, LANG, MANIFEST, OUTPUT };

static const struct poptOption table[] = {
	OPTION_VALUE("pass", 'p', PASS, "forward (the default), grad, gradgrad; seq_forward or seq_grad, as a step of a sequence",
	             "PASS"),
	OPTION_VALUE("dtype", 'd', DTYPE, CG_DTYPES_HELP, "DTYPE"),
	OPTION_VALUE("lang", 'l', LANG, "c (the default), opencl or cuda", "LANG"),
	OPTION_VALUE("options", '\0', OPTIONS, "options of the cell to switch on, comma-separated", "NAMES"),
	OPTION_VALUE("shape", 's', SHAPE, "point (the default), each element, and sums; scan, all steps of a sequence", "SHAPE"),
	OPTION_VALUE("stage", '\0', STAGE, "print only this stage of the cell; 0: all (the default)", "N"),
	OPTION_FLAG("header", '\0', HEADER, "with --lang c: print the prototypes, for C and C++, not the source"),
	OPTION_VALUE("manifest", 'm', MANIFEST, "write what a caller must know, as JSON; -: print it, not the source",
	             "FILE"),
	OPTION_VALUE("output", 'o', OUTPUT, "write to FILE what would be printed", "FILE"),
	OPTION_FLAG("list", '\0', LIST, "list the built-in cells and those of the shelf"),
	OPTION_FLAG("source", '\0', SOURCE, "print the equations of the cell"),
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "CELL [OPTION]...";
static const char text[] =
	"CELL is a name of --list, or a file: a word that contains a / or ends in .cell.\n"
	"The source compiles alone; C source is C++ source, too.\n"
	"The arguments of each function are described above the function, in the header\n"
	"and in the manifest.  The manifest has the name, role, kind and type of each\n"
	"argument, in order, and says how to launch the function.\n"
	"With -o FILE, --manifest - prints the manifest, and FILE gets the source.\n"
	"--json prints one object with the source, for C its header, and the manifest;\n"
	"with --list, one object per cell.  The first line of the source has the command\n"
	"that printed the source, with the name of the cell, not with the path of a\n"
	"cell's file: the line is the same for a cell in any folder.\n"
	"\n"
	"Examples:\n"
	"  cellgrad emit lstm_block --options peephole --pass grad -o g.c -m g.json\n"
	"  cellgrad emit lstm_block --options peephole --pass grad --header -o g.h\n"
	"  cellgrad emit gru_block --pass grad --dtype f16 --lang cuda\n"
	"  cellgrad emit lstm --pass seq_grad --lang opencl\n"
	"  cellgrad emit lstm --shape scan --pass seq_forward -o scan.c\n"
	"  cellgrad emit lstm --source -o mine.cell\n"
	"  cellgrad emit ./mine.cell --pass gradgrad --lang opencl\n";

/* ---- the list ---- */

static int list_json(const struct cg_cell *cell)
{
	json_t *options = json_array();

	for (int k = 0; k < cell->n_options && options; k++)
		json_array_append_new(options, json_string(cell->options[k].name));
	return print_json(json_pack("{s:s, s:o, s:i}", "cell", cell->name, "options", options,
	                            "stages", cell->n_stages));
}

/* Lists the built-in cells, then those of the shelf. */
static int list(int json)
{
	struct print_table t = { .columns = "lll" };
	char names[CELL_OPTIONS];
	int n = 0;

	if (!json)
		print_row(&t, "cell", "stages", "options", NULL);
	while (cg_cell_name(n))
		n++;
	for (int k = 0; cg_cell_name(k) || cg_shelf_name(k - n); k++) {
		const struct cg_cell *cell = cg_cell_find(k < n ? cg_cell_name(k) : cg_shelf_name(k - n));

		if (json) {
			CG_TRY(list_json(cell));
			continue;
		}
		print_cell(&t, "%s", cell->name);
		print_cell(&t, "%d", cell->n_stages);
		print_cell(&t, "%s", cell->n_options ? cell_options(cell, ~0, ",", names) : "-");
	}
	return print_all_rows(&t, "");
}

/* ---- one kernel ---- */

struct emit {
	struct cg_kernel kernel;
	struct cg_cell *parsed;
	const char *lang;
	const char *printed;             /* the text for --output or standard output */
	char *source, *header, *manifest;
	struct file source_file, manifest_file;
};

/* Refuses options about a kernel beside --source, which prints no kernel. CG_BAD_ARGUMENT: the message names the first of these options. */
static int no_kernel(const struct options *o)
{
	static const struct { int number; const char *name; } options[] = {
		{ PASS, "pass" }, { DTYPE, "dtype" }, { LANG, "lang" }, { OPTIONS, "options" }, { SHAPE, "shape" },
		{ STAGE, "stage" },
		{ MANIFEST, "manifest" }, { HEADER, "header" },
	};

	for (size_t k = 0; k < sizeof options / sizeof *options; k++)
		if (o->value[options[k].number])
			return cg_fail(CG_BAD_ARGUMENT, "--source prints the cell's equations: give it without --%s", options[k].name);
	return CG_OK;
}

static int read_names(const struct emit *e)
{
	struct cg_mistake mistake;

	if (cg_parse_options(e->kernel.cell, e->kernel.options, &mistake) < 0)
		return cg_fail(CG_BAD_ARGUMENT, "--options: %s", mistake.text);
	return CG_OK;
}

static int read_stage(struct emit *e, const char *word)
{
	int n = e->kernel.cell->n_stages;
	char *end, shown[PRINT_NAME];
	long stage = strtol(word, &end, 10);

	e->kernel.stage = (int)stage;
	if (end > word && !*end && stage >= 0 && stage <= n)
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "--stage: cell %s has %d stage%s: expected 0 to %d, got \"%s\"", e->kernel.cell->name, n,
	               n == 1 ? "" : "s", n, print_name(shown, word));
}

/* Checks --shape scan, which prints a kernel over all steps of a sequence: the pass must be seq_forward or seq_grad, the language must be
 * C, and no stage may be given. */
static int check_scan(const struct emit *e, const struct options *o)
{
	if (e->kernel.shape != CG_SCAN)
		return CG_OK;
	if (e->kernel.pass != CG_SEQ_FORWARD && e->kernel.pass != CG_SEQ_GRAD)
		return cg_fail(CG_BAD_ARGUMENT, "--shape scan: expected --pass seq_forward or seq_grad, got %s", cg_pass_names[e->kernel.pass]);
	if (strcmp(e->lang, cg_lang_names[CG_LANG_C]))
		return cg_fail(CG_BAD_ARGUMENT, "--shape scan: expected --lang c, got %s, a language in which the host launches each step",
		               e->lang);
	if (o->value[STAGE])
		return cg_fail(CG_BAD_ARGUMENT, "--shape scan has all stages: give it without --stage");
	return CG_OK;
}

static int read_kernel(struct emit *e, const struct options *o)
{
	static const char *const shapes[] = { "point", "scan" };
	static const int shape_codes[] = { CG_POINT, CG_SCAN };
	const char *pass = o->value[PASS], *dtype = o->value[DTYPE], *lang = o->value[LANG], *shape = o->value[SHAPE];
	char shown[PRINT_NAME];
	int k;

	if (!o->operands[0])
		return cg_fail(CG_BAD_ARGUMENT,
		               "which cell?  --list shows the built-in cells and those of the shelf, --help has examples");
	if (o->operands[1])
		return cg_fail(CG_BAD_ARGUMENT, "expected one cell, got a second, %s", print_name(shown, o->operands[1]));
	CG_TRY(options_choose("--shape", shape ? shape : "point", shapes, 2, &k));
	e->kernel.shape = shape_codes[k];
	e->kernel.options = o->value[OPTIONS];
	CG_TRY(options_choose("--pass", pass ? pass : "forward", cg_pass_names, CG_PASS_COUNT, &e->kernel.pass));
	CG_TRY(options_choose("--dtype", dtype ? dtype : "f32", cg_real_names, CG_DTYPE_COUNT, &e->kernel.dtype));
	CG_TRY(options_choose("--lang", lang ? lang : "c", cg_lang_names, CG_LANG_COUNT, &k));
	e->lang = cg_lang_names[k];
	CG_TRY(check_scan(e, o));
	if (o->value[HEADER] && k != CG_LANG_C)
		return cg_fail(CG_BAD_ARGUMENT, "--header: expected --lang c, got %s, whose kernels are launched as the manifest says",
		               e->lang);
	CG_TRY(file_cell(o->operands[0], 1, &e->kernel.cell, &e->parsed));
	CG_TRY(read_names(e));
	return o->value[STAGE] ? read_stage(e, o->value[STAGE]) : CG_OK;
}

static int write_file(struct file *f, const char *content)
{
	CG_TRY(file_begin(f));
	return file_put(f, content, strlen(content));
}

/* Writes the source and the manifest. Both temporary files are complete before either gets its name. */
static int write_files(struct emit *e, int source, int manifest)
{
	int code = CG_OK;

	if (source)
		code = write_file(&e->source_file, e->printed);
	if (!code && manifest)
		code = write_file(&e->manifest_file, e->manifest);
	if (!code && source)
		code = file_end(&e->source_file);
	if (!code && manifest)
		code = file_end(&e->manifest_file);
	file_discard(&e->source_file);
	file_discard(&e->manifest_file);
	return code;
}

static int print_both(const struct emit *e)
{
	json_t *manifest = json_loads(e->manifest, JSON_REJECT_DUPLICATES, NULL);

	if (!manifest)
		return cg_fail(CG_NO_MEMORY, "no memory to print JSON");
	return print_json(json_pack("{s:s, s:s, s:s*, s:o}", "lang", e->lang, "source", e->source, "header", e->header,
	                            "manifest", manifest));
}

/* Checks, before a text is generated, that the files of --output and --manifest can be written. */
static int check_files(struct emit *e, const struct options *o, int show_manifest)
{
	const char *output = o->value[OUTPUT], *manifest = o->value[MANIFEST];

	if (o->value[OPTION_JSON] && (output || manifest || o->value[HEADER]))
		return cg_fail(CG_BAD_ARGUMENT, "--json prints the source, its header and the manifest: give it without --output, "
		               "--manifest and --header");
	if (output)
		CG_TRY(file_check(&e->source_file, output));
	if (manifest && !show_manifest)
		CG_TRY(file_check(&e->manifest_file, manifest));
	return CG_OK;
}

/* Generates those of the texts source, header and manifest that will be printed or written. */
static int make_texts(struct emit *e, int header, int manifest, int json)
{
	int code = CG_OK;

	if (json || !header)
		code = cg_kernel_emit(&e->kernel, e->lang, &e->source);
	if (!code && (header || (json && !strcmp(e->lang, cg_lang_names[CG_LANG_C]))))
		code = cg_kernel_header(&e->kernel, &e->header);
	if (!code && (manifest || json))
		code = cg_kernel_manifest(&e->kernel, e->lang, &e->manifest);
	e->printed = header ? e->header : e->source;
	return code ? command_reword(code, NULL) : CG_OK;
}

static int run_emit(struct emit *e, const struct options *o, int *working)
{
	const char *output = o->value[OUTPUT], *manifest = o->value[MANIFEST];
	int show_manifest = manifest && !strcmp(manifest, "-"), json = !!o->value[OPTION_JSON];

	CG_TRY(read_kernel(e, o));
	CG_TRY(check_files(e, o, show_manifest));
	CG_TRY(make_texts(e, !!o->value[HEADER], !!manifest, json));
	CG_TRY(command_warn_recurrence("emit", e->kernel.cell, e->kernel.options, "--options "));
	*working = 1;
	if (json)
		return print_both(e);
	CG_TRY(write_files(e, !!output, manifest && !show_manifest));
	if (show_manifest)
		print_text(e->manifest);
	else if (!output)
		print_text(e->printed);
	return CG_OK;
}

/* ---- the equations of a cell ---- */

static int source(struct emit *e, const struct options *o, int *working)
{
	const char *output = o->value[OUTPUT];

	CG_TRY(no_kernel(o));
	CG_TRY(read_kernel(e, o));
	if (o->value[OPTION_JSON] && output)
		return cg_fail(CG_BAD_ARGUMENT, "--source with --json prints the equations: give it without --output");
	if (output)
		CG_TRY(file_check(&e->source_file, output));
	e->printed = e->kernel.cell->text;
	*working = 1;
	if (o->value[OPTION_JSON])
		return print_json(json_pack("{s:s, s:s}", "cell", e->kernel.cell->name, "source", e->printed));
	if (output)
		return write_files(e, 1, 0);
	print_text(e->printed);
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
		code = (o.value[SOURCE] ? source : run_emit)(&e, &o, &working);
	cg_text_free(e.source);
	cg_text_free(e.header);
	cg_text_free(e.manifest);
	cg_cell_close(e.parsed);
	options_close(&o);
	return code ? command_fail("emit", code, working) : EXIT_OK;
}
