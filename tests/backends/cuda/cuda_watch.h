/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the calls that the cuda backend makes of the driver, NVRTC, cuBLAS and cuDNN: counts them, makes one fail, and checks that
 * everything created was destroyed.
 */
#ifndef CUDA_WATCH_H
#define CUDA_WATCH_H

#include "backends/cuda/library.h"
#include "tests/backends/driver_watch.h"

/* The libraries themselves. */
extern struct cg_cu driver;
extern struct cg_nvrtc compiler;
extern struct cg_cublas blas;
extern struct cg_cublaslt lt;
extern struct cg_cudnn dnn;              /* all NULL where there is none */

/* The number of calls since forget(). */
struct calls {
#define CU_CALL(name, parameters, names) long cu##name;
#define NVRTC_CALL(name, parameters, names) long nvrtc##name;
#define CUBLAS_CALL(name, parameters, names) long cublas##name;
#define CUBLASLT_CALL(name, parameters, names) long cublasLt##name;
#define CUDNN_CALL(name, parameters, names) long cudnn##name;
#include "backends/cuda/cuda.fn"
};
extern struct calls seen;

extern int closing;                      /* nothing fails any more, and is counted */
extern long balance;                     /* what was made and not given back */

/* Puts itself in front of all calls; 0 where there is no driver, or no device. */
int watch(void);
/* No call was made. */
void forget_calls(void);
/* The same, and all calls are watched as at first. */
void forget(void);

/* Opens a device, or skips this test with the reason, unless the backend is required. */
int opens(struct cg_context **context);

int open_tensors(struct tensors *);
/* The same where there is cuDNN, too. */
int open_with_cudnn(struct tensors *);
/* cmocka's: watches. */
int set_up(void **state);

#endif
