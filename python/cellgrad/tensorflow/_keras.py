# SPDX-License-Identifier: Apache-2.0
"""Keras's LSTM and GRU by CudnnRNNV3, which Keras takes where it sees a GPU.

Keras asks two functions for that, both inner ones, so this is tied to versions of Keras that were tried, and checked when it is enabled:
a GRU whose second question is not answered has its gates exchanged and wrong numbers, without a message.
"""
import importlib
import os
import types
from typing import Any, Dict, List, Tuple

import numpy as np
import tensorflow as tf

from .._errors import UnsupportedError
from ._plugin import load

TESTED = ("3.15",)
TOLERANCE = 1e-5

_saved: Dict[str, Any] = {}
_asked = 0


class _BuildInfo:
    """The module tensorflow as Keras's recurrent layers see it: built for CUDA, whose order of gates ours is."""

    sysconfig = types.SimpleNamespace(get_build_info=lambda: {"is_cuda_build": True, "is_rocm_build": False})

    def __getattr__(self, name: str) -> Any:
        return getattr(tf, name)


def _is_available() -> bool:
    global _asked  # pylint: disable=global-statement
    _asked += 1
    return True


def _results(keras: Any, kind: str, backwards: bool) -> List[Any]:
    """Outputs of a layer with known weights, and the gradients by input and weights."""
    layer = getattr(keras.layers, kind)(3, return_sequences=True, go_backwards=backwards)
    x = tf.constant(np.sin(np.arange(40.0)).reshape(2, 5, 4), tf.float32)
    layer.build(x.shape)
    layer.set_weights([np.cos(np.arange(weight.size) + weight.ndim).reshape(weight.shape) for weight in layer.get_weights()])
    variables = [variable.value for variable in layer.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
        loss = tf.reduce_sum(y * tf.cos(tf.reshape(tf.range(30, dtype=tf.float32), y.shape)))
    return [y, *tape.gradient(loss, [x, *variables])]


LAYERS: Tuple[Tuple[str, bool], ...] = (("LSTM", False), ("LSTM", True), ("GRU", False), ("GRU", True))


def _module() -> Any:
    """Keras's recurrent functions over TensorFlow; UnsupportedError: no Keras, another version, or another backend of it."""
    try:
        import keras
    except ImportError as error:
        raise UnsupportedError(f"enable_keras: there is no Keras: {error}") from error
    version = str(keras.__version__)
    if keras.backend.backend() != "tensorflow":
        raise UnsupportedError(f"enable_keras: expected Keras on TensorFlow, got {keras.backend.backend()}")
    if ".".join(version.split(".")[:2]) not in TESTED and os.environ.get("CELLGRAD_TF_FORCE") != "1":
        raise UnsupportedError(f"enable_keras: tested with Keras {', '.join(TESTED)}, and this is {version}: CELLGRAD_TF_FORCE=1 tries it")
    try:
        module = importlib.import_module("keras.src.backend.tensorflow.rnn")
        module._is_gpu_available, module.tf  # pylint: disable=pointless-statement,protected-access
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(f"enable_keras: Keras {version} has other inner functions: {error}") from error
    return module


def enable_keras() -> None:
    """Has Keras's LSTM, GRU and Bidirectional layers that are made from now on use CudnnRNNV3, and checks them against Keras's own.

    As on a GPU this is of layers with the default activations, a bias, no recurrent_dropout and, of a GRU, reset_after; masks must be
    right-padded, and outputs of masked steps are zeros.  A layer with use_cudnn=False stays as it is.

    Raises UnsupportedError: no Keras, a version of it that was not tried, or answers that differ; Keras is then as it was.

    >>> import cellgrad.tensorflow, keras, numpy as np
    >>> cellgrad.tensorflow.enable_keras()
    >>> keras.layers.GRU(4)(np.ones((2, 5, 3), np.float32)).shape
    TensorShape([2, 4])
    >>> cellgrad.tensorflow.disable_keras()
    """
    if _saved:
        return
    load()
    module = _module()
    import keras
    wanted = [_results(keras, *layer) for layer in LAYERS]
    _saved.update(module=module, _is_gpu_available=module._is_gpu_available, tf=module.tf)
    module._is_gpu_available, module.tf = _is_available, _BuildInfo()
    try:
        before = _asked
        found = [_results(keras, *layer) for layer in LAYERS]
        if _asked < before + len(LAYERS):
            raise UnsupportedError(f"enable_keras: Keras {keras.__version__} did not ask for CudnnRNNV3")
        for (kind, backwards), mine, theirs in zip(LAYERS, found, wanted):
            worst = max(float(tf.reduce_max(tf.abs(a - b))) for a, b in zip(mine, theirs))
            if not worst <= TOLERANCE:
                layer = kind + (", backwards," if backwards else "")
                raise UnsupportedError(f"enable_keras: {layer} of Keras {keras.__version__} differs by {worst:.1e}")
    except BaseException:
        disable_keras()
        raise


def disable_keras() -> None:
    """Takes `enable_keras` back, for layers that are called from now on.

    >>> import cellgrad.tensorflow
    >>> cellgrad.tensorflow.disable_keras()
    """
    if _saved:
        module = _saved.pop("module")
        for name in list(_saved):
            setattr(module, name, _saved.pop(name))
