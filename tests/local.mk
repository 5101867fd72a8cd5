# SPDX-License-Identifier: Apache-2.0
# The tests of make check.  A new test is added to one of these lists; a program NAME is made from NAME.c.
unit_tests = \
	%D%/core/message_test %D%/core/cell_test %D%/core/sized_test %D%/core/allocator_test %D%/core/environment_test \
	%D%/cache/cache_test %D%/cache/cache_directory_test %D%/cache/cache_bound_test %D%/cache/cache_fault_test \
	%D%/op/op_test %D%/op/check_test %D%/op/verbose_test %D%/op/kernel_run_test \
	%D%/rnn/rnn_once_test %D%/rnn/rnn_span_test %D%/rnn/rnn_call_test %D%/rnn/rnn_size_test %D%/rnn/rnn_layout_test %D%/rnn/rnn_params_test %D%/rnn/rnn_memory_test %D%/rnn/rnn_misuse_test %D%/rnn/rnn_streams_test \
	%D%/weights/weights_test %D%/weights/transfer_test \
	%D%/gen/parse_test %D%/gen/mistake_test %D%/gen/change_test %D%/gen/expr_test %D%/gen/derive_test %D%/gen/plan_test %D%/gen/halves_test %D%/gen/gemm_test %D%/gen/rows_test %D%/gen/math_test \
	%D%/library/misuse_test %D%/library/reuse_test %D%/library/memory_test %D%/library/threads_test %D%/library/fault_test %D%/library/late_fault_test %D%/library/late_test \
	%D%/backends/cpu/processors_test %D%/backends/cpu/pool_test %D%/backends/cpu/all_steps_test \
	%D%/backends/cpu/team_test %D%/backends/cpu/product_test %D%/backends/opencl/likely_test %D%/backends/opencl/opencl_header_test %D%/backends/cuda/cuda_header_test \
	%D%/verify/reference_test %D%/verify/reference_rnn_test %D%/verify/reference_rnn_equal_test %D%/verify/reference_dropout_test \
	%D%/verify/reference_rnn_vendor_test %D%/verify/reference_block_lstm_test %D%/verify/reference_bound_test %D%/verify/reference_rnn_bound_test \
	%D%/conformance/bits_test %D%/fuzz/cache_fuzz %D%/block/block_sequence_test %D%/block/small_call_test %D%/backends/gather_scatter_test \
	%D%/backends/opencl/opencl_device_test %D%/backends/opencl/opencl_test %D%/backends/opencl/opencl_rnn_test %D%/gen/strip_test \
	%D%/bindings/jax/xla_host_test %D%/bindings/tensorflow/tf_plugin_test %D%/bindings/tensorflow/tf_network_test \
	%D%/bindings/tensorflow/tf_params_test %D%/bindings/tensorflow/tf_block_test %D%/bindings/tensorflow/tf_absent_test %D%/bindings/tensorflow/tf_loader_test \
	%D%/gen/print_test %D%/gen/limit_test %D%/fuzz/cell_fuzz %D%/backends/cpu/blas_test
# Tests of the source, and of the files that are built from it.
quick_tests = %D%/arrows.sh %D%/prose.py %D%/mutants.sh %D%/symbols.sh %D%/reference.sh %D%/reproducible.sh %D%/spdx.sh %D%/gen/golden.sh %D%/backends/cpu/inner_loops.py
script_tests = \
	%D%/peers_rehearsal.sh %D%/man.sh %D%/rounding.sh %D%/configure.sh %D%/old.sh %D%/install.sh %D%/tarball.sh %D%/examples.sh %D%/parallel.sh \
	%D%/gen/oclgrind.sh %D%/gen/gemm.sh %D%/gen/compile.sh %D%/gpu_rehearsal.sh
# The conformance suite and the suite of sequences on each backend of backends/list.h: the name of an .on file begins with the backend's
# name, and -fake in the name means the stand-ins of tests/fake for CUDA's libraries.  tests/conformance/on.sh describes all names.
cpu_tests = %D%/conformance/cpu.on %D%/sequence/cpu.on %D%/conformance/cpu-composed.on %D%/sequence/cpu-composed.on
device_tests = \
	%D%/conformance/opencl.on %D%/conformance/cuda-fake.on %D%/conformance/cuda-composed-fake.on \
	%D%/sequence/opencl.on %D%/sequence/cuda-fake.on %D%/sequence/cuda-permuted-fake.on %D%/sequence/cuda-composed-fake.on
command_tests = \
	%D%/docs.py %D%/completion.sh %D%/foreign.py %D%/gen/scan.py %D%/command/main.bats %D%/command/info.bats %D%/command/environment.bats %D%/command/cache.bats \
	%D%/command/emit.bats %D%/command/cell.bats %D%/command/safetensors.bats %D%/command/run.bats %D%/command/metadata.bats %D%/command/outputs.bats \
	%D%/command/open.bats %D%/command/openblas.bats %D%/command/describe.py %D%/command/formats.py %D%/command/owners.bats \
	%D%/command/sequence.bats %D%/command/convert.bats %D%/command/misuse.bats %D%/command/cudnn.bats %D%/command/cuda.bats \
	%D%/command/check.bats %D%/command/rnn.bats %D%/command/demo.bats %D%/command/bench.bats
# Tests of the Python package.
python_tests = \
	%D%/python/py_header.py %D%/python/py_answers.py %D%/python/py_misuse.py %D%/python/py_memory.py %D%/python/py_rows.py %D%/python/py_states.py \
	%D%/python/py_docs.py %D%/python/py_threads.py %D%/python/py_load.py %D%/python/py_wheel.py
