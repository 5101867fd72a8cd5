# SPDX-License-Identifier: Apache-2.0
# Modules that JAX and TensorFlow load, each with a folder of its own.
EXTRA_DIST += %D%/README.md

# A module is linked with the file of the shared library, since with libcellgrad.la Libtool would link the module once more during
# make install, and refuse any prefix but the configured one.  A module finds the library in its own folder, in the folder above
# that, or in the folder cellgrad beside its own.
module_ldflags = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,.libs/libcellgrad$(shared_suffix) \
	-Wl,-rpath,'$$ORIGIN:$$ORIGIN/..:$$ORIGIN/../cellgrad'

include %D%/jax/local.mk
include %D%/tensorflow/local.mk
