# SPDX-License-Identifier: Apache-2.0
# The stand-ins for CUDA's libraries have the sonames of these libraries, and are in a folder for each major version of CUDA; the stand-ins
# for cuDNN are in other folders.  The stand-ins are built without sanitizers and coverage counters, since the program that loads them may
# or may not have these.  Empty files prevent the loader from loading a real cuDNN of another version.
fake_cuda = \
	%D%/misuse_report.c %D%/cuda_device.c %D%/cuda_context.c %D%/cuda_memory.c %D%/cuda_stream.c %D%/cuda_graph.c %D%/cuda_module.c %D%/cuda_run.c
fake_nvrtc = %D%/misuse_report.c %D%/nvrtc.c %D%/nvrtc_compile.c
fake_cublas = %D%/misuse_report.c %D%/number.c %D%/blas_product.c %D%/cublas.c
fake_cublaslt = %D%/misuse_report.c %D%/number.c %D%/blas_product.c %D%/cublaslt.c
fake_cudnn = \
	%D%/misuse_report.c %D%/number.c %D%/cudnn.c %D%/cudnn_descriptor.c %D%/cudnn_call.c %D%/cudnn_net.c %D%/cudnn_forward.c \
	%D%/cudnn_back.c %D%/cudnn_reserve.c %D%/cudnn_cell.c
fake_sources = $(fake_cuda) $(fake_nvrtc) $(fake_cublas) $(fake_cublaslt) $(fake_cudnn) $(fake_headers)
fake_headers = \
	%D%/misuse_report.h %D%/cuda.h %D%/number.h %D%/blas.h %D%/cudnn.h %D%/cudnn_net.h %D%/nvrtc.h %D%/image.h %D%/kernel_calls.h
EXTRA_DIST += %D%/run_unit.sh $(fake_sources) %D%/kernel.h %D%/kernel_calls.c %D%/old.map %D%/README.md

