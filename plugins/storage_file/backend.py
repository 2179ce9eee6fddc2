"""The backend `file`, as the configuration key `storage` names it."""

from __future__ import annotations

from tidelog.kernel.seams.storage import Storage, StorageContext


class FileBackend:
    """Logs in files, in Apache Kafka's own formats."""

    name = "file"
    durable = True

    def create(self, context: StorageContext) -> Storage:
        """Return a storage that is not open yet; its modules are imported now."""
        from tidelog.plugins.storage_file.storage import FileStorage

        return FileStorage(context)
