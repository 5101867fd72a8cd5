# SPDX-License-Identifier: Apache-2.0
# The plugin is built even without TensorFlow, since it finds TensorFlow's functions in the process that loads it.  Cellgrad's library is in
# the folder above the plugin; in the Python package, in the plugin's own folder; or in the package that is beside the folder
# tensorflow-plugins.
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

# The loader, a module that loads the plugin, is linked with the C library alone: python/plugin puts the loader into the folder
# tensorflow-plugins, whose modules TensorFlow loads.
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
