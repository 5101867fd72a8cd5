# SPDX-License-Identifier: Apache-2.0
"""The metadata of both wheels and of the sdist, from each project's pyproject.toml and README.md, and the version in cellgrad.h."""
import ast
import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLUGIN = os.path.join("python", "plugin")


class BuildFailure(SystemExit):
    """Ends the build with a message for the user."""

    def __init__(self, words):
        super().__init__(f"cellgrad: {words}")


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as file:
        return file.read()


def version(*header):
    """Returns the version, from CG_VERSION_* in a header; without a path, in this source's."""
    return ".".join(re.findall(r"^#define CG_VERSION_\w+ +(\d+)", read(*(header or ("runtime", "cellgrad.h"))), re.M))


def project(folder=""):
    """Returns the tables of a pyproject.toml by name, without the tables [tool.*].  The values in the tables are strings and lists of
    strings, whose syntax is the same in TOML and Python."""
    tables, table, key = {}, {}, None
    for line in read(folder, "pyproject.toml").splitlines():
        line = re.sub(r"\s+#.*$|^#.*$", "", line).strip()
        header = re.match(r"\[+([\w.-]+)\]+$", line)
        if header:
            table, key = None if header.group(1).startswith("tool.") else tables.setdefault(header.group(1), {}), None
        elif table is None:
            continue
        elif key is not None:
            table[key] += line
        elif "=" in line:
            key, _, value = (part.strip() for part in line.partition("="))
            table[key] = value
        if key is not None and table[key].count("[") == table[key].count("]"):
            table[key], key = ast.literal_eval(table[key]), None
    return tables


def metadata(folder=""):
    """Returns the text of the files METADATA and PKG-INFO.  A project without a list of dependencies depends on the package cellgrad of its
    own version.  The home page and the address for reports of bugs are those of ./configure: the environment's URL and BUG_REPORT."""
    tables = project(folder)
    about, extras = tables["project"], tables.get("project.optional-dependencies", {})
    lines = ["Metadata-Version: 2.1", f"Name: {about['name']}", f"Version: {version()}", f"Summary: {about['description']}",
             f"License: {about['license']}", f"Requires-Python: {about['requires-python']}"]
    for label, variable in (("Homepage", "URL"), ("Bug reports", "BUG_REPORT")):
        address = os.environ.get(variable)
        if address:
            lines.append(f"Project-URL: {label}, {'' if '://' in address else 'mailto:'}{address}")
    lines += [f"Classifier: {word}" for word in about["classifiers"]]
    lines += [f"Requires-Dist: {word}" for word in about.get("dependencies", [f"cellgrad=={version()}"])]
    for extra, words in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {word}; extra == "{extra}"' for word in words]
    lines.append("Description-Content-Type: text/markdown")
    return "\n".join(lines) + "\n\n" + read(folder or "python", "README.md")
