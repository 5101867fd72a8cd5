# SPDX-License-Identifier: Apache-2.0
# The documents, which are installed beside the examples.
docs_pages = \
	%D%/README.md %D%/tutorial.md %D%/command.md %D%/networks.md %D%/weights.md %D%/kernels.md %D%/numerics.md %D%/backends.md %D%/speed.md \
	%D%/scaling.md %D%/tensorflow.md %D%/errors.md %D%/how-it-works.md %D%/faq.md %D%/glossary.md %D%/papers.md %D%/abi.md %D%/pipeline.svg
nobase_doc_DATA = README.md NEWS LICENSE $(docs_pages)
EXTRA_DIST += $(docs_pages)

# The documents have links to source files that are not installed.  In the installed documents a link to a file that
# is not installed is plain text.
not_installed = (\.\./)*((gen|backends|bindings|command|packaging|python|runtime|templates|tests|verify)/|CONTRIBUTING|SECURITY|CODE_OF_CONDUCT)
install_data_last += install-links
install-links:
	for page in README.md $(docs_pages) examples/README.md; do \
		page='$(DESTDIR)$(docdir)'/$$page; \
		case $$page in *.md) test -f "$$page" || continue ;; *) continue ;; esac; \
		$(SED) -E 's;!?\[([^]]*)\]\($(not_installed)[^)]*\);\1;g' "$$page" >"$$page.new" && cat "$$page.new" >"$$page" && rm -f "$$page.new" || exit 1; done
.PHONY: install-links
