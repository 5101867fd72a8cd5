/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds which network the tensors of a file belong to, from arguments, metadata, names and shapes, and checks that all of these
 * agree.
 */
#ifndef NETWORK_H
#define NETWORK_H

#include "command/run/op_call.h"
#include "runtime/device/inspect.h"

/* Attributes, from NAME=VALUE or the metadata; absent ones are -1 or NaN, absent sizes 0 (num_proj -1), absent texts NULL. */
struct network_attributes {
	int rnn_mode, direction, input_mode, bias, use_peephole;
	const char *cell, *options, *values, *names, *weights_format;
	int64_t num_layers, num_units, input_size, num_proj, linear_before_reset;
	double forget_bias, cell_clip;
};

enum { NETWORK_NAME = 1024, NETWORK_LINE = 512 };       /* lengths of texts: a tensor's name with its prefix; a network's description */

struct network {
	const struct cg_format *format;
	const char *prefix;
	int gradients;
	struct safetensors file;
	struct call call;                        /* describes the network as an op, whose attributes attribute_text.c reads into `attributes` */
	struct network_attributes attributes;
	struct cg_cell *parsed;                  /* from a .cell file */
	struct cg_value values[CG_PARAMS_MAX];
	char *text;                              /* the memory of the names in `values` */
	const struct safetensors_tensor **index; /* tensors of the file, sorted by name */

	struct cg_rnn_config config;
	struct cg_layout layout;
	int dtype, bias, no_biases;              /* bias: an enum cg_bias; no_biases: no tensors of biases, or bias=none */
	unsigned char **at;                      /* the file's data of each tensor of the layout; NULL: the file lacks it */
};

/* Opens a file of weights. prefix: the text before every name of the network's tensors. The caller closes the network, also after an
 * error. */
int  network_open(struct network *, const struct cg_format *, const char *path, const char *prefix, int gradients);
/* The same as network_open for a file's bytes in memory, which must outlive the network; path: the name of the bytes in messages. */
int  network_parse(struct network *, const struct cg_format *, const char *path, const void *bytes, size_t length);
/* Reads one "NAME=VALUE". */
int  network_word(struct network *, const char *word);
/* Finds the network to which the file's tensors belong. others: 1: the file may have tensors that do not belong to that network. */
int  network_find(struct network *, int others);
void network_close(struct network *);

/* "lstm, num_layers=2, bidirectional, input_size=3, num_units=5" */
const char *network_line(const struct cg_layout *, char line[NETWORK_LINE]);

/* ---- fit.c: the networks that the attributes allow, and how well the file fits each ---- */

struct network_trial {
	struct cg_rnn_config config;
	struct cg_value values[2];
	struct cg_layout layout;
	int no_biases, matched;
	/* problems: the number of tensors that are missing, have another shape or are extra; extra: the number of tensors in the file that
	 * have the prefix but are not the network's */
	int problems, extra;
	int refused;                             /* the error code, if the format cannot hold the network or attribute `names` does not fit */
};
struct network_search {
	struct network *n;
	struct network_trial best, other;        /* best: the network that fits best; other: one that fits as well, if `fits` is above 1 */
	/* fits: how many networks, the best included, fit equally well; 0: in the file a tensor of the best is missing or has another shape */
	int tried, fits;
};

/* Makes field `index`, the list of the file's tensors sorted by name. */
int  network_index(struct network *);
/* Finds the network that fits the file best, and whether another network fits as well. CG_UNSUPPORTED, CG_BAD_ARGUMENT: no network is
 * possible. */
int  network_try_all(struct network *, struct network_search *);
/* Tensor k of the layout, and the name that it has in the file. */
void network_name(const struct network *, const struct cg_layout *, int k, char name[NETWORK_NAME], struct cg_tensor *);
/* Finds the file's tensor of a name; NULL: the file has no tensor of that name. */
const struct safetensors_tensor *network_tensor(const struct network *, const char *name);
/* Does a tensor of the file have the shape that the layout gives it? */
int  network_same_shape(const struct safetensors_tensor *, const struct cg_tensor *);
/* Is the format cellgrad's own single buffer, whose shape says nothing about the sizes? */
int  network_is_buffer(const struct cg_format *);

#endif