# Tests that take minutes under emulation, so that cross builds for other processors do not run them.
long_tests = %D%/gen/floats_test
# Programs that the test scripts run.
helpers = \
	%D%/gen/emit_all %D%/gen/compile_opencl %D%/gen/compile_nvrtc %D%/gen/gemm_run %D%/gen/kernels_run %D%/gen/scan_net %D%/conformance/checksum %D%/core/variables %D%/rnn/roundings %D%/parallel_check
if CUDA
helpers += %D%/net_time %D%/gpu_probe
endif
if COMMAND
unit_tests += %D%/fuzz/safetensors_fuzz %D%/command/demo/model_test %D%/command/convert/convert_test %D%/command/file_test %D%/command/run/orders_test %D%/command/child_process_test %D%/command/check/shrink_test %D%/op/attribute_test %D%/verify/data_test
helpers += %D%/parts %D%/command/alike
endif

# Files of tests/ for the tarball, beside the sources of programs.  A folder in this list goes into the tarball whole.
EXTRA_DIST += \
	%D%/README.md %D%/backends/README.md %D%/backends/cpu/README.md %D%/backends/cuda/README.md %D%/backends/cuda/cudnn/README.md \
	%D%/backends/opencl/README.md %D%/bindings/README.md %D%/bindings/jax/README.md %D%/bindings/tensorflow/README.md %D%/block/README.md \
	%D%/cache/README.md %D%/command/README.md %D%/command/check/README.md \
	%D%/command/convert/README.md %D%/command/demo/README.md %D%/command/run/README.md %D%/conformance/README.md %D%/core/README.md \
	%D%/fuzz/README.md %D%/gen/README.md %D%/help/README.md %D%/library/README.md %D%/op/README.md %D%/rnn/README.md \
	%D%/python/README.md %D%/sequence/README.md %D%/verify/README.md %D%/weights/README.md \
	%D%/prose.words %D%/source_files.sh %D%/unit.sh %D%/times.sh %D%/coverage.py %D%/conformance/on.sh %D%/job_queue.sh %D%/cross.sh %D%/cpu.sh %D%/older.c %D%/mutate.sh %D%/mutants %D%/drawn.sh %D%/toy.sh %D%/toy.patch %D%/gpu.sh %D%/gpu_micro.cu %D%/gpu_torch.py %D%/gpu_modules.py %D%/gpu_modules_checks.py %D%/bench %D%/reports %D%/clean.sh %D%/valgrind.supp %D%/lsan.supp \
	%D%/data %D%/old \
	%D%/gen/golden %D%/gen/every.h %D%/gen/cell_text.h %D%/gen/check_text.h %D%/help/shorten.h %D%/gen/cuda_host.h %D%/gen/coupled.cell %D%/gen/stages.cell %D%/gen/forms.cell %D%/gen/roots.cell %D%/gen/learnt.cell %D%/gen/apart.cell %D%/gen/means.cell %D%/command/files.bash \
	%D%/command/openblas_stand_in.c %D%/command/driver.c %D%/command/llvm.c %D%/command/starts.c \
	%D%/python/py_tap.py %D%/frameworks \
	$(quick_tests) $(script_tests) $(command_tests) $(python_tests)

# Unit tests may use the library's internal names.  A variable NAME_SOURCES lists the sources of a test with more than one source file.
AM_CPPFLAGS += $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS)
LDADD = runtime/libwhole.la $(CMOCKA_LIBS) $(JANSSON_LIBS)
reference = \
	verify/reference.h %D%/verify/reference_arrays.h verify/reference.c \
	verify/bound.h verify/bound.c
sequence = \
	verify/sequence.h %D%/verify/sequence_arrays.h verify/reference_rnn.h \
	verify/reference_rnn.c verify/reference_rnn_grad.c verify/reference_rnn_params.c \
	verify/reference_dropout.c verify/reference_block_lstm.c $(reference)
counted = %D%/help/counted.h %D%/help/counted.c
shared_stream = %D%/help/shared_stream.h %D%/help/shared_stream.c
numbers = verify/cases.h verify/numbers.h verify/numbers.c
trials = \
	verify/area.h verify/area.c verify/cases.c \
	verify/answer.h verify/answer.c \
	verify/finding.h verify/finding.c verify/trial.h verify/trial.c \
	verify/network_trial.h verify/network_trial.c verify/promise.h \
	verify/field.h verify/field.c $(numbers) $(sequence)
