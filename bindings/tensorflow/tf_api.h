/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow's C API for kernels, as far as this plugin calls it, in declarations of our own: no file of TensorFlow is needed to build.
 * Every function is looked up in the process when the plugin is loaded.  All structs but TF_Buffer are opaque, and none is written to.
 * tests/frameworks/tensorflow_api.c compares types and values with TensorFlow's own headers.
 */
#ifndef CG_TF_API_H
#define CG_TF_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The oldest and the newest version of TensorFlow that the plugin was tested with, as MAJOR * 1000 + MINOR; README.md names them, too. */
enum { CG_TF_OLDEST = 2016, CG_TF_NEWEST = 2021 };

#define CG_TF_TYPES(X) X(TF_FLOAT, 1) X(TF_DOUBLE, 2) X(TF_INT32, 3) X(TF_INT8, 6) X(TF_INT64, 9) X(TF_BFLOAT16, 14) X(TF_HALF, 19)
#define CG_TF_CODES(X) \
	X(TF_OK, 0) X(TF_INVALID_ARGUMENT, 3) X(TF_RESOURCE_EXHAUSTED, 8) X(TF_UNIMPLEMENTED, 12) X(TF_INTERNAL, 13) X(TF_UNAVAILABLE, 14)

/* tests/frameworks/tensorflow_api.c includes TensorFlow's own declarations in place of the declarations that follow. */
#ifndef TENSORFLOW_C_KERNELS_H_
#define CG_TF_VALUE(name, value) name = value,
typedef enum { CG_TF_TYPES(CG_TF_VALUE) } TF_DataType;
typedef enum { CG_TF_CODES(CG_TF_VALUE) } TF_Code;
#define TF_Bool unsigned char
typedef struct TF_Status TF_Status;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
typedef struct TF_OpKernelContext TF_OpKernelContext;
/* A buffer that TensorFlow makes and frees; the plugin reads its data and length. */
typedef struct TF_Buffer { const void *data; size_t length; void (*data_deallocator)(void *data, size_t length); } TF_Buffer;
#endif

/* TensorFlow's functions, each as its result type, its name without TF_, and its arguments */
#define CG_TF_FUNCTIONS(X) \
	X(const char *, Version, (void)) \
	X(TF_Status *, NewStatus, (void)) \
	X(void, DeleteStatus, (TF_Status *status)) \
	X(void, SetStatus, (TF_Status *status, TF_Code code, const char *message)) \
	X(TF_Code, GetCode, (const TF_Status *status)) \
	X(const char *, Message, (const TF_Status *status)) \
	X(TF_Buffer *, GetRegisteredKernelsForOp, (const char *op, TF_Status *status)) \
	X(void, DeleteBuffer, (TF_Buffer *buffer)) \
	X(TF_KernelBuilder *, NewKernelBuilder, (const char *op, const char *device, void *(*create)(TF_OpKernelConstruction *), \
	                                         void (*compute)(void *, TF_OpKernelContext *), void (*destroy)(void *))) \
	X(void, KernelBuilder_Priority, (TF_KernelBuilder *builder, int32_t priority)) \
	X(void, RegisterKernelBuilder, (const char *name, TF_KernelBuilder *builder, TF_Status *status)) \
	X(void, OpKernelConstruction_Failure, (TF_OpKernelConstruction *construction, TF_Status *status)) \
	X(bool, OpKernelConstruction_HasAttr, (TF_OpKernelConstruction *construction, const char *name, TF_Status *status)) \
	X(void, OpKernelConstruction_GetAttrType, (TF_OpKernelConstruction *construction, const char *name, TF_DataType *value, \
	                                           TF_Status *status)) \
	X(void, OpKernelConstruction_GetAttrInt64, (TF_OpKernelConstruction *construction, const char *name, int64_t *value, \
	                                            TF_Status *status)) \
	X(void, OpKernelConstruction_GetAttrFloat, (TF_OpKernelConstruction *construction, const char *name, float *value, \
	                                            TF_Status *status)) \
	X(void, OpKernelConstruction_GetAttrBool, (TF_OpKernelConstruction *construction, const char *name, TF_Bool *value, \
	                                           TF_Status *status)) \
	X(void, OpKernelConstruction_GetAttrString, (TF_OpKernelConstruction *construction, const char *name, char *value, size_t length, \
	                                             TF_Status *status)) \
	X(void, GetInput, (TF_OpKernelContext *context, int index, TF_Tensor **tensor, TF_Status *status)) \
	X(TF_Tensor *, AllocateOutput, (TF_OpKernelContext *context, int index, TF_DataType type, const int64_t *dims, int rank, \
	                                size_t bytes, TF_Status *status)) \
	X(void, OpKernelContext_Failure, (TF_OpKernelContext *context, TF_Status *status)) \
	X(int, NumDims, (const TF_Tensor *tensor)) \
	X(int64_t, Dim, (const TF_Tensor *tensor, int index)) \
	X(size_t, TensorByteSize, (const TF_Tensor *tensor)) \
	X(void *, TensorData, (const TF_Tensor *tensor)) \
	X(void, DeleteTensor, (TF_Tensor *tensor))

#define CG_TF_POINTER(result, name, arguments) result (*name) arguments;
struct cg_tf_api { CG_TF_FUNCTIONS(CG_TF_POINTER) };

/* The addresses of TensorFlow's functions, NULL before cg_tf_look_up. */
extern struct cg_tf_api cg_tf;

/* Looks every function up in the process.  Returns the name of the first one that is missing; NULL: all were found. */
const char *cg_tf_look_up(void);

#endif
