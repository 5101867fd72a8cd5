/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a cell's equations as boxes in columns; the box of an equation stands right of all boxes that the equation reads. */
#include "command/cell/cell_picture.h"

#include <stdio.h>
#include <string.h>

#include "command/svg.h"

enum { GAP = 50, TALL = 46, HIGH = 28, EDGE = 30, TOP = 50, LETTER = 8, KINDS = CG_SYMBOL_VALUE + 1, BOXES_MAX = 512 };

struct box { const char *name, *line; int column, row; const char *fill; };

struct picture {
	const struct cg_cell *cell;
	struct box boxes[BOXES_MAX];
	int n_boxes, first[KINDS];               /* first: the index of the first box of each kind of symbol */
	int rows[BOXES_MAX], columns;            /* rows: the number of boxes of each column */
	int width;                               /* of a box */
};

static void add_box(struct picture *p, const char *name, const char *line, int column, const char *fill)
{
	p->boxes[p->n_boxes++] = (struct box){ name, line, column, p->rows[column]++, fill };
	p->columns = column >= p->columns ? column + 1 : p->columns;
	if (p->width < (int)strlen(name) * LETTER + 2 * LETTER)
		p->width = (int)strlen(name) * LETTER + 2 * LETTER;
}

/* Sets is_read of the boxes that an equation reads to 1, and that of the other boxes to 0. */
static void mark_reads(const struct picture *p, int equation, unsigned char is_read[BOXES_MAX])
{
	const struct cg_cell *cell = p->cell;
	int first = equation ? cell->values[equation - 1].term + 1 : 0;

	memset(is_read, 0, BOXES_MAX);
	/* In cell->terms the terms of an equation follow those of the equation before it. */
	for (int k = first; k <= cell->values[equation].term; k++)
		if (cell->terms[k].code == CG_TERM_SYMBOL)
			is_read[p->first[cell->terms[k].a] + cell->terms[k].b] = 1;
}

static void place_boxes(struct picture *p)
{
	const struct cg_cell *cell = p->cell;
	unsigned char is_read[BOXES_MAX];

	p->first[CG_SYMBOL_GATE] = p->n_boxes;
	for (int k = 0; k < cell->n_gates; k++)
		add_box(p, cell->gates[k].name, "a gate: a sum of products", 0, "#dbe9f6");
	p->first[CG_SYMBOL_PREV] = p->n_boxes;
	for (int k = 0; k < cell->n_prevs; k++)
		add_box(p, cell->prevs[k].name, "a state before the step", 0, "#e8e8e8");
	p->first[CG_SYMBOL_WEIGHT] = p->n_boxes;
	for (int k = 0; k < cell->n_weights; k++)
		add_box(p, cell->weights[k].name, "a weight per unit", 0, "#fdebd0");
	p->first[CG_SYMBOL_SCALAR] = p->n_boxes;
	for (int k = 0; k < cell->n_scalars; k++)
		add_box(p, cell->scalars[k].name, "a learnt scalar", 0, "#fdebd0");
	p->first[CG_SYMBOL_PARAM] = p->n_boxes;
	for (int k = 0; k < cell->n_params; k++)
		add_box(p, cell->params[k].name, "a param", 0, "#fdebd0");
	p->first[CG_SYMBOL_VALUE] = p->n_boxes;
	for (int v = 0; v < cell->n_values; v++) {
		int column = 1;

		mark_reads(p, v, is_read);
		for (int k = 0; k < p->n_boxes; k++)
			if (is_read[k] && p->boxes[k].column >= column)
				column = p->boxes[k].column + 1;
		add_box(p, cell->values[v].name, cell->values[v].line, column, cg_find_prev(cell, v) >= 0 ? "#d5f0d5" : "#fff");
	}
}

static int left_of(const struct picture *p, const struct box *b)
{
	return EDGE + b->column * (p->width + GAP);
}

static int top_of(const struct box *b)
{
	return TOP + b->row * TALL;
}

/* Writes a text with XML's own characters as entities. */
static void put_escaped(struct svg *s, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<': svg_put(s, "&lt;"); break;
		case '>': svg_put(s, "&gt;"); break;
		case '&': svg_put(s, "&amp;"); break;
		default:  svg_put(s, "%c", *text);
		}
}

static void draw_edges(struct svg *s, const struct picture *p)
{
	unsigned char is_read[BOXES_MAX];

	for (int v = 0; v < p->cell->n_values; v++) {
		const struct box *to = &p->boxes[p->first[CG_SYMBOL_VALUE] + v];

		mark_reads(p, v, is_read);
		for (int k = 0; k < p->n_boxes; k++)
			if (is_read[k]) {
				int x = left_of(p, &p->boxes[k]) + p->width, y = top_of(&p->boxes[k]) + HIGH / 2, end = top_of(to) + HIGH / 2;
				int middle = (x + left_of(p, to)) / 2;

				svg_put(s, "<path d=\"M%d %dC%d %d %d %d %d %d\" fill=\"none\" stroke=\"#999\"/>\n", x, y, middle, y, middle,
				        end, left_of(p, to), end);
			}
	}
}

static void draw_boxes(struct svg *s, const struct picture *p)
{
	for (int k = 0; k < p->n_boxes; k++) {
		const struct box *b = &p->boxes[k];

		svg_put(s, "<g><title>");
		put_escaped(s, b->line);
		svg_put(s, "</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\" fill=\"%s\" stroke=\"#333\"/>", left_of(p, b),
		        top_of(b), p->width, HIGH, b->fill);
		svg_put(s, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text></g>\n", left_of(p, b) + p->width / 2,
		        top_of(b) + HIGH / 2 + 5, b->name);
	}
}

int cell_picture_draw(const struct cg_cell *cell, struct file *file)
{
	struct picture *p = cg_memory(NULL, sizeof *p);
	struct svg s = { .file = file };
	char title[CG_NAME_MAX + 8];
	int tallest = 1;

	if (!p)
		return CG_NO_MEMORY;
	memset(p, 0, sizeof *p);
	p->cell = cell;
	place_boxes(p);
	for (int k = 0; k < p->columns; k++)
		tallest = p->rows[k] > tallest ? p->rows[k] : tallest;
	s.area = (struct svg_area){ .width = 2 * EDGE + p->columns * (p->width + GAP) - GAP, .height = TOP + tallest * TALL, .left = EDGE };
	snprintf(title, sizeof title, "cell %s", cell->name);
	svg_begin(&s, title);
	draw_edges(&s, p);
	draw_boxes(&s, p);
	cg_memory(p, 0);
	return svg_end(&s);
}
