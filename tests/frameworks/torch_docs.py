#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples in every docstring of cellgrad.torch and in its README.md run.  Every class and function of `__all__` has an example,
and the public methods of these classes have docstrings.  Prints TAP."""
import torch_tap
from framework_docs import documents

import cellgrad.torch

Documents = documents(cellgrad.torch, 30)

if __name__ == "__main__":
    torch_tap.main()
