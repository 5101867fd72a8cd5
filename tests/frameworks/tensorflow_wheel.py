#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the wheel cellgrad-tensorflow in a virtual environment with TensorFlow: programs that do not import cellgrad train; importing the
package cellgrad beside the wheel works; and importing TensorFlow works even if the library or the plugin is missing.  Runs in the build's
top folder.  Prints TAP.  MAKE: the program make; INCLUDEDIR: the folder for installed headers."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import tensorflow_tap
from tensorflow_tap import py_tap

import tensorflow

EXAMPLES = os.path.join(py_tap.SOURCE, "examples", "python")
NETWORK = """
import tensorflow as tf
def shape():
    state = tf.zeros([1, 2, 4])
    return tf.raw_ops.CudnnRNN(input=tf.ones([5, 2, 3]), input_h=state, input_c=state, params=tf.fill([144], 0.1)).output.shape
try:
    print("network:", shape())
except (tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
    print("network:", type(error).__name__)
"""


def run(*arguments, **more):
    """Runs a program, which must succeed, without the environment variables of this build; returns its stdout and stderr as one text."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CELLGRAD_", "MAKE", "MFLAGS", "PYTHONPATH"))}
    done = subprocess.run(arguments, env={**environment, **more}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.returncode}\n{done.stdout[-3000:]}"
    return done.stdout


@unittest.skipUnless(py_tap.has(sys.executable, "ensurepip"), "there is no venv with pip")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        room = tempfile.TemporaryDirectory()
        cls.addClassCleanup(room.cleanup)
        root, wheels, venv = (os.path.join(room.name, name) for name in ("root", "wheels", "venv"))
        run(os.environ.get("MAKE", "make"), "-s", "install", f"DESTDIR={root}")
        run(sys.executable, "-m", "venv", venv)
        cls.python = os.path.join(venv, "bin", "python")
        cls.packages, = glob.glob(os.path.join(venv, "lib", "python*", "site-packages"))
        # The virtual environment uses the TensorFlow of this Python, and the packages that TensorFlow needs.
        with open(os.path.join(cls.packages, "tensorflow.pth"), "w", encoding="utf-8") as file:
            file.write(os.path.dirname(os.path.dirname(tensorflow.__file__)) + "\n")
        pip = (cls.python, "-m", "pip", "--disable-pip-version-check")
        run(*pip, "wheel", "-q", "--no-index", "--no-deps", "--no-cache-dir", "-w", wheels, py_tap.SOURCE,
            os.path.join(py_tap.SOURCE, "python", "plugin"),
            CELLGRAD_PREFIX=root + os.path.dirname(os.environ.get("INCLUDEDIR", "/usr/local/include")))
        # --ignore-installed: this Python may already have a package cellgrad.
        run(*pip, "install", "-q", "--no-deps", "--ignore-installed", "--no-cache-dir", *glob.glob(os.path.join(wheels, "*.whl")))

    def test_a_program(self):
        """A program that does not import cellgrad runs CudnnRNN, and CELLGRAD_VERBOSE=1 prints what was registered"""
        self.assertIn("network: (5, 2, 4)\n", run(self.python, "-c", NETWORK))
        words = run(self.python, "-c", NETWORK, CELLGRAD_VERBOSE="1")
        self.assertEqual(words.count(f"cellgrad: TensorFlow: kernels of 11 ops are registered with TensorFlow {tensorflow.__version__}"), 1)

    def test_b_examples(self):
        """The examples tensorflow_v1.py and keras_lstm.py run, and print that their checks passed"""
        self.assertRegex(run(self.python, os.path.join(EXAMPLES, "tensorflow_v1.py")),
                         "the loaded model has the same answers and trains on alike; its 32 matrices and biases are its parameters\n$")
        words = run(self.python, os.path.join(EXAMPLES, "keras_lstm.py"))
        print("# " + words.strip().splitlines()[-1])
        self.assertRegex(words, "within [0-9.e-]+ of Keras's own\n$")

    def test_c_package(self):
        """Importing cellgrad.tensorflow beside the wheel uses the plugin that is loaded already, and enable_keras works"""
        words = run(self.python, "-c", NETWORK + """
import cellgrad.tensorflow, keras, numpy
print(cellgrad.tensorflow.load(), cellgrad.tensorflow.state().split(" with ")[0], cellgrad.tensorflow.plugin_path())
cellgrad.tensorflow.enable_keras()
print(keras.layers.GRU(4)(numpy.ones((2, 5, 3), numpy.float32)).shape, shape())""")
        self.assertIn(f"11 kernels of 11 ops are registered {self.packages}/cellgrad/cellgrad_tensorflow.so\n(2, 4) (5, 2, 4)\n", words)

    def test_d_missing(self):
        """Without the library or the plugin, TensorFlow is imported without the kernels, and CELLGRAD_VERBOSE=1 prints the reason"""
        for name, words in (("libcellgrad.so.0", "the plugin does not load: libcellgrad.so.0: cannot open"),
                            ("cellgrad_tensorflow.so", "there is no cellgrad_tensorflow.so for the loader")):
            path = os.path.join(self.packages, "cellgrad", name)
            shutil.move(path, path + ".away")
            self.addCleanup(lambda path=path: os.path.exists(path) or shutil.move(path + ".away", path))
            self.assertRegex(run(self.python, "-c", NETWORK), r"network: \w+Error\n$")
            self.assertIn("cellgrad: TensorFlow: " + words, run(self.python, "-c", NETWORK, CELLGRAD_VERBOSE="1"))
            shutil.move(path + ".away", path)
        self.assertIn("network: (5, 2, 4)\n", run(self.python, "-c", NETWORK))


if __name__ == "__main__":
    tensorflow_tap.main()
