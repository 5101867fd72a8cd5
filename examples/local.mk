# Programs a user would start from.  They see the library as a user does.
check_PROGRAMS += %D%/block
%C%_block_CPPFLAGS = -I$(top_srcdir)/runtime
%C%_block_LDADD = libcellgrad.la
# Compiled by tests/install.sh, as a user compiles them.
EXTRA_DIST += %D%/README.md %D%/cell.c %D%/cell.cc
