/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Includes tf_api.h beside TensorFlow's own headers: with -Werror=incompatible-pointer-types this file compiles only if the
 * functions of CG_TF_FUNCTIONS have TensorFlow's types, and the codes of CG_TF_TYPES and CG_TF_CODES have TensorFlow's values.
 * tensorflow_api.py compiles it.
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
