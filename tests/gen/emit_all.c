/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes texts into a folder, one file each: of the built-in cells, those of the shelf and those of tests/gen, for every set of options,
 * pass and dialect, in some or all dtypes; each pass's C header and manifest; all steps of a sequence in C, with all options and in one
 * dtype, except of the shelf's cells, cells with means and cells with the name y; matrix products of every dtype and form, each with a few
 * tiles; every shape of rows.  compile.sh compiles them, golden.sh picks a few.  Further cells, in this file, have names that mean
 * something in a dialect, or the name y.  The file FOLDER/of-tests has the keys of the passes of all cells but the
 * built-in ones: those of the shelf, of tests/gen and of this file.
 *
 *	emit_all FOLDER
 */
#include "tests/gen/every.h"
#include "gen/rows.h"
#include "gen/steps.h"

static const char *const endings[] = { "c", "cl", "cu" };

/* Names that the parser accepts although most of them mean something in some dialect: a text hides that meaning. */
static const char names[] =
	"cell names\n"
	"gates  k x z w float4 printf select sum total\n"
	"state  upper e\n"
	"output length\n"
	"option half4 Iu dot\n"
	"param  blocks, cross = 0.5, s0\n"
	"isnan = tanh(k * Iu + x * z)\n"
	"upper = w * float4 + printf * blocks * upper_prev\n"
	"lost_in = select * sum + total * cross\n"
	"e = isnan * e_prev * dot\n"
	"length = upper * lost_in + length_prev * s0\n"
	"save isnan upper\n";

/* Names that are types, functions or keywords of some dialect, or one letter away from names that kernels derive. */
static const char more_names[] =
	"cell more_names\n"
	"gates  prev no a_at2 half8 uchar4 vload4 barrier event clock64\n"
	"state  int8_t nan override x_all2\n"
	"output module\n"
	"option iff uint64_t memory_scope at\n"
	"param  work_group_barrier = 2, make_float4, intptr_t, get_local_id = 1, stride, all, offset\n"
	"x = tanh(at * stride + offset) * x_all2_prev\n"
	"x_all2 = x * x + all * prev * no\n"
	"int8_t = sigmoid(a_at2 + half8 * int8_t_prev) * work_group_barrier\n"
	"nan = exp(uchar4 * vload4) * uint64_t + nan_prev * make_float4\n"
	"override = relu(barrier) / (event + clock64) * memory_scope * intptr_t + override_prev\n"
	"o = x * int8_t * nan * get_local_id\n"
	"import = o * o + o\n"
	"module = import * override + module_prev\n"
	"save x o import nan\n";

/* An output, a gate and a state may be called y, although the adjoint of a layer's output is often called dy. */
static const char y_output[] =
	"cell y_output\n"
	"gates  i z\n"
	"state  c\n"
	"output y\n"
	"option peephole p\n"
	"c = sigmoid(i + p * c_prev) * c_prev + tanh(z)\n"
	"y = tanh(c) + i * y_prev\n"
	"save c\n";

static const char y_gate[] =
	"cell y_gate\n"
	"gates  y z\n"
	"output h\n"
	"h = sigmoid(y) * h_prev + z\n";

static const char y_state[] =
	"cell y_state\n"
	"gates  a\n"
	"state  y\n"
	"output h\n"
	"y = sigmoid(a) * y_prev\n"
	"h = y + h_prev\n"
	"save y h\n";

static int put(struct cg_text *text, const char *folder, const char *key, const char *ending)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s.%s", folder, key, ending);
	file = text->failed ? NULL : fopen(path, "wb");
	if (!file || fwrite(text->at, 1, text->length, file) != text->length || fclose(file)) {
		fprintf(stderr, "emit_all: cannot write %s\n", path);
		return 1;
	}
	resize(text->at, 0);
	return 0;
}

