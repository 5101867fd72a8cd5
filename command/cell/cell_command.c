/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cellgrad cell`: prints what a cell is and what its passes do, compares its gradient with differences of its equations, warns of what is
 * odd, and draws its equations.
 */
#include <math.h>
#include <string.h>

#include "command/cell/cell_picture.h"
#include "command/cell/oddities.h"
#include "command/cell/pass_facts.h"
#include "command/command.h"
#include "command/file.h"
#include "command/output.h"
#include "verify/cell_gradient.h"

enum { OPTIONS = OPTION_FIRST, DTYPE, SEED, SVG };

static const struct poptOption table[] = {
	OPTION_VALUE("options", '\0', OPTIONS, "options of the cell to switch on, comma-separated", "NAMES"),
	OPTION_VALUE("dtype", 'd', DTYPE, CG_DTYPES_HELP, "DTYPE"),
	OPTION_VALUE("seed", '\0', SEED, "compare the gradient at the random points of this seed", "N"),
	OPTION_VALUE("svg", '\0', SVG, "write a picture of the equations to FILE", "FILE"),
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "CELL [OPTION]...";
static const char text[] =
	"CELL is the name of a built-in cell or of a cell of the shelf, or the path of a\n"
	"file: a word that contains a / or ends in .cell.\n"
	"\n"
	"Prints the cell's gates, states, weights, scalars, params and saved values; for\n"
	"each pass what a kernel loads, stores and computes again, which gradients are\n"
	"sums over rows and what these sums load, the bytes of an element's tensors in\n"
	"the dtype, and an element's operations, and how many of these are functions such\n"
	"as exp; and how far the derived gradient is from finite differences of the\n"
	"equations, at up to twelve random points.  Warns of what is legal but odd: a\n"
	"saved value that no gradient loads, a weight that the cell has only with an\n"
	"option that is off, a split gate whose name is nearly that of the recurrent part\n"
	"of a gate, an exp that may be too large for f16.\n"
	"\n"
	"Examples:\n"
	"  cellgrad cell lstm --options peephole\n"
	"  cellgrad cell ./mine.cell --svg mine.svg\n"
	"  cellgrad cell slstm --dtype f16 --json\n"
	"\n"
	"Exit status: 0 the gradient agrees with differences, or no point could be\n"
	"compared; 1 it differs, or the command failed while working; 2 the call was\n"
	"rejected before any work.\n";

struct work {
	const struct cg_cell *cell;
	struct cg_cell *parsed;
	int options, dtype, json;
	int64_t seed;
	struct file svg;
};

/* ---- what the cell is ---- */

static const char *parts_of(const struct cg_gate *gate)
{
	int x = gate->parts >> CG_PART_W & 1, h = gate->parts >> CG_PART_R & 1, bias = (gate->parts & CG_GATE_BIASES) != 0;
	static const char *const texts[] = { "", "", "x W", "x W + bias", "h R", "h R + bias", "x W + h R", "x W + h R + biases" };

	return texts[(h << 2 | x << 1) + bias];
}

/* A row of the output while it is printed: its label, and the number of words so far; a row without words is not printed. */
struct row { const char *label; int n; };

static void begin_word(struct row *r)
{
	if (r->n++)
		printf(", ");
	else
		printf("  %-11s ", r->label);
}

static void end_row(const struct row *r)
{
	if (r->n)
		putchar('\n');
}

static void print_gates(const struct cg_cell *cell)
{
	for (int k = 0; k < cell->n_gates; k++) {
		const struct cg_gate *gate = &cell->gates[k];

		printf("  %-11s %s: %s", k ? "" : "gates", gate->name, parts_of(gate));
		if (cell->n_stages > 1)
			printf(", stage %d", gate->stage);
		if (gate->stage > 1 && gate->parts & 1 << CG_PART_R)
			printf(", where h stands for %s", cell->values[cell->feeds[gate->stage - 2]].name);
		putchar('\n');
	}
}

static void print_parts(const struct work *w)
{
	const struct cg_cell *cell = w->cell;
	struct row states = { "states", 0 }, weights = { "weights", 0 }, scalars = { "scalars", 0 }, params = { "params", 0 },
	           saves = { "saves", 0 };

	printf("cell %s\n", cell->name);
	print_gates(cell);
	for (int k = 0; k < cell->n_prevs; k++)
		if (!cell->prevs[k].output) {
			begin_word(&states);
			printf("%s", cell->values[cell->prevs[k].value].name);
		}
	end_row(&states);
	for (int k = 0; k < cell->n_prevs; k++)
		if (cell->prevs[k].output)
			printf("  %-11s %s\n", "output", cell->values[cell->prevs[k].value].name);
	for (int k = 0; k < cell->n_weights; k++) {
		int option = cell->weights[k].option;

		begin_word(&weights);
		printf("%s", cell->weights[k].name);
		if (option >= 0)
			printf(" (option %s, %s)", cell->options[option].name, w->options >> option & 1 ? "on" : "off");
	}
	end_row(&weights);
	for (int k = 0; k < cell->n_scalars; k++) {
		begin_word(&scalars);
		printf("%s = %.9g", cell->scalars[k].name, cell->scalars[k].start);
	}
	end_row(&scalars);
	for (int k = 0; k < cell->n_params; k++) {
		begin_word(&params);
		printf("%s", cell->params[k].name);
		if (cell->params[k].given)
			printf(" = %.9g", cell->params[k].value);
	}
	end_row(&params);
	for (int k = 0; k < cell->n_saves; k++) {
		begin_word(&saves);
		printf("%s", cell->values[cell->saves[k]].name);
	}
	end_row(&saves);
}

static json_t *gate_json(const struct cg_gate *gate)
{
	static const char *const names[] = { "input", "recurrent", "bias_w", "bias_r" };
	json_t *parts = json_array();

	for (int k = 0; k < CG_GATE_PARTS; k++)
		if (gate->parts >> k & 1)
			json_array_append_new(parts, json_string(names[k]));
	return json_pack("{s:s, s:i, s:o}", "name", gate->name, "stage", gate->stage, "parts", parts);
}

static int parts_json(const struct work *w)
{
	const struct cg_cell *cell = w->cell;
	json_t *gates = json_array(), *states = json_array(), *weights = json_array(), *scalars = json_object(), *params = json_object(),
	       *saves = json_array();
	const char *output = "";

	for (int k = 0; k < cell->n_gates; k++)
		json_array_append_new(gates, gate_json(&cell->gates[k]));
	for (int k = 0; k < cell->n_prevs; k++) {
		const char *name = cell->values[cell->prevs[k].value].name;

		if (cell->prevs[k].output)
			output = name;
		else
			json_array_append_new(states, json_string(name));
	}
	for (int k = 0; k < cell->n_weights; k++)
		json_array_append_new(weights, json_pack("{s:s, s:s?}", "name", cell->weights[k].name, "option",
		                      cell->weights[k].option < 0 ? NULL : cell->options[cell->weights[k].option].name));
	for (int k = 0; k < cell->n_scalars; k++)
		json_object_set_new(scalars, cell->scalars[k].name, print_number(cell->scalars[k].start));
	for (int k = 0; k < cell->n_params; k++)
		json_object_set_new(params, cell->params[k].name, cell->params[k].given ? print_number(cell->params[k].value) : json_null());
	for (int k = 0; k < cell->n_saves; k++)
		json_array_append_new(saves, json_string(cell->values[cell->saves[k]].name));
	return print_json(json_pack("{s:s, s:i, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "cell", cell->name, "stages", cell->n_stages,
	                            "gates", gates, "states", states, "output", output, "weights", weights, "scalars", scalars,
	                            "params", params, "saves", saves));
}

/* ---- what the passes do ---- */

static void print_names(const char *label, const struct fact_names *names)
{
	struct row row = { label, 0 };

	for (int k = 0; k < names->n; k++) {
		begin_word(&row);
		printf("%s", names->name[k]);
	}
	end_row(&row);
}

static json_t *names_json(const struct fact_names *names)
{
	json_t *list = json_array();

	for (int k = 0; k < names->n; k++)
		json_array_append_new(list, json_string(names->name[k]));
	return list;
}

/* Prints why the cell does not have a pass, for example because the gradient of the cell's gradient has too many operations. */
static int print_no_pass(const struct work *w, int pass)
{
	if (w->json)
		return print_json(json_pack("{s:s, s:s, s:o}", "pass", cg_pass_names[pass], "dtype", cg_real_names[w->dtype], "why",
		                            print_string(cg_message())));
	printf("\n%s in %s: none: ", cg_pass_names[pass], cg_real_names[w->dtype]);
	print_plain(stdout, cg_message());
	putchar('\n');
	return CG_OK;
}

static int print_pass(const struct work *w, int pass)
{
	struct pass_facts f;
	int code = pass_facts_open(&f, w->cell, w->options, pass, w->dtype);

	if (code == CG_BAD_ARGUMENT)
		return print_no_pass(w, pass);
	if (code)
		return code;
	if (w->json)
		code = print_json(json_pack("{s:s, s:s, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "pass", cg_pass_names[pass], "dtype",
		                            cg_real_names[w->dtype], "bytes", f.bytes, "operations", f.operations, "functions", f.functions,
		                            "loads", names_json(&f.loads), "stores", names_json(&f.stores), "recomputes",
		                            names_json(&f.recomputes), "sums", names_json(&f.sums), "sum_loads", names_json(&f.sum_loads)));
	else {
		printf("\n%s in %s: %d bytes and %d operations for each element, %d of them functions\n", cg_pass_names[pass],
		       cg_real_names[w->dtype], f.bytes, f.operations, f.functions);
		print_names("loads", &f.loads);
		print_names("stores", &f.stores);
		print_names("recomputes", &f.recomputes);
		print_names("sums", &f.sums);
		print_names("sums load", &f.sum_loads);
	}
	pass_facts_close(&f);
	return code;
}

/* ---- the gradient ---- */

static int agrees(const struct cell_gradient *g)
{
	return !g->points || g->worst <= CELL_GRADIENT_TOLERANCE;
}

static int print_gradient(const struct work *w, const struct cell_gradient *g)
{
	if (w->json)
		return print_json(json_pack("{s:{s:i, s:o, s:s, s:o}}", "gradient", "points", g->points, "worst", print_number(g->worst), "of",
		                            g->of, "agrees", g->points ? json_boolean(agrees(g)) : json_null()));
	if (!g->points)
		printf("\nno point was found at which all values are numbers and no clip cuts: the gradient was not compared\n");
	else
		printf("\nthe gradient at %d points: at most %.2g from differences, in d%s\n", g->points, g->worst, g->of);
	return CG_OK;
}

/* ---- the call ---- */

static void warn(void *user, const char *sentence)
{
	(void)user;
	command_warn("cell", "%s", sentence);
}

static int read_arguments(struct work *w, const struct options *o)
{
	const char *dtype = o->value[DTYPE];
	struct cg_mistake mistake;
	char shown[PRINT_NAME];

	if (!o->operands[0] && o->value[SVG])
		return cg_fail(CG_BAD_ARGUMENT, "which cell?  --svg takes the word after it, %s, as the name of its file",
		               print_name(shown, o->value[SVG]));
	if (!o->operands[0])
		return cg_fail(CG_BAD_ARGUMENT, "which cell?  cellgrad emit --list shows the built-in cells and those of the shelf, --help "
		               "has examples");
	if (o->operands[1])
		return cg_fail(CG_BAD_ARGUMENT, "expected one cell, got a second, %s", print_name(shown, o->operands[1]));
	CG_TRY(options_choose("--dtype", dtype ? dtype : "f32", cg_real_names, CG_DTYPE_COUNT, &w->dtype));
	w->seed = 1;
	if (o->value[SEED])
		CG_TRY(options_whole("seed", o->value[SEED], 0, INT64_MAX, &w->seed));
	CG_TRY(file_cell(o->operands[0], 1, &w->cell, &w->parsed));
	w->options = cg_parse_options(w->cell, o->value[OPTIONS], &mistake);
	if (w->options < 0)
		return cg_fail(CG_BAD_ARGUMENT, "--options: %s", mistake.text);
	return o->value[SVG] ? file_check_picture(&w->svg, o->value[SVG]) : CG_OK;
}

static int draw(struct work *w)
{
	CG_TRY(file_begin(&w->svg));
	CG_TRY(cell_picture_draw(w->cell, &w->svg));
	return file_end(&w->svg);
}

static int run(struct work *w, const struct options *o, int *working)
{
	struct cell_gradient gradient;

	CG_TRY(read_arguments(w, o));
	*working = 1;
	if (w->json)
		CG_TRY(parts_json(w));
	else
		print_parts(w);
	for (int pass = 0; pass < CG_PASS_COUNT; pass++)
		CG_TRY(print_pass(w, pass));
	CG_TRY(cell_gradient_check(w->cell, w->options, (unsigned long long)w->seed, &gradient));
	CG_TRY(print_gradient(w, &gradient));
	CG_TRY(oddities_find(w->cell, w->options, warn, NULL));
	if (o->value[SVG])
		CG_TRY(draw(w));
	return agrees(&gradient) ? CG_OK
	     : cg_fail(CG_BAD_ARGUMENT, "the derived gradient d%s is %.9g, but differences of the equations give %.9g; --seed %lld repeats the "
	               "comparison", gradient.of, gradient.got, gradient.want, (long long)w->seed);
}

int command_cell(int argc, const char **argv)
{
	struct work w = { .svg = { .fd = -1 } };
	struct options o;
	int code = options_open(&o, "cell", argc, argv, table), working = 0;

	w.json = !code && o.value[OPTION_JSON];
	if (!code && o.value[OPTION_HELP])
		options_help(&o, usage, text);
	else if (!code)
		code = run(&w, &o, &working);
	file_discard(&w.svg);
	cg_cell_close(w.parsed);
	options_close(&o);
	return code ? command_fail("cell", code, working) : EXIT_OK;
}
