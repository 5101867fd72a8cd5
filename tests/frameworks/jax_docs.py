#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples in every docstring of cellgrad.jax and in its README.md run.  Every class and function of `__all__` has an example,
and the public methods of these classes have docstrings.  Prints TAP."""
import jax_tap
from framework_docs import documents
import jax

import cellgrad.jax

# 64-bit numbers are off, since the examples show numbers of 32 bits, which are JAX's default.
jax.config.update("jax_enable_x64", False)
Documents = documents(cellgrad.jax, 20)

if __name__ == "__main__":
    jax_tap.main()
