# SPDX-License-Identifier: Apache-2.0
"""A network's forward pass and the gradient of that pass as functions with custom derivatives for JAX.

A gradient that is not needed is not computed, and the handler gets an empty array for an upstream gradient that JAX knows to be zero.
"""
import functools
from typing import TYPE_CHECKING, Any, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from .._errors import ArgumentTypeError
from . import _module
from ._errors import SecondGradientError

if TYPE_CHECKING:
    from ._network import Network

Array = Any
Results = Tuple[Array, Array, Optional[Array]]


def _given(array: Optional[Array], dtype: Any) -> Array:
    """Returns an array as an argument of a handler; an empty array for None."""
    return jnp.zeros((0,), dtype) if array is None else array


def _arguments(x: Array, h0: Optional[Array], c0: Optional[Array], params: Array, lengths: Optional[Array],
               counter: Optional[Array]) -> Tuple[Array, ...]:
    """Returns the arguments with which the lists of arguments of both handlers, forward and backward, begin."""
    no_counter = jnp.zeros((2,), jnp.uint32)
    return (x, _given(h0, x.dtype), _given(c0, x.dtype), params, _given(lengths, jnp.int32), no_counter if counter is None else counter)


def _refuse(*_: Any) -> Any:
    """The derivative rule of functions that have no derivative: it raises SecondGradientError."""
    raise SecondGradientError("cellgrad.jax: a network has no gradient of a gradient")


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _forward(network: "Network", is_trained: bool, inputs: Tuple[Any, ...]) -> Tuple[Results, Array]:
    """Computes output, h and c, and the reserve space, which is empty unless is_trained or the call has a counter.

    A call with dropout has a reserve space in any case, since the library has dropout in training alone.
    """
    x, counter = inputs[0], inputs[5]
    drops = counter is not None
    has_reserve = is_trained or drops
    output, h, c = network.shapes(x.shape)
    size = network.reserve_size(x.dtype, x.shape) if has_reserve else 0
    results = [(output, x.dtype), (h, x.dtype), (c or (0,), x.dtype), ((size,), jnp.uint8)]
    made = _module.call(_module.FORWARD, results, _arguments(*inputs), network.attributes(has_reserve, drops))
    return (made[0], made[1], made[2] if c else None), made[3]


_forward.defvjp(_refuse, _refuse)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def rnn(network: "Network", x: Array, h0: Optional[Array], c0: Optional[Array], params: Array, lengths: Optional[Array],
        counter: Optional[Array]) -> Results:
    """Computes output, h and c; c is None for a cell without a cell state.

    counter: the number of the call, on which the masks of dropout depend, as two numbers of uint32; None switches dropout off.
    """
    return _forward(network, False, (x, h0, c0, params, lengths, counter))[0]


def _rnn_forward(network: "Network", *primals: Any) -> Tuple[Results, Any]:
    inputs = jax.tree.map(lambda primal: primal.value, primals, is_leaf=_is_primal)
    # The marks () and None in `wanted` are no arrays but parts of the pytree's structure, so that `wanted` stays static when JAX traces.
    wanted = tuple(() if primal is not None and primal.perturbed else None for primal in primals[:4])
    made, reserve = _forward(network, True, inputs)
    return made, (inputs, reserve, wanted)


def _is_primal(value: Any) -> bool:
    return hasattr(value, "perturbed")


def _rnn_backward(network: "Network", kept: Any, upstream: Any) -> Tuple[Any, ...]:
    inputs, reserve, wanted = kept
    given = tuple(None if gradient is None or isinstance(gradient, SymbolicZero) else gradient for gradient in upstream)
    are_wanted = tuple(want is not None for want in wanted)
    made = _gradients(network, are_wanted, inputs, reserve, given)
    # A gradient that is not needed is an array of zeros, which XLA removes, and not None: JAX 0.7 requires an array for each input array.
    return (*(gradient if want else _zeros_like(array) for gradient, want, array in zip(made, are_wanted, inputs)), None, None)


def _zeros_like(array: Optional[Array]) -> Optional[Array]:
    return None if array is None else jnp.zeros_like(array)


rnn.defvjp(_rnn_forward, _rnn_backward, symbolic_zeros=True)
# `compiled` is under jax.jit, so that calls by the user outside of jax.jit are traced only once for equal networks, shapes and dtypes, and
# since a shard_map outside of jax.jit does not take symbolic zeros.
compiled = jax.jit(rnn, static_argnums=0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _gradients(network: "Network", wanted: Tuple[bool, ...], inputs: Tuple[Any, ...], reserve: Array,
               upstream: Tuple[Optional[Array], ...]) -> Sequence[Array]:
    """Computes the gradients of x, h0, c0 and params; those that are not wanted are empty."""
    x, drops = inputs[0], inputs[5] is not None
    results = [(array.shape if want else (0,), x.dtype) for array, want in zip(inputs[:4], wanted)]
    given = [_given(gradient, x.dtype) for gradient in upstream]
    return _module.call(_module.BACKWARD, results, (*_arguments(*inputs), reserve, *given), network.attributes(True, drops))


_gradients.defvjp(_refuse, _refuse)


def halves_of(key: Any) -> Array:
    """Returns a number of 64 bits that is drawn by a key, as two numbers of 32 bits.

    Raises ArgumentTypeError if the argument is not a key.
    """
    try:
        return jax.random.bits(key, (2,), jnp.uint32)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"key: expected a key of jax.random: {error}") from None


def init_params(network: "Network", key: Array, rules: str, dtype: Any) -> Array:
    """Computes initial params by a handler of cellgrad_jax.so."""
    results = [((network.params_size,), dtype)]
    return _module.call(_module.INIT_PARAMS, results, [halves_of(key)], {**network.attributes(True, False, input_width=True), "rules": rules})[0]
