/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the calls that the cuda backend makes of the driver, NVRTC, cuBLAS and cuDNN: counts them, makes one fail, and counts what was
 * created and not destroyed.
 */
#ifndef CUDA_WATCH_H
#define CUDA_WATCH_H

#include "backends/cuda/library.h"
#include "tests/backends/driver_watch.h"

/* The libraries' own functions, which the watching functions call. */
extern struct cg_cu driver;
extern struct cg_nvrtc compiler;
extern struct cg_cublas blas;
extern struct cg_cublaslt lt;
extern struct cg_cudnn dnn;              /* all functions are NULL where there is no cuDNN */

/* The number of calls of each function since forget() or forget_calls(). */
struct calls {
#define CU_CALL(name, parameters, names) long cu##name;
#define NVRTC_CALL(name, parameters, names) long nvrtc##name;
#define CUBLAS_CALL(name, parameters, names) long cublas##name;
#define CUBLASLT_CALL(name, parameters, names) long cublasLt##name;
#define CUDNN_CALL(name, parameters, names) long cudnn##name;
#include "backends/cuda/cuda.fn"
};
extern struct calls seen;

extern int closing;                      /* not 0: no call is made to fail any more, nor counted in `made` */
extern long balance;                     /* objects created less objects destroyed since forget() or forget_calls() */

/* Puts the watching functions before all functions that return a code, but for the two for the text of an error; returns 0 if no device
   opens. */
int watch(void);
/* Sets all counts to 0 and lets no call fail. */
void forget_calls(void);
/* Calls forget_calls(), and installs the watching functions again. */
void forget(void);

/* Calls forget() and opens a device; without one the test is skipped with the reason, or fails if the backend is required. */
int opens(struct cg_context **context);

int open_tensors(struct tensors *);
/* Opens a device with cuDNN; without cuDNN the test is skipped. */
int open_with_cudnn(struct tensors *);
/* The setup function for cmocka: calls watch(). */
int set_up(void **state);

#endif