%C%_verify_reference_test_SOURCES = %D%/verify/reference_test.c $(reference)
%C%_verify_reference_bound_test_SOURCES = %D%/verify/reference_bound_test.c %D%/conformance/naive.h $(sequence)
%C%_verify_reference_rnn_test_SOURCES = %D%/verify/reference_rnn_test.c $(sequence)
%C%_verify_reference_rnn_equal_test_SOURCES = %D%/verify/reference_rnn_equal_test.c $(sequence)
%C%_verify_reference_rnn_bound_test_SOURCES = %D%/verify/reference_rnn_bound_test.c %D%/conformance/naive.h $(sequence)
%C%_verify_reference_rnn_vendor_test_SOURCES = %D%/verify/reference_rnn_vendor_test.c $(sequence)
%C%_verify_reference_dropout_test_SOURCES = %D%/verify/reference_dropout_test.c $(sequence)
%C%_verify_reference_block_lstm_test_SOURCES = %D%/verify/reference_block_lstm_test.c $(sequence)
%C%_verify_data_test_SOURCES = %D%/verify/data_test.c $(sequence)
%C%_verify_data_test_LDADD = command/libcommand.la $(LDADD)
device = %D%/conformance/suite_device.h %D%/conformance/suite_device.c
%C%_conformance_conformance_SOURCES = %D%/conformance/conformance.c $(device) $(trials) $(counted)
%C%_conformance_bits_test_SOURCES = %D%/conformance/bits_test.c $(numbers)
net = %D%/help/small_net.h %D%/help/small_net.c $(numbers)
# In fault_test, late_fault_test and late_test the library's list of backends is tests/fake/list.h: faulty, late and cpu.
fakes = %D%/fake/faulty.h %D%/fake/faulty.c %D%/fake/late.h %D%/fake/late.c %D%/fake/list.h runtime/device/open.c
fakes_list = -DCG_BACKEND_LIST='"tests/fake/list.h"'
%C%_library_fault_test_SOURCES = %D%/library/fault_test.c $(fakes) $(counted) $(net)
%C%_library_fault_test_CPPFLAGS = $(AM_CPPFLAGS) $(fakes_list)
%C%_library_late_fault_test_SOURCES = $(%C%_library_fault_test_SOURCES)
%C%_library_late_fault_test_CPPFLAGS = $(AM_CPPFLAGS) $(fakes_list) -DFAULTY_BEHIND=cg_backend_late
%C%_library_late_test_SOURCES = %D%/library/late_test.c $(fakes) $(net_trials) $(net)
%C%_library_late_test_CPPFLAGS = $(AM_CPPFLAGS) $(fakes_list)
# The tests of tests/cache test the cache of compiled kernels; wrappers of file functions count calls to the disk and can fail them.
cache_disk = %D%/help/cache_disk.h %D%/help/cache_disk.c %D%/fake/faulty_disk.h %D%/fake/faulty_disk.c
%C%_cache_cache_test_SOURCES = %D%/cache/cache_test.c $(cache_disk)
%C%_cache_cache_directory_test_SOURCES = %D%/cache/cache_directory_test.c $(cache_disk)
%C%_cache_cache_fault_test_SOURCES = %D%/cache/cache_fault_test.c $(cache_disk)
%C%_cache_cache_bound_test_SOURCES = %D%/cache/cache_bound_test.c $(cache_disk)
%C%_op_op_test_SOURCES = %D%/op/op_test.c %D%/help/args.h %D%/help/args.c
%C%_op_check_test_SOURCES = %D%/op/check_test.c %D%/help/args.h %D%/help/args.c
%C%_gen_kernels_run_SOURCES = %D%/gen/kernels_run.c verify/kernel_trial.h verify/kernel_trial.c $(trials)
%C%_backends_cuda_cuda_forms_test_SOURCES = %D%/backends/cuda/cuda_forms_test.c verify/kernel_trial.h verify/kernel_trial.c $(trials)
asked_pool = %D%/help/asked_pool.h %D%/help/asked_pool.c
%C%_backends_cpu_pool_test_SOURCES = %D%/backends/cpu/pool_test.c $(net) $(asked_pool)
%C%_backends_cpu_all_steps_test_SOURCES = %D%/backends/cpu/all_steps_test.c $(net) $(asked_pool)
%C%_backends_cpu_pool_test_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
%C%_backends_cpu_product_test_SOURCES = %D%/backends/cpu/product_test.c $(numbers)
tensors = %D%/help/tensors.h %D%/help/tensors.c
driver_watch = %D%/backends/driver_watch.h %D%/backends/driver_watch.c $(tensors)
opencl_watch = %D%/backends/opencl/opencl_watch.h %D%/backends/opencl/opencl_watch.c $(driver_watch)
%C%_backends_opencl_opencl_test_SOURCES = %D%/backends/opencl/opencl_test.c $(opencl_watch) $(counted)
net_trials = %D%/help/net_trials.h %D%/help/net_trials.c $(counted)
step_cases = %D%/help/step_cases.h %D%/help/step_cases.c $(net)
%C%_rnn_rnn_streams_test_SOURCES = %D%/rnn/rnn_streams_test.c $(net_trials) $(net)
%C%_backends_opencl_opencl_rnn_test_SOURCES = %D%/backends/opencl/opencl_rnn_test.c $(opencl_watch) $(step_cases) $(net_trials)
cuda_watch = %D%/backends/cuda/cuda_watch.h %D%/backends/cuda/cuda_watch.c $(driver_watch)
%C%_backends_cuda_cuda_test_SOURCES = %D%/backends/cuda/cuda_test.c $(cuda_watch) $(counted)
%C%_backends_cuda_cuda_fault_test_SOURCES = %D%/backends/cuda/cuda_fault_test.c $(cuda_watch) $(counted)
%C%_backends_cuda_cuda_cache_test_SOURCES = %D%/backends/cuda/cuda_cache_test.c $(cuda_watch)
%C%_backends_cuda_cuda_gemm_test_SOURCES = %D%/backends/cuda/cuda_gemm_test.c $(cuda_watch) $(numbers) $(counted)
rows_trial = %D%/backends/rows_trial.h %D%/backends/rows_trial.c $(numbers) $(sequence)
%C%_rnn_rnn_misuse_test_SOURCES = %D%/rnn/rnn_misuse_test.c $(counted)
%C%_library_misuse_test_SOURCES = %D%/library/misuse_test.c $(counted) $(shared_stream)
%C%_library_memory_test_SOURCES = %D%/library/memory_test.c $(counted)
%C%_op_kernel_run_test_SOURCES = %D%/op/kernel_run_test.c $(counted) $(shared_stream)
%C%_weights_weights_test_SOURCES = %D%/weights/weights_test.c $(counted)
%C%_weights_transfer_test_SOURCES = %D%/weights/transfer_test.c $(counted)
%C%_rnn_rnn_size_test_SOURCES = %D%/rnn/rnn_size_test.c $(counted)
%C%_backends_opencl_opencl_device_test_SOURCES = %D%/backends/opencl/opencl_device_test.c $(counted)
%C%_library_threads_test_SOURCES = %D%/library/threads_test.c $(counted)
%C%_library_reuse_test_SOURCES = %D%/library/reuse_test.c $(counted)
%C%_block_block_sequence_test_SOURCES = %D%/block/block_sequence_test.c $(numbers) $(counted)
%C%_backends_cuda_sequence_test_SOURCES = %D%/block/block_sequence_test.c $(numbers) $(counted)
%C%_backends_gather_scatter_test_SOURCES = %D%/backends/gather_scatter_test.c $(rows_trial) $(counted)
%C%_backends_cuda_cuda_rnn_test_SOURCES = %D%/backends/cuda/cuda_rnn_test.c $(cuda_watch) $(step_cases) $(net_trials)
%C%_backends_cuda_cudnn_cuda_net_test_SOURCES = %D%/backends/cuda/cudnn/cuda_net_test.c $(cuda_watch) $(counted)
%C%_backends_cuda_cudnn_cuda_net_call_test_SOURCES = %D%/backends/cuda/cudnn/cuda_net_call_test.c verify/promise.h $(cuda_watch) $(net) $(counted)
%C%_backends_cuda_cudnn_cuda_range_test_SOURCES = %D%/backends/cuda/cudnn/cuda_range_test.c $(cuda_watch) $(net) $(counted)
%C%_backends_cuda_cuda_moves_test_SOURCES = %D%/backends/cuda/cuda_moves_test.c $(cuda_watch) $(numbers) $(sequence) $(counted)
%C%_backends_cuda_cuda_rows_test_SOURCES = %D%/backends/cuda/cuda_rows_test.c $(cuda_watch) $(rows_trial) $(counted)
%C%_backends_cuda_cuda_header_test_CPPFLAGS = $(AM_CPPFLAGS) $(cuda_headers)
%C%_parallel_check_SOURCES = %D%/parallel_check.c $(sequence)
%C%_gen_gemm_run_SOURCES = %D%/gen/gemm_run.c verify/numbers.h verify/numbers.c $(reference)
%C%_sequence_sequence_SOURCES = \
	%D%/sequence/sequence.c %D%/sequence/suite.h %D%/sequence/guarded_network.h %D%/sequence/guarded_network.c %D%/sequence/answers.c \
	%D%/sequence/random.c %D%/sequence/chunks.c %D%/sequence/equivalent.c %D%/sequence/repeat.c \
	%D%/sequence/known.c %D%/sequence/block_cell.c %D%/sequence/slopes.h %D%/sequence/slopes.c %D%/sequence/modes.c \
	%D%/sequence/cells.c %D%/sequence/draw_cell.h %D%/sequence/draw_cell.c %D%/sequence/drawn.c %D%/sequence/tape.h %D%/sequence/tape.c \
	%D%/sequence/training.c %D%/sequence/launches.c \
	verify/area.h verify/area.c verify/promise.h $(device) $(sequence) $(numbers) $(counted)
