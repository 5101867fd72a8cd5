#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions and codes that bindings/tensorflow/tf_api.h declares are those of TensorFlow's headers.  Prints TAP."""
import os
import shutil
import subprocess
import tempfile
import unittest

import tensorflow_tap
from py_tap import SOURCE

import tensorflow as tf

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compiled(folder, source, *options):
    """Compiles `source` by a C compiler that rejects pointers to another type; returns the compiler's exit status and messages."""
    command = [COMPILER, "-std=gnu11", "-Werror=incompatible-pointer-types", "-I", tf.sysconfig.get_include(), *options, "-c", source, "-o",
               os.path.join(folder, "api.o")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


@unittest.skipUnless(COMPILER, "there is no C compiler")
class Declarations(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.folder = room.name
        self.source = os.path.join(SOURCE, "tests", "frameworks", "tensorflow_api.c")

    def test_same(self):
        """The functions of tf_api.h have the types of TensorFlow's functions, and its codes have TensorFlow's values"""
        status, words = compiled(self.folder, self.source, "-I", SOURCE)
        self.assertEqual(status, 0, words)

    def test_seeded(self):
        """A wrong type and a wrong value that are planted are found"""
        header = os.path.join(self.folder, "bindings", "tensorflow", "tf_api.h")
        os.makedirs(os.path.dirname(header))
        with open(os.path.join(SOURCE, "bindings", "tensorflow", "tf_api.h"), encoding="utf-8") as file:
            text = file.read()
        for right, wrong in (("X(TF_INT8, 6)", "X(TF_INT8, 5)"),
                             ("(const TF_Tensor *tensor, int index)", "(const TF_Tensor *tensor, int64_t index)")):
            self.assertIn(right, text)
            with open(header, "w", encoding="utf-8") as file:
                file.write(text.replace(right, wrong))
            self.assertNotEqual(compiled(self.folder, self.source, "-I", self.folder)[0], 0, wrong)


if __name__ == "__main__":
    tensorflow_tap.main()
