# SPDX-License-Identifier: Apache-2.0
"""Converts C declarations to ctypes: constants, structs and prototypes.  The module parses only the subset of C that cellgrad.h uses.

`declare(text)` returns a `Declarations`: constants and structs are its attributes, under their names in C, and `functions` has the
result type and the argument types of each function.  A field whose name is a Python keyword gets a `_` at its end.
"""
import ctypes
import keyword
import re
from typing import Any, Dict, List, Optional, Tuple

_SCALARS = {
    "char": ctypes.c_char, "int": ctypes.c_int, "size_t": ctypes.c_size_t, "double": ctypes.c_double,
    "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
}
_DEFINE = re.compile(r"#define (\w+) (\d+)")
_ENUM = re.compile(r"enum *\w* *\{(.*?)\};", re.S)
_STRUCT = re.compile(r"struct (\w+) *\{(.*?)\n?\};", re.S)
_PROTOTYPE = re.compile(r"^((?:const )?(?:struct )?\w+ *\**)(cg_\w+)\(([^;]*)\);$", re.M)
_TYPE = re.compile(r"((?:const )?(?:(?:struct|enum) )?\w+)\s*(.*)", re.S)
_FUNCTION_POINTER = re.compile(r"([\w *]+?)\s*\(\*(\w+)\)\((.*)\)$", re.S)


class Declarations:
    """The declarations of a text."""

    def __init__(self) -> None:
        self.constants: Dict[str, int] = {}
        self.structs: Dict[str, Any] = {}
        self.functions: Dict[str, Tuple[Any, List[Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        for table in (self.constants, self.structs):
            if name in table:
                return table[name]
        raise AttributeError(name)

    def _type(self, base: str, stars: int) -> Any:
        """Returns the ctypes type of a base type with this number of stars.

        Pointers to constant numbers, to memory and to opaque structs are c_void_p, and so is a text that the caller frees.  Pointers to
        declared structs, and those that a call writes a number, a text or a pointer through, are POINTER types, for byref().
        """
        is_const, base = base.startswith("const "), re.sub("^const ", "", base)
        if base.startswith("enum "):
            return ctypes.c_int
        if base.startswith("struct "):
            struct = self.structs.get(base[len("struct "):], ctypes.c_void_p)
            if struct is ctypes.c_void_p:
                stars -= 1
            return ctypes.POINTER(struct) if stars else struct
        if base == "char" and stars:
            text = ctypes.c_char_p if is_const else ctypes.c_void_p
            return ctypes.POINTER(text) if stars == 2 else text
        if base == "void":
            return ctypes.c_void_p if stars else None
        if stars:
            return ctypes.c_void_p if is_const else ctypes.POINTER(_SCALARS[base])
        return _SCALARS[base]

    def _argument(self, text: str) -> Any:
        pointer = _FUNCTION_POINTER.match(text)
        if pointer:
            return self._function_pointer(pointer)
        base, declarator = _TYPE.match(text).groups()  # type: ignore[union-attr]
        return self._type(base, declarator.count("*"))

    def _function_pointer(self, pointer: "re.Match[str]") -> Any:
        result = self._argument(pointer.group(1).strip() + " ")
        return ctypes.CFUNCTYPE(result, *map(self._argument, _split(pointer.group(3))))

    def _fields(self, text: str) -> List[Tuple[str, Any]]:
        fields = []
        for line in filter(None, (part.strip() for part in text.split(";"))):
            pointer = _FUNCTION_POINTER.match(line)
            if pointer:
                fields.append((pointer.group(2), self._function_pointer(pointer)))
                continue
            base, declarators = _TYPE.match(line).groups()  # type: ignore[union-attr]
            for declarator in declarators.split(","):
                name, length = re.match(r"[\s*]*(\w+)(?:\[(\w+)\])?", declarator).groups()  # type: ignore[union-attr]
                kind = self._type(base, declarator.count("*"))
                if length:
                    kind = kind * (int(length) if length.isdigit() else self.constants[length])
                fields.append((name + "_" if keyword.iskeyword(name) else name, kind))
        return fields


def _split(arguments: str) -> List[str]:
    """Splits the arguments of a prototype at the commas that are not within parentheses."""
    parts, depth, part = [], 0, ""
    for letter in arguments + ",":
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return [] if parts == ["void"] else parts


def _constants(body: str, constants: Dict[str, int]) -> None:
    value: Optional[int] = -1
    for entry in filter(None, (part.strip() for part in body.split(","))):
        name, _, given = (part.strip() for part in entry.partition("="))
        value = int(given) if given else value + 1  # type: ignore[operator]
        constants[name] = value


def declare(text: str) -> Declarations:
    """Parses declarations.  A struct must be declared before the structs that contain it."""
    found = Declarations()
    for name, value in _DEFINE.findall(text):
        found.constants[name] = int(value)
    for body in _ENUM.findall(text):
        _constants(body, found.constants)
    for name, body in _STRUCT.findall(text):
        found.structs[name] = type(name, (ctypes.Structure,), {"_fields_": found._fields(body), "__slots__": ()})
    for result, name, arguments in _PROTOTYPE.findall(text):
        found.functions[name] = (found._argument(result.strip() + " "), [found._argument(a) for a in _split(arguments)])
    return found
