# SPDX-License-Identifier: Apache-2.0
"""Converts weights from and to the formats of other programs, tensor by tensor."""
import ctypes
from typing import TYPE_CHECKING, Any, Dict, Mapping, Tuple

import numpy as np

from ._arguments import given, integer, struct_of, text
from ._errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ._lib import C
from ._load import check, lib, names_of

if TYPE_CHECKING:
    from ._network import Network


def formats() -> Tuple[str, ...]:
    """Returns the names of the formats that weights are loaded from and saved in.

    >>> import cellgrad
    >>> cellgrad.formats()
    ('cellgrad', 'canonical', 'pytorch', 'keras', 'block', 'block_v2', 'checkpoint', 'onnx')
    """
    return names_of(lib.cg_format_name)


def _weights(network: "Network", format: Any, gradients: Any, lossy: Any, params: "np.ndarray[Any, Any]") -> Any:
    weights = struct_of("cg_weights", lib.cg_weights_init)
    weights.format, weights.network = text("format", format), ctypes.pointer(network.config)
    weights.gradients, weights.lossy = integer("gradients", gradients, 0, 1), integer("lossy", lossy, 0, 1)
    weights.params, weights.bytes = params.ctypes.data, params.nbytes
    return weights


def _tensors(weights: Any) -> Dict[str, Tuple[int, ...]]:
    """Returns the shapes of the format's tensors by name, in the order of the library."""
    found: Dict[str, Tuple[int, ...]] = {}
    tensor = C.cg_tensor()
    while True:
        check(lib.cg_weights_tensor(ctypes.byref(weights), len(found), ctypes.byref(tensor)))
        if not tensor.name:
            return found
        found[tensor.name.decode()] = tuple(tensor.shape[:tensor.rank])


def _leave_out_vectors(network: "Network", weights: Any) -> int:
    """Turns off the network's options in a struct cg_weights if the format cannot hold the per-unit weights, such as peepholes, that these
    options add, and can hold the network without them.  The struct's params are then the first part of the network's params, since per-unit
    weights are the last.  Returns how many elements the other part has."""
    if network.cell.scalars or not network.cell.vectors_with(network.config.options.decode()):
        return 0
    if lib.cg_weights_tensor(ctypes.byref(weights), 0, ctypes.byref(C.cg_tensor())) != C.CG_UNSUPPORTED:
        return 0
    plain, size = C.cg_rnn_config.from_buffer_copy(network.config), ctypes.c_size_t()
    plain.options = b""
    check(lib.cg_rnn_params(ctypes.byref(plain), ctypes.byref(size)))
    weights.network = ctypes.pointer(plain)
    if lib.cg_weights_tensor(ctypes.byref(weights), 0, ctypes.byref(C.cg_tensor())):
        weights.network = ctypes.pointer(network.config)
        return 0
    left_out: int = (weights.bytes - size.value) // network.dtype.itemsize
    weights.bytes = size.value
    return left_out


def shapes(network: "Network", format: Any) -> Dict[str, Tuple[int, ...]]:
    """Network.weight_shapes()."""
    weights = _weights(network, format, False, False, np.empty(network.params_size, network.dtype))
    _leave_out_vectors(network, weights)
    return _tensors(weights)


def _other_prefixes(tensors: Mapping[str, Any], first: str, prefix: str) -> str:
    """Returns the end of a message: the prefixes with which the format's first name is among the tensors, if it is not with `prefix`."""
    if prefix + first in tensors:
        return ""
    found = [f'prefix="{name[:len(name) - len(first)]}"' for name in tensors if name.endswith(first)]
    return f"; {' or '.join(found)} takes the tensors whose names begin with it" if found else ""


def load(network: "Network", tensors: Mapping[str, Any], format: Any, prefix: str, strict: Any, gradients: Any,
         lossy: Any) -> "np.ndarray[Any, Any]":
    """Network.load_weights()."""
    if not isinstance(tensors, Mapping):
        raise ArgumentTypeError(f"tensors: expected a mapping of names to arrays, got {type(tensors).__name__}")
    text("prefix", prefix)
    params = np.zeros(network.params_size, network.dtype)
    weights = _weights(network, format, gradients, lossy, params)
    if not gradients:
        _leave_out_vectors(network, weights)
    names = _tensors(weights)
    if integer("strict", strict, 0, 1):
        missing = [prefix + name for name in names if prefix + name not in tensors]
        unknown = [name for name in tensors if name.startswith(prefix) and name[len(prefix):] not in names]
        if missing or unknown:
            raise ArgumentError(f"tensors: format {format}: missing {', '.join(missing) or 'none'}; unknown {', '.join(unknown) or 'none'}"
                                f"{_other_prefixes(tensors, next(iter(names)), prefix)}")
    for k, (name, shape) in enumerate(names.items()):
        if prefix + name in tensors:
            array = given(prefix + name, tensors[prefix + name], network.dtype, shape)
            check(lib.cg_weights_load(ctypes.byref(weights), k, array.ctypes.data, array.nbytes))
    return params


def save(network: "Network", params: Any, format: Any, prefix: str, gradients: Any, lossy: Any) -> Dict[str, "np.ndarray[Any, Any]"]:
    """Network.save_weights()."""
    text("prefix", prefix)
    params = given("params", params, network.dtype, (network.params_size,))
    weights = _weights(network, format, gradients, lossy, params)
    left_out = _leave_out_vectors(network, weights)
    lost = np.count_nonzero(params[params.size - left_out:])
    if lost and not lossy:
        raise UnsupportedError(f"format {format} holds no per-unit weights of cell {network.cell.name}, such as peepholes, and {lost} of "
                               f"{left_out} are not 0; lossy=True leaves them out")
    saved = {}
    for k, (name, shape) in enumerate(_tensors(weights).items()):
        array = saved[prefix + name] = np.empty(shape, network.dtype)
        check(lib.cg_weights_save(ctypes.byref(weights), k, array.ctypes.data, array.nbytes))
    return saved
