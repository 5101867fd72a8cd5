# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks for JAX on the processor; they work under jit, grad, vmap and shard_map.

>>> import cellgrad.jax, jax, jax.numpy as jnp
>>> network = cellgrad.jax.Network("lstm", input=3, units=8)
>>> params = network.init(jax.random.key(0))
>>> output, (h, c) = jax.jit(network)(params, jnp.ones((20, 4, 3)))
>>> gradient = jax.grad(lambda params: jnp.mean(network(params, jnp.ones((20, 4, 3)))[0] ** 2))(params)
>>> gradient.shape == params.shape
True

`Network` is layers of any cell; `Cell` reads equations.  python/cellgrad/jax/README.md in the source tree documents the package.
"""
try:
    import jax as _jax
except ImportError as _error:
    raise ImportError("cellgrad.jax needs JAX: pip install 'cellgrad[jax]'") from _error

OLDEST = (0, 5)
if tuple(int(number) for number in _jax.__version__.split(".")[:2]) < OLDEST:
    raise ImportError(f"cellgrad.jax needs JAX {OLDEST[0]}.{OLDEST[1]} or later, and this is JAX {_jax.__version__}")

from .._cell import Cell  # noqa: E402
from ._errors import SecondGradientError  # noqa: E402
from ._network import Network  # noqa: E402

__all__ = ["Cell", "Network", "SecondGradientError"]
