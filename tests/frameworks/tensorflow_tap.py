"""What the tests of the TensorFlow plugin share, beside framework_tap.py: a Python that has TensorFlow, the plugin of this build, and one of
its own for what a test starts.  Runs in the build's top folder."""
import json
import os
import struct
import subprocess
import sys

import framework_tap

framework_tap.need("tensorflow", "TensorFlow")
PLUGIN = os.path.abspath("bindings/tensorflow/.libs/cellgrad_tensorflow.so")
os.environ["CELLGRAD_TF_PLUGIN"] = PLUGIN
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
main = framework_tap.main


def run_python(*arguments, **environment):
    """The status of a Python of its own, and what it prints, both streams in one."""
    done = subprocess.run([sys.executable, *arguments], env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.returncode, done.stdout


def read_tensors(path):
    """The tensors and the metadata of a safetensors file."""
    import numpy as np
    dtypes = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I32": np.int32, "I64": np.int64}
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    tensors = {name: np.frombuffer(data[slice(*about["data_offsets"])], dtypes[about["dtype"]]).reshape(about["shape"])
               for name, about in header.items()}
    return tensors, metadata
