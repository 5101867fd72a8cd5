# SPDX-License-Identifier: Apache-2.0
"""The build backend of cellgrad-tensorflow, as PEP 517 defines it: python/build of the same source makes the wheel.

The environment variables are those of python/build/cellgrad_build.py.
"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build"))

import cellgrad_project  # noqa: E402
import cellgrad_wheel  # noqa: E402


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return cellgrad_wheel.write_info(metadata_directory, cellgrad_project.PLUGIN)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory(prefix="cellgrad-") as room:
        return cellgrad_wheel.build_plugin(wheel_directory, room)


def build_sdist(sdist_directory, config_settings=None):
    raise cellgrad_project.BuildFailure("cellgrad-tensorflow has no sdist of its own: its source is python/plugin in that of cellgrad")
