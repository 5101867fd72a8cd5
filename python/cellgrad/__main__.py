# SPDX-License-Identifier: Apache-2.0
"""`python -m cellgrad`, and the script `cellgrad` that pip installs, run the command: the one in CELLGRAD_LIBRARY's prefix, else that of
this package, else the first executable `cellgrad` on PATH that is not such a script."""
import os
import sys
from typing import List, Optional

from ._load import FOLDER


def is_script(path: str) -> bool:
    """Returns whether a file is the script of pip that runs this module."""
    with open(path, "rb") as file:
        return b"cellgrad.__main__" in file.read(1000)


def find_command() -> Optional[str]:
    """Returns the path of the executable, or None."""
    library = os.environ.get("CELLGRAD_LIBRARY")
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(library))) if library else None
    candidates = [os.path.join(prefix, "bin", "cellgrad")] if prefix else []
    # An empty entry of PATH means the working folder, which is not searched.
    on_path = filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep))
    candidates += [os.path.join(folder, "cellgrad") for folder in (os.path.join(FOLDER, "bin"), *on_path)]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK | os.R_OK) and not is_script(path):
            return path
    return None


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the command in place of this process; returns 1 if there is no command.  arguments: those of this process by default."""
    arguments = sys.argv[1:] if arguments is None else arguments
    path = find_command()
    if path is None:
        print("cellgrad: there is no command: this package has none, as when it was built without jansson or popt, and there is none on the "
              "PATH; install their development files (Debian: libjansson-dev libpopt-dev), then this package again, or install the "
              "command, on Debian the package cellgrad",
              file=sys.stderr)
        return 1
    # `cellgrad demo` reads the stored answers from this package, if the package has them and no option --data names another folder.
    data = os.path.join(FOLDER, "data")
    if arguments[:1] == ["demo"] and os.path.isdir(data) and not any(word.split("=")[0] == "--data" for word in arguments):
        arguments = ["demo", "--data", data, *arguments[1:]]
    sys.stdout.flush()
    os.execv(path, ["cellgrad", *arguments])


if __name__ == "__main__":
    sys.exit(main())
