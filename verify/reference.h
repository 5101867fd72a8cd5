/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The independent reference of the block ops: each answer in long double, with a bound of the error that a correct implementation may have.
 * The reference is written from the papers and TensorFlow's sources and shares no code with the rest of the tree. In verify/ only the files
 * of this reference and of sequence.h write gradients by hand. trial.c runs an implementation and compares it; cases.c chooses the cases.
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stdint.h>

enum ref_dtype { REF_F32, REF_F64, REF_F16, REF_BF16 };

/* Order of the column blocks of w, b and dgates: BlockLSTM has ICFO, BlockLSTMV2 has IFCO. */
enum ref_gates { REF_ICFO, REF_IFCO };

/*
 * An input of the reference. d: exact numbers, representable in the dtype. Where d is NULL, v is an earlier result that is not rounded,
 * and e its bound; e = NULL: v is exact. d, v and e all NULL: the input is zeros.
 */
struct ref_in {
	const double *d;
	const long double *v, *e;
};

struct val;     /* bound.h */

/* An output of the reference: its values and bounds in the caller's memory; NULL: it is not computed. A weight gradient may share memory
 * with the old values, its *_old. */
struct ref_out {
	long double *v, *e;
};

/* One step of LSTMBlockCell, and its gradient. Matrices are row-major; w has K = I + U rows, those for x first. */
struct ref_lstm_block {
	int64_t B, I, U;
	int dtype, gates;
	int use_peephole;
	int accumulate;                 /* 1: the weight gradients are added to the old values below, *_old */
	double forget_bias, cell_clip;  /* both scalars are rounded to the dtype before use; cell_clip <= 0: no clipping */

	struct ref_in x;                        /* [B, I] */
	struct ref_in cs_prev, h_prev;          /* [B, U] */
	struct ref_in w;                        /* [K, 4U] */
	struct ref_in wci, wcf, wco;            /* [U], read with use_peephole only */
	struct ref_in b;                        /* [4U] */

	/* read by grad */
	struct ref_in i, cs, f, o, ci, co;      /* [B, U], saved by forward */
	struct ref_in cs_grad, h_grad;          /* [B, U] */
	struct ref_in w_grad_old, wci_grad_old, wcf_grad_old, wco_grad_old, b_grad_old;

	/* written by forward, [B, U] */
	struct ref_out i_out, cs_out, f_out, o_out, ci_out, co_out, h_out;

	/* written by grad */
	struct ref_out x_grad;                          /* [B, I] */
	struct ref_out cs_prev_grad, h_prev_grad;       /* [B, U] */
	struct ref_out dgates;                          /* [B, 4U], gradients of the gate pre-activations */
	struct ref_out w_grad;                          /* [K, 4U] */
	struct ref_out wci_grad, wcf_grad, wco_grad;    /* [U], zeros (or the old sums) without use_peephole */
	struct ref_out b_grad;                          /* [4U] */
};

/* One step of GRUBlockCell, and its gradient. Column blocks of w_ru, b_ru, d_r_bar_u_bar: r, u. */
struct ref_gru_block {
	int64_t B, I, U;
	int dtype;
	int accumulate;

	struct ref_in x;                /* [B, I] */
	struct ref_in h_prev;           /* [B, U] */
	struct ref_in w_ru, w_c;        /* [K, 2U], [K, U] */
	struct ref_in b_ru, b_c;        /* [2U], [U] */

	/* read by grad */
	struct ref_in r, u, c;          /* [B, U], saved by forward */
	struct ref_in d_h;              /* [B, U] */
	struct ref_in d_w_ru_old, d_w_c_old, d_b_ru_old, d_b_c_old;

	/* written by forward, [B, U] */
	struct ref_out r_out, u_out, c_out, h_out;

	/* written by grad */
	struct ref_out d_x;             /* [B, I] */
	struct ref_out d_h_prev;        /* [B, U] */
	struct ref_out d_c_bar;         /* [B, U] */
	struct ref_out d_r_bar_u_bar;   /* [B, 2U] */
	struct ref_out d_w_ru, d_w_c;   /* [K, 2U], [K, U] */
	struct ref_out d_b_ru, d_b_c;   /* [2U], [U] */
};

/* The forward and grad functions return 0, or -1 where memory is exhausted. B = 0, a batch without rows, is legal. */
int ref_lstm_block_forward(const struct ref_lstm_block *p);
int ref_lstm_block_grad(const struct ref_lstm_block *p);
/* Computes the weight gradients alone, from dgates [B, 4U], whose bounds include the error of storing dgates. */
void ref_lstm_block_sums(const struct ref_lstm_block *p, const struct val *dgates);
int ref_gru_block_forward(const struct ref_gru_block *p);
int ref_gru_block_grad(const struct ref_gru_block *p);

/* Rounds x to the nearest value of the dtype, ties to even; subnormals, overflow to infinity and NaN follow IEEE 754. */
double ref_round(int dtype, double x);

/* Adds to n bounds the error of storing the values in the dtype (rule 7 of bound.h). */
void ref_read_back(int dtype, int64_t n, struct ref_out a);

/* The largest error of a right answer: 2 * bound, plus the error of rounding value to the dtype; infinity where overflow or an infinite
 * bound allows any answer; 0 for any other value that is not finite. */
long double ref_tolerance(int dtype, long double value, long double bound);

/*
 * Is `got` a right answer? `got` is right if it differs from `value` by at most ref_tolerance(), if that is infinite, if `value` is an
 * infinity and `got` is the same, or if both are NaN.
 */
int ref_within(int dtype, long double value, long double bound, double got);

#endif