fake_compile = $(CC) -std=gnu11 -D_GNU_SOURCE -O3 -g -fPIC -fvisibility=hidden -ffp-contract=off  $(warnings) $(CPPFLAGS) $(filter-out --coverage,$(CFLAGS))
fake_cxx = -DFAKE_CXX='"$(FAKE_CXX)"'
if FAKE
check_DATA += %D%/lib/built
endif
%D%/lib/built: $(fake_sources) %D%/kernel.h %D%/kernel_calls.c %D%/old.map
	$(AM_V_GEN)set -e; from=`cd $(srcdir)/%D% && pwd`; rm -rf %D%/lib; \
	library() { name=$$1; shift; $(fake_compile) -shared -Wl,--no-undefined -Wl,-soname,$${name##*/} -o $$name "$$@" $(filter-out --coverage,$(LDFLAGS)); }; \
	sources() { for file; do printf '%s/%s ' "$$from" "$${file##*/}"; done; }; \
	for version in 11:11.2 12:12 13:13; do \
		major=$${version%%:*} nvrtc=$${version#*:}; \
		$(MKDIR_P) %D%/lib/cuda-$$major; cd %D%/lib/cuda-$$major; \
		old=; [ $$major != 11 ] || old="-Wl,--version-script=$$from/old.map"; \
		library libcuda.so.1 $$old `sources $(fake_cuda)` -ldl -lpthread; \
		library libnvrtc.so.$$nvrtc $(fake_cxx) `sources $(fake_nvrtc)` -ldl -lpthread; \
		library libcublas.so.$$major $$old `sources $(fake_cublas)` ./libcuda.so.1; \
		library libcublasLt.so.$$major `sources $(fake_cublaslt)` ./libcuda.so.1; \
		cd ../../../..; \
	done; \
	for major in 8 9; do \
		$(MKDIR_P) %D%/lib/cudnn-$$major; cd %D%/lib/cudnn-$$major; \
		library libcudnn.so.$$major -DFAKE_CUDNN_MAJOR=$$major `sources $(fake_cudnn)` ../cuda-13/libcuda.so.1 -lm -lpthread; \
		cd ../../../..; \
	done; \
	$(MKDIR_P) %D%/lib/cudnn-none; \
	for real in cudnn-8/libcudnn.so.9 cudnn-9/libcudnn.so.8 cudnn-none/libcudnn.so.8 cudnn-none/libcudnn.so.9; do \
		: > %D%/lib/$$real; \
	done; \
	$(MKDIR_P) %D%/lib/cache; cp $$from/kernel.h %D%/lib; \
	$(fake_compile) -c $$from/kernel_calls.c -o %D%/lib/kernel_calls.o; \
	echo > $@
clean-fake:
	rm -rf %D%/lib
.PHONY: clean-fake

# Tests that run with the stand-ins: the test NAME.fake runs the program NAME, which is made from NAME.c.
fake_programs = %D%/stand_in_test %D%/launch_test %D%/call_test %D%/cublas_test %D%/cudnn_test %D%/cudnn_order_test %D%/cudnn_net_test
fake_tests = %D%/stand_in_test.fake %D%/launch_test.fake %D%/call_test.fake %D%/cublas_test.fake \
	%D%/cudnn_test.fake %D%/cudnn_order_test.fake %D%/cudnn_net_test.fake
if COMMAND
fake_programs += %D%/cudnn_data_test
fake_tests += %D%/cudnn_data_test.fake
endif
# Tests of the cuda backend, which could run on a GPU, too.
if CUDA
fake_programs += \
	tests/backends/cuda/cuda_test tests/backends/cuda/cuda_fault_test tests/backends/cuda/cuda_gemm_test tests/backends/cuda/cuda_rows_test \
	tests/backends/cuda/cuda_moves_test tests/backends/cuda/cuda_cache_test tests/backends/cuda/cuda_rnn_test tests/backends/cuda_sequence_test \
	tests/backends/cuda/cudnn/cuda_net_test tests/backends/cuda/cudnn/cuda_net_call_test tests/backends/cuda/cuda_forms_test tests/backends/cuda/cudnn/cuda_range_test
fake_tests += \
	tests/backends/cuda/cuda_test.fake tests/backends/cuda/cuda_fault_test.fake tests/backends/cuda/cuda_gemm_test.fake \
	tests/backends/cuda/cuda_rows_test.fake tests/backends/cuda/cuda_moves_test.fake tests/backends/cuda/cuda_cache_test.fake \
	tests/backends/cuda/cuda_rnn_test.fake tests/backends/cuda_sequence_test.fake \
	tests/backends/cuda/cudnn/cuda_net_test.fake tests/backends/cuda/cudnn/cuda_net_call_test.fake tests/backends/cuda/cuda_forms_test.fake tests/backends/cuda/cudnn/cuda_range_test.fake
endif
stand_in = %D%/stand_in.h %D%/stand_in.c
%C%_stand_in_test_SOURCES = %D%/stand_in_test.c $(stand_in)
%C%_call_test_SOURCES = %D%/call_test.c $(stand_in)
%C%_cublas_test_SOURCES = %D%/cublas_test.c $(stand_in)
dnn_stand_in = $(stand_in) %D%/dnn_stand_in.h %D%/dnn_stand_in.c
%C%_cudnn_test_SOURCES = %D%/cudnn_test.c $(dnn_stand_in)
%C%_cudnn_order_test_SOURCES = %D%/cudnn_order_test.c $(dnn_stand_in)
%C%_cudnn_net_test_SOURCES = %D%/cudnn_net_test.c $(dnn_stand_in)
%C%_cudnn_data_test_SOURCES = %D%/cudnn_data_test.c $(dnn_stand_in)
%C%_cudnn_data_test_LDADD = command/libcommand.la $(LDADD)
%C%_launch_test_SOURCES = %D%/launch_test.c $(stand_in)
$(fake_tests):
	$(AM_V_at)$(MKDIR_P) $(@D) && echo > $@
CLEANFILES += $(fake_tests)
if HAVE_CMOCKA
check_PROGRAMS += $(fake_programs)
endif
