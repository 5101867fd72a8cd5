#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python_pages.py PYTHON OUT: writes HTML pages of the public names of the packages below PYTHON, from their docstrings.

The source is parsed, not imported, so that no framework is needed.  The public names are the classes and functions in a package's __all__,
and the methods and properties of these classes that do not begin with an underscore; a constructor with a docstring counts, too.  A package
or a public name without a docstring is an error: exit status 1.
"""
from __future__ import annotations

import ast
import html
import os
import sys
from typing import Iterator, List, Optional, Tuple, Union

Definition = Union[ast.ClassDef, ast.FunctionDef]
STYLE = ("body { font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em } pre, code { font: 14px/1.4 monospace } "
         "pre { white-space: pre-wrap } h2 code, h3 code { font-size: 16px } section { margin-left: 2em } a { color: #0645ad }")


def parse(path: str) -> ast.Module:
    """Parses the Python module in a file."""
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read(), path)


def public_names(module: ast.Module) -> List[str]:
    """Returns the names in a module's __all__, in the same order."""
    for node in module.body:
        if isinstance(node, ast.Assign) and any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def find_definition(path: str, name: str) -> Optional[Definition]:
    """Returns the class or function that a module at a path defines or imports from the package; None for any other value."""
    module = parse(path)
    for node in module.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    folder = os.path.dirname(path)
                    for _ in range(node.level - 1):
                        folder = os.path.dirname(folder)
                    found = os.path.join(folder, *(node.module or "__init__").split(".")) + ".py"
                    return find_definition(found, alias.name) if os.path.exists(found) else None
    return None


def signature(node: Definition) -> str:
    """Returns the first line of a definition without the colon at its end and, for a function, without the word "def"."""
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"class {node.name}" + (f"({bases})" if bases else "")
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){result}"


def members(node: ast.ClassDef) -> Iterator[Definition]:
    """Yields the members of a class that its page shows: the constructor, if it has a docstring, and the public methods and properties."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and (not part.name.startswith("_") or part.name == "__init__" and ast.get_docstring(part)):
            if not any(isinstance(mark, ast.Attribute) and mark.attr in ("setter", "deleter") or
                       isinstance(mark, ast.Name) and mark.id == "overload" for mark in part.decorator_list):
                yield part


def section(node: Definition, within: str, level: int, missing: List[str]) -> str:
    """Returns the HTML of a function, or of a class and its members."""
    name, text = f"{within}.{node.name}", ast.get_docstring(node)
    if not text:
        missing.append(name)
    is_property = any(isinstance(mark, ast.Name) and mark.id in ("property", "cached_property") for mark in node.decorator_list)
    title = html.escape(f"{node.name}: property" if is_property else signature(node))
    body = f'<h{level} id="{name}"><code>{title}</code></h{level}>\n<pre>{html.escape(text or "")}</pre>\n'
    if isinstance(node, ast.ClassDef):
        body += "".join(f"<section>{section(part, name, level + 1, missing)}</section>\n" for part in members(node))
    return body


def page(title: str, body: str) -> str:
    """Returns the HTML of a whole page with this title and body."""
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head>\n'
            f"<body>\n{body}</body></html>\n")


def packages(root: str) -> Iterator[Tuple[str, str]]:
    """Yields the package cellgrad and the packages in it, as names and paths."""
    top = os.path.join(root, "cellgrad")
    yield "cellgrad", os.path.join(top, "__init__.py")
    for folder in sorted(os.listdir(top)):
        path = os.path.join(top, folder, "__init__.py")
        if os.path.exists(path):
            yield f"cellgrad.{folder}", path


def main(root: str, out: str) -> int:
    os.makedirs(out, exist_ok=True)
    index, missing = "<h1>The Python package</h1>\n<p><a href=\"../index.html\">cellgrad</a></p>\n<ul>\n", []
    for name, path in packages(root):
        module = parse(path)
        text = ast.get_docstring(module) or ""
        if not text:
            missing.append(name)
        body = f'<p><a href="index.html">The Python package</a></p>\n<h1>{name}</h1>\n<pre>{html.escape(text)}</pre>\n'
        for public in public_names(module):
            found = find_definition(path, public)
            if found:
                body += section(found, name, 2, missing)
        with open(os.path.join(out, f"{name}.html"), "w", encoding="utf-8") as file:
            file.write(page(name, body))
        index += f'<li><a href="{name}.html">{name}</a>: {html.escape(text.splitlines()[0] if text else "")}</li>\n'
    with open(os.path.join(out, "index.html"), "w", encoding="utf-8") as file:
        file.write(page("cellgrad for Python", index + "</ul>\n"))
    for name in missing:
        print(f"python_pages.py: {name} has no docstring", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python_pages.py PYTHON OUT")
    sys.exit(main(sys.argv[1], sys.argv[2]))
