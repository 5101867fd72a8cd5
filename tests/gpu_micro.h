/* SPDX-License-Identifier: Apache-2.0 */
/* Measures, with the kernels of the CUDA source `path`, the costs of a persistent recurrence: handing data over between blocks and within
   a cluster, and a broadcast through L2; and checks the places of the elements in a matrix instruction. Returns 0 when all that the
   device has was measured, and prints what the device lacks; 1 when a call fails or a result is wrong. */
#ifndef GPU_MICRO_H
#define GPU_MICRO_H

int gpu_micro(const char *path);

#endif
