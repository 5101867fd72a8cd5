/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that the plugin and its loader export to the program that loads them.
 */
#ifndef CG_TF_PLUGIN_H
#define CG_TF_PLUGIN_H

#include "runtime/cellgrad.h"

/*
 * Returns for how many ops this plugin registered kernels; 0: none; -1: none, since another copy of the plugin had done so.  *text receives
 * a message that says this, with the reason; the message lives as long as the plugin.  Any thread may call this function.
 */
CG_API int cellgrad_tensorflow_state(const char **text);
/* The plugin's TF_InitKernel registers the plugin's kernels, as loading the plugin does, unless registration was tried before; the loader's
 * TF_InitKernel loads the plugin.  TensorFlow looks this function up by its name in the libraries of its folder tensorflow-plugins. */
CG_API void TF_InitKernel(void);

/*
 * Says whether the loader's TF_InitKernel has loaded the plugin; the loader exports this function.  Returns 1 if the plugin is loaded, else
 * 0.  *text receives the plugin's path, or the reason why the plugin is not loaded; the text lives as long as the loader.
 */
CG_API int cellgrad_tensorflow_loader_state(const char **text);

#endif
