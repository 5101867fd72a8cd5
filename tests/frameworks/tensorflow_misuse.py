#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A wrong call of an op raises an error of TensorFlow with the library's message, and a missing plugin or library an exception of the
package.  A plugin that is loaded before TensorFlow, or after another copy of the plugin, registers nothing and says why under
CELLGRAD_VERBOSE=1.  No mistake of this test crashes the process or gives wrong numbers.  Prints TAP."""
import os
import shutil
import tempfile
import unittest

import tensorflow_tap

import tensorflow as tf

import cellgrad.tensorflow
from tensorflow_answers import small

ops = tf.raw_ops
errors = tf.errors
NETWORK = """
import tensorflow as tf
def network(**more):
    state = tf.zeros([1, 2, 4])
    return tf.raw_ops.CudnnRNN(input=tf.ones([5, 2, 3]), input_h=state, input_c=state, params=tf.fill([144], 0.1), **more).output
"""


class Misuse(unittest.TestCase):
    def refused(self, kind, words, call, **arguments):
        with self.assertRaises(kind) as caught:
            call(**arguments)
        self.assertIn(words, str(caught.exception))

    def test_shapes(self):
        """Wrong shapes, lengths and parameters of CudnnRNNV3 raise an InvalidArgumentError with the library's message"""
        right = {**small(L=1), "sequence_lengths": tf.constant([4, 4, 4])}
        for name, wrong, words in (
                ("input_h", tf.zeros([1, 2, 5]), "input_h: expected shape [L*D, 3, H], got [1, 2, 5]"),
                ("input_c", tf.zeros([1, 3, 4]), "input_h: expected a last dimension of"),
                ("params", tf.zeros([159]), "params: expected 180 elements, as CudnnRNNParamsSize says, got 159"),
                ("params", tf.zeros([10000]), "params: expected 180 elements, as CudnnRNNParamsSize says, got 10000"),
                ("sequence_lengths", tf.constant([4, 4]), "sequence_lengths: expected shape [3], got [2]"),
                ("sequence_lengths", tf.constant([4, 5, 4]), "lengths"),
                ("sequence_lengths", tf.constant([4, -1, 4]), "lengths")):
            self.refused(errors.InvalidArgumentError, words, ops.CudnnRNNV3, **{**right, name: wrong})

    def test_attributes(self):
        """Wrong attributes raise an InvalidArgumentError"""
        right = small(L=1)
        self.refused(errors.InvalidArgumentError, "rnn_mode", ops.CudnnRNN, **right, rnn_mode="lstn")
        self.refused(errors.InvalidArgumentError, "dropout", ops.CudnnRNN, **right, dropout=1.5)
        self.refused(errors.InvalidArgumentError, "skip", ops.CudnnRNN, **right, input_mode="skip_input")
        self.refused(errors.InvalidArgumentError, "layers times directions, of 1 to", ops.CudnnRNN, **right, direction="bidirectional")

    def test_reserve(self):
        """CudnnRNNBackprop refuses the reserve_space of a longer call, that of a call with is_training=False, and one of zeros"""
        tensors, longer = small(L=1), small(L=1, T=5)
        run, other = ops.CudnnRNN(**tensors), ops.CudnnRNN(**longer)
        more = {"output": run.output, "output_h": run.output_h, "output_c": run.output_c, "output_backprop": run.output,
                "output_h_backprop": run.output_h, "output_c_backprop": run.output_c}
        self.refused(errors.InvalidArgumentError, "reserve", ops.CudnnRNNBackprop, **tensors, **more, reserve_space=other.reserve_space)
        self.refused(errors.InvalidArgumentError, "reserve_space: expected shape", ops.CudnnRNNBackprop, **tensors, **more,
                     reserve_space=ops.CudnnRNN(**tensors, is_training=False).reserve_space)
        self.refused(errors.InvalidArgumentError, "reserve", ops.CudnnRNNBackprop, **tensors, **more, reserve_space=tf.zeros([40]))
        self.assertEqual(len(ops.CudnnRNNBackprop(**tensors, **more, reserve_space=run.reserve_space)), 4)

    def test_canonical(self):
        """Wrong canonical lists, parameters and sizes of networks raise an InvalidArgumentError, and do not end the process"""
        sizes = {"num_layers": 1, "num_units": 4, "input_size": 3}
        self.refused(errors.InvalidArgumentError, "expected lists of 8 weights and 8 biases, got 7 weights and 7 biases",
                     ops.CudnnRNNParamsToCanonical, **sizes, params=tf.zeros([144]), num_params=7)
        self.refused(errors.InvalidArgumentError, "params: expected a tensor of 576 bytes, got one of 40", ops.CudnnRNNParamsToCanonical,
                     **sizes, params=tf.zeros([10]), num_params=8)
        self.refused(errors.InvalidArgumentError, "expected a tensor of 48 bytes, got one of 4", ops.CudnnRNNCanonicalToParams,
                     **sizes, weights=[tf.zeros([1])] * 8, biases=[tf.zeros([4])] * 8)
        self.refused(errors.InvalidArgumentError, "num_units: expected one number of at least 1, got 0", ops.CudnnRNNParamsSize,
                     num_layers=1, num_units=0, input_size=3, T=tf.float32, S=tf.int32)
        self.refused(errors.InvalidArgumentError, "expected int64", ops.CudnnRNNParamsSize,
                     num_layers=1, num_units=30000, input_size=30000, T=tf.float32, S=tf.int32)

    def test_copy(self):
        """A second copy of the plugin registers nothing, and the first copy still works"""
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(tensorflow_tap.PLUGIN, os.path.join(folder, "copy.so"))
            status, words = tensorflow_tap.python("-c", NETWORK + f"""
import cellgrad.tensorflow
tf.load_library({copy!r})
print(network().shape)""", CELLGRAD_VERBOSE="1")
        self.assertEqual(status, 0, words)
        self.assertIn("cellgrad: TensorFlow: kernels of 11 ops are registered", words)
        self.assertIn("cellgrad: TensorFlow: this process has kernels of CudnnRNNV3 for the cpu: the plugin was loaded before", words)
        self.assertIn("(5, 2, 4)", words)

    def test_plugins(self):
        """A plugin in TensorFlow's folder tensorflow-plugins needs no import, and importing the package beside it works"""
        with tempfile.TemporaryDirectory() as folder:
            packages = os.path.join(folder, "site-packages")
            plugins = os.path.join(packages, "tensorflow-plugins")
            os.makedirs(plugins)
            shutil.copy(tensorflow_tap.PLUGIN, plugins)
            # The copy of the plugin finds the library in LD_LIBRARY_PATH, as it would find an installed one in the system's folders.
            status, words = tensorflow_tap.python("-c", NETWORK + """
print(network().shape)
import cellgrad.tensorflow
print(cellgrad.tensorflow.load(), network().shape)""", PYTHONPATH=os.pathsep.join((packages, os.environ["PYTHONPATH"])),
                                                  LD_LIBRARY_PATH=os.path.dirname(tensorflow_tap.PLUGIN))
        self.assertEqual(status, 0, words)
        self.assertIn("(5, 2, 4)\n0 (5, 2, 4)", words)

    def test_late(self):
        """CudnnRNN works after the plugin is loaded, even if a call of CudnnRNN failed before"""
        status, words = tensorflow_tap.python("-c", NETWORK + """
try:
    network()
except (tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
    print("failed", type(error).__name__)
import cellgrad.tensorflow
print(network().shape)""")
        self.assertEqual(status, 0, words)
        self.assertIn("failed", words)
        self.assertIn("(5, 2, 4)", words)

    def test_absent(self):
        """If the plugin is loaded before TensorFlow, it registers nothing and says why"""
        status, words = tensorflow_tap.python("-c", f"import ctypes; ctypes.CDLL({tensorflow_tap.PLUGIN!r})", CELLGRAD_VERBOSE="1")
        self.assertEqual(status, 0, words)
        self.assertIn("there is no TensorFlow in this process that has TF_Version: import TensorFlow first", words)

    def test_not_found(self):
        """Without the plugin or the library, importing cellgrad.tensorflow raises a LibraryError that names the missing file"""
        for variable, name in (("CELLGRAD_TF_PLUGIN", "no file /nowhere/x.so"), ("CELLGRAD_LIBRARY", "/nowhere/x.so: cannot open")):
            status, words = tensorflow_tap.python("-c", """
import cellgrad
try:
    import cellgrad.tensorflow
except cellgrad.LibraryError as error:
    print("refused:", error)""", **{variable: "/nowhere/x.so"})
            self.assertEqual(status, 0, words)
            self.assertIn(name, words)

    def test_opencl(self):
        """In TensorFlow the backend opencl raises an UnimplementedError, and an unknown backend an InvalidArgumentError"""
        for backend, kind in (("opencl", "UnimplementedError"), ("cpo", "InvalidArgumentError")):
            status, words = tensorflow_tap.python("-c", NETWORK + """
import cellgrad.tensorflow
try:
    network()
except tf.errors.OpError as error:
    print(type(error).__name__, error)""", CELLGRAD_BACKEND=backend)
            self.assertEqual(status, 0, words)
            self.assertIn(kind, words)
            self.assertIn(backend, words)


if __name__ == "__main__":
    tensorflow_tap.main()
