"""The memory backend passes the conformance suite."""

from __future__ import annotations

from tidelog.kernel.testing.storage import StorageConformance
from tidelog.plugins.storage_memory import plugin as storage_memory


class TestMemoryStorage(StorageConformance, plugin=storage_memory): ...
