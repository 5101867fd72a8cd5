/* cg_lstm_block_f32_forward: cellgrad emit lstm_block --pass forward --dtype f32 --lang c --header */
#ifndef CG_LSTM_BLOCK_F32_FORWARD_H
#define CG_LSTM_BLOCK_F32_FORWARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * cg_lstm_block_f32_forward: the forward step of cell lstm_block.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	a_i          in  float    [rows, units]   pre-activation: x W + h R + b
 *	a_ci         in  float    [rows, units]   pre-activation: x W + h R + b
 *	a_f          in  float    [rows, units]   pre-activation: x W + h R + b
 *	a_o          in  float    [rows, units]   pre-activation: x W + h R + b
 *	cs_prev      in  float    [rows, units]   state before the step
 *	i            out float    [rows, units]   value that forward saves
 *	ci           out float    [rows, units]   value that forward saves
 *	f            out float    [rows, units]   value that forward saves
 *	o            out float    [rows, units]   value that forward saves
 *	cs           out float    [rows, units]   state after the step, which forward saves
 *	co           out float    [rows, units]   value that forward saves
 *	h            out float    [rows, units]   output after the step, which forward saves
 *	forget_bias  in  float                    param, which the caller rounds to f32
 *	cell_clip    in  float                    param, which the caller rounds to f32
 */
void cg_lstm_block_f32_forward(
	int64_t rows, int64_t units,
	const float *a_i, int64_t a_i_stride,
	const float *a_ci, int64_t a_ci_stride,
	const float *a_f, int64_t a_f_stride,
	const float *a_o, int64_t a_o_stride,
	const float *cs_prev, int64_t cs_prev_stride,
	float *i, int64_t i_stride,
	float *ci, int64_t ci_stride,
	float *f, int64_t f_stride,
	float *o, int64_t o_stride,
	float *cs, int64_t cs_stride,
	float *co, int64_t co_stride,
	float *h, int64_t h_stride,
	float forget_bias,
	float cell_clip);

#ifdef __cplusplus
}
#endif

#endif
