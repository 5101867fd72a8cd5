# SPDX-License-Identifier: Apache-2.0
"""The mesh axes over which an array varies in a shard_map.  JAX tracks the axes over which an array varies if check_vma is on;
otherwise an array has no such axes.

JAX's functions and attributes for the axes over which an array varies have different names in different versions of JAX.
"""
from typing import Any, FrozenSet, Sequence

import jax
import jax.numpy as jnp

Array = Any
Axes = FrozenSet[Any]


def axes_of(arrays: Sequence[Array]) -> Axes:
    """Returns the axes over which any of the arrays varies."""
    found: Axes = frozenset()
    for kind in map(jax.typeof, arrays) if hasattr(jax, "typeof") else ():
        manual = getattr(kind, "manual_axis_type", None)
        found |= manual.varying if manual is not None else getattr(kind, "vma", frozenset())
    return found


def varying(array: Array, axes: Axes) -> Array:
    """Returns the array, marked as varying over the axes; JAX then sums the array's gradient over those of the axes over which the array
    did not vary before."""
    more = tuple(axes - axes_of([array]))
    if not more:
        return array
    return jax.lax.pcast(array, more, to="varying") if hasattr(jax.lax, "pcast") else getattr(jax.lax, "pvary")(array, more)


def result(shape: Sequence[Any], dtype: Any, axes: Axes) -> Any:
    """The type, for ffi_call, of a result that varies over the axes.  If there are axes, an array of zeros with the result's
    shape, dtype and axes stands for the type; ffi_call does not use the zeros."""
    return varying(jnp.zeros(shape, dtype), axes) if axes else jax.ShapeDtypeStruct(tuple(shape), dtype)
