/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a kernel of TensorFlow: reads and checks the attributes of its op.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/tensorflow/tf_op.h"

enum { WORD = 32 };

/* The attributes of an op, with TensorFlow's types; an attribute that the op does not have keeps its value from `absent` below. */
struct given {
	TF_DataType T, S;
	char rnn_mode[WORD], input_mode[WORD], direction[WORD];
	float dropout, forget_bias, cell_clip;
	int64_t seed, seed2, num_proj, num_params, num_params_weights, num_params_biases;
	TF_Bool is_training, time_major, use_peephole;
};

static const struct given absent = {
	.T = TF_FLOAT, .S = TF_INT32, .rnn_mode = "lstm", .input_mode = "linear_input", .direction = "unidirectional",
	.is_training = 1, .time_major = 1
};

enum kind { TYPE, WORDS, REAL, WHOLE, TRUTH };

#define ROW(name, kind) { #name, kind, offsetof(struct given, name) }
static const struct { const char *name; enum kind kind; size_t at; } attributes[] = {
	ROW(T, TYPE), ROW(S, TYPE), ROW(rnn_mode, WORDS), ROW(input_mode, WORDS), ROW(direction, WORDS), ROW(dropout, REAL),
	ROW(forget_bias, REAL), ROW(cell_clip, REAL), ROW(seed, WHOLE), ROW(seed2, WHOLE), ROW(num_proj, WHOLE), ROW(num_params, WHOLE),
	ROW(num_params_weights, WHOLE), ROW(num_params_biases, WHOLE), ROW(is_training, TRUTH), ROW(time_major, TRUTH),
	ROW(use_peephole, TRUTH)
};

