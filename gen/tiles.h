/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the matrix products of a sequence by tiles of units: how they pack and multiply.  The cpu backend compiles the text for each
 * instruction set, and the text of all steps contains it.
 */
#ifndef CG_TILES_H
#define CG_TILES_H

#include "cell.h"
#include "tile.h"

/* Must products of the dtype stand between set_registers(rows) and release_registers()? */
int cg_sets_registers(int dtype);
/* Prints the tiles of a dtype without the prelude sections that they need.  struct cg_tile must stand above.  -1: no memory. */
int cg_print_tiles(int dtype, struct cg_text *);
/* Prints the two files that the cpu backend compiles: the tiles with their table, and the items alone, whose names end in the dtype. */
int cg_print_tiles_file(int dtype, struct cg_text *);
int cg_print_items_file(int dtype, struct cg_text *);

#endif
