# SPDX-License-Identifier: Apache-2.0
"""Makes Keras's LSTM and GRU layers call CudnnRNNV3 on the processor, which Keras otherwise calls only if it finds a GPU.

In a file of Keras, _is_gpu_available decides whether a layer calls CudnnRNNV3, and _cudnn_lstm and _cudnn_gru call it; this module replaces
the three functions.  Keras's own split the weights by gates and transpose each gate's apart, which takes milliseconds in a large network;
those of this module transpose a matrix as a whole.  A later version of Keras may call these functions with other arguments.  Therefore
enable_keras accepts only versions of Keras that were tried, unless CELLGRAD_TF_FORCE=1, and compares answers.
"""
import importlib
import os
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import tensorflow as tf

from .._errors import UnsupportedError
from ._plugin import load

TESTED = ("3.15",)
TOLERANCE = 1e-5

# Keras's index of each gate of a GRU, in the order that the gates have in params; the gates of an LSTM have Keras's order there.
GRU_GATES = (1, 0, 2)

_saved: Dict[str, Any] = {}
_calls = 0


def _params(mode: str, kernels: Sequence[Any], biases: Sequence[Any]) -> Any:
    """Returns params from Keras's kernels, [columns, gates * units], and biases, [gates * units]."""
    parts = [*map(tf.transpose, kernels), *biases]
    if mode == "gru":
        gates = [tf.split(part, len(GRU_GATES)) for part in parts]
        parts = [part[k] for part in gates for k in GRU_GATES]
    return tf.concat([tf.reshape(part, [-1]) for part in parts], 0)


def _run(mode: str, inputs: Any, states: List[Any], kernels: Sequence[Any], biases: Sequence[Any], mask: Any, time_major: bool,
         go_backwards: bool, return_sequences: bool) -> Tuple[Any, Any, List[Any]]:
    """Returns what Keras's _cudnn_lstm and _cudnn_gru return: the last output, all outputs or the last one, and the last states."""
    global _calls  # pylint: disable=global-statement
    _calls += 1
    time, batch = (0, 1) if time_major else (1, 0)
    if mask is None:
        lengths = tf.fill([tf.shape(inputs)[batch]], tf.shape(inputs)[time])
    else:
        _saved["module"]._assert_valid_mask(mask)  # pylint: disable=protected-access
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=time)

    def reversed_rows(sequence: Any) -> Any:
        """Reverses the valid steps of each row."""
        return tf.reverse(sequence, [time]) if mask is None else tf.reverse_sequence(sequence, lengths, seq_axis=time, batch_axis=batch)

    given = [tf.expand_dims(state, time) for state in states]
    output, *last = tf.raw_ops.CudnnRNNV3(
        input=reversed_rows(inputs) if go_backwards else inputs, input_h=given[0], input_c=given[1] if len(given) > 1 else 0,
        params=_params(mode, kernels, biases), sequence_lengths=lengths, rnn_mode=mode, time_major=time_major)[:1 + len(given)]
    if go_backwards and mask is not None:
        # With go_backwards the outputs of a layer of Keras begin with those of the masked steps.
        output = tf.reverse(reversed_rows(output), [time])
    last = [tf.squeeze(state, time) for state in last]
    return last[0], output if return_sequences else tf.expand_dims(last[0], time), last


def _cudnn_lstm(inputs: Any, initial_state_h: Any, initial_state_c: Any, kernel: Any, recurrent_kernel: Any, bias: Any, *rest: Any) -> Any:
    return _run("lstm", inputs, [initial_state_h, initial_state_c], [kernel, recurrent_kernel], [tf.zeros_like(bias), bias], *rest)


def _cudnn_gru(inputs: Any, initial_state: Any, kernel: Any, recurrent_kernel: Any, bias: Any, *rest: Any) -> Any:
    return _run("gru", inputs, [initial_state], [kernel, recurrent_kernel], tf.unstack(bias), *rest)


# The functions that replace those of Keras's module, by the names there.
REPLACED = {"_is_gpu_available": lambda: True, "_cudnn_lstm": _cudnn_lstm, "_cudnn_gru": _cudnn_gru}


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
        for name in ("_assert_valid_mask", *REPLACED):
            getattr(module, name)
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
    _saved.update(module=module, **{name: getattr(module, name) for name in REPLACED})
    for name, function in REPLACED.items():
        setattr(module, name, function)
    try:
        before = _calls
        found = [_results(keras, *layer) for layer in LAYERS]
        if _calls < before + len(LAYERS):
            raise UnsupportedError(f"enable_keras: Keras {keras.__version__} does not call the functions that enable_keras replaces, so "
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
