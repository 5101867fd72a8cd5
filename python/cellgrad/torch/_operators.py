# SPDX-License-Identifier: Apache-2.0
"""The operators cellgrad::rnn and cellgrad::rnn_backward, and a path that avoids PyTorch's dispatcher for tensors that need none.

Modules call the function `rnn` for every call that small_call() of _small.py does not run.  `rnn` calls the operator cellgrad::rnn if a
feature of PyTorch intercepts operators (torch.compile, torch.export, autocast, a mode, functorch, forward-mode derivatives, a subclass of
Tensor), or for tensors on the device meta; `rnn` refuses devices other than cpu, cuda and meta.  For plain tensors on cpu and cuda, if no
feature intercepts operators, `rnn` calls the library directly, and, if a gradient is needed, makes a node of autograd.
"""
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .._spare import Spare
from . import _stable
from ._device import place_of
from ._errors import SecondGradientError, TensorError
from ._run import backward, check_devices, forward
from ._spec import CODES, spec_of

_MASK = 2**64 - 1
library = torch.library.Library("cellgrad", "DEF")
library.define("rnn(Tensor input, Tensor[] weights, Tensor? h0, Tensor? c0, Tensor? lengths, Tensor? counter, str network) "
               "-> (Tensor, Tensor, Tensor, Tensor)")
library.define("rnn_backward(Tensor? d_output, Tensor? d_h, Tensor? d_c, Tensor input, Tensor[] weights, Tensor? h0, Tensor? c0, "
               "Tensor? lengths, Tensor? counter, Tensor reserve, str network, bool[] wanted) -> (Tensor, Tensor, Tensor, Tensor)")


# ---- the kernels ----


def _number(counter: Optional[Tensor]) -> int:
    """Returns the number of a call, on which the masks of dropout depend; 0 without a counter."""
    if counter is None:
        return 0
    if counter.dtype != torch.int64 or counter.numel() != 1 or counter.device.type != "cpu":
        raise TensorError(f"counter: expected one int64 on the cpu, got {list(counter.shape)} of {counter.dtype} on {counter.device}")
    return int(counter.item()) & _MASK


def _reserve_size(spec: Any, x: Any, place: Any) -> Any:
    """Returns the number of bytes that suffice for the reserve space whatever the lengths are; T and B may be symbols.  The result is None
    if the route has no bound on the reserve space."""
    if not spec.reserve:
        return 0
    bound = spec.plan(x.dtype, place).bound()
    if bound is None:
        return None
    T, B = spec.sizes(x)
    return bound[0] + bound[1] * T * B


def _rnn(input: Tensor, weights: List[Tensor], h0: Optional[Tensor], c0: Optional[Tensor], lengths: Optional[Tensor],
         counter: Optional[Tensor], network: str) -> Tuple[Tensor, ...]:
    spec = spec_of(network)
    size = _reserve_size(spec, input, place_of(input.device)) if input.dim() == 3 and input.dtype in CODES else None
    # Both operators compute on a dense input, so that the gradient of the input is dense, as the fake cellgrad::rnn_backward declares.
    return forward(spec, input.contiguous(), weights, h0, c0, lengths, _number(counter), size)


def _rnn_backward(d_output: Optional[Tensor], d_h: Optional[Tensor], d_c: Optional[Tensor], input: Tensor, weights: List[Tensor],
                  h0: Optional[Tensor], c0: Optional[Tensor], lengths: Optional[Tensor], counter: Optional[Tensor], reserve: Tensor,
                  network: str, wanted: List[bool]) -> Tuple[Tensor, ...]:
    return backward(spec_of(network), (d_output, d_h, d_c), input.contiguous(), weights, h0, c0, lengths, reserve,
                    _number(counter), wanted)


for _key in ("CPU", "CUDA"):
    library.impl("rnn", _rnn, _key)
    library.impl("rnn_backward", _rnn_backward, _key)


# ---- fake implementations: shapes without data ----


@torch.library.register_fake("cellgrad::rnn", lib=library)
def _rnn_fake(input: Any, weights: Any, h0: Any, c0: Any, lengths: Any, counter: Any, network: str) -> Tuple[Any, ...]:
    spec = spec_of(network)
    torch._check(input.dim() == 3 and input.shape[2] == spec.input,
                 lambda: f"input: expected 3 dimensions, the last of {spec.input}, got {list(input.shape)}")
    check_devices(spec, input.device, weights, h0, c0)
    device = input.device if input.device.type in ("cpu", "cuda") else torch.device("cpu")
    size = _reserve_size(spec, input, place_of(device))
    if size is None:
        size = torch.library.get_ctx().new_dynamic_size()
    output, h, c = (input.new_empty(shape) for shape in spec.shapes(input, spec.sizes(input)[1]))
    return output, h, c, input.new_empty((size,), dtype=torch.uint8)


