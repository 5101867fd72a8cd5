#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of cellgrad.jax run: those of every docstring, and of its README.md.  Every public class and function has an example,
every public method a docstring.  Prints TAP."""
import jax_tap
from framework_docs import documents
import jax

import cellgrad.jax

# The examples show numbers of 32 bits, which are JAX's default.
jax.config.update("jax_enable_x64", False)
Documents = documents(cellgrad.jax, 20)

if __name__ == "__main__":
    jax_tap.main()
