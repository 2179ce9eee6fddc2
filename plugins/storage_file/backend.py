"""The backend `file`, as the configuration key `storage` names it."""

from __future__ import annotations

import attrs

from tidelog.kernel.storage import Storage, StorageContext


@attrs.frozen
class FileBackend:
    """Logs in files, in Apache Kafka's own formats."""

    name: str = "file"
    durable: bool = True

    def create(self, context: StorageContext) -> Storage:
        """A storage that is not open yet; the modules that do the work are loaded now."""
        from tidelog.plugins.storage_file.storage import FileStorage

        return FileStorage(context)
