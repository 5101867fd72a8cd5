"""What the tests of cellgrad.torch share: the package of this source, and unittest's cases as TAP.

LIBRARY: the shared library; srcdir: the source.  The Python that runs these has PyTorch: frameworks.sh makes such ones.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import py_tap  # noqa: E402

os.environ["CELLGRAD_LIBRARY"] = os.environ.get("LIBRARY", os.path.abspath(".libs/libcellgrad.so"))
os.environ.setdefault("CELLGRAD_BACKEND", "cpu")
os.environ["PYTHONPATH"] = py_tap.PACKAGE
sys.path.insert(0, py_tap.PACKAGE)
main = py_tap.main
