# SPDX-License-Identifier: Apache-2.0
"""Makes the sdist: the files of `make dist`, and PKG-INFO.  A git checkout and the unpacked sdist of it give the same sdist."""
import gzip
import io
import os
import subprocess
import tarfile

from cellgrad_project import TOP, metadata
from cellgrad_source import prepared, run
from cellgrad_wheel import name_of


def moment():
    """Returns the date of the files in the sdist: SOURCE_DATE_EPOCH, else the date of the last commit, else that of the file configure.ac.
    All files of an sdist have the returned date, so an unpacked sdist gives the same date again."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    if os.path.exists(os.path.join(TOP, ".git")):
        logged = subprocess.run(["git", "-C", TOP, "log", "-1", "--format=%ct"], stdout=subprocess.PIPE, check=False).stdout.strip()
        if logged:
            return int(logged)
    return int(os.stat(os.path.join(TOP, "configure.ac")).st_mtime)


def build(directory, room):
    """Makes the sdist in a folder and returns the sdist's name."""
    source, folder, base = prepared(room), os.path.join(room, "dist"), name_of()
    os.mkdir(folder)
    configure = os.path.relpath(os.path.join(source, "configure"), folder)
    run([configure, "-q", "--disable-command"], folder, "configure")
    run(["make", "-s", "distdir", f"distdir={base}"], folder, "make distdir")
    top = os.path.join(folder, base)
    names = [os.path.relpath(os.path.join(at, name), top) for at, _, files in os.walk(top) for name in files]
    date, name = moment(), f"{base}.tar.gz"
    with open(os.path.join(directory, name), "wb") as raw, gzip.GzipFile("", "wb", 9, raw, date) as zipped, \
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted([*names, "PKG-INFO"]):
            about = tarfile.TarInfo(f"{base}/{path}")
            about.mtime = date
            if path == "PKG-INFO":
                data, about.mode = metadata().encode(), 0o644
            else:
                with open(os.path.join(top, path), "rb") as file:
                    data = file.read()
                about.mode = 0o755 if os.access(os.path.join(top, path), os.X_OK) else 0o644
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return name
