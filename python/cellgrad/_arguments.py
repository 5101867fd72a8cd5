# SPDX-License-Identifier: Apache-2.0
"""Checks arguments, and converts them for the library: numbers, texts, dtypes, and arrays, which become struct cg_mem.

A NumPy array that the library can read in place is passed without a copy.  Another array in host memory is passed without a copy, too, if
np.from_dlpack converts the array to a NumPy array that the library can read in place.  Lists and tuples are converted to NumPy arrays.  An
input array that the library cannot read in place is copied once; an output is never copied.
"""
import ctypes
import math
import operator
import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ._errors import ArgumentError, ArgumentTypeError
from ._lib import C

Shape = Tuple[int, ...]

_CODES: Dict[str, int] = {"float32": C.CG_F32, "float64": C.CG_F64, "float16": C.CG_F16, "bfloat16": C.CG_BF16}
# The names that NumPy has for the types that a manifest names.
OF_MANIFEST = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}


# ---- numbers and words ----


def text(name: str, value: Any) -> bytes:
    """Returns a str as bytes for the library; ArgumentTypeError for another type, ArgumentError for a NUL character or a lone surrogate."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name}: expected str, got {type(value).__name__}")
    if "\0" in value:
        raise ArgumentError(f"{name}: expected text without NUL characters")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{name}: expected text that UTF-8 can encode: {error}") from error


def words(name: str, value: Any) -> bytes:
    """Returns words joined by commas, from a str that has them so already, or from an iterable of str."""
    if isinstance(value, str):
        return text(name, value)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, np.ndarray)):
        return b",".join(text(name, word) for word in value)
    raise ArgumentTypeError(f"{name}: expected str or an iterable of str, got {type(value).__name__}")


def integer(name: str, value: Any, low: int, high: int) -> int:
    """Returns an int from low to high; any integer type is accepted, and no float."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{name}: expected an integer, got {type(value).__name__} {value!r:.60}") from None
    if not low <= number <= high:
        raise ArgumentError(f"{name}: expected {low} to {high}, got {number}")
    return number


INT_MAX, INT64_MAX, UINT64_MAX = 2**31 - 1, 2**63 - 1, 2**64 - 1


def real(name: str, value: Any) -> float:
    """Returns a number as a float; ArgumentTypeError if the value is no number, ArgumentError if it is NaN."""
    try:
        number = float(value) if not isinstance(value, (str, bytes)) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        raise ArgumentTypeError(f"{name}: expected a number, got {type(value).__name__} {value!r:.60}")
    if math.isnan(number):
        raise ArgumentError(f"{name}: expected a number, got NaN")
    return number


def values_of(values: Any) -> List[Tuple[str, float]]:
    """Returns the values of a cell's params as pairs of a name and a float; none for None."""
    if values is not None and not isinstance(values, Mapping):
        raise ArgumentTypeError(f"values: expected a mapping of names to numbers, got {type(values).__name__}")
    return [(text("values", name).decode(), real(f"values: {name}", value)) for name, value in (values or {}).items()]


def one_of(name: str, value: Any, names: Sequence[str]) -> int:
    """Returns the index of a word in a list."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name}: expected str, got {type(value).__name__}")
    if value not in names:
        raise ArgumentError(f"{name}: expected one of {', '.join(names)}; got '{value:.60}'")
    return names.index(value)


# ---- dtypes ----


def dtype_of(value: Any) -> "np.dtype[Any]":
    """Returns the NumPy dtype of a name, a type or a dtype: float32, float64, float16 or ml_dtypes.bfloat16."""
    if isinstance(value, str) and value == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise ArgumentTypeError("dtype bfloat16 needs the package ml_dtypes: pip install ml_dtypes") from None
        bfloat16: "np.dtype[Any]" = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    dtype: "Optional[np.dtype[Any]]" = None
    try:
        dtype = np.dtype(value)
    except TypeError:
        pass
    if value is None or dtype is None or dtype.name not in _CODES or not dtype.isnative:
        raise ArgumentTypeError(f"dtype: expected float32, float64, float16 or bfloat16, got {value!r:.60}")
    return dtype


def dtype_code(value: Any) -> int:
    """Returns the enum cg_dtype of a dtype."""
    return _CODES[dtype_of(value).name]


# ---- arrays ----


def _spell(shape: Shape, axes: str) -> str:
    return f"{shape} [{axes}]" if axes else f"{shape}"


def _of_host(value: Any) -> "Optional[np.ndarray[Any, Any]]":
    """Converts by __array__ an array in host memory that np.from_dlpack cannot convert, such as one of bfloat16.  Returns None if the array
    is in other memory, has no __array__, or if __array__ fails."""
    try:
        return np.asarray(value) if value.__dlpack_device__()[0] == 1 and hasattr(value, "__array__") else None
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None


def _show(name: str, value: Any, dtype: "np.dtype[Any]") -> "np.ndarray[Any, Any]":
    """Returns an argument as a NumPy array: a NumPy array itself, one over the memory of an array that np.from_dlpack converts, else what
    np.asarray makes."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(f"{name}: expected an array without a mask, got a masked array; filled() converts it")
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
            array = _of_host(value)
            if array is None:
                raise ArgumentTypeError(
                    f"{name}: NumPy cannot convert this {type(value).__name__} to an array in host memory: {error}") from error
            return array
    if isinstance(value, (list, tuple, int, float, np.generic)):
        try:
            return np.asarray(value, dtype)
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError(f"{name}: expected numbers that {dtype} can hold: {error}") from error
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__") or isinstance(value, (memoryview, bytearray, bytes)):
        return np.asarray(value)
    raise ArgumentTypeError(f"{name}: expected an array of {dtype}, got {type(value).__name__}")


