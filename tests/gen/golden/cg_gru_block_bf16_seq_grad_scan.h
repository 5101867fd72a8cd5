/* cg_gru_block_bf16_seq_grad_scan: cellgrad emit gru_block --shape scan --pass seq_grad --dtype bf16 --lang c --header */
#ifndef CG_GRU_BLOCK_BF16_SEQ_GRAD_SCAN_H
#define CG_GRU_BLOCK_BF16_SEQ_GRAD_SCAN_H

#include <stddef.h>
#include <stdint.h>

/* An element of type uint16_t holds the upper half of a float's bits. */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * cg_gru_block_bf16_seq_grad_scan:
 * all steps of a sequence of one direction of one layer, the gradient of cell gru_block in each.
 *
 * All memory is the caller's, and no arrays overlap.  [steps, rows, units] are matrices, one of each step: from row to
 * row are NAME_stride elements, from step to step NAME_step; for a direction that begins at the last step NAME points
 * to that step, and NAME_step is negative.  An input that may be NULL, and is, reads as zeros; an output that may be
 * NULL, and is, is not written.
 *
 * The units are cut into shares, one for each thread.  Each share is computed by a call with the share's number, from 0
 * on, and the same struct; these calls run at the same time, in as many threads as there are shares.  Between phases
 * the call of each share runs meet(with), a barrier, which returns when the calls of all shares have run it.  With one
 * share meet may be NULL.
 * _bytes: how many bytes `work` must have for the sizes in the struct, whose pointers need not be set yet.
 * _pack: copies a share's part of R to `work`, in the order in which the loops read it; to be called before the first
 * call of the function, and again when R has changed.
 * The sum of an element is one chain in the order of k, so that the number of shares changes no bit.
 */
struct cg_gru_block_bf16_seq_grad_scan {
	int64_t steps;                                   /* number of steps of the sequence */
	int64_t rows;                                    /* number of rows of the batch */
	int64_t units;                                   /* number of units of the layer */
	int64_t shares;                                  /* number of shares of the units, one for each thread, at least 1 */
	const uint16_t *R_s1; int64_t R_s1_stride;       /* in     [2 units, units]  weights of a_r a_u */
	const uint16_t *R_s2; int64_t R_s2_stride;       /* in     [units, units]  weights of a_c */
	int64_t by_input;                                /* 1: R is transposed, as in TensorFlow; 0: as in PyTorch */
	void *work;                                      /* scratch memory of as many bytes as ..._bytes() returns, aligned as by malloc */
	uint16_t *dgates; int64_t dgates_stride, dgates_step; /* out    [steps, rows, 3 units]  da_r da_u da_c */
	const float *dh; int64_t dh_stride;              /* in     [rows, units]  adjoint of h after the last step; may be NULL */
	const uint16_t *dh_out; int64_t dh_out_stride, dh_out_step; /* in     [steps, rows, units]  adjoint of the output, from the layer above; may be NULL */
	const uint16_t *u; int64_t u_stride, u_step;     /* in     [steps, rows, units]  value that forward saves */
	const uint16_t *c; int64_t c_stride, c_step;     /* in     [steps, rows, units]  value that forward saves */
	const uint16_t *h_first; int64_t h_first_stride; /* in     [rows, units]  value before the first step; may be NULL */
	const uint16_t *h; int64_t h_stride, h_step;     /* in     [steps, rows, units]  value after each step */
	const uint16_t *r; int64_t r_stride, r_step;     /* in     [steps, rows, units]  value that forward saves */
	uint16_t *hr; int64_t hr_stride, hr_step;        /* out    [steps, rows, units]  operand of the next stage's product; may be NULL */
	float *dh_prev; int64_t dh_prev_stride;          /* out    [rows, units]  adjoint of h_first; may be NULL */
};

size_t cg_gru_block_bf16_seq_grad_scan_bytes(const struct cg_gru_block_bf16_seq_grad_scan *a);
void cg_gru_block_bf16_seq_grad_scan_pack(const struct cg_gru_block_bf16_seq_grad_scan *a, int64_t share);
void cg_gru_block_bf16_seq_grad_scan(const struct cg_gru_block_bf16_seq_grad_scan *a, int64_t share,
	void (*meet)(void *), void *with);

#ifdef __cplusplus
}
#endif

#endif
