/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last part of `cellgrad demo`: trains a model of characters by the library's networks and their gradients, within a time
 * limit, and prints the progress.
 */
#ifndef TRAIN_H
#define TRAIN_H

#include "command/file.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

enum { TRAIN_STEPS = 800, TRAIN_SECONDS = 60, TRAIN_SEED = 1 };
#define TRAIN_SVG "cellgrad-demo.svg"

struct train_plan {
	int steps;
	double seconds;
	int64_t seed;
	const struct cg_cell *cell;              /* the model's cell; NULL: the LSTM with peepholes */
	int svg, svg_named;                      /* svg: write an SVG; svg_named: the user named its file */
	struct file file;
	int json;
	struct print_colour colour;
};

/* Reads the values of the command's options; NULL: the default. train_read checks an SVG file that the user named; if the user named none,
 * train writes the file TRAIN_SVG if possible. CG_BAD_ARGUMENT: a value is wrong. CG_FILE: the SVG file cannot be written. */
int train_read(struct train_plan *, const char *steps, const char *seconds, const char *seed, const char *svg);
/* Trains the model and prints the progress. The second half of the steps runs in the context `other`, unless `other` is NULL. *failed: 1:
 * all steps are done, and the loss on the part held out is not below its target, the lesser of text_pair_entropy() and text_pair_loss(). */
int train(struct train_plan *, struct cg_context *, struct cg_context *other, int *failed);

#endif
