/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the matrix products of a sequence by tiles of units: the functions that pack matrices and multiply.  The cpu backend compiles
 * the text for each instruction set that has products of its own, and the text of all steps contains it.
 */
#ifndef CG_TILES_H
#define CG_TILES_H

#include "cell.h"
#include "tile.h"

/* Must a text call set_registers(rows) before products of the dtype, and release_registers() after them? */
int cg_sets_registers(int dtype);
/* Prints the functions over tiles for a dtype, without the prelude sections that these functions need.  The text before the
 * functions over tiles must declare struct cg_tile.  -1: no memory. */
int cg_print_tiles(int dtype, struct cg_text *);
/* Prints a file that the cpu backend compiles: cg_print_tiles_file() the functions over tiles and a table of them, cg_print_items_file()
 * the items alone, the vectors that products multiply and the functions that pack them, with names that end in the dtype. */
int cg_print_tiles_file(int dtype, struct cg_text *);
int cg_print_items_file(int dtype, struct cg_text *);

#endif
