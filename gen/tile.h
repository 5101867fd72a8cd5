/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tile: some vectors of columns of a product's matrix b [k columns], packed.  The tile stores `stored` vectors, [k stored lanes], with
 * zeros beyond the last column and the last step of k.  Vector v has the columns from v * apart on,
 * counted from the tile's first column.
 */
#ifndef CG_TILE_H
#define CG_TILE_H

#include <stdint.h>

enum { CG_TILE_VECTORS = 4 };                            /* the most vectors that registers hold at once */

struct cg_tile {
	int vectors, stored;                             /* vectors to multiply; vectors that the tile stores */
	int64_t apart;                                   /* columns from the first of a vector to the first of the next */
	int64_t width, step;                             /* vector v has min(lanes, width - v * step) columns */
	void *data;
};

#endif
