/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures, with an allocator, the memory that `cellgrad convert` takes for a file that is many times as large as its largest tensor: at
 * most twice the largest tensor of IN and OUT. A failed request for memory, at any point, is reported and leaves OUT as it was.
 */
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "command/command.h"
#include "command/output.h"
#include "command/safetensors.h"

/* ---- memory in use ---- */

static size_t now, most;

/* An allocator that takes its blocks from malloc: so resize() can also free a block that json_take() took from malloc after cg_memory() had
   refused one. */
static void *resize(void *user, void *p, size_t bytes)
{
	size_t old = p ? malloc_usable_size(p) : 0;

	(void)user;
	if (!bytes) {
		now -= old < now ? old : now;
		free(p);
		return NULL;
	}
	p = realloc(p, bytes);
	if (!p)
		return NULL;
	now += malloc_usable_size(p) - old;
	most = now > most ? now : most;
	return p;
}

/* ---- files ---- */

enum { LAYERS = 12, UNITS = 192 };

/* Writes a file of PyTorch's tensors of an LSTM, the largest of which are [4 units, units]. */
static void write_torch(const char *path, int layers, int64_t units)
{
	static float numbers[4 * UNITS * UNITS];
	static char names[4 * LAYERS][32];
	struct safetensors_tensor tensors[4 * LAYERS];
	static const char *const words[] = { "weight_ih_l%d", "weight_hh_l%d", "bias_ih_l%d", "bias_hh_l%d" };
	json_t *none = json_object();
	struct file file;

	for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
		numbers[k] = (float)(k + 1);
	for (int k = 0; k < 4 * layers; k++) {
		int matrix = k % 4 < 2;

		snprintf(names[k], sizeof names[k], words[k % 4], k / 4);
		tensors[k] = (struct safetensors_tensor){ .name = names[k], .cg = CG_F32, .rank = 1 + matrix, .shape = { 4 * units, units },
		                                          .data = (const unsigned char *)numbers,
		                                          .bytes = (size_t)(4 * units * (matrix ? units : 1)) * sizeof *numbers };
	}
	assert_int_equal(file_check(&file, path), CG_OK);
	assert_int_equal(safetensors_write(&file, tensors, (size_t)(4 * layers), none), CG_OK);
	json_decref(none);
}

static int convert(const char *from, const char *to, const char *in, const char *out)
{
	const char *words[] = { "convert", "--from", from, "--to", to, "--force", in, out, NULL };
	int kept[2] = { dup(1), dup(2) }, null = open("/dev/null", O_WRONLY), code;

	/* The command's output must not become part of the test's TAP. */
	fflush(stdout);
	dup2(null, 1);
	dup2(null, 2);
	code = command_convert(8, words);
	fflush(stdout);
	for (int k = 0; k < 2; k++) {
		dup2(kept[k], k + 1);
		close(kept[k]);
	}
	close(null);
	return code;
}

static void test_streams(void **state)
{
	static const char *const formats[] = { "keras", "block", "checkpoint", "onnx", "canonical", "pytorch" };
	const size_t matrix = 4 * UNITS * UNITS * sizeof(float);

	(void)state;
	write_torch("many", LAYERS, UNITS);
	for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
		/* in formats block and checkpoint both matrices of a layer are one tensor [inputs + U, 4 U] */
		size_t largest = k == 1 || k == 2 ? 2 * matrix : matrix;

		now = most = 0;
		assert_int_equal(convert("pytorch", formats[k], "many", "out"), EXIT_OK);
		if (most > 2 * largest)
			fail_msg("%s: %zu bytes at most, where the largest tensor has %zu", formats[k], most, largest);
		now = most = 0;
		assert_int_equal(convert(formats[k], "pytorch", "out", "back"), EXIT_OK);
		if (most > 2 * largest)
			fail_msg("back from %s: %zu bytes at most, where the largest tensor has %zu", formats[k], most, largest);
	}
	/* Format cellgrad has a single tensor, which is as large as all tensors of the file `many` together. */
	now = most = 0;
	assert_int_equal(convert("pytorch", "cellgrad", "many", "out"), EXIT_OK);
	assert_true(most <= 2 * LAYERS * 2 * matrix);
	now = most = 0;
	assert_int_equal(convert("cellgrad", "keras", "out", "back"), EXIT_OK);
	assert_true(most <= 2 * matrix);
}

static int is_old(const char *path)
{
	char text[8] = "";
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(text, 1, sizeof text, f) : 0;

	if (f)
		fclose(f);
	return n == 3 && !memcmp(text, "old", 3);
}

static void test_no_memory(void **state)
{
	static const char *const pairs[][2] = { { "pytorch", "cellgrad" }, { "pytorch", "onnx" } };

	(void)state;
	write_torch("few", 2, 3);
	for (size_t p = 0; p < 2; p++) {
		int code = EXIT_WORK;
		size_t n = 0;

		while (code != EXIT_OK) {
			FILE *f = fopen("kept", "w");

			assert_non_null(f);
			fputs("old", f);
			fclose(f);
			cg_memory_fail(++n);
			code = convert(pairs[p][0], pairs[p][1], "few", "kept");
			cg_memory_fail(0);
			if (code != EXIT_OK) {
				assert_int_equal(code, EXIT_WORK);
				assert_non_null(strstr(cg_message(), "no memory"));
				assert_true(is_old("kept"));
			}
			assert_true(n < 10000);
		}
		assert_true(n > 10);
		assert_false(is_old("kept"));
	}
}

int main(void)
{
	const struct cg_allocator watched = { resize, NULL };
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_streams), cmocka_unit_test(test_no_memory) };
	const char *where = getenv("TMPDIR");
	char directory[512];
	int failed;

	snprintf(directory, sizeof directory, "%s/cellgrad-convert-XXXXXX", where && *where ? where : P_tmpdir);
	if (cg_set_allocator(&watched) || !mkdtemp(directory) || chdir(directory))
		return 99;
	print_json_memory();
	if (!freopen("/dev/null", "w", stderr))
		return 99;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink("many");
	unlink("few");
	unlink("out");
	unlink("back");
	unlink("kept");
	if (chdir("/") || rmdir(directory))
		return 99;
	return failed;
}