%C%_rnn_rnn_call_test_SOURCES = %D%/rnn/rnn_call_test.c $(net) $(counted) $(shared_stream)
%C%_rnn_rnn_layout_test_SOURCES = %D%/rnn/rnn_layout_test.c $(net) $(counted)
%C%_op_verbose_test_SOURCES = %D%/op/verbose_test.c $(net) $(counted)
%C%_rnn_rnn_memory_test_SOURCES = %D%/rnn/rnn_memory_test.c $(net) $(counted)
%C%_rnn_rnn_span_test_SOURCES = %D%/rnn/rnn_span_test.c $(net) $(counted) $(shared_stream) $(asked_pool)
%C%_rnn_rnn_once_test_SOURCES = %D%/rnn/rnn_once_test.c $(net) $(counted)
%C%_rnn_rnn_once_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=cg_op_check -Wl,--wrap=cg_packed_count -Wl,--wrap=cg_layers_lay_out_workspace
# A test with tf_host.c takes TensorFlow's place: the test's program has the functions of TensorFlow that the plugin calls.  These tests are
# linked with libcellgrad.la, which exports the library's public functions alone.
tf_host = %D%/bindings/tensorflow/tf_host.h %D%/bindings/tensorflow/tf_host.c bindings/tensorflow/tf_api.h
tf_trial = %D%/bindings/tensorflow/tf_trial.h %D%/bindings/tensorflow/tf_trial.c $(tf_host)
if SHARED
tf_plugin = cellgrad_tensorflow.la
tf_loader = cellgrad_tensorflow_loader.la
endif
%C%_bindings_tensorflow_tf_plugin_test_SOURCES = %D%/bindings/tensorflow/tf_plugin_test.c $(tf_trial)
%C%_bindings_tensorflow_tf_plugin_test_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_bindings_tensorflow_tf_plugin_test_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
%C%_bindings_tensorflow_tf_plugin_test_LDADD = libcellgrad.la $(CMOCKA_LIBS)
EXTRA_%C%_bindings_tensorflow_tf_plugin_test_DEPENDENCIES = $(tf_plugin)
%C%_bindings_tensorflow_tf_network_test_SOURCES = %D%/bindings/tensorflow/tf_network_test.c $(tf_trial)
%C%_bindings_tensorflow_tf_network_test_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_bindings_tensorflow_tf_network_test_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
%C%_bindings_tensorflow_tf_network_test_LDADD = libcellgrad.la $(CMOCKA_LIBS)
EXTRA_%C%_bindings_tensorflow_tf_network_test_DEPENDENCIES = $(tf_plugin)
%C%_bindings_tensorflow_tf_params_test_SOURCES = %D%/bindings/tensorflow/tf_params_test.c $(tf_trial)
%C%_bindings_tensorflow_tf_params_test_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_bindings_tensorflow_tf_params_test_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
%C%_bindings_tensorflow_tf_params_test_LDADD = libcellgrad.la $(CMOCKA_LIBS)
EXTRA_%C%_bindings_tensorflow_tf_params_test_DEPENDENCIES = $(tf_plugin)
%C%_bindings_tensorflow_tf_block_test_SOURCES = %D%/bindings/tensorflow/tf_block_test.c $(tf_trial)
%C%_bindings_tensorflow_tf_block_test_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_bindings_tensorflow_tf_block_test_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
%C%_bindings_tensorflow_tf_block_test_LDADD = libcellgrad.la $(CMOCKA_LIBS)
EXTRA_%C%_bindings_tensorflow_tf_block_test_DEPENDENCIES = $(tf_plugin)
%C%_bindings_tensorflow_tf_loader_test_SOURCES = %D%/bindings/tensorflow/tf_loader_test.c $(tf_host)
%C%_bindings_tensorflow_tf_loader_test_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
%C%_bindings_tensorflow_tf_loader_test_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
%C%_bindings_tensorflow_tf_loader_test_LDADD = libcellgrad.la $(CMOCKA_LIBS)
EXTRA_%C%_bindings_tensorflow_tf_loader_test_DEPENDENCIES = $(tf_plugin) $(tf_loader)
%C%_bindings_tensorflow_tf_absent_test_LDADD = $(CMOCKA_LIBS)
EXTRA_%C%_bindings_tensorflow_tf_absent_test_DEPENDENCIES = $(tf_plugin)
%C%_gen_rows_test_SOURCES = %D%/gen/rows_test.c $(sequence)
%C%_gen_strip_test_CPPFLAGS = $(AM_CPPFLAGS) -DCG_ISA=baseline
%C%_gen_math_test_SOURCES = %D%/gen/math_test.c %D%/gen/math_text.h
%C%_gen_math_test_LDADD = $(math_texts) $(LDADD)
%C%_gen_halves_test_SOURCES = %D%/gen/halves_test.c %D%/gen/math_text.h
%C%_gen_halves_test_LDADD = $(math_texts) $(LDADD)
math_texts = %D%/gen/libmath_f16.la %D%/gen/libmath_bf16.la %D%/gen/libmath_f32.la %D%/gen/libmath_f64.la
check_LTLIBRARIES = $(math_texts) $(math_ways)
%C%_gen_libmath_f16_la_SOURCES = %D%/gen/math_text.c
%C%_gen_libmath_f16_la_CPPFLAGS = $(AM_CPPFLAGS) -DCG_DTYPE=f16 -DCG_MATH='"math_f16.h"'
%C%_gen_libmath_bf16_la_SOURCES = %D%/gen/math_text.c
%C%_gen_libmath_bf16_la_CPPFLAGS = $(AM_CPPFLAGS) -DCG_DTYPE=bf16 -DCG_MATH='"math_bf16.h"'
%C%_gen_libmath_f32_la_SOURCES = %D%/gen/math_text.c
%C%_gen_libmath_f32_la_CPPFLAGS = $(AM_CPPFLAGS) -DCG_DTYPE=f32 -DCG_MATH='"math_f32.h"'
%C%_gen_libmath_f64_la_SOURCES = %D%/gen/math_text.c
%C%_gen_libmath_f64_la_CPPFLAGS = $(AM_CPPFLAGS) -DCG_DTYPE=f64 -DCG_MATH='"math_f64.h"'
%C%_gen_floats_test_SOURCES = %D%/gen/floats_test.c %D%/gen/math_text.h
%C%_gen_floats_test_LDADD = $(math_ways) $(LDADD)
math_ways = %D%/gen/libmath_f32_plain.la %D%/gen/libmath_f32_fused.la
%C%_gen_libmath_f32_plain_la_SOURCES = %D%/gen/math_text.c
%C%_gen_libmath_f32_plain_la_CPPFLAGS = $(AM_CPPFLAGS) -DCG_DTYPE=f32_plain -DCG_MATH='"math_f32.h"'
%C%_gen_libmath_f32_plain_la_CFLAGS = $(isa_cflags)
%C%_gen_libmath_f32_fused_la_SOURCES = %D%/gen/math_text.c
%C%_gen_libmath_f32_fused_la_CPPFLAGS = $(AM_CPPFLAGS) -DCG_DTYPE=f32_fused -DCG_MATH='"math_f32.h"'
%C%_gen_libmath_f32_fused_la_CFLAGS = $(isa_cflags) $(isa_fused)
%C%_command_demo_model_test_SOURCES = %D%/command/demo/model_test.c command/demo/model.c command/demo/text.c
%C%_command_demo_model_test_CPPFLAGS = $(AM_CPPFLAGS) -DMODEL_F64
replay = %D%/fuzz/replay.h %D%/fuzz/replay.c
%C%_fuzz_cell_fuzz_SOURCES = %D%/fuzz/cell_fuzz.c $(replay)
%C%_fuzz_cache_fuzz_SOURCES = %D%/fuzz/cache_fuzz.c $(replay)
%C%_fuzz_safetensors_fuzz_SOURCES = %D%/fuzz/safetensors_fuzz.c $(replay)
%C%_fuzz_cell_fuzz_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_REPLAY
%C%_fuzz_cache_fuzz_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_REPLAY
%C%_fuzz_safetensors_fuzz_CPPFLAGS = $(AM_CPPFLAGS) -DFUZZ_REPLAY
%C%_fuzz_safetensors_fuzz_LDADD = command/libcommand.la $(LDADD)
%C%_bindings_jax_xla_host_test_LDADD = bindings/jax/libjax.la libcellgrad.la $(CMOCKA_LIBS)
%C%_command_run_orders_test_SOURCES = %D%/command/run/orders.h %D%/command/run/orders.c %D%/command/run/orders_test.c
%C%_command_run_orders_test_LDADD = command/libcommand.la $(LDADD)
%C%_command_convert_convert_test_LDADD = command/libcommand.la $(LDADD)
%C%_command_child_process_test_LDADD = command/libcommand.la $(LDADD)
%C%_command_file_test_LDADD = command/libcommand.la $(LDADD)
gpu_time = %D%/gpu_time.h %D%/gpu_time.c
%C%_net_time_SOURCES = %D%/net_time.c %D%/timed_net.h %D%/timed_net.c $(numbers) $(gpu_time)
%C%_gpu_probe_SOURCES = %D%/gpu_probe.c %D%/gpu_micro.h %D%/gpu_micro.c $(gpu_time)
%C%_parts_LDADD = command/libcommand.la $(LDADD)
%C%_command_alike_LDADD = command/libcommand.la $(LDADD)
%C%_command_check_shrink_test_LDADD = command/libcommand.la $(LDADD)
%C%_op_attribute_test_LDADD = command/libcommand.la $(LDADD)

