# SPDX-License-Identifier: Apache-2.0
"""A network's call and its gradient, as JAX sees them.

A gradient that nothing asks for is not computed, and an upstream gradient that is zero throughout is not passed.
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
    """An argument of a handler: an empty array stands for one that is absent."""
    return jnp.zeros((0,), dtype) if array is None else array


def _arguments(x: Array, h0: Optional[Array], c0: Optional[Array], params: Array, lengths: Optional[Array],
               counter: Optional[Array]) -> Tuple[Array, ...]:
    """What both handlers begin with."""
    no_counter = jnp.zeros((2,), jnp.uint32)
    return (x, _given(h0, x.dtype), _given(c0, x.dtype), params, _given(lengths, jnp.int32), no_counter if counter is None else counter)


def _refuse(*_: Any) -> Any:
    """The rules of the gradients of a handler."""
    raise SecondGradientError("cellgrad.jax: a network has no gradient of a gradient")


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _forward(network: "Network", is_trained: bool, inputs: Tuple[Any, ...]) -> Tuple[Results, Array]:
    """Output, h and c, and the reserve, which is empty unless is_trained.

    A call that drops has a reserve in any case: the library drops in training alone.
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
    """Output, h and c, None for a cell without a state.

    counter: two numbers of uint32 that number the masks of dropout; None drops nothing.
    """
    return _forward(network, False, (x, h0, c0, params, lengths, counter))[0]


def _rnn_forward(network: "Network", *primals: Any) -> Tuple[Results, Any]:
    inputs = jax.tree.map(lambda primal: primal.value, primals, is_leaf=_is_primal)
    # What is None or () is no array, and part of the structure.
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
    # Zeros that nothing reads and XLA leaves out: JAX 0.7 takes no other structure of results for other gradients.
    return (*(gradient if want else _zeros_like(array) for gradient, want, array in zip(made, are_wanted, inputs)), None, None)


def _zeros_like(array: Optional[Array]) -> Optional[Array]:
    return None if array is None else jnp.zeros_like(array)


rnn.defvjp(_rnn_forward, _rnn_backward, symbolic_zeros=True)
# Compiled for itself, so that calls outside of jax.jit are traced once; a shard_map outside of it takes no symbolic zeros.
compiled = jax.jit(rnn, static_argnums=0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _gradients(network: "Network", wanted: Tuple[bool, ...], inputs: Tuple[Any, ...], reserve: Array,
               upstream: Tuple[Optional[Array], ...]) -> Sequence[Array]:
    """The gradients by x, h0, c0 and params, empty where they are not wanted."""
    x, drops = inputs[0], inputs[5] is not None
    results = [(array.shape if want else (0,), x.dtype) for array, want in zip(inputs[:4], wanted)]
    given = [_given(gradient, x.dtype) for gradient in upstream]
    return _module.call(_module.BACKWARD, results, (*_arguments(*inputs), reserve, *given), network.attributes(True, drops))


_gradients.defvjp(_refuse, _refuse)


def halves_of(key: Any) -> Array:
    """A number of 64 bits that a key stands for, as two of 32.

    Raises ArgumentTypeError for what is no key.
    """
    try:
        return jax.random.bits(key, (2,), jnp.uint32)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"key: expected one of jax.random: {error}") from None


def init_params(network: "Network", key: Array, rules: str, dtype: Any) -> Array:
    """Parameters to begin training with."""
    results = [((network.params_size,), dtype)]
    return _module.call(_module.INIT_PARAMS, results, [halves_of(key)], {**network.attributes(True, False, input_width=True), "rules": rules})[0]
