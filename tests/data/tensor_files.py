"""Safetensors files for the scripts in this folder: the same tensors give the same bytes, and reading checks every part of a file."""
import json
import os
import struct
import sys

import numpy as np

CODES = {"float16": "F16", "float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64"}


def require(holds, words):
    if not holds:
        raise SystemExit(f"{os.path.basename(sys.argv[0])}: {words}")


def write_file(path, tensors, attributes):
    """Writes a file, with the tensors in the order of their names, so that the same tensors always give the same bytes."""
    header = {"__metadata__": dict(sorted(attributes.items()))}
    data = b""
    for name, tensor in sorted(tensors.items()):
        raw = np.ascontiguousarray(tensor).astype(tensor.dtype.newbyteorder("<")).tobytes()
        header[name] = {"dtype": CODES[tensor.dtype.name], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_file(path):
    """Reads tensors and attributes; fails unless the file is a length, a JSON header and the data, without a byte between them."""
    raw = path.read_bytes()
    length, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    attributes = header.pop("__metadata__")
    require(all(isinstance(value, str) for value in attributes.values()), f"{path.name}: metadata is not all strings")
    data, at, tensors = raw[8 + length:], 0, {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        require(begin == at, f"{path.name}: {name} does not begin where the one before it ends")
        dtype = {code: np.dtype(dtype) for dtype, code in CODES.items()}[entry["dtype"]]
        tensors[name] = np.frombuffer(data[begin:end], dtype.newbyteorder("<")).reshape(entry["shape"])
        at = end
    require(at == len(data), f"{path.name}: data beyond the last tensor")
    return tensors, attributes


def compare(what, got, want, tolerance):
    """Fails unless every element is within tolerance times the largest element of `want`; returns the largest error over that element."""
    require(got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}")
    require(np.isfinite(got).all(), f"{what}: not finite")
    error, largest = np.abs(got.astype("float64") - want).max(), np.abs(want).max()
    require(error <= tolerance * largest, f"{what}: off by {error:.3g} where the largest is {largest:.3g}")
    return error / largest if largest else 0.0
