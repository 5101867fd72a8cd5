/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of a sequence by tiles of units: the text of packing and multiplying, which the cpu backend compiles for each instruction set
 * and which stands in the text of a scan.
 */
#ifndef CG_TILES_H
#define CG_TILES_H

#include "cell.h"
#include "tile.h"

/* Are products of the dtype between set_registers(rows) and release_registers()? */
int cg_sets_registers(int dtype);
/* Tiles of a dtype, without the prelude's words that they need: struct cg_tile is above them.  -1: no memory. */
int cg_print_tiles(int dtype, struct cg_text *);
/* What the cpu backend compiles: the tiles with their table; and what they multiply alone, its names with the dtype at their end. */
int cg_print_tiles_file(int dtype, struct cg_text *);
int cg_print_items_file(int dtype, struct cg_text *);

#endif
