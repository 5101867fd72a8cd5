/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the matrix products of a sequence by tiles of units from templates/tiles.in.
 */
#include "tiles.h"

#include <stdio.h>

/* items, tiles: sections of tiles.in, each after those that it needs.  words: sections of the prelude. */
static const char *const items[] = { "types", "items", "transpose", "merge", "pack", "add", NULL };
static const char *const tiles[] = { "pack_tile", "matrix_unit", "blocks", "end_of_blocks", "multiply_tile", NULL };
static const char *const words[] = { "headers", "words", "shuffles", NULL };

int cg_sets_registers(int dtype)
{
	return dtype == CG_DTYPE_BF16;
}

static int put(struct cg_text *text, const char *name, int dtype, const char *end)
{
	const char *const holes[] = { "t", end, "inline", cg_dialects[CG_LANG_C].inlined, "set", cg_sets_registers(dtype) ? "if (rows < m)\n\tset_registers(rows);" : "",
	                              "between", cg_sets_registers(dtype) ? "  Between set_registers(m) and release_registers()." : "", NULL };
	struct cg_section section;

	if (cg_section_find("tiles.in", name, cg_real_names[dtype], &section))
		return -1;
	cg_fill(text, section.at, section.length, holes);
	return text->failed ? -1 : 0;
}

static int put_all(const char *const *names, int dtype, const char *end, struct cg_text *text)
{
	for (; *names; names++)
		if (put(text, *names, dtype, end))
			return -1;
	return 0;
}

int cg_print_tiles(int dtype, struct cg_text *text)
{
	return put(text, "sizes", dtype, "") || put_all(items, dtype, "", text) || put_all(tiles, dtype, "", text) ? -1 : 0;
}

int cg_print_tiles_file(int dtype, struct cg_text *text)
{
	const char *name = cg_real_names[dtype];

	cg_text_printf(text, "/* These functions compute the products of a sequence by tiles, in dtype %s.  cellgen tiles %s makes this "
	               "file, which is not to be edited. */\n\n#include \"backends/cpu/isa.h\"\n\n", name, name);
	if (cg_print_sections(dtype, CG_LANG_C, words, text) || cg_print_tiles(dtype, text))
		return -1;
	cg_text_printf(text, "\nextern const struct cg_tiles CG_TILES(%s);\nconst struct cg_tiles CG_TILES(%s) = {\n"
	               "\t.lanes = LANES, .steps = STEPS * AT_ONCE, .bytes = sizeof(element), .pack = pack_tile, .multiply = multiply_tile,%s\n};\n",
	               name, name, cg_sets_registers(dtype) ? " .enter = set_registers, .leave = release_registers," : "");
	return text->failed ? -1 : 0;
}

int cg_print_items_file(int dtype, struct cg_text *text)
{
	const char *name = cg_real_names[dtype];
	char end[16];

	snprintf(end, sizeof end, "_%s", name);
	cg_text_printf(text, "/* Items of products, %s, after VECTOR_BYTES: made by cellgen items %s; not to be edited. */\n\n", name, name);
	return cg_print_sections(dtype, CG_LANG_C, words, text) || put_all(items, dtype, end, text) ? -1 : 0;
}
