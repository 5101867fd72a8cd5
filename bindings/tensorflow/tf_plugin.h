/*
 * What the plugin gives to whoever loads it.
 */
#ifndef CG_TF_PLUGIN_H
#define CG_TF_PLUGIN_H

#include "runtime/cellgrad.h"

/* How many ops this plugin registered kernels of, -1: another copy of it did before, and that, or why there are none, in words; *text lives
 * as long as the plugin. */
CG_API int cellgrad_tensorflow_state(const char **text);
/* TensorFlow's name for what registers kernels.  Does nothing the second time; loading the plugin calls it. */
CG_API void TF_InitKernel(void);

#endif
