# SPDX-License-Identifier: Apache-2.0
"""Cells: the equations of a recurrent network's step."""
import ctypes
import math
import os
from typing import Any, Dict, Optional, Tuple, Union

from ._arguments import path_of, struct_of, text
from ._errors import ArgumentError, ArgumentTypeError, MissingFileError
from ._load import check, lib, names_of


def cell_names() -> Tuple[str, ...]:
    """Returns the names of the built-in cells.

    >>> import cellgrad
    >>> sorted(cellgrad.cell_names())
    ['gru', 'gru_block', 'lstm', 'lstm_block', 'rnn_relu', 'rnn_tanh']
    """
    return names_of(lib.cg_cell_name)


def shelf_names() -> Tuple[str, ...]:
    """Returns the names of the cells of the shelf, whose kernels are made at run time.

    >>> import cellgrad
    >>> "mgu" in cellgrad.shelf_names()
    True
    """
    return names_of(lib.cg_shelf_name)


class Cell:
    """A cell: the equations of one step of a recurrent network.

    source: the name of a built-in cell or of a cell of the shelf, the path of a .cell file, or the text of one.
    gen/README.md in the source describes the language of .cell files, and so does cellgrad-cell(7), a manual page that pip does not
    install: `man ./man/cellgrad-cell.7` shows it in the source.

    Attributes: `name`; `gates`, `vectors` (the per-unit weights) and `options`, which are names; `vector_starts`: the
    numbers that some vectors start from; `params`, each with its default, or None;
    `scalars`, which are learnt, each with the number that it starts from; `n_states`: the number of cell states beside the output;
    `has_state`: is `n_states` above 0?  `stages`: the number of stages.

    Raises ArgumentError if no cell has that name, BuildError, with line and column, if the text is wrong, MissingFileError if
    the file does not exist.

    >>> import cellgrad
    >>> cell = cellgrad.Cell('''
    ... cell leaky
    ... gates  a
    ... output h
    ... param  leak = 0.1
    ...
    ... h = tanh(a) + leak * h_prev
    ... save h
    ... ''')
    >>> cell.name, cell.gates, cell.params, cell.has_state
    ('leaky', ('a',), {'leak': 0.1}, False)
    """

    name: str
    gates: Tuple[str, ...]
    vectors: Tuple[str, ...]
    options: Tuple[str, ...]
    params: Dict[str, Optional[float]]
    scalars: Dict[str, float]
    has_state: bool
    n_states: int
    stages: int

    def __init__(self, source: Union[str, "os.PathLike[str]"]):
        if not isinstance(source, (str, os.PathLike)):
            raise ArgumentTypeError(f"cell: expected the name, the path or the text of a cell, got {type(source).__name__}")
        self.source = source
        # A cell that was loaded or parsed is closed when this object is deleted, also in a forked child, since a cell depends on no device.
        self._own: Optional[ctypes.c_void_p] = None
        path = path_of(source)
        if path is not None:
            if not os.path.exists(path):
                raise MissingFileError(f"cell: {path}: no such file")
            self._own = ctypes.c_void_p()
            check(lib.cg_cell_load(os.fsencode(path), ctypes.byref(self._own)))
        elif "\n" in str(source):
            self._own = ctypes.c_void_p()
            check(lib.cg_cell_parse(text("cell", source), b"cell", ctypes.byref(self._own)))
        else:
            self._built_in = lib.cg_cell_find(text("cell", source))
            if not self._built_in:
                raise ArgumentError(f"cell: there is no cell '{source:.60}'; there are {', '.join(cell_names() + shelf_names())}.  "
                                    "A path ends in .cell, and a text has several lines")
        self._read()

    def __del__(self) -> None:
        if getattr(self, "_own", None):
            lib.cg_cell_close(self._own)

    @property
    def pointer(self) -> Any:
        """The library's struct cg_cell."""
        return self._own or self._built_in

    def _read(self) -> None:
        parts = struct_of("cg_cell_parts", lib.cg_cell_parts_init)
        check(lib.cg_cell_info(self.pointer, ctypes.byref(parts)))

        def names(array: Any, count: int) -> Tuple[str, ...]:
            return tuple(array[k].decode() for k in range(count))

        self.name = parts.name.decode()
        self.stages, self.has_state, self.n_states = parts.n_stages, bool(parts.has_state), parts.n_states
        self.gates = names(parts.gates, parts.n_gates)
        self.vectors = names(parts.vectors, parts.n_vectors)
        self.options = names(parts.options, parts.n_options)
        self._gate_weights = tuple(parts.gate_weights[:parts.n_gates])
        self._vector_options = tuple(parts.vector_option[k] for k in range(parts.n_vectors))
        self.vector_starts = {name: parts.vector_starts[k] for k, name in enumerate(self.vectors) if not math.isnan(parts.vector_starts[k])}
        self.params = {name: None if math.isnan(parts.defaults[k]) else parts.defaults[k]
                       for k, name in enumerate(names(parts.params, parts.n_params))}
        self.scalars = dict(zip(names(parts.scalars, parts.n_scalars), parts.starts))

    def gates_with(self, weight: int) -> int:
        """Returns the number of gates that have a weight: C.CG_HAS_INPUT, C.CG_HAS_RECURRENT, C.CG_HAS_BIAS_W or C.CG_HAS_BIAS_R."""
        return sum(bool(weights & weight) for weights in self._gate_weights)

    def vectors_with(self, options: str) -> Tuple[str, ...]:
        """Returns the names of the per-unit weights that the cell has with the options in `options`, which commas separate."""
        on = options.split(",")
        return tuple(name for name, option in zip(self.vectors, self._vector_options) if option < 0 or self.options[option] in on)

    def __repr__(self) -> str:
        return f"cellgrad.Cell({self.name!r})" if not self._own else f"<cellgrad.Cell {self.name}>"

    def __reduce__(self) -> Any:
        return Cell, (self.source,)


def cell_of(value: Any) -> Cell:
    """Returns the argument, if it is a Cell, or else a new Cell by the argument's name, path or text."""
    return value if isinstance(value, Cell) else Cell(value)
