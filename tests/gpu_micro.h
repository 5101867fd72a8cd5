/* SPDX-License-Identifier: Apache-2.0 */
/* The costs of a persistent recurrence, measured: hand-over between blocks and within a cluster, a broadcast through L2, and where
 * the elements of a matrix instruction lie.  0: measured, or the device has none of it, which is said; 1: something is not as it
 * should. */
#ifndef GPU_MICRO_H
#define GPU_MICRO_H

int gpu_micro(const char *path);

#endif
