# SPDX-License-Identifier: Apache-2.0
"""Makes the wheels of cellgrad and of cellgrad-tensorflow.  The wheel of cellgrad has the Python package, the library, the library's
modules for JAX and TensorFlow, the header and, if there is one, the command with the demo's cases.  The Python package is that of this
source; the other files are those in CELLGRAD_PREFIX, or those that configure and make build and install.

The tag of both wheels is py3-none-PLATFORM: ctypes opens the library and its modules, and TensorFlow opens the loader, so that one wheel
works with every version of Python that pyproject.toml allows.
"""
import base64
import glob
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile

from cellgrad_project import PLUGIN, TOP, BuildFailure, metadata, project, version
from cellgrad_source import prepared, run

LIBRARY = "libcellgrad.0.dylib" if sys.platform == "darwin" else "libcellgrad.so.0"
# The modules that cellgrad.jax and cellgrad.tensorflow load; `make install` puts them into the folder cellgrad beside the library.
MODULES = ("cellgrad_jax.so", "cellgrad_tensorflow.so")
LOADER = "cellgrad_tensorflow_loader.so"


def tag():
    return "py3-none-" + re.sub(r"[^a-z0-9]", "_", sysconfig.get_platform().lower())


def name_of(suffix="", folder=""):
    """Returns the name of a project's wheel, sdist or folder of metadata: the project, its version, and `suffix`."""
    return f"{project(folder)['project']['name'].replace('-', '_')}-{version()}{suffix}"


def jobs():
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"-j{count}"


def has_module(name):
    return shutil.which("pkg-config") is not None and subprocess.call(["pkg-config", "--exists", name]) == 0


def configured(room, prefix):
    """Configures a build in a new folder in `room`, without the command `cellgrad` unless pkg-config finds both libraries of the
    command, jansson and popt."""
    source, build = prepared(room), os.path.join(room, "build")
    os.mkdir(build)
    options = ["--prefix", prefix, "--libdir", os.path.join(prefix, "lib"), "--disable-static", "-q"]
    without = [name for name in ("jansson", "popt") if not has_module(name)]
    if without:
        print(f"cellgrad: building without the command cellgrad, since pkg-config does not find {' and '.join(without)}", file=sys.stderr)
        options.append("--disable-command")
    configure = os.path.relpath(os.path.join(source, "configure"), build)
    run([configure, *options, *shlex.split(os.environ.get("CELLGRAD_CONFIGURE", ""))], build, "configure")
    return build


def make(build, *goals):
    run(["make", "-s", jobs(), *shlex.split(os.environ.get("CELLGRAD_MAKE", "")), *goals], build, "make")


def built(room):
    """Builds cellgrad in the folder `room`, outside of the source, installs it in `room`, too, and returns the prefix."""
    prefix = os.path.join(room, "prefix")
    build = configured(room, prefix)
    make(build)
    run(["make", "-s", "install"], build, "make install")
    return prefix


def found(prefix):
    """Returns the path of the library in an installed prefix; raises BuildFailure if there is none, or if the header there is of
    another version."""
    for folder in (os.path.join(prefix, "lib"), os.path.join(prefix, "lib64"), *glob.glob(os.path.join(prefix, "lib", "*-linux-*"))):
        if os.path.exists(os.path.join(folder, LIBRARY)):
            break
    else:
        raise BuildFailure(f"CELLGRAD_PREFIX={prefix}: there is no lib/{LIBRARY} in that folder, nor {LIBRARY} in lib64 or lib/*-linux-*")
    theirs = version(os.path.abspath(prefix), "include", "cellgrad.h")
    if theirs != version():
        raise BuildFailure(f"CELLGRAD_PREFIX={prefix} has cellgrad {theirs}, and this source is cellgrad {version()}")
    return os.path.join(folder, LIBRARY)


def stripped(path, room):
    """Returns the bytes of a binary, without its debugging symbols if there is a program `strip`."""
    copy = os.path.join(room, "stripped")
    shutil.copyfile(path, copy)
    if shutil.which("strip"):
        run(["strip", "-S" if sys.platform == "darwin" else "--strip-debug", copy], room, "strip")
    with open(copy, "rb") as file:
        return file.read()


def module_of(library, name):
    """Returns the path of a module that is installed with the shared library whose path is `library`."""
    path = os.path.join(os.path.dirname(library), "cellgrad", name)
    if not os.path.exists(path):
        raise BuildFailure(f"there is no {path}: it comes with a shared library of this version")
    return path


