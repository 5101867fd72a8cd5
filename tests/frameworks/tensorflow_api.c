/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The declarations of tf_api.h beside TensorFlow's own headers: this compiles where every function has TensorFlow's type and every code
 * its value.  tensorflow_api.py compiles it.
 */
#include "tensorflow/c/kernels.h"
#include "bindings/tensorflow/tf_api.h"

#define SAME_VALUE(name, value) _Static_assert(name == value, #name);
CG_TF_TYPES(SAME_VALUE)
CG_TF_CODES(SAME_VALUE)
_Static_assert(sizeof(TF_Bool) == sizeof(unsigned char), "TF_Bool");
_Static_assert(offsetof(TF_Buffer, data) == 0 && offsetof(TF_Buffer, length) == sizeof(void *), "TF_Buffer");

#define SAME_TYPE(result, name, arguments) result (*same_##name) arguments = TF_##name;
CG_TF_FUNCTIONS(SAME_TYPE)
