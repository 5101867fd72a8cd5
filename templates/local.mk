# SPDX-License-Identifier: Apache-2.0
# The files with the cells' equations (.cell) and the templates of kernels (.in) are embedded in the library and in cellgen, so that neither
# looks for them on disk.
cells = \
	%D%/lstm_block.cell \
	%D%/gru_block.cell \
	%D%/lstm.cell \
	%D%/gru.cell \
	%D%/rnn_tanh.cell \
	%D%/rnn_relu.cell
templates = \
	$(cells) \
	%D%/point.in %D%/sum.in %D%/gemm.in %D%/rows.in %D%/tiles.in %D%/scan.in gen/tile.h %D%/math.in \
	%D%/prelude.c.in %D%/prelude.cl.in %D%/prelude.cu.in

EXTRA_DIST += %D%/README.md %D%/embed.sh $(templates)
CLEANFILES += %D%/embedded.c

# The .cell files are installed for users, as examples and as starting points; the library reads its embedded copies.
cellsdir = $(pkgdatadir)/cells
cells_DATA = $(cells)

# embedded.c depends on local.mk, which has the list of templates.
%D%/embedded.c: %D%/embed.sh %D%/local.mk $(templates)
	$(AM_V_GEN)$(MKDIR_P) %D% && \
	cd $(srcdir) && $(SHELL) %D%/embed.sh cg_embedded $(templates) > $(abs_builddir)/$@.tmp && \
	cd $(abs_builddir) && mv $@.tmp $@
