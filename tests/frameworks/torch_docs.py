#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples in every docstring of cellgrad.torch and in its README.md run, and so does PyTorch's Python code in docs/weights.md.  Every
class and function of `__all__` has an example, and the public methods of these classes have docstrings.  Prints TAP."""
import torch_tap
import torch
from framework_docs import documents, enter_folder, saved

import cellgrad
import cellgrad.torch


class Documents(documents(cellgrad.torch, 30)):
    def test_weights(self):
        """A network with the weights that the code in docs/weights.md saves has the output of the PyTorch module"""
        enter_folder(self)
        model = torch.nn.ModuleDict({"rnn": torch.nn.LSTM(2, 3, 2, bidirectional=True), "head": torch.nn.Linear(6, 1)})
        tensors, params = saved(self, "PyTorch", {"model": model}, "--from", "pytorch", "--from-prefix", "rnn.")
        self.assertEqual(set(tensors), set(model.state_dict()))
        x = torch.randn(4, 2, 2)
        network = cellgrad.Network("lstm", input=2, units=3, layers=2, bidirectional=True)
        torch.testing.assert_close(torch.from_numpy(network.forward(params, x.numpy()).output), model["rnn"](x)[0].detach())


if __name__ == "__main__":
    torch_tap.main()