include %D%/fake/local.mk

check_PROGRAMS += $(helpers)
$(cpu_tests) $(device_tests):
	$(AM_V_at)$(MKDIR_P) $(@D) && echo > $@
CLEANFILES += $(cpu_tests) $(device_tests)
if HAVE_CMOCKA
if HAVE_JANSSON
check_PROGRAMS += $(unit_tests) $(long_tests) %D%/conformance/conformance %D%/sequence/sequence
endif
endif
# The quickest tests, and those that find most, come first.
TESTS += $(quick_tests) $(unit_tests) $(cpu_tests) $(python_tests)
if COMMAND
TESTS += $(command_tests)
if !HAVE_BATS
check_DATA += make-check-needs-bats
endif
endif
if !HAVE_CMOCKA
check_DATA += make-check-needs-libcmocka-dev
endif
if !HAVE_JANSSON
check_DATA += make-check-needs-libjansson-dev
endif
TESTS += $(fake_tests) $(device_tests) $(script_tests) $(long_tests)
make-check-needs-bats make-check-needs-libcmocka-dev make-check-needs-libjansson-dev:
	@echo "$@ (Debian's name of the package): install it and run configure again" >&2; exit 1

# Tests that measure time run after all others, one after the other; a make that lacks the function filter-out runs them beside others.
timed_1 = %D%/gen/print_test.log
timed_2 = %D%/gen/limit_test.log
timed_3 = %D%/fuzz/cell_fuzz.log
timed_4 = %D%/backends/cpu/blas_test.log
timed_5 = %D%/command/child_process_test.log
timed_6 = %D%/command/bench.log
timed = $(timed_1) $(timed_2) $(timed_3) $(timed_4) $(timed_5) $(timed_6)
$(timed): $(filter-out $(timed),$(TEST_LOGS))
$(timed_2): $(filter $(timed_1),$(TEST_LOGS))
$(timed_3): $(filter $(timed_1) $(timed_2),$(TEST_LOGS))
$(timed_4): $(filter $(timed_1) $(timed_2) $(timed_3),$(TEST_LOGS))
$(timed_5): $(filter $(timed_1) $(timed_2) $(timed_3) $(timed_4),$(TEST_LOGS))
$(timed_6): $(filter $(timed_1) $(timed_2) $(timed_3) $(timed_4) $(timed_5),$(TEST_LOGS))

