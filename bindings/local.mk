# Modules for other programs, each in a folder of its own.
EXTRA_DIST += %D%/README.md

include %D%/jax/local.mk
include %D%/tensorflow/local.mk

# Installing links them once more, against the library that is installed.  Automake's own rule makes way for one that it sees.
install_modules = install-pkglibLTLIBRARIES
$(install_modules): install-libLTLIBRARIES
