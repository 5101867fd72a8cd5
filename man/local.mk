# SPDX-License-Identifier: Apache-2.0
# Lists the manual pages, which are written in mdoc.
man_MANS = %D%/cellgrad.3 %D%/cellgrad-cell.7 %D%/cellgrad-weights.7
command_pages = \
	%D%/cellgrad.1 %D%/cellgrad-run.1 %D%/cellgrad-convert.1 %D%/cellgrad-emit.1 %D%/cellgrad-cell.1 %D%/cellgrad-check.1 %D%/cellgrad-info.1 \
	%D%/cellgrad-demo.1 %D%/cellgrad-bench.1 %D%/cellgrad-cache.1
if COMMAND
man_MANS += $(command_pages)
endif
EXTRA_DIST += %D%/cellgrad.3 %D%/cellgrad-cell.7 %D%/cellgrad-weights.7 $(command_pages)

# Every function of cellgrad.h has a manual page under its name, which is an alias of cellgrad(3).  tests/man.sh compares the list
# `calls` with cellgrad.h.
calls = \
	cg_message cg_version cg_set_allocator cg_open cg_adopt cg_close cg_describe cg_device cg_pool_init cg_pool_set \
	cg_supports cg_stream_open cg_stream_sync cg_stream_close cg_stream_take cg_stream_give cg_host cg_prefer_huge_pages \
	cg_alloc cg_free cg_put cg_get cg_lstm_block_init cg_lstm_block_work cg_lstm_block_forward cg_lstm_block_grad cg_gru_block_init \
	cg_gru_block_work cg_gru_block_forward cg_gru_block_grad cg_cell_find cg_cell_name cg_shelf_name cg_cell_parse cg_cell_load \
	cg_cell_close cg_cell_parts_init cg_cell_info cg_kernel_emit cg_kernel_manifest cg_text_free cg_kernel_run \
	cg_rnn_config_init cg_rnn_open cg_rnn_close cg_rnn_get cg_rnn_hold cg_rnn_route cg_rnn_route_at cg_rnn_sizes \
	cg_rnn_call_sizes cg_rnn_reserve_bound cg_rnn_region cg_rnn_params cg_rnn_config_region cg_rnn_init_params \
	cg_rnn_call_init cg_rnn_forward cg_rnn_backward cg_rnn_reserve_counter cg_format_name cg_weights_init cg_weights_tensor \
	cg_weights_load cg_weights_save

install-calls:
	$(MKDIR_P) '$(DESTDIR)$(man3dir)'
	for call in $(calls); do echo '.so man3/cellgrad.3' >'$(DESTDIR)$(man3dir)'/$$call.3 || exit 1; done
uninstall-calls:
	for call in $(calls); do rm -f '$(DESTDIR)$(man3dir)'/$$call.3; done
install_data += install-calls
uninstall += uninstall-calls

# complete-pages writes into the installed manual pages in which folder the examples are, and appends the address for reports of bugs and
# the home page, if these were set for ./configure.
install_data_last += complete-pages
complete-pages:
	prefix='$(prefix)' examples='$(examplesdir)'; examples=$${examples#"$$prefix"/}; \
	for page in $(notdir $(man_MANS)); do \
		page='$(DESTDIR)$(mandir)'/man$${page##*.}/$$page; \
		{ sed "s,share/doc/cellgrad/examples,$$examples," "$$page"; \
			test -z '$(BUG_REPORT)$(URL)' || echo '.Sh BUGS'; \
			test -z '$(BUG_REPORT)' || printf '%s\n' 'Report bugs to' '.Lk $(BUG_REPORT) .'; \
			test -z '$(URL)' || printf '%s\n' 'The home page is' '.Lk $(URL) .'; } >"$$page.new" && \
			cat "$$page.new" >"$$page" && rm "$$page.new" || exit 1; \
	done
.PHONY: install-calls uninstall-calls complete-pages
