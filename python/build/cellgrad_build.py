# SPDX-License-Identifier: Apache-2.0
"""The build backend, PEP 517, of the standard library alone.

Environment: CELLGRAD_PREFIX takes an installed library rather than building; CELLGRAD_CONFIGURE and CELLGRAD_MAKE are more arguments
for configure and make.
"""
import os
import tempfile

import cellgrad_sdist
import cellgrad_wheel


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    for name, data in cellgrad_wheel.info_files().items():
        path = os.path.join(metadata_directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    return cellgrad_wheel.name_of(".dist-info")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory(prefix="cellgrad-") as room:
        return cellgrad_wheel.build(wheel_directory, room)


def build_sdist(sdist_directory, config_settings=None):
    with tempfile.TemporaryDirectory(prefix="cellgrad-") as room:
        return cellgrad_sdist.build(sdist_directory, room)
