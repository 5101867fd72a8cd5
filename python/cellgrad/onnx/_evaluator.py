# SPDX-License-Identifier: Apache-2.0
"""ONNX's LSTM, GRU and RNN for ONNX's reference evaluator, which computes all other nodes; and an ONNX backend by that evaluator."""
from typing import Any, Dict, Sequence, Tuple

import onnx
import onnx.backend.base
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from .._errors import ArgumentError, Error, UnsupportedError
from ._layer import Layer
from ._model import require_version

_INPUTS: Dict[str, Tuple[str, ...]] = {
    "LSTM": ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"),
    "GRU": ("X", "W", "R", "B", "sequence_lens", "initial_h"),
    "RNN": ("X", "W", "R", "B", "sequence_lens", "initial_h"),
}


class _Recurrent(OpRun):
    """The base class of LSTM, GRU and RNN."""

    op_domain = ""

    def __init__(self, onnx_node: onnx.NodeProto, run_params: Dict[str, Any], schema: Any = None):
        super().__init__(onnx_node, run_params, schema)
        require_version(self._label(), self.__class__.__name__, run_params["opsets"])

    def _label(self) -> str:
        """Returns the operator and the node's name, or the names of its outputs if it has none, for messages."""
        return f"{self.__class__.__name__} node '{self.onnx_node.name or ' '.join(filter(None, self.onnx_node.output))}'"

    def _run(self, *inputs: Any, **attributes: Any) -> Tuple[Any, ...]:
        names = _INPUTS[self.__class__.__name__]
        try:
            given = dict(zip(names, inputs))
            if len(inputs) > len(names) or any(given.get(name) is None for name in names[:3]):
                raise ArgumentError(f"expected the inputs {', '.join(names)}, of which X, W and R must be there")
            # Attributes that the node lacks, which have the schema's defaults, are left out: the default of RNN's `activations` has two
            # names, for one direction, too.
            said = {attribute.name for attribute in self.onnx_node.attribute}
            attributes = {name: value for name, value in attributes.items() if name in said}
            layer = Layer(self.__class__.__name__, given["W"], given["R"], given.get("B"), given.get("P"), training=False, **attributes)
            run = layer.forward(given["X"], *(given[name] for name in ("sequence_lens", "initial_h", "initial_c") if name in given))
        except Error as error:
            # A TypeError becomes an ArgumentError, since the evaluator replaces the message of a TypeError by its own.
            kind = ArgumentError if isinstance(error, TypeError) else type(error)
            raise kind(f"{self._label()}: {error}") from error
        return run[:2] if run.Y_c is None else run[:3]


class LSTM(_Recurrent):
    """ONNX's LSTM by cellgrad, for `new_ops` of onnx.reference.ReferenceEvaluator."""


class GRU(_Recurrent):
    """ONNX's GRU by cellgrad, for `new_ops` of onnx.reference.ReferenceEvaluator."""


class RNN(_Recurrent):
    """ONNX's RNN by cellgrad, for `new_ops` of onnx.reference.ReferenceEvaluator."""


def evaluator(model: Any) -> ReferenceEvaluator:
    """Returns ONNX's reference evaluator for a model; cellgrad computes the LSTM, GRU and RNN nodes.

    model: a ModelProto, a NodeProto, or a path.  A NodeProto is read as one of the newest opset.

    Raises UnsupportedError for an LSTM, GRU or RNN node in a model with an opset before 7, or with an opset whose version of the operator
    is unknown to this package.  Method run() of the evaluator raises the exceptions of `Layer`, with the node's name before the message;
    in place of ArgumentTypeError it raises ArgumentError.

    >>> import cellgrad.onnx, numpy as np, onnx.helper
    >>> node = onnx.helper.make_node("GRU", ["X", "W", "R"], ["Y", "Y_h"], hidden_size=4)
    >>> X, W, R = (np.ones(shape, np.float32) for shape in ((5, 2, 3), (1, 12, 3), (1, 12, 4)))
    >>> Y, Y_h = cellgrad.onnx.evaluator(node).run(None, {"X": X, "W": W, "R": R})
    >>> Y.shape, Y_h.shape
    ((5, 1, 2, 4), (1, 2, 4))
    """
    return ReferenceEvaluator(model, new_ops=[LSTM, GRU, RNN])


def _feeds(names: Sequence[str], inputs: Any) -> Dict[str, Any]:
    """Returns a dict of the inputs by name.  inputs: such a dict, or a list or tuple in the order of `names`."""
    if isinstance(inputs, dict):
        return inputs
    if not isinstance(inputs, (list, tuple)) or len(inputs) != len(names):
        came = len(inputs) if isinstance(inputs, (list, tuple)) else type(inputs).__name__
        raise ArgumentError(f"inputs: expected {len(names)} arrays, for {', '.join(names)}, or a dict of them; got {came}")
    return dict(zip(names, inputs))


class Prepared(onnx.backend.base.BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: Any):
        self.evaluator = evaluator(model)

    def run(self, inputs: Any, **kwargs: Any) -> Tuple[Any, ...]:
        """Runs the model, and returns all outputs in the graph's order.

        inputs: a list of arrays in the graph's order, or a dict of them by name.  Raises ArgumentError for a list of a wrong length.
        """
        return tuple(self.evaluator.run(None, _feeds(self.evaluator.input_names, inputs)))


class Backend(onnx.backend.base.Backend):
    """Implements ONNX's backend interface for the device "CPU".

    >>> import cellgrad.onnx
    >>> cellgrad.onnx.Backend.supports_device("CPU"), cellgrad.onnx.Backend.supports_device("CUDA")
    (True, False)
    """

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Returns whether the backend can run models on the device; it does not look at the model."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Prepares a model to run.  Raises UnsupportedError for a device other than CPU, and the exceptions of `evaluator`."""
        if not cls.supports_device(device):
            raise UnsupportedError(f"device: expected CPU, got '{device!s:.40}'")
        return Prepared(model)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Sequence[Any], device: str = "CPU", outputs_info: Any = None,
                 **kwargs: Any) -> Tuple[Any, ...]:
        """Runs one node, read as one of the newest opset, and returns its outputs."""
        return cls.prepare(node, device).run(_feeds([name for name in node.input if name], inputs))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Returns whether a device has the name CPU, the only one on which models run."""
        return device == "CPU"
