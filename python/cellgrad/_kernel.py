# SPDX-License-Identifier: Apache-2.0
"""Kernels: the equations of one step of a cell or their gradients, as source text for other programs, or run on arrays."""
import ctypes
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ._arguments import INT64_MAX, INT_MAX, OF_MANIFEST, dense, dtype_code, dtype_of, integer, memory, one_of, real, shown, text, words
from ._cell import Cell, cell_of
from ._context import Context, default_context
from ._errors import ArgumentError
from ._lib import C
from ._load import check, lib

PASSES = ("forward", "grad", "gradgrad", "seq_forward", "seq_grad")
SHAPES = ("point", "sum", "scan")
LANGUAGES = ("c", "opencl", "cuda")
# The axes of an argument that is an array, by the kind of the argument.
AXES = {"tensor": "rows, units", "per_unit": "units", "element": "1"}


def _shape(kind: str, rows: int, units: int) -> Tuple[int, ...]:
    """Returns the shape of an argument that is an array, by the kind of the argument."""
    return {"tensor": (rows, units), "per_unit": (units,), "element": (1,)}[kind]


class Kernel:
    """A kernel of a cell.

    cell: a `Cell`, or an argument of `Cell`.  pass_: "forward", "grad", "gradgrad", "seq_forward" or "seq_grad".  options: the cell's
    options that are on, separated by commas or as a list.  stage: 1 to the number of the cell's stages, or 0 for all; for a cell with
    several stages `run` requires the number of one stage.  shape: "point" computes elements, and its text has the sums, too; "sum" computes
    the sums, for the gradients of biases, per-unit weights and scalars, and can be run but not printed; "scan" computes all steps of a
    sequence, and can be printed but not run.

    >>> import cellgrad, numpy as np
    >>> kernel = cellgrad.Kernel("rnn_tanh", "grad")
    >>> kernel.outputs()
    {'da': 'tensor'}
    >>> got = kernel.run({"h": np.full((2, 3), 0.5, np.float32), "dh": np.ones((2, 3), np.float32)})
    >>> got["da"]
    array([[0.75, 0.75, 0.75],
           [0.75, 0.75, 0.75]], dtype=float32)
    """

    def __init__(self, cell: Union[Cell, str], pass_: str = "forward", dtype: Any = "float32", options: Union[str, Sequence[str]] = "",
                 stage: int = 0, shape: str = "point"):
        self.cell, self.pass_, self.dtype, self.shape = cell_of(cell), pass_, dtype_of(dtype), shape
        self._options = words("options", options)
        self._struct = C.cg_kernel(cell=self.cell.pointer, options=self._options, stage=integer("stage", stage, 0, INT_MAX),
                                   pass_=one_of("pass_", pass_, PASSES), dtype=dtype_code(dtype), shape=one_of("shape", shape, SHAPES))

    def _text(self, function: Any, lang: str) -> str:
        one_of("lang", lang, LANGUAGES)
        pointer = ctypes.c_void_p()
        check(function(ctypes.byref(self._struct), text("lang", lang), ctypes.byref(pointer)))
        try:
            return ctypes.string_at(pointer).decode()
        finally:
            lib.cg_text_free(pointer)

    def emit(self, lang: str = "c") -> str:
        """Returns the source of the functions that the pass, or one stage of it, needs, in "c", "opencl" or "cuda".  The source compiles
        alone.

        Raises BuildError if a name in the cell has another meaning in that language, UnsupportedError or ArgumentError for a combination of
        arguments that has no text, such as shape "sum".

        >>> import cellgrad
        >>> "tanh" in cellgrad.Kernel("rnn_tanh").emit("cuda")
        True
        """
        return self._text(lib.cg_kernel_emit, lang)

    def manifest(self, lang: str = "c") -> Dict[str, Any]:
        """Returns the manifest, by which a program can call the functions of emit(lang): their names, arguments and launches.

        >>> import cellgrad
        >>> cellgrad.Kernel("gru", "grad", dtype="float64").manifest()["acc"]
        'f64'
        """
        manifest: Dict[str, Any] = json.loads(self._text(lib.cg_kernel_manifest, lang))
        return manifest

    def _arguments(self) -> List[Dict[str, Any]]:
        """Returns the arguments of the functions that run() calls, as the manifest describes them; each name once."""
        shape = self._struct.shape
        self._struct.shape = C.CG_POINT
        try:
            functions = self.manifest()["functions"]
        finally:
            self._struct.shape = shape
        found: Dict[str, Dict[str, Any]] = {}
        shapes = {function["function"]: function["shape"] for function in functions}
        for function in functions:
            if self._struct.stage and function["stage"] != self._struct.stage:
                continue
            # run() calls a function that computes means together with the function that reads these means.
            if (shapes[function.get("serves", function["function"])] == "point") != (self.shape == "point"):
                continue
            for argument in function["arguments"]:
                if argument["kind"] in ("scalar", *AXES):
                    found.setdefault(argument["name"], argument)
        return list(found.values())

    def inputs(self) -> Dict[str, str]:
        """Returns the inputs of run(): each name, with "tensor" for [rows, units], "per_unit" for [units], "element" for [1], or
        "scalar" for a number.

        >>> import cellgrad
        >>> cellgrad.Kernel("rnn_tanh", "grad").inputs()
        {'dh': 'tensor', 'h': 'tensor'}
        """
        return {a["name"]: a["kind"] for a in self._arguments() if a["flow"] == "in"}

    def outputs(self) -> Dict[str, str]:
        """Returns the names of the outputs of run(), each with its kind: "tensor", "per_unit" or "element", as those of inputs()."""
        return {a["name"]: a["kind"] for a in self._arguments() if a["flow"] == "out"}

    def run(self, arguments: Mapping[str, Any], want: Optional[Sequence[str]] = None,
            context: Optional[Context] = None) -> Dict[str, "np.ndarray[Any, Any]"]:
        """Runs the kernel on arrays and returns its outputs by name, all or those in `want`.

        arguments: the inputs by name: arrays [rows, units], arrays [units] for per-unit inputs, arrays [1] for learnt scalars, numbers
        for params.  Rows of an array may be strided.  None stands for an array of zeros; only a param that has a default may be left out.

        Raises ArgumentError for an unknown name or a wrong shape, ArgumentTypeError for a wrong dtype.
        """
        known = {a["name"]: a for a in self._arguments()}
        outputs = [a for a in known.values() if a["flow"] == "out"]
        for name in arguments:
            if name not in known or known[name]["flow"] == "out":
                raise ArgumentError(f"{name}: the kernel has no such input; it has {', '.join(self.inputs())}")
        if want is not None:
            for name in want:
                if name not in known or known[name]["flow"] != "out":
                    raise ArgumentError(f"want: the kernel has no output '{name}'; it has {', '.join(a['name'] for a in outputs)}")
            outputs = [a for a in outputs if a["name"] in want]
        rows, units = self._sizes(known, arguments)
        struct = (C.cg_arg * (len(arguments) + len(outputs)))()
        keep: List[Any] = []
        for at, (name, value) in zip(struct, arguments.items()):
            self._bind(at, known[name], value, rows, units, keep)
        results = {}
        for at, a in zip(struct[len(arguments):], outputs):
            # A slice of an array of ctypes structs refers to the structs of the array, and does not copy them.
            array = np.empty(_shape(a["kind"], rows, units), dtype_of(OF_MANIFEST[a["type"]]))
            results[a["name"]] = array
            self._bind(at, a, array, rows, units, keep)
        (context or default_context()).call(lib.cg_kernel_run, ctypes.byref(self._struct), rows, units, struct, len(struct))
        return results

    @staticmethod
    def _sizes(known: Mapping[str, Mapping[str, Any]], arguments: Mapping[str, Any]) -> Tuple[int, int]:
        """Returns the numbers of rows and units, each from the first array that has an axis of rows or units."""
        rows = units = None
        for name, value in arguments.items():
            if value is None or known[name]["kind"] == "scalar":
                continue
            shape, kind = np.shape(value), known[name]["kind"]
            if len(shape) != len(AXES[kind].split(",")):
                raise ArgumentError(f"{name}: expected [{AXES[kind]}], got shape {shape}")
            units = shape[-1] if units is None and kind != "element" else units
            if kind == "tensor" and rows is None:
                rows = shape[0]
        if rows is None or units is None:
            raise ArgumentError("arguments: expected at least one array [rows, units], which gives the numbers of rows and units")
        return rows, units

    def _bind(self, at: Any, about: Mapping[str, Any], value: Any, rows: int, units: int, keep: List[Any]) -> None:
        """Fills in a struct cg_arg, and appends the array to which the struct points to the list `keep`."""
        name = about["name"]
        at.name = text("name", name)
        if about["kind"] == "scalar":
            at.value = real(name, value)
        elif value is not None:
            is_tensor = about["kind"] == "tensor"
            dtype = dtype_of(OF_MANIFEST[about["type"]])
            array = shown(name, value, dtype, _shape(about["kind"], rows, units), AXES[about["kind"]])
            if not (is_tensor and array.size and array.flags.aligned and array.strides[1] == array.itemsize
                    and array.strides[0] >= units * array.itemsize and array.strides[0] % array.itemsize == 0):
                array = dense(array)
            keep.append(array)
            at.mem = memory(array)
            at.stride = units
            if is_tensor and rows > 1 and units:
                at.stride = integer(name, array.strides[0] // array.itemsize, 0, INT64_MAX)
                at.mem.bytes = ((rows - 1) * at.stride + units) * array.itemsize
