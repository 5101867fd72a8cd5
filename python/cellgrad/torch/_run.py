# SPDX-License-Identifier: Apache-2.0
"""Calls of the library on tensors.

Tensors are passed without a copy: dense ones by their addresses, an input with dense rows by address and strides, a PackedSequence by
its data and batch sizes.  Other tensors are copied, and so are weights that are not adjacent in memory.  Of dense tensors on a CUDA device
only shape, dtype, device, dim(), numel(), data_ptr(), is_contiguous() and new_empty() are used, unless the operator gives the size of the
reserve space.
"""
import ctypes
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .._lib import C
from .._load import lib
from .._spare import Spare
from . import _memory, _stable
from ._device import place_of
from ._errors import TensorError, TensorTypeError, check
from ._spec import Plan, Spec

_Call = C.cg_rnn_call
copies = 0                                       # the number of dense copies made so far, for the tests


def _dense(tensor: Any) -> Any:
    """Returns the tensor, or a dense copy of it."""
    global copies
    if tensor is None or tensor.is_contiguous():
        return tensor
    copies += 1
    return tensor.contiguous()


def _strides(spec: Spec, x: Any) -> Optional[Tuple[int, int]]:
    """Returns the strides of steps and of batch rows, if the library can read the sequence x by them: rows must be dense and not overlap;
    else None."""
    if x.dim() != 3 or x.stride(2) != 1 or 0 in x.shape:
        return None
    t, b = (1, 0) if spec.batch_first else (0, 1)
    (small, count), (large, _) = sorted(((x.stride(t), x.shape[t]), (x.stride(b), x.shape[b])))
    if small < x.shape[2] or large < small * (count - 1) + x.shape[2]:
        return None
    return x.stride(t), x.stride(b)


def are_flat(weights: Sequence[Any], numels: Sequence[int], itemsize: int) -> bool:
    """Are the weights contiguous in memory, one after the other, as the library's params are?"""
    at = weights[0].data_ptr()
    for weight, numel in zip(weights, numels):
        if weight.data_ptr() != at or not weight.is_contiguous():
            return False
        at += numel * itemsize
    return True


def flat(weights: Sequence[Any], numels: Sequence[int], itemsize: int) -> Tuple[int, Any]:
    """Returns the address of the params, and the object that keeps them alive: the weights, or a copy if they are not adjacent."""
    global copies
    if are_flat(weights, numels, itemsize):
        return weights[0].data_ptr(), weights
    copies += 1
    whole = torch.cat([weight.detach().reshape(-1) for weight in weights])
    return whole.data_ptr(), whole


def check_devices(spec: Spec, device: Any, weights: Sequence[Any], h0: Any, c0: Any) -> None:
    """Raises TensorError for a tensor that is on another device than the input, which is on `device`."""
    for k, tensor in enumerate((*weights, h0, c0)):
        if tensor is not None and tensor.device != device:
            name = spec.name(k) if k < len(spec.parts) else "h0" if tensor is h0 else "c0"
            way = "" if tensor is h0 or tensor is c0 else "; to() of the module or of the input moves one"
            raise TensorError(f"{name}: expected a tensor on {device}, as the input, got one on {tensor.device}{way}")


def check_inputs(spec: Spec, x: Any, weights: Sequence[Any], h0: Any, c0: Any, lengths: Any, batch_sizes: Any = None) -> None:
    """Checks the arguments.  Raises TensorTypeError for a wrong dtype of a weight or a state, TensorError for any other
    mistake that check_inputs() finds."""
    dtype, device, shape = x.dtype, x.device, x.shape
    if batch_sizes is not None:
        if len(shape) != 2 or shape[1] != spec.input:
            raise TensorError(f"input: expected packed data [N, {spec.input}], got {list(shape)}")
        if batch_sizes.dtype != torch.int32 or batch_sizes.device.type != "cpu" or int(batch_sizes.sum()) != shape[0]:
            raise TensorError(f"batch_sizes: expected int32 on the cpu with the sum {shape[0]}, got {batch_sizes}")
    elif len(shape) != 3 or shape[2] != spec.input:
        raise TensorError(f"input: expected [{'B, T' if spec.batch_first else 'T, B'}, {spec.input}], got {list(shape)}")
    if len(weights) != len(spec.parts):
        raise TensorError(f"weights: expected {len(spec.parts)} tensors, got {len(weights)}")
    for k, (weight, part) in enumerate(zip(weights, spec.parts)):
        if weight.shape != part and (part[1] != 1 or weight.shape != part[:1]):
            raise TensorError(f"{spec.name(k)}: expected {list(part)}, got {list(weight.shape)}")
        if weight.dtype != dtype:
            one = next((other for other in weights if other.dtype != weight.dtype), None)
            # Only weights of one dtype say which dtype the input should have.
            way = (f"input.to({weight.dtype}) converts the input" if one is None else
                   f"another weight has {one.dtype}; to() of the module converts all weights")
            raise TensorTypeError(f"input dtype ({dtype}) does not match weight dtype ({weight.dtype}) of {spec.name(k)}: {way}")
    check_devices(spec, device, weights, h0, c0)
    if h0 is None and c0 is None and lengths is None:
        return
    _, B = _sizes(spec, x, batch_sizes)
    if c0 is not None and not spec.cell.has_state:
        raise TensorError(f"c0: expected None, since the cell {spec.cell.name} has no cell state")
    for name, state, expected in zip(("h0", "c0"), (h0, c0), spec.shapes(x, B)[1:]):
        if state is None:
            continue
        if state.shape != expected:
            raise TensorError(f"{name}: expected {list(expected)} for an input of {list(shape)}, got {list(state.shape)}")
        if state.dtype != dtype:
            raise TensorTypeError(f"{name}: expected {dtype}, as the input, got {state.dtype}")
    if lengths is not None and (lengths.dtype != torch.int32 or lengths.shape != (B,) or lengths.device.type != "cpu"):
        raise TensorError(f"lengths: expected [{B}] of int32 on the cpu, got {list(lengths.shape)} of {lengths.dtype} on {lengths.device}")


