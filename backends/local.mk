# SPDX-License-Identifier: Apache-2.0
# Each backend adds its library, or libraries, to the list backend_libraries.
backend_libraries =
EXTRA_DIST += %D%/README.md %D%/list.h

include %D%/cuda/local.mk
include %D%/opencl/local.mk
include %D%/cpu/local.mk
