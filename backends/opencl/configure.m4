# SPDX-License-Identifier: Apache-2.0
# The opencl backend needs nothing to build: the loader is found at run time.
backends="$backends, opencl"
