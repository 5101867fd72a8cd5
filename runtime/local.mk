# SPDX-License-Identifier: Apache-2.0
# The library, as libwhole and as libcellgrad.
#
# libwhole has all objects of the library, with internal symbols visible.  libcellgrad is the same code with only the public symbols
# exported.  The command and the tests of internal parts link libwhole; tests and examples that act as a user's program link libcellgrad.
AM_CPPFLAGS += $(LIBMD_CFLAGS)
noinst_LTLIBRARIES += %D%/libwhole.la
%C%_libwhole_la_SOURCES = \
	%D%/core/core.h %D%/core/environment.h %D%/core/dtype.c %D%/core/memory.c %D%/core/message.c %D%/core/cell.c %D%/core/cell_file.c \
	%D%/core/environment.c %D%/core/sized.c %D%/core/fork.c %D%/core/fingerprint.c %D%/core/line.c \
	%D%/cache/cache.h %D%/cache/entry.h %D%/cache/disk.h %D%/cache/cache.c %D%/cache/entry.c %D%/cache/directory.c \
	%D%/cache/disk.fn \
	%D%/device/backend.h %D%/device/net.h %D%/device/mem.h %D%/device/device.h %D%/device/inspect.h %D%/device/inspect.c %D%/device/net.c %D%/device/mem.c \
	%D%/device/context.c %D%/device/idle_streams.c %D%/device/open.c %D%/device/workspace.c %D%/device/staging.c %D%/device/kernel.c %D%/device/generated.c \
	%D%/op/op.h %D%/op/run.h %D%/op/shape.h %D%/op/shape.c %D%/op/check.c %D%/op/attribute.c %D%/op/list.c %D%/op/run.c %D%/op/verbose.c %D%/op/kernel_run.c \
	%D%/rnn/rnn.h %D%/rnn/recurrence.h %D%/rnn/network_op.h %D%/rnn/op_rows.h %D%/rnn/op_rows.c %D%/rnn/plan.c %D%/rnn/cell_layout.c %D%/rnn/route.c %D%/rnn/sizes.c %D%/rnn/call.c \
	%D%/rnn/params.c %D%/rnn/plan_cache.c %D%/rnn/initial_params.c %D%/rnn/reserve.c %D%/rnn/packed.c %D%/rnn/vendor_rows.c %D%/rnn/storage.c %D%/rnn/layers.c %D%/rnn/pseudo_layer.c %D%/rnn/recurrence.c %D%/rnn/one_launch.c %D%/rnn/arguments.c %D%/rnn/span.c \
	%D%/block/block.h %D%/block/lstm_block.c %D%/block/gru_block.c \
	%D%/tensorflow/cudnn_rnn.h %D%/tensorflow/table.c %D%/tensorflow/cudnn_rnn.c %D%/tensorflow/cudnn_rnn_rows.c %D%/tensorflow/canonical.c \
	%D%/weights/format.h %D%/weights/format_table.c %D%/weights/layout.c %D%/weights/transfer.c %D%/weights/weights.c
%C%_libwhole_la_LIBADD = gen/libgen.la $(backend_libraries) $(LIBMD_LIBS)
EXTRA_%C%_libwhole_la_DEPENDENCIES = $(backend_libraries)

EXTRA_DIST += %D%/README.md \
	%D%/core/README.md %D%/cache/README.md %D%/device/README.md %D%/op/README.md %D%/rnn/README.md %D%/block/README.md %D%/tensorflow/README.md %D%/weights/README.md
include_HEADERS = %D%/cellgrad.h
# The files by which pkg-config and CMake find the library; make install writes the prefix into cellgrad.pc, and the folder of headers and
# the library's file name into cellgrad-config.cmake.
pkgconfigdir = $(libdir)/pkgconfig
cmakedir = $(libdir)/cmake/cellgrad
install_data += install-finders
uninstall += uninstall-finders
install-finders:
	$(MKDIR_P) '$(DESTDIR)$(pkgconfigdir)' '$(DESTDIR)$(cmakedir)'
	sed 's,^prefix=.*,prefix=$(prefix),' %D%/cellgrad.pc >'$(DESTDIR)$(pkgconfigdir)/cellgrad.pc'
	test -z '$(URL)' || echo 'URL: $(URL)' >>'$(DESTDIR)$(pkgconfigdir)/cellgrad.pc'
	sed -e 's,%includedir%,$(includedir),' -e 's,%shared%,libcellgrad$(shared_suffix),' \
		%D%/cellgrad-config.cmake >'$(DESTDIR)$(cmakedir)/cellgrad-config.cmake'
	$(INSTALL_DATA) %D%/cellgrad-config-version.cmake '$(DESTDIR)$(cmakedir)'
uninstall-finders:
	rm -f '$(DESTDIR)$(pkgconfigdir)/cellgrad.pc' '$(DESTDIR)$(cmakedir)/cellgrad-config.cmake' \
		'$(DESTDIR)$(cmakedir)/cellgrad-config-version.cmake'
.PHONY: install-finders uninstall-finders

# libtool's version is current:revision:age.  Before a release: if only code changed, add 1 to revision.  If functions were added, removed
# or changed, add 1 to current and set revision to 0; in that case, if functions were only added, add 1 to age, else set age to 0.
# The versions of releases:
#   0.1.0  0:0:0
#   0.2.0  1:0:1
lib_LTLIBRARIES += libcellgrad.la
libcellgrad_la_SOURCES =
libcellgrad_la_LIBADD = %D%/libwhole.la
libcellgrad_la_LIBTOOLFLAGS =
libcellgrad_la_LDFLAGS = $(AM_LDFLAGS) -no-undefined -version-info 1:0:1 -export-symbols-regex '^cg_'

# Libtool writes the configured prefix into its .la files, also with make install prefix=OTHER.
install_exec_last += install-la-prefix
install-la-prefix:
	for folder in '$(libdir)' '$(pkglibdir)'; do \
		for file in "$(DESTDIR)$$folder/"libcellgrad.la "$(DESTDIR)$$folder/"cellgrad_*.la; do \
			if test -f "$$file"; then \
				{ grep -v '^libdir=' "$$file"; echo "libdir='$$folder'"; } >"$$file.new" && chmod 755 "$$file.new" && \
					mv -f "$$file.new" "$$file" || exit 1; \
			fi; \
		done; \
	done
.PHONY: install-la-prefix

# make uninstall removes the project's own folders, and lib/cmake, each only if it is empty after all files were removed.
uninstall-hook:
	for folder in '$(cmakedir)' '$(libdir)/cmake' '$(pkgdatadir)/cells' '$(pkgdatadir)' '$(pkglibdir)' '$(examplesdir)/python' '$(examplesdir)' '$(docdir)/docs' '$(docdir)'; do \
		rmdir "$(DESTDIR)$$folder" 2>/dev/null || :; done
