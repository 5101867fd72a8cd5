# SPDX-License-Identifier: Apache-2.0
"""The mesh axes that an array varies over in a shard_map, which JAX tracks under check_vma; elsewhere there are none.

The names of all this differ from one JAX to the next.
"""
from typing import Any, FrozenSet, Sequence

import jax
import jax.numpy as jnp

Array = Any
Axes = FrozenSet[Any]


def axes_of(arrays: Sequence[Array]) -> Axes:
    """The axes that any of the arrays varies over."""
    found: Axes = frozenset()
    for kind in map(jax.typeof, arrays) if hasattr(jax, "typeof") else ():
        manual = getattr(kind, "manual_axis_type", None)
        found |= manual.varying if manual is not None else getattr(kind, "vma", frozenset())
    return found


def varying(array: Array, axes: Axes) -> Array:
    """The array as one that varies over the axes: its gradient is then summed over those that it did not vary over."""
    more = tuple(axes - axes_of([array]))
    if not more:
        return array
    return jax.lax.pcast(array, more, to="varying") if hasattr(jax.lax, "pcast") else getattr(jax.lax, "pvary")(array, more)


def result(shape: Sequence[Any], dtype: Any, axes: Axes) -> Any:
    """What stands for the type of a result that varies over the axes: where there are some, an array, of which nothing is computed."""
    return varying(jnp.zeros(shape, dtype), axes) if axes else jax.ShapeDtypeStruct(tuple(shape), dtype)
