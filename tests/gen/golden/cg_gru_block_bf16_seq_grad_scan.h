/* cg_gru_block_bf16_seq_grad_scan: cellgrad emit gru_block --shape scan --pass seq_grad --dtype bf16 --lang c --header */
#ifndef CG_GRU_BLOCK_BF16_SEQ_GRAD_SCAN_H
#define CG_GRU_BLOCK_BF16_SEQ_GRAD_SCAN_H

#include <stddef.h>
#include <stdint.h>

/* An element of uint16_t is the upper half of a float's bits. */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * cg_gru_block_bf16_seq_grad_scan:
 * all steps of a sequence of one direction of one layer, the gradient of cell gru_block in each.
 *
 * Memory is the caller's, and none of it overlaps.  [steps, rows, units] are matrices, one of each step: from row to
 * row are NAME_stride elements, from step to step NAME_step; for a direction that begins at the last step NAME points
 * to that one, and NAME_step is negative.  An input that may be NULL is zeros then; such an output is not written.
 *
 * The units are cut into shares.  Each is computed by a call with its number, from 0 on, and the same struct; the calls
 * run at the same time, in as many threads as there are shares.  Between phases each calls meet(with), a barrier: it
 * returns when all have called it.  With one share it may be NULL.
 * _bytes: how long `work` has to be for the sizes in the struct, which need no pointers yet.
 * _pack: copies a share's part of R to `work`, as the loops read it: before the first call, and when R has changed.
 * The sum of an element is one chain in the order of k, so that the number of shares changes no bit.
 */
struct cg_gru_block_bf16_seq_grad_scan {
	int64_t steps;                                   /* of the sequence */
	int64_t rows;                                    /* of the batch */
	int64_t units;                                   /* of the layer */
	int64_t shares;                                  /* of the units; 1 at least */
	const uint16_t *R_s1; int64_t R_s1_stride;       /* in     [2 units, units]  weights of a_r a_u */
	const uint16_t *R_s2; int64_t R_s2_stride;       /* in     [units, units]  weights of a_c */
	int64_t by_input;                                /* 1: R is transposed, as in TensorFlow; 0: as in PyTorch */
	void *work;                                      /* of _bytes bytes, aligned as by malloc */
	uint16_t *dgates; int64_t dgates_stride, dgates_step; /* out    [steps, rows, 3 units]  da_r da_u da_c */
	const float *dh; int64_t dh_stride;              /* in     [rows, units]  adjoint of h after the last step; may be NULL */
	const uint16_t *dh_out; int64_t dh_out_stride, dh_out_step; /* in     [steps, rows, units]  its adjoint from the layer above; may be NULL */
	const uint16_t *u; int64_t u_stride, u_step;     /* in     [steps, rows, units]  saved by forward */
	const uint16_t *c; int64_t c_stride, c_step;     /* in     [steps, rows, units]  saved by forward */
	const uint16_t *h_first; int64_t h_first_stride; /* in     [rows, units]  before the first step; may be NULL */
	const uint16_t *h; int64_t h_stride, h_step;     /* in     [steps, rows, units]  after each step */
	const uint16_t *r; int64_t r_stride, r_step;     /* in     [steps, rows, units]  saved by forward */
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
