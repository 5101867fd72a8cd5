# SPDX-License-Identifier: Apache-2.0
# The opencl backend: OpenCL's loader is found at run time, so the backend is always compiled.
noinst_LTLIBRARIES += %D%/libopencl.la
%C%_libopencl_la_SOURCES = \
	%D%/library.h %D%/opencl.h %D%/opencl.fn %D%/values.h \
	%D%/library.c %D%/likely.c %D%/opencl.c %D%/probe.c %D%/kernel.c
backend_libraries += %D%/libopencl.la