def module_beside(library, name, room):
    """Returns the bytes of a module, changed so that it finds the library in the module's own folder: $ORIGIN replaces the path of the
    folder in which the library was installed."""
    place = os.fsencode(os.path.dirname(library))
    return stripped(module_of(library, name), room).replace(b"\0" + place + b"\0", b"\0" + b"$ORIGIN".ljust(len(place), b"\0") + b"\0")


def entries(prefix, room):
    """Returns the files of cellgrad's wheel, without the metadata files, as bytes by name."""
    files = {}
    package = os.path.join(TOP, "python", "cellgrad")
    parts = sorted(name + "/" for name in os.listdir(package) if os.path.exists(os.path.join(package, name, "__init__.py")))
    for folder in ("", *parts):
        for name in sorted(os.listdir(os.path.join(package, folder))):
            if name.endswith((".py", ".typed", ".cc")):
                with open(os.path.join(package, folder, name), "rb") as file:
                    files[f"cellgrad/{folder}{name}"] = file.read()
    library = found(prefix)
    files[f"cellgrad/{LIBRARY}"] = stripped(library, room)
    for name in MODULES:
        files[f"cellgrad/{name}"] = module_beside(library, name, room)
    command = os.path.join(prefix, "bin", "cellgrad")
    if os.path.exists(command):
        files["cellgrad/bin/cellgrad"] = stripped(command, room)
        for path in sorted(glob.glob(os.path.join(prefix, "share", "cellgrad", "data", "*.safetensors"))):
            with open(path, "rb") as file:
                files[f"cellgrad/data/{os.path.basename(path)}"] = file.read()
    with open(os.path.join(prefix, "include", "cellgrad.h"), "rb") as file:
        files["cellgrad/include/cellgrad.h"] = file.read()
    return files


def info_files(folder=""):
    """Returns the metadata files of a project without RECORD: METADATA, WHEEL, the licence and, if it has scripts, entry_points.txt."""
    info = name_of(".dist-info", folder)
    with open(os.path.join(TOP, "LICENSE"), "rb") as file:
        licence = file.read()
    wheel = f"Wheel-Version: 1.0\nGenerator: cellgrad\nRoot-Is-Purelib: false\nTag: {tag()}\n"
    files = {f"{info}/METADATA": metadata(folder).encode(), f"{info}/WHEEL": wheel.encode(), f"{info}/LICENSE": licence}
    scripts = project(folder).get("project.scripts")
    if scripts:
        lines = ["[console_scripts]", *(f"{name} = {function}" for name, function in scripts.items())]
        files[f"{info}/entry_points.txt"] = "".join(line + "\n" for line in lines).encode()
    return files


def write_info(directory, folder=""):
    """Writes the files of `info_files` into a new folder in a directory, and returns the name of that folder."""
    for name, data in info_files(folder).items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    return name_of(".dist-info", folder)


def write(directory, files, folder=""):
    """Writes a project's wheel, with RECORD, into a directory, and returns the wheel's name; the same files give the same bytes."""
    wheel, files, record = name_of(f"-{tag()}.whl", folder), {**files, **info_files(folder)}, []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
    place = name_of(".dist-info/RECORD", folder)
    files[place] = "".join([*record, f"{place},,\n"]).encode()
    with zipfile.ZipFile(os.path.join(directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            is_program = name.endswith("/bin/cellgrad") or ".so" in name or name.endswith(".dylib")
            about.external_attr = (0o100755 if is_program else 0o100644) << 16
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, data)
    return wheel


def build(directory, room):
    """Makes the wheel of cellgrad in a directory and returns the wheel's name."""
    return write(directory, entries(os.environ.get("CELLGRAD_PREFIX") or built(room), room))


def loader_of(build):
    """Makes the loader, the file that TensorFlow loads, in a configured build, and returns the loader's path."""
    make(build, LOADER[:-3] + ".la")
    return os.path.join(build, ".libs", LOADER)


def loader(room):
    """Returns the path of the loader, the file that TensorFlow loads: the one in CELLGRAD_PREFIX, else a new one, which is built in `room`
    without the library."""
    prefix = os.environ.get("CELLGRAD_PREFIX")
    return module_of(found(prefix), LOADER) if prefix else loader_of(configured(room, os.path.join(room, "prefix")))


def build_plugin(directory, room):
    """Makes the wheel of cellgrad-tensorflow in a directory and returns the wheel's name.  TensorFlow loads the file that the wheel has in
    tensorflow-plugins."""
    return write(directory, {f"tensorflow-plugins/{LOADER}": stripped(loader(room), room)}, PLUGIN)
