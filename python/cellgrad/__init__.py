# SPDX-License-Identifier: Apache-2.0
"""Computes recurrent networks and their gradients on NumPy arrays, with the same answers on every CPU and GPU, within an error bound.

>>> import cellgrad, numpy as np
>>> network = cellgrad.Network("lstm", input=3, units=8)
>>> params, x, target = network.init_params(), np.ones((20, 4, 3), np.float32), np.full((20, 4, 8), 0.5, np.float32)
>>> for step in range(100):
...     run = network.forward(params, x)
...     params -= 0.1 / x[..., 0].size * network.backward(run, d_output=run.output - target).params
>>> bool(abs(run.output - target).mean() < 0.1)
True

`Network` computes layers of a cell over whole sequences, and their gradients; `Cell` reads a cell's equations; `Kernel` prints the
equations and their gradients as kernels for other programs, and runs them; `lstm_block_cell`, `lstm_block` and `gru_block_cell` are
TensorFlow's block ops; `Context` opens a device.
python/README.md in the source tree documents the package.
"""
from ._blocks import GRUBlock, LSTMBlock, gru_block_cell, lstm_block, lstm_block_cell
from ._cell import Cell, cell_names, shelf_names
from ._context import Context, Device, default_context, devices
from ._errors import (ArgumentError, ArgumentTypeError, BuildError, DeviceError, DriverError, Error, FileError, LibraryError,
                      MissingFileError, OutOfMemoryError, UnsupportedError)
from ._forward import Gradients, Run
from ._kernel import Kernel
from ._lib import VERSION as __version__
from ._network import Network, Region
from ._weights import formats

version = __version__

__all__ = [
    "ArgumentError", "ArgumentTypeError", "BuildError", "Cell", "Context", "Device", "DeviceError", "DriverError", "Error", "FileError",
    "GRUBlock", "Gradients", "Kernel", "LSTMBlock", "LibraryError", "MissingFileError", "Network", "OutOfMemoryError", "Region", "Run",
    "UnsupportedError", "cell_names", "default_context", "devices", "formats", "gru_block_cell", "lstm_block", "lstm_block_cell",
    "shelf_names", "version",
]
