/*
 * A tile: some vectors of columns of a matrix b [k columns] of a product, packed.  It stores `stored` vectors,
 * [k stored lanes], zeros past the last column and the last step.  Vector v has the columns from v * apart on, counted
 * from the tile's first column.
 */
#ifndef CG_TILE_H
#define CG_TILE_H

#include <stdint.h>

enum { CG_TILE_VECTORS = 4 };                            /* that registers hold at once */

struct cg_tile {
	int vectors, stored;                             /* that are multiplied, and that the tile stores */
	int64_t apart;                                   /* columns from one vector to the next */
	int64_t width, step;                             /* vector v has min(lanes, width - v step) columns */
	void *data;
};

#endif