@torch.library.register_fake("cellgrad::rnn_backward", lib=library)
def _rnn_backward_fake(d_output: Any, d_h: Any, d_c: Any, input: Any, weights: Any, h0: Any, c0: Any, lengths: Any, counter: Any,
                       reserve: Any, network: str, wanted: Sequence[bool]) -> Tuple[Any, ...]:
    spec = spec_of(network)
    shapes = spec.shapes(input, spec.sizes(input)[1])
    all_shapes = (tuple(input.shape), shapes[1], shapes[2], (spec.params,))
    return tuple(input.new_empty(shape if is_wanted else (0,)) for shape, is_wanted in zip(all_shapes, wanted))


# ---- autograd ----


def _apart(flat: Tensor, weights: Sequence[Tensor], needs: Sequence[bool]) -> List[Optional[Tensor]]:
    """Returns the gradient of each weight, as a part of the gradient of all weights in one buffer; None for a weight that needs no
    gradient."""
    parts = flat.split([weight.numel() for weight in weights])
    return [part.view(weight.shape) if need else None for part, weight, need in zip(parts, weights, needs)]


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, weights, h0, c0, lengths, counter, ctx.network = inputs
    ctx.count, ctx.needs = len(weights), [weight.requires_grad for weight in weights]
    ctx.save_for_backward(x, h0, c0, lengths, counter, output[3], *weights)
    ctx.set_materialize_grads(False)


def _grad(ctx: Any, d_output: Any, d_h: Any, d_c: Any, _: Any) -> Tuple[Any, ...]:
    x, h0, c0, lengths, counter, reserve, *weights = ctx.saved_tensors
    if not spec_of(ctx.network).cell.has_state:
        d_c = None
    if d_output is None and d_h is None and d_c is None:
        return None, [None] * ctx.count, None, None, None, None, None
    needs = ctx.needs_input_grad
    wanted = [bool(needs[0]), bool(needs[2]), bool(needs[3]), any(ctx.needs)]
    dx, dh0, dc0, flat = torch.ops.cellgrad.rnn_backward(d_output, d_h, d_c, x, weights, h0, c0, lengths, counter, reserve, ctx.network,
                                                         wanted)
    parts = _apart(flat, weights, ctx.needs) if wanted[3] else [None] * ctx.count
    return dx if wanted[0] else None, parts, dh0 if wanted[1] else None, dc0 if wanted[2] else None, None, None, None


def _no_second(ctx: Any, *_: Any) -> None:
    # If cellgrad::rnn_backward had no derivative rule, PyTorch would only warn, and continue with a second gradient of zero.
    raise SecondGradientError("cellgrad::rnn_backward: a network has no gradient of its gradient; "
                              "kernels of a cell have it: cellgrad.Kernel(cell, 'gradgrad')")


torch.library.register_autograd("cellgrad::rnn", _grad, setup_context=_setup, lib=library)
torch.library.register_autograd("cellgrad::rnn_backward", _no_second, lib=library)


# ---- autocast ----


def _autocast(kind: str) -> Any:
    key = torch._C.DispatchKey.AutocastCPU if kind == "cpu" else torch._C.DispatchKey.AutocastCUDA

    def cast(tensor: Any, dtype: torch.dtype) -> Any:
        is_wide = tensor is not None and tensor.is_floating_point() and tensor.dtype != torch.float64
        return tensor.to(dtype) if is_wide else tensor

    def autocast_rnn(input: Any, weights: Any, h0: Any, c0: Any, lengths: Any, counter: Any, network: str) -> Any:
        dtype = torch.get_autocast_dtype(kind)
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return torch.ops.cellgrad.rnn(cast(input, dtype), [cast(weight, dtype) for weight in weights], cast(h0, dtype), cast(c0, dtype),
                                          lengths, counter, network)

    return autocast_rnn


library.impl("rnn", _autocast("cpu"), "AutocastCPU")
library.impl("rnn", _autocast("cuda"), "AutocastCUDA")


# ---- calls without the dispatcher ----


