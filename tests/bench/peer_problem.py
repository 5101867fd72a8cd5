# SPDX-License-Identifier: Apache-2.0
"""The problems of peers.sh, for the driver and the workers in Python: their cells, sizes and dtypes, and the arrays in their
files of inputs and answers."""
import math

# For each cell: the number of its gates, whether the cell has a cell state c, and whether the cell has peepholes.
CELLS = {"lstm": (4, True, False), "lstm_peephole": (4, True, True), "block_lstm": (4, True, False), "gru": (3, False, False),
         "gru_block": (3, False, False), "rnn_tanh": (1, False, False)}
# For each dtype: the largest difference, divided by the tensor's largest element, that may be due to rounding; a larger difference is an
# error.
WRONG = {"f32": 1e-3, "f64": 1e-3, "f16": 0.1, "bf16": 0.1}


class Problem:
    """A forward and a backward pass of one layer over T steps of B rows.  grad: False leaves out the backward pass; last: the loss depends
    on the last state alone."""

    def __init__(self, cell, dtype, sizes, grad, last):
        self.cell, self.dtype, self.grad, self.last = cell, dtype, grad, last
        self.T, self.B, self.I, self.H = sizes
        self.G, self.has_c, self.peephole = CELLS[cell]

    def count_operations(self):
        """Returns the number of operations of the products in all passes of the problem; backward has twice as many as forward."""
        return 2 * self.G * self.H * (self.I + self.H) * self.T * self.B * (3 if self.grad else 1)

    def has(self, name):
        """Returns whether the file of inputs or of answers has the array, in a problem with gradients."""
        if name in ("c0", "c_n", "dc0", "dc_n"):
            return self.has_c
        if name in ("peephole", "dpeep"):
            return self.peephole
        return not (name == "y" and self.last or name == "dbR" and self.cell != "gru")

    def list_numbers(self):
        """Lists (name, shape, bound of the numbers) of each array, in the order of the file of inputs."""
        T, B, I, H, G = self.T, self.B, self.I, self.H, self.G
        weight = H ** -0.5
        both = [("x", (T, B, I), 1), ("h0", (B, H), 1), ("c0", (B, H), 1), ("W", (G, H, I), weight), ("R", (G, H, H), weight), ("bW", (G, H), 0.1),
                ("bR", (G, H), 0.1), ("dy", (T, B, H), 1), ("dh_n", (B, H), 1), ("dc_n", (B, H), 1), ("peephole", (3, H), weight)]
        return [array for array in both if self.has(array[0])]

    def list_answers(self):
        """Lists (name, number of elements) of each array, in the order of the file of answers."""
        T, B, I, H, G = self.T, self.B, self.I, self.H, self.G
        shapes = [("y", (T, B, H)), ("h_n", (B, H)), ("c_n", (B, H))]
        if self.grad:
            shapes += [("dx", (T, B, I)), ("dh0", (B, H)), ("dc0", (B, H)), ("dW", (G, H, I)), ("dR", (G, H, H)), ("db", (G, H)), ("dbR", (G, H)),
                       ("dpeep", (3, H))]
        return [(name, math.prod(shape)) for name, shape in shapes if self.has(name)]
