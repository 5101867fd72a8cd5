# SPDX-License-Identifier: Apache-2.0
"""The code that the tests of the TensorFlow plugin share, beside framework_tap.py: it finds a Python that has TensorFlow, and the plugin of
this build.  Runs in the build's top folder."""
import os

import framework_tap
from framework_tap import main, py_tap, python

__all__ = ["PLUGIN", "main", "py_tap", "python"]
framework_tap.need("tensorflow", "TensorFlow")
PLUGIN = os.path.abspath(".libs/cellgrad_tensorflow.so")
os.environ["CELLGRAD_TF_PLUGIN"] = PLUGIN
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
