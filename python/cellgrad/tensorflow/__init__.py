# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's CudnnRNN ops on the CPU, and Keras's LSTM and GRU layers, which call these ops after `enable_keras`.

>>> import cellgrad.tensorflow, tensorflow as tf
>>> ops = tf.raw_ops
>>> size = ops.CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
>>> params, x, state = tf.zeros(size), tf.ones([5, 2, 3]), tf.zeros([1, 2, 4])
>>> with tf.GradientTape() as tape:
...     tape.watch(params)
...     y = ops.CudnnRNN(input=x, input_h=state, input_c=state, params=params).output
>>> tape.gradient(y, params).shape
TensorShape([144])

Importing this package registers the kernels of cellgrad's plugin with TensorFlow, and changes nothing else in a program.  After
`enable_keras` Keras's LSTM and GRU use the plugin's kernels where their arguments allow it.  python/cellgrad/tensorflow/README.md in the
source tree documents the package.
"""
try:
    import tensorflow as _tensorflow  # noqa: F401
except ImportError as _error:
    raise ImportError("cellgrad.tensorflow needs TensorFlow: pip install 'cellgrad[tensorflow]'") from _error

from ._keras import disable_keras, enable_keras  # noqa: E402
from ._plugin import load, plugin_path, state  # noqa: E402

__all__ = ["disable_keras", "enable_keras", "load", "plugin_path", "state"]

load()
