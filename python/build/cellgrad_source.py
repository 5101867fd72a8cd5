# SPDX-License-Identifier: Apache-2.0
"""Finds the source for a build: the folder of this source, or, in a git checkout, a copy of its files in which configure is generated."""
import os
import shutil
import subprocess

from cellgrad_project import TOP, BuildFailure

AUTOTOOLS = (("autoconf", "autoconf"), ("automake", "automake"), ("libtoolize", "libtool"), ("pkg-config", "pkg-config"))


def run(arguments, folder, what):
    """Runs a program, whose output becomes a part of the build's output."""
    # If make has called pip, that make's variables are in the environment, and would change what the program builds.
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    try:
        status = subprocess.call(arguments, cwd=folder, env=environment)
    except OSError as error:
        raise BuildFailure(f"{what} needs {arguments[0]}: {error.strerror}") from None
    if status:
        raise BuildFailure(f"{what} failed: {' '.join(arguments)} ended with status {status}")


def tracked():
    """Returns the existing files of this source that git tracks; None if the source is not a git checkout."""
    if not os.path.exists(os.path.join(TOP, ".git")):
        return None
    try:
        listed = subprocess.run(["git", "-C", TOP, "ls-files", "-z"], check=True, stdout=subprocess.PIPE).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildFailure(f"the source is a checkout of git, and git cannot list the files of the source: {error}") from None
    return [name for name in os.fsdecode(listed).split("\0") if name and os.path.lexists(os.path.join(TOP, name))]


def prepared(room):
    """Returns a folder that has the source and the script configure.  room: a temporary folder, for the copy of a git checkout."""
    names = tracked()
    if names is None:
        if not os.path.exists(os.path.join(TOP, "configure")):
            raise BuildFailure("the source has no script configure, and only a checkout of git can make one: take the release's tarball")
        if os.path.exists(os.path.join(TOP, "config.status")):
            raise BuildFailure("the source's folder is configured: run `make distclean` in it first")
        return TOP
    missing = [package for tool, package in AUTOTOOLS if not (shutil.which(tool) or (tool == "libtoolize" and shutil.which("glibtoolize")))]
    if missing:
        raise BuildFailure(f"a checkout of git needs {', '.join(missing)} to make configure (Debian: apt-get install {' '.join(missing)}); "
                           "the release's tarball needs none of them")
    source = os.path.join(room, "source")
    for name in names:
        os.makedirs(os.path.dirname(os.path.join(source, name)), exist_ok=True)
        shutil.copy2(os.path.join(TOP, name), os.path.join(source, name), follow_symlinks=False)
    run(["./bootstrap", "--no-install"], source, "making configure")
    return source
