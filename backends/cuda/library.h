/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares the part of CUDA that this backend uses of the driver, NVRTC, cuBLAS and cuDNN, which are found at run time: tables of their
 * functions, their constants and their errors.  The build needs no file of NVIDIA's; where NVIDIA's headers are found, a test compares the
 * declarations of this file with them.
 */
#ifndef CG_CUDA_LIBRARY_H
#define CG_CUDA_LIBRARY_H

#include "backends/cuda/layout.h"

struct CUuuid_st { char bytes[16]; };
struct CUctx_st; struct CUstream_st; struct CUmod_st; struct CUfunc_st;
struct _nvrtcProgram; struct cublasContext; struct cublasLtContext;
struct cudnnContext; struct cudnnTensorStruct; struct cudnnDropoutStruct; struct cudnnRNNStruct; struct cudnnRNNDataStruct;

/* Types to which NVIDIA gives no struct tag have NVIDIA's names in this file, too. */
#if UINTPTR_MAX > 0xffffffff
typedef unsigned long long CUdeviceptr;
#else
typedef unsigned CUdeviceptr;
#endif
typedef struct cg_lt_desc *cublasLtMatmulDesc_t;
typedef struct cg_lt_layout *cublasLtMatrixLayout_t;
typedef struct cg_lt_preference *cublasLtMatmulPreference_t;
typedef struct cg_lt_algorithm cublasLtMatmulAlgo_t;
typedef struct cg_lt_result cublasLtMatmulHeuristicResult_t;

/* All calls of the driver, NVRTC, cuBLAS, cublasLt and cuDNN, except those of cublasGetProperty, go through these tables, so a test can
 * count a call or make it fail by putting a function of its own in a table. */
struct cg_cu {
#define CU_CALL(name, parameters, names) unsigned (*name) parameters;
#include "backends/cuda/cuda.fn"
};
struct cg_nvrtc {
#define NVRTC_CALL(name, parameters, names) unsigned (*name) parameters;
#define NVRTC_WORDS(name, parameters, names) const char *(*name) parameters;
#include "backends/cuda/cuda.fn"
};
struct cg_cublas {
#define CUBLAS_CALL(name, parameters, names) unsigned (*name) parameters;
#define CUBLAS_WORDS(name, parameters, names) const char *(*name) parameters;
#include "backends/cuda/cuda.fn"
};
struct cg_cublaslt {
#define CUBLASLT_CALL(name, parameters, names) unsigned (*name) parameters;
#include "backends/cuda/cuda.fn"
};
struct cg_cudnn {
#define CUDNN_CALL(name, parameters, names) unsigned (*name) parameters;
#define CUDNN_COUNT(name, parameters, names) size_t (*name) parameters;
#define CUDNN_WORDS(name, parameters, names) const char *(*name) parameters;
#define CUDNN_TELLS(name, parameters, names) void (*name) parameters;
#include "backends/cuda/cuda.fn"
};
extern struct cg_cu cg_cu;
extern struct cg_nvrtc cg_nvrtc;
extern struct cg_cublas cg_cublas;
extern struct cg_cublaslt cg_cublaslt;
extern struct cg_cudnn cg_cudnn;

enum {
#define CU_VALUE(name, value) name = value,
#define NVRTC_VALUE CU_VALUE
#define CUBLAS_VALUE CU_VALUE
#define CUBLASLT_VALUE CU_VALUE
#define CUDNN_VALUE CU_VALUE
#include "backends/cuda/values.h"
#undef CU_VALUE
#undef NVRTC_VALUE
#undef CUBLAS_VALUE
#undef CUBLASLT_VALUE
#undef CUDNN_VALUE
};

enum { CG_CUDA_DRIVER, CG_CUDA_NVRTC, CG_CUDA_CUBLAS, CG_CUDA_CUDNN, CG_CUDA_LIBRARIES };

/* Loads a library at the first call, for the life of the process, unless it is for a later CUDA than the driver's.  Returns CG_NO_DEVICE if
 * there is no driver that is new enough, CG_BUILD if there is no NVRTC, CG_UNSUPPORTED if there is no cuBLAS or cuDNN or the environment
 * excludes the library.  Returns CG_BAD_ARGUMENT if the environment names a library that cannot be loaded.  If no library is found, the
 * message lists the names that were tried. */
int cg_cuda_load(int library);
/* Called after the driver was loaded: returns CG_BAD_ARGUMENT if the environment names an NVRTC, cuBLAS or cuDNN that cannot be loaded. */
int cg_cuda_check_named(void);
/* The path of a library; "" if the library is not loaded. */
const char *cg_cuda_path(int library);
/* The path or word that the environment has for a library; "" if it has none. */
const char *cg_cuda_named(int library);
/* The latest CUDA that the driver supports: 12040 is 12.4. */
int cg_cuda_version(void);
/* The version of cuDNN in its own counting, 8907 for 8.9.7 and 91002 for 9.10.2; the macro CUDNN_PARTS gives its three numbers. */
int cg_cudnn_version(void);
enum { CUDNN_9 = 90000 };
#define CUDNN_PARTS(v) (v) < CUDNN_9 ? (v) / 1000 : (v) / 10000, (v) < CUDNN_9 ? (v) / 100 % 10 : (v) / 100 % 100, (v) % 100

/* Returns CG_OK for success, else the status code of this library that fits, with a message like "cuda: cuInit: CUDA_ERROR_NO_DEVICE
 * (100): no device is found". */
int cg_cu_error(unsigned code, const char *call);
/* "; CUDA_VISIBLE_DEVICES is '0,1'" for the end of a message, since the variable may be why a device is not there; "" where it is unset. */
enum { CG_CU_VISIBLE = 160 };
const char *cg_cu_visible(char text[CG_CU_VISIBLE]);
int cg_nvrtc_error(unsigned code, const char *call);
int cg_cublas_error(unsigned code, const char *call);
int cg_cudnn_error(unsigned code, const char *call);

#define NVRTC_TRY(call, ...) CG_TRY(cg_nvrtc_error(cg_nvrtc.call(__VA_ARGS__), "nvrtc" #call))
#define CUBLAS_TRY(call, ...) CG_TRY(cg_cublas_error(cg_cublas.call(__VA_ARGS__), "cublas" #call))
#define CUDNN_TRY(call, ...) CG_TRY(cg_cudnn_error(cg_cudnn.call(__VA_ARGS__), "cudnn" #call))
#define CUBLASLT_TRY(call, ...) CG_TRY(cg_cublas_error(cg_cublaslt.call(__VA_ARGS__), "cublasLt" #call))

#endif
