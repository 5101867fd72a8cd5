# SPDX-License-Identifier: Apache-2.0
"""Reads recurrent nodes of a model as layers, and writes their weights back."""
from typing import Any, Dict, List, Mapping, Optional

import numpy as np
import onnx
import onnx.defs
from onnx import helper, numpy_helper

from .._context import Context
from .._errors import ArgumentError, ArgumentTypeError, UnsupportedError
from ._layer import GATES, Layer

# The supported versions of LSTM, GRU and RNN, each named by its first opset.  Before opset 7 LSTM, GRU and RNN have an
# attribute output_sequence, on which their outputs depend.
VERSIONS = (7, 14, 22)
# Both "" and "ai.onnx" name ONNX's own domain of operators.
DOMAINS = ("", "ai.onnx")
# The index of each weight among a node's inputs.
_PLACES = {"W": 1, "R": 2, "B": 3, "P": 7}


def require_version(label: str, operator: str, opsets: Mapping[str, int]) -> None:
    """Raises UnsupportedError if the opset (opsets: by domain) has a version of the operator that is not in VERSIONS."""
    opset = max(int(opsets.get(domain, 1)) for domain in DOMAINS)
    version = onnx.defs.get_schema(operator, opset, "").since_version
    if version not in VERSIONS:
        raise UnsupportedError(f"{label}: opset {opset} has version {version} of the operator; expected one of "
                               f"{', '.join(map(str, VERSIONS))}, opset {VERSIONS[0]} or later")


def _find(model: onnx.ModelProto, name: Optional[str]) -> onnx.NodeProto:
    """Returns the recurrent node with this name; if name is None, the only recurrent node."""
    if not isinstance(model, onnx.ModelProto):
        raise ArgumentTypeError(f"model: expected onnx.ModelProto, got {type(model).__name__}")
    nodes: List[onnx.NodeProto] = [node for node in model.graph.node if node.op_type in GATES and node.domain in DOMAINS]
    found = [node for node in nodes if name is None or node.name == name]
    if len(found) != 1:
        names = ", ".join(f"'{node.name}'" for node in nodes) or "none"
        raise ArgumentError(f"node: expected the name of one of the graph's LSTM, GRU and RNN nodes, which are {names}; got {name!r:.60}")
    return found[0]


def _initializers(model: onnx.ModelProto) -> Dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in model.graph.initializer}


def _value(attribute: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def read_layer(model: onnx.ModelProto, node: Optional[str] = None, *, training: bool = True, context: Optional[Context] = None) -> Layer:
    """Reads an LSTM, GRU or RNN node of a model's graph as a layer, with its weights.

    node: the name of the node; None stands for the only LSTM, GRU or RNN node.  training, context: those of `Layer`.

    Raises ArgumentError if the graph has no node, or several nodes, of that name, or if the node's weights are not initializers of the
    graph, UnsupportedError for an opset before 7, and the exceptions of `Layer`.

    >>> import cellgrad.onnx, numpy as np
    >>> from onnx import TensorProto, helper, numpy_helper
    >>> tensors = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in (("W", (1, 12, 3)), ("R", (1, 12, 4)))]
    >>> values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("X", "Y")]
    >>> gru = helper.make_node("GRU", ["X", "W", "R"], ["Y"], name="gru", hidden_size=4)
    >>> model = helper.make_model(helper.make_graph([gru], "graph", values[:1], values[1:], tensors))
    >>> layer = cellgrad.onnx.read_layer(model)
    >>> layer.params[0] += 1
    >>> cellgrad.onnx.write_layer(model, layer)
    >>> list(model.graph.node[0].input)
    ['X', 'W', 'R', 'gru_B']
    """
    found, tensors = _find(model, node), _initializers(model)
    require_version(f"{found.op_type} node '{found.name}'", found.op_type, {each.domain: each.version for each in model.opset_import})
    weights: Dict[str, Any] = {}
    for name, place in _PLACES.items():
        value = found.input[place] if len(found.input) > place else ""
        if value and value not in tensors:
            raise ArgumentError(f"{found.op_type} node '{found.name}': {name}: expected an initializer of the graph, and '{value}' is none")
        weights[name] = numpy_helper.to_array(tensors[value]) if value else None
    if weights["W"] is None or weights["R"] is None:
        raise ArgumentError(f"{found.op_type} node '{found.name}': expected the inputs X, W and R")
    attributes = {attribute.name: _value(attribute) for attribute in found.attribute}
    return Layer(found.op_type, weights["W"], weights["R"], weights["B"], weights["P"], training=training, context=context, **attributes)


def write_layer(model: onnx.ModelProto, layer: Layer, node: Optional[str] = None) -> None:
    """Writes a layer's weights into the model from which it was read, in place of the old ones.

    node: as for read_layer.  A node without B gets one if the layer's biases are not all zero; the name of the new input is the node's
    name, or else the operator's, with _B, and more _ if that is taken.  An initializer that other nodes also read changes for them, too.

    Raises ArgumentError if the graph has no node, or several nodes, of that name, or if the node's weights are not initializers of the
    shapes and the dtype of the layer's.
    """
    found, tensors = _find(model, node), _initializers(model)
    if not isinstance(layer, Layer):
        raise ArgumentTypeError(f"layer: expected cellgrad.onnx.Layer, got {type(layer).__name__}")
    saved = layer.weights()
    places = {name: found.input[place] for name, place in _PLACES.items() if len(found.input) > place and found.input[place]}
    for name, array in saved.items():
        tensor = tensors.get(places.get(name, ""))
        if name == "B" and name not in places:
            continue
        if tensor is None or tuple(tensor.dims) != array.shape or numpy_helper.to_array(tensor).dtype != array.dtype:
            raise ArgumentError(f"{found.op_type} node '{found.name}': {name}: expected an initializer of shape {array.shape} and "
                                f"{array.dtype}, as the layer has it")
    for name, array in saved.items():
        if name in places:
            tensors[places[name]].CopyFrom(numpy_helper.from_array(array, places[name]))
        elif np.any(array):
            _add(model, found, f"{found.name or found.op_type}_{name}", array)


def _add(model: onnx.ModelProto, node: onnx.NodeProto, name: str, array: Any) -> None:
    """Adds the input B to a node that has none."""
    taken = {value for each in model.graph.node for value in (*each.input, *each.output)} | set(_initializers(model))
    while name in taken:
        name += "_"
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    if len(node.input) > _PLACES["B"]:
        node.input[_PLACES["B"]] = name
    else:
        node.input.append(name)