# All tests print TAP.  All tests run in the build tree and find the source in $srcdir.  If PoCL is installed and OCL_ICD_VENDORS unset,
# PoCL is the only OpenCL driver for programs with the address sanitizer, which fails if a library that is loaded late throws an exception,
# as Mesa's Clover does.  PoCL takes three times as long to make a kernel with optimisation as without, and the bits are the same.  In make
# check only gen/gemm.sh, the comparison of kernels' bits in command/check.bats and the losses on OpenCL in command/demo.bats use optimised
# kernels of PoCL.  The suites conformance and sequence in make bigcheck, and the tests on PoCL in make cpucheck, use optimised kernels,
# too.  The comments (#) in a test's TAP are printed with its results.  TIMES=FILE appends each test's times to FILE.
tap = $(TIMES:%=$(SHELL) $(top_srcdir)/%D%/times.sh %) env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh --comments
TEST_EXTENSIONS = .sh .py .bats .on .fake
LOG_DRIVER = $(tap)
LOG_COMPILER = $(SHELL) $(top_srcdir)/%D%/unit.sh
SH_LOG_DRIVER = $(tap)
SH_LOG_COMPILER = $(SHELL)
PY_LOG_DRIVER = $(tap)
PY_LOG_COMPILER = $(SHELL) $(top_srcdir)/%D%/unit.sh $(PYTHON)
ON_LOG_DRIVER = $(tap)
ON_LOG_COMPILER = $(SHELL) $(top_srcdir)/%D%/conformance/on.sh
FAKE_LOG_DRIVER = $(tap)
FAKE_LOG_COMPILER = $(SHELL) $(top_srcdir)/%D%/fake/run_unit.sh
BATS_LOG_DRIVER = $(tap)
BATS_LOG_COMPILER = $(BATS) --tap --print-output-on-failure
pocl_icd = /etc/OpenCL/vendors/pocl.icd
# The thread sanitizer keeps its notes on memory that a driver has unloaded, 20 GB of them in one test, unless they have a limit.
AM_TESTS_ENVIRONMENT = \
	TSAN_OPTIONS=memory_limit_mb=3000 LSAN_OPTIONS=suppressions=$(abs_top_srcdir)/%D%/lsan.supp:print_suppressions=0 \
	CMOCKA_MESSAGE_OUTPUT=TAP CC='$(CC) $(isa_all)' CXX='$(CXX)' SANITIZE='$(sanitize)' BUILD_CFLAGS='$(CFLAGS)' MAKE='$(MAKE)' PKG_CONFIG='$(PKG_CONFIG)' \
	BINDIR='$(bindir)' LIBDIR='$(libdir)' INCLUDEDIR='$(includedir)' MANDIR='$(mandir)' DATADIR='$(pkgdatadir)' DOCDIR='$(docdir)' \
	CELLGRAD='$(abs_top_builddir)/cellgrad' CELLGEN='$(abs_top_builddir)/cellgen' EXAMPLE='$(abs_top_builddir)/examples/peephole_lstm' \
	LIBRARY='$(abs_top_builddir)/.libs/libcellgrad$(shared_suffix)' ARCHIVE='$(abs_top_builddir)/.libs/libcellgrad.a'; \
	case '$(sanitize)' in *address*) \
		test -n "$$OCL_ICD_VENDORS" || test ! -f $(pocl_icd) || OCL_ICD_VENDORS=$(pocl_icd); export OCL_ICD_VENDORS ;; esac; \
	POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable; export POCL_EXTRA_BUILD_FLAGS; \
	export TSAN_OPTIONS LSAN_OPTIONS CMOCKA_MESSAGE_OUTPUT CC CXX SANITIZE BUILD_CFLAGS MAKE PKG_CONFIG BINDIR LIBDIR INCLUDEDIR MANDIR DATADIR DOCDIR \
	CELLGRAD CELLGEN EXAMPLE LIBRARY ARCHIVE; \
	srcdir=`cd $(srcdir) && pwd`; export srcdir;

