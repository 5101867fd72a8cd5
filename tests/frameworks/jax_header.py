#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The structs and numbers of bindings/jax/xla_ffi.h have the sizes, offsets and values of XLA's header, which is in jaxlib; three structs
may be shorter than XLA's, and the minor version lower.  Prints TAP.  CC: a C compiler; unset: cc."""
import os
import subprocess
import tempfile
import unittest

import jax_tap
from jax_tap import py_tap
import jax

CC = os.environ.get("CC", "cc").split()
OURS = "bindings/jax/xla_ffi.h"
# Each row: a struct of xla_ffi.h, XLA's struct, then pairs of a field in xla_ffi.h and XLA's field.
STRUCTS = (
    ("xla_extension", "XLA_FFI_Extension_Base", "size struct_size", "type type", "next next"),
    ("xla_version", "XLA_FFI_Api_Version", "size struct_size", "extensions extension_start", "major_version major_version",
     "minor_version minor_version"),
    ("xla_metadata", "XLA_FFI_Metadata", "size struct_size", "version api_version", "traits traits"),
    ("xla_metadata_extension", "XLA_FFI_Metadata_Extension", "base extension_base", "metadata metadata"),
    ("xla_error_create", "XLA_FFI_Error_Create_Args", "size struct_size", "extensions extension_start", "message message", "code errc"),
    ("xla_api", "XLA_FFI_Api", "size struct_size", "extensions extension_start", "version api_version", "internal internal_api",
     "create_error XLA_FFI_Error_Create"),
    ("xla_buffer", "XLA_FFI_Buffer", "size struct_size", "extensions extension_start", "dtype dtype", "data data", "rank rank", "dims dims"),
    ("xla_bytes", "XLA_FFI_ByteSpan", "data ptr", "length len"),
    ("xla_scalar", "XLA_FFI_Scalar", "dtype dtype", "value value"),
    ("xla_values", "XLA_FFI_Args", "size struct_size", "extensions extension_start", "count size", "types types", "items args"),
    ("xla_values", "XLA_FFI_Rets", "size struct_size", "extensions extension_start", "count size", "types types", "items rets"),
    ("xla_attributes", "XLA_FFI_Attrs", "size struct_size", "extensions extension_start", "count size", "types types", "names names",
     "items attrs"),
    ("xla_frame", "XLA_FFI_CallFrame", "size struct_size", "extensions extension_start", "api api", "context ctx", "stage stage",
     "arguments args", "results rets", "attributes attrs"),
)
# The structs to which XLA may add fields at their end.  A struct that is inside another struct or in an array must have the same size.
LONGER = {"xla_metadata", "xla_api", "xla_frame"}
NUMBERS = (
    ("XLA_METADATA", "XLA_FFI_Extension_Metadata"), ("XLA_MAJOR_VERSION", "XLA_FFI_API_MAJOR"), ("XLA_BUFFER", "XLA_FFI_ArgType_BUFFER"),
    ("XLA_BUFFER", "XLA_FFI_RetType_BUFFER"), ("XLA_SCALAR", "XLA_FFI_AttrType_SCALAR"),
    ("XLA_STRING", "XLA_FFI_AttrType_STRING"), ("XLA_EXECUTE", "XLA_FFI_ExecutionStage_EXECUTE"),
    *((f"XLA_{name}", f"XLA_FFI_Error_Code_{name}") for name in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "INTERNAL")),
    *((f"XLA_{name}", f"XLA_FFI_DataType_{name}") for name in ("S32", "S64", "U8", "U32", "F16", "F32", "F64", "BF16")),
)


def claims():
    """Yields every comparison with XLA's header as a C expression."""
    for ours, theirs, *fields in STRUCTS:
        relation = "<=" if ours in LONGER else "=="
        yield f"sizeof(struct {ours}) {relation} sizeof({theirs})"
        for mine, other in map(str.split, fields):
            yield f"offsetof(struct {ours}, {mine}) == offsetof({theirs}, {other})"
            yield f"sizeof(((struct {ours} *)0)->{mine}) == sizeof((({theirs} *)0)->{other})"
    for ours, theirs in NUMBERS:
        yield f"(int){ours} == (int){theirs}"
    yield "XLA_MINOR_VERSION <= XLA_FFI_API_MINOR"


def compiles(lines):
    """Returns whether the C compiler accepts static assertions of these lines, and the compiler's messages."""
    text = [f'#include "{OURS}"', '#include "xla/ffi/api/c_api.h"', *(f'_Static_assert({line}, "{line}");' for line in lines)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "claims.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(text) + "\n")
        done = subprocess.run([*CC, "-std=gnu11", "-fsyntax-only", "-I", py_tap.SOURCE, "-I", jax.ffi.include_dir(), path],
                              stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode == 0, done.stderr


class Header(unittest.TestCase):
    def test_layout(self):
        """The structs and constants of xla_ffi.h have XLA's sizes, offsets and values; three structs may be smaller than XLA's"""
        lines = list(claims())
        print(f"# {len(lines)} comparisons")
        self.assertGreater(len(lines), 100)
        self.assertEqual(compiles(lines), (True, ""))

    def test_seeded(self):
        """A wrong number that is planted is found"""
        is_right, words = compiles(["XLA_S32 == 5"])
        self.assertFalse(is_right)
        self.assertIn("XLA_S32 == 5", words)


if __name__ == "__main__":
    jax_tap.main()
