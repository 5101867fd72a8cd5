# SPDX-License-Identifier: Apache-2.0
# The cuda backend: its libraries are found at run time, so it is always compiled, unless configure excludes it.
if CUDA
noinst_LTLIBRARIES += %D%/libcuda.la
backend_libraries += %D%/libcuda.la
endif
%C%_libcuda_la_SOURCES = \
	%D%/library.h %D%/layout.h %D%/cuda.h %D%/cudnn/cudnn.h %D%/cuda.fn %D%/values.h \
	%D%/library.c %D%/cuda.c %D%/context.c %D%/kernel.c %D%/nvrtc.c %D%/gemm_route.c %D%/cublas.c %D%/moves.c \
	%D%/cudnn/net_route.c %D%/cudnn/descriptor.c %D%/cudnn/queue.c %D%/cudnn/weight_space.c %D%/cudnn/rnn_data.c %D%/cudnn/temp_space.c %D%/cudnn/forward_backward.c %D%/cudnn/range.c
