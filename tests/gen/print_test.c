/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds for the texts of the built-in cells, those of the shelf and those of tests/gen, for every set of options, pass, dtype and
 * dialect: the first line has the text's command; no function computes an expression twice or without use; each statement stands below the
 * equation that it comes from; lines other than the first and loads have at most 120 columns; and the manifest is JSON that lists the
 * text's parameters. Other tests run the texts.
 */
#include <ctype.h>
#include <jansson.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "tests/gen/every.h"

enum { COLUMNS = 120, TAB = 4, NAMES_MAX = 600, NAME = 64, PARAMETERS_MAX = 600 };

static const char *const functions[] = { "", "__kernel ", "extern \"C\" __global__ " };

/* Calls `check` for the text of every cell, built in, of the shelf or of tests/gen, every set of options, pass, dtype and dialect. */
static void every(void (*check)(const struct cg_pass_plan *, int lang, const char *text))
{
	struct cg_cell *cell;

	for (int c = 0; (cell = every_cell(c)); c++) {
		for (int options = 0; options < 1 << cell->n_options; options++)
			for (int pass = 0; pass < CG_PASS_COUNT; pass++)
				for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++) {
					struct cg_pass_plan *plan = must_plan(cell, options, pass, 0, dtype);

					for (int lang = 0; lang < CG_LANG_COUNT; lang++) {
						struct cg_text text = { resize, NULL, 0, 0, 0 };

						assert_int_equal(cg_print(plan, lang, &text), 0);
						check(plan, lang, text.at);
						resize(text.at, 0);
					}
					cg_plan_free(plan);
				}
		cg_parse_free(cell);
	}
}

static const char *line_of(const char *at)
{
	static char line[400];

	snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
	return line;
}

/* ---- lines ---- */

/* The first line of a text is a comment: the key of the text, and the command that prints the text. */
static void check_first_line(const struct cg_pass_plan *plan, int lang, const char *text)
{
	char want[400], options[200] = "";
	const char *name = plan->cell->name;
	/* cells of the tests' own, from files */
	static const char *const files[] = { "coupled", "stages", "forms", "roots", "learnt", "apart", "means" };
	int file = 0;

	for (size_t k = 0; k < sizeof files / sizeof *files; k++)
		file |= !strcmp(name, files[k]);
	for (int k = 0; k < plan->cell->n_options; k++)
		if (plan->options >> k & 1)
			sprintf(options + strlen(options), "%s%s", *options ? "," : " --options ", plan->cell->options[k].name);
	snprintf(want, sizeof want, "/* %s: cellgrad emit %s%s%s%s --pass %s --dtype %s --lang %s */", plan->key, file ? "./" : "", name,
	         file ? ".cell" : "", options, cg_pass_names[plan->pass], cg_real_names[plan->dtype], cg_lang_names[lang]);
	assert_string_equal(line_of(text), want);
}

static void check_lines(const struct cg_pass_plan *plan, int lang, const char *text)
{
	int braces = 0, brackets = 0, comment = 0, column = 0, blank = 0;
	const char *line = text;

	for (const char *s = text; *s; s++) {
		comment = !strncmp(s, "/*", 2) ? 1 : !strncmp(s, "*/", 2) ? 0 : comment;
		braces += comment ? 0 : (*s == '{') - (*s == '}');
		brackets += comment ? 0 : (*s == '(') - (*s == ')');
		assert_true(braces >= 0 && brackets >= 0);
		if (*s == '@')
			fail_msg("%s in %s: a hole is left: %s", plan->key, cg_lang_names[lang], line_of(s));
		if (*s == '\n' && s > text && (s[-1] == ' ' || s[-1] == '\t'))
			fail_msg("%s in %s: blanks end the line before %s", plan->key, cg_lang_names[lang], line_of(s + 1));
		/* Lines of loads may be longer, since a load names its argument up to five times, and a name may have 24 letters; the first
		   line, which is one command, may be longer, too. */
		if (*s == '\n' && column > COLUMNS && line > text && !strstr(line_of(line), "_at ? ") &&
		    !strstr(line_of(line), "_at) ? ") && !strstr(line_of(line), "load_run<"))
			fail_msg("%s in %s: more than %d columns: %s", plan->key, cg_lang_names[lang], COLUMNS, line_of(line));
		line = *s == '\n' ? s + 1 : line;
		column = *s == '\n' ? 0 : *s == '\t' ? (column + TAB) / TAB * TAB : column + 1;
		blank = *s == '\n' ? blank + 1 : 0;
		if (blank > 2)
			fail_msg("%s in %s: two blank lines before %s", plan->key, cg_lang_names[lang], line_of(s + 1));
	}
	assert_int_equal(braces, 0);
	assert_int_equal(brackets, 0);
	assert_int_equal(text[strlen(text) - 1], '\n');
	assert_int_not_equal(text[strlen(text) - 2], '\n');
}