static int put_all(const struct cg_pass_plan *plan, const char *folder)
{
	struct cg_text manifest = { resize, NULL, 0, 0, 0 }, header = manifest;

	for (int lang = 0; lang < CG_LANG_COUNT; lang++) {
		struct cg_text text = { resize, NULL, 0, 0, 0 };

		if (cg_print(plan, lang, &text) || put(&text, folder, plan->key, endings[lang]))
			return 1;
	}
	if (cg_print_header(plan, &header) || put(&header, folder, plan->key, "h"))
		return 1;
	return cg_print_manifest(plan, CG_LANG_C, &manifest) || put(&manifest, folder, plan->key, "json");
}

/* Writes the texts of a cell in every `step`-th dtype; those of a step of a sequence in f32 and f16, or in f16 alone if `step` is
   over 1.  keys: the file that gets the keys of the texts; NULL: none does. */
static int emit(const struct cg_cell *cell, const char *folder, int step, FILE *keys)
{
	for (int options = 0; options < 1 << cell->n_options; options++)
		for (int pass = 0; pass < CG_PASS_COUNT; pass++)
			for (int sequence = pass > CG_PASS_GRADGRAD, dtype = sequence && step > 1 ? 2 : 0; dtype < CG_DTYPE_COUNT;
			     dtype += sequence ? 2 : step) {
				struct cg_pass_plan *plan = must_plan(cell, options, pass, 0, dtype);

				if (put_all(plan, folder) || (keys && fprintf(keys, "%s\n", plan->key) < 0))
					return 1;
				cg_plan_free(plan);
			}
	return 0;
}

static const int sides[] = { 2000, 300, 60, 20 };

static int put_product(struct cg_gemm_shape s, const struct cg_gemm_limits *limits, int64_t m, int lang, const char *folder)
{
	struct cg_text text = { resize, NULL, 0, 0, 0 };
	char key[CG_KEY_MAX];

	if (cg_gemm_tile(&s, limits, m, m) || cg_print_gemm(&s, lang, &text)) {
		fprintf(stderr, "emit_all: no product of tiles for %d\n", (int)m);
		return 1;
	}
	cg_gemm_key(&s, key);
	return put(&text, folder, key, endings[lang]);
}

/* Writes products for CPUs with registers of three widths, each for another size of c. */
static int put_for_cpus(const struct cg_gemm_shape *s, int fma, int n, const char *folder)
{
	static const int vector_bytes[] = { 64, 32, 16 };

	for (int k = 0; k < 3; k++) {
		struct cg_gemm_limits cpu = { 1, 2, 4096, 1 << 20, vector_bytes[k], fma };

		if (put_product(*s, &cpu, sides[(n + k) % 4], CG_LANG_OPENCL, folder))
			return 1;
	}
	return 0;
}

/* Writes products of every dtype and form: for CPUs with three of four sizes of c, for a GPU with one of these sizes, in turn. */
static int put_products(const char *folder)
{
	int n = 0;

	for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
		for (int form = 0; form < (dtype < 2 ? 4 : 16); form++, n++) {
			struct cg_gemm_shape s = { .dtype = dtype, .transpose_a = form >> 1 & 1, .transpose_b = form & 1,
				.start_acc = form >> 2 & 1, .c_acc = form >> 3 };
			struct cg_gemm_limits gpu = { 0, 16, 1024, 48 << 10, 4, n % 5 != 4 };

			if (put_for_cpus(&s, gpu.fma, n + n / 4, folder) ||
			    put_product(s, &gpu, sides[(n + n / 4) % 4], CG_LANG_OPENCL, folder) ||
			    put_product(s, &gpu, sides[(n + n / 4) % 4], CG_LANG_CUDA, folder))
				return 1;
		}
	return 0;
}

