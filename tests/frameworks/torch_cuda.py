#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the CUDA part of cellgrad.torch without a GPU: the stand-in of tests/fake replaces the CUDA driver, and the class Tensor of this
file replaces PyTorch's tensors.  Prints TAP.  FAKE: the stand-ins' folder in the build, tests/fake by default."""
import ctypes
import gc
import os
import sys
import types
import unittest
import unittest.mock

import torch_tap
import torch

import cellgrad.torch as ours
from cellgrad.torch import _device, _run
from cellgrad.torch._spec import spec_of

T, B, I, U = 4, 3, 5, 6
DEVICE = types.SimpleNamespace(type="cuda", index=0)


class Tensor:
    """Dense device memory, with the methods of a tensor that calls of cellgrad.torch use."""

    driver, made = None, 0

    def __init__(self, shape, dtype, whole=None, at=0):
        self.shape, self.dtype, self.device, self.whole = torch.Size(shape), dtype, DEVICE, whole
        self.address = whole.address + at if whole else self.allocate()

    def allocate(self):
        """Allocates device memory, as PyTorch's allocator does, without writing to it."""
        Tensor.made += 1
        address = ctypes.c_uint64()
        size = max(1, self.numel() * self.dtype.itemsize)
        assert Tensor.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
        Tensor.owned.append(address)
        return address.value

    def numel(self):
        return self.shape.numel()

    def dim(self):
        return len(self.shape)

    def data_ptr(self):
        return self.address

    def is_contiguous(self):
        return True

    def new_empty(self, shape, dtype=None):
        return Tensor(shape, dtype or self.dtype)

    def fill(self, tensor):
        """Copies a tensor in host memory to this device memory."""
        tensor = tensor.detach().contiguous()
        assert not self.numel() or Tensor.driver.cuMemcpyHtoD_v2(
            ctypes.c_uint64(self.address), ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(self.numel() * self.dtype.itemsize)) == 0
        return self

    def cpu(self):
        """Copies this device memory to a tensor in host memory, after all enqueued work."""
        assert Tensor.driver.cuCtxSynchronize() == 0
        tensor = torch.empty(self.shape, dtype=self.dtype)
        assert not self.numel() or Tensor.driver.cuMemcpyDtoH_v2(
            ctypes.c_void_p(tensor.data_ptr()), ctypes.c_uint64(self.address), ctypes.c_size_t(self.numel() * self.dtype.itemsize)) == 0
        return tensor


Tensor.owned = []


def stand_in():
    """Loads the stand-in for the driver and makes PyTorch's primary context current; returns None if the stand-in is missing."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    native = ctypes.c_void_p(_device.native_context(0))
    assert driver.cuCtxPushCurrent_v2(native) == 0
    return driver


class Device(unittest.TestCase):
    def test_calls(self):
        """Forward and backward on two streams have nn.LSTM's answers and copy nothing, and backward allocates five tensors"""
        driver = Tensor.driver = stand_in()
        stream = ctypes.c_void_p()
        self.assertEqual(driver.cuStreamCreate(ctypes.byref(stream), 0), 0)
        theirs = torch.nn.LSTM(I, U, 2)
        x, dy = torch.randn(T, B, I, requires_grad=True), torch.randn(T, B, U)
        expected, (h, c) = theirs(x)
        expected.backward(dy)
        module = ours.LSTM(I, U, 2)
        module.load_state_dict(theirs.state_dict())
        spec = spec_of(module._networks(0.0)[1])
        whole = Tensor((spec.params,), torch.float32)
        whole.fill(torch.cat([weight.detach().reshape(-1) for weight in module._weights()]))
        weights, at = [], 0
        for weight in module._weights():
            weights.append(Tensor(weight.shape, torch.float32, whole, at))
            at += 4 * weight.numel()
        flat = torch.cat([getattr(theirs, f"{kind}_{name}_l{layer}").grad.reshape(-1) for kind in ("weight", "bias")
                          for layer in (0, 1) for name in ("ih", "hh")])
        asked = []
        for native in (0, stream.value):
            with unittest.mock.patch.object(_device, "native_stream", lambda index, native=native: asked.append(index) or native):
                start = _run.copies
                on = Tensor((T, B, I), torch.float32).fill(x)
                output, last, state, reserve = _run.forward(spec, on, weights, None, None, None, 0)
                d_output = Tensor((T, B, U), torch.float32).fill(dy)
                before = Tensor.made
                dx, _, _, dw = _run.backward(spec, (d_output, None, None), on, weights, None, None, None, reserve, 0,
                                             (True, False, False, True))
                # Backward allocates five tensors: d_x, two empty ones for the states' gradients, d_params, and the workspace.
                self.assertEqual(Tensor.made - before, 5)
                self.assertEqual(_run.copies, start)
            for a, b in ((output, expected), (last, h), (state, c), (dx, x.grad), (dw, flat)):
                self.assertLess((a.cpu() - b.detach()).abs().max().item(), 1e-5)
        self.assertGreaterEqual(len(asked), 4)
        self.assertEqual(sorted(_device.place_of(DEVICE)._idle), sorted([1, stream.value]))
        # All memory and streams are freed here, since the stand-in reports those that are left.
        spec._plans.clear()
        place = _device.place_of(DEVICE)
        place._idle.clear()
        place._handle = None
        gc.collect()
        for address in Tensor.owned:
            self.assertEqual(driver.cuMemFree_v2(address), 0)
        self.assertEqual(driver.cuStreamDestroy_v2(stream), 0)
        # The primary context is released twice: once for PyTorch, and once for the package.
        for _ in range(2):
            self.assertEqual(driver.cuDevicePrimaryCtxRelease_v2(0), 0)


if __name__ == "__main__":
    RUN = os.path.join(os.environ.get("FAKE", os.path.abspath("tests/fake")), "run")
    if "CELLGRAD_FAKE_REPORT" not in os.environ:
        if not os.path.exists(RUN):
            print("1..0 # SKIP there are no stand-ins for CUDA here: make check TESTS= builds them")
            sys.exit(0)
        # The stand-ins are of another CUDA version than PyTorch's libraries, since the loader does not load a second library of one name.
        major = 12 if (torch.version.cuda or "").startswith("13") else 13
        folder = os.path.join(os.path.dirname(RUN), "lib", f"cuda-{major}")
        os.environ.update(CELLGRAD_FAKE_CUDA=f"{major}.0", CELLGRAD_FAKE_CUDNN="none",
                          **{f"CELLGRAD_{name.upper()}_LIB": os.path.join(folder, f"lib{name}.so.{major}") for name in ("cublas", "nvrtc")})
        os.execv("/bin/sh", ["sh", RUN, sys.executable, *sys.argv])
    torch_tap.main()
