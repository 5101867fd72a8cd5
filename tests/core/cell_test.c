/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program can query of a cell to make networks of any cell; and cells in files, readable and not.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/cellgrad.h"

static const char leaky[] =
	"cell leaky\n"
	"gates a_u a_v\n"
	"split q_v\n"
	"input x_w no bias\n"
	"state c\n"
	"output h\n"
	"param keep\n"
	"param gain = 2\n"
	"option tied p_t\n"
	"weight u = -1.5\n"
	"scalar tau = 10, rate = -0.5\n"
	"c = keep * c_prev + a_u * p_t * rate + u\n"
	"h = tanh(gain * c + (a_v + q_v) * tau) * x_w\n"
	"save c h\n";

static struct cg_cell_parts parts_of(const struct cg_cell *cell)
{
	struct cg_cell_parts parts;

	cg_cell_parts_init(&parts, sizeof parts);
	assert_int_equal(cg_cell_info(cell, &parts), CG_OK);
	return parts;
}

static void expect_names(const char *const *names, int n, const char *expected)
{
	char all[256] = "";

	for (int k = 0; k < n; k++)
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", k ? " " : "", names[k]);
	assert_string_equal(all, expected);
	assert_null(names[n]);
}

static void test_built_in(void **state)
{
	const struct { const char *name, *gates, *vectors, *options, *params; int has_state, n_stages; } cells[] = {
		{ "lstm", "a_i a_f a_g a_o", "p_i p_f p_o", "peephole", "", 1, 1 },
		{ "gru", "a_r a_z a_n", "", "", "", 0, 1 },
		{ "rnn_tanh", "a", "", "", "", 0, 1 },
		{ "gru_block", "a_r a_u a_c", "", "", "", 0, 2 },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
		struct cg_cell_parts p = parts_of(cg_cell_find(cells[k].name));

		assert_string_equal(p.name, cells[k].name);
		expect_names(p.gates, p.n_gates, cells[k].gates);
		expect_names(p.vectors, p.n_vectors, cells[k].vectors);
		expect_names(p.options, p.n_options, cells[k].options);
		expect_names(p.params, p.n_params, cells[k].params);
		assert_int_equal(p.has_state, cells[k].has_state);
		assert_int_equal(p.n_stages, cells[k].n_stages);
	}
}

static void expect_leaky(struct cg_cell *cell)
{
	struct cg_cell_parts p = parts_of(cell);

	expect_names(p.gates, p.n_gates, "a_u a_v x_w");
	assert_true(p.gate_weights[0] == 15 && p.gate_weights[1] == 15 && p.gate_weights[2] == CG_HAS_INPUT);
	expect_names(p.params, p.n_params, "keep gain");
	expect_names(p.options, p.n_options, "tied");
	expect_names(p.vectors, p.n_vectors, "p_t u");
	assert_true(p.vector_option[0] == 0 && p.vector_option[1] == -1);
	assert_true(isnan(p.vector_starts[0]) && p.vector_starts[1] == -1.5);
	expect_names(p.scalars, p.n_scalars, "tau rate");
	assert_true(p.starts[0] == 10 && p.starts[1] == -0.5);
	assert_true(isnan(p.defaults[0]));
	assert_true(p.defaults[1] == 2);
	assert_int_equal(p.has_state, 1);
}

static void test_refused(void **state)
{
	struct cg_cell_parts parts;

	(void)state;
	cg_cell_parts_init(&parts, sizeof parts);
	assert_int_equal(cg_cell_info(NULL, &parts), CG_BAD_ARGUMENT);
	assert_int_equal(cg_cell_info(cg_cell_find("lstm"), NULL), CG_BAD_ARGUMENT);
	parts.size = 1;
	assert_int_equal(cg_cell_info(cg_cell_find("lstm"), &parts), CG_BAD_ARGUMENT);
	assert_non_null(strstr(cg_message(), "cg_cell_parts_init"));
}

/* ---- files ---- */

static char folder[] = "cell_test.XXXXXX", path[64];

static void put(const void *text, size_t bytes)
{
	FILE *file;

	unlink(path);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
}

static void expect_refusal(const char *from, int code, const char *words)
{
	struct cg_cell *cell = (void *)&cell;

	assert_int_equal(cg_cell_load(from, &cell), code);
	assert_null(cell);
	if (!strstr(cg_message(), words))
		fail_msg("expected \"%s\", got \"%s\"", words, cg_message());
}

static void test_files(void **state)
{
	enum { LARGEST = 1 << 20 };
	struct cg_cell *cell;
	char *large = calloc(1, LARGEST + 2), message[128];

	(void)state;
	assert_non_null(large);
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/leaky.cell", folder);
	put(leaky, sizeof leaky - 1);
	assert_int_equal(cg_cell_load(path, &cell), CG_OK);
	expect_leaky(cell);
	cg_cell_close(cell);

	/* A file of the largest size, most of which is a comment, is read; one that is a byte longer is not. */
	memset(large, '#', LARGEST + 1);
	memcpy(large, leaky, sizeof leaky - 1);
	put(large, LARGEST);
	assert_int_equal(cg_cell_load(path, &cell), CG_OK);
	cg_cell_close(cell);
	put(large, LARGEST + 1);
	expect_refusal(path, CG_FILE, "at most 1048576 bytes");
	free(large);

	put("cell x\nnonsense\n", 16);
	snprintf(message, sizeof message, "%s:2:", path);
	expect_refusal(path, CG_BUILD, message);
	put("", 0);
	expect_refusal(path, CG_BUILD, path);
	put("cell\0x", 6);
	expect_refusal(path, CG_FILE, "has a zero byte");
	unlink(path);
	expect_refusal(path, CG_FILE, "No such file");
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_refusal(path, CG_FILE, "expected a regular file");
	unlink(path);
	expect_refusal(folder, CG_FILE, "expected a regular file");
	assert_int_equal(cg_cell_load(NULL, &cell), CG_BAD_ARGUMENT);
	assert_int_equal(cg_cell_load(path, NULL), CG_BAD_ARGUMENT);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_built_in), cmocka_unit_test(test_refused), cmocka_unit_test(test_files) };

	return cmocka_run_group_tests_name("cell", tests, NULL, NULL);
}
