# SPDX-License-Identifier: Apache-2.0
# The command cellgrad; its sources but main.c are built as a library, libcommand, which the tests of the command's parts link, too.
if COMMAND
noinst_LTLIBRARIES += %D%/libcommand.la
bin_PROGRAMS += cellgrad
endif
%C%_libcommand_la_SOURCES = \
	%D%/about.h %D%/bench/bench.h %D%/run/op_call.h %D%/check/check.h %D%/claim.h %D%/command.h %D%/run/compare.h %D%/demo/curve.h \
	%D%/describe.h %D%/file.h %D%/inspect_json.h %D%/run/metadata.h %D%/demo/model.h %D%/convert/network.h %D%/output.h %D%/child_process.h \
	%D%/safetensors.h %D%/svg.h %D%/check/shrink.h %D%/demo/text.h %D%/demo/train.h %D%/about.c %D%/run/attribute_text.c %D%/bench/bench_command.c \
	%D%/cache_command.c %D%/run/op_call.c %D%/check/check_command.c %D%/claim.c %D%/run/compare.c %D%/convert/convert_command.c %D%/demo/curve.c \
	%D%/demo/demo_command.c %D%/describe.c %D%/describe_json.c %D%/emit_command.c %D%/fail.c %D%/file.c %D%/path.c %D%/convert/fit.c %D%/info_command.c %D%/inspect_json.c \
	%D%/run/metadata.c %D%/run/metadata_cell.c %D%/demo/model.c %D%/convert/network.c %D%/options.c %D%/run/expected.c %D%/run/network_call.c %D%/run/values.c %D%/run/metadata_write.c %D%/bench/plot.c \
	%D%/output.c %D%/child_process.c %D%/bench/problem.c %D%/bench/machine.c %D%/bench/problem_sizes.c %D%/run/recurrence_warning.c %D%/bench/report.c %D%/bench/roof.c %D%/run/run_command.c \
	%D%/safetensors.c %D%/svg.c %D%/check/shrink.c %D%/check/subject.c %D%/demo/text.c %D%/bench/timing.c %D%/demo/train.c \
	%D%/check/verdict.c \
	%D%/cell/cell_picture.h %D%/cell/oddities.h %D%/cell/pass_facts.h %D%/cell/cell_command.c %D%/cell/cell_picture.c %D%/cell/oddities.c \
	%D%/cell/pass_facts.c
# `cellgrad check` judges answers by the code of the conformance suite in verify/: the reference and the trials.
%C%_libcommand_la_SOURCES += \
	verify/cell_gradient.h verify/cell_gradient.c \
	verify/field.h verify/answer.h verify/network_trial.h verify/area.h verify/bound.h verify/cases.h verify/finding.h \
	verify/kernel_trial.h verify/numbers.h verify/reference.h verify/sequence.h \
	verify/reference_rnn.h verify/trial.h verify/field.c verify/answer.c verify/network_trial.c verify/area.c verify/bound.c \
	verify/cases.c verify/finding.c verify/kernel_trial.c verify/numbers.c verify/reference.c verify/reference_block_lstm.c \
	verify/reference_dropout.c verify/reference_rnn.c verify/reference_rnn_grad.c verify/reference_rnn_params.c verify/trial.c
EXTRA_DIST += %D%/README.md verify/README.md %D%/completion/make.sh %D%/completion/cellgrad.bash %D%/completion/_cellgrad
# The English text that the language model of `cellgrad demo` learns, as a C file.
nodist_%C%_libcommand_la_SOURCES = %D%/demo/texts.c
EXTRA_DIST += %D%/demo/alice.txt
CLEANFILES += %D%/demo/texts.c
%D%/demo/texts.c: templates/embed.sh %D%/demo/alice.txt
	$(AM_V_GEN)$(MKDIR_P) %D%/demo && \
	$(SHELL) $(srcdir)/templates/embed.sh command_texts $(srcdir)/%D%/demo/alice.txt > $@.tmp && mv $@.tmp $@
# `cellgrad demo` finds TensorFlow's stored answers in the folder of installed data, or by demo-data in the build tree, a link to the
# folder in the source.  No binary has a path of the build.
%C%_libcommand_la_CPPFLAGS = $(AM_CPPFLAGS) -DCELLGRAD_DATA='"$(pkgdatadir)/data"'
all-local: demo-data
demo-data:
	ln -s `cd $(srcdir) && pwd`/tests/data $@
CLEANFILES += demo-data
%C%_libcommand_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(POPT_CFLAGS)
%C%_libcommand_la_LIBADD = runtime/libwhole.la $(JANSSON_LIBS) $(POPT_LIBS)
cellgrad_SOURCES = %D%/main.c
cellgrad_CPPFLAGS = $(AM_CPPFLAGS) -DCG_BUG_REPORT='"$(BUG_REPORT)"' -DCG_URL='"$(URL)"'
cellgrad_LDADD = %D%/libcommand.la
if COMMAND
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = %D%/completion/_cellgrad
install_data += install-cases install-bash-completion
uninstall += uninstall-cases uninstall-bash-completion
install-bash-completion:
	$(MKDIR_P) '$(DESTDIR)$(bashcompletiondir)'
	$(INSTALL_DATA) $(srcdir)/%D%/completion/cellgrad.bash '$(DESTDIR)$(bashcompletiondir)/cellgrad'
uninstall-bash-completion:
	rm -f '$(DESTDIR)$(bashcompletiondir)/cellgrad'
install-cases:
	$(MKDIR_P) '$(DESTDIR)$(pkgdatadir)/data'
	$(INSTALL_DATA) $(srcdir)/tests/data/*BlockCellGrad-*.safetensors '$(DESTDIR)$(pkgdatadir)/data'
uninstall-cases:
	rm -rf '$(DESTDIR)$(pkgdatadir)/data'
endif
