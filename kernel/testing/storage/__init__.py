"""The conformance suite of the storage seam: a backend that passes it can be put below the kernel.

A plugin adopts it in one line, in a file that pytest collects (pytest and pytest-trio have to be there):

    class TestMyStorage(StorageConformance, plugin=my_plugin): ...
"""

from __future__ import annotations

import pytest

# Before the modules are imported, so that a failing assertion shows its values.
PARTS = (
    "aborting",
    "appending",
    "lifecycle",
    "lookups",
    "random_walk",
    "reading",
    "removing",
    "replacing",
    "rewriting",
    "harness",
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in PARTS))

from tidelog.kernel.testing.storage.harness import StorageHarness, read_bytes, slice_bytes  # noqa: E402
from tidelog.kernel.testing.storage.model import ModelLog  # noqa: E402
from tidelog.kernel.testing.storage.suite import StorageConformance  # noqa: E402

__all__ = ["ModelLog", "StorageConformance", "StorageHarness", "read_bytes", "slice_bytes"]
