# SPDX-License-Identifier: Apache-2.0
"""The exception for gradients of gradients."""
from .._errors import UnsupportedError


class SecondGradientError(UnsupportedError):
    """A gradient of a gradient was requested, which networks do not support.

    >>> import cellgrad.jax, jax, jax.numpy as jnp
    >>> network = cellgrad.jax.Network("gru", input=3, units=4)
    >>> params = network.init(jax.random.key(0))
    >>> loss = lambda x: jnp.sum(network(params, x)[0])
    >>> try:
    ...     jax.grad(lambda x: jnp.sum(jax.grad(loss)(x)))(jnp.ones((5, 2, 3)))
    ... except NotImplementedError as error:
    ...     print(type(error).__name__)
    SecondGradientError
    """
