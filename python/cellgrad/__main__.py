# SPDX-License-Identifier: Apache-2.0
"""`python -m cellgrad` runs the command `cellgrad`: the one in CELLGRAD_LIBRARY's prefix, else that of this package, else that on PATH."""
import os
import shutil
import sys
from typing import List, Optional

from ._load import FOLDER


def find_command() -> Optional[str]:
    """Returns the path of the executable."""
    library = os.environ.get("CELLGRAD_LIBRARY")
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(library))) if library else None
    candidates = [os.path.join(prefix, "bin", "cellgrad")] if prefix else []
    candidates.append(os.path.join(FOLDER, "bin", "cellgrad"))
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return shutil.which("cellgrad")


def main(arguments: List[str]) -> int:
    path = find_command()
    if path is None:
        print("cellgrad: there is no command: this package was built without it, since jansson or popt was missing, and there is none on the PATH",
              file=sys.stderr)
        return 1
    # `cellgrad demo` reads the stored answers from this package, if the package has them.
    data = os.path.join(FOLDER, "data")
    if arguments[:1] == ["demo"] and os.path.isdir(data) and not any(word.split("=")[0] == "--data" for word in arguments):
        arguments = ["demo", "--data", data, *arguments[1:]]
    sys.stdout.flush()
    os.execv(path, ["cellgrad", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
