# SPDX-License-Identifier: Apache-2.0
# make docs: makes the API reference in docs/html of the build folder.  Doxygen makes pages from the header, README.md and docs/*.md, and
# fails on a public name without documentation; a script makes pages from the docstrings of the Python package.  A build needs neither
# Doxygen nor the script.
EXTRA_DIST += %D%/README.md %D%/Doxyfile.in %D%/link_filter.sh %D%/python_pages.py
DOXYGEN = doxygen
docs: %D%/Doxyfile
	@command -v $(DOXYGEN) >/dev/null || { echo 'make docs: there is no $(DOXYGEN) (Debian: doxygen)' >&2; exit 1; }
	@$(MKDIR_P) docs
	{ cat %D%/Doxyfile; echo 'OUTPUT_DIRECTORY = docs'; \
	  echo 'INPUT =' $(abs_top_srcdir)/runtime/cellgrad.h $(abs_top_srcdir)/README.md `ls $(abs_top_srcdir)/docs/*.md 2>/dev/null`; } | $(DOXYGEN) -
	@test -n '$(PYTHON)' || echo 'make docs: there is no python3: no pages of the Python package' >&2
	test -z '$(PYTHON)' || $(PYTHON) $(srcdir)/%D%/python_pages.py $(srcdir)/python docs/html/python
	@echo 'docs/html/index.html and docs/html/python/index.html'
clean-docs:
	rm -rf docs/html
.PHONY: docs clean-docs