def shown(name: str, value: Any, dtype: "np.dtype[Any]", shape: Optional[Shape] = None, axes: str = "") -> "np.ndarray[Any, Any]":
    """Returns an input as an array with its own strides.  The array's dtype must be `dtype`, and its shape must be `shape`, unless `shape`
    is None."""
    array = _show(name, value, dtype)
    if array.dtype != dtype:
        raise ArgumentTypeError(f"{name}: expected {dtype}, got {array.dtype}; astype() converts it")
    if shape is not None and array.shape != shape:
        raise ArgumentError(f"{name}: expected shape {_spell(shape, axes)}, got {array.shape}")
    return array


def dense(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Returns the array, or a copy of it, in C order and aligned to its elements."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C", subok=False)


def given(name: str, value: Any, dtype: "np.dtype[Any]", shape: Shape, axes: str = "") -> "np.ndarray[Any, Any]":
    """Returns an input as a dense array, copied if necessary."""
    return dense(shown(name, value, dtype, shape, axes))


def in_place(name: str, value: Any, dtype: "np.dtype[Any]", shape: Shape, axes: str = "", strided: bool = False) -> "np.ndarray[Any, Any]":
    """Returns the caller's array, which is never copied; it must be aligned and, unless `strided`, in C order."""
    if not isinstance(value, np.ndarray):
        raise ArgumentTypeError(f"{name}: expected a NumPy array, which is used in place, got {type(value).__name__}")
    array = shown(name, value, dtype, shape, axes)
    if not array.flags.aligned or not (strided or array.flags.c_contiguous):
        raise ArgumentError(f"{name}: expected a contiguous and aligned array, since it is used in place; its copy() is one")
    return array


def writable(name: str, value: Any, dtype: "np.dtype[Any]", shape: Shape, axes: str = "", strided: bool = False) -> "np.ndarray[Any, Any]":
    """Returns the caller's array for an output, which must be writable."""
    array = in_place(f"out: {name}", value, dtype, shape, axes, strided)
    if not array.flags.writeable:
        raise ArgumentError(f"out: {name}: the array is read-only")
    return array


def span(array: "np.ndarray[Any, Any]") -> int:
    """Returns the number of bytes from the start of an array's first element to the end of its last element; strides must not be
    negative."""
    if array.flags.c_contiguous:
        return int(array.nbytes)
    return int(array.itemsize + sum((n - 1) * stride for n, stride in zip(array.shape, array.strides)))


def memory(array: Optional["np.ndarray[Any, Any]"]) -> Any:
    """Makes a struct cg_mem of an array's memory; None gives absent memory.  The array must live as long as the struct is in use."""
    if array is None:
        return C.cg_mem()
    return C.cg_mem(data=array.ctypes.data, bytes=span(array))


def row_lengths(name: str, value: Any, count: Optional[int], high: int, what: str = "row") -> "np.ndarray[Any, np.dtype[np.int32]]":
    """Checks integers from 0 to `high`, one for each row, or for each `what`, and converts them to an int32 array.  count: None for any
    number."""
    # A list keeps the type of its numbers here, so that a float is rejected below and not converted to an integer.
    array = np.asarray(value) if isinstance(value, (list, tuple, int, float)) else _show(name, value, np.dtype(np.int64))
    if array.size == 0 and isinstance(value, (list, tuple)):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ArgumentTypeError(f"{name}: expected integers, got {array.dtype}")
    if array.ndim != 1 or (count is not None and array.shape != (count,)):
        raise ArgumentError(f"{name}: expected shape ({'any' if count is None else count},), one for each {what}, got {array.shape}")
    wrong = np.flatnonzero((array < 0) | (array > high))
    if wrong.size:
        raise ArgumentError(f"{name}: expected 0 to {high}, got {array[wrong[0]]} for {what} {wrong[0]}")
    return np.ascontiguousarray(array, np.int32)


def address(array: Optional["np.ndarray[Any, Any]"]) -> Optional[int]:
    """Returns the address of an array, for a call that takes a pointer; None for None, and for an array without elements."""
    return array.ctypes.data if array is not None and array.size else None


def struct_of(kind: str, init: Any) -> Any:
    """Returns a struct of this kind, initialised by its function `init`."""
    struct = getattr(C, kind)()
    init(ctypes.byref(struct), ctypes.sizeof(struct))
    return struct


def path_of(value: Any) -> Optional[str]:
    """Returns the path of a cell's file, if the value is a path object, or a str of one line that ends in .cell; else None."""
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        return path if isinstance(path, str) else os.fsdecode(path)
    return value if isinstance(value, str) and value.endswith(".cell") and "\n" not in value else None
