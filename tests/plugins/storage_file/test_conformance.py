"""The storage in files keeps the contract of the storage seam, with each index format."""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

import pytest

from tidelog.kernel.testing.storage import StorageConformance
from tidelog.plugins.index_memory import plugin as index_memory
from tidelog.plugins.storage_file import plugin as storage_file


class TestFileStorage(StorageConformance, plugin=storage_file): ...


@pytest.mark.long
@pytest.mark.in_memory
class TestFileStorageWithIndexesInMemory(StorageConformance, plugin=storage_file):
    settings: ClassVar[dict[str, object]] = {"log.index.format": "memory"}
    index_formats: ClassVar[ModuleType | None] = index_memory
