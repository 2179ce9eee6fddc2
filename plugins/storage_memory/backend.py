"""The backend `memory`, as the configuration key `storage` names it."""

from __future__ import annotations

from tidelog.kernel.seams.storage import Storage, StorageContext


class MemoryBackend:
    """Logs in the memory of this process; each storage that it creates is empty."""

    name = "memory"
    durable = False

    def create(self, context: StorageContext) -> Storage:
        """Return a storage that is not open yet."""
        from tidelog.plugins.storage_memory.storage import MemoryStorage

        return MemoryStorage(context)
