# SPDX-License-Identifier: Apache-2.0
# The module for JAX; libjax has the module's objects, which the module's test links, too.
noinst_LTLIBRARIES += %D%/libjax.la
%C%_libjax_la_SOURCES = \
	%D%/xla_ffi.h %D%/call_frame.h %D%/call_frame.c %D%/network_attributes.h %D%/network_attributes.c %D%/handlers.h %D%/handlers.c
EXTRA_DIST += %D%/README.md

if SHARED
pkglib_LTLIBRARIES += cellgrad_jax.la
endif
cellgrad_jax_la_SOURCES =
cellgrad_jax_la_LIBADD = %D%/libjax.la
cellgrad_jax_la_DEPENDENCIES = %D%/libjax.la libcellgrad.la
cellgrad_jax_la_LIBTOOLFLAGS = --tag=disable-static
cellgrad_jax_la_LDFLAGS = $(module_ldflags) -no-undefined -export-symbols-regex '^cellgrad_jax_'
