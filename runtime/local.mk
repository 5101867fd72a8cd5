# The library and the command.
#
# libwhole holds all of the library with its inner names within reach; the library is that and nothing more.  The
# command and the tests of inner parts link libwhole; whatever stands for a user links libcellgrad.
AM_CPPFLAGS += $(LIBMD_CFLAGS)
noinst_LTLIBRARIES += %D%/libwhole.la
%C%_libwhole_la_SOURCES = \
	%D%/core/core.h %D%/core/environment.h %D%/core/dtype.c %D%/core/memory.c %D%/core/message.c %D%/core/cell.c \
	%D%/core/environment.c %D%/core/sized.c %D%/core/fork.c %D%/core/fingerprint.c %D%/core/line.c \
	%D%/cache/cache.h %D%/cache/entry.h %D%/cache/disk.h %D%/cache/cache.c %D%/cache/entry.c %D%/cache/directory.c \
	%D%/cache/disk.fn \
	%D%/device/backend.h %D%/device/net.h %D%/device/mem.h %D%/device/device.h %D%/device/net.c %D%/device/mem.c \
	%D%/device/context.c %D%/device/open.c %D%/device/workspace.c %D%/device/staging.c %D%/device/kernel.c \
	%D%/op/op.h %D%/op/check.c %D%/op/attribute.c %D%/op/list.c %D%/op/run.c %D%/op/verbose.c %D%/op/kernel_run.c \
	%D%/rnn/rnn.h %D%/rnn/rows.h %D%/rnn/rows.c %D%/rnn/plan.c %D%/rnn/cell_layout.c %D%/rnn/route.c %D%/rnn/call.c \
	%D%/rnn/params.c %D%/rnn/reserve.c %D%/rnn/packed.c %D%/rnn/layers.c %D%/rnn/recurrence.c \
	%D%/block/block.h %D%/block/lstm_block.c %D%/block/gru_block.c \
	%D%/tensorflow/cudnn_rnn.h %D%/tensorflow/table.c %D%/tensorflow/cudnn_rnn.c %D%/tensorflow/cudnn_rnn_rows.c %D%/tensorflow/canonical.c \
	%D%/weights/format.h %D%/weights/format_table.c %D%/weights/layout.c %D%/weights/transfer.c %D%/weights/weights.c
%C%_libwhole_la_LIBADD = gen/libgen.la $(backend_libraries) $(LIBMD_LIBS)
EXTRA_%C%_libwhole_la_DEPENDENCIES = $(backend_libraries)

EXTRA_DIST += %D%/README.md \
	%D%/core/README.md %D%/cache/README.md %D%/device/README.md %D%/op/README.md %D%/rnn/README.md %D%/block/README.md %D%/tensorflow/README.md %D%/weights/README.md
include_HEADERS = %D%/cellgrad.h
pkgconfigdir = $(libdir)/pkgconfig
nodist_pkgconfig_DATA = %D%/cellgrad.pc

# current:revision:age.  Before a release: code changed, revision + 1.  Interfaces added, removed or changed: current + 1
# and revision 0; then added only: age + 1, removed or changed: age 0.
#   0.1.0  0:0:0
#   0.2.0  1:0:1
lib_LTLIBRARIES += libcellgrad.la
libcellgrad_la_SOURCES =
libcellgrad_la_LIBADD = %D%/libwhole.la
libcellgrad_la_LIBTOOLFLAGS =
libcellgrad_la_LDFLAGS = $(AM_LDFLAGS) -no-undefined -version-info 1:0:1 -export-symbols-regex '^cg_'

