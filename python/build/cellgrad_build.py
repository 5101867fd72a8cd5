# SPDX-License-Identifier: Apache-2.0
"""The build backend, PEP 517, of the standard library alone.

Environment: CELLGRAD_PREFIX takes an installed library rather than building; CELLGRAD_CONFIGURE and CELLGRAD_MAKE are more arguments
for configure and make.
"""
import tempfile

import cellgrad_sdist
import cellgrad_wheel


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return cellgrad_wheel.write_info(metadata_directory)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory(prefix="cellgrad-") as room:
        return cellgrad_wheel.build(wheel_directory, room)


def build_sdist(sdist_directory, config_settings=None):
    with tempfile.TemporaryDirectory(prefix="cellgrad-") as room:
        return cellgrad_sdist.build(sdist_directory, room)