/* ---- statements ---- */

static int is_letter(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Is a name used between two places? */
static int used(const char *at, const char *end, const char *name)
{
	size_t n = strlen(name);

	for (; (at = strstr(at, name)) && at < end; at++)
		if (!is_letter(at[-1]) && !is_letter(at[n]))
			return 1;
	return 0;
}

/* Returns the end of the function that the place `at` of a text is in: a brace that begins a line. */
static const char *function_end(const char *at)
{
	const char *end = strstr(at, "\n}");

	return end ? end : at + strlen(at);
}

static const char *body_of(const char *text)
{
	const char *body = strstr(text, "cg_");

	for (body = strstr(body + 1, "\n}"); body && !strstr(line_of(body + 1), "cg_"); body = strchr(body + 1, '\n'))
		;
	return body ? body + 1 : text;
}

/* Expects that a function declares each name once, uses it, and computes no expression twice. */
static void check_statements(const struct cg_pass_plan *plan, int lang, const char *text)
{
	static char name[NAMES_MAX][NAME];
	static const char *right[NAMES_MAX];
	static size_t length[NAMES_MAX];
	const char *end = NULL;
	int n = 0, seen = 0;

	for (const char *at = body_of(text); (at = strstr(at, "\tconst acc ")); ) {
		const char *equals;

		if (!end || at > end) {
			n = 0;
			end = function_end(at);
		}
		at += strlen("\tconst acc ");
		equals = strstr(at, " = ");
		if (*at == '*' || !equals || equals > strchr(at, '\n'))
			continue;
		assert_true(n < NAMES_MAX && equals - at < NAME);
		snprintf(name[n], NAME, "%.*s", (int)(equals - at), at);
		right[n] = equals + 3;
		length[n] = strcspn(right[n], "\n");
		for (int k = 0; k < n; k++) {
			if (!strcmp(name[k], name[n]))
				fail_msg("%s in %s: '%s' is declared twice", plan->key, cg_lang_names[lang], name[n]);
			if (length[k] == length[n] && !memcmp(right[k], right[n], length[n]))
				fail_msg("%s in %s: '%s' and '%s' are the same", plan->key, cg_lang_names[lang], name[k], name[n]);
		}
		if (!used(right[n] + length[n], end, name[n]))
			fail_msg("%s in %s: '%s' is not used", plan->key, cg_lang_names[lang], name[n]);
		n++;
		seen++;
	}
	assert_true(seen > 0);
}

/* Expects that a value without a name, which the text writes as an expression at each use, is used once; a negation may be used often. */
static void check_unnamed(const struct cg_pass_plan *plan, const struct cg_function *function, const char *const *name)
{
	const struct cg_node *nodes = plan->graph.nodes;

	for (int j = 0; j < function->n_schedule; j++) {
		int id = function->schedule[j], uses = 0;

		for (int k = 0; k < function->n_schedule; k++) {
			const struct cg_node *node = &nodes[function->schedule[k]];

			uses += (cg_operators[node->code].arity > 0 && node->a == id) + (cg_operators[node->code].arity > 1 && node->b == id);
		}
		if (!name[id] && nodes[id].code != CG_OP_NEG && uses > 1)
			fail_msg("%s writes node %d out %d times", function->key, id, uses);
	}
}

/* The plan says which equation each statement comes from; in the text that equation is the last comment above it. */
static void check_quotes(const struct cg_pass_plan *plan, int lang, const char *text)
{
	for (int k = 0; k < plan->n_functions; k++) {
		struct cg_arena arena = { resize, NULL, 0 };
		const struct cg_function *function = &plan->functions[k];
		const char *start, *end, **name;
		char head[256];

		snprintf(head, sizeof head, lang == CG_LANG_C ? "static APART void %s_run(" :
		         function->shape == CG_FUNCTION_MEAN ? "%s(" : lang == CG_LANG_OPENCL ? "void %s_element(" :
		         function->shape == CG_FUNCTION_POINT ? "void %s_walk(" : "%s(",
		         function->key);
		start = strstr(text, head);
		if (cg_is_sum(function))
			continue;
		assert_non_null(start);
		end = function_end(start);
		assert_int_equal(cg_name_nodes(plan, function, &arena, &name), 0);
		check_unnamed(plan, function, name);
		for (int j = 0; j < function->n_schedule; j++) {
			const struct cg_node *node = &plan->graph.nodes[function->schedule[j]];
			const char *at, *comment = NULL;

			if (!name[function->schedule[j]])
				continue;
			snprintf(head, sizeof head, "\tconst acc %s = ", name[function->schedule[j]]);
			at = strstr(start, head);
			if (!at || at > end)
				fail_msg("%s in %s: nothing gives '%s'", function->key, cg_lang_names[lang], name[function->schedule[j]]);
			if (node->origin < 0)
				continue;
			for (const char *s = start; (s = strstr(s, "/* ")) && s < at; s++)
				comment = s;
			snprintf(head, sizeof head, "/* %s */", plan->cell->values[node->origin].line);
			if (!comment || strcmp(line_of(comment), head))
				fail_msg("%s in %s: '%s' stands below %s", function->key, cg_lang_names[lang], name[function->schedule[j]],
				         comment ? line_of(comment) : "nothing");
		}
		cg_arena_free(&arena);
	}
	if (plan->pass == CG_PASS_FORWARD || plan->pass == CG_PASS_SEQ_FORWARD)
		for (int k = 0; k < plan->cell->n_values; k++) {
			const struct cg_node *node = &plan->graph.nodes[plan->graph.value[k]];

			if (node->code != CG_OP_LEAF && node->origin == k && !strstr(text, plan->cell->values[k].line))
				fail_msg("%s in %s: %s is not quoted", plan->key, cg_lang_names[lang], plan->cell->values[k].line);
		}
}

/* ---- manifests ---- */

/* Copies the names of the parameters from a function's prototype, in the form in which the manifest has them; returns their
   number. */
static int prototype(const char *text, int lang, const char *function, char name[PARAMETERS_MAX][NAME])
{
	char head[256];
	const char *at, *end;
	int n = 0;

	snprintf(head, sizeof head, "\n%svoid %s(", functions[lang], function);
	at = strstr(text, head);
	/* If a text gives the size of a group of threads, the size stands before the function's name, in a line of its own. */
	if (!at) {
		snprintf(head, sizeof head, "\nvoid %s(", function);
		at = strstr(text, head);
	}
	if (!at)
		fail_msg("there is no function %s", function);
	at += strlen(head);
	end = strchr(at, ')');
	while (at < end) {
		const char *comma = at + strcspn(at, ",)"), *first = comma;

		while (is_letter(first[-1]))
			first--;
		assert_true(n < PARAMETERS_MAX && comma - first < NAME);
		snprintf(name[n], NAME, "%.*s", (int)(comma - first), first);
		if (lang != CG_LANG_C && comma - first > 3 && !memcmp(comma - 3, "_at", 3))
			name[n][comma - first - 3] = 0;
		n++;
		at = comma + 1;
	}
	return n;
}

static const char *string_at(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	if (!s)
		fail_msg("a manifest has no '%s'", key);
	return s;
}

/* Checks a kernel's second form: the text has the function that the manifest names, with the parameters of the first form, and each run
   of units that a thread computes has one unit. */
static void check_one(const struct cg_function *function, int lang, const char *text, const json_t *one)
{
	static char name[2][PARAMETERS_MAX][NAME];
	char want[CG_KEY_MAX + 16];
	const char *at;
	int n = prototype(text, lang, function->key, name[0]);

	snprintf(want, sizeof want, "%s_one", function->key);
	assert_string_equal(string_at(one, "function"), want);
	assert_string_equal(string_at(one, "when"), "rows * runs < 256 * multiprocessors");
	assert_int_equal(prototype(text, lang, want, name[1]), n);
	for (int k = 0; k < n; k++)
		assert_string_equal(name[1][k], name[0][k]);
	at = strstr(text, want);
	snprintf(want, sizeof want, "\t%s_walk<1>(", function->key);
	at = strstr(at, want);
	assert_true(at && at < function_end(strstr(strstr(text, string_at(one, "function")), "__global__")));
}

/* A thread of a point function in CUDA C takes runs of units, of at most 16 bytes in the dtype; text and manifest have the same number of
   units. */
static void check_run(const struct cg_pass_plan *plan, const struct cg_function *function, int lang, const char *text,
                      const json_t *launch)
{
	static const int most[] = { 4, 2, 8, 8 };
	const json_t *units = json_object_get(launch, "run_units"), *one = json_object_get(launch, "one");
	const char *at;
	char call[CG_KEY_MAX + 8], run[40];

	assert_int_equal(units != NULL, lang == CG_LANG_CUDA && function->shape == CG_FUNCTION_POINT);
	if (!units)
		return;
	assert_in_range(json_integer_value(units), 1, most[plan->dtype]);
	snprintf(run, sizeof run, "ceil(units / %d)", (int)json_integer_value(units));
	assert_string_equal(string_at(launch, "runs"), run);
	snprintf(call, sizeof call, "\t%s_walk<", function->key);
	at = strstr(text, call);
	assert_non_null(at);
	assert_int_equal(atoi(at + strlen(call)), json_integer_value(units));
	assert_int_equal(one != NULL, json_integer_value(units) > 1);
	if (one)
		check_one(function, lang, text, one);
}

/* Where a function has a step loop, in texts for GPUs alone, the manifest lists the parameters that the text has, in order, and each
   argument of the function is among them, by its own name or behind a prefix. */
static void check_step_loop(const struct cg_pass_plan *plan, const struct cg_function *function, int lang, const char *text, const json_t *entry)
{
	static char name[PARAMETERS_MAX][NAME];
	const json_t *loop = json_object_get(entry, "step_loop"), *arguments = json_object_get(loop, "arguments");
	char want[CG_KEY_MAX + 16];
	int n;

	assert_int_equal(loop != NULL, lang != CG_LANG_C && cg_has_step_loop(plan, function));
	if (!loop)
		return;
	snprintf(want, sizeof want, "%s_steps", function->key);
	assert_string_equal(string_at(loop, "function"), want);
	n = prototype(text, lang, want, name);
	assert_int_equal(json_array_size(arguments), n);
	for (int k = 0; k < n; k++)
		assert_string_equal(string_at(json_array_get(arguments, (size_t)k), "name"), name[k]);
	for (int k = 0; k < function->n_arguments; k++) {
		char own[CG_STEP_NAME_MAX], second[CG_STEP_NAME_MAX];
		int found = 0;

		cg_step_loop_names(plan, &function->arguments[k], own, second);
		for (int j = 0; j < n; j++)
			found += !strcmp(name[j], own) || !strcmp(name[j], second);
		assert_int_equal(found, 1 + !!*second);
	}
}

static void check_manifest(const struct cg_pass_plan *plan, int lang, const char *text)
{
	static char name[PARAMETERS_MAX][NAME];
	struct cg_text manifest = { resize, NULL, 0, 0, 0 };
	json_error_t error;
	json_t *root, *functions_, *function, *argument;
	size_t k, j;

	assert_int_equal(cg_print_manifest(plan, lang, &manifest), 0);
	root = json_loads(manifest.at, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		fail_msg("the manifest of %s: line %d: %s", plan->key, error.line, error.text);
	assert_string_equal(string_at(root, "key"), plan->key);
	assert_string_equal(string_at(root, "lang"), cg_lang_names[lang]);
	assert_string_equal(string_at(root, "dtype"), cg_real_names[plan->dtype]);
	assert_non_null(strstr(text, string_at(root, "command")));
	assert_true(json_array_size(json_object_get(root, "flags")) > 0);
	functions_ = json_object_get(root, "functions");
	assert_int_equal(json_array_size(functions_), plan->n_functions);
	json_array_foreach(functions_, k, function) {
		const json_t *arguments = json_object_get(function, "arguments");
		int n = prototype(text, lang, string_at(function, "function"), name), of = -1;

		assert_string_equal(string_at(function, "function"), plan->functions[k].key);
		assert_non_null(json_object_get(function, "launch"));
		check_run(plan, &plan->functions[k], lang, text, json_object_get(function, "launch"));
		check_step_loop(plan, &plan->functions[k], lang, text, function);
		assert_int_equal(json_object_get(function, "scratch") != NULL,
		                 plan->functions[k].shape == CG_FUNCTION_SUM_PART || cg_is_sum(&plan->functions[k]));
		assert_int_equal(json_object_get(function, "means") != NULL, plan->functions[k].means > 0);
		if ((int)json_array_size(arguments) != n)
			fail_msg("%s in %s: %d parameters, %d in the manifest", plan->functions[k].key, cg_lang_names[lang], n,
			         (int)json_array_size(arguments));
		json_array_foreach(arguments, j, argument) {
			const json_t *fallback = json_object_get(argument, "default");

			assert_string_equal(string_at(argument, "name"), name[j]);
			if (json_object_get(argument, "of"))
				assert_string_equal(string_at(argument, "of"), name[of]);
			else
				of = (int)j;
			string_at(argument, "kind"), string_at(argument, "type"), string_at(argument, "flow");
			for (int p = 0; p < plan->cell->n_params && fallback; p++)
				if (!strcmp(plan->cell->params[p].name, name[j]))
					assert_true(json_number_value(fallback) == plan->cell->params[p].value);
		}
	}
	json_decref(root);
	resize(manifest.at, 0);
}

/* ---- tests ---- */

static void test_first_line(void **state) { (void)state; every(check_first_line); }
static void test_lines(void **state)      { (void)state; every(check_lines); }
static void test_statements(void **state) { (void)state; every(check_statements); }
static void test_quotes(void **state)     { (void)state; every(check_quotes); }
static void test_manifest(void **state)   { (void)state; every(check_manifest); }

static void check_nothing(const struct cg_pass_plan *plan, int lang, const char *text)
{
	(void)plan, (void)lang, (void)text;
}

static void test_time(void **state)
{
	double seconds, slow;
	clock_t start;

	(void)state;
	/* An emulator slows down programs by other factors than it slows down the measure of slowness(). */
	if (getenv("EMULATED"))
		skip();
	slow = slowness();
	start = clock();
	every(check_nothing);
	seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
	printf("# every text in %.2f s, of a processor that is %.1f times slow\n", seconds, slow);
	assert_true(seconds < 2 * slow);
}

/* Numbers are printed with the digits that arithmetic in f32 or f64 needs, in f32 after rounding. */
static void test_numbers(void **state)
{
	static const struct { const char *number, *f32, *f64; } numbers[] = {
		{ "2", "a * 2;", "a * 2;" }, { "0.5", "a * 0.5f;", "a * 0.5;" }, { "0.1", "a * 0.1f;", "a * 0.1;" },
		{ "1e6", "a * 1e+06f;", "a * 1e+06;" }, { "999999", "a * 999999;", "a * 999999;" },
		{ "16777217", "a * 16777216.0f;", "a * 16777217.0;" }, { "0.30000000000000004", "a * 0.3f;", "a * 0.30000000000000004;" },
		{ "-2", "a * (-2);", "a * (-2);" }, { "-0.1", "a * (-0.1f);", "a * (-0.1);" }, { "1e-60", "a * 0;", "a * 1e-60;" },
		{ "-1e-60", "a * (-0.0f);", "a * (-1e-60);" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
		for (int dtype = 0; dtype < 2; dtype++) {
			struct cg_text out = { resize, NULL, 0, 0, 0 };
			struct cg_pass_plan *plan;
			struct cg_cell *cell;
			char text[200];

			snprintf(text, sizeof text, "cell x\ngates a\noutput h\nh = a * %s\n", numbers[k].number);
			cell = must_parse(text, "x");
			plan = must_plan(cell, 0, CG_PASS_FORWARD, 0, dtype);
			assert_int_equal(cg_print(plan, CG_LANG_C, &out), 0);
			if (!strstr(out.at, dtype ? numbers[k].f64 : numbers[k].f32))
				fail_msg("%s is %s", numbers[k].number, line_of(strstr(out.at, "const acc h = ")));
			cg_plan_free(plan);
			cg_parse_free(cell);
			resize(out.at, 0);
		}
}

/* Makes a locale with decimal commas in a new folder, since few systems have one, and sets it; returns 0 if that fails. */
static int comma_locale(char folder[])
{
	static const char *const files[][2] = {
		{ "comma", "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n" },
		{ "ascii", "<code_set_name> ASCII\nCHARMAP\n<U0000>..<U007F> /x00 all\nEND CHARMAP\n" },
	};
	char path[256], half[8];

	assert_non_null(mkdtemp(folder));
	for (int k = 0; k < 2; k++) {
		FILE *file;

		snprintf(path, sizeof path, "%s/%s", folder, files[k][0]);
		file = fopen(path, "w");
		assert_non_null(file);
		fprintf(file, "%sescape_char%s /\n%s", k ? "<" : "", k ? ">" : "", files[k][1]);
		fclose(file);
	}
	snprintf(path, sizeof path, "cd %s && localedef -c -i ./comma -f ./ascii ./commas >/dev/null 2>&1; true", folder);
	assert_int_equal(system(path), 0);       /* localedef reports a failure for missing definitions, too */
	setenv("LOCPATH", folder, 1);
	if (!setlocale(LC_NUMERIC, "commas"))
		return 0;
	snprintf(half, sizeof half, "%g", 0.5);
	return !strcmp(half, "0,5");
}

/* In a program whose locale has decimal commas a cell with 0.5 and 1.25 is read correctly; its text and manifest have decimal points. */
static void test_locale(void **state)
{
	struct cg_text out = { resize, NULL, 0, 0, 0 }, json = { resize, NULL, 0, 0, 0 };
	struct cg_cell *cell;
	struct cg_pass_plan *plan;
	char folder[] = "cellgrad-locale-XXXXXX", remove[64];
	int commas = comma_locale(folder);

	(void)state;
	snprintf(remove, sizeof remove, "rm -r %s", folder);
	if (system(remove))
		print_message("# %s is left\n", folder);
	if (!commas) {
		print_message("# no locale with commas could be made\n");
		skip();
	}
	cell = must_parse("cell x\ngates a\noutput h\nparam p = 1.25\nh = a * 0.5 * p\n", "x");
	plan = must_plan(cell, 0, CG_PASS_FORWARD, 0, 1);
	assert_int_equal(cg_print(plan, CG_LANG_C, &out), 0);
	assert_int_equal(cg_print_manifest(plan, CG_LANG_C, &json), 0);
	setlocale(LC_NUMERIC, "C");
	assert_non_null(strstr(out.at, "h = a * 0.5 * p;"));
	assert_non_null(strstr(json.at, "\"default\": 1.25}"));
	cg_plan_free(plan);
	cg_parse_free(cell);
	resize(out.at, 0);
	resize(json.at, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_line),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_statements),
		cmocka_unit_test(test_quotes),
		cmocka_unit_test(test_manifest),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_locale),
		cmocka_unit_test(test_time),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
