# SPDX-License-Identifier: Apache-2.0
# The files with the cells' equations (.cell) and the templates of kernels (.in) are embedded in the library and in cellgen, so that neither
# looks for them on disk.  For the CPU the build compiles the kernels of `cells`, and of `fast_shelf` those in f32; those of the other cells
# of `shelf` are made at run time, as those of users' cells are.
cells = \
	%D%/lstm_block.cell \
	%D%/gru_block.cell \
	%D%/lstm.cell \
	%D%/gru.cell \
	%D%/rnn_tanh.cell \
	%D%/rnn_relu.cell
shelf = \
	%D%/cells/cifg.cell %D%/cells/indrnn.cell %D%/cells/janet.cell %D%/cells/leaky_integrator.cell %D%/cells/ligru.cell \
	%D%/cells/ln_gru.cell %D%/cells/ln_lstm.cell %D%/cells/mgu.cell %D%/cells/mingru.cell %D%/cells/minlstm.cell %D%/cells/slstm.cell \
	%D%/cells/sru.cell
fast_shelf = %D%/cells/ln_lstm.cell
templates = \
	$(cells) \
	%D%/point.in %D%/sum.in %D%/mean.in %D%/gemm.in %D%/rows.in %D%/tiles.in %D%/scan.in gen/tile.h %D%/math.in \
	%D%/prelude.c.in %D%/prelude.cl.in %D%/prelude.cu.in

EXTRA_DIST += %D%/README.md %D%/cells/README.md %D%/embed.sh $(templates) $(shelf)
CLEANFILES += %D%/embedded.c %D%/shelf.c

# The .cell files are installed for users, as examples and as starting points; the library reads its embedded copies.
cellsdir = $(pkgdatadir)/cells
cells_DATA = $(cells) $(shelf)

# The embedded files depend on local.mk, which lists the files to embed.
embed = $(MKDIR_P) %D% && cd $(srcdir) && $(SHELL) %D%/embed.sh
end_embed = > $(abs_builddir)/$@.tmp && cd $(abs_builddir) && mv $@.tmp $@
%D%/embedded.c: %D%/embed.sh %D%/local.mk $(templates)
	$(AM_V_GEN)$(embed) cg_embedded $(templates) $(end_embed)
%D%/shelf.c: %D%/embed.sh %D%/local.mk $(shelf)
	$(AM_V_GEN)$(embed) cg_shelf $(shelf) $(end_embed)
