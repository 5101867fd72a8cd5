# Each binding has its own folder.
EXTRA_DIST += %D%/README.md

include %D%/jax/local.mk
