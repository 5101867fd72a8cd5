/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the kernels over elements and the sums over rows of every built-in cell, with every set of options, pass and stage, in every dtype
 * that the OpenCL device supports: with all arguments in memory and with every second one, and sums also on top of earlier results.
 * Before a kernel runs, the program writes to the device's memory only the arguments that the kernel reads.  The results are not compared:
 * the program is run by Oclgrind, which checks every access.
 *
 *	kernels_run    exit 0: all ran; 1: not; 77: the backend opencl does not open
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify/kernel_trial.h"
#include "verify/numbers.h"

/* For kernels over elements more units than any vector has elements, for sums more rows than a block of rows has. */
static const struct { int64_t rows, units; } sizes[] = { [CG_POINT] = { 3, 19 }, [CG_SUM] = { CG_SUM_ROWS + 1, 5 } };

/* WHOLE: all arguments in memory are present; HALF: every second one is; ADDED: all are, and sums are accumulated. */
enum memory { WHOLE, HALF, ADDED };
enum { GAP = 3, LENT_MOST = 1 << 14 };           /* GAP: elements between rows; LENT_MOST: the most blocks of memory in `lent` */

static struct cg_context *context;
static struct cg_stream *stream;
static unsigned long long state = 1;
static long kernels, runs;

/* Buffers are kept to the end: Oclgrind confuses a new buffer with an old one at its address. */
static struct cg_mem lent[LENT_MOST];
static int n_lent;

static void must(int code, const char *what)
{
	if (!code)
		return;
	printf("# %s: %s\n", what, cg_message());
	exit(1);
}

/* An argument's memory; inputs are written at once, since Oclgrind takes what is written in parts for unwritten. */
static struct cg_mem lend(const struct kernel_kind *kind, const struct cg_argument *a, int in)
{
	int dtype = a->type == CG_TYPE_ACC ? numbers_acc(kind->dtype) : kind->dtype;
	int64_t units = sizes[kind->shape].units, rows = a->kind == CG_KIND_TENSOR ? sizes[kind->shape].rows : 1;
	size_t n = (size_t)((rows - 1) * (units + GAP) + units), each = cg_dtype_bytes(dtype);
	unsigned char *numbers = malloc(n * each);
	struct cg_mem *mem = &lent[n_lent];

	must(numbers && n_lent < LENT_MOST ? cg_alloc(context, n * each, mem) : CG_NO_MEMORY, a->name);
	for (size_t k = 0; k < n && in; k++)
		numbers_bits(&state, dtype, numbers + k * each);
	if (in)
		must(cg_put(stream, *mem, numbers, n * each), a->name);
	free(numbers);
	n_lent++;
	return *mem;
}

static void run(const struct kernel_kind *kind, enum memory memory)
{
	struct cg_arg args[KERNEL_ARGUMENTS];
	struct cg_kernel kernel = { kind->cell, NULL, (int)kind->stage, kind->pass, kind->dtype, kind->shape };
	char options[256] = "";

	for (int k = 0; k < kind->n; k++) {
		const struct cg_argument *a = kind->arguments[k];

		args[k] = (struct cg_arg){ .name = a->name, .stride = sizes[kind->shape].units + GAP,
			.value = a->kind == CG_KIND_COUNT ? memory == ADDED : 0.5 };
		if (k < kind->n_memory && (memory != HALF || k % 2))
			args[k].mem = lend(kind, a, !a->out || memory == ADDED);
	}
	for (int k = 0; k < kind->cell->n_options; k++)
		if (kind->options >> k & 1)
			snprintf(options + strlen(options), sizeof options - strlen(options), "%s%s", options[0] ? "," : "",
			         kind->cell->options[k].name);
	kernel.options = options;
	must(cg_kernel_run(stream, &kernel, sizes[kind->shape].rows, sizes[kind->shape].units, args, kind->n), kind->plan->key);
	must(cg_stream_sync(stream), kind->plan->key);
	runs++;
}

static void run_all(const struct cg_cell *cell, int dtype)
{
	static struct kernel_kind kinds[KERNEL_KINDS];
	int n;

	must(kernel_kinds(cell, dtype, kinds, &n), cell->name);
	for (int k = 0; k < n; k++)
		for (int memory = WHOLE; memory <= (kinds[k].shape == CG_SUM ? ADDED : HALF); memory++)
			run(&kinds[k], memory);
	kernel_kinds_close(kinds, n);
	kernels += n;
}

int main(void)
{
	if (cg_open("opencl", &context) || cg_stream_open(context, NULL, &stream)) {
		printf("# %s\n", cg_message());
		return 77;
	}
	for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
		for (int c = 0; cg_cell_name(c) && !cg_supports(context, "lstm_block_cell", dtype); c++)
			run_all(cg_cell_find(cg_cell_name(c)), dtype);
	printf("# %s\n# %ld kernels, %ld runs\n", cg_describe(context), kernels, runs);
	while (n_lent)
		cg_free(context, &lent[--n_lent]);
	cg_stream_close(stream);
	cg_close(context);
	return !kernels;
}