# make installcheck: tests the installed files, under $(DESTDIR) if that is set, as make check tests files that it installs in a temporary
# folder.
installcheck-local:
	$(AM_TESTS_ENVIRONMENT) DESTDIR='$(DESTDIR)' $(SHELL) $(srcdir)/%D%/install.sh installed

# make cleancheck: tests the committed files in a minimal Debian in a temporary folder.  make cleancheck runs as root, and needs what
# tests/clean.sh lists.
cleancheck:
	$(SHELL) $(srcdir)/%D%/clean.sh $(CLEANCHECK)

# script-programs is what all test scripts need, except gpu_rehearsal.sh, which runs unit tests, too.  For a script make mutate builds
# script-programs and no more.
script-programs: all $(helpers) %D%/conformance/conformance %D%/sequence/sequence $(check_DATA)

# make mutate: each seeded defect must make its tests fail.  make mutate MUTANTS='ID...' takes these defects alone, make mutate
# SINCE=COMMIT the defects in files that differ from a commit.
mutate:
	MAKE='$(MAKE)' $(SHELL) $(srcdir)/%D%/mutate.sh $${SINCE:+--since "$$SINCE"} $(MUTANTS)

# make valgrind: finds leaks and reads of unwritten memory in the programs of valgrind_tests and two fuzzers; valgrind emulates avx2 but not
# avx512.  The list valgrind_tests must not have change_test, limit_test and team_test, which take too long; blas_test, whose workers spin
# while valgrind runs one thread at a time; parse_test, mistake_test, print_test, math_test, reference_*test, data_test and conformance,
# since valgrind computes long double in double; bits_test, since valgrind does not flush subnormal numbers to zero.
VALGRIND = valgrind -q --error-exitcode=99 --leak-check=full --num-callers=20
valgrind_tests = \
	%D%/gen/expr_test %D%/gen/derive_test %D%/gen/plan_test %D%/gen/strip_test \
	%D%/op/op_test %D%/op/check_test %D%/core/message_test %D%/library/misuse_test %D%/library/memory_test \
	%D%/op/kernel_run_test %D%/library/threads_test %D%/core/allocator_test %D%/weights/transfer_test \
	%D%/library/fault_test %D%/library/late_fault_test %D%/library/late_test
valgrind: $(valgrind_tests) %D%/fuzz/cell_fuzz %D%/fuzz/safetensors_fuzz
	set -e; srcdir=`cd $(srcdir) && pwd`; export srcdir; \
	for test in $(valgrind_tests) "%D%/fuzz/cell_fuzz -n 100" "%D%/fuzz/safetensors_fuzz -n 1000"; do \
		echo "# $$test"; \
		$(LIBTOOL) --mode=execute $(VALGRIND) --suppressions=$$srcdir/%D%/valgrind.supp $$test; \
	done

# make cpucheck: runs tests as on older x86-64 processors: under qemu-user, with CELLGRAD_CPU_ISA, and by PoCL as on such a processor.
# make cpucheck ROWS='NAME...' runs these rows of cpu.sh alone.  All rows of cpu.sh together take a quarter of an hour on two processors.
cpucheck:
	$(MAKE) check TESTS=
	$(AM_TESTS_ENVIRONMENT) UNIT='$(unit_tests)' CFLAGS='$(CFLAGS)' $(SHELL) $(srcdir)/%D%/cpu.sh $(ROWS)

