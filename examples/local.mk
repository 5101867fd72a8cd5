# Programs a user would start from.  They see the library as a user does.
check_PROGRAMS += %D%/block %D%/network %D%/train %D%/device %D%/graph %D%/emit %D%/step
%C%_block_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_block_LDADD = libcellgrad.la
%C%_network_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_network_LDADD = libcellgrad.la
%C%_train_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_train_LDADD = libcellgrad.la
%C%_device_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_device_LDADD = libcellgrad.la
%C%_graph_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_graph_LDADD = libcellgrad.la
%C%_emit_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_emit_LDADD = libcellgrad.la
%C%_step_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_step_LDADD = libcellgrad.la
# Compiled by tests/install.sh, as a user compiles them, where they are installed.
EXTRA_DIST += %D%/README.md %D%/cell.c %D%/cell.cc
examplesdir = $(docdir)/examples
examples_DATA = \
	%D%/README.md %D%/block.c %D%/network.c %D%/train.c %D%/device.c %D%/graph.c %D%/emit.c %D%/step.c %D%/cell.c %D%/cell.cc
