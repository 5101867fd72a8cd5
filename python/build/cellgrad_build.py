# SPDX-License-Identifier: Apache-2.0
"""The build backend for pip, as PEP 517 defines it; of Python packages it needs the standard library alone.

Environment variables: CELLGRAD_PREFIX is the prefix of an installed library, which the backend then packs instead of building one;
CELLGRAD_CONFIGURE and CELLGRAD_MAKE have further arguments for the configure and make that build a wheel.
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
