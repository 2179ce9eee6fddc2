"""CRC-32C, the checksum of record batches and of files, as a function in C."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from crc32c import crc32c

_PACKAGE = "crc32c"


def _compiled() -> ModuleType | None:
    """Load the package's compiled module without the package; return None if it is not found as a file.

    The package itself imports a command line and reads its version from the installed files, which takes ten
    times as long. The module is not registered: a later import of the package is an ordinary one.
    """
    package = PathFinder.find_spec(_PACKAGE)
    if package is None or package.submodule_search_locations is None:
        return None
    found = PathFinder.find_spec(f"{_PACKAGE}._crc32c", package.submodule_search_locations)
    if found is None or found.loader is None:
        return None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


if not TYPE_CHECKING:
    _module = None if _PACKAGE in sys.modules else _compiled()
    if _module is None:
        from crc32c import crc32c
    else:
        # The function itself: one of Python around it would cost as much as the checksum of a small batch.
        crc32c = _module.crc32c

__all__ = ["crc32c"]
