/* SPDX-License-Identifier: Apache-2.0 */
/* A row for each backend, in the order in which backends are tried if neither the caller nor CELLGRAD_BACKEND names one. */
#ifdef CG_CUDA
CG_BACKEND(cuda)
#endif
CG_BACKEND(opencl)
CG_BACKEND(cpu)