static int put_rows(const char *folder)
{
	struct cg_rows_shape shapes[CG_ROWS_SHAPES];
	char key[CG_KEY_MAX];

	for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++) {
		struct cg_text moves = { resize, NULL, 0, 0, 0 };

		for (int k = cg_rows_shapes(dtype, shapes) - 1; k >= 0; k--)
			for (int lang = 0; lang < CG_LANG_COUNT; lang++) {
				struct cg_text text = { resize, NULL, 0, 0, 0 };

				cg_rows_key(&shapes[k], key);
				if (cg_print_rows(&shapes[k], lang, &text) || put(&text, folder, key, endings[lang]))
					return 1;
			}
		cg_rows_moves_key(dtype, key);
		if (cg_print_rows_moves(dtype, &moves) || put(&moves, folder, key, endings[CG_LANG_CUDA]))
			return 1;
	}
	return 0;
}

/* Writes the texts of all steps of a sequence, forward and gradient, with all options. */
static int put_steps(const struct cg_cell *cell, int dtype, const char *folder)
{
	for (int pass = CG_PASS_SEQ_FORWARD; pass <= CG_PASS_SEQ_GRAD; pass++) {
		struct cg_text text = { resize, NULL, 0, 0, 0 }, header = text;
		struct cg_mistake mistake;
		struct cg_pass_plan *plan = cg_plan_steps(cell, (1 << cell->n_options) - 1, pass, dtype, resize, &mistake);

		if (!plan || cg_print_steps(plan, CG_LANG_C, &text) || put(&text, folder, plan->key, "c") ||
		    cg_print_steps_header(plan, &header) || put(&header, folder, plan->key, "h")) {
			fprintf(stderr, "emit_all: no steps of %s: %s\n", cell->name, plan ? "" : mistake.text);
			return 1;
		}
		cg_plan_free(plan);
	}
	return 0;
}

static int emit_built_in(const char *folder)
{
	char name[32];

	for (int k = 0; built_in(k, name); k++) {
		struct cg_cell *cell = must_find(name);

		/* All steps of a cell are printed in one dtype, chosen by the cell's number of gates, so that a new cell changes no other
		   cell's dtype. */
		if (emit(cell, folder, 1, NULL) || put_steps(cell, cell->n_gates % CG_DTYPE_COUNT, folder))
			return 1;
		cg_parse_free(cell);
	}
	return 0;
}

/* Does the cell have means over units?  No text computes all steps of a sequence for a cell with means. */
static int has_means(const struct cg_cell *cell)
{
	for (int k = 0; k < cell->n_terms; k++)
		if (cell->terms[k].code == CG_OP_MEAN)
			return 1;
	return 0;
}

/* Writes the texts of the shelf's cells in f32, those of the tests' own cells in f32 and f16, and those of this file's cell "names" in all
   dtypes; those of a step of a sequence in f16, and for the cell "names" in f32, too. */
static int emit_of_tests(const char *folder)
{
	static const struct { const char *text, *name; int step; } cells[] = {
		{ names, "names", 1 }, { more_names, "more_names", 2 }, { y_output, "y_output", 2 }, { y_gate, "y_gate", 2 },
		{ y_state, "y_state", 2 },
	};
	char path[4096];
	struct cg_cell *cell;
	FILE *keys;
	int failed = 0;

	snprintf(path, sizeof path, "%s/of-tests", folder);
	keys = fopen(path, "w");
	if (!keys)
		return 1;
	for (int k = built_ins(); (cell = every_cell(k)); k++) {
		int of_shelf = k < built_ins() + shelf_cells();

		failed |= emit(cell, folder, of_shelf ? CG_DTYPE_COUNT : 2, keys) ||
		          (!of_shelf && !has_means(cell) && put_steps(cell, CG_DTYPE_F16, folder));
		cg_parse_free(cell);
	}
	for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
		cell = must_parse(cells[k].text, cells[k].name);
		failed |= emit(cell, folder, cells[k].step, keys) || (k < 2 && put_steps(cell, CG_DTYPE_BF16, folder));
		cg_parse_free(cell);
	}
	return fclose(keys) || failed;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: emit_all FOLDER\n");
		return 2;
	}
	return emit_built_in(argv[1]) || emit_of_tests(argv[1]) || put_products(argv[1]) || put_rows(argv[1]);
}
