# SPDX-License-Identifier: Apache-2.0
"""The exceptions for wrong tensors and for gradients of gradients.  Each of these exceptions derives from an exception of the package and
from RuntimeError, which PyTorch raises in most such cases."""
from .._errors import ArgumentError, ArgumentTypeError, UnsupportedError, error_of
from .._lib import C
from .._load import lib


class TensorError(ArgumentError, RuntimeError):
    """A tensor has a wrong shape or value, or is on a wrong device, or the library refuses another argument.  The exception is a
    RuntimeError, as in PyTorch, and a ValueError.

    >>> import cellgrad.torch, torch
    >>> try:
    ...     cellgrad.torch.LSTM(3, 4)(torch.zeros(5, 2, 7))
    ... except RuntimeError as error:
    ...     print(type(error).__name__, error)
    TensorError input: expected [T, B, 3], got [5, 2, 7]
    """


class TensorTypeError(ArgumentTypeError, RuntimeError, ValueError):
    """A tensor has a wrong dtype, or an argument is not a tensor.

    >>> import cellgrad.torch, torch
    >>> try:
    ...     cellgrad.torch.GRU(3, 4)(torch.zeros(5, 2, 3, dtype=torch.float64))
    ... except RuntimeError as error:
    ...     print(type(error).__name__, str(error).split(":")[0])
    TensorTypeError input dtype (torch.float64) does not match weight dtype (torch.float32) of weight_ih_l0
    """


class SecondGradientError(UnsupportedError, RuntimeError):
    """A gradient of a gradient was requested, which networks do not support.

    >>> import cellgrad.torch, torch
    >>> x = torch.randn(5, 2, 3, requires_grad=True)
    >>> gradient, = torch.autograd.grad(cellgrad.torch.GRU(3, 4)(x)[0].sum(), x, create_graph=True)
    >>> try:
    ...     gradient.sum().backward()
    ... except RuntimeError as error:
    ...     print(type(error).__name__)
    SecondGradientError
    """


def check(status: int) -> None:
    """Raises the exception for a status other than CG_OK."""
    if status:
        words = lib.cg_message().decode(errors="replace")
        raise TensorError(words) if status == C.CG_BAD_ARGUMENT else error_of(status, words)
