"""Hooks of the storage `memory`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.storage import Storage, StorageBackend, StorageContext


class MemoryStorageBackend:
    """Logs in the memory of this process; each storage that it creates is empty."""

    name = "memory"
    durable = False

    def create(self, context: StorageContext) -> Storage:
        """Return a storage that is not open yet."""
        from tidelog.plugins.storage_memory.storage import MemoryStorage

        return MemoryStorage(context)


@hookimpl
def tidelog_storage_backends() -> Iterable[StorageBackend]:
    """Offer the backend `memory`."""
    return (MemoryStorageBackend(),)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of segments."""
    from tidelog.kernel.config import declared_keys
    from tidelog.kernel.seams.storage import keys

    return declared_keys(keys)
