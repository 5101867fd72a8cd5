#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples in every docstring of cellgrad.torch and in its README.md run.  Every public class and function has an example, and every
public method has a docstring.  Prints TAP."""
import torch_tap
from framework_docs import documents

import cellgrad.torch

Documents = documents(cellgrad.torch, 30)

if __name__ == "__main__":
    torch_tap.main()
