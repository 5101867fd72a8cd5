# SPDX-License-Identifier: Apache-2.0
# Modules for other programs, each in a folder of its own.
EXTRA_DIST += %D%/README.md

# A module is linked with the library's file, not with its .la, and finds the library beside itself or in the folder above, where both are
# installed.  Libtool would link it once more at install, and refuse any prefix but the configured one.
module_ldflags = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,.libs/libcellgrad$(shared_suffix) \
	-Wl,-rpath,'$$ORIGIN:$$ORIGIN/..:$$ORIGIN/../cellgrad'

include %D%/jax/local.mk
include %D%/tensorflow/local.mk
