# Programs a user would start from.  They see the library as a user does.
check_PROGRAMS += %D%/block %D%/network %D%/train %D%/device %D%/emit %D%/step
%C%_block_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_block_LDADD = libcellgrad.la
%C%_network_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_network_LDADD = libcellgrad.la
%C%_train_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_train_LDADD = libcellgrad.la
%C%_device_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_device_LDADD = libcellgrad.la
%C%_emit_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_emit_LDADD = libcellgrad.la
%C%_step_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_step_LDADD = libcellgrad.la
# Compiled by tests/install.sh, as a user compiles them.
EXTRA_DIST += %D%/README.md %D%/cell.c %D%/cell.cc
