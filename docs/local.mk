# SPDX-License-Identifier: Apache-2.0
# The documents, which are installed beside the examples.
docs_pages = \
	%D%/README.md %D%/tutorial.md %D%/command.md %D%/networks.md %D%/weights.md %D%/kernels.md %D%/numerics.md %D%/backends.md %D%/speed.md \
	%D%/scaling.md %D%/tensorflow.md %D%/errors.md %D%/how-it-works.md %D%/faq.md %D%/glossary.md %D%/papers.md %D%/abi.md %D%/pipeline.svg
nobase_doc_DATA = README.md NEWS LICENSE $(docs_pages)
EXTRA_DIST += $(docs_pages)
