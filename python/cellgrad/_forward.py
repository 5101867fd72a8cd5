# SPDX-License-Identifier: Apache-2.0
"""The forward and backward pass of a network on NumPy arrays."""
import ctypes
from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ._arguments import INT_MAX, INT64_MAX, UINT64_MAX, address, given, integer, memory, row_lengths, shown, struct_of, writable
from ._errors import ArgumentError, ArgumentTypeError
from ._lib import C
from ._rows import DENSE, like, sequence, strides_of
from ._load import check, lib

if TYPE_CHECKING:
    from ._network import Network

Array = Any
# A strided input that spans more than MOST times the memory of a dense input is copied, since the input's gradient gets the same strides.
MOST = 2
FIELDS = ("network", "params", "x", "h0", "c0", "lengths", "batch_sizes", "counter", "first_step", "drop", "output", "h", "c", "reserve")


class Run:
    """The results of a forward pass, and everything that its backward pass reads.

    output: [T, B, D*H], or [B, T, D*H] unless time_major, or [N, D*H] for a packed sequence.  h: [L*D, B, H].  c: [L*D, B, units], None if
    the cell has no cell state, and [S, L*D, B, units] if it has S > 1 cell states, in the cell's order.  h and c have B before L*D unless
    time_major or states_major.  reserve: the reserve space as bytes, None unless training.  The other attributes are the arguments of the
    forward pass: network, params, x, h0, c0, lengths, batch_sizes, counter, first_step, drop.
    """

    __slots__ = FIELDS

    network: "Network"
    params: Array
    x: Array
    h0: Optional[Array]
    c0: Optional[Array]
    lengths: Optional[Array]
    batch_sizes: Optional[Array]
    counter: int
    first_step: int
    drop: bool
    output: Array
    h: Array
    c: Optional[Array]
    reserve: Optional[Array]

    def __init__(self, **fields: Any):
        for name in self.__slots__:
            setattr(self, name, fields.get(name))

    def backward(self, d_output: Any = None, d_h: Any = None, d_c: Any = None, **keywords: Any) -> "Gradients":
        """Calls `network.backward` with this run."""
        return self.network.backward(self, d_output, d_h, d_c, **keywords)

    def __reduce__(self) -> Any:
        return _remade, ({name: getattr(self, name) for name in FIELDS},)


def _remade(fields: Dict[str, Any]) -> Run:
    return Run(**fields)


class Gradients(NamedTuple):
    """The gradients of x, h0, c0 and params, in the fields input, h, c and params: each an array of the shape of that argument, or None."""

    input: Optional[Array]
    h: Optional[Array]
    c: Optional[Array]
    params: Optional[Array]


def _sequence_shape(network: "Network", T: int, B: int, width: int) -> Tuple[int, ...]:
    return (T, B, width) if network.config.time_major else (B, T, width)


def _sequence_axes(network: "Network", width: str) -> str:
    return f"T, B, {width}" if network.config.time_major else f"B, T, {width}"


def _state_shape(network: "Network", B: int, width: int) -> Tuple[int, ...]:
    config, count = network.config, network.config.layers * network.directions
    return (count, B, width) if config.time_major or config.states_major else (B, count, width)


def _state_axes(network: "Network", width: str) -> str:
    return f"L*D, B, {width}" if network.config.time_major or network.config.states_major else f"B, L*D, {width}"


def _put_states(call: Any, network: "Network", name: str, c: Optional[Array]) -> None:
    """Sets the fields of a struct cg_rnn_call that describe the memory of the cell states `c`.  If `name` is "input", these fields are
    input_c and input_s; if `name` is "output_backprop", they are output_c_backprop and output_s_backprop."""
    if c is None:
        return
    first, end = name.split("_")[0], "_backprop" if "_" in name else ""
    states = c if network.cell.n_states > 1 else c[np.newaxis]
    setattr(call, f"{first}_c{end}", memory(states[0]))
    for k, state in enumerate(states[1:]):
        getattr(call, f"{first}_s{end}")[k] = memory(state)


