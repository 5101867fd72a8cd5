/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the network whose weights the tensors of a file are, from arguments, metadata, names and shapes, and checks that all of
 * these agree.
 */
#ifndef NETWORK_H
#define NETWORK_H

#include "command/run/op_call.h"
#include "runtime/device/inspect.h"

/* NAME=VALUE; what is not given is -1 or NaN, of sizes 0, of texts NULL. */
struct network_attributes {
	int rnn_mode, direction, input_mode, bias, use_peephole;
	const char *cell, *options, *values, *names, *weights_format;
	int64_t num_layers, num_units, input_size, num_proj, linear_before_reset;
	double forget_bias, cell_clip;
};

enum { NETWORK_NAME = 1024, NETWORK_LINE = 512 };       /* of a tensor, with its prefix; of a network's description */

struct network {
	const struct cg_format *format;
	const char *prefix;
	int gradients;
	struct safetensors file;
	struct call call;                        /* the attributes, as attribute_text.c reads them */
	struct network_attributes attributes;
	struct cg_cell *parsed;                  /* of a .cell */
	struct cg_value values[CG_PARAMS_MAX];
	char *text;                              /* their names are in it */
	const struct safetensors_tensor **index; /* the file's, by name */

	struct cg_rnn_config config;
	struct cg_layout layout;
	int dtype, bias, no_biases;              /* bias: an enum cg_bias; no_biases: there are no tensors of biases */
	unsigned char **at;                      /* by tensor of the layout */
};

/* The words in front of it; prefix: what stands before every name of the network's.  The caller closes it in any case. */
int  network_open(struct network *, const struct cg_format *, const char *path, const char *prefix, int gradients);
/* The same for bytes in memory, which must outlive it; path: their name in messages. */
int  network_parse(struct network *, const struct cg_format *, const char *path, const void *bytes, size_t length);
/* "NAME=VALUE" */
int  network_word(struct network *, const char *word);
/* All that is to be known.  others: tensors of no network may be there. */
int  network_find(struct network *, int others);
void network_close(struct network *);

/* "lstm, 2 layers, bidirectional, input_size=3, num_units=5" */
const char *network_line(const struct cg_layout *, char line[NETWORK_LINE]);

/* ---- fit.c: which networks the attributes allow, and how the file fits them ---- */

struct network_trial {
	struct cg_rnn_config config;
	struct cg_value values[2];
	struct cg_layout layout;
	int no_biases, problems, matched;
	int refused;                             /* there is no such network in the format: this code, and the message says why */
};
struct network_search {
	struct network *n;
	struct network_trial best, other;                /* other: one that fits as well */
	int tried, fits;
};

/* Sorts the file's tensors by name. */
int  network_index(struct network *);
/* The best of them, and whether there is another as good.  CG_UNSUPPORTED, CG_BAD_ARGUMENT: there is none. */
int  network_try_all(struct network *, struct network_search *);
/* Tensor k in the format, and its name in the file. */
void network_name(const struct network *, const struct cg_layout *, int k, char name[NETWORK_NAME], struct cg_tensor *);
/* NULL: not in the file. */
const struct safetensors_tensor *network_tensor(const struct network *, const char *name);
/* Has it the shape? */
int  network_same_shape(const struct safetensors_tensor *, const struct cg_tensor *);
/* Is it the one buffer of ours, which says nothing of its sizes? */
int  network_is_buffer(const struct cg_format *);

#endif