# make crosscheck: builds and tests cellgrad for other processors and for another C library, if there are compilers for them.
# make crosscheck ROWS='NAME...' takes these rows of cross.sh alone.
crosscheck: all %D%/conformance/checksum
	MAKE='$(MAKE)' UNIT='$(unit_tests)' TIMED='$(timed:.log=)' srcdir='$(srcdir)' $(SHELL) $(srcdir)/%D%/cross.sh $(ROWS)
clean-local: clean-fake clean-docs
	rm -rf cross toy

# make bigcheck: runs the tests that take too long for make check.  The tests of make bigcheck are the suites conformance and sequence on
# OpenCL with kernels that PoCL optimises; networks of 20,000 random cells, and the kernels of 2,000 on OpenCL and on the stand-ins for
# CUDA's libraries; every form of the cuda backend's kernels; the mathematics of every float where results can differ; products by kernels
# that PoCL optimises in every dtype; a built-in cell that is added in a copy of the source; programs of earlier versions on a library whose
# structs have more fields; the API reference; the documents' commands that take minutes; two builds compared; the Debian packages, where
# Debian's tools are installed; OpenCL texts of all dtypes; and CUDA texts compiled for the architectures ARCHS, which writes the resources
# that each kernel takes to tests/gen/cuda-resources.txt.
ARCHS = 75,80,90,100,120
bigcheck: %D%/sequence/sequence %D%/conformance/conformance
	for suite in %D%/conformance/conformance %D%/sequence/sequence; do \
		CELLGRAD_BACKEND=opencl $$suite --opens || continue; CELLGRAD_BACKEND=opencl $$suite || exit 1; done
	CELLGRAD_BACKEND=cpu CELLGRAD_TEST_CELLS=20000 %D%/sequence/sequence '*drawn'
	for with in 'env CELLGRAD_BACKEND=opencl' 'env CELLGRAD_BACKEND=cuda %D%/fake/run'; do \
		$$with $(SHELL) $(srcdir)/%D%/drawn.sh 2000 120 || test $$? -eq 77 || exit 1; done
	CELLGRAD_TEST_FORMS=all CELLGRAD_TEST_FLOATS=all $(MAKE) check TESTS='%D%/backends/cuda/cuda_forms_test.fake %D%/gen/floats_test'
	$(AM_TESTS_ENVIRONMENT) $(SHELL) $(srcdir)/%D%/gen/gemm.sh 100
	$(AM_TESTS_ENVIRONMENT) $(SHELL) $(srcdir)/%D%/old.sh later
	$(AM_TESTS_ENVIRONMENT) $(SHELL) $(srcdir)/%D%/toy.sh
	$(AM_TESTS_ENVIRONMENT) $(SHELL) $(srcdir)/%D%/reference.sh whole
	$(AM_TESTS_ENVIRONMENT) $(PYTHON) $(srcdir)/%D%/docs.py slow
	$(AM_TESTS_ENVIRONMENT) $(SHELL) $(srcdir)/%D%/reproducible.sh whole
	$(SHELL) $(srcdir)/packaging/packaging.sh || test $$? -eq 77
	$(AM_TESTS_ENVIRONMENT) $(SHELL) $(srcdir)/%D%/gen/compile.sh opencl
	CELLGRAD_TEST_ARCHS='$(ARCHS)' $(MAKE) check TESTS=%D%/gen/compile.sh
CLEANFILES += %D%/gen/cuda-resources.txt

# make coverage: counts the product's lines that make check executed, in a build with CFLAGS=--coverage LDFLAGS=--coverage.
coverage:
	$(PYTHON) $(srcdir)/%D%/coverage.py $(srcdir)
CLEANFILES += not-executed.txt

# make data: makes the answers of frameworks in tests/data again; needs the frameworks.
data:
	$(PYTHON) $(srcdir)/%D%/data/make_tensorflow.py
	$(PYTHON) $(srcdir)/%D%/data/make_tensorflow_weights.py
	$(PYTHON) $(srcdir)/%D%/data/make_keras.py
	$(PYTHON) $(srcdir)/%D%/data/make_pytorch.py
	$(PYTHON) $(srcdir)/%D%/data/make_pytorch_weights.py
	$(PYTHON) $(srcdir)/%D%/data/make_onnx.py

# make check-frameworks: tests the Python package's part for each framework with the oldest and the newest version of the framework, in
# virtual environments in frameworks/, of several GB.  PYTHONS=PATH... takes existing Pythons that have frameworks; FRAMEWORKS=onnx tests
# the part for ONNX alone.
check-frameworks: all $(check_DATA)
	$(AM_TESTS_ENVIRONMENT) PYTHON='$(PYTHON)' FRAMEWORKS='$(FRAMEWORKS)' $(SHELL) $(srcdir)/%D%/frameworks/frameworks.sh $(PYTHONS)

# make ci: runs all that a change must pass: make check in this build and in other builds, the tests of the tarball, and the seeded defects.
ci_builds = '--enable-asan --enable-ubsan' '--enable-tsan' '--without-openblas' 'CC=clang --enable-werror'
ci: check distcheck
	set -e; for with in $(ci_builds); do \
		echo "ci: $$with"; rm -rf ci; $(MKDIR_P) ci; \
		(cd ci && $(abs_srcdir)/configure -q $$with && $(MAKE) -s check); \
	done; rm -rf ci
	$(MAKE) mutate
.PHONY: script-programs check-frameworks cleancheck crosscheck cpucheck bigcheck mutate valgrind coverage data ci
