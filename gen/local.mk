# SPDX-License-Identifier: Apache-2.0
# The generator of kernels: a library without input and output, and cellgen, the tool that writes the cpu backend's kernels during a build.
noinst_LTLIBRARIES += %D%/libgen.la
%C%_libgen_la_SOURCES = \
	%D%/cell.h %D%/dtypes.h %D%/passes.h %D%/ops.h %D%/parse.h %D%/pass.h %D%/print.h %D%/rows.h %D%/steps.h %D%/tile.h %D%/tiles.h \
	%D%/arena.c %D%/nearest.c %D%/words.c %D%/tables.c %D%/ops.c %D%/scan.c %D%/forms.c %D%/names.c %D%/term.c %D%/parse.c %D%/expr.c %D%/lost.c %D%/derive.c %D%/argument.c %D%/registers.c %D%/pass_function.c %D%/pass.c %D%/function.c %D%/order.c \
	%D%/dialect.c %D%/fill.c %D%/prelude.c %D%/infix.c %D%/comment.c %D%/access.c %D%/print.c %D%/step_loop.c %D%/gemm.c %D%/rows.c %D%/tiles.c %D%/step_fields.h %D%/step_fields.c %D%/steps.c %D%/drop.c %D%/manifest.c %D%/eval.c
nodist_%C%_libgen_la_SOURCES = templates/embedded.c templates/shelf.c

noinst_PROGRAMS += cellgen
cellgen_SOURCES = %D%/cellgen.c
cellgen_LDADD = %D%/libgen.la
EXTRA_DIST += %D%/README.md