def _shapes(network: "Network", T: int, B: int, batch_sizes: Optional[Array]) -> Dict[str, Tuple[Tuple[int, ...], str]]:
    """Returns the shapes of input, output, h, c and params, each with the names of its axes."""
    config = network.config
    N = None if batch_sizes is None else int(batch_sizes.sum())

    def of(width: int, name: str) -> Tuple[Tuple[int, ...], str]:
        if N is not None:
            return (N, width), f"N, {name}"
        return _sequence_shape(network, T, B, width), _sequence_axes(network, name)

    states = _state_shape(network, B, config.units), _state_axes(network, "units")
    if network.cell.n_states > 1:
        states = (network.cell.n_states, *states[0]), "S, " + states[1]
    return {
        "input": of(config.input, "input"), "output": of(network.output_width, "D*H"),
        "h": (_state_shape(network, B, config.proj or config.units), _state_axes(network, "H")),
        "c": states,
        "params": ((network.params_size,), "params_size"),
    }


def _optional(network: "Network", name: str, value: Any, shape: Tuple[Tuple[int, ...], str]) -> Optional[Array]:
    return None if value is None else given(name, value, network.dtype, *shape)


def _refuse_state(network: "Network", name: str, value: Any) -> None:
    if value is not None and not network.cell.has_state:
        raise ArgumentError(f"{name}: expected None, since the cell {network.cell.name} has no cell state")


