# SPDX-License-Identifier: Apache-2.0
# The plugin, built everywhere: it needs nothing of TensorFlow but a process that has it.  The library is in the folder above, beside it in
# the Python package, or in that package beside TensorFlow's folder tensorflow-plugins.
if SHARED
pkglib_LTLIBRARIES += cellgrad_tensorflow.la
endif
cellgrad_tensorflow_la_SOURCES = \
	%D%/tf_api.h %D%/tf_op.h %D%/tf_plugin.h %D%/tf_api.c %D%/tf_kernel.c %D%/tf_device.c %D%/tf_call.c %D%/tf_network.c %D%/tf_params.c \
	%D%/tf_block.c %D%/tf_plugin.c
cellgrad_tensorflow_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
cellgrad_tensorflow_la_DEPENDENCIES = libcellgrad.la
cellgrad_tensorflow_la_LIBTOOLFLAGS = --tag=disable-static
cellgrad_tensorflow_la_LDFLAGS = $(module_ldflags) -export-symbols-regex '^(TF_InitKernel|cellgrad_tensorflow_state)$$'

# The loader links the C library alone: python/plugin puts it into tensorflow-plugins, where TensorFlow loads it.
if SHARED
pkglib_LTLIBRARIES += cellgrad_tensorflow_loader.la
endif
cellgrad_tensorflow_loader_la_SOURCES = %D%/tf_plugin.h %D%/tf_loader.c
cellgrad_tensorflow_loader_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
cellgrad_tensorflow_loader_la_LIBADD =
cellgrad_tensorflow_loader_la_LIBTOOLFLAGS = --tag=disable-static
cellgrad_tensorflow_loader_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-export-symbols-regex '^(TF_InitKernel|cellgrad_tensorflow_loader_state)$$'
EXTRA_DIST += %D%/README.md
