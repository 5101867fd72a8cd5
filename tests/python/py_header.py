#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package has every constant, struct and function of cellgrad.h, and every field at the offset that a C compiler gives it.
Needs no NumPy and no library.  Prints TAP.  The environment has srcdir: the source; CC: a C compiler."""
import ctypes
import importlib
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest

import py_tap

CC = os.environ.get("CC", "cc").split()


def package():
    """Imports the module _lib without the rest of the package, which needs NumPy."""
    module = types.ModuleType("declarations")
    module.__path__ = [os.path.join(py_tap.PACKAGE, "cellgrad")]
    sys.modules["declarations"] = module
    return importlib.import_module("declarations._lib")


def words(text):
    """Returns the words and signs of C code, with one blank between each two."""
    return " ".join(re.findall(r"\w+|[^\w\s]", text))


def header(path):
    """Returns the header's declarations, one string for each, and the header's definitions of the version."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
    versions = re.findall(r"^#define CG_VERSION_.*$", text, re.M)
    text = re.sub(r"^#.*$", "", text, flags=re.M).replace('extern "C" {', "").replace("CG_API", "")
    found, depth, part = [words(line) for line in versions], 0, ""
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        part += letter
        if letter == ";" and not depth:
            found.append(words(part))
            part = ""
    # After the last declaration only the closing brace of extern "C" is left.
    assert part.strip() == "}", part
    return found


class Header(unittest.TestCase):
    maxDiff = None

    def test_names(self):
        """The package's ctypes declarations have every function, struct and constant of cellgrad.h, and no other"""
        lib = package()
        found = {"functions": set(), "structs": set(), "constants": set()}
        for part in header(os.path.join(py_tap.SOURCE, "runtime", "cellgrad.h")):
            defined = re.match(r"(struct|enum) (?:(\w+) )?\{", part)
            if part.startswith("# define"):
                found["constants"].add(part.split()[2])
            elif defined and defined.group(1) == "enum":
                found["constants"].update(re.findall(r"\bCG_\w+", part))
            elif defined:
                found["structs"].add(defined.group(2))
            elif "(" in part:
                found["functions"].add(re.match(r"[^(]*?(\w+) \(", part).group(1))
        self.assertGreater(min(map(len, found.values())), 10)
        for kind, names in found.items():
            self.assertEqual(set(getattr(lib.C, kind)), names)

    def test_prototypes(self):
        """The package's ctypes declarations have as many arguments for each function as cellgrad.h"""
        lib = package()
        for name, (_, arguments) in lib.C.functions.items():
            text = re.search(rf"\b{name}\((.*?)\);", lib.DECLARATIONS, re.S).group(1)
            self.assertEqual(len(arguments), 0 if text == "void" else text.count(",") + 1, name)

    def test_layout(self):
        """Structs and constants in ctypes have the sizes, offsets and values that the C compiler gives"""
        lib = package()
        lines, want = [], []
        for name, struct in lib.C.structs.items():
            lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
            want.append(f"{name} {ctypes.sizeof(struct)}")
            for field, _ in struct._fields_:
                c = field.rstrip("_")
                lines.append(f'printf("{name}.{c} %zu %zu\\n", offsetof(struct {name}, {c}), sizeof(((struct {name} *)0)->{c}));')
                want.append(f"{name}.{c} {getattr(struct, field).offset} {getattr(struct, field).size}")
        for name, value in lib.C.constants.items():
            lines.append(f'printf("{name} %d\\n", (int)({name}));')
            want.append(f"{name} {value}")
        self.assertGreater(len(lines), 200)
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
            with open(source, "w", encoding="utf-8") as file:
                file.write("#include <stdio.h>\n#include <cellgrad.h>\nint main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
            subprocess.run([*CC, "-I", os.path.join(py_tap.SOURCE, "runtime"), source, "-o", program], check=True)
            self.assertEqual(subprocess.run([program], check=True, stdout=subprocess.PIPE).stdout.decode().splitlines(), want)

    def test_sees(self):
        """A field that is added to a struct, and a field that is moved, change the structs in ctypes"""
        lib = package()
        declare = importlib.import_module("declarations._declare").declare
        changed = declare(re.sub(r"int64_t offset,\s+rows,", "int64_t rows, offset,",
                                 lib.DECLARATIONS.replace("int     place;", "int     place, more;")))
        self.assertNotEqual([f[0] for f in changed.cg_mem._fields_], [f[0] for f in lib.C.cg_mem._fields_])
        self.assertNotEqual(changed.cg_rnn_region.rows.offset, lib.C.cg_rnn_region.rows.offset)


if __name__ == "__main__":
    py_tap.main()
