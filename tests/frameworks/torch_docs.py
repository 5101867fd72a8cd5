#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of cellgrad.torch run: those of every docstring, and of its README.md.  Every public class and function has an example,
every public method a docstring.  Prints TAP."""
import torch_tap
from framework_docs import documents

import cellgrad.torch

Documents = documents(cellgrad.torch, 30)

if __name__ == "__main__":
    torch_tap.main()