def _sizes(spec: Spec, x: Any, batch_sizes: Any) -> Tuple[Any, Any]:
    """Returns the number of steps T and the number of rows B of a call."""
    return spec.sizes(x) if batch_sizes is None else (batch_sizes.shape[0], int(batch_sizes[0]) if batch_sizes.shape[0] else 0)


def _put(mem: Any, tensor: Any, size: int, place: int) -> None:
    mem.data, mem.bytes, mem.place = tensor.data_ptr(), size, place


def _put_c(first: Any, others: Any, c: Any, itemsize: int, place: int) -> None:
    """Sets the structs cg_mem of the cell states to the tensor c; a tensor with 4 dimensions has several cell states."""
    count = c.shape[0] if c.dim() == 4 else 1
    size = c.numel() // count * itemsize
    _put(first, c, size, place)
    for k in range(1, count):
        other = others[k - 1]
        other.data, other.bytes, other.place = c.data_ptr() + k * size, size, place


class _Begun(NamedTuple):
    """A call that was checked: the library's struct, the input or its dense copy, the number of batch rows B, and sizes in bytes."""

    plan: Plan
    call: Any
    x: Any
    B: int
    input_size: int
    reserve: int
    work: int
    keep: Any                                    # objects that own memory that the struct points to


def _begin(spec: Spec, x: Any, weights: Sequence[Any], h0: Any, c0: Any, lengths: Any, counter: int, batch_sizes: Any) -> _Begun:
    """Checks the arguments of a call, and sets them in the library's struct.

    Raises TensorTypeError for a wrong dtype of the input, a weight or a state, TensorError for a wrong shape or device.
    """
    check_inputs(spec, x, weights, h0, c0, lengths, batch_sizes)
    plan = spec.plan(x.dtype, place_of(x.device))
    size, place = plan.itemsize, plan.place.place
    address, keep = flat(weights, spec.numels, size)
    x, h0, c0 = _taken(spec, x), _dense(h0), _dense(c0)
    T, B = _sizes(spec, x, batch_sizes)
    template, reserve, work = plan.call(T, B)
    call = _Call.from_buffer_copy(template)
    rows = spec.layers * spec.directions * B * size
    if batch_sizes is not None:
        input_size = x.shape[0] * spec.input * size
        if B:
            call.batch_sizes = batch_sizes.data_ptr()
    elif x.is_contiguous():
        input_size = T * B * spec.input * size
    else:
        t_stride, b_stride = _strides(spec, x)  # type: ignore[misc]
        call.input_t_stride, call.input_b_stride = t_stride, b_stride
        input_size = ((T - 1) * t_stride + (B - 1) * b_stride + spec.input) * size
    _put(call.input, x, input_size, place)
    call.params.data, call.params.bytes, call.params.place = address, spec.params * size, place
    if h0 is not None:
        _put(call.input_h, h0, rows * spec.width, place)
    if c0 is not None:
        _put_c(call.input_c, call.input_s, c0, size, place)
    if lengths is not None and B:
        call.lengths = lengths.data_ptr()
    call.counter = counter
    if call.lengths or call.batch_sizes or call.input_t_stride:
        sizes = C.cg_rnn_sizes()
        check(lib.cg_rnn_call_sizes(plan.pointer, ctypes.byref(call), ctypes.byref(sizes)))
        reserve, work = sizes.reserve, sizes.work
    return _Begun(plan, call, x, B, input_size, reserve, work, (keep, h0, c0))


def _run(begun: _Begun, function: Any) -> None:
    """Runs the call on a stream of the device; for device memory, PyTorch's allocator provides the workspace."""
    place, work = begun.plan.place, begun.work
    if place.place == C.CG_DEVICE and work:
        memory = begun.x.new_empty((work,), dtype=torch.uint8)
        _put(begun.call.work, memory, work, place.place)
    stream = place.take(place.context())
    try:
        check(function(stream, begun.plan.pointer, ctypes.byref(begun.call)))
    finally:
        place.give(stream)


