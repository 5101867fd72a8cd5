/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines a cell by its equations, and runs a step and its derived gradient.  On every processor the program prints
 *
 *	h       -0.130797  0.125000 -0.017986
 *	da       0.209987  0.500000  0.035325
 *	dh_prev  0.500000  0.500000  0.500000
 */
#include <cellgrad.h>
#include <stdio.h>

enum { UNITS = 3 };

static const char text[] =
	"cell leaky\n"
	"gates  a\n"
	"output h\n"
	"param  leak = 0.5\n"
	"c = tanh(a)\n"
	"h = leak * h_prev + (1 - leak) * c\n"
	"save c\n";

static struct cg_arg row(const char *name, float *data)         /* an argument of a kernel: its name and its memory, one row */
{
	return (struct cg_arg){ name, { data, 0, UNITS * sizeof *data, CG_HOST }, UNITS, 0 };
}

static void print(const char *name, const float *data)
{
	printf("%-7s %9.6f %9.6f %9.6f\n", name, data[0], data[1], data[2]);
}

int main(void)
{
	float a[UNITS] = { -1, 0, 2 }, h_prev[UNITS] = { 0.5f, 0.25f, -1 }, c[UNITS], h[UNITS];
	float dh[UNITS] = { 1, 1, 1 }, da[UNITS], dh_prev[UNITS];
	struct cg_arg forward[] = { row("a", a), row("h_prev", h_prev), row("c", c), row("h", h) };
	struct cg_arg grad[] = { row("dh", dh), row("c", c), row("da", da), row("dh_prev", dh_prev) };
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_cell *cell = NULL;
	struct cg_kernel kernel = { NULL, NULL, 0, CG_FORWARD, CG_F32, CG_POINT };

	if (cg_open(NULL, &context) || cg_stream_open(context, NULL, &stream) || cg_cell_parse(text, "leaky.cell", &cell))
		return fprintf(stderr, "%s\n", cg_message()), 1;
	kernel.cell = cell;
	if (cg_kernel_run(stream, &kernel, 1, UNITS, forward, 4))
		return fprintf(stderr, "%s\n", cg_message()), 1;
	kernel.pass = CG_GRAD;
	if (cg_kernel_run(stream, &kernel, 1, UNITS, grad, 4))
		return fprintf(stderr, "%s\n", cg_message()), 1;
	print("h", h);
	print("da", da);
	print("dh_prev", dh_prev);
	cg_cell_close(cell);
	cg_stream_close(stream);
	cg_close(context);
	return 0;
}
