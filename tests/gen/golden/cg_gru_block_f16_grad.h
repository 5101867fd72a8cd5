/* cg_gru_block_f16_grad: cellgrad emit gru_block --pass grad --dtype f16 --lang c --header */
#ifndef CG_GRU_BLOCK_F16_GRAD_H
#define CG_GRU_BLOCK_F16_GRAD_H

#include <stdint.h>

/* An element of type uint16_t holds the bits of a half. */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * cg_gru_block_s2_f16_grad: the gradient of cell gru_block, stage 2.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	dh           in  uint16_t [rows, units]   adjoint of h
 *	u            in  uint16_t [rows, units]   value that forward saves
 *	c            in  uint16_t [rows, units]   value that forward saves
 *	da_c         out uint16_t [rows, units]   adjoint of a_c
 */
void cg_gru_block_s2_f16_grad(
	int64_t rows, int64_t units,
	const uint16_t *dh, int64_t dh_stride,
	const uint16_t *u, int64_t u_stride,
	const uint16_t *c, int64_t c_stride,
	uint16_t *da_c, int64_t da_c_stride);

/*
 * cg_gru_block_s2_f16_grad_sum_part: partial sums over blocks of 64 rows, for later functions, stage 2.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	da_c         in  uint16_t [rows, units]   adjoint of a_c
 *	partial      out float    [blocks, values, units] partial sums of blocks of rows
 *
 * partial has room for ceil(rows / 64) * 1 * units elements.
 */
void cg_gru_block_s2_f16_grad_sum_part(
	int64_t rows, int64_t units,
	const uint16_t *da_c, int64_t da_c_stride,
	float *partial);

/*
 * cg_gru_block_s2_f16_grad_sum: the sums of partial sums over all blocks of rows, stage 2.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	partial      in  float    [blocks, values, units] partial sums of blocks of rows
 *	db_c         out uint16_t [units]         adjoint of b_c
 *	accumulate   in  int64_t                  1: add to the sums in memory; 0: overwrite them
 *
 * partial has room for ceil(rows / 64) * 1 * units elements.
 */
void cg_gru_block_s2_f16_grad_sum(
	int64_t rows, int64_t units,
	const float *partial,
	uint16_t *db_c,
	int64_t accumulate);

/*
 * cg_gru_block_s1_f16_grad: the gradient of cell gru_block, stage 1.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	h_prev       in  uint16_t [rows, units]   output before the step
 *	dh           in  uint16_t [rows, units]   adjoint of h
 *	r            in  uint16_t [rows, units]   value that forward saves
 *	u            in  uint16_t [rows, units]   value that forward saves
 *	c            in  uint16_t [rows, units]   value that forward saves
 *	dhr          in  float    [rows, units]   adjoint of hr
 *	hr           out uint16_t [rows, units]   operand of the next stage's product
 *	da_r         out uint16_t [rows, units]   adjoint of a_r
 *	da_u         out uint16_t [rows, units]   adjoint of a_u
 *	dh_prev      out float    [rows, units]   adjoint of h_prev, without the part of the recurrent products
 */
void cg_gru_block_s1_f16_grad(
	int64_t rows, int64_t units,
	const uint16_t *h_prev, int64_t h_prev_stride,
	const uint16_t *dh, int64_t dh_stride,
	const uint16_t *r, int64_t r_stride,
	const uint16_t *u, int64_t u_stride,
	const uint16_t *c, int64_t c_stride,
	const float *dhr, int64_t dhr_stride,
	uint16_t *hr, int64_t hr_stride,
	uint16_t *da_r, int64_t da_r_stride,
	uint16_t *da_u, int64_t da_u_stride,
	float *dh_prev, int64_t dh_prev_stride);

/*
 * cg_gru_block_s1_f16_grad_sum_part: partial sums over blocks of 64 rows, for later functions, stage 1.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	da_r         in  uint16_t [rows, units]   adjoint of a_r
 *	da_u         in  uint16_t [rows, units]   adjoint of a_u
 *	partial      out float    [blocks, values, units] partial sums of blocks of rows
 *
 * partial has room for ceil(rows / 64) * 2 * units elements.
 */
void cg_gru_block_s1_f16_grad_sum_part(
	int64_t rows, int64_t units,
	const uint16_t *da_r, int64_t da_r_stride,
	const uint16_t *da_u, int64_t da_u_stride,
	float *partial);

/*
 * cg_gru_block_s1_f16_grad_sum: the sums of partial sums over all blocks of rows, stage 1.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	partial      in  float    [blocks, values, units] partial sums of blocks of rows
 *	db_r         out uint16_t [units]         adjoint of b_r
 *	db_u         out uint16_t [units]         adjoint of b_u
 *	accumulate   in  int64_t                  1: add to the sums in memory; 0: overwrite them
 *
 * partial has room for ceil(rows / 64) * 2 * units elements.
 */
void cg_gru_block_s1_f16_grad_sum(
	int64_t rows, int64_t units,
	const float *partial,
	uint16_t *db_r,
	uint16_t *db_u,
	int64_t accumulate);

#ifdef __cplusplus
}
#endif

#endif