def forward(spec: Spec, x: Any, weights: Sequence[Any], h0: Any, c0: Any, lengths: Any, counter: int,
            reserve_size: Optional[int] = None, batch_sizes: Any = None, spare: Optional[Spare] = None) -> Tuple[Any, Any, Any, Any]:
    """Computes output, h, c and the reserve space.

    reserve_size: the number of bytes of the reserve space, None for as many as the call needs.  batch_sizes: given if x is the data of a
    PackedSequence.  spare: has the memory of a large reserve space.
    """
    if lengths is None and batch_sizes is None and (reserve_size is None or not spec.reserve):
        made = _stable.forward(spec, x, weights, h0, c0, counter, spare)
        if made is not None:
            return made if spec.reserve else (*made, x.new_empty((0,), dtype=torch.uint8))
    begun = _begin(spec, x, weights, h0, c0, lengths, counter, batch_sizes)
    call, x, B, need = begun.call, begun.x, begun.B, begun.reserve
    size, place = begun.plan.itemsize, begun.plan.place.place
    wide, state_h, state_c = spec.shapes(x, B)
    output, h, c = (_memory.empty(x, shape) for shape in (wide, state_h, state_c))
    rows = spec.layers * spec.directions * B * size
    _put(call.output, output, output.numel() * size, place)
    _put(call.output_h, h, rows * spec.width, place)
    if spec.cell.has_state:
        _put_c(call.output_c, call.output_s, c, size, place)
    count = (need if reserve_size is None else reserve_size) if spec.reserve else 0
    reserve = _memory.reserve(x, count, spare)
    if count:
        # The bytes of the reserve space behind those that the call needs become zeros.
        if count > need:
            reserve[need:].zero_()
        _put(call.reserve, reserve, count, place)
    _run(begun, lib.cg_rnn_forward)
    return output, h, c, reserve


def _taken(spec: Spec, x: Any) -> Any:
    """Returns the input, if the library can read it by its strides, or a dense copy."""
    return x if x.is_contiguous() or _strides(spec, x) is not None else _dense(x)


def _gradient(name: str, tensor: Any, like: Any, shape: Tuple[int, ...]) -> Any:
    """Checks an upstream gradient, and returns it or a dense copy of it."""
    if tensor is None:
        return None
    if tensor.shape != shape or tensor.dtype != like.dtype or tensor.device != like.device:
        raise TensorError(f"{name}: expected {list(shape)} of {like.dtype} on {like.device}, "
                          f"got {list(tensor.shape)} of {tensor.dtype} on {tensor.device}")
    return _dense(tensor)


def backward(spec: Spec, gradients: Sequence[Any], x: Any, weights: Sequence[Any], h0: Any, c0: Any, lengths: Any, reserve: Any,
             counter: int, wanted: Sequence[bool], batch_sizes: Any = None) -> Tuple[Any, Any, Any, Any]:
    """Computes the gradients of input, h0, c0 and, in one buffer, of all weights; a gradient that is not wanted is an empty tensor."""
    if not spec.reserve or reserve.shape[0] == 0:
        raise TensorError("reserve: expected a reserve space, got none: the forward call was of a network with reserve=False")
    begun = _begin(spec, x, weights, h0, c0, lengths, counter, batch_sizes)
    call, x = begun.call, begun.x
    size, place = begun.plan.itemsize, begun.plan.place.place
    shapes = spec.shapes(x, begun.B)
    _put(call.reserve, reserve, reserve.shape[0], place)
    upstream: List[Any] = [_gradient(name, tensor, x, shape) for name, tensor, shape in
                           zip(("d_output", "d_h", "d_c"), gradients, shapes)]
    for mem, tensor in zip((call.output_backprop, call.output_h_backprop), upstream):
        if tensor is not None and tensor.numel():
            _put(mem, tensor, tensor.numel() * size, place)
    if upstream[2] is not None and upstream[2].numel():
        _put_c(call.output_c_backprop, call.output_s_backprop, upstream[2], size, place)
    made = []
    for k, (mem, is_wanted, shape) in enumerate(zip(
            (call.input_backprop, call.input_h_backprop, call.input_c_backprop, call.params_backprop), wanted,
            (tuple(x.shape), shapes[1], shapes[2], (spec.params,)))):
        if k == 0 and is_wanted and not x.is_contiguous():
            # The gradient of the input gets the strides of the input.
            tensor = x.new_empty_strided(shape, x.stride())
        else:
            tensor = _memory.empty(x, shape if is_wanted else (0,))
        if is_wanted and tensor.numel():
            if k == 2:
                _put_c(mem, call.input_s_backprop, tensor, size, place)
            else:
                _put(mem, tensor, begun.input_size if k == 0 else tensor.numel() * size, place)
        made.append(tensor)
    if any(wanted):
        _run(begun, lib.cg_rnn_backward)
    return made[0], made[1], made[2], made[3]