def _outputs(out: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """Returns the caller's arrays for the outputs, by the outputs' names."""
    if out is None:
        return {}
    if isinstance(out, Run):
        return {name: getattr(out, name) for name in names if getattr(out, name) is not None}
    if isinstance(out, np.ndarray):
        return {"output": out}
    if not isinstance(out, Mapping):
        raise ArgumentTypeError(f"out: expected an array, a mapping of names to arrays or a Run, got {type(out).__name__}")
    for name in out:
        if name not in names:
            raise ArgumentError(f"out: expected names among {', '.join(names)}; got '{name}'")
    return out


def _make(network: "Network", out: Mapping[str, Any], name: str, shape: Tuple[Tuple[int, ...], str], strided: bool = False) -> Array:
    array = out.get(name)
    return (network._spare.empty(shape[0], network.dtype) if array is None else
            writable(name, array, network.dtype, *shape, strided=strided))


def _strides(network: "Network", name: str, array: Array) -> Tuple[int, int]:
    """Returns the strides of the caller's array for an output; ArgumentError if the library cannot write to it."""
    strides = strides_of(array, network.config.time_major)
    if strides is None:
        raise ArgumentError(f"out: {name}: the array is used in place: expected contiguous rows and positive strides")
    return strides


def _begin(run: Run, T: int, B: int) -> Any:
    """Returns a struct cg_rnn_call in which the fields are set that forward and backward share."""
    call = struct_of("cg_rnn_call", lib.cg_rnn_call_init)
    call.T, call.B, call.counter, call.first_step = T, B, run.counter, run.first_step
    call.lengths, call.batch_sizes, call.no_dropout = address(run.lengths), address(run.batch_sizes), 0 if run.drop else 1
    call.input_t_stride, call.input_b_stride = strides_of(run.x, run.network.config.time_major) or DENSE
    call.params, call.input, call.input_h = map(memory, (run.params, run.x, run.h0))
    _put_states(call, run.network, "input", run.c0)
    return call


def _steps(run_batch_sizes: Optional[Array], x: Array, time_major: bool) -> Tuple[int, int]:
    """Returns the number of steps T and the number of rows B of a call."""
    if run_batch_sizes is not None:
        return len(run_batch_sizes), int(run_batch_sizes[0]) if len(run_batch_sizes) else 0
    return (x.shape[0], x.shape[1]) if time_major else (x.shape[1], x.shape[0])


def _falling(value: Any, lengths: Any) -> Optional[Array]:
    """Checks the batch sizes of a packed sequence, which must not increase from step to step, and returns them as an array."""
    if value is None:
        return None
    if lengths is not None:
        raise ArgumentError("batch_sizes: expected None where lengths are given, got both")
    sizes = row_lengths("batch_sizes", value, None, INT_MAX, what="step")
    if len(sizes) > 1 and (np.diff(sizes) > 0).any():
        raise ArgumentError(f"batch_sizes: expected each at most the one before, got {sizes.tolist()!s:.60}")
    return sizes


def forward(network: "Network", params: Any, x: Any, h0: Any, c0: Any, lengths: Any, batch_sizes: Any, counter: Any, first_step: Any,
            drop: Any, out: Any) -> Run:
    """Network.forward()."""
    config, dtype = network.config, network.dtype
    if isinstance(x, tuple) and hasattr(x, "batch_sizes"):
        raise ArgumentTypeError(f"x: expected an array, got {type(x).__name__}; its parts are two arguments, x.data and "
                                "batch_sizes=x.batch_sizes")
    x, batch_sizes = shown("x", x, dtype), _falling(batch_sizes, lengths)
    axes = _sequence_axes(network, f"input={config.input}") if batch_sizes is None else f"N, input={config.input}"
    if x.ndim != (3 if batch_sizes is None else 2) or x.shape[-1] != config.input:
        raise ArgumentError(f"x: expected shape [{axes}], got {x.shape}")
    T, B = _steps(batch_sizes, x, config.time_major)
    shapes = _shapes(network, T, B, batch_sizes)
    _refuse_state(network, "c0", c0)
    run = Run(
        network=network, params=given("params", params, dtype, *shapes["params"]),
        x=sequence("x", x, dtype, *shapes["input"], config.time_major, most=MOST), batch_sizes=batch_sizes,
        h0=_optional(network, "h0", h0, shapes["h"]), c0=_optional(network, "c0", c0, shapes["c"]),
        lengths=None if lengths is None else row_lengths("lengths", lengths, B, min(T, INT_MAX)),
        counter=integer("counter", counter, 0, UINT64_MAX), first_step=integer("first_step", first_step, 0, INT64_MAX),
        drop=bool(integer("drop", drop, 0, 1)))
    names = ("output", "h", "c", "reserve")
    arrays = _outputs(out, names)
    run.output = _make(network, arrays, "output", shapes["output"], strided=batch_sizes is None)
    run.h = _make(network, arrays, "h", shapes["h"])
    if network.cell.has_state:
        run.c = _make(network, arrays, "c", shapes["c"])
    elif "c" in arrays:
        _refuse_state(network, "out: c", arrays["c"])
    plan = network.plan()
    call = _begin(run, T, B)
    call.output_t_stride, call.output_b_stride = _strides(network, "output", run.output)
    if config.training:
        sizes = C.cg_rnn_sizes()
        check(lib.cg_rnn_call_sizes(plan.pointer, ctypes.byref(call), ctypes.byref(sizes)))
        if arrays.get("reserve") is None:
            run.reserve = network._spare.take(sizes.reserve)
        else:
            run.reserve = _reserve_given(arrays["reserve"], sizes.reserve)
        call.reserve = memory(run.reserve)
    call.output, call.output_h = memory(run.output), memory(run.h)
    _put_states(call, network, "output", run.c)
    network.context.call(lib.cg_rnn_forward, plan.pointer, ctypes.byref(call))
    return run


def _reserve_given(array: Any, size: int) -> Array:
    """Returns the caller's array of bytes for the reserve space.  Raises ArgumentError if `array` has fewer than `size` bytes."""
    if isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype == np.uint8 and array.size < size:
        raise ArgumentError(f"out: reserve: expected at least {size} bytes, got {array.size}")
    shape = getattr(array, "shape", (size,))
    array = writable("reserve", array, np.dtype(np.uint8), shape)
    if array.ndim != 1 or array.ctypes.data % 8:
        raise ArgumentError("out: reserve: expected an array of one dimension, at an address that is a multiple of 8")
    return array


def _lie_alike(run: Run, call: Any, arrays: Mapping[str, Any]) -> Tuple[Array, Mapping[str, Any]]:
    """Copies the input if the caller's array for the input's gradient has other strides: the library has one pair of strides for both."""
    array = arrays.get("input")
    if not isinstance(array, np.ndarray) or array.shape != run.x.shape:
        return run.x, arrays
    strides = _strides(run.network, "input", array)
    if strides == (call.input_t_stride, call.input_b_stride):
        return run.x, arrays
    x = like(array)
    x[...] = run.x
    call.input, (call.input_t_stride, call.input_b_stride) = memory(x), strides
    return x, arrays


def backward(network: "Network", run: Run, d_output: Any, d_h: Any, d_c: Any, want: Sequence[str], out: Optional[Mapping[str, Any]],
             accumulate: Any, spend_reserve: Any) -> Gradients:
    """Network.backward()."""
    if not isinstance(run, Run):
        raise ArgumentTypeError(f"run: expected the result of forward, got {type(run).__name__}")
    if run.reserve is None:
        raise ArgumentError("run: expected a run with a reserve space, got one of a network with training=False")
    T, B = _steps(run.batch_sizes, run.x, network.config.time_major)
    shapes = _shapes(network, T, B, run.batch_sizes)
    if run.x.shape != shapes["input"][0] or run.x.dtype != network.dtype or run.params.size != network.params_size:
        raise ArgumentError("run: expected a run of this network, got one of another network")
    _refuse_state(network, "d_c", d_c)
    wanted = [want] if isinstance(want, str) else list(want)
    arrays = _outputs(out, Gradients._fields)
    for name in wanted:
        if name not in Gradients._fields:
            raise ArgumentError(f"want: expected names among {', '.join(Gradients._fields)}; got {name!r:.40}")
    if integer("accumulate", accumulate, 0, 1) and "params" not in arrays:
        raise ArgumentError("accumulate: expected out to have params, which the gradient is added to")
    if d_output is not None:
        d_output = sequence("d_output", d_output, network.dtype, *shapes["output"], network.config.time_major)
    d_h, d_c = _optional(network, "d_h", d_h, shapes["h"]), _optional(network, "d_c", d_c, shapes["c"])
    call = _begin(run, T, B)
    x, arrays = _lie_alike(run, call, arrays)
    if d_output is not None:
        call.output_t_stride, call.output_b_stride = strides_of(d_output, network.config.time_major) or DENSE
    call.reserve, call.accumulate = memory(run.reserve), int(accumulate)
    call.spend_reserve = integer("spend_reserve", spend_reserve, 0, 1)
    call.output_backprop, call.output_h_backprop = memory(d_output), memory(d_h)
    _put_states(call, network, "output_backprop", d_c)
    found: Dict[str, Optional[Array]] = {}
    for name in Gradients._fields:
        is_there = (name in wanted or name in arrays) and (name != "c" or network.cell.has_state)
        if name == "input" and is_there and name not in arrays:
            found[name] = network._spare.empty(x.shape, x.dtype) if x.flags.c_contiguous else like(x)
        else:
            found[name] = _make(network, arrays, name, shapes[name], strided=name == "input") if is_there else None
    call.input_backprop, call.input_h_backprop = memory(found["input"]), memory(found["h"])
    call.params_backprop = memory(found["params"])
    _put_states(call, network, "input_backprop", found["c"])
    network.context.call(lib.cg_rnn_backward, network.plan().pointer, ctypes.byref(call))
    return Gradients(**found)