# The command; its parts are a library for the sake of tests.
if COMMAND
noinst_LTLIBRARIES += %D%/command/libcommand.la
bin_PROGRAMS += cellgrad
endif
%C%_command_libcommand_la_SOURCES = \
	%D%/command/about.h %D%/command/bench.h %D%/command/call.h %D%/command/claim.h %D%/command/command.h %D%/command/compare.h %D%/command/curve.h %D%/command/describe.h \
	%D%/command/file.h %D%/command/inspect.h %D%/command/model.h %D%/command/metadata.h %D%/command/probe.h %D%/command/network.h %D%/command/print.h %D%/command/safetensors.h %D%/command/text.h \
	%D%/command/train.h \
	%D%/command/about.c %D%/command/attribute.c %D%/command/bench.c %D%/command/cache.c %D%/command/call.c %D%/command/claim.c %D%/command/compare.c %D%/command/convert.c %D%/command/curve.c \
	%D%/command/demo.c %D%/command/describe.c %D%/command/describe_json.c %D%/command/emit.c %D%/command/error.c %D%/command/file.c %D%/command/fit.c %D%/command/info.c %D%/command/metadata.c %D%/command/metadata_cell.c %D%/command/inspect.c %D%/command/model.c %D%/command/network.c \
	%D%/command/options.c %D%/command/plan.c %D%/command/plot.c %D%/command/probe.c %D%/command/problem.c %D%/command/print.c %D%/command/recurrence.c %D%/command/report.c %D%/command/roof.c \
	%D%/command/run.c %D%/command/safetensors.c %D%/command/text.c %D%/command/timing.c %D%/command/train.c
# The text that the demo's model learns.
nodist_%C%_command_libcommand_la_SOURCES = %D%/command/texts.c
EXTRA_DIST += %D%/command/alice.txt
CLEANFILES += %D%/command/texts.c
%D%/command/texts.c: templates/embed.sh %D%/command/alice.txt
	$(AM_V_GEN)$(MKDIR_P) %D%/command && \
	$(SHELL) $(srcdir)/templates/embed.sh command_texts $(srcdir)/%D%/command/alice.txt > $@.tmp && mv $@.tmp $@
# Where the demo finds TensorFlow's answers: installed, or in the source.
%C%_command_libcommand_la_CPPFLAGS = $(AM_CPPFLAGS) \
	-DCELLGRAD_DATA='"$(pkgdatadir)/data"' -DCELLGRAD_SOURCE_DATA='"$(abs_top_srcdir)/tests/data"'
%C%_command_libcommand_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(POPT_CFLAGS)
%C%_command_libcommand_la_LIBADD = %D%/libwhole.la $(JANSSON_LIBS) $(POPT_LIBS)
# `check`: its judge and its trials are those of the conformance suite.
%C%_command_libcommand_la_SOURCES += \
	%D%/command/check.h %D%/command/field.h %D%/command/shrink.h \
	%D%/command/check.c %D%/command/field.c %D%/command/shrink.c %D%/command/subject.c %D%/command/verdict.c \
	tests/conformance/answer.h tests/conformance/answer.c tests/conformance/network_trial.h tests/conformance/network_trial.c \
	tests/conformance/area.h tests/conformance/area.c tests/conformance/bound.h tests/conformance/bound.c \
	tests/conformance/cases.h tests/conformance/cases.c \
	tests/conformance/finding.h tests/conformance/finding.c tests/conformance/kernel_trial.h tests/conformance/kernel_trial.c \
	tests/conformance/numbers.h tests/conformance/numbers.c tests/conformance/reference.h tests/conformance/reference.c \
	tests/conformance/sequence.h tests/conformance/reference_block_lstm.c tests/conformance/reference_dropout.c \
	tests/conformance/reference_rnn.h tests/conformance/reference_rnn.c tests/conformance/reference_rnn_grad.c \
	tests/conformance/reference_rnn_params.c \
	tests/conformance/trial.h tests/conformance/trial.c
cellgrad_SOURCES = %D%/command/main.c
cellgrad_LDADD = %D%/command/libcommand.la
if COMMAND
install-data-local:
	$(MKDIR_P) '$(DESTDIR)$(pkgdatadir)/data'
	$(INSTALL_DATA) $(srcdir)/tests/data/*BlockCellGrad-*.safetensors '$(DESTDIR)$(pkgdatadir)/data'
uninstall-local:
	rm -rf '$(DESTDIR)$(pkgdatadir)/data'
endif
# Folders of ours that nothing is left in, once all files are gone.
uninstall-hook:
	for folder in '$(pkgdatadir)/cells' '$(pkgdatadir)' '$(examplesdir)' '$(docdir)'; do \
		rmdir "$(DESTDIR)$$folder" 2>/dev/null || :; done
