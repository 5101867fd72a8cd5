# SPDX-License-Identifier: Apache-2.0
# The example programs, which use the library's public interface alone.
check_PROGRAMS += %D%/peephole_lstm %D%/bidirectional %D%/language_model %D%/device_memory %D%/graph %D%/own_runtime %D%/step
%C%_peephole_lstm_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_peephole_lstm_LDADD = libcellgrad.la
%C%_bidirectional_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_bidirectional_LDADD = libcellgrad.la
%C%_language_model_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_language_model_LDADD = libcellgrad.la
%C%_device_memory_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_device_memory_LDADD = libcellgrad.la
%C%_graph_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_graph_LDADD = libcellgrad.la
%C%_own_runtime_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_own_runtime_LDADD = libcellgrad.la
%C%_step_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_step_LDADD = libcellgrad.la
# tests/install.sh compiles own_cell.c and own_cell.cc with the installed library, as a user does; tests/parallel.sh compiles parallel.c.
EXTRA_DIST += %D%/README.md %D%/own_cell.c %D%/own_cell.cc %D%/parallel.c $(python_examples)
examplesdir = $(docdir)/examples
examples_DATA = \
	%D%/README.md %D%/peephole_lstm.c %D%/bidirectional.c %D%/language_model.c %D%/device_memory.c %D%/graph.c %D%/own_runtime.c %D%/step.c %D%/own_cell.c %D%/own_cell.cc %D%/parallel.c
python_examples = %D%/python/ddp.py %D%/python/jax_sharded.py %D%/python/onnx_train.py %D%/python/tensorflow_v1.py %D%/python/keras_lstm.py
python_examplesdir = $(examplesdir)/python
python_examples_DATA = $(python_examples)
