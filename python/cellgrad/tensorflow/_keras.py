# SPDX-License-Identifier: Apache-2.0
"""Makes Keras's LSTM and GRU layers call CudnnRNNV3 on the processor, which Keras otherwise calls only if it finds a GPU.

In a file of Keras, the function _is_gpu_available decides whether CudnnRNNV3 is called, and the module tf the order of its gates; this
module replaces both.  Therefore enable_keras accepts only versions of Keras that were tried, unless CELLGRAD_TF_FORCE=1, and compares
answers: if only the function were replaced, a GRU would have its gates exchanged, and give wrong numbers without a message.
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
    """Replaces the module tensorflow in Keras's file of recurrent functions: reports a build for CUDA, since the gates of cellgrad's
    kernels are in CUDA's order."""

    sysconfig = types.SimpleNamespace(get_build_info=lambda: {"is_cuda_build": True, "is_rocm_build": False})

    def __getattr__(self, name: str) -> Any:
        return getattr(tf, name)


def _is_available() -> bool:
    global _asked  # pylint: disable=global-statement
    _asked += 1
    return True


def _results(keras: Any, kind: str, backwards: bool) -> List[Any]:
    """Returns the outputs of a layer with fixed weights, and the gradients of the input and the weights."""
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
    """Returns Keras's module of recurrent functions over TensorFlow.

    Raises UnsupportedError if there is no Keras, if its backend is not TensorFlow, or if its version was not tried; CELLGRAD_TF_FORCE=1
    accepts any version that has the functions.
    """
    try:
        import keras
    except ImportError as error:
        raise UnsupportedError(f"enable_keras: there is no Keras: {error}") from error
    version = str(keras.__version__)
    if keras.backend.backend() != "tensorflow":
        raise UnsupportedError(f"enable_keras: expected Keras on TensorFlow, got {keras.backend.backend()}")
    if ".".join(version.split(".")[:2]) not in TESTED and os.environ.get("CELLGRAD_TF_FORCE") != "1":
        raise UnsupportedError(f"enable_keras: tested with Keras {', '.join(TESTED)}, and this is Keras {version}: "
                               "CELLGRAD_TF_FORCE=1 tries it")
    try:
        module = importlib.import_module("keras.src.backend.tensorflow.rnn")
        module._is_gpu_available, module.tf  # pylint: disable=pointless-statement,protected-access
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(f"enable_keras: Keras {version} has other inner functions: {error}") from error
    return module


def enable_keras() -> None:
    """Makes Keras's LSTM, GRU and Bidirectional layers use CudnnRNNV3 from now on, and compares the answers of a small LSTM and a small
    GRU, each forwards and backwards, with those of Keras's own code.

    As on a GPU, only layers with the default activations, a bias, no unroll, no recurrent_dropout and, for a GRU, reset_after use
    CudnnRNNV3; masks must be right-padded, and outputs of masked steps are zeros.  A layer with use_cudnn=False is not changed.

    Raises UnsupportedError if there is no Keras, if its backend is not TensorFlow, if its version was not tried, unless
    CELLGRAD_TF_FORCE=1, if it lacks the functions that `enable_keras` replaces, if it does not call CudnnRNNV3, or if answers differ;
    LibraryError as `load` does.  Keras is then unchanged.

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
            raise UnsupportedError(f"enable_keras: Keras {keras.__version__} does not check whether CudnnRNNV3 is available, so "
                                   "enable_keras cannot make its layers call CudnnRNNV3")
        for (kind, backwards), mine, theirs in zip(LAYERS, found, wanted):
            worst = max(float(tf.reduce_max(tf.abs(a - b))) for a, b in zip(mine, theirs))
            if not worst <= TOLERANCE:
                layer = kind + (", backwards," if backwards else "")
                raise UnsupportedError(f"enable_keras: {layer} of Keras {keras.__version__} by CudnnRNNV3 differs by {worst:.1e} "
                                       "from Keras's own code")
    except BaseException:
        disable_keras()
        raise


def disable_keras() -> None:
    """Undoes `enable_keras`: layers that are called from now on use Keras's own code.

    >>> import cellgrad.tensorflow
    >>> cellgrad.tensorflow.disable_keras()
    """
    if _saved:
        module = _saved.pop("module")
        for name in list(_saved):
            setattr(module, name, _saved.pop(name))
