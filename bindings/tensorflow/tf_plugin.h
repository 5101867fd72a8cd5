/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin gives to whoever loads it.
 */
#ifndef CG_TF_PLUGIN_H
#define CG_TF_PLUGIN_H

#include "runtime/cellgrad.h"

/*
 * Returns for how many ops this plugin registered kernels; 0: none; -1: none, since another copy of the plugin had done so.
 * *text says that in words, with the reason; it lives as long as the plugin.  Any thread may call it.
 */
CG_API int cellgrad_tensorflow_state(const char **text);
/* Registers the kernels, under the name that TensorFlow looks up.  Loading the plugin calls it, and a second call does nothing. */
CG_API void TF_InitKernel(void);

#endif
