"""The file backend passes the conformance suite."""

from __future__ import annotations

from tidelog.kernel.testing.storage import StorageConformance
from tidelog.plugins import storage_file


class TestFileStorage(StorageConformance, plugin=storage_file): ...
