# Manual pages, in mdoc.
man_MANS = %D%/cellgrad.3 %D%/cellgrad-cell.7
if COMMAND
man_MANS += %D%/cellgrad.1
endif
EXTRA_DIST += %D%/cellgrad.1 %D%/cellgrad.3 %D%/cellgrad-cell.7
