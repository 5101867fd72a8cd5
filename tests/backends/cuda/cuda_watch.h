/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the calls that the cuda backend makes of the driver, NVRTC, cuBLAS and cuDNN: counts them, makes one fail, and checks that
 * everything created was destroyed.
 */
#ifndef CUDA_WATCH_H
#define CUDA_WATCH_H

#include "backends/cuda/library.h"
#include "tests/backends/driver_watch.h"

/* The functions of the libraries themselves, behind the watching ones. */
extern struct cg_cu driver;
extern struct cg_nvrtc compiler;
extern struct cg_cublas blas;
extern struct cg_cublaslt lt;
extern struct cg_cudnn dnn;              /* all functions are NULL where there is no cuDNN */

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

extern int closing;                      /* set: no call is made to fail any more, nor counted as one that can */
extern long balance;                     /* the number of objects created and not destroyed */

/* Puts the watching functions before all calls; returns 0 where there is no driver, or no device. */
int watch(void);
/* Sets the counts of all calls to 0. */
void forget_calls(void);
/* Sets the counts of all calls to 0, lets none fail, and puts the watching functions back. */
void forget(void);

/* Opens a device, or skips this test with the reason, unless the backend is required. */
int opens(struct cg_context **context);

int open_tensors(struct tensors *);
/* Opens a device with cuDNN; without cuDNN the test is skipped. */
int open_with_cudnn(struct tensors *);
/* The setup function for cmocka: calls watch(). */
int set_up(void **state);

#endif