class _Node(torch.autograd.Function):
    """A node of autograd for a call without the dispatcher, on plain tensors.  made: output, h, c and the reserve space, as `_run.forward`
    or `_stable.forward` returned them."""

    @staticmethod
    def forward(ctx: Any, network: str, lengths: Any, batch_sizes: Any, counter: int, made: Any, x: Any, h0: Any, c0: Any,
                *weights: Any) -> Any:
        output, h, c, reserve = made
        ctx.network, ctx.counter, ctx.batch_sizes = network, counter, batch_sizes
        ctx.save_for_backward(x, h0, c0, lengths, reserve, *weights)
        ctx.set_materialize_grads(False)
        if not c.numel():
            ctx.mark_non_differentiable(c)
        return output, h, c

    @staticmethod
    def backward(ctx: Any, d_output: Any, d_h: Any, d_c: Any) -> Any:
        x, h0, c0, lengths, reserve, *weights = ctx.saved_tensors
        needs = ctx.needs_input_grad[_FIRST:]
        spec = spec_of(ctx.network)
        d_c = d_c if spec.cell.has_state else None
        if d_output is None and d_h is None and d_c is None:
            return (None,) * (_FIRST + len(needs))
        gradients, is_repeated = (d_output, d_h, d_c), torch.is_grad_enabled()
        if not is_repeated and lengths is None and ctx.batch_sizes is None:
            made = _stable.backward(spec, gradients, x, weights, h0, c0, reserve, ctx.counter, needs)
            if made is not None:
                return (None,) * _FIRST + made
        wanted = (*needs[:3], any(needs[3:]))
        arguments = gradients, x, weights, h0, c0, lengths, reserve, ctx.counter, wanted, ctx.batch_sizes
        if is_repeated:
            # With create_graph the gradients come from a node of autograd whose own backward raises SecondGradientError.
            dx, dh0, dc0, flat = _Refusal.apply(spec, arguments, x, h0, c0, d_output, d_h, d_c, *weights)
        else:
            dx, dh0, dc0, flat = backward(spec, *arguments)
        parts = _apart(flat, weights, needs[3:]) if wanted[3] else [None] * len(weights)
        return ((None,) * _FIRST
                + (dx if needs[0] else None, dh0 if needs[1] else None, dc0 if needs[2] else None, *parts))


# The number of arguments of _Node.forward, after ctx, before the tensors that may have gradients.
_FIRST = 5


class _Refusal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, spec: Any, arguments: Any, *_: Any) -> Any:
        return backward(spec, *arguments)

    backward = staticmethod(_no_second)


FLAT_TYPES = frozenset((Tensor, torch.nn.Parameter))
_tracing_state = torch._C._get_tracing_state
_modes, _functions = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
_interpreters = torch._C._functorch.peek_interpreter_stack


def is_watched(kind: str) -> bool:
    """Does a feature of PyTorch, such as a mode or autocast, intercept operators on this kind of device, "cpu" or "cuda"?"""
    return bool(_modes() or _functions() or _interpreters() is not None or _tracing_state() is not None or forward_ad._current_level >= 0
                or torch.is_autocast_enabled(kind))


def _is_plain(tensors: Sequence[Any]) -> bool:
    """Are all tensors plain, is the first one on the cpu or on cuda, and does no feature of PyTorch intercept operators on that device?"""
    for tensor in tensors:
        if tensor is not None and type(tensor) not in FLAT_TYPES:
            return False
    kind = tensors[0].device.type
    return kind in ("cpu", "cuda") and not is_watched(kind)


def node(network: str, made: Tuple[Tensor, ...], input: Tensor, h0: Optional[Tensor], c0: Optional[Tensor],
         weights: Sequence[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    """Returns output, h and c as outputs of a node of autograd.  made: the results of a forward pass without dropout and lengths."""
    output, h, c = _Node.apply(network, None, None, 0, made, input, h0, c0, *weights)
    return output, h, c


def takes_packed(input: Tensor, weights: Sequence[Tensor]) -> bool:
    """Can the function `rnn` read the data of a PackedSequence directly?  The operator cellgrad::rnn takes padded sequences alone."""
    return not torch.compiler.is_compiling() and _is_plain((input, *weights))


def rnn(input: Tensor, weights: Sequence[Tensor], h0: Optional[Tensor], c0: Optional[Tensor], lengths: Optional[Tensor], drops: bool,
        networks: Tuple[str, str], batch_sizes: Optional[Tensor] = None, spare: Optional[Spare] = None) -> Tuple[Tensor, Tensor, Tensor]:
    """Computes output, h and c.

    drops: there is dropout; PyTorch's generator then draws the number of the call.  networks: the texts of the network without and with a
    reserve space.  batch_sizes: int32, if the input is the data of a PackedSequence.  spare: has the memory of a large reserve space.
    """
    tensors = (input, h0, c0, *weights)
    needs = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    network = networks[1 if needs or drops else 0]
    counter = torch.randint(0, 2**62, (1,), dtype=torch.int64) if drops else None
    if torch.compiler.is_compiling() or not _is_plain(tensors):
        if not torch.compiler.is_compiling() and forward_ad._current_level >= 0:
            if any(tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
                raise SecondGradientError("cellgrad::rnn: a network has no forward-mode derivative")
        if not torch.compiler.is_compiling() and input.device.type != "meta":
            place_of(input.device)
        output, h, c, _ = torch.ops.cellgrad.rnn(input, weights, h0, c0, lengths, counter, network)
    elif needs:
        number = _number(counter)
        with torch.no_grad():
            made = forward(spec_of(network), input, weights, h0, c0, lengths, number, None, batch_sizes, spare)
        output, h, c = _Node.apply(network, lengths, batch_sizes, number, made, input, h0, c0, *weights)
    else:
        output, h, c, _ = forward(spec_of(network), input, weights, h0, c0, lengths, _number(counter), None, batch_sizes)
    return output, h, c
