# SPDX-License-Identifier: Apache-2.0
"""The code that the tests of cellgrad.jax share: it finds a Python that has JAX, and makes JAX use four CPU devices and 64-bit numbers."""
import os

import framework_tap
from framework_tap import main, py_tap, python

__all__ = ["LEAKY", "SLSTM", "main", "py_tap", "python"]
framework_tap.need("jax", "JAX")
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)

# The text of a cell with one gate, no cell state, and a param.
LEAKY = "cell leaky\ngates  a\noutput h\nparam  leak = 0.1\n\nh = tanh(a) + leak * h_prev\nsave h\n"
# The name of a cell of the shelf with three cell states: c, the normaliser n and the stabiliser m.
SLSTM = "slstm"
