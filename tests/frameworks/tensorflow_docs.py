#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples in every docstring of cellgrad.tensorflow and in its README.md run.  Every public function has an example.  Prints TAP."""
import os
import re

import tensorflow_tap
from tensorflow_tap import py_tap
from framework_docs import documents

import cellgrad.tensorflow as ours


class Documents(documents(ours, 15)):
    def tearDown(self):
        ours.disable_keras()

    def test_versions(self):
        """The plugin, its README.md, the package's and pyproject.toml have the same range of versions of TensorFlow"""
        top = os.path.join(py_tap.PACKAGE, "..")

        def read(*path):
            with open(os.path.join(top, *path), encoding="utf-8") as file:
                return file.read()

        oldest, newest = re.search(r"CG_TF_OLDEST = (\d+), CG_TF_NEWEST = (\d+)", read("bindings", "tensorflow", "tf_api.h")).groups()
        words = " to ".join(f"{int(number) // 1000}.{int(number) % 1000}" for number in (oldest, newest))
        self.assertIn(f"TensorFlow {words}\n", read("python", "cellgrad", "tensorflow", "README.md"))
        self.assertIn(f"not one from {words};", read("bindings", "tensorflow", "README.md"))
        self.assertIn(f'"tensorflow>={words.split()[0]},<2.{int(newest) % 1000 + 1}"', read("pyproject.toml"))


if __name__ == "__main__":
    tensorflow_tap.main()
