/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin, and its loader, give to whoever loads them.
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

/*
 * Of the loader, whose TF_InitKernel loads the plugin.  Returns 1: the plugin is loaded; 0: it is not.  *text: the plugin's path, or why it
 * is not loaded; it lives as long as the loader.
 */
CG_API int cellgrad_tensorflow_loader_state(const char **text);

#endif
