/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second half of `cellgrad demo`: a model of characters that learns a text through the library's networks and their
 * gradients, within a time limit, and what is shown of it.
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
	int svg, svg_named;                      /* to write one; under a name that the user gave */
	struct file file;
	int json;
	struct print_colour colour;
};

/* Words as on the command line, NULL: the default.  An SVG file that the user named is checked here; TRAIN_SVG is written
 * where it can be.  CG_BAD_ARGUMENT or CG_FILE, before any work. */
int train_read(struct train_plan *, const char *steps, const char *seconds, const char *seed, const char *svg);
/* Trains and prints; goes on on the other context, unless that is NULL, when half of the steps are done.  *failed: all steps
 * are done, and the model is no better than a table of pairs. */
int train(struct train_plan *, struct cg_context *, struct cg_context *other, int *failed);

#endif
