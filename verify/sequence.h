/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The independent reference for ops over whole sequences, BlockLSTM and the CudnnRNN family. This reference is written from
 * TensorFlow's sources and cuDNN's documents. reference.h has the reference for ops of one step.
 */
#ifndef SEQUENCE_H
#define SEQUENCE_H

#include "verify/reference.h"

/*
 * BlockLSTM, BlockLSTMV2 and their gradients. In the member `cell`, B is the number of rows of one step, and x, x_grad, all outputs of
 * forward (also as inputs of grad), cs_grad, h_grad and dgates are [T, B, .]. h and cs are rounded to the dtype at every step, and so are
 * their gradients, so the first seq_len_max steps equal as many calls of the cell. From step seq_len_max on all outputs are zero and no
 * input is read.
 */
struct ref_block_lstm {
	struct ref_lstm_block cell;
	int64_t T, seq_len_max;         /* seq_len_max: 0..T */
	struct ref_in h;                /* [T, B, U], saved by forward, read by grad */
};

int ref_block_lstm_forward(const struct ref_block_lstm *p);
int ref_block_lstm_grad(const struct ref_block_lstm *p);

enum ref_mode { REF_LSTM, REF_GRU, REF_RNN_TANH, REF_RNN_RELU };
enum ref_input { REF_LINEAR, REF_SKIP, REF_AUTO };      /* REF_AUTO: REF_SKIP where I = U, else REF_LINEAR */

/*
 * CudnnRNN, CudnnRNNV2, CudnnRNNV3 and their gradients. Shapes are given for time_major; without it the sequences are [B, T, .] and,
 * unless states_major, the states are [B, L*D, .]. D is 1, or 2 when bidirectional; H is P where P > 0, else U. The gates are i f g o of
 * an LSTM, r z n of a GRU.
 */
struct ref_rnn {
	int64_t T, B, I, U, L, P;       /* P: 0, no projection; or at most U, and then mode is REF_LSTM */
	int mode, dtype, bidirectional;
	int input_mode;                 /* with REF_SKIP, I is U */
	int time_major, states_major, reverse, is_training;       /* states_major: states are [L*D, B, .] even without time_major */
	int peephole;                   /* REF_LSTM only: the vectors p_i p_f p_o */
	int accumulate;                 /* 1: params_backprop gets the gradient plus params_backprop_old */
	int by_vendor;                  /* 1, for route cudnn: the same values with other bounds, by rules f to h of reference_rnn.c */
	const int32_t *lengths;         /* [B], each 0..T, in any order; NULL: all T */

	double dropout;                 /* dropout rate between layers, 0 to 1; only with is_training */
	uint64_t key, call;             /* for dropout's generator: key: that of ref_dropout_key(); call: the call's counter */
	int64_t first_step;             /* number of the first step, where the sequence is a part of a longer one */

	struct ref_in input;            /* [T, B, I] */
	struct ref_in input_h, input_c; /* [L*D, B, H], [L*D, B, U]; all members with _c are for REF_LSTM only */
	struct ref_in params;           /* [ref_rnn_size] */

	/* read by backward */
	struct ref_in output_backprop;                          /* [T, B, D*H], ignored in the padding */
	struct ref_in output_h_backprop, output_c_backprop;     /* [L*D, B, H], [L*D, B, U] */
	struct ref_in params_backprop_old;

	/* written by forward; output is zero in the padding */
	struct ref_out output, output_h, output_c;

	/* written by backward; input_backprop is zero in the padding */
	struct ref_out input_backprop, input_h_backprop, input_c_backprop, params_backprop;
};

/* ref_rnn_forward and ref_rnn_backward return 0, or -1 if memory is exhausted; T = 0 and B = 0 are legal. ref_rnn_backward runs the
 * forward pass itself. */
int ref_rnn_forward(const struct ref_rnn *p);
int ref_rnn_backward(const struct ref_rnn *p);

/*
 * The layout of params: first all weights, for each pseudo-layer in turn (l0 forward, l0 backward, l1 ...), in the order of their ids;
 * then all biases, in the same order; then, with peepholes, all vectors. Ids, with G gates: 0 to G-1 are the input matrices and bW, G to
 * 2G-1 the recurrent matrices and bR, 2G the projection, 2G+1 and on the vectors.
 */
enum ref_part { REF_WEIGHT, REF_BIAS, REF_VECTOR };

struct ref_region {
	int64_t offset, rows, columns;  /* rows, columns: of a matrix W, used as W x; a vector has one row; rows = 0: no region */
};

int64_t ref_rnn_size(const struct ref_rnn *p);
struct ref_region ref_rnn_region(const struct ref_rnn *p, int64_t pseudo_layer, int id, int part);

/*
 * The region of tensor n of TensorFlow's canonical list of weights or of biases. ref_rnn_canonical_count says how many tensors the list
 * has. The vectors of the peepholes are in neither list, and both functions below that copy tensors leave the vectors alone.
 */
int64_t ref_rnn_canonical_count(const struct ref_rnn *p, int part);
struct ref_region ref_rnn_canonical(const struct ref_rnn *p, int64_t n, int part);
void ref_rnn_to_canonical(const struct ref_rnn *p, const double *params, double *const *weights, double *const *biases);
void ref_rnn_from_canonical(const struct ref_rnn *p, const double *const *weights, const double *const *biases,
	double *params);

/* Dropout's random generator: Philox4x32 with 10 rounds. The arrays ctr and out may be the same. */
void ref_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);
uint64_t ref_dropout_key(int64_t seed, int64_t seed2);
/* The key of all dropout masks of one layer's output in one call. */
uint64_t ref_dropout_layer_key(uint64_t key, uint64_t call, int64_t layer);
/* The random word that decides whether dropout drops an element. unit: the element's index in the layer's output of D*H; t, b: its time
 * and row, counted from the start of the whole sequence and batch. */
uint32_t ref_dropout_word(uint64_t layer_key, int64_t t, int64_t b, int64_t unit);
int ref_dropout_drops(uint32_t word, double dropout);

#endif
