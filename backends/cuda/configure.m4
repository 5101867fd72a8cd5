# SPDX-License-Identifier: Apache-2.0
# The cuda backend needs nothing to build: the driver, NVRTC, cuBLAS and cuDNN are found at run time.
AC_ARG_ENABLE([cuda], [AS_HELP_STRING([--disable-cuda], [leave the cuda backend out])])
backend_switches="$backend_switches --enable-cuda=$enable_cuda"
AM_CONDITIONAL([CUDA], [test "x$enable_cuda" != xno])
AM_COND_IF([CUDA], [
	backends="$backends, cuda"
	AC_DEFINE([CG_CUDA], [1], [The cuda backend is compiled.])])
# A test compares the cuda backend's declarations with NVIDIA's headers, if these are found.
AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR], [where a CUDA toolkit is, for a test of the cuda backend; else /usr/local/cuda])])
AS_CASE([$with_cuda],
	[no], [cuda_include=],
	[yes|''], [for cg_include in /usr/local/cuda/include /usr/local/cuda-*/include; do
		AS_IF([test -f "$cg_include/cuda.h"], [cuda_include=$cg_include])
	done],
	[AS_IF([test -f "$with_cuda/include/cuda.h"], [cuda_include=$with_cuda/include],
		[AC_MSG_ERROR([--with-cuda=$with_cuda: there is no include/cuda.h])])])
AS_IF([test -n "$cuda_include"], [cuda_headers="-isystem $cuda_include"])
AC_SUBST([cuda_headers])