/* The words of TensorFlow's attributes by their numbers in this plugin; each list ends with NULL. */
static const char *const modes[] = { "lstm", "gru", "rnn_tanh", "rnn_relu", NULL };
static const char *const input_modes[] = { [CG_LINEAR] = "linear_input", [CG_SKIP] = "skip_input", [CG_AUTO] = "auto_select", NULL };
static const char *const directions[] = { "unidirectional", "bidirectional", NULL };
static const struct { TF_DataType type; int dtype; size_t bytes; } types[] = {
	{ TF_FLOAT, CG_F32, 4 }, { TF_DOUBLE, CG_F64, 8 }, { TF_HALF, CG_F16, 2 }, { TF_BFLOAT16, CG_BF16, 2 }
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void read_one(TF_OpKernelConstruction *c, const char *name, enum kind kind, void *to, TF_Status *s)
{
	switch (kind) {
	case TYPE:
		cg_tf.OpKernelConstruction_GetAttrType(c, name, to, s);
		break;
	case WORDS:
		/* TensorFlow writes no final 0 after a word that fills the buffer, so the buffer is zeroed first. */
		memset(to, 0, WORD);
		cg_tf.OpKernelConstruction_GetAttrString(c, name, to, WORD - 1, s);
		break;
	case REAL:
		cg_tf.OpKernelConstruction_GetAttrFloat(c, name, to, s);
		break;
	case WHOLE:
		cg_tf.OpKernelConstruction_GetAttrInt64(c, name, to, s);
		break;
	case TRUTH:
		cg_tf.OpKernelConstruction_GetAttrBool(c, name, to, s);
		break;
	}
}

/* Reads those attributes of the list `attributes` that the op has.  If an attribute cannot be read, returns 0, and the status has
 * TensorFlow's message. */
static int read_all(TF_OpKernelConstruction *c, struct given *given, TF_Status *s)
{
	for (size_t k = 0; k < COUNT(attributes); k++) {
		int is_there = cg_tf.OpKernelConstruction_HasAttr(c, attributes[k].name, s);

		if (cg_tf.GetCode(s) == TF_OK && is_there)
			read_one(c, attributes[k].name, attributes[k].kind, (char *)given + attributes[k].at, s);
		if (cg_tf.GetCode(s) != TF_OK)
			return 0;
	}
	return 1;
}

/* Sets the status to a message that says what is wrong with an attribute's value. */
static void refuse(TF_Status *s, const struct cg_tf_op *op, const char *name, const char *expected, const char *got)
{
	char words[256];

	snprintf(words, sizeof words, "cellgrad: %s: %s: expected %s, got '%s'", op->name, name, expected, got);
	cg_tf.SetStatus(s, TF_INVALID_ARGUMENT, words);
}

static int set_type(struct cg_tf_kernel *k, const struct given *given, TF_Status *s)
{
	char got[16];

	for (size_t i = 0; i < COUNT(types); i++)
		if (types[i].type == given->T) {
			k->type = given->T;
			k->dtype = k->config.dtype = types[i].dtype;
			k->element = types[i].bytes;
			return 1;
		}
	snprintf(got, sizeof got, "%d", (int)given->T);
	refuse(s, k->op, "T", "half, bfloat16, float or double", got);
	return 0;
}

/* The number of a word in a list; -1: the word is not in the list. */
static int find_word(const char *const *words, const char *word)
{
	for (int k = 0; words[k]; k++)
		if (!strcmp(words[k], word))
			return k;
	return -1;
}

static int set_words(struct cg_tf_kernel *k, const struct given *given, TF_Status *s)
{
	int mode = find_word(modes, given->rnn_mode);

	k->config.input_mode = find_word(input_modes, given->input_mode);
	k->config.bidirectional = find_word(directions, given->direction);
	if (mode < 0)
		refuse(s, k->op, "rnn_mode", "lstm, gru, rnn_tanh or rnn_relu", given->rnn_mode);
	else if (k->config.input_mode < 0)
		refuse(s, k->op, "input_mode", "linear_input, skip_input or auto_select", given->input_mode);
	else if (k->config.bidirectional < 0)
		refuse(s, k->op, "direction", "unidirectional or bidirectional", given->direction);
	else {
		k->config.cell = cg_cell_find(given->rnn_mode);
		k->has_state = mode == 0;
		return 1;
	}
	return 0;
}

static void set_numbers(struct cg_tf_kernel *k, const struct given *given)
{
	k->config.dropout = given->dropout;
	k->config.seed = (uint64_t)given->seed << 32 | (uint32_t)given->seed2;
	/* Modes other than lstm have no projection; in these modes TensorFlow's forward and backward kernels ignore num_proj, too. */
	k->config.proj = k->has_state ? given->num_proj : 0;
	k->config.training = given->is_training != 0;
	k->config.time_major = given->time_major != 0;
	k->S = given->S;
	k->n_weights = given->num_params ? given->num_params : given->num_params_weights;
	k->n_biases = given->num_params ? given->num_params : given->num_params_biases;
	k->forget_bias = given->forget_bias;
	k->cell_clip = given->cell_clip;
	k->use_peephole = given->use_peephole != 0;
	atomic_init(&k->counter, 0);
}

struct cg_tf_kernel *cg_tf_kernel_create(TF_OpKernelConstruction *construction, const struct cg_tf_op *op)
{
	struct cg_tf_kernel *k = calloc(1, sizeof *k);
	TF_Status *s = cg_tf.NewStatus();
	struct given given = absent;

	if (!k)
		cg_tf.SetStatus(s, TF_RESOURCE_EXHAUSTED, "cellgrad: no memory for a kernel");
	else {
		k->op = op;
		cg_rnn_config_init(&k->config, sizeof k->config);
		if (read_all(construction, &given, s) && set_type(k, &given, s) && set_words(k, &given, s))
			set_numbers(k, &given);
	}
	if (cg_tf.GetCode(s) != TF_OK)
		cg_tf.OpKernelConstruction_Failure(construction, s);
	cg_tf.DeleteStatus(s);
	return k;
}

void cg_tf_kernel_destroy(void *kernel)
{
	free(kernel);
}
