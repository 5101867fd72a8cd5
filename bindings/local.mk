# Modules for other programs, which link the library as a user does.
EXTRA_DIST += %D%/README.md
include %D%/tensorflow/local.mk
